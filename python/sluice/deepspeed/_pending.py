# SPDX-License-Identifier: Apache-2.0
"""What has been submitted on a handle and not been waited for.

A wait takes everything that is pending, so each operation is counted once, by one thread.  It
waits without the lock: other threads go on submitting meanwhile.
"""
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _sluice


class Op(NamedTuple):
    future: _sluice.Future | None
    buffer: Any  # kept until somebody has waited
    error: OSError | None = None  # that the file system gave at submission; there is no future then
    after: Callable[[], None] | None = None  # called when it has succeeded

    def finish(self) -> BaseException | None:
        """Wait for the end; returns what went wrong."""
        return self.future.exception() if self.future else self.error


class Pending:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ops: list[Op] = []
        self._taken: list[list[Op]] = []  # by threads that are waiting for them now

    def empty(self) -> bool:
        return not self._ops

    def add(self, op: Op) -> None:
        with self._lock:
            self._ops.append(op)

    def wait(self) -> int:
        """Until all of it has ended, what other threads are waiting for too; counts only ours."""
        with self._lock:
            others = [op for batch in self._taken for op in batch]
            batch = self._take([])
        return self.drain(batch, others)

    def take_with(self, start: Callable[[], Op]) -> list[Op]:
        """All of it and one more, to be drained; nothing is taken if that one cannot be started."""
        with self._lock:
            return self._take([start()])

    def _take(self, more: list[Op]) -> list[Op]:
        batch, self._ops = self._ops + more, []
        self._taken.append(batch)
        return batch

    def drain(self, batch: list[Op], others: Sequence[Op] = ()) -> int:
        """Wait for a batch.  Returns how many there were, or raises the first failure."""
        try:
            for op in others:
                op.finish()
            errors = [error for op in batch if (error := settle(op)) is not None]
        except BaseException:  # Ctrl-C: they are still pending
            with self._lock:
                self._ops[:0] = batch
            raise
        finally:
            with self._lock:
                self._taken = [b for b in self._taken if b is not batch]
        if errors:
            raise first(errors, len(batch))
        return len(batch)


def settle(op: Op) -> BaseException | None:
    error = op.finish()
    if error is None and op.after:
        op.after()
    return error


def first(errors: list[BaseException], ops: int) -> BaseException:
    if len(errors) > 1:
        errors[0].add_note(f'{len(errors)} of {ops} operations failed; this is the first')
    return errors[0]
