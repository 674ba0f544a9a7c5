"""TorchScript: files of torch.jit.save equal to what PyTorch computed (torchscript/make.py); errors that say what is wrong."""

import os
import re
import shutil
import sys
import tempfile
import zipfile

import numpy as np

import in_process
import relayvm

HERE = os.path.join(relayvm.ROOT, "tests", "torchscript")
LEVELS = (["-O0"], ["-O2"], ["--target", "portable"])
SHAPES = {
    "images_traced": ["x=2,3,8,8"],
    "images_scripted": ["x=2,3,8,8"],
    "words_traced": ["tokens=2,6,int64"],
    "steps": ["x=5,2,3", "limit="],
    "until": ["x=3"],
}


class TorchScript(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def path(self, name):
        return os.path.join(HERE, name + ".pt")

    def outputs(self, name, inputs, shapes, *options):
        executable = os.path.join(self.place, "model.rvm")
        given = [part for shape in shapes for part in ("--shape", shape)]
        relayvm.must(relayvm.COMPILER, "import", self.path(name), "-o", executable, *given, *options)
        got = in_process.load(executable)["main"](*inputs)
        return [np.asarray(part) for part in (got if isinstance(got, tuple) else (got,))]

    def test_models(self):
        for name, shapes in SHAPES.items():
            case = np.load(os.path.join(HERE, name + ".npz"))
            inputs = [case[f"in{i}"] for i in range(len(shapes))]
            for level in LEVELS:
                with self.subTest(name, level=level):
                    got = self.outputs(name, inputs, shapes, *level)
                    self.assertEqual(len(got), sum(key.startswith("out") for key in case.files))
                    for i, value in enumerate(got):
                        self.assertEqual(value.shape, case[f"out{i}"].shape)
                        np.testing.assert_allclose(value, case[f"out{i}"], rtol=1e-5, atol=1e-5)

    def test_an_extent_with_a_name(self):
        case = np.load(os.path.join(HERE, "images_traced.npz"))
        got = self.outputs("images_traced", [case["in0"][:1]], ["x=n,3,8,8"])
        np.testing.assert_allclose(got[0], case["out0"][:1], rtol=1e-5, atol=1e-5)

    def test_the_dtype_of_indices_is_known(self):
        case = np.load(os.path.join(HERE, "words_traced.npz"))
        got = self.outputs("words_traced", [case["in0"]], ["tokens=2,6"])
        np.testing.assert_allclose(got[0], case["out0"], rtol=1e-5, atol=1e-5)

    def test_snippets(self):
        """Those of docs/torchscript.md; the first lines of others say what they print."""
        with open(os.path.join(relayvm.ROOT, "docs/torchscript.md"), encoding="utf-8") as file:
            snippets = re.findall(r"^```python\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
        self.assertTrue(snippets)
        shutil.copy(self.path("images_traced"), os.path.join(self.place, "model.pt"))
        folders = [os.path.join(relayvm.ROOT, "python", part) for part in ("runtime", "compiler")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "RELAYVM_LIBRARY": relayvm.built("//capi:librelayvm.so.1"),
                       "RELAYVM_COMPILER_LIBRARY": relayvm.built("//capi/compiler:librelayvm_compiler.so.1")}
        for snippet in snippets:
            printed = relayvm.must(sys.executable, "-c", snippet, cwd=self.place, env=environment)
            self.assertEqual(printed.split("\n")[:-1], re.findall(r"print\(.*\)  # (.*)", snippet))

    def refusal(self, path, *options):
        done = relayvm.run(relayvm.COMPILER, "import", path, "-o", os.path.join(self.place, "m.rvm"), *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_a_shape_is_missing(self):
        message = self.refusal(self.path("steps"), "--shape", "x=5,2,3")
        self.assertIn("TorchScript files do not have the shapes of inputs; saw none for `limit`", message)
        self.assertIn("--shape limit=1,3,224,224", message)

    def changed(self, name, file, change):
        """The path of a model whose archive has another `file`."""
        path = os.path.join(self.place, "changed.pt")
        with zipfile.ZipFile(self.path(name)) as before, zipfile.ZipFile(path, "w") as after:
            for info in before.infolist():
                content = before.read(info)
                after.writestr(info.filename, change(content) if info.filename.endswith(file) else content)
        return path

    def test_all_refusals_at_once(self):
        code = (b"class Until(Module):\n  def forward(self, x: Tensor) -> Tensor:\n"
                b"    y = torch.unheard_of(x)\n    z = torch.unknown_too(torch.relu(x))\n    return torch.add(y, z)\n")
        message = self.refusal(self.changed("until", "code/__torch__.py", lambda old: code), "--shape", "x=3")
        self.assertIn("aten.unheard_of", message)
        self.assertIn("aten.unknown_too", message)

    def test_code_that_is_none(self):
        for code, expected in ((b"class Until(Module):\n  def forward(self, x: Tensor):\n    return ((x\n", "saw `end of line`"),
                               (b"class Until(Module):\n  def forward(self, x: Tensor):\n    return y\n", "`y` is no value"),
                               (b"class Until(Module):\n  def forward(self, x: Tensor):\n    return x $ x\n", "saw `$`"),
                               (b"class Until(Module):\n  pass\n", "has no method `forward`"),
                               (b"class Until(Module):\n  def forward(self, x: Tensor):\n"
                                b"    return (self).forward(x, )\n", "call each other without end")):
            with self.subTest(code):
                path = self.changed("until", "code/__torch__.py", lambda old, code=code: code)
                self.assertIn(expected, self.refusal(path, "--shape", "x=3"))

    def test_code_of_other_kinds(self):
        """What a compiler of TorchScript would not write, and what it may."""
        head = "class Until(Module):\n  def forward(self, x: Tensor):\n    "
        for code, expected in (
                ("a = [x]\n    b = torch.append(a, a)\n    return x\n", "one holds itself"),
                ("a = [x]\n    for i in range(10000):\n      a = [a]\n    return x\n", "nested too deep"),
                ("a = [x]\n    for i in range(40):\n      a = torch.add(a, a)\n    return x\n", "too long lists"),
                ("a = [x]\n    for i in range(30):\n      a = [a, a]\n    return a\n", "too long lists"),
                ("a = [x]\n    return a[inf]\n", "an element at a place"),
                ("for i in range(nan):\n      y = x\n    return x\n", "no integer"),
                ("a = torch.mul([x], 1000000000)\n    return a[0]\n", "aten.mul"),
                ("a = torch.slice([x, x, x], 0, 3, 2)\n    return a[0]\n", "aten.slice"),
                ("if bool(torch.sum(x)):\n      return x\n    else:\n      y = x\n    return y\n", "a return in a branch"),
                ("while bool(torch.sum(x)):\n      return x\n    return x\n", "a return in a branch or loop"),
                ("if torch.eq(torch.format(\"{}\", 1), \"1\"):\n      y = x\n    else:\n      y = x\n    return y\n",
                 "a text that is made from values")):
            with self.subTest(code):
                path = self.changed("until", "code/__torch__.py", lambda old, code=code: (head + code).encode())
                self.assertIn(expected, self.refusal(path, "--shape", "x=3"))
        for code, expected in (
                ("if True:\n      return torch.neg(x)\n    return x\n", -1),
                ("return torch.mul(x, torch.__and__(6, 3))\n", 2),
                ("a = [x]\n    b = torch.extend(a, [x, x])\n    return torch.mul(x, torch.len(a))\n", 3),
                ("a = [1, 2, 3]\n    return torch.mul(x, torch.slice(a, 1, None, 1)[0])\n", 2)):
            with self.subTest(code):
                path = self.changed("until", "code/__torch__.py", lambda old, code=code: (head + code).encode())
                executable = os.path.join(self.place, "model.rvm")
                relayvm.must(relayvm.COMPILER, "import", path, "-o", executable, "--shape", "x=3")
                got = in_process.load(executable)["main"](np.ones(3, "float32"))
                np.testing.assert_array_equal(np.asarray(got), np.full(3, expected, "float32"))

    def test_damaged_values(self):
        for cut in range(0, 60, 7):
            with self.subTest(cut):
                path = self.changed("until", "/data.pkl", lambda old, cut=cut: old[:cut])
                self.assertIn("a pickle in it is damaged at byte", self.refusal(path, "--shape", "x=3"))

