"""Who may use whom (docs/architecture.md), read from the sources and the BUILD files."""

import glob
import os
import re
import subprocess
import types
import unittest
import unittest.mock

import relayvm

EVERYTHING = {"base", "serialization", "kernels/abi", "kernels/te", "kernels/schedule", "kernels/loops",
              "kernels/codegen", "kernels/runtime", "native", "vm", "devices", "compiler", "tools", "include", "capi"}
# The layers, from the one that stands on nothing to those that stand on all.
MAY_USE = {
    "base": set(),
    "serialization": {"base"},
    "kernels/abi": set(),
    "kernels/te": {"base"},
    "kernels/schedule": {"base", "kernels/te"},
    "kernels/loops": {"base", "kernels/te", "kernels/schedule"},
    "kernels/codegen": {"base", "kernels/abi", "kernels/te", "kernels/schedule"},
    "kernels/runtime": {"base", "kernels/abi"},
    "native": {"base", "serialization", "kernels/abi", "kernels/codegen"},
    # What the VM sees of devices.
    "vm/device": {"base", "serialization"},
    # A folder has two halves; that the runtime's links none of the compiler is a test of the BUILD files.
    "devices": {"base", "serialization", "vm/device", "compiler", "include"},
    "vm": {"base", "serialization", "kernels/abi", "kernels/runtime", "vm/device", "devices"},
    "compiler": {"base", "serialization", "kernels/te", "kernels/schedule", "kernels/loops", "devices"},
    "compiler/import": {"base", "compiler"},
    "compiler/driver": {"base", "serialization", "kernels/abi", "kernels/te", "kernels/schedule", "kernels/loops",
                        "kernels/codegen", "native", "compiler", "devices"},
    "include": set(),
    "capi": {"base", "serialization", "vm", "devices", "include"},
    "capi/compiler": {"base", "serialization", "compiler", "devices", "include", "capi"},
    "integrations": {"base", "include"},
    "tools": EVERYTHING,
    "tools/relayvm_runtime": {"base", "serialization", "vm", "kernels/abi", "kernels/runtime", "tools"},
    "tests": EVERYTHING,
    "benchmarks": EVERYTHING,
}
# The rooms of the compiler, and `devices`: the others that each may use, from those that stand on none.
ROOMS = {
    "ir": set(),
    "diagnostics": {"ir"},
    "prelude": set(),
    "models": set(),
    "analysis": {"ir"},
    "ops": {"diagnostics", "ir"},
    "target": {"ir", "ops"},
    "devices": {"ir", "target"},
    "lowering": {"ir", "ops"},
    "builder": {"ir", "ops"},
    "text": {"analysis", "diagnostics", "ir", "ops", "prelude"},
    "typing": {"analysis", "diagnostics", "ir", "ops"},
    "reference": {"analysis", "ir", "ops"},
    "passes": {"analysis", "devices", "diagnostics", "ir", "ops", "target", "text"},
    "quantize": {"ir", "ops", "passes"},
    "bytecode": {"analysis", "diagnostics", "ir", "lowering", "ops", "target"},
    "import": {"builder", "diagnostics", "ir", "models", "ops", "text"},
    "driver": {"bytecode", "devices", "diagnostics", "import", "ir", "lowering", "ops", "passes", "quantize", "target",
               "text", "typing"},
}
# The folders that may see LLVM.
LLVM = re.compile(r"#include [<\"](llvm|llvm-c|clang|lld)/")
LLVM_HOMES = ("kernels/codegen/", "native/")
# What only checks: it may use any layer but is in nothing that ships.
TEST_ONLY = re.compile(r"((_test|_test_support)\.(cc|h)$|/testing\.(cc|h)$|/testing/|/testdata/|_benchmark\.cc$)")
# (user, used): single headers that two layers share, and why.
SHARED = {
    # The compiler's target "host" names the CPU's features in the words the loader checks.
    ("kernels/codegen", "kernels/runtime/cpu_features.h"),
}
FILE_LINES = 900
TOP = ["base", "serialization", "kernels", "native", "vm", "devices", "compiler", "include", "capi", "integrations", "tools", "tests",
       "benchmarks"]


def sources():
    found = []
    for top in TOP:
        for suffix in ("h", "cc", "def"):
            found += glob.glob(f"{top}/**/*.{suffix}", root_dir=relayvm.ROOT, recursive=True)
    return sorted(found)


def read(path):
    with open(os.path.join(relayvm.ROOT, path), encoding="utf-8") as file:
        return file.read()


def includes(path):
    return re.findall(r'^#include "([^"]+)"', read(path), re.MULTILINE)


def layer(path):
    """The longest folder that MAY_USE names."""
    parts = path.split("/")
    for n in range(len(parts) - 1, 0, -1):
        if "/".join(parts[:n]) in MAY_USE:
            return "/".join(parts[:n])
    return None


def allowed(user, used):
    return used == user or used in MAY_USE[user] or any(used.startswith(name + "/") for name in MAY_USE[user])


class Build:
    """The targets of all BUILD files. A BUILD file is, in what we use of it, a Python program."""

    def __init__(self):
        self.targets = {}  # label -> {"files": [...], "deps": [...]}
        for top in TOP:
            for path in sorted(glob.glob(f"{top}/**/BUILD", root_dir=relayvm.ROOT, recursive=True)):
                self.load(os.path.dirname(path))

    def load(self, package):
        def match(include, exclude=(), **_):
            base = os.path.join(relayvm.ROOT, package)
            found = {f for pattern in include for f in glob.glob(pattern, root_dir=base, recursive=True)}
            return sorted(found - {f for pattern in exclude for f in glob.glob(pattern, root_dir=base, recursive=True)})

        def label(text):
            if text.startswith(":"):
                return f"//{package}{text}"
            return text if ":" in text else f"{text}:{text.rsplit('/', 1)[-1]}"

        def target(name, srcs=(), hdrs=(), textual_hdrs=(), deps=(), **_):
            files = [os.path.normpath(os.path.join(package, f)) for f in [*srcs, *hdrs, *textual_hdrs]
                     if not f.startswith((":", "//"))]
            self.targets[f"//{package}:{name}"] = {"files": files, "deps": [label(d) for d in deps]}

        scope = {"glob": match, "select": lambda choices: next(iter(choices.values()))}
        for rule in ("cc_library", "cc_binary", "cc_test"):
            scope[rule] = target
        for rule in ("package", "licenses", "exports_files", "filegroup", "genrule", "package_group", "sh_test",
                     "py_test", "alias", "config_setting", "test_suite", "sh_binary", "py_binary"):
            scope[rule] = lambda *_, **__: None

        def loader(folder, into):
            """Loads our own macros for a file in `folder`; rules of others are not for C++."""
            def load(file, *names):
                if not file.startswith((":", "//base", "//capi", "//third_party")):
                    return
                path = os.path.join(folder, file[1:]) if file.startswith(":") else file[2:].replace(":", "/")
                macros = {"native": types.SimpleNamespace(**scope), "rule": lambda *_, **__: target,
                          "attr": unittest.mock.MagicMock(), "CcInfo": None}
                macros["load"] = loader(os.path.dirname(path), macros)
                exec(compile(read(path), path, "exec"), macros)
                into.update({name: macros[name] for name in names})
            return load

        scope["load"] = loader(package, scope)
        exec(compile(read(os.path.join(package, "BUILD")), f"{package}/BUILD", "exec"), scope)  # our own files


class Layering(relayvm.TestCase):
    def test_includes_follow_the_layers(self):
        wrong = []
        for path in sources():
            user = layer(path)
            if user is None or TEST_ONLY.search(path):
                continue
            for used_path in includes(path):
                used = layer(used_path)
                # gtest, absl and the like stand in no layer of ours.
                if used is not None and not allowed(user, used) and (user, used_path) not in SHARED:
                    wrong.append(f"{path} includes {used_path}: {user} may not use {used}")
        self.assert_none(wrong)

    def test_includes_follow_the_rooms_of_the_compiler(self):
        def room(path):
            top, _, rest = path.partition("/")
            return rest.split("/")[0] if top == "compiler" else top if top == "devices" else None

        wrong = [f"{path} includes {used}: {room(path)} may not use {room(used)}" for path in sources()
                 if room(path) and not TEST_ONLY.search(path)
                 for used in includes(path) if room(used) not in {None, room(path), *ROOMS.get(room(path), ())}]
        self.assert_none(wrong)
        self.assertEqual(sorted(ROOMS), sorted({room(path) for path in sources() if room(path)}))

    def test_rooms_have_an_order(self):
        """No room uses, through others, itself."""
        for room, used in ROOMS.items():
            reached = set(used)
            while (more := reached | {further for one in reached for further in ROOMS[one]}) != reached:
                reached = more
            self.assertNotIn(room, reached)

    def test_every_folder_has_a_layer(self):
        self.assert_none([path for path in sources() if layer(path) is None])

    def test_only_codegen_and_native_see_llvm(self):
        wrong = [path for path in sources() if LLVM.search(read(path)) and not path.startswith(LLVM_HOMES)]
        self.assert_none(wrong)

    def test_codegen_headers_hide_llvm(self):
        headers = [*glob.glob("kernels/codegen/*.h", root_dir=relayvm.ROOT), "native/control_compiler.h"]
        wrong = [path for path in headers if LLVM.search(read(path))]
        self.assert_none(wrong, "headers for others hold no LLVM types")

    def test_includes_are_declared(self):
        """Each include is of the target itself or of one it names."""
        build = Build()
        owners = {}
        for label, target in build.targets.items():
            for file in target["files"]:
                owners.setdefault(file, set()).add(label)
        wrong = []
        for label, target in build.targets.items():
            reachable = {label, *target["deps"]}
            for path in target["files"]:
                if not path.endswith((".cc", ".h", ".def")) or not os.path.exists(os.path.join(relayvm.ROOT, path)):
                    continue
                for used in includes(path):
                    if layer(used) is None:
                        continue
                    if used not in owners:
                        wrong.append(f"{path} includes {used}, which no target owns")
                    elif not owners[used] & reachable:
                        wrong.append(f"{label}: {path} includes {used}; its deps name none of {sorted(owners[used])}")
        self.assert_none(sorted(set(wrong)))

    def test_runtime_stands_on_no_compiler(self):
        build, reached = Build(), set()
        pending = ["//tools/relayvm_runtime:relayvm-run", "//capi:runtime"]
        while pending:
            label = pending.pop()
            if label in reached:
                continue
            reached.add(label)
            pending += build.targets.get(label, {"deps": []})["deps"]
        self.assertIn("//devices/sim:sim_device", reached)
        self.assert_none([label for label in sorted(reached) if label.startswith("//compiler")])

    def test_every_source_is_built(self):
        owned = {file for target in Build().targets.values() for file in target["files"]}
        self.assert_none([path for path in sources() if path not in owned])

    def test_file_sizes(self):
        long = [f"{path} has {lines} lines" for path in sources() if not path.endswith("_test.cc") and not path.endswith(".def")
                and (lines := read(path).count("\n")) > FILE_LINES]
        self.assert_none(long)

    def test_top_folders_answer_their_question(self):
        for top in ["base", "serialization", "kernels", "native", "vm", "devices", "compiler", "tools", "tests", "benchmarks",
                    "examples", "capi", "integrations"]:
            with self.subTest(top):
                readme = os.path.join(relayvm.ROOT, top, "README.md")
                self.assertTrue(os.path.exists(readme), f"{top}/README.md is missing")
                self.assertLessEqual(read(f"{top}/README.md").count("\n"), 60)


class Compiler(unittest.TestCase):
    """LLVM comes from archives, and is not seen by libraries of devices, which load another."""

    def test_has_llvm_and_exports_nothing_of_it(self):
        for program in relayvm.COMPILER, relayvm.built("//capi/compiler:librelayvm_compiler.so.1"):
            self.assertNotRegex(relayvm.must("ldd", program), "LLVM")
            self.assertNotIn("llvm", relayvm.must("nm", "-DC", "--defined-only", program))


class Runtime(unittest.TestCase):
    """What is shipped to run models: small, and nothing of the compiler in it."""

    def test_links_no_llvm(self):
        libraries = relayvm.must("ldd", relayvm.RUNTIME)
        self.assertNotRegex(libraries, r"LLVM|clang")
        symbols = subprocess.run(["nm", "-C", "--defined-only", relayvm.RUNTIME], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, check=False).stdout
        for name in ("llvm::", "rvm::ir::", "rvm::te::", "rvm::codegen::", "rvm::text::"):
            self.assertNotIn(name, symbols)

    def test_is_small(self):
        # With its symbols, as it is built. `nm --size-sort -C` says of what it consists.
        self.assertLessEqual(os.path.getsize(relayvm.RUNTIME), 2_400_000)
