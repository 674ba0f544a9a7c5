"""`relayvm.torch`: what needs no PyTorch, and, with --long, tests/torch/backend_cases.py where PyTorch is.

Those cases run in an interpreter that has PyTorch: this one, or the one that RELAYVM_TORCH_PYTHON names.
"""

import ast
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import unittest
import warnings

import relayvm

PYTHON = os.path.join(relayvm.ROOT, "python")


def from_file(name, path):
    """The module in a file, without the package around it."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def environment():
    """Variables with which an interpreter finds the packages of this tree."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([f"{PYTHON}/runtime", f"{PYTHON}/compiler"]),
            "RELAYVM_LIBRARY": relayvm.built("//capi:librelayvm.so.1"),
            "RELAYVM_COMPILER_LIBRARY": relayvm.built("//capi/compiler:librelayvm_compiler.so.1")}


class Settings(relayvm.TestCase):
    def setUp(self):
        self.module = from_file("settings_under_test", f"{PYTHON}/compiler/relayvm/torch/_settings.py")
        self.of = lambda options, **variables: self.module.Settings.of(options, variables)

    def test_defaults(self):
        for options in (None, {}):
            self.assertEqual(self.of(options), (None, "host", None, 2, True, True))

    def test_options_are_taken(self):
        options = {"threads": 3, "target": "x86-64-v3", "device": "gpu", "opt_level": 0, "fallback": False, "freeze": False}
        self.assertEqual(self.of(options)._asdict(), options)

    def test_unknown_options_name_the_known(self):
        with self.assertRaisesRegex(ValueError, r"saw the option 'thread'; .*threads, target, device, opt_level, fallback, "
                                                r"freeze; did you mean 'threads'\?"):
            self.of({"thread": 1})
        with self.assertRaisesRegex(ValueError, "saw the option 7; [^?]*$"):
            self.of({7: 1})

    def test_values_are_checked(self):
        for name, value in (("threads", 0), ("threads", True), ("threads", "2"), ("target", None), ("device", 1),
                            ("opt_level", 4), ("opt_level", False), ("fallback", 0), ("freeze", "yes")):
            with self.subTest(name=name, value=value):
                with self.assertRaisesRegex(TypeError, f"the option '{name}' is {value!r}; expected "):
                    self.of({name: value})

    def test_the_variable_turns_the_fallback_off(self):
        self.assertFalse(self.of({"fallback": True}, RELAYVM_TORCH="strict").fallback)
        self.assertTrue(self.of(None, RELAYVM_TORCH="").fallback)
        with self.assertRaisesRegex(ValueError, "RELAYVM_TORCH is 'stricter'"):
            self.of(None, RELAYVM_TORCH="stricter")

    def test_old_versions_are_refused(self):
        for text in ("2.7.1", "1.13.1+cpu"):
            with self.assertRaisesRegex(ImportError, rf"saw PyTorch {re.escape(text)}; relayvm.torch needs 2.8 or newer"):
                self.module.check_version(text)
        for text in ("2.8.0", "2.15.0+cu132", "3.0a0", "a build of today"):
            self.module.check_version(text)

    def warned(self, reasons):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.module.warn(reasons)
        self.assertTrue(all(warning.category is self.module.FallbackWarning for warning in seen))
        return [str(warning.message) for warning in seen]

    def test_each_operator_warns_once(self):
        fft, eig = ("the operator aten.fft", "not supported", 'File "m.py", line 3, in f: y = fft(x)'), ("aten.eig", "complex", "")
        first = self.warned([fft, fft])
        self.assertEqual(len(first), 1)
        for part in ("a graph runs eagerly, because of the operator aten.fft: not supported", 'm.py", line 3, in f: y = fft(x)',
                     'RELAYVM_TORCH=strict or options={"fallback": False}'):
            self.assertIn(part, first[0])
        (second,) = self.warned([eig, fft])
        self.assertIn("aten.eig: complex\n  set RELAYVM_TORCH", second)
        self.assertEqual(self.warned([eig, fft]), [])

    def test_warnings_point_to_the_caller(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.module.warn([("aten.here", "not supported", "")])
        self.assertEqual(seen[0].filename, __file__)

    def test_an_error_lists_all_reasons(self):
        error = self.module.Unsupported([("a", "b", "c"), ("d", "e", "")])
        self.assertEqual(str(error), "a: b\n  c\nd: e")

    def test_places(self):
        trace = ('  File "/home/me/model.py", line 7, in forward\n    y = self.a(x)\n'
                 '  File "/usr/lib/python3/site-packages/torch/nn/modules/linear.py", line 1, in forward\n    return F.linear(x)\n')
        self.assertEqual(self.module.place_of(trace), 'File "/home/me/model.py", line 7, in forward: y = self.a(x)')
        self.assertEqual(self.module.place_of('File "/a.py", line 1, in f\n  File "/b.py", line 2, in g'), 'File "/b.py", line 2, in g')
        self.assertIn("linear.py", self.module.place_of(trace.splitlines()[2] + "\n" + trace.splitlines()[3]))
        self.assertEqual([self.module.place_of(trace) for trace in (None, "", "no frames")], [""] * 3)


class Package(relayvm.TestCase):
    def imported(self, torch):
        code = f"import sys, types; sys.modules['torch'] = {torch}; import relayvm; relayvm.parse\nrelayvm.torch"
        done = relayvm.run(sys.executable, "-c", code, env=environment())
        self.assertEqual(done.returncode, 1)
        return done.stderr.splitlines()[-1]

    def test_the_package_needs_no_torch(self):
        self.assertEqual(self.imported("None"), "ImportError: relayvm.torch needs PyTorch 2.8 or newer, which is not installed; "
                                                "`pip install torch`")

    def test_an_old_torch_is_refused(self):
        self.assertEqual(self.imported("types.SimpleNamespace(__version__='2.4.0')"),
                         "ImportError: saw PyTorch 2.4.0; relayvm.torch needs 2.8 or newer")

    def test_other_names_are_none(self):
        done = relayvm.run(sys.executable, "-c", "import relayvm; relayvm.tensorflow", env=environment())
        self.assertIn("AttributeError: module 'relayvm' has no attribute 'tensorflow'", done.stderr)

    def test_the_stub_has_the_public_names(self):
        folder = f"{PYTHON}/compiler/relayvm/torch"
        with open(f"{folder}/__init__.py", encoding="utf-8") as code, open(f"{folder}/__init__.pyi", encoding="utf-8") as stub:
            code, stub = ast.parse(code.read()), ast.parse(stub.read())
        (names,) = [ast.literal_eval(node.value) for node in code.body if isinstance(node, ast.Assign)]
        declared = [node.name for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
        self.assertEqual(sorted(declared), names)

    def test_the_wheel_names_the_backend(self):
        wheels = from_file("wheels_under_test", f"{PYTHON}/wheels.py")
        wheel = wheels.COMPILER
        text = wheel.entry_points_text().decode()
        self.assertIn("[torch_dynamo_backends]\nrelayvm = relayvm.torch:backend\n", text)
        files = dict(itertools.takewhile(lambda file: ".so" not in file[0], wheel.files(editable=False)))
        for name in ("__init__", "_backend", "_settings"):
            self.assertIn(f"relayvm/torch/{name}.py", files)
        self.assertIn(b"def backend(", files["relayvm/torch/_backend.py"])
        self.assertNotIn("torch", " ".join(wheel.requires))
        self.assertEqual(wheels.RUNTIME.entry_points, {})


@unittest.skipUnless(os.environ.get("RELAYVM_SOAK"), "only with --long")
class WithTorch(relayvm.TestCase):
    def test_cases(self):
        python = os.environ.get("RELAYVM_TORCH_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
            self.skipTest("PyTorch is not installed; RELAYVM_TORCH_PYTHON names an interpreter that has it")
        done = relayvm.run(python, os.path.join(relayvm.ROOT, "tests/torch/backend_cases.py"), env=environment())
        print(done.stderr, flush=True)
        self.assertEqual(done.returncode, 0, done.stderr[-5000:])


if __name__ == "__main__":
    unittest.main()
