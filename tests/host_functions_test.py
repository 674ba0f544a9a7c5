"""Functions of the host that programs call, and closures that the host calls: streams, order, cancelling, exceptions."""

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref

import numpy

import python_test
import relayvm as tools

EXAMPLE = os.path.join(tools.ROOT, "examples/streaming")
PROGRAM = """
def @main(%emit: fn (int32) -> (), %n: int32) -> int32 { @upto(%emit, 0, %n) }
def @upto(%emit: fn (int32) -> (), %i: int32, %n: int32) -> int32 {
  if (%i == %n) { %n } else { %emit(%i); @upto(%emit, %i + 1, %n) }
}
def @spin(%emit: fn (int32) -> (), %n: int64) -> int64 { %emit(1); @count(%n) }
def @count(%n: int64) -> int64 { if (%n <= 0i64) { %n } else { @count(%n - 1i64) } }
def @ask(%f: fn (Tensor[(2), float32], int32) -> (Tensor[(2), float32], bool), %x: Tensor[(2), float32])
    -> (Tensor[(2), float32], bool) {
  let (%y, %b) = %f(%x, 7);
  (%y + %x, %b)
}
def @counter(%start: int32) -> fn () -> int32 {
  let %next = ref(%start);
  fn () -> int32 { let %now = !%next; %next := %now + 1; %now }
}
// A cache that grows: (the number of rows that it has had, how to add one).
def @cache(%width: Tensor[(w), float32]) -> (fn () -> int64, fn (Tensor[(w), float32]) -> Tensor[(?, w), float32]) {
  let %rows = ref(zeros_like(stack((%width, %width))));
  let %seen = ref(0i64);
  (fn () -> int64 { !%seen },
   fn (%row: Tensor[(w), float32]) -> Tensor[(?, w), float32] {
     %seen := !%seen + 1i64;
     %rows := %row + !%rows;
     !%rows
   })
}
def @compose(%f: fn (int32) -> int32, %g: fn (int32) -> int32) -> fn (int32) -> int32 {
  fn (%x: int32) -> int32 { %f(%g(%x)) }
}
def @fails(%n: int32) -> int32 { match? (%n) { 0 => 0 } }
def @step(%last: float32, %token: int32) -> (float32, Tensor[(5), float32]) {
  let %next = 0.5f * %last + cast(%token, dtype="float32");
  (%next, Constant([0, 1, 2, 1, 0], (5), float32) * %next)
}
def @sampled_list(%limit: int32, %seed: uint64) -> List[int32] {
  @sampled(@step, 1f, Constant([1, 1, 1, 1, 1], (5), float32), [4], %limit, %seed, 1f, 0, 1f, 0f)
}
def @sampled_one_by_one(%limit: int32, %emit: fn (int32) -> (), %seed: uint64) -> float32 {
  @sampled_to(%emit, @step, 1f, Constant([1, 1, 1, 1, 1], (5), float32), [4], %limit, %seed, 1f, 0, 1f, 0f)
}
def @two(%a: fn (int32) -> (), %b: fn (int32, int32) -> (), %n: int32) -> () { %a(%n); %b(%n, %n + 1) }
"""
ENTRIES = ["main", "spin", "ask", "counter", "cache", "compose", "fails", "two", "sampled_list", "sampled_one_by_one"]


class HostFunctions(python_test.WithPackages, tools.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        builds = {f"-O{level}": {"opt_level": level} for level in range(4)}
        cls.builds = {name: cls.vm.compile(PROGRAM, entries=ENTRIES, **options)
                      for name, options in {**builds, "portable": {"target": "portable"}}.items()}
        cls.program = cls.builds["-O2"]

    def test_values_in_and_out(self):
        for program in self.builds.values():
            seen = []
            self.assertEqual(program(seen.append, 3), 3)
            self.assertEqual(seen, [0, 1, 2])

            def ask(x, n):
                seen.append((x.tolist(), int(n)))
                return x * 2, n == 7
            y, flag = program["ask"](ask, [1, 2])
            self.assertEqual((y.tolist(), bool(flag)), ([3, 6], True))
            self.assertEqual(seen[-1], ([1.0, 2.0], 7))

    def test_a_value_arrives_before_the_next_is_computed(self):
        for program in self.builds.values():
            for ahead in (0, 2):
                computed = []
                self.assertEqual(next(program.session()["two"].stream(n=5, a=computed.append)), (5, 6))
                self.assertEqual(computed, [5])
                stream = program.session().stream(10, ahead=ahead)
                for i in range(10):
                    self.assertEqual(next(stream), i)
                    time.sleep(0.002)
                    self.assertLessEqual(stream._channel.emitted, i + 1 + ahead)
                self.assertRaises(StopIteration, next, stream)
                self.assertEqual(stream.result, 10)
                self.assertRaises(StopIteration, next, stream)

    def test_exceptions_pass_through(self):
        class Odd(Exception):
            pass
        for program in self.builds.values():
            error = Odd("no")

            def fail(i):
                if i == 2:
                    raise error
            session = program.session()
            with self.assertRaises(Odd) as raised:
                session(fail, 5)
            self.assertIs(raised.exception, error)
            self.assertEqual(session(lambda i: None, 5), 5)
            with self.assertRaises(self.vm.InvalidArgument) as wrong:
                session(lambda i: "text", 5)
            self.assertIn("the result of <function", str(wrong.exception))
            with self.assertRaises(KeyboardInterrupt):
                session(lambda i: (_ for _ in ()).throw(KeyboardInterrupt), 5)

    def test_wrong_arguments(self):
        refused = self.vm.InvalidArgument
        for arguments, part in (((3, 3), r"saw int 3; expected fn \(int32\) -> \(\)"), ((print, print), "expected int32"),
                                ((), "no value for emit, n")):
            with self.assertRaisesRegex(refused, part):
                self.program(*arguments)
        session = self.program.session()
        with self.assertRaisesRegex(refused, "saw 0 parameters to emit by; expected one"):
            session.stream(3, entry="counter")
        with self.assertRaisesRegex(refused, "saw 2 parameters to emit by: a, b"):
            session.stream(3, entry="two")
        with self.assertRaisesRegex(refused, "expected 1 at most beside `emit`"):
            session.stream(3, 4)
        with self.assertRaisesRegex(refused, "`n` is given twice"):
            session.stream(3, n=4)

    def test_the_session_of_a_run_is_taken(self):
        for program in self.builds.values():
            session = program.session()
            with self.assertRaisesRegex(self.vm.InvalidArgument, "the machine is running"):
                session(lambda i: session(print, 3), 3)
            inner = []
            self.assertEqual(program(lambda i: print(end="" if program(inner.append, int(i)) == i else "?"), 3), 3)
            self.assertEqual(inner, [0, 0, 1])

    def test_a_consumer_that_stops_cancels_the_run(self):
        for program in self.builds.values():
            session = program.session()
            with session.stream(1000000) as stream:
                for i in stream:
                    if i == 3:
                        break
            self.assertFalse(stream._thread.is_alive())
            # In the middle of computing, and without a `with`.
            stream = session.stream(10**15, entry="spin")
            self.assertEqual(next(stream), 1)
            thread = stream._thread
            stream.close()
            self.assertFalse(thread.is_alive())
            self.assertEqual(list(session.stream(2)), [0, 1])
            stream = session.stream(10**15, entry="spin", ahead=1)
            next(stream)
            thread = stream._thread
            del stream
            gc.collect()
            thread.join(20)
            self.assertFalse(thread.is_alive())

    def test_errors_come_out_of_streams(self):
        limited = self.program.session(fuel=100)
        seen = []
        with self.assertRaises(self.vm.ResourceExhausted):
            for i in limited.stream(1000000):
                seen.append(int(i))
        self.assertEqual(seen, list(range(len(seen))))
        self.assertTrue(0 < len(seen) < 100)
        stream = self.program.session()["two"].stream(n=1, a=lambda i: 1 / 0)
        self.assertRaises(ZeroDivisionError, next, stream)

    def test_cancel_from_outside(self):
        session = self.program.session()
        stream = session.stream(10**15, entry="spin")
        next(stream)
        threading.Timer(0.05, session.cancel).start()
        self.assertRaises(self.vm.Cancelled, next, stream)

    def test_two_streams_at_once(self):
        streams = [self.program.stream(50), self.program.session().stream(50), self.program["main"].stream(50)]
        self.assertEqual(list(zip(*streams)), [(i, i, i) for i in range(50)])

    def test_tasks(self):
        async def collect(n):
            return [int(i) async for i in self.program.stream(n)]

        async def stops():
            stream = self.program.stream(10**6)
            async with stream:
                async for i in stream:
                    if i == 5:
                        break
            return stream

        async def cancelled():
            stream = self.program.session().stream(10**15, entry="spin")
            await anext(stream)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(stream), 0.05)
            return stream

        async def main():
            return await asyncio.gather(collect(20), collect(3), stops(), cancelled())
        first, second, *stopped = asyncio.run(main())
        self.assertEqual((first, second), (list(range(20)), [0, 1, 2]))
        for stream in stopped:
            self.assertFalse(stream._thread.is_alive())

    def test_closures_have_state(self):
        for program in self.builds.values():
            session = program.session()
            a, b = session["counter"](10), session["counter"](20)
            self.assertEqual([a(), a(), b(), a(), b()], [10, 11, 20, 12, 21])
            session(lambda i: None, 3)
            self.assertEqual(a(), 13)
            of_a_call = program["counter"](5)
            self.assertEqual([of_a_call(), of_a_call()], [5, 6])
            with self.assertRaisesRegex(self.vm.InvalidArgument, "saw 1 arguments; expected a call of"):
                a(1)
            with self.assertRaises(self.vm.ProgramFailed):
                session["fails"](1)
            with self.assertRaisesRegex(self.vm.InvalidArgument, "the function is gone"):
                a()
            session.trim()
            self.assertEqual(session.stats.live_bytes, 0)

    def test_state_stays_in_the_heap(self):
        for program in self.builds.values():
            session = program.session()
            width = numpy.ones(1000, "float32")
            seen, add = session["cache"](width)
            for i in range(5):
                rows = add(width * i)
            del width
            self.assertEqual(rows[0, 0], 0 + 1 + 2 + 3 + 4)
            self.assertEqual(seen(), 5)
            self.assertGreater(session.stats.live_bytes, 8000)
            with self.assertRaisesRegex(self.vm.InvalidArgument, "argument 1 of fn"):
                add([[1]])
            del seen, add, rows
            gc.collect()
            session.trim()
            self.assertEqual(session.stats.live_bytes, 0)

    def test_the_loops_of_the_prelude_emit_what_they_list(self):
        for program in self.builds.values():
            lengths = set()
            for seed in range(20):
                expected = [int(token) for token in program["sampled_list"](8, seed)]
                self.assertEqual([int(token) for token in program["sampled_one_by_one"].stream(8, seed)], expected)
                lengths.add(len(expected))
            self.assertGreater(len(lengths), 2)

    def test_functions_of_both_sides(self):
        for program in self.builds.values():
            session = program.session()
            add = session["compose"](lambda x: x + 1, lambda x: x * 10)
            self.assertEqual(add(4), 41)
            twice = session["compose"](add, add)
            self.assertEqual(twice(4), 411)
            # A closure of one session is a function of the host for another.
            self.assertEqual(program.session()["compose"](add, lambda x: x + 1)(4), 51)

    def test_functions_are_let_go(self):
        class Emit:
            def __call__(self, i):
                pass
        emit = Emit()
        gone = weakref.ref(emit)
        session = self.program.session()
        session(emit, 3)
        del emit
        gc.collect()
        self.assertIsNone(gone())

    def test_requests_of_batches(self):
        with self.program.batch(lanes=2) as batch:
            seen = [[], []]
            requests = [batch.submit(seen[i].append, 3 + i) for i in range(2)]
            self.assertEqual([int(request.result()) for request in requests], [3, 4])
            self.assertEqual(seen, [[0, 1, 2], [0, 1, 2, 3]])
            with self.assertRaisesRegex(self.vm.HostFailed, "ZeroDivisionError"):
                batch.submit(lambda i: 1 / 0, 3).result()
            counter = batch.submit(3, entry="counter").result()
            self.assertRaises(TypeError, counter)
            # The next session of that thread, or of another, sees nothing of the exception.
            self.assertEqual(self.program(lambda i: None, 2), 2)

    def test_closed_sessions(self):
        session = self.program.session()
        counter = session["counter"](1)
        session.close()
        self.assertRaises(self.vm.InvalidArgument, counter)
        self.assertRaises(TypeError, self.vm.Closure("<closure @x>"))

    def test_profile_and_stats(self):
        session = self.program.session(profile=True)
        self.assertEqual(list(session.stream(3)), [0, 1, 2])
        self.assertIn("function of the host", session.profile.table())

    # ---- the command line

    def test_lines_come_as_they_are_computed(self):
        with tempfile.TemporaryDirectory() as folder:
            source, model = os.path.join(folder, "spin.relay"), os.path.join(folder, "spin.rvm")
            with open(source, "w", encoding="utf-8") as file:
                file.write(PROGRAM)
            tools.compile_file(source, model, extra=["--entry", "spin", "--entry", "ask"])
            for command in ([tools.RUNTIME, model], [tools.COMPILER, "run", model], [tools.COMPILER, "eval", source]):
                with self.subTest(command[1]):
                    with subprocess.Popen([*command, "--entry", "spin", "1000000000000"], stdout=subprocess.PIPE, text=True) as process:
                        self.assertEqual(process.stdout.readline(), "1\n")
                        process.kill()
            done = tools.run(tools.RUNTIME, model, "--entry", "ask", "[1, 2]")
            self.assertEqual(done.returncode, 1)
            self.assertIn("expected functions that give ()", done.stderr)
            done = tools.run(tools.RUNTIME, model, "--entry", "spin")
            self.assertIn("saw 0 arguments; expected `spin(%emit: fn (int32) -> (), %n: int64)` with 1, as functions print", done.stderr)

    def test_memory_is_foreseen(self):
        with tempfile.TemporaryDirectory() as folder:
            source, model = os.path.join(folder, "f.relay"), os.path.join(folder, "f.rvm")
            with open(source, "w", encoding="utf-8") as file:
                file.write("""
def @main(%f: fn (Tensor[(1000), float32]) -> Tensor[(1000), float32], %emit: fn (int32) -> ()) -> Tensor[(1000), float32] {
  %emit(1);
  %f(%f(zeros(shape=[1000], dtype="float32")))
}
def @open(%f: fn () -> Tensor[(?), float32]) -> Tensor[(?), float32] { %f() }
""")
            tools.compile_file(source, model, extra=["--entry", "main", "--entry", "open", "--target", "portable"])
            text = tools.must(tools.COMPILER, "inspect", model, "--memory")
            self.assertIn("a function of the host decides the size of what it gives", text)
            self.assertRegex(text, r"@?main\b")

    def test_example(self):
        done = tools.must(sys.executable, os.path.join(EXAMPLE, "stream.py"), env=environment())
        self.assertEqual(done, EXPECTED_EXAMPLE)


def environment():
    folders = [os.path.join(tools.ROOT, "python", name) for name in ("runtime", "compiler")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


EXPECTED_EXAMPLE = """greedy: 5 6 7 8 9
a dialogue: 3 4 5 | 6 7 8
"""
