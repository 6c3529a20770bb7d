# SPDX-License-Identifier: MIT
"""asyncio's event loop where there are no sockets: timers, tasks and futures.

Stands in for asyncio.unix_events, whose loop wakes itself through a socket pair.
Nothing here waits for a descriptor: the loop runs what is ready and sleeps until the
next timer. A program that waits for nothing that could happen is told so.
"""

import time

from . import base_events, events

__all__ = ("SelectorEventLoop", "EventLoop")


class _Clock:
    """What the base class calls a selector: only time can pass."""

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("the event loop waits for nothing that could happen")
        if timeout > 0:
            time.sleep(timeout)
        return ()


class SelectorEventLoop(base_events.BaseEventLoop):
    def __init__(self, selector=None):
        super().__init__()
        self._selector = _Clock()

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass


EventLoop = SelectorEventLoop
_UnixSelectorEventLoop = SelectorEventLoop


class _DefaultEventLoopPolicy(events._BaseDefaultEventLoopPolicy):
    _loop_factory = SelectorEventLoop


_UnixDefaultEventLoopPolicy = _DefaultEventLoopPolicy
