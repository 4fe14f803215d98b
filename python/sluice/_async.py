# SPDX-License-Identifier: Apache-2.0
"""Saves that end behind the caller's back."""
import threading
from collections.abc import Callable
from concurrent.futures import Future

from ._writer import Writer


def start(file: Writer, send: Callable[[], None]) -> 'Future[None]':
    """Write now, which copies; make it durable and visible in a thread.

    The thread is none that Python forgets: a program that ends waits for it.  What fails in the
    storage fails in the future, everything else here.
    """
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    try:
        send()
    except OSError as error:
        file.abort()
        future.set_exception(error)
        return future
    except BaseException:
        file.abort()
        raise
    threading.Thread(target=_finish, args=(file, future), name='sluice-save').start()
    return future


def _finish(file: Writer, future: 'Future[None]') -> None:
    try:
        file.commit()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(None)
