"""Requests that run together: from Python, by threads and by asyncio."""

import asyncio
import concurrent.futures
import os
import unittest

import relayvm as tools
from python_test import packages

# Ends by data: the smallest n whose square is at least the limit; less than 0, it never ends, and at 0 no clause fits.
PROGRAM = """
def @count(%n: int32, %limit: int32) -> int32 {
  if (%limit < 0) { @count(%n, %limit) } else { if (%limit <= %n * %n) { %n } else { @count(%n + 1, %limit) } }
}
def @main(%limit: int32) -> int32 {
  match? (%limit == 0) { False => @count(0, %limit) }
}
def @pair(%limit: int32, %scale: int32) -> int32 { @main(%limit) * %scale }
"""


class Batch(tools.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.relayvm = packages()
        cls.program = cls.relayvm.compile(PROGRAM, target="portable", entries=["main", "pair"])

    def test_map(self):
        with self.program.batch(lanes=3) as batch:
            self.assertEqual([int(n) for n in batch.map(range(1, 50))], [int(self.program(n)) for n in range(1, 50)])
            self.assertEqual([int(n) for n in batch.map([4, 9], [10, 100], entry="pair")], [20, 300])
            self.assertEqual(batch.stats.requests, 51)

    def test_errors_are_those_of_their_request(self):
        with self.program.batch() as batch:
            good, bad, wrong = batch.submit(16), batch.submit(0), batch.submit(1, entry="pair", scale=3)
            self.assertEqual(int(good.result()), 4)
            self.assertEqual(int(wrong.result()), 3)
            with self.assertRaisesRegex(self.relayvm.ProgramFailed, "no clause"):
                bad.result()
            self.assertIn("in `main`", bad.exception().backtrace)
            with self.assertRaisesRegex(self.relayvm.ProgramFailed, "no clause"):
                batch.map([1, 0, 4])
            with self.assertRaisesRegex(self.relayvm.InvalidArgument, "no entry `other`"):
                batch.submit(1, entry="other")
            with self.assertRaisesRegex(self.relayvm.InvalidArgument, "argument 1"):
                batch.submit("x")

    def test_limits(self):
        with self.program.batch(fuel=20) as batch:
            short, long = batch.submit(16), batch.submit(1 << 20)
            self.assertEqual(int(short.result()), 4)
            with self.assertRaises(self.relayvm.ResourceExhausted):
                long.result()
        for options in ({"lanes": 0}, {"lanes": 5000}, {"threads": 0}, {"fuel": -1}):
            with self.subTest(options=options), self.assertRaises(self.relayvm.InvalidArgument):
                self.program.batch(**options)

    def test_cancel(self):
        with self.program.batch(lanes=1) as batch:
            endless, waiting = batch.submit(-1), batch.submit(-1)
            self.assertTrue(waiting.cancel())
            self.assertTrue(endless.cancel())
            with self.assertRaises(concurrent.futures.CancelledError):
                endless.result()
            self.assertEqual(int(batch.submit(9).result()), 3)  # its lane is free again
            self.assertFalse(batch.submit(9).cancelled())

    def test_close_ends_what_runs(self):
        batch = self.program.batch(lanes=2)
        requests = [batch.submit(-1) for _ in range(4)]
        batch.close()
        batch.close()
        self.assertTrue(all(request.cancelled() for request in requests))
        with self.assertRaisesRegex(self.relayvm.InvalidArgument, "the batch is closed"):
            batch.submit(1)

    def test_asyncio(self):
        async def main():
            with self.program.batch(lanes=4) as batch:
                results = await asyncio.gather(*(batch.call_async(n * n) for n in range(1, 20)))
                self.assertEqual([int(n) for n in results], list(range(1, 20)))
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(batch.call_async(-1), 0.05)
                self.assertEqual(int(await batch.call_async(25)), 5)

        asyncio.run(main())

    def test_threads(self):
        with self.program.batch(lanes=4) as batch, concurrent.futures.ThreadPoolExecutor(8) as threads:
            results = list(threads.map(lambda n: int(batch.submit(n * n).result()), range(1, 200)))
        self.assertEqual(results, list(range(1, 200)))

    def test_child_of_a_fork_makes_its_own(self):
        with self.program.batch() as batch:
            child = os.fork()
            if child == 0:
                try:
                    batch.submit(4)
                except self.relayvm.InvalidArgument:
                    with self.program.batch() as other:
                        os._exit(int(other.submit(4).result()))
                os._exit(1)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 2)
            self.assertEqual(int(batch.submit(9).result()), 3)


if __name__ == "__main__":
    unittest.main()
