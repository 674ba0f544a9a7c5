"""`relayvm quantize`: narrower weights and products of bytes, wherever products stand."""

import json
import os
import re
import tempfile

import numpy as np

import relayvm

DEPTH, WIDTH = 160, 192

# Products in a recursion over a list and over a tree, in a closure, by a transposed matrix and by one whose columns are
# summed, a table, and a convolution.
PROGRAM = f"""
type List[A] {{ Cons(A, List[A]), Nil, }}
type Tree {{ Node(Tree, Tree), Leaf(Tensor[(1, {DEPTH}), float32]), }}
free_var %cell: Tensor[({DEPTH}, {DEPTH}), float32];
free_var %child: Tensor[({DEPTH}, {DEPTH}), float32];
free_var %inner: Tensor[({DEPTH}, {WIDTH}), float32];
free_var %words: Tensor[(300, {DEPTH}), float32];
free_var %filter: Tensor[({WIDTH}, {DEPTH}, 1), float32];

def @fold(%l: List[int32], %h: Tensor[(1, {DEPTH}), float32]) -> Tensor[(1, {DEPTH}), float32] {{
  match (%l) {{
    Cons(%x, %rest) => @fold(%rest, tanh(nn.dense(%h, %cell) + take(%words, %x, axis=0))),
    Nil => %h,
  }}
}}
def @sum(%t: Tree) -> Tensor[(1, {DEPTH}), float32] {{
  match (%t) {{
    Node(%a, %b) => {{
      let %by = fn (%x: Tensor[(1, {DEPTH}), float32]) {{ nn.dense(%x, %child) }};
      tanh(%by(@sum(%a)) + %by(@sum(%b)))
    }},
    Leaf(%x) => %x,
  }}
}}
def @grow(%n: int32, %h: Tensor[(1, {DEPTH}), float32]) -> Tree {{
  if (%n == 0) {{ Leaf(%h) }} else {{ Node(@grow(%n - 1, %h), @grow(%n - 1, %h * 0.5f)) }}
}}
def @main(%l: List[int32], %n: int32) -> Tensor[(1, {WIDTH}, 1), float32] {{
  let %h = @fold(%l, zeros(shape=[1, {DEPTH}], dtype="float32"));
  let %wide = nn.matmul(@sum(@grow(%n, %h)), %inner);
  let %narrow = nn.dense(%wide, %inner);
  nn.conv1d(expand_dims(%narrow, axis=2), %filter, channels={WIDTH}, kernel_size=[1])
}}
"""
CALL = ["[1, 299, 17, 5]", "3"]
# The names of the sites.
SITES = {"cell", "words", "child", "inner", "filter"}
# The greatest error of the result, relative to its norm, and bytes of a stored element.
SCHEMES = {"float16": (1e-3, 2), "bfloat16": (1e-2, 2), "w16a16": (1e-2, 2), "w8": (2e-2, 1), "w4": (0.3, 0.5), "w4a8-dynamic": (0.3, 0.5), "w8a8-dynamic": (3e-2, 1)}


class QuantizeTest(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        rng = np.random.default_rng(5)
        shapes = {"cell": (DEPTH, DEPTH), "child": (DEPTH, DEPTH), "inner": (DEPTH, WIDTH), "words": (300, DEPTH),
                  "filter": (WIDTH, DEPTH, 1)}
        cls.weights = {name: rng.normal(size=shape, scale=0.08).astype(np.float32) for name, shape in shapes.items()}
        cls.params = f"{cls.folder}/w.npz"
        np.savez(cls.params, **cls.weights)
        cls.source = cls.write("p.relay", PROGRAM)
        cls.float = relayvm.compile_file(cls.source, f"{cls.folder}/float.rvm", params=[cls.params])

    @classmethod
    def write(cls, name, text):
        path = f"{cls.folder}/{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def quantize(self, source, output, *options, params=True):
        path = f"{self.folder}/{output}"
        given = ["--params", self.params] if params else []
        return path, relayvm.run(relayvm.COMPILER, "quantize", source, *given, "-o", path, *options)

    def result(self, program, *options, params=()):
        out = f"{self.folder}/y.npy"
        files = [option for file in params for option in ("--params", file)]
        tool = [relayvm.RUNTIME, program] if program.endswith(".rvm") else [relayvm.COMPILER, "run", program, *files]
        relayvm.must(*tool, "--out", out, *options, *CALL)
        return np.load(out)

    def error(self, y):
        expected = self.result(self.float)
        return np.linalg.norm(y - expected) / np.linalg.norm(expected)

    def test_schemes(self):
        """In recursion, closures and trees: results are near, each weight is stored in its bits, and the program as text
        is the same program."""
        for scheme, (bound, width) in SCHEMES.items():
            with self.subTest(scheme=scheme):
                report = f"{self.folder}/r.json"
                path, done = self.quantize(self.source, "q.rvm", "--scheme", scheme, "--force", "--report", report)
                self.assertEqual(done.returncode, 0, done.stderr)
                y = self.result(path)
                self.assertLess(self.error(y), bound)
                self.assertGreater(self.error(y), 0)
                with open(report, encoding="utf-8") as file:
                    sites = {site["name"].split(".")[0]: site for site in json.load(file)["sites"]}
                self.assertEqual(set(sites), SITES)
                for name, site in sites.items():
                    expected = {"w4": "w8", "w4a8-dynamic": "w8a8-dynamic"}.get(scheme, scheme) if name == "filter" else scheme
                    self.assertEqual(site["scheme"], expected, site)
                    bits = 1 if expected != scheme else width
                    self.assertLess(site["bytes_after"], (bits + 0.2) * self.weights[name].size)
                text, done = self.quantize(self.source, "q.relay", "--scheme", scheme, "--force")
                self.assertEqual(done.returncode, 0, done.stderr)
                again = self.result(text, params=[f"{self.folder}/q.safetensors"])
                np.testing.assert_allclose(again, y, rtol=1e-4, atol=1e-4 * np.abs(y).max())
                # The two orders of `inner` have codes of their own.
                size = sum(w.size for w in self.weights.values()) + self.weights["inner"].size
                self.assertLess(os.path.getsize(f"{self.folder}/q.safetensors"), (width + 0.3) * size)

    def test_weights_are_rounded_by_output(self):
        """The codes of a product are those of numpy, for both orders of a matrix."""
        x = np.eye(DEPTH, dtype=np.float32)
        np.save(f"{self.folder}/x.npy", x)
        for name, body, axis in (("dense", "nn.dense(%x, %cell)", 1), ("matmul", "nn.matmul(%x, %cell)", 0)):
            source = self.write("one.relay", f"free_var %cell: Tensor[({DEPTH}, {DEPTH}), float32];\n"
                                f"def @main(%x: Tensor[(n, {DEPTH}), float32]) {{ {body} }}")
            path, done = self.quantize(source, "one.rvm", "--scheme", "w8", "--force")
            self.assertEqual(done.returncode, 0, done.stderr)
            relayvm.must(relayvm.RUNTIME, path, "--out", f"{self.folder}/y.npy", f"@{self.folder}/x.npy")
            weight = self.weights["cell"]
            scale = np.abs(weight).max(axis=axis, keepdims=True) / np.float32(127)
            rounded = np.round(weight / scale) * scale
            np.testing.assert_allclose(np.load(f"{self.folder}/y.npy"), rounded.T if name == "dense" else rounded,
                                       rtol=1e-5, atol=1e-6)

    def test_weights_of_16_bits(self):
        """Weights that the program widens, in either order, by name or in place."""
        source = self.write("half.relay", f"""
free_var %cell: Tensor[({DEPTH}, {DEPTH}), float32];
def @main(%x: Tensor[(n, {DEPTH}), float32]) {{
  let %half = cast(cast(%cell, dtype="bfloat16"), dtype="float32");
  let %y = nn.dense(%x, %half);
  nn.matmul(nn.dense(%y, transpose(%half)), cast(transpose(cast(%cell, dtype="float16")), dtype="float32"))
}}""")
        report, x = f"{self.folder}/half.json", f"{self.folder}/x.npy"
        np.save(x, np.random.default_rng(2).normal(size=(5, DEPTH)).astype(np.float32))
        program = relayvm.compile_file(source, f"{self.folder}/half.rvm", params=[self.params])
        relayvm.must(relayvm.RUNTIME, program, "--out", f"{self.folder}/want.npy", f"@{x}")
        want = np.load(f"{self.folder}/want.npy")
        for scheme, bound in (("w16a16", 2e-2), ("w8", 2e-2), ("bfloat16", 1e-2)):
            with self.subTest(scheme=scheme):
                path, done = self.quantize(source, "half.q.rvm", "--scheme", scheme, "--force", "--report", report)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(report, encoding="utf-8") as file:
                    sites = json.load(file)["sites"]
                self.assertEqual([(site["scheme"], site["bytes_before"]) for site in sites], 3 * [(scheme, 2 * DEPTH * DEPTH)])
                relayvm.must(relayvm.RUNTIME, path, "--out", f"{self.folder}/y.npy", f"@{x}")
                self.assertLess(np.linalg.norm(np.load(f"{self.folder}/y.npy") - want) / np.linalg.norm(want), bound)

    def test_kept_weights_stay(self):
        report = f"{self.folder}/kept.json"
        _, done = self.quantize(self.source, "kept.rvm", "--force", "--keep", "cell", "--report", report)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report, encoding="utf-8") as file:
            schemes = {site["name"]: (site["scheme"], site["reason"]) for site in json.load(file)["sites"]}
        self.assertEqual(schemes["cell"], ("float", "kept"))
        self.assertEqual(schemes["child"][0], "w8")

    def test_nothing_slower_is_written(self):
        """3x3 convolutions with weights alone in int8 lose Winograd's algorithm."""
        rng = np.random.default_rng(1)
        np.savez(f"{self.folder}/conv.npz", w=rng.normal(size=(64, 64, 3, 3)).astype(np.float32))
        source = self.write("conv.relay", "free_var %w: Tensor[(64, 64, 3, 3), float32];\n"
                            "def @main(%x: Tensor[(1, 64, 28, 28), float32]) {\n"
                            "  nn.conv2d(%x, %w, padding=[1, 1], channels=64, kernel_size=[3, 3])\n}")
        path, done = self.quantize(source, "slow.rvm", "--params", f"{self.folder}/conv.npz", params=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"nothing gains by `w8`, so no program is written; `--force`")
        self.assertRegex(done.stderr, r"w of `main`: slower as w8: [0-9.e+]+ us, [0-9.e+]+ in floats")
        self.assertFalse(os.path.exists(path))
        path, done = self.quantize(source, "slow.rvm", "--params", f"{self.folder}/conv.npz", "--force", params=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_report_is_a_page(self):
        report = f"{self.folder}/r.html"
        _, done = self.quantize(self.source, "r.rvm", "--scheme", "w8a8-dynamic", "--report", report)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report, encoding="utf-8") as file:
            page = file.read()
        for name in SITES:
            self.assertRegex(page, rf'<td class="name">{name}</td>')
        # Times before and after.
        self.assertRegex(page, r"product \(160, 160\)</td>.*<td>[0-9.]+</td><td>[0-9.]+</td><td></td>")
        _, done = self.quantize(self.source, "r.rvm", "--scheme", "w8a8", "--data", self.data("calls.txt", ["[1,2] 1"]), "--force",
                                "--report", report)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report, encoding="utf-8") as file:
            page = file.read()
        for part in ("<rect ", "% beyond", "With the data: error of the results"):
            self.assertIn(part, page)

    def data(self, name, lines):
        return self.write(name, "\n".join(lines) + "\n")

    def sites(self, report):
        with open(report, encoding="utf-8") as file:
            page = json.load(file)
        return page, {site["name"]: site for site in page["sites"]}

    def test_calibration_sees_every_step(self):
        """Of lists, of trees and in closures: the calls of each site, their range, and the results of the program."""
        data = self.data("calls.txt", ["[1,299,17,5] 3", "[] 3", "[7,250] 0"])
        report = f"{self.folder}/seen.json"
        path, done = self.quantize(self.source, "seen.rvm", "--scheme", "w8a8", "--data", data, "--force", "--report", report)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(self.error(self.result(path)), 0.05)
        page, sites = self.sites(report)
        self.assertEqual(page["calls"], 3)
        calls = {name.split(".")[0]: 0 for name in sites}
        for name, site in sites.items():
            calls[name.split(".")[0]] += site.get("calls", 0)
        # Two children for each of the 7 and 7 nodes.
        self.assertEqual(calls, {"cell": 6, "words": 0, "child": 28, "inner": 6, "filter": 3})
        self.assertLessEqual(max(abs(sites["cell"]["least"]), sites["cell"]["greatest"]), 1)

    def test_observers(self):
        """The range that a rule chooses among known numbers, from a file of arrays and from a folder."""
        source = self.write("one.relay", f"free_var %cell: Tensor[({DEPTH}, {DEPTH}), float32];\n"
                            f"def @main(%x: Tensor[(n, {DEPTH}), float32]) {{ nn.dense(%x, %cell) }}")
        x = np.random.default_rng(2).normal(size=(6, 5, DEPTH)).astype(np.float32)
        x[2, 3, 4] = -40
        np.savez(f"{self.folder}/samples.npz", x=x)
        os.makedirs(f"{self.folder}/samples", exist_ok=True)
        for i, sample in enumerate(x):
            np.savez(f"{self.folder}/samples/{i}.npz", x=sample)
        ranges = {}
        for rule in ("minmax", "percentile=99", "mse", "entropy"):
            for data in ("samples.npz", "samples"):
                report = f"{self.folder}/o.json"
                _, done = self.quantize(source, "o.rvm", "--scheme", "w8a8", "--observer", rule, "--data", f"{self.folder}/{data}",
                                        "--force", "--report", report)
                self.assertEqual(done.returncode, 0, done.stderr)
                site = self.sites(report)[1]["cell"]
                self.assertEqual(site["calls"], 6)
                self.assertAlmostEqual(site["least"], -40, places=2)
                self.assertEqual(ranges.setdefault(rule, site["range"]), site["range"])
        self.assertAlmostEqual(ranges["minmax"], 40, places=2)
        self.assertAlmostEqual(ranges["percentile=99"], np.quantile(np.abs(x), 0.99), delta=0.05)
        for rule in ("mse", "entropy"):
            self.assertGreater(ranges[rule], 2)
            self.assertLess(ranges[rule], 41)

    def test_search_keeps_the_error(self):
        """The weight that errs most is raised, and no more of them than the error asks for."""
        data = self.data("calls.txt", ["[1,2,3] 2", "[5] 3", "[7,250] 1"])
        report = f"{self.folder}/s.json"
        options = ["--scheme", "w4", "--data", data, "--force", "--report", report]
        _, done = self.quantize(self.source, "s.rvm", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = self.sites(report)[0]["error"]
        for bound in (0.6 * whole, 0.05 * whole):
            _, done = self.quantize(self.source, "s.rvm", *options, "--error", str(bound))
            self.assertEqual(done.returncode, 0, done.stderr)
            page, sites = self.sites(report)
            self.assertLessEqual(page["error"], bound)
            raised = {name for name, site in sites.items() if site["reason"] == "for the sake of the error"}
            self.assertTrue(raised)
            worst = max((site["error"], name) for name, site in sites.items() if "error" in site)[1]
            self.assertIn(worst, raised)
            self.assertTrue(any(site["scheme"] != "float" for site in sites.values()))
        path, done = self.quantize(self.source, "never.rvm", *options, "--error", "1e-12")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing gains by `w4`, so no program is written", done.stderr)
        self.assertIn("for the sake of the error", done.stderr)
        self.assertFalse(os.path.exists(path))

    def test_sites_that_data_do_not_reach_stay(self):
        data = self.data("calls.txt", ["[] 0"])
        _, done = self.quantize(self.source, "r.rvm", "--scheme", "w8a8", "--data", data, "--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("cell of `fold`", "child of `sum`"):
            self.assertIn(f"{name} stays in floats: the data do not reach it", done.stderr)

    def test_labels_count_as_errors(self):
        """Results without floats: the share of the calls whose results differ."""
        source = self.write("label.relay", f"free_var %cell: Tensor[({DEPTH}, {DEPTH}), float32];\n"
                            f"def @main(%x: Tensor[(1, {DEPTH}), float32]) {{ argmax(nn.dense(%x, %cell), axis=[1]) }}")
        x = np.random.default_rng(3).normal(size=(40, 1, DEPTH)).astype(np.float32)
        np.savez(f"{self.folder}/labels.npz", x=x)
        report = f"{self.folder}/l.json"
        path, done = self.quantize(source, "l.rvm", "--scheme", "w4", "--group", "160", "--data", f"{self.folder}/labels.npz", "--force",
                                   "--report", report)
        self.assertEqual(done.returncode, 0, done.stderr)
        others = 0
        for sample in x:
            np.save(f"{self.folder}/x.npy", sample)
            got = int(re.sub(r"\D", "", relayvm.execute(path, f"@{self.folder}/x.npy")))
            others += got != int(np.argmax(sample @ self.weights["cell"].T))
        self.assertGreater(others, 0)
        self.assertAlmostEqual(self.sites(report)[0]["error"], others / 40, places=6)

    def test_errors(self):
        plain = self.write("plain.relay", "def @main(%x: float32) { %x }")
        calls, empty = self.data("calls.txt", ["[1] 1"]), self.data("empty.txt", ["# none"])
        long = "x" * 300
        cases = [
            (self.source, ["--data", long], f"{long}`: File name too long"),
            (self.source, ["--data", long + ".npz"], f"{long}.npz`: File name too long"),
            (self.source, ["--scheme", "w9"], "there is no scheme `w9`"),
            (self.source, ["--keep", "cel"], "no weight that can be quantised is named `cel`; did you mean `cell`?"),
            (self.source, ["--group", "7"], "`--group`: saw 7; expected an even number"),
            (self.source, ["--dims", "n"], "`--dims`: saw `n`; expected NAME=N"),
            (plain, [], "the program has nothing to quantise"),
            (self.source, ["--scheme", "w8a8"], "`--scheme w8a8` takes the scales of activations from `--data`"),
            (self.source, ["--error", "0.1"], "`--error` needs `--data`"),
            (self.source, ["--data", calls, "--metric", "best"], "saw the metric `best`; expected norm or argmax"),
            (self.source, ["--data", calls, "--observer", "max"], "saw the observer `max`; expected minmax, mse, entropy or"),
            (self.source, ["--data", empty], "empty.txt` has no line of values"),
            (self.source, ["--data", self.folder + "/none.txt"], "none.txt"),
            (self.source, ["--data", self.params], "w.npz has no array `l`, a parameter of the program"),
        ]
        for source, options, message in cases:
            with self.subTest(message=message):
                path, done = self.quantize(source, "error.rvm", *options)
                self.assertEqual(done.returncode, 1)
                self.assertIn(message, done.stderr)
                self.assertFalse(os.path.exists(path))

    def test_empty_weights_are_not_sites(self):
        for shape in ((0, 3, 3, 3), (4, 0, 3, 3)):
            with self.subTest(shape=shape):
                np.savez(f"{self.folder}/none.npz", w=np.zeros(shape, np.float32))
                source = self.write("none.relay", f"free_var %w: Tensor[{shape}, float32];\n"
                                    f"def @main(%x: Tensor[(1, {shape[1]}, 8, 8), float32]) {{\n"
                                    f"  nn.conv2d(%x, %w, channels={shape[0]}, kernel_size=[3, 3])\n}}")
                path, done = self.quantize(source, "none.rvm", "--params", f"{self.folder}/none.npz", "--force", params=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn("the program has nothing to quantise", done.stderr)
                self.assertFalse(os.path.exists(path))

    def test_weights_that_no_code_fits_stay(self):
        """float16 has no number for 1e6, and no scheme one for infinity."""
        for value, scheme in ((1e6, "float16"), (np.inf, "w8"), (np.nan, "w4")):
            with self.subTest(scheme=scheme):
                weights = dict(self.weights)
                weights["cell"] = weights["cell"].copy()
                weights["cell"][3, 4] = value
                np.savez(f"{self.folder}/huge.npz", **weights)
                _, done = self.quantize(self.source, "huge.rvm", "--params", f"{self.folder}/huge.npz", "--scheme", scheme,
                                        "--force", params=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("cell of `fold` stays in floats: its weights do not fit the scheme", done.stderr)


if __name__ == "__main__":
    relayvm.main()
