"""`relayvm run --dump-values`: the tensors of a run, with their places, also in loops and of runs that fail."""

import json
import os
import tempfile

import numpy

import relayvm

LOOP = """def @step(%h: Tensor[(1, 4), float32], %x: float32) {
  let %y = tanh(nn.dense(%h, full(0.5f, shape=[4, 4])));
  %y + %x
}
def @loop(%h: Tensor[(1, 4), float32], %n: int32) -> Tensor[(1, 4), float32] {
  if (%n == 0) { %h } else { @loop(@step(%h, cast(%n, dtype="float32")), %n - 1) }
}
def @main(%n: int32) { @loop(ones(shape=[1, 4], dtype="float32"), %n) }
"""
FAILS = """def @main(%x: Tensor[(n), float32], %i: List[int32]) -> float32 {
  let %logs = log(%x);
  take(%logs, @nth(%i, 3), axis=0)
}
"""
KINDS = """def @main(%x: Tensor[(2, 6), float32], %n: int32) {
  let %halves = split(%x, indices_or_sections=2, axis=1);
  let %rows = reshape(%halves.0, newshape=[3, 2]);
  let %wide = cast(%rows, dtype="bfloat16");
  (%halves.1, %wide, sum(%x), zeros(shape=[0, 3], dtype="int64"))
}
"""
SUMS = """def @sum(%list: List[int32], %h: Tensor[(1, 128), float32]) -> Tensor[(1, 128), float32] {
  match (%list) {
    Nil => %h,
    Cons(%x, %rest) => @sum(%rest, nn.dense(%h, full(0.0078125f, shape=[128, 128])) + cast(%x, dtype="float32")),
  }
}
def @main(%lists: List[List[int32]]) -> List[Tensor[(1, 1), float32]] {
  @map(fn (%list: List[int32]) { max(@sum(%list, zeros(shape=[1, 128], dtype="float32")), axis=[1], keepdims=True) }, %lists)
}
"""


class DumpValues(relayvm.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.dumps = 0

    def write(self, text, name="program.relay"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def dump(self, path, *arguments, code=0):
        """The rows of the index, each with its array as "value", and what the tool printed."""
        target = os.path.join(self.folder, f"dump{self.dumps}")
        self.dumps += 1
        done = relayvm.run(relayvm.COMPILER, "run", path, "--dump-values", target, *arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        with open(os.path.join(target, "index.json"), encoding="utf-8") as file:
            rows = json.load(file)
        self.assertEqual(sorted(os.listdir(target)), sorted([row["file"] for row in rows] + ["index.json"]))
        for row in rows:
            row["value"] = numpy.load(os.path.join(target, row["file"]))
            self.assertEqual(list(row["value"].shape), row["shape"])
        return rows, done

    def test_each_step_of_a_loop(self):
        path = self.write(LOOP)
        rows, done = self.dump(path, "-O0", "3")
        h, expected = numpy.ones((1, 4), "float32"), []
        for x in (3, 2, 1):
            product = h @ numpy.full((4, 4), 0.5, "float32")
            h = numpy.tanh(product) + numpy.float32(x)
            expected += [("dense", product, "2:17"), ("tanh", numpy.tanh(product), "2:12"), ("add", h, "3:3")]
        seen = [row for row in rows if row["kernel"] in ("dense", "tanh", "add") and row["function"] == "step"]
        self.assertEqual([(row["kernel"], row["time"]) for row in seen], [(name, i // 3) for i, (name, _, _) in enumerate(expected)])
        for row, (_, value, place) in zip(seen, expected):
            numpy.testing.assert_allclose(row["value"], value, 1e-5)
            self.assertEqual(row["place"], f"{path}:{place}")
        self.assertIn(f"wrote {len(rows)} tensors", done.stderr)

    def test_fused_kernels_of_each_class(self):
        """The last tensor is the result, whether as machine code, portable, or with functions as machine code."""
        path = self.write(LOOP)
        expected, _ = self.dump(path, "-O0", "5")
        for options in (["-O2"], ["-O3"], ["--target", "portable"], ["--control", "native"], ["--threads", "2"]):
            rows, _ = self.dump(path, "5", *options)
            self.assertLess(len(rows), len(expected))
            numpy.testing.assert_allclose(rows[-1]["value"], expected[-1]["value"], 1e-5)
            self.assertEqual(rows[-1]["time"], 4)

    def test_views_scalars_several_results_and_dtypes(self):
        x = os.path.join(self.folder, "x.npy")
        values = numpy.arange(12, dtype="float32").reshape(2, 6)
        numpy.save(x, values)
        rows, _ = self.dump(self.write(KINDS), "-O0", f"@{x}", "1")
        by_kernel = {}
        for row in rows:
            by_kernel.setdefault(row["kernel"], []).append(row)
        halves = [row for row in rows if row["kernel"].startswith(("split", "strided_slice"))]
        self.assertEqual(len(halves), 2)
        numpy.testing.assert_array_equal(halves[1]["value"], values[:, 3:])
        numpy.testing.assert_array_equal(by_kernel["view"][0]["value"], values[:, :3].reshape(3, 2))
        wide = next(row for row in rows if row["dtype"] == "bfloat16")  # which .npy lacks
        self.assertEqual((wide["value"].dtype, wide["value"].tolist()), (numpy.float32, values[:, :3].reshape(3, 2).tolist()))
        self.assertEqual([row["value"].item() for row in by_kernel["sum"]], [66])
        self.assertEqual([row["shape"] for row in by_kernel["zeros"]], [[0, 3]])

    def test_calls_that_wait_for_others(self):
        """In a program with variants for batches, kernels have not run when their instruction ends."""
        batch = os.path.join(self.folder, "batch.rvm")
        relayvm.must(relayvm.COMPILER, "compile", self.write(SUMS), "--batch", "-o", batch)
        rows, done = self.dump(batch, "[[1, 2], [3, 4, 5]]")
        self.assertEqual(done.stdout.strip(), "Cons([[3f]], Cons([[12f]], Nil))")
        largest = [float(row["value"].max()) for row in rows if row["shape"] == [1, 128]]
        self.assertLessEqual({1.0, 3.0, 7.0, 12.0}, set(largest), largest)

    def test_a_run_that_fails(self):
        path = self.write(FAILS)
        rows, done = self.dump(path, "-O0", "[1, 0, -1]", "[0, 1]", code=1)
        self.assertIn("in `main` at", done.stderr)
        logs = next(row for row in rows if row["kernel"].startswith("log"))
        numpy.testing.assert_array_equal(logs["value"], [0, -numpy.inf, numpy.nan])
        self.assertEqual(logs["not_finite"], 2)

    def test_limits_and_mistakes(self):
        path = self.write(LOOP)
        rows, done = self.dump(path, "100", "--dump-limit", "3")
        self.assertEqual(len(rows), 3)
        self.assertRegex(done.stderr, r"wrote 3 tensors .*The run gave 1\d\d: `--dump-limit` sets another limit")

        def error(*arguments):
            done = relayvm.run(relayvm.COMPILER, "run", path, *arguments)
            self.assertEqual(done.returncode, 1, done.stdout)
            return done.stderr

        self.assertIn("has files; expected a new or an empty folder", error("1", "--dump-values", self.folder))
        self.assertIn("cannot make the folder", error("1", "--dump-values", os.path.join(path, "below")))
        self.assertIn("is for one run", error("1", "--repeat", "2", "--dump-values", os.path.join(self.folder, "d")))
        self.assertIn("`--dump-limit` is for `--dump-values`", error("1", "--dump-limit", "3"))
        self.assertIn("--dump-limit", error("1", "--dump-values", os.path.join(self.folder, "d"), "--dump-limit", "0"))
