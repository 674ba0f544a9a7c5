"""Streams: what a running program emits, as an iterator."""

import collections
import threading


class _Closed(Exception):
    """Ends a run whose consumer has stopped."""


class _Channel:
    """What the consumer of a stream and the thread of its run share. Neither owns the other."""

    def __init__(self, ahead):
        self.condition = threading.Condition()
        self.values = collections.deque()
        self.ahead = ahead
        self.wanted = 0  # values that the consumer has asked for
        self.emitted = 0
        self.is_closed = self.is_done = False
        self.result = self.error = None
        self.waiter = None  # what wakes a task that waits

    def emit(self, *values):
        """The function that the program calls. Returns once the consumer lets the program go on."""
        with self.condition:
            self.values.append(values[0] if len(values) == 1 else values)
            self.emitted += 1
            self._wake()
            while self.emitted >= self.wanted + self.ahead and not self.is_closed:
                self.condition.wait()
            if self.is_closed:
                raise _Closed

    def finish(self, result, error):
        with self.condition:
            self.is_done, self.result, self.error = True, result, error
            self._wake()

    def close(self):
        with self.condition:
            self.is_closed = True
            self.values.clear()
            self._wake()

    def want(self):
        with self.condition:
            self.wanted = self.emitted - len(self.values) + 1
            self._wake()

    def is_ready(self):
        return self.values or self.is_done or self.is_closed

    def wait(self):
        with self.condition:
            while not self.is_ready():
                self.condition.wait()

    def _wake(self):
        self.condition.notify_all()
        waiter, self.waiter = (self.waiter, None) if self.is_ready() else (None, self.waiter)
        if waiter is not None:
            waiter()


def _run(channel, session, entry, handles, limits, convert):
    result = error = None
    try:
        result = convert(session._invoke(entry, handles, **limits))
    except BaseException as raised:
        error = raised
    channel.finish(result, error)


class Stream:
    """What a running program emits, for `for` and `async for`: Session.stream makes it.

    The run has a thread of its own, begins with the first value that is asked for, and waits while the consumer is busy.
    Errors of the run come out of the iteration, and exceptions of functions that were passed in are themselves.
    A consumer that stops early cancels the run: by close(), at the end of a `with` block, or when the stream is freed.
    `result` is what the entry gave, once the stream has ended.
    """

    def __init__(self, session, entry, args, kwargs, ahead, limits, convert):
        self._session, self._thread = session, None
        self._channel = _Channel(ahead)
        handles = entry.handles_with(self._channel.emit, args, kwargs)
        self._arguments = (self._channel, session, entry, handles, limits, convert)

    @property
    def result(self):
        """What the entry gave; None before the end."""
        return self._channel.result

    def _want(self):
        if self._thread is None:
            self._thread = threading.Thread(target=_run, args=self._arguments, daemon=True)
            self._arguments = None
            self._thread.start()
        self._channel.want()

    def _take(self, end):
        channel = self._channel
        if channel.values:
            return channel.values.popleft()
        error, channel.error = channel.error, None
        if error is not None and not channel.is_closed:
            raise error
        raise end

    def __iter__(self):
        return self

    def __next__(self):
        if not self._channel.is_ready():
            self._want()
            self._channel.wait()
        elif self._channel.values:
            self._channel.want()
        return self._take(StopIteration(self._channel.result))

    def __aiter__(self):
        return self

    async def __anext__(self):
        import asyncio  # whoever calls this has it; others save its memory
        channel = self._channel
        if not channel.is_ready():
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            channel.waiter = lambda: loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))
            self._want()
            try:
                await future
            except asyncio.CancelledError:
                await self.aclose()
                raise
        elif channel.values:
            channel.want()
        return self._take(StopAsyncIteration())

    def close(self):
        """Cancels the run, and waits for its end."""
        self._channel.close()
        self._arguments = None
        while self._thread is not None and self._thread.is_alive():
            self._session.cancel()
            self._thread.join(0.001)

    async def aclose(self):
        """close() for tasks."""
        import asyncio
        self._channel.close()
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()

    def __del__(self):
        # The run ends soon; nobody waits for it.
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.is_alive():
            self._channel.close()
            self._session.cancel()
