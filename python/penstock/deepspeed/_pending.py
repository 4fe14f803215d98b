# SPDX-License-Identifier: Apache-2.0
"""What has been submitted on a handle and not been waited for.

A wait claims everything that is pending, so each operation is counted once, by one call.  There
is no lock, which a signal handler that uses the handle in the midst of such a call would wait for
in vain: what threads and handlers share changes in single steps that nothing comes between, one
operation on a dict each.
"""
from collections.abc import Callable
from typing import Any

from .. import _penstock


class Op:
    counter: object  # the call that counts it, from then on

    def __init__(self, future: _penstock.Future | None, buffer: Any, error: OSError | None = None,
                 after: Callable[[], None] | None = None) -> None:
        self.future = future
        self.buffer = buffer  # kept until somebody has waited
        self.error = error  # that the file system gave at submission; there is no future then
        self.after = after  # called when it has succeeded

    def finish(self) -> BaseException | None:
        """Wait for the end; returns what went wrong."""
        return self.future.exception() if self.future else self.error

    def settle(self) -> BaseException | None:
        """The same, for the one who counts it."""
        error = self.finish()
        if error is None and self.after:
            self.after()
        return error

    def claim(self, call: object) -> bool:
        """Is it @call that counts it?  The first to ask does, for ever unless it lets go."""
        return vars(self).setdefault('counter', call) is call

    def claimed(self) -> bool:
        return 'counter' in vars(self)

    def let_go(self, call: object) -> None:
        """It was @call that would have counted it, and will not."""
        if vars(self).get('counter') is call:
            del self.counter


class Pending:
    def __init__(self) -> None:
        self._ops: dict[Op, None] = {}  # in the order of submission; not counted yet

    def empty(self) -> bool:
        """Nothing, or only what others are waiting for."""
        return all(op.claimed() for op in list(self._ops))

    def add(self, op: Op) -> None:
        self._ops[op] = None

    def wait(self) -> int:
        """Until all of it has ended, what others are waiting for too; counts only ours."""
        return self._drain(None)

    def wait_with(self, op: Op) -> int:
        """Until one more and all that nobody is waiting for have ended; counts them."""
        return self._drain(op)

    def wait_for(self, op: Op) -> None:
        """Until this one has ended, which nobody counts."""
        try:
            error = op.settle()
        except BaseException:  # Ctrl-C: now it is pending
            self.add(op)
            raise
        if error is not None:
            raise error

    def _drain(self, more: Op | None) -> int:
        """Returns how many operations there were, or raises the first failure."""
        call = object()
        ours: list[Op] = []
        try:
            if more:
                more.claim(call)
                self.add(more)
            ops = list(self._ops)
            ours += [op for op in ops if op.claim(call)]
            if not more and len(ours) < len(ops):  # others wait for some of them
                for op in ops:
                    op.finish()
            errors = [error for op in ours if (error := op.settle()) is not None]
            for op in ours:
                del self._ops[op]
            if not errors:
                return len(ours)
        except BaseException:  # Ctrl-C: they are still pending
            for op in ours:
                self.add(op)
            for op in list(self._ops):
                op.let_go(call)
            raise
        raise first(errors, len(ours))


def first(errors: list[BaseException], ops: int) -> BaseException:
    if len(errors) > 1:
        errors[0].add_note(f'{len(errors)} of {ops} operations failed; this is the first')
    return errors[0]
