"""The Python packages among processes: forks, signals, pickles that processes share."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

import relayvm as tools

COUNT = "def @main(%n: int64) -> int64 { if (%n <= 0i64) { 0i64 } else { @main(%n - 1i64) } }"
ENDLESS = 10**18
PRELUDE = f"""
import os, pickle, signal, sys, threading, time, warnings
import numpy
warnings.simplefilter("ignore")  # of forks beside threads
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background of a shell ignores SIGINT
import relayvm
count = relayvm.compile({COUNT!r}, target="portable")

def child(work, leave=os._exit):
    "The exit status of a child that does `work`; a hung one is killed."
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            leave(int(not work()))
        except SystemExit:
            raise
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def send(number, delay=0.2):
    threading.Timer(delay, lambda: os.kill(os.getpid(), number)).start()
"""


def environment(**more):
    folders = [os.path.join(tools.ROOT, "python", name) for name in ("runtime", "compiler")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "RELAYVM_LIBRARY": tools.built("//capi:librelayvm.so.1"),
            "RELAYVM_COMPILER_LIBRARY": tools.built("//capi/compiler:librelayvm_compiler.so.1"), **more}


class Processes(tools.TestCase):
    @classmethod
    def setUpClass(cls):
        tools.built("//capi:librelayvm_python_signals.so")

    def check(self, code, printed="", status=0, **more):
        done = subprocess.run([sys.executable, "-c", PRELUDE + code], env=environment(**more), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (status, printed), done.stderr)

    # ---- other libraries

    def test_another_llvm_in_the_process(self):
        """TensorFlow, for one, exports the LLVM that it contains."""
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "libother.so")
            tools.must("clang-19", "-shared", "-fPIC", "-x", "c", "-", "-o", other, input="""
void _ZN4llvm11LLVMContextC1Ev(void) { __builtin_trap(); }
""")
            code = f"import ctypes; other = ctypes.CDLL({other!r}, ctypes.RTLD_GLOBAL)\n{PRELUDE}print(relayvm.compile('def @main(%x: Tensor[(2), float32]) {{ exp(%x) }}', target='host')(numpy.zeros(2, 'float32')))"
            done = subprocess.run([sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "[1. 1.]\n"), done.stderr)

    # ---- forks

    def test_a_child_has_sessions_of_its_own(self):
        self.check("""
assert count(10) == 0  # leaves a session in the pool
assert child(lambda: count(10) == 0) == 0
session = count.session(threads=2, time_limit=1000)
session(10)

def refused():
    try:
        session(10)
    except relayvm.InvalidArgument as error:
        return "forked" in str(error)

assert child(refused) == 0
assert session(10) == 0 and count(10) == 0
""")

    def test_a_child_frees_what_is_its_parents(self):
        """Machines have threads of their own, which the child has not."""
        self.check("""
dense = relayvm.compile("def @main(%x: Tensor[(n, 64), float32], %w: Tensor[(64, 64), float32]) { nn.dense(%x, %w) }")
x = numpy.ones((512, 64), "float32"), numpy.ones((64, 64), "float32")
session = dense.session(threads=2)
session(*x), dense(*x)
assert child(lambda: True, sys.exit) == 0
assert child(lambda: dense.session(threads=2)(*x).shape == (512, 64), sys.exit) == 0
session = None
assert child(lambda: dense(*x).shape == (512, 64), sys.exit) == 0
""")

    def test_forks_beside_busy_threads(self):
        number = tools.long_or(1000, 100)
        self.check(f"""
busy = True

def work():
    while busy:
        count(100)

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
failed = [status for status in (child(lambda: count(100) == 0) for _ in range({number})) if status]
busy = False
assert not failed, failed
""")

    # ---- signals

    def test_ctrl_c_ends_a_run(self):
        loop = ("def @main(%n: int64, %x: Tensor[(64), float32]) -> Tensor[(64), float32] "
                "{ if (%n <= 0i64) { %x } else { @main(%n - 1i64, tanh(%x)) } }")
        for call in (f"count({ENDLESS})", f"count.session()({ENDLESS})", f"count['main']({ENDLESS})",
                     f"count.with_limits(time_limit=1000)({ENDLESS})", f"loop({ENDLESS}, numpy.ones(64, 'float32'))"):
            with self.subTest(call):
                self.check(f"""
loop = relayvm.compile({loop!r})
send(signal.SIGINT)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", count(10))
""", "interrupted 0\n")

    def test_handlers_run_during_a_run(self):
        """One that returns lets the run go on; the exception of another ends it, whatever it is."""
        self.check(f"""
seen = []

def handler(number, frame):
    seen.append(number)
    send(signal.SIGTERM)
    if len(seen) == 3:
        raise LookupError("enough")

signal.signal(signal.SIGTERM, handler)
send(signal.SIGTERM)
try:
    count({ENDLESS})
except LookupError as error:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(error, len(seen))
""", "enough 3\n")

    def test_sys_exit_in_a_handler(self):
        self.check(f"""
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
send(signal.SIGTERM)
count({ENDLESS})
""", status=7)

    def test_ctrl_c_ends_a_compilation(self):
        """In its passes and in its kernels. The process ends, too: the thread that compiles ends with it."""
        for stage in ("passes", "kernels"):
            with self.subTest(stage):
                self.check(f"""
steps = "".join(f"  let %x{{i + 1}} = nn.softmax(%x{{i}} * {{i}}f) + sin(%x{{i}});\\n" for i in range(200))
text = "def @main(%x0: Tensor[(n, 64), float32]) -> Tensor[(n, 64), float32] {{\\n" + steps + "  %x200\\n}}"
begun = False

def progress(stage, done, total):
    global begun
    if stage == {stage!r} and not begun:
        begun = True
        os.kill(os.getpid(), signal.SIGINT)

try:
    relayvm.compile(text, progress=progress)
except KeyboardInterrupt:
    print("interrupted", count(10))
""", "interrupted 0\n")

    # ---- pickles

    def test_an_unpickled_executable_is_a_shared_file(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check("""
weight = numpy.random.default_rng(0).random((2000, 1000), "float32")
program = relayvm.compile("def @main(%x: Tensor[(1, 1000), float32], %w: Tensor[(2000, 1000), float32]) { nn.dense(%x, %w) }",
                          params={"w": weight})
x = numpy.ones((1, 1000), "float32")
pickles = [pickle.dumps(program, protocol) for protocol in (4, 5)]
assert abs(len(pickles[0]) - len(pickles[1])) < 1000
for data in pickles * 2:
    again = pickle.loads(data)
    numpy.testing.assert_array_equal(again(x), program(x))
    (path,) = [os.path.join(os.environ["RELAYVM_CACHE"], name) for name in os.listdir(os.environ["RELAYVM_CACHE"])]
    with open("/proc/self/maps") as maps:
        assert path in maps.read()
os.unlink(path)

def shares():
    again = pickle.loads(data)
    time.sleep(0.2)  # the others have written theirs, too
    with open("/proc/self/maps") as maps:
        return path + "\\n" in maps.read() and again(x).shape == (1, 2000)

racing = [threading.Thread(target=lambda: statuses.append(child(shares))) for _ in range(4)]
statuses = []
for thread in racing:
    thread.start()
for thread in racing:
    thread.join()
assert statuses == [0] * 4, statuses
os.chmod(path, 0o600)
with open(path, "ab") as file:
    file.write(b"damage")
numpy.testing.assert_array_equal(pickle.loads(data)(x), program(x))
assert os.path.getsize(path) == len(program.tobytes())
function, arguments = program.__reduce_ex__(4)
assert arguments[-1] == os.path.basename(path)
for name in ((), ("0" * 64 + ".rvm",)):  # of a pickle of version 0.1.0; of one that is damaged
    numpy.testing.assert_array_equal(function(*arguments[:-1], *name)(x), program(x))
print(pickle.loads(pickle.dumps(count))(10), len(os.listdir(os.environ["RELAYVM_CACHE"])))
""", "0 1\n", RELAYVM_CACHE=os.path.join(folder, "cache"))

    def test_a_cache_that_cannot_be_written_is_not_needed(self):
        self.check("""
weight = numpy.ones((600, 1000), "float32")
program = relayvm.compile("def @main(%x: Tensor[(1, 1000), float32], %w: Tensor[(600, 1000), float32]) { nn.dense(%x, %w) }",
                          params={"w": weight})
print(pickle.loads(pickle.dumps(program))(numpy.ones((1, 1000), "float32")).sum())
""", "600000.0\n", RELAYVM_CACHE="/proc/nowhere")

    # ---- memory

    def test_the_import_brings_little_beside_numpy(self):
        """Modules that only some programs use, and each process would pay for."""
        done = tools.must(sys.executable, "-c", "import sys, numpy; before = set(sys.modules); import relayvm_runtime; "
                          "print({'asyncio', 'ssl', 'html', 'ml_dtypes', 'hashlib', 'logging', 'concurrent.futures'} & (set(sys.modules) - before))",
                          env=environment())
        self.assertEqual(done, "set()\n")

    def test_processes_share_an_unpickled_program(self):
        """Four of them hold the file once, and beside it a few megabytes each."""
        with tempfile.TemporaryDirectory() as folder:
            program, pickled = os.path.join(folder, "w.rvm"), os.path.join(folder, "w.pickle")
            source, weights = os.path.join(folder, "w.relay"), os.path.join(folder, "w.npz")
            with open(source, "w", encoding="utf-8") as file:
                file.write("def @main(%x: Tensor[(n, 1024), float32], %w: Tensor[(8192, 1024), float32]) { max(nn.dense(%x, %w), axis=1) }")
            python = [sys.executable, "-c"]
            tools.must(*python, f"import numpy; numpy.savez({weights!r}, w=numpy.random.default_rng(0).standard_normal((8192, 1024), 'float32'))")
            tools.compile_file(source, program, params=[weights], verify=False)
            variables = environment(RELAYVM_CACHE=folder)
            tools.must(*python, f"import pickle, relayvm_runtime; pickle.dump(relayvm_runtime.load({program!r}), open({pickled!r}, 'wb'))", env=variables)
            plain = "import numpy, sys; x = numpy.ones((1, 1024), 'float32')"
            runs = plain + f"; import pickle; pickle.load(open({pickled!r}, 'rb'))(x)"
            tools.must(*python, runs, env=variables)
            runs += "; assert 'hashlib' not in sys.modules, 'bytes that are in the cache are not hashed again'"
            used = self.memory_of_four(runs, variables) - self.memory_of_four(plain, variables)
            size = os.path.getsize(program)
            self.assertGreater(used, size)
            self.assertLess(used - size, 4 * 4 << 20)

    def memory_of_four(self, code, variables):
        """The bytes of four processes that have run `code`, shared ones counted once."""
        waits = "; print(1, flush=True); sys.stdin.readline()"
        started = [subprocess.Popen([sys.executable, "-c", code + waits], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for _ in range(4)]
        try:
            total = 0
            for process in started:
                self.assertEqual(process.stdout.readline(), b"1\n")
            for process in started:
                with open(f"/proc/{process.pid}/smaps_rollup", encoding="utf-8") as file:
                    total += sum(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
            return total
        finally:
            for process in started:
                process.communicate(b"\n")


if __name__ == "__main__":
    unittest.main()
