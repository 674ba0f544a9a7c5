"""Batches: requests of a program that run together."""

import concurrent.futures
import ctypes
import itertools
import os
import threading
import typing

from . import _library
from ._arguments import pointers
from ._errors import InvalidArgument, check, error_of
from ._library import DONE, BatchOptions, lib
from ._session import machine_options
from ._values import Handle, from_handle


class BatchStats(typing.NamedTuple):
    """What a batch did: requests that ended, kernel calls that waited for others, and the groups in which these ran."""

    requests: int
    calls: int
    groups: int


class Request(concurrent.futures.Future):
    """A request of a batch, as a future. `cancel()` ends it, also while it runs."""

    def __init__(self, batch, handles):
        super().__init__()
        self._batch, self._handles, self._ticket = batch, handles, ctypes.c_uint64()

    def cancel(self):
        if super().cancel() and self._batch:
            lib.rvm_batch_cancel(self._batch, self._ticket)
        return self.cancelled()

    def result(self, timeout=None):
        # Values are made by the thread that wants them, not by the one that drives the batch.
        return from_handle(super().result(timeout))

    def _end(self, error, handle):
        self._batch = self._handles = None
        try:
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(handle)
        except concurrent.futures.InvalidStateError:
            pass  # it was cancelled


_requests = {}  # that have not ended, of all batches, by number
_numbers = itertools.count(1)


@DONE
def _done(number, error, result):
    _requests.pop(number)._end(error_of(error) if error else None, Handle(result) if result else None)


def _drive(pointer, is_closed):
    """Runs the requests of a batch until it is closed; then frees it."""
    while not is_closed.is_set():
        check(lib.rvm_batch_drive(pointer, 100))
    lib.rvm_batch_free(pointer)


class Batch:
    """Requests of a program that run together, on a thread of their own. Any thread may make them.

    lanes: requests that run at once; others wait. The other limits are those of Session, for each request; `threads` work for
    all of them. Kernel calls of requests become one where the program was compiled with `batch=True`. A result has the
    same bits whatever ran beside it.

    >>> program = load("lists.rvm")
    >>> with program.batch(lanes=4) as batch:
    ...     [int(total) for total in batch.map([[1, 2, 3], [4, 5], []])]
    [6, 9, 0]
    """

    def __init__(self, executable, *, lanes=8, threads=1, memory_limit=None, stack_limit=None, fuel=None, time_limit=None):
        self._pointer, self._executable = None, executable
        if not lanes > 0:
            raise InvalidArgument(f"`lanes` is {lanes}; expected more than 0", "invalid-argument")
        machine, out = machine_options(threads, memory_limit, stack_limit, fuel, time_limit), ctypes.c_void_p()
        options = BatchOptions(ctypes.sizeof(BatchOptions), lanes, ctypes.pointer(machine))
        check(lib.rvm_batch_create(executable._pointer, ctypes.byref(options), ctypes.byref(out)))
        self._pointer, self._process, self._is_closed = out.value, os.getpid(), threading.Event()
        threading.Thread(target=_drive, args=(self._pointer, self._is_closed), name="relayvm batch", daemon=True).start()

    def close(self):
        """Cancels the requests that have not ended, and frees the memory. No other thread may use the batch meanwhile."""
        pointer, self._pointer = self._pointer, None
        if pointer is None or self._process != os.getpid():
            return
        for request in list(_requests.values()):
            if request._batch == pointer:
                request.cancel()
        self._is_closed.set()

    def __del__(self):
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        raise TypeError("a batch cannot be copied or pickled; its executable can, and makes others")

    def submit(self, /, *args, entry="main", **kwargs):
        """Makes a Request, whose `result()` waits for the result of the entry."""
        pointer = self._open()
        entry = self._executable._entry(entry)
        handles = entry.handles(args, kwargs)
        number, request = next(_numbers), Request(pointer, handles)
        _requests[number] = request
        error = lib.rvm_batch_submit(pointer, entry.encoded, pointers(handles), len(handles), None, _done, number,
                                     ctypes.byref(request._ticket))
        if error:
            del _requests[number]
            check(error)
        return request

    def map(self, /, *iterables, entry="main"):
        """Runs an entry on the elements of iterables, as map() does, and gives the results as a list. The first error among
        them is raised when all have ended."""
        requests = [self.submit(*args, entry=entry) for args in zip(*iterables)]
        try:
            concurrent.futures.wait(requests)
        except BaseException:  # KeyboardInterrupt
            for request in requests:
                request.cancel()
            raise
        return [request.result() for request in requests]

    async def call_async(self, /, *args, entry="main", **kwargs):
        """Runs an entry. Cancelling the task cancels the request."""
        import asyncio  # whoever calls this has it; others save its memory
        return await asyncio.wrap_future(self.submit(*args, entry=entry, **kwargs))

    def _open(self):
        if self._pointer is None:
            raise InvalidArgument("the batch is closed", "invalid-argument")
        if self._process != os.getpid():
            raise InvalidArgument("the batch belongs to the process that this one was forked from; make one in this process",
                                  "invalid-argument")
        return self._pointer

    @property
    def stats(self):
        """BatchStats of now."""
        stats = _library.BatchStats(ctypes.sizeof(_library.BatchStats))
        check(lib.rvm_batch_get_stats(self._open(), ctypes.byref(stats)))
        return BatchStats(stats.requests, stats.calls, stats.groups)
