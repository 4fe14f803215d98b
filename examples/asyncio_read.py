# SPDX-License-Identifier: Apache-2.0
"""Read many files at once from an event loop, and go on with what is there first."""
import asyncio
import os
import tempfile

import penstock

FILES, SIZE = 64, 256 * 1024


async def checksum(h, path):
    buffer = bytearray(SIZE)
    await h.read_async(buffer, path)  # the loop serves others meanwhile
    return path, sum(buffer[::4096])


async def main(h, paths):
    total = 0
    for ready in asyncio.as_completed([checksum(h, p) for p in paths]):
        path, value = await ready
        total += value

    try:
        await checksum(h, paths[0] + '.missing')
    except FileNotFoundError as e:
        print(f'as expected: {e.strerror}')
    return total


with tempfile.TemporaryDirectory(dir='.') as folder, penstock.Handle() as h:
    paths = [os.path.join(folder, f'{i:02}') for i in range(FILES)]
    h.write_batch((os.urandom(SIZE), p) for p in paths)
    total = asyncio.run(main(h, paths))
    print(f'{FILES} files of {SIZE} bytes read, checksum {total}')
