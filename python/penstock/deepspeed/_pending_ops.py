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


class PendingOp:
    claimed_by: object  # the call that counts it, from then on

    def __init__(self, future: _penstock.Future | None, buffer: Any, error: OSError | None = None,
                 validate: Callable[[], None] | None = None) -> None:
        self.future = future
        self.buffer = buffer  # kept until somebody has waited
        self.error = error  # that the file system gave at submission; there is no future then
        self.validate = validate  # called when it has succeeded

    def wait_error(self) -> BaseException | None:
        """Wait for the end; returns what went wrong."""
        return self.future.exception() if self.future else self.error

    def wait_and_validate(self) -> BaseException | None:
        """The same, for the call that counts it."""
        error = self.wait_error()
        if error is None and self.validate:
            self.validate()
        return error

    def claim(self, call: object) -> bool:
        """Is it @call that counts it?  The first to ask does, for ever unless it calls unclaim()."""
        return vars(self).setdefault('claimed_by', call) is call

    def claimed(self) -> bool:
        return 'claimed_by' in vars(self)

    def unclaim(self, call: object) -> None:
        """It was @call that would have counted it, and will not."""
        if vars(self).get('claimed_by') is call:
            del self.claimed_by


class PendingOps:
    def __init__(self) -> None:
        self._ops: dict[PendingOp, None] = {}  # in the order of submission; not counted yet

    def empty(self) -> bool:
        """Nothing, or only what others are waiting for."""
        return all(op.claimed() for op in list(self._ops))

    def add(self, op: PendingOp) -> None:
        self._ops[op] = None

    def wait(self) -> int:
        """Until all of it has ended, what others are waiting for too; counts only those that this call claims."""
        return self._wait_claimed(None)

    def wait_with(self, op: PendingOp) -> int:
        """Until one more and all that nobody is waiting for have ended; counts them."""
        return self._wait_claimed(op)

    def wait_for(self, op: PendingOp) -> None:
        """Until this one has ended, which nobody counts."""
        try:
            error = op.wait_and_validate()
        except BaseException:  # Ctrl-C: now it is pending
            self.add(op)
            raise
        if error is not None:
            raise error

    def _wait_claimed(self, more: PendingOp | None) -> int:
        """Returns how many operations there were, or raises the first failure."""
        call = object()
        claimed: list[PendingOp] = []
        try:
            if more:
                more.claim(call)
                self.add(more)
            ops = list(self._ops)
            claimed += [op for op in ops if op.claim(call)]
            if not more and len(claimed) < len(ops):  # others wait for some of them
                for op in ops:
                    op.wait_error()
            errors = [error for op in claimed if (error := op.wait_and_validate()) is not None]
            for op in claimed:
                del self._ops[op]
            if not errors:
                return len(claimed)
        except BaseException:  # Ctrl-C: they are still pending
            for op in claimed:
                self.add(op)
            for op in list(self._ops):
                op.unclaim(call)
            raise
        raise first_error(errors, len(claimed))


def first_error(errors: list[BaseException], ops: int) -> BaseException:
    if len(errors) > 1:
        errors[0].add_note(f'{len(errors)} of {ops} operations failed; this is the first')
    return errors[0]
