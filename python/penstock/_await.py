# SPDX-License-Identifier: Apache-2.0
"""`await future`: how a penstock.Future is waited for in an event loop."""
import asyncio
from collections.abc import Generator
from typing import Any

from ._penstock import Future


def _hand_over(future: Future, waiter: 'asyncio.Future[int]') -> None:
    """In the event loop: the operation has ended."""
    if waiter.cancelled():
        return  # nobody awaits it any more; a failure is told by Handle.wait()
    error = future.exception()
    if error is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(future.result())


def iterate(future: Future) -> Generator[Any, None, int]:
    """The iterator that Future.__await__() returns."""
    if future.done():
        return future.result()
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[int] = loop.create_future()

    def tell(_: Future) -> None:
        try:
            loop.call_soon_threadsafe(_hand_over, future, waiter)
        except RuntimeError:
            pass  # the loop is closed, and with it everybody who could be told

    future.add_done_callback(tell)
    return (yield from waiter)
