# SPDX-License-Identifier: Apache-2.0
"""`await future`: how a penstock.Future is waited for in an event loop."""
import asyncio
from collections.abc import Generator
from typing import Any

from ._penstock import Future


def _set_outcome(future: Future, loop_future: 'asyncio.Future[int]') -> None:
    """In the event loop: the operation has ended."""
    if loop_future.cancelled():
        return  # nobody awaits it any more; Handle.wait() raises a failure
    error = future.exception()
    if error is not None:
        loop_future.set_exception(error)
    else:
        loop_future.set_result(future.result())


def iterate_await(future: Future) -> Generator[Any, None, int]:
    """The iterator that Future.__await__() returns."""
    if future.done():
        return future.result()
    loop = asyncio.get_running_loop()
    loop_future: asyncio.Future[int] = loop.create_future()

    def notify_loop(_: Future) -> None:
        try:
            loop.call_soon_threadsafe(_set_outcome, future, loop_future)
        except RuntimeError:
            pass  # the loop is closed, so nothing awaits the future any more

    future.add_done_callback(notify_loop)
    return (yield from loop_future)
