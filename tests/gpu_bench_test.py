"""What `./run bench gpu` packs, small, checked and timed on the driver that interprets PTX: all right, wrong, with faults, and endless."""

import glob
import json
import os
import re
import sys
import tarfile
import tempfile
import unittest

import relayvm

PATHS = os.pathsep.join(os.path.join(relayvm.ROOT, name) for name in ("tests", "benchmarks"))
FAKE = os.path.join(relayvm.ROOT, "bazel-bin/tests/cuda")
sys.path.insert(0, os.path.join(relayvm.ROOT, "benchmarks/gpu"))

import runs  # pylint: disable=wrong-import-position
import stages  # pylint: disable=wrong-import-position


@unittest.skipUnless(os.path.exists(relayvm.COMPILER), "the compiler is not built")
class GpuBench(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = os.path.join(folder.name, "made", "gpu")
        relayvm.must(sys.executable, os.path.join(relayvm.ROOT, "benchmarks/gpu/pack.py"), cls.folder, "--small",
                     env={**os.environ, "PYTHONPATH": PATHS})

    def measure(self, *flags, change=None, **environment):
        """(exit code, summary, log) of the pack, unpacked where there is nothing of this tree, in an environment of nothing else."""
        with tempfile.TemporaryDirectory() as place:
            with tarfile.open(self.folder + ".tar.gz") as file:
                file.extractall(place)
            there = os.path.join(place, "gpu")
            if change is not None:
                change(there)
            done = relayvm.run(sys.executable, "-I", "-c", f"import runpy, sys; sys.path.insert(0, {there!r}); runpy.run_path('measure.py', run_name='__main__')",
                               "--jobs", "2", "--each", "0.01", *flags, cwd=there, timeout=100,
                               env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": FAKE, "FAKE_CUDA_CAPABILITY": "90", **environment})
            out = os.path.join(there, "out")
            with open(f"{out}/summary.md", encoding="utf-8") as file:
                summary = file.read()
            with open(f"{out}/log.jsonl", encoding="utf-8") as file:
                log = [json.loads(line) for line in file]
        self.assertNotIn("BROKEN", summary, done.stderr)
        self.assertNotIn("NOT RUN, no time", summary)
        return done.returncode, summary, log

    def test_all_is_right(self):
        code, summary, log = self.measure("--seconds", "300")
        self.assertEqual(code, 0, summary)
        self.assertIn("ALL RIGHT", summary)
        self.assertRegex(summary, r"cuBLASLt: 1 products by its library; cuBLASLt 13\.4\.25")
        self.assertRegex(summary, r"smoke nn.softmax\(%x\), CUBLASLT=off: right, same bits as interpreted: True")
        for program in ("launches", "copies", "matmul 24", "LSTM 6->8", "GRU 6->8", "Tree-LSTM 8->5", "BERT, 1 layers of 16", "BERT, 1 layers of 16, float32",
                        "BERT, 1 layers of 16, bfloat16", "BERT, 1 layers of 16, TF32", "softmax, 8x40", "layer norm, 8x40", "gelu, 8x40", "transpose, 8x40",
                        "sum of all, 8x40", "sum over rows, 8x40"):
            self.assertRegex(summary, rf"\| {program} [^|]*\|( [0-9.e+-]+ [^|]*\|){{4}} \d+, \d+%, \d+ \|")
        self.assertRegex(summary, r"\| LSTM 6->8 .*, [5-9]\d%, \d+ \|")
        for kind in ("float32", "bfloat16", "TF32"):
            self.assertRegex(summary, rf"\| dense 5x16x32, {kind} and back \| [0-9.]+ us per product \|")
        self.assertRegex(summary, r"\| LSTM 6->8, 3 lengths 3 to 5 tokens \| [0-9.]+ us per token \|")
        checked = [entry for entry in log if entry["kind"] == "check"]
        self.assertTrue(all(entry["state"] == "right" for entry in checked))
        without_library = [entry for entry in checked if entry["environment"].get("RELAYVM_CUBLASLT") == "off"]
        self.assertGreater(sum(entry["same_bits"] is True for entry in without_library), 0.9 * len(without_library))
        self.assertGreater(sum("random program" in entry["title"] for entry in checked), 3)

    def test_kernels_of_ncu(self):
        """Those that take the longest first, by kernel and grid, units as the table has them."""
        def rows(number, name, grid, time, unit, bytes_):
            start = f'"{number}","17","relayvm-run","127.0.0.1","{name}","1","7","(128, 1, 1)","({grid}, 1, 1)","0","9.0","Command line profiler metrics"'
            return f'{start},"gpu__time_duration.sum","{unit}","{time}"\n{start},"dram__bytes.sum","byte","{bytes_}"\n'

        head = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
        out = "==PROF== Connected\n[[1f]]\n" + head + rows(0, "k0", 4, "2,000", "ns", "1,000,000") + rows(1, "k1", 8, "7", "us", "n/a") + rows(2, "k0", 4, "4,000", "ns", "3,000,000")
        kernels = stages.kernels_of(out)
        self.assertEqual([kernel[:3] for kernel in kernels], [("k1", "8", 1), ("k0", "4", 2)])
        self.assertEqual([kernel[3]["us"] for kernel in kernels], [7, 3])
        self.assertEqual([kernel[3]["MB of memory"] for kernel in kernels], [0, 2])

    def test_a_wrong_result_is_named(self):
        """Also one whose bits alone differ from the interpreter's."""
        def change(folder):
            with open(f"{folder}/manifest.json", encoding="utf-8") as file:
                manifest = json.load(file)
            wrong, other = manifest["smoke"][0]["runs"][0]["expected"], manifest["smoke"][1]["runs"][0]["interpreted"]
            for path, old, new in ((wrong, r"\d\.", "7."), (other, r"(\d)f", lambda digit: f"{(int(digit.group(1)) + 1) % 10}f")):
                with open(f"{folder}/{path}", encoding="utf-8") as file:
                    text = file.read()
                with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
                    file.write(re.sub(old, new, text, count=1))

        code, summary, _ = self.measure("--seconds", "60", "--only", "smoke", change=change)
        self.assertEqual(code, 1, summary)
        self.assertRegex(summary, r"smoke tanh\(%x\) \* %x, CUBLASLT=off: wrong, .*number \d+ is .*; expected ")
        self.assertRegex(summary, r"smoke nn.softmax\(%x\), CUBLASLT=off: other bits, .*1 of 11100 numbers have other bits than on the interpreter of PTX: number 0")
        self.assertIn("smoke nn.dense(%a, %b), CUBLASLT=off: right", summary)

    def test_a_case_of_a_batch_is_named(self):
        """The result of one of several operators."""
        def change(folder):
            with open(f"{folder}/manifest.json", encoding="utf-8") as file:
                run = json.load(file)["operators"][0]["runs"][0]
            with open(f"{folder}/{run['expected']}", encoding="utf-8") as file:
                fields = runs.fields_of(file.read())
            self.wrong = run["cases"][2]["call"]
            fields[2] = re.sub(r"\d+", lambda number: str(int(number.group()) + 3), fields[2], count=1)
            with open(f"{folder}/{run['expected']}", "w", encoding="utf-8") as file:
                file.write(f"({', '.join(fields)})")

        code, summary, _ = self.measure("--seconds", "100", "--only", "correct", change=change)
        self.assertEqual(code, 1)
        self.assertEqual(re.findall(r"- NOT RIGHT (.*): wrong: number 0 is ", summary), [self.wrong])

    def test_a_fault_in_each_run(self):
        code, summary, log = self.measure("--seconds", "55", FAKE_CUDA_FAIL="run:0")
        self.assertEqual(code, 1)
        self.assertRegex(summary, r"(?s)smoke tanh\(%x\) \* %x, CUBLASLT=off: fails; .*is lost: ")
        self.assertRegex(summary, r"NOT RIGHT .*: fails: .*is lost: ")
        self.assertIn("its cases one by one:", summary)
        self.assertLessEqual(summary.count("- NOT RIGHT"), 41)
        self.assertRegex(summary, r"\d+ RUNS ARE NOT RIGHT; \d+ s in all\n$")
        self.assertTrue(all("one_by_one" in entry for entry in log if entry.get("state") == "fails"))

    def test_kernels_that_do_not_end(self):
        code, summary, log = self.measure("--seconds", "30", FAKE_CUDA_FAIL="hang:0")
        self.assertEqual(code, 1)
        self.assertIn("CUBLASLT=off CUDA_GRAPHS=off: hangs; ", summary)
        self.assertLess(float(re.search(r"NOT RIGHT; (\d+) s in all\n$", summary).group(1)), 40)
        self.assertTrue(all(entry["state"] == "hangs" for entry in log if entry["kind"] == "check"))

    def test_some_kernels_that_do_not_end(self):
        """Those of runs with many launches: the rest is checked."""
        code, _, log = self.measure("--seconds", "40", "--only", "correct", FAKE_CUDA_FAIL="hang:16")
        self.assertEqual(code, 1)
        states = {entry["title"]: entry["state"] for entry in log if entry["kind"] == "check" and entry["environment"]["RELAYVM_CUBLASLT"] == "off"}
        self.assertEqual(states["Tree-LSTM 8->5 3 nodes"], "hangs")
        self.assertEqual(states["launches one after the other"], "right")
        self.assertEqual(states["softmax, 8x40 made there"], "right")

    def test_a_fault_of_a_batch(self):
        """Its cases run one by one."""
        code, summary, _ = self.measure("--seconds", "60", "--only", "correct", FAKE_CUDA_FAIL="run:5")
        self.assertEqual(code, 1)
        self.assertRegex(summary, r"operators \d+ to \d+: all cases together, and none alone")

    def test_the_pack_is_small(self):
        self.assertLess(os.path.getsize(self.folder + ".tar.gz"), 8 << 20)
        self.assertEqual(glob.glob(f"{self.folder}/*.relay") + glob.glob(f"{self.folder}/*.npz"), [])


class Comparison(unittest.TestCase):
    """What the pack makes of printed values."""

    def test_numbers_and_fields(self):
        self.assertEqual(runs.numbers("[1.5f, -2f16, 3bf16, nanf, -inff64, 4i8, 1e-05f]")[:3], [1.5, -2, 3])
        self.assertEqual(len(runs.numbers("[1.5f, -2f16, 3bf16, nanf, -inff64, 4i8, 1e-05f]")), 7)
        self.assertEqual(runs.fields_of("([1, 2], (3, [4]), True,)"), ["[1, 2]", "(3, [4])", "True"])
        self.assertEqual(runs.fields_of("(5f)"), ["5f"])

    def test_tolerance(self):
        for seen, wanted, tolerance, bad in (("[1f, 100f]", "[1.001f, 100f]", 1e-4, 0), ("[1f, 1f]", "[1.001f, 1f]", 1e-4, 1), ("[nanf]", "[nanf]", 0, 0),
                                             ("[nanf]", "[1f]", 1, 1), ("[inff]", "[-inff]", 1, 1), ("[1f]", "[1f, 2f]", 1, 2)):
            self.assertEqual(runs.compare(seen, wanted, tolerance)["bad"], bad, (seen, wanted))

    def test_bits(self):
        for is_exact, state in (True, "other bits"), (False, "right"):
            self.assertEqual(runs.judge_text("[1f]", "[1f]", "[1.0000001f]", 1e-4, is_exact)["state"], state)


if __name__ == "__main__":
    unittest.main()
