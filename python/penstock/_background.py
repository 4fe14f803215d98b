# SPDX-License-Identifier: Apache-2.0
"""Work in background threads: loading, and what of a save comes after the copy."""
import contextlib
import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from typing import Any

from ._atomic_writer import Writer


@contextlib.contextmanager
def gc_disabled() -> Iterator[None]:
    """Of thousands of tensors all are kept: looking for garbage among them takes longer than making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run_in_background(call: Callable[[], None], name: str, keep: Iterable[Any] = ()) -> 'Future[None]':
    """In a thread that is none that Python forgets: a program that ends waits for it.

    keep: memory that it uses, which lives until it is over even if nobody waits for that.
    """
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_run, args=(call, future, list(keep)), name=name).start()
    return future


def _run(call: Callable[[], None], future: 'Future[None]', kept: list[Any]) -> None:
    try:
        call()
    except BaseException as error:
        kept.clear()
        future.set_exception(error)
    else:
        kept.clear()
        future.set_result(None)


def join_background(future: 'Future[None]') -> None:
    """Until it is over; a second exception of a signal's ends that.  Raises what failed there."""
    try:
        future.result()
    except BaseException:  # Ctrl-C, or its own
        wait([future])
        raise


def start_save(file: Writer, send: Callable[[], None], in_background: bool) -> 'Future[None]':
    """Write, which copies, now or in the background; make it durable and visible in the background.

    What fails in the storage fails in the future, everything else here.
    """
    def end() -> None:
        if in_background:
            _send_or_abort(file, send)
        file.commit()

    file.queue_commit()
    try:
        if not in_background:
            _send_or_abort(file, send)
    except OSError as error:
        failed: Future[None] = Future()
        failed.set_exception(error)
        return failed
    try:
        return run_in_background(end, 'penstock-save')
    except RuntimeError:  # there is no thread for it
        file.abort()
        raise


def _send_or_abort(file: Writer, send: Callable[[], None]) -> None:
    try:
        send()
    except BaseException:
        file.abort()
        raise
