"""`relayvm profile`, `bench` and `inspect --sizes`: counts are exact; times are there, and not looked at."""

import json
import os
import re
import tempfile

import relayvm

# Runs at -O1, which keeps its calls.
FIB = """#[version = "0.0.5"]
def @fib(%n: int64) -> int64 { if (%n < 2i64) { %n } else { @fib(%n - 1i64) + @fib(%n - 2i64) } }
def @main(%n: int64) -> int64 { @fib(%n) }
"""
DENSE = """#[version = "0.0.5"]
free_var %w: Tensor[(2, 3), float32];
type Two { Two(Tensor[(?, 3), float32], Tensor[(?, 2), float32]), }
def @main(%x: Tensor[(?, 3), float32]) -> Two { Two(tanh(%x), nn.dense(%x, %w)) }
def @first(%x: Tensor[(4,), float32]) -> Tensor[(4,), float32] { tanh(%x) }
"""


def fib_calls(n):
    return 1 if n < 2 else 1 + fib_calls(n - 1) + fib_calls(n - 2)


class Profile(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def read_json(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def tool(self, *args):
        return relayvm.must(relayvm.COMPILER, *args)

    def error(self, *args):
        done = relayvm.run(relayvm.COMPILER, *args)
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def dense(self):
        import numpy
        numpy.savez(self.path("w.npz"), w=numpy.ones((2, 3), numpy.float32))
        return relayvm.compile_file(self.path("dense.relay", DENSE), self.path("dense.rvm"), 2, [self.path("w.npz")])

    # ---- profile

    def test_counts_of_calls_and_instructions(self):
        source = self.path("fib.relay", FIB)
        text = self.tool("profile", source, "-O1", "12", "--repeat", "2", "--json", self.path("p.json"))
        profile = self.read_json("p.json")
        calls = {row["name"]: row["calls"] for row in profile["functions"]}
        self.assertEqual(calls, {"main": 1, "fib": fib_calls(12)})
        counts = {row["name"]: row["count"] for row in profile["opcodes"]}
        self.assertEqual(counts["call"], fib_calls(12) - 1)
        self.assertEqual(sum(counts.values()), sum(row["instructions"] for row in profile["functions"]))
        self.assertEqual((profile["runs"], profile["entry"]), (2, "main"))
        for part in ("kernels", "kernel_calls", "memory", "instructions", "import", "export", "other", "away"):
            self.assertGreaterEqual(profile["split_ns"][part], 0)
        self.assertRegex(text, r"\n +[\d.]+ [num]?s +\d+\.\d%  other instructions\n")
        self.assertRegex(text, rf" {fib_calls(12)} +\d+  @fib\n")

    def test_the_same_counts_each_time(self):
        source = self.path("fib.relay", FIB)
        counts = []
        for repeat in "1", "3":
            self.tool("profile", source, "15", "--repeat", repeat, "--json", self.path("p.json"))
            profile = self.read_json("p.json")
            counts.append([(row["name"], row["count"]) for row in profile["opcodes"]])
        self.assertEqual(*counts)

    def test_kernels_shapes_cells_and_results(self):
        import numpy
        numpy.save(self.path("x.npy"), numpy.ones((5, 3), numpy.float32))
        text = self.tool("profile", self.dense(), f"@{self.path('x.npy')}", "--json", self.path("p.json"))
        profile = self.read_json("p.json")
        shapes = {kernel["name"]: [(s["shapes"], s["calls"]) for s in kernel["shapes"]] for kernel in profile["kernels"]}
        self.assertEqual(shapes["tanh"], [("(5, 3) float32 -> (5, 3) float32", 1)])
        self.assertIn("(5, 2) float32", shapes["dense"][0][0])
        self.assertEqual({k["name"]: k["bytes"] for k in profile["kernels"]}["tanh"], 2 * 5 * 3 * 4)
        memory = profile["memory"]
        self.assertEqual([(c["cell"], c["count"]) for c in memory["cells"]], [("Two of Two", 1)])
        self.assertEqual(memory["arguments"]["count"], 1)
        self.assertEqual(memory["tensors"]["count"], 2)
        self.assertEqual(memory["results_copied"], {"count": 2, "bytes": 5 * 3 * 4 + 5 * 2 * 4})
        self.assertIn("(5, 3) float32 -> (5, 3) float32", text)

    def test_time_line(self):
        source = self.path("fib.relay", FIB)
        done = relayvm.run(relayvm.COMPILER, "profile", source, "-O1", "10", "--trace", self.path("t.json"))
        events = self.read_json("t.json")["traceEvents"]
        self.assertEqual(sum(e["ph"] == "B" for e in events), fib_calls(10) + 1)
        self.assertEqual(sum(e["ph"] == "E" for e in events), fib_calls(10) + 1)
        self.assertEqual([e["name"] for e in events if e["ph"] == "X"], ["arguments in", "results out", "clean up"])
        times = [e["ts"] for e in events if e["ph"] in "BE"]
        self.assertEqual(times, sorted(times))
        self.assertEqual(done.stderr, "")
        done = relayvm.run(relayvm.COMPILER, "profile", source, "-O1", "10", "--trace", self.path("t.json"), "--trace-events", "9")
        self.assertEqual(sum(e["ph"] == "B" for e in self.read_json("t.json")["traceEvents"]), 7)
        self.assertEqual(sum(e["ph"] == "E" for e in self.read_json("t.json")["traceEvents"]), 7)
        # Beside calls there are the arguments and the return of @main among the nine, and two phases behind.
        self.assertEqual(done.stderr, f"the time line leaves out {fib_calls(10) + 1 - 7 + 2} events; "
                         "`--trace-events` raises the limit\n")

    def test_the_result_may_be_kept(self):
        import numpy
        numpy.save(self.path("x.npy"), numpy.zeros(4, numpy.float32))
        self.tool("profile", self.dense(), "--entry", "first", f"@{self.path('x.npy')}", "--out", self.path("y.npy"))
        self.assertEqual(numpy.load(self.path("y.npy")).tolist(), [0, 0, 0, 0])

    def test_errors(self):
        source = self.path("fib.relay", FIB)
        self.assertIn("no file given; expected a .rvm, .relay, .onnx, .pt2, .pt, .tflite, .mlirbc, .keras, .cfg, -symbol.json, .pb, .gguf or .json file", self.error("profile"))
        self.assertIn("saw 0 arguments; expected `main(%n: int64)`", self.error("profile", source))
        self.assertIn("saw `no` for --trace-events; expected a whole number from 1",
                      self.error("profile", source, "--trace-events", "no", "3"))
        self.assertIn("out of fuel", self.error("profile", source, "--fuel", "3", "20"))
        self.assertIn("no entry `x`", self.error("profile", self.dense(), "--entry", "x"))

    # ---- bench

    def test_bench_counts_runs(self):
        source = self.path("fib.relay", FIB)
        text = self.tool("bench", source, "8", "--runs", "6", "--warmup", "1", "--instances", "2", "--json",
                         self.path("b.json"))
        report = self.read_json("b.json")
        self.assertEqual((report["latency"]["runs"], report["instances"], report["warmup"]), (12, 2, 1))
        latency = report["latency"]
        steps = [latency[key] for key in ("least_ns", "p50_ns", "p90_ns", "p99_ns", "most_ns")]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual([line["runs"] for line in report["lines"]], [12])
        self.assertTrue(report["cpu"])
        self.assertIn(report["cpu"], text)
        self.assertRegex(text, r"\d+\.\d runs per second")

    def test_bench_takes_lines_of_values_in_turn(self):
        import numpy
        for rows in 1, 2:
            numpy.save(self.path(f"{rows}.npy"), numpy.ones((rows, 3), numpy.float32))
        mix = self.path("mix.txt", f"# small and big\n\n  @{self.path('1.npy')}\n'@{self.path('2.npy')}'\n"
                        "\"[[1.0, 2.0, 3.0]]\"\n")
        text = self.tool("bench", self.dense(), "--runs", "7", "--args-file", mix, "--json", self.path("b.json"))
        self.assertEqual(sorted(line["runs"] for line in self.read_json("b.json")["lines"]), [2, 2, 3])
        self.assertIn("line 3 of values", text)

    def test_bench_for_seconds(self):
        self.tool("bench", self.path("fib.relay", FIB), "5", "--seconds", "0.25", "--json", self.path("b.json"))
        report = self.read_json("b.json")
        self.assertGreaterEqual(report["seconds"], 0.25)
        self.assertGreaterEqual(report["latency"]["runs"], 1)
        self.assertIn("saw `0` for --seconds; expected a number above 0, such as 10 or 0.5",
                      self.error("bench", self.path("fib.relay"), "5", "--seconds", "0"))

    def test_bench_of_a_batch(self):
        source = self.path("fib.relay", FIB)
        for options in (["--lanes", "3"], ["--rate", "20000"], ["--lanes", "2", "--rate", "20000", "--seconds", "0.05"]):
            text = self.tool("bench", source, "8", *options, *(() if "--seconds" in options else ("--runs", "40")), "--json",
                             self.path("b.json"))
            report = self.read_json("b.json")
            self.assertEqual(report["lanes"], 8 if options[0] == "--rate" else int(options[1]))
            if "--seconds" not in options:
                self.assertEqual(report["latency"]["runs"], 40)
            self.assertIn(f"a batch of {report['lanes']} lanes, 1 threads", text)
            self.assertEqual("20000 requests a second at random" in text, "--rate" in options)
        self.assertIn("`--instances` excludes `--lanes`", self.error("bench", source, "--lanes", "3", "--instances", "2", "8"))
        self.assertIn("out of fuel", self.error("bench", source, "--fuel", "3", "--lanes", "2", "20"))

    # ---- calls of a file

    def test_calls_of_a_file(self):
        source = self.path("fib.relay", FIB)
        calls = self.path("calls.txt", "# some\n5\n\n10\n7\n")
        for options in ((), ("--lanes", "1"), ("--lanes", "8")):
            self.assertEqual(self.tool("run", source, "--args-file", calls, *options), "5i64\n55i64\n13i64\n")
            failed = relayvm.run(relayvm.COMPILER, "run", source, "--args-file", self.path("c2.txt", "2\n30\n3\n40\n"), "--fuel", "50",
                                 *options)
            self.assertEqual((failed.returncode, failed.stdout), (1, "1i64\n\n2i64\n\n"))
            self.assertIn("2 of 4 calls failed; call 2: out of fuel", failed.stderr)
            self.assertIn("--fuel sets another", failed.stderr)
        self.assertIn("`--lanes` is for the calls of an `--args-file`", self.error("run", source, "--lanes", "2", "5"))
        self.assertIn("`--args-file` excludes `--out`, `--repeat` and `--stats`",
                      self.error("run", source, "--args-file", calls, "--stats"))
        self.assertIn("`--args-file` has many calls", self.error("profile", source, "--args-file", calls))
        self.assertIn("saw 5000 lanes; expected 1 to 1024", self.error("run", source, "--args-file", calls, "--lanes", "5000"))

    def test_bench_errors(self):
        source = self.path("fib.relay", FIB)
        self.assertIn("`--runs` and `--seconds` exclude each other",
                      self.error("bench", source, "--runs", "2", "--seconds", "1", "3"))
        self.assertIn("`--repeat` is for `run` and `profile`", self.error("bench", source, "--repeat", "2", "3"))
        self.assertIn("expected 1 to 1024", self.error("bench", source, "--instances", "5000", "3"))
        mix = self.path("mix.txt", "3\n\n4 5\n")
        self.assertIn(f"{mix}:3: saw 2 arguments", self.error("bench", source, "--args-file", mix))
        self.assertIn("`--args-file` has the values", self.error("bench", source, "--args-file", mix, "3"))
        self.assertIn(":1: a quote has no end", self.error("bench", source, "--args-file", self.path("q", "'3\n")))
        self.assertIn("has no line of values", self.error("bench", source, "--args-file", self.path("e", "# none\n")))
        self.assertIn("out of fuel", self.error("bench", source, "--fuel", "3", "--instances", "2", "20"))

    # ---- inspect --sizes

    def test_sizes_add_up(self):
        model = self.dense()
        text = self.tool("inspect", model, "--sizes")
        section = re.search(r"^sections\n((?: .*\n)+)", text, re.MULTILINE).group(1)
        self.assertEqual(sum(int(line.split()[0]) for line in section.splitlines()), os.path.getsize(model))
        self.assertIn("  @first\n", text)
        self.assertRegex(text, r"\nconstants\n +\d+ 100.0%  0  \(.*\) float32  w\n")  # the weight, as its kernel wants it
        kernels = re.search(r"^kernels for .*\n((?: .*\n)+)", text, re.MULTILINE).group(1)
        sizes = {line.split()[2]: int(line.split()[0]) for line in kernels.splitlines() if "rvm_" in line}
        self.assertGreaterEqual(len(sizes), 2)
        self.assert_none([name for name, size in sizes.items() if size < 16], "less code than a function takes")

    def test_help(self):
        for verb, option in ("profile", "--trace-events N"), ("bench", "--args-file FILE"), ("inspect", "--sizes"):
            text = self.tool("help", verb)
            self.assertIn(option, text)
            self.assertIn(f"  relayvm {verb} ", self.tool("help"))
