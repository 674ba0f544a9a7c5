"""The Triton backend (integrations/triton) in Triton Inference Server itself, which the wheel nvidia-pytriton has.

Runs with `--long`. `backend_test` checks the backend without a server.
"""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import numpy
import python_test
import relayvm
from deploy_test import EXAMPLES, WithEngines, ask, free_port, score, tensor, words_input

sys.path.insert(0, os.path.join(relayvm.ROOT, "tools/dist"))
import dist  # noqa: E402

# grpcio and those that follow are for the client that cancels.
PACKAGES = ["--no-deps", "nvidia-pytriton", "tritonclient", "grpcio", "protobuf", "python-rapidjson", "typing_extensions", "ml_dtypes", "packaging",
            "numpy<2"]
FOREVER = "def @main(%n: int32) -> int32 { if (%n < 0) { 0 } else { @main(%n) } }"
DECODER = """
def @write(%state: Tensor[(1, 256), float32], %left: int32, %steps: int32) -> (int32, float32) {
  let %next = tanh(nn.dense(%state, full(0.01f, shape=[256, 256])));
  if (%left == 0) { (%steps, max(%next)) } else {
    if (max(%next) < 1e-30f) { (%steps, 0f) } else { @write(%next, %left - 1, %steps + 1) }
  }
}
def @main(%first: float32, %left: int32) { @write(full(%first, shape=[1, 256], dtype="float32"), %left, 0) }
"""
BIG = "def @main(%x: Tensor[(n, 5120), float32], %w: Tensor[(10240, 5120), float32]) { max(nn.dense(%x, %w), axis=1) }"
# What a user of the Python backend would write.
PYTHON_MODEL = """
import sys
sys.path[:0] = {path!r}
import numpy
import relayvm_runtime
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.program = relayvm_runtime.load({model!r})

    def execute(self, requests):
        found = []
        for request in requests:
            words = pb.get_input_tensor_by_name(request, "words").as_numpy()
            found.append(pb.InferenceResponse([pb.Tensor("score", numpy.atleast_1d(self.program(words)))]))
        return found
"""
PYTHON_CONFIG = """backend: "python"
input [ { name: "words", data_type: TYPE_INT32, dims: [ -1 ] } ]
output [ { name: "score", data_type: TYPE_FP32, dims: [ 1 ] } ]
"""
CANCEL = """
import sys, time
import numpy
import tritonclient.grpc as grpc
client = grpc.InferenceServerClient(sys.argv[1])
n = grpc.InferInput("n", [1], "INT32")
n.set_data_from_numpy(numpy.ones(1, "int32"))
errors = []
calls = [client.async_infer("forever", [n], lambda result, error: errors.append(error)) for _ in range(2)]
time.sleep(0.5)
for call in calls:
    call.cancel()
time.sleep(0.5)
print(len(errors))
"""
ASK = """
import sys
import numpy
import tritonclient.grpc as grpc
client = grpc.InferenceServerClient(sys.argv[1])
for length in numpy.random.default_rng(0).integers(1, 40, 600):
    words = grpc.InferInput("words", [int(length)], "INT32")
    words.set_data_from_numpy(numpy.arange(length, dtype="int32"))
    score = 0
    for word in range(length):
        score = numpy.float32(score * 0.5 + word)
    numpy.testing.assert_allclose(client.infer(sys.argv[2], [words]).as_numpy("score"), [0 if sys.argv[2] == "idle" else score], 1e-5)
"""


def ticks(process):
    """Processor time of a process and of those that it started, in hundredths of a second."""
    total = 0
    for pid in [process.pid, *map(int, subprocess.run(["pgrep", "-P", str(process.pid)], stdout=subprocess.PIPE, text=True, check=False).stdout.split())]:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total


def resident(process):
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))


@unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "only with --long")
class Triton(python_test.WithPackages, WithEngines):
    def setUp(self):
        super().setUp()
        self.python, self.variables = self.environment("triton", *PACKAGES)
        self.site = relayvm.must(self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        self.engine = os.path.join(self.site, "pytriton/tritonserver")
        self.variables["LD_LIBRARY_PATH"] = os.path.join(self.site, "nvidia_pytriton.libs")
        self.models = os.path.join(self.folder, "models")
        os.makedirs(os.path.join(self.folder, "backends"))
        relayvm.built(dist.TRITON)
        dist.install_triton(os.path.join(self.folder, "backends/relayvm"))

    def add(self, name, source, *options, version=1, config="", params=()):
        """Compiles a version of a model into the repository; returns its file."""
        target = os.path.join(self.models, name, str(version))
        os.makedirs(target, exist_ok=True)
        if "\n" in source or "@main" in source:
            path = os.path.join(self.folder, f"{name}.relay")
            with open(path, "w", encoding="utf-8") as file:
                file.write(source)
            source = path
        relayvm.compile_file(source, os.path.join(target, "model.rvm"), params=params, extra=options, verify=False)
        self.configure(name, f'backend: "relayvm"\n{config}')
        return os.path.join(target, "model.rvm")

    def configure(self, name, text):
        with open(os.path.join(self.models, name, "config.pbtxt"), "w", encoding="utf-8") as file:
            file.write(text)

    def serve(self, *options):
        """Starts the server; returns it and its address."""
        self.port, self.grpc = free_port(), free_port()
        url = f"http://127.0.0.1:{self.port}/v2"
        server = self.start(f"{self.engine}/bin/tritonserver", f"--model-repository={self.models}", f"--backend-directory={self.folder}/backends",
                            "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", f"--http-port={self.port}", f"--grpc-port={self.grpc}",
                            "--allow-metrics=false", "--exit-timeout-secs=3", *options, environment=self.variables, ready=f"{url}/health/live")
        return server, url

    def ready(self, url, seconds=20):
        limit = time.monotonic() + seconds
        while ask(f"{url}/health/ready")[0] != 200:
            self.assertLess(time.monotonic(), limit, "the models are not ready")
            time.sleep(0.05)

    def test_answers(self):
        """Names, dtypes and shapes; lists of any length as in Python, bit for bit; mistakes; several outputs."""
        os.makedirs(os.path.join(self.models, "words/1"))
        shutil.copy(f"{EXAMPLES}/triton/words/config.pbtxt", os.path.join(self.models, "words"))
        words = relayvm.compile_file(f"{EXAMPLES}/words.relay", os.path.join(self.models, "words/1/model.rvm"))
        decoder = self.add("decoder", DECODER, "--batch")
        g2p = self.add("g2p", "examples/g2p/g2p.relay", params=[relayvm.G2P + "/checkpoint20.npz"])
        _, url = self.serve()
        self.ready(url)
        status, found = ask(f"{url}/models/words")
        self.assertEqual((status, found["platform"], found["inputs"], found["outputs"]),
                         (200, "relayvm", [{"name": "words", "datatype": "INT32", "shape": [-1]}], [{"name": "score", "datatype": "FP32", "shape": [1]}]))
        program = self.vm.load(words)
        for length in (0, 1, 99, 1000):
            sent = [int(x) for x in numpy.random.default_rng(length).integers(0, 1000, length)]
            status, answer = ask(f"{url}/models/words/infer", words_input(sent))
            self.assertEqual((status, numpy.float32(answer["outputs"][0]["data"][0])), (200, program(sent)), answer)
        for wrong, message in ((tensor("words", "FP32", [1], [1]), "INT32"), (tensor("words", "INT32", [1, 1], [1]), "shape"), (tensor("other", "INT32", [1], [1]), "words")):
            status, answer = ask(f"{url}/models/words/infer", {"inputs": [wrong]})
            self.assertEqual(status, 400)
            self.assertIn(message, answer["error"])
        program = self.vm.load(decoder)

        def decode(n):
            return ask(f"{url}/models/decoder/infer", {"inputs": [tensor("first", "FP32", [1], [n]), tensor("left", "INT32", [1], [n])]})

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(decode, range(1, 60)))
        for n, (status, answer) in enumerate(answers, 1):
            self.assertEqual(status, 200, answer)
            found = {output["name"]: output["data"][0] for output in answer["outputs"]}
            steps, largest = program(numpy.float32(n), n)
            self.assertEqual((found["result1"], numpy.float32(found["result2"])), (steps, largest))
        letters = [ord(letter) - ord("a") + 3 for letter in "hello"]
        status, answer = ask(f"{url}/models/g2p/infer", {"inputs": [tensor("letters", "INT32", [5], letters)]})
        self.assertEqual((status, answer["outputs"][0]["data"]), (200, [int(x) for x in self.vm.load(g2p)(letters)]), answer)

    def test_limits_and_cancellation(self):
        self.add("forever", FOREVER, config='parameters { key: "time_limit_ms" value { string_value: "500" } }')
        self.add("words", f"{EXAMPLES}/words.relay")
        _, url = self.serve()
        self.ready(url)
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            endless = [pool.submit(ask, f"{url}/models/forever/infer", {"inputs": [tensor("n", "INT32", [1], [1])]}) for _ in range(4)]
            self.assertEqual(ask(f"{url}/models/words/infer", words_input([3, 1, 4]))[0], 200)
        for future in endless:
            status, answer = future.result()
            self.assertEqual(status, 503)
            self.assertIn("time limit", answer["error"])
        self.assertLess(time.monotonic() - began, 4 * 0.5 + 1)
        # Timeouts of clients, in microseconds, in the place of the model's.
        began = time.monotonic()
        status, _ = ask(f"{url}/models/forever/infer", {"inputs": [tensor("n", "INT32", [1], [1])], "parameters": {"timeout": 50000}})
        self.assertEqual(status, 503)
        self.assertLess(time.monotonic() - began, 0.4)

    def test_clients_that_go_away(self):
        self.add("forever", FOREVER)
        server, url = self.serve()
        self.ready(url)
        self.assertEqual(self.run_client(CANCEL, f"127.0.0.1:{self.grpc}"), "2")
        time.sleep(0.3)
        before = ticks(server)
        time.sleep(1)
        self.assertLess(ticks(server) - before, 30)
        _, found = ask(f"{url}/models/forever/stats")
        self.assertEqual(found["model_stats"][0]["inference_stats"]["success"]["count"], 0)

    def run_client(self, program, *arguments):
        path = os.path.join(self.folder, "client.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        return relayvm.must(self.python, path, *arguments).strip()

    def test_versions_roll(self):
        self.add("words", f"{EXAMPLES}/words.relay")
        self.add("next", "def @main(%words: List[int32], result_names=[\"score\"]) -> float32 { 42f }", version=2)
        incoming = os.path.join(self.folder, "incoming")
        shutil.move(os.path.join(self.models, "next/2"), incoming)
        shutil.rmtree(os.path.join(self.models, "next"))
        _, url = self.serve("--model-control-mode=poll", "--repository-poll-secs=1")
        self.ready(url)
        ends, answers = threading.Event(), []

        def client():
            while not ends.is_set():
                answers.append(ask(f"{url}/models/words/infer", words_input([3, 1, 4])))

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            clients = [pool.submit(client) for _ in range(3)]
            time.sleep(1)
            os.rename(incoming, os.path.join(self.models, "words/2"))
            limit = time.monotonic() + 20
            while time.monotonic() < limit and answers[-1][1].get("model_version") != "2":
                time.sleep(0.05)
            time.sleep(0.5)
            ends.set()
            concurrent.futures.wait(clients)
        for status, answer in answers:
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["outputs"][0]["data"][0], {"1": 5.25, "2": 42}[answer["model_version"]])
        self.assertEqual(answers[-1][1]["model_version"], "2")
        self.assertEqual(answers[0][1]["model_version"], "1")

    def test_files_that_are_not_whole(self):
        with open(self.add("damaged", f"{EXAMPLES}/words.relay"), "r+b") as file:
            file.truncate(200)
        self.add("words", f"{EXAMPLES}/words.relay")
        self.add("misspelt", f"{EXAMPLES}/words.relay", config='parameters { key: "lane" value { string_value: "2" } }')
        _, url = self.serve("--exit-on-error=false", "--strict-readiness=false")
        self.ready(url)
        request = urllib.request.Request(f"{url}/repository/index", b"{}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            found = {model["name"]: (model["state"], model.get("reason", "")) for model in json.load(answer)}
        self.assertEqual(found["words"], ("READY", ""))
        for name, message in (("damaged", "model.rvm: "), ("misspelt", "parameter `lane` is unknown")):
            self.assertEqual(found[name][0], "UNAVAILABLE")
            self.assertIn(message, found[name][1])
        self.assertEqual(ask(f"{url}/models/words/infer", words_input([1]))[0], 200)

    def test_instances_share_a_program(self):
        weights = os.path.join(self.folder, "w.npz")
        numpy.savez(weights, w=numpy.random.default_rng(0).standard_normal((10240, 5120)).astype("float32"))
        self.add("big", BIG, params=[weights])
        used = []
        for count in (1, 2):
            self.configure("big", f'backend: "relayvm"\ninstance_group [ {{ kind: KIND_CPU, count: {count} }} ]')
            server, url = self.serve()
            self.ready(url, 60)
            request = {"inputs": [tensor("x", "FP32", [1, 5120], [1.0] * 5120)]}
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for status, answer in pool.map(lambda _: ask(f"{url}/models/big/infer", request), range(16)):
                    self.assertEqual(status, 200, answer)
            used.append(resident(server))
            server.terminate()
            server.wait(timeout=30)
        print(f"resident: {used[0] >> 20} MB with one instance, {used[1] >> 20} MB with two")
        self.assertGreater(used[0], 200 << 20)
        self.assertLess(used[1] - used[0], 10 << 20)

    def test_processor_time_beside_the_python_backend(self):
        """In one server, in alternating rounds: less than two thirds, and of what is not the server's own less than a third. The server's own
        is what a request takes with a backend that does nothing."""
        model = self.add("words", f"{EXAMPLES}/words.relay")
        os.makedirs(os.path.join(self.models, "python/1"))
        self.configure("python", PYTHON_CONFIG)
        with open(os.path.join(self.models, "python/1/model.py"), "w", encoding="utf-8") as file:
            file.write(PYTHON_MODEL.format(path=[os.path.join(relayvm.ROOT, "python/runtime"), self.site], model=model))
        os.makedirs(os.path.join(self.models, "idle/1"))
        self.configure("idle", PYTHON_CONFIG.replace("python", "idle"))
        os.makedirs(os.path.join(self.folder, "backends/idle"))
        shutil.copy(relayvm.built("//integrations/triton:libtriton_idle.so"), os.path.join(self.folder, "backends/idle"))
        python_backend = os.path.join(self.folder, "backends/python")
        shutil.copytree(f"{self.engine}/backends/python", python_backend)
        version = relayvm.must(self.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
        shutil.copy(f"{self.engine}/python_backend_stubs/{version}/triton_python_backend_stub", python_backend)
        server, url = self.serve()
        self.ready(url, 60)
        names = ("words", "idle", "python")
        spent = dict.fromkeys(names, 0)
        for counts in range(6):  # the first round does not count
            for name in names:
                before = ticks(server)
                self.run_client(ASK, f"127.0.0.1:{self.grpc}", name)
                spent[name] += (ticks(server) - before) * bool(counts)
        per_request = {name: spent[name] * 10 / (5 * 600) for name in names}
        print(f"processor time of a request: {per_request['words']:.3f} ms; by the Python backend {per_request['python']:.3f} ms; "
              f"the server's own {per_request['idle']:.3f} ms")
        for name in names:
            stats = ask(f"{url}/models/{name}/stats")[1]["model_stats"][0]["inference_stats"]
            times = {part: stats[part]["ns"] / stats[part]["count"] / 1e3 for part in ("success", "queue", "compute_input", "compute_infer", "compute_output")}
            print(f"  {name}, us of a request: {', '.join(f'{part} {time:.1f}' for part, time in times.items())}")
        self.assertLess(spent["words"] * 1.5, spent["python"])
        self.assertLess((spent["words"] - spent["idle"]) * 3, spent["python"] - spent["idle"])


if __name__ == "__main__":
    unittest.main()
