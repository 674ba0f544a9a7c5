"""Programs behind other people's engines: the Open Inference Protocol, and the examples of `examples/deploy`.

Those that need an engine run with `--long`, in environments of `build/deploy` that pip makes once. `RELAYVM_DEPLOY` names another
folder of such environments.
"""

import ast
import concurrent.futures
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import numpy
import python_test
import relayvm

EXAMPLES = os.path.join(relayvm.ROOT, "examples/deploy")
PROGRAM = """
type Shape { Circle(float32), Square(float32, float32) }
def @main(%x: Tensor[(n, 2), float32], %scale: float32, result_names=["scaled", "largest"]) -> (Tensor[(n, 2), float32], float32) {
  (%x * %scale, max(%x))
}
def @lists(%words: List[int32], %rows: List[Tensor[(3), float64]]) { (@map(fn (%w: int32) { %w * 2 }, %words), @rev(%rows)) }
def @flags(%flag: bool, %bytes: Tensor[(2), uint8], %half: Tensor[(2), bfloat16]) { (%flag, %bytes, %half) }
def @ragged(%n: int32) -> List[Tensor[(?), int32]] { Cons(arange(0, %n, 1), Cons(arange(0, %n + 1, 1), Nil)) }
def @shape(%s: Shape) -> float32 { match (%s) { Circle(%r) => %r, Square(%a, _) => %a } }
def @closure(%x: int32) { fn (%y: int32) { %x + %y } }
def @forever(%n: int32) -> int32 { @forever(%n + 1) }
"""


def tensor(name, datatype, shape, data):
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


class OpenInferenceProtocol(python_test.WithPackages, relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.vm.compile(PROGRAM, target="portable", entries=["main", "lists", "flags", "ragged", "shape", "closure", "forever"])
        from relayvm_runtime import oip
        cls.oip = oip

    def test_metadata(self):
        found = self.oip.metadata(self.program, "double", [1, "2"])
        self.assertEqual(found, {
            "name": "double", "versions": ["1", "2"], "platform": "relayvm",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}, {"name": "scale", "datatype": "FP32", "shape": [1]}],
            "outputs": [{"name": "scaled", "datatype": "FP32", "shape": [-1, 2]}, {"name": "largest", "datatype": "FP32", "shape": [1]}]})
        lists = self.oip.metadata(self.program, entry="lists")
        self.assertEqual([(one["datatype"], one["shape"]) for one in lists["inputs"] + lists["outputs"]],
                         [("INT32", [-1]), ("FP64", [-1, 3])] * 2)
        flags = self.oip.metadata(self.program, entry="flags")
        self.assertEqual([one["datatype"] for one in flags["inputs"]], ["BOOL", "UINT8", "BF16"])
        for entry in ("shape", "closure"):
            with self.assertRaisesRegex(self.vm.InvalidArgument, "has no form in the Open Inference Protocol"):
                self.oip.metadata(self.program, entry=entry)

    def infer(self, *inputs, entry="main", **request):
        response = self.oip.infer(self.program, {"inputs": list(inputs), **request}, name="m", entry=entry)
        json.dumps(response)
        return {one["name"]: (one["shape"], one["data"]) for one in response["outputs"]}

    def test_inference(self):
        scale = tensor("scale", "FP32", [1], [2])
        for data in ([1, 2, 3, 4], [[1, 2], [3, 4]], numpy.float32([[1, 2], [3, 4]]), numpy.float32([1, 2, 3, 4])):
            self.assertEqual(self.infer(tensor("x", "FP32", [2, 2], data), scale),
                             {"scaled": ([2, 2], [2, 4, 6, 8]), "largest": ([1], [4])})
        self.assertEqual(self.infer(tensor("scale", "FP32", [], [2]), tensor("x", "FP32", [1, 2], [1, 2]))["scaled"], ([1, 2], [2, 4]))
        response = self.oip.infer(self.program, {"id": "a", "inputs": [tensor("x", "FP32", [1, 2], [1, 2]), scale]}, name="m")
        self.assertEqual((response["model_name"], response["id"]), ("m", "a"))

    def test_lists_and_other_datatypes(self):
        for words, rows in (([1, 2, 3], [[1, 2, 3], [4, 5, 6]]), ([], [])):
            found = self.infer(tensor("words", "INT32", [len(words)], words), tensor("rows", "FP64", [len(rows), 3], rows), entry="lists")
            flat = [x for row in reversed(rows) for x in row]
            self.assertEqual(found, {"result1": ([len(words)], [2 * w for w in words]), "result2": ([len(rows), 3], flat)})
        found = self.infer(tensor("flag", "BOOL", [1], [True]), tensor("bytes", "UINT8", [2], [0, 255]),
                           tensor("half", "BF16", [2], [1.5, -2]), entry="flags")
        self.assertEqual(found, {"result1": ([1], [True]), "result2": ([2], [0, 255]), "result3": ([2], [1.5, -2])})
        zero_and_one = self.infer(tensor("flag", "BOOL", [1], [1]), tensor("bytes", "UINT8", [2], [1, 2]), tensor("half", "BF16", [2], [0, 0]),
                                  entry="flags")
        self.assertEqual(zero_and_one["result1"], ([1], [True]))

    def test_mistakes_of_a_client(self):
        x, scale = tensor("x", "FP32", [1, 2], [1, 2]), tensor("scale", "FP32", [1], [2])
        for inputs, message in (([x], "saw inputs x; expected x, scale"), ([], "saw inputs none"), ([x, x, scale], "saw inputs x, x, scale"),
                                ([x, {**scale, "name": "s"}], "saw inputs x, s"), ([{**x, "datatype": "FP64"}, scale], "saw datatype FP64; expected FP32"),
                                ([{**x, "shape": [2, 2]}, scale], "saw 2 elements; shape \\[2, 2\\] has 4"), ([{**x, "shape": [2]}, scale], "saw shape \\[2\\]; expected \\[-1, 2\\]"),
                                ([{**x, "shape": [2, 1]}, scale], "expected \\[-1, 2\\]"), ([{**x, "shape": [-1, -2]}, scale], "numbers of 0 or more"),
                                ([{**x, "shape": None}, scale], "saw shape None"), ([{**x, "data": ["a", "b"]}, scale], "the data are no numbers"),
                                ([{**x, "data": None}, scale], "there are none"), ([{**x, "data": [[1], [2, 3]]}, scale], "the data are no numbers"),
                                ([{**x, "data": numpy.array([1, 2])}, scale], "an array of int64"), ([{**x, "data": [True, False]}, scale], "they are bool"),
                                ([x, {**scale, "shape": [2], "data": [1, 2]}], "expected \\[1\\]"), ([{"data": 1}, scale], "saw inputs None, scale")):
            with self.subTest(message), self.assertRaisesRegex(self.vm.InvalidArgument, message) as caught:
                self.infer(*inputs)
            self.assertEqual(self.oip.http_status(caught.exception), 400)
        for data, message in (([2**31], "out of range"), ([1.5], "they are float64"), ([10**30], "no numbers")):
            with self.subTest(message), self.assertRaisesRegex(self.vm.InvalidArgument, message):
                self.infer(tensor("words", "INT32", [1], data), tensor("rows", "FP64", [0, 3], []), entry="lists")

    def test_errors_of_runs(self):
        with self.assertRaisesRegex(self.vm.Error, "different shapes") as caught:
            self.infer(tensor("n", "INT32", [1], [2]), entry="ragged")
        self.assertEqual(self.oip.http_status(caught.exception), 500)
        for limits, status in (({"fuel": 1000}, 429), ({"time_limit": 0.02}, 504)):
            with self.assertRaises(self.vm.Error) as caught:
                self.oip.infer(self.program.with_limits(**limits), {"inputs": [tensor("n", "INT32", [1], [1])]}, entry="forever")
            self.assertEqual(self.oip.http_status(caught.exception), status)
        self.assertEqual(self.oip.http_status(self.vm.Cancelled("")), 499)
        self.assertEqual(self.oip.http_status(self.vm.ProgramFailed("")), 500)

    def test_counters(self):
        program = self.vm.compile(PROGRAM, target="portable", entries=["main", "lists", "forever"])
        self.assertEqual(program.stats, (0, {}, 0, 0))
        for _ in range(3):
            program["lists"](range(1000), [])
        session = program.session()
        session([1, 2], numpy.empty((0, 3)), entry="lists")
        with self.assertRaises(self.vm.DeadlineExceeded):
            program.with_limits(time_limit=0.05)["forever"](1)
        with self.assertRaises(self.vm.ResourceExhausted):
            program.session(fuel=10)(1, entry="forever")
        stats = program.stats
        self.assertEqual((stats.runs, stats.errors), (6, {"deadline-exceeded": 1, "resource-exhausted": 1}))
        self.assertTrue(0.05 <= stats.seconds < 5, stats)
        self.assertGreaterEqual(stats.peak_bytes, 1000 * 16)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: program["lists"]([1], []), range(2000)))
        self.assertEqual(program.stats.runs, 2006)
        del session
        self.assertGreaterEqual(program.stats.peak_bytes, stats.peak_bytes)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def ask(url, body=None, timeout=30):
    """(status, answer)"""
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def words_input(words):
    return {"inputs": [tensor("words", "INT32", [len(words)], words)]}


def score(words):
    total = numpy.float32(0)
    for word in words:
        total = total * numpy.float32(0.5) + numpy.float32(word)
    return float(total)


class Examples(relayvm.TestCase):
    def test_they_are_programs(self):
        """Without the engines: each example parses, and says how it is started."""
        paths = glob.glob(os.path.join(EXAMPLES, "**/*.py"), recursive=True)
        self.assertGreaterEqual(len(paths), 5)
        for path in paths:
            with self.subTest(path), open(path, encoding="utf-8") as file:
                self.assertIn("pip install", ast.get_docstring(ast.parse(file.read())))

    def test_the_program_of_the_examples(self):
        self.assertEqual(relayvm.must(relayvm.COMPILER, "run", f"{EXAMPLES}/words.relay", "[3, 1, 4]").strip(), "5.25f")
        self.assertEqual(score([3, 1, 4]), 5.25)


class WithEngines(relayvm.TestCase):
    """A test case that installs engines and starts them."""

    def environment(self, name, *packages):
        """The interpreter of an environment with the packages, and its variables."""
        folder = os.path.join(os.environ.get("RELAYVM_DEPLOY") or os.path.join(relayvm.ROOT, "build/deploy"), name)
        python = os.path.join(folder, "bin/python")
        if not os.path.exists(os.path.join(folder, "installed")):
            relayvm.must(sys.executable, "-m", "venv", folder)
            done = relayvm.run(python, "-m", "pip", "install", "--quiet", *packages)
            if done.returncode != 0:
                self.skipTest(f"pip does not install {' '.join(packages)}: {done.stderr[-300:]}")
            with open(os.path.join(folder, "installed"), "w", encoding="utf-8"):
                pass
        path = os.pathsep.join([os.path.join(relayvm.ROOT, "python/runtime"), EXAMPLES])
        return python, {**os.environ, "PYTHONPATH": path, "RELAYVM_LIBRARY": relayvm.built("//capi:librelayvm.so.1")}

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def start(self, *command, ready, environment, seconds=120, **options):
        """Starts a server, which ends with the test; waits until `ready` answers with 200. Returns the process."""
        log = os.path.join(self.folder, "log.txt")
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True, **options)

        def end():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

        self.addCleanup(end)
        limit = time.monotonic() + seconds
        while time.monotonic() < limit and process.poll() is None:
            try:
                if ask(ready, timeout=2)[0] == 200:
                    return process
            except OSError:
                pass
            time.sleep(0.2)
        with open(log, encoding="utf-8") as file:
            self.fail(f"the server is not ready:\n{file.read()[-3000:]}")


@unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "only with --long")
class Engines(WithEngines):
    def setUp(self):
        super().setUp()
        self.model = relayvm.compile_file(f"{EXAMPLES}/words.relay", os.path.join(self.folder, "words.rvm"))

    def check_protocol(self, url):
        """Metadata, answers and mistakes at the address of a model."""
        status, found = ask(url)
        self.assertEqual((status, found["inputs"][0]["name"], found["inputs"][0]["datatype"], found["inputs"][0]["shape"]),
                         (200, "words", "INT32", [-1]))
        self.assertEqual(found["outputs"][0]["name"], "score")
        for words in ([], [7], [3, 1, 4], list(range(1000))):
            status, answer = ask(f"{url}/infer", words_input(words))
            self.assertEqual(status, 200, answer)
            (output,) = answer["outputs"]
            self.assertEqual((output["name"], output["datatype"], output["shape"]), ("score", "FP32", [1]))
            self.assertAlmostEqual(output["data"][0], score(words), 3)
        for wrong in ({"inputs": [tensor("words", "INT64", [1], [10**12])]}, {"inputs": [tensor("other", "INT32", [1], [1])]}):
            status, answer = ask(f"{url}/infer", wrong)
            self.assertEqual(status, 400, answer)
            self.assertIn("expected", json.dumps(answer))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: ask(f"{url}/infer", words_input(list(range(n)))), range(100)))
        for n, (status, answer) in enumerate(answers):
            self.assertAlmostEqual(answer["outputs"][0]["data"][0], score(range(n)), 3)

    def test_mlserver(self):
        python, environment = self.environment("mlserver", "mlserver")
        for file in os.listdir(f"{EXAMPLES}/mlserver"):
            if file.endswith((".py", ".json")):
                shutil.copy(f"{EXAMPLES}/mlserver/{file}", self.folder)
        port = free_port()
        environment.update(MLSERVER_HTTP_PORT=str(port), MLSERVER_GRPC_PORT=str(free_port()), MLSERVER_METRICS_PORT=str(free_port()))
        self.start(os.path.join(os.path.dirname(python), "mlserver"), "start", self.folder, environment=environment, cwd=self.folder,
                   ready=f"http://127.0.0.1:{port}/v2/models/words")
        self.check_protocol(f"http://127.0.0.1:{port}/v2/models/words")

    def test_kserve(self):
        python, environment = self.environment("kserve", "kserve")
        port = free_port()
        self.start(python, f"{EXAMPLES}/kserve_server.py", "--model_name", "words", "--rvm", self.model, "--http_port", str(port),
                   "--grpc_port", str(free_port()), environment=environment, cwd=self.folder,
                   ready=f"http://127.0.0.1:{port}/v2/models/words")
        self.check_protocol(f"http://127.0.0.1:{port}/v2/models/words")

    def run_python(self, python, environment, program, *arguments):
        """Runs a program that writes found.json; engines write to its output, too. Returns what it found."""
        path = os.path.join(self.folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        done = relayvm.run(python, path, *arguments, env=environment, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        with open(os.path.join(self.folder, "found.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_ray_serve(self):
        python, environment = self.environment("ray", "ray[serve,data]", "pandas")
        forever = os.path.join(self.folder, "forever.relay")
        with open(forever, "w", encoding="utf-8") as file:
            file.write("def @main(%n: int32) -> int32 { if (%n < 0) { 0 } else { @main(%n) } }")
        slow = relayvm.compile_file(forever, os.path.join(self.folder, "forever.rvm"))
        port = free_port()
        environment["RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"] = "60"  # 5 are too few for a busy machine
        found = self.run_python(python, environment, RAY_SERVE, self.model, slow, str(port))
        self.assertEqual(found["answers"], [[200, score(words)] for words in ([7], [3, 1, 4])])
        self.assertEqual(found["wrong"], 400)
        # One client leaves, then eight at once: each ends its run, which has no end and a limit of a minute.
        self.assertEqual(found["one"]["errors"], {"cancelled": 1})
        self.assertEqual(found["eight"]["errors"], {"cancelled": 9})
        self.assertLess(found["one"]["seconds"], 10)
        self.assertEqual(found["then"], [200, score([3, 1, 4])])
        self.assertLess(found["busy"], 0.3, "runs that were cancelled still use a processor")

    def test_ray_data(self):
        python, environment = self.environment("ray", "ray[serve,data]", "pandas")
        found = self.run_python(python, environment, RAY_DATA, self.model)
        self.assertEqual(len(found), 500)
        for i, value in found:
            self.assertAlmostEqual(value, score(range(1 + i % 7)), 4)

    def test_spark(self):
        if shutil.which("java") is None:
            self.skipTest("java is not installed")
        python, environment = self.environment("spark", "pyspark", "pandas", "pyarrow")
        environment["PYSPARK_PYTHON"] = python
        found = self.run_python(python, environment, SPARK, self.model)
        self.assertEqual(len(found), 500)
        for i, value in found:
            self.assertAlmostEqual(value, score(range(1 + i % 7)), 4)


RAY_SERVE = """
import concurrent.futures, json, os, sys, time, urllib.error, urllib.request
import ray, ray_serve
from ray import serve
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
port = int(sys.argv[3])
serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(ray_serve.app({"path": sys.argv[1]}), name="words", route_prefix="/words")
serve.run(ray_serve.app({"path": sys.argv[2]}), name="slow", route_prefix="/slow")
def ask(route, body=None, timeout=60):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{route}", body and json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
def one(name, data):
    return {"inputs": [{"name": name, "datatype": "INT32", "shape": [len(data)], "data": data}]}
found = {"answers": []}
for words in ([7], [3, 1, 4]):
    status, answer = ask("words", one("words", words))
    found["answers"].append([status, answer["outputs"][0]["data"][0]])
found["wrong"] = ask("words", one("other", [1]))[0]
# Clients that leave after a second, at once; returns the counters once `total` runs have ended.
def leave(count, total):
    def client(_):
        try:
            ask("slow", one("n", [1]), timeout=1)
        except OSError:
            pass
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        list(pool.map(client, range(count)))
    limit = time.time() + 20
    while time.time() < limit and ask("slow")[1]["stats"]["runs"] < total:
        time.sleep(0.2)
    return ask("slow")[1]["stats"]
found["one"] = leave(1, 1)
found["eight"] = leave(8, 9)
status, answer = ask("words", one("words", [3, 1, 4]))
found["then"] = [status, answer["outputs"][0]["data"][0]]
# Seconds of processor time of the replicas of endless runs.
def spent():
    times = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as line, open(f"/proc/{pid}/stat") as stat:
                if "ray::ServeReplica:slow" in line.read():
                    times.append(sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK"))
        except OSError:
            pass
    assert times, "no replica found"
    return sum(times)
before = spent()
time.sleep(1)
found["busy"] = spent() - before
with open("found.json", "w") as file:
    json.dump(found, file)
serve.shutdown()
ray.shutdown()
"""
RAY_DATA = """
import json, sys
import ray, ray_data
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
found = ray_data.score([{"id": i, "words": list(range(1 + i % 7))} for i in range(500)], sys.argv[1]).to_pandas()
with open("found.json", "w") as file:
    json.dump([[int(i), float(value)] for i, value in zip(found["id"], found["score"])], file)
ray.shutdown()
"""
SPARK = """
import json, sys
import pandas
from pyspark.sql import SparkSession
import spark_score
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
rows = pandas.DataFrame({"id": range(500), "words": [list(range(1 + i % 7)) for i in range(500)]})
found = spark_score.score(spark.createDataFrame(rows), sys.argv[1]).toPandas()
with open("found.json", "w") as file:
    json.dump([[int(i), float(value)] for i, value in zip(found["id"], found["score"])], file)
spark.stop()
"""


if __name__ == "__main__":
    unittest.main()
