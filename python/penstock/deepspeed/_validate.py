# SPDX-License-Identifier: Apache-2.0
"""validate=True: read the file again by ordinary read(2) and compare."""
import os

import torch

from ._args import Target
from ._tensor import host_bytes

CHUNK = 8 << 20


def matches(fd: int, offset: int, expected: torch.Tensor) -> tuple[int, bool]:
    """Bytes read, and whether they are @expected."""
    chunk = bytearray(min(CHUNK, max(expected.numel(), 1)))
    there = torch.frombuffer(chunk, dtype=torch.uint8)
    done, same = 0, True
    while done < expected.numel():
        n = os.preadv(fd, [memoryview(chunk)[:expected.numel() - done]], offset + done)
        if n == 0:
            return done, False
        same = same and torch.equal(there[:n], expected[done:done + n])
        done += n
    return done, same


def report(kind: str, target: Target, offset: int, buffer: torch.Tensor) -> None:
    """Print the two lines DeepSpeed prints.  @kind: read or write."""
    path = f'/proc/self/fd/{target}' if isinstance(target, int) else target
    size, same = 0, False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        pass
    else:
        try:
            size, same = matches(fd, offset, host_bytes(buffer))
        except OSError:
            same = False
        finally:
            os.close(fd)
    name = os.fsdecode(target) if isinstance(target, bytes) else target
    print(f'regular read of {name} returned {size} bytes')
    verdict = 'Pass: correctness of ' if same else 'Fail: correctness of'
    print(f'{verdict} deepspeed_aio_{kind}()using read()')
