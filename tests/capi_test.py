"""The C interface: its examples, wrong arguments, its symbols, and use by way of pkg-config as after an installation."""

import os
import re
import shutil
import sys
import tempfile

import relayvm

sys.path.insert(0, os.path.join(relayvm.ROOT, "tools/dist"))
import dist  # noqa: E402

LIBRARY = os.path.join(relayvm.ROOT, "bazel-bin/capi/librelayvm.so.1")
EMBED = os.path.join(relayvm.ROOT, "examples/embed")
SOURCES = os.path.join(relayvm.ROOT, "tests/embed")
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


class CInterface(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = os.path.join(cls.folder.name, "prefix")
        dist.install_development(cls.prefix)
        flags = relayvm.must("pkg-config", "--cflags", "--libs", "relayvm",
                             env={**os.environ, "PKG_CONFIG_PATH": f"{cls.prefix}/lib/pkgconfig"})
        cls.flags = [*flags.split(), f"-Wl,-rpath,{cls.prefix}/lib"]
        cls.g2p = os.path.join(cls.folder.name, "g2p.rvm")
        relayvm.compile_file("examples/g2p/g2p.relay", cls.g2p, params=[relayvm.G2P + "/checkpoint20.npz"], verify=False)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def build(self, source, *options, compiler="clang-19"):
        program = os.path.join(self.folder.name, os.path.basename(source).replace(".", "_"))
        relayvm.must(compiler, *STRICT, *options, source, *self.flags, "-o", program)
        return program

    def test_symbols(self):
        found = sorted(line.split()[-1] for line in relayvm.must("nm", "-D", "--defined-only", LIBRARY).splitlines())
        path = os.path.join(relayvm.ROOT, "tests/embed/capi_symbols.txt")
        if os.environ.get("UPDATE_GOLDENS"):
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(found) + "\n")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(found, file.read().split())

    def test_every_function_is_declared(self):
        with open(os.path.join(relayvm.ROOT, "tests/embed/capi_symbols.txt"), encoding="utf-8") as file:
            names = [line.split("@")[0] for line in file.read().split() if line.startswith("rvm_")]
        with open(os.path.join(relayvm.ROOT, "include/relayvm/relayvm.h"), encoding="utf-8") as file:
            header = file.read()
        self.assert_none([name for name in names if f"{name}(" not in header])
        self.assertEqual(header.count("RVM_API ") - 1, len(names))

    def test_headers_stand_alone(self):
        for name in sorted(os.listdir(os.path.join(self.prefix, "include/relayvm"))):
            languages = ["c++"] if name.endswith(".hpp") else ["c", "c++"]
            for language in languages:
                source = os.path.join(self.folder.name, f"alone.{language}")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(f"#include <relayvm/{name}>\n")
                relayvm.must("clang-19", *STRICT, "-x", language, "-fsyntax-only", f"-I{self.prefix}/include", source)

    def test_needs_no_compiler(self):
        needed = relayvm.must("readelf", "-d", LIBRARY)
        self.assertIn("soname: [librelayvm.so.1]", needed)
        self.assertNotRegex(needed, "LLVM|clang")
        self.assertLess(os.path.getsize(LIBRARY), 3_000_000)

    def test_interface(self):
        source = os.path.join(SOURCES, "values.relay")
        entries = [option for name in ("scale", "total", "first", "pair", "count", "grow", "each", "counter") for option in ("--entry", name)]
        relayvm.must(relayvm.COMPILER, "compile", source, "-o", f"{self.folder.name}/values.rvm", "--target", "portable", *entries)
        relayvm.must(relayvm.COMPILER, "compile", source, "-o", f"{self.folder.name}/native.rvm", *entries)
        program = self.build(os.path.join(SOURCES, "check_interface.c"), "-std=c11", "-D_GNU_SOURCE", "-lpthread")
        done = relayvm.run(program, self.folder.name)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_c_example(self):
        program = self.build(os.path.join(EMBED, "spell.c"), "-std=c11")
        self.assertEqual(relayvm.must(program, self.g2p, "hello"), "HH EH1 L OW0\n")
        self.assertEqual(relayvm.run(program, "/nowhere.rvm", "hello").returncode, 1)
        self.assertEqual(relayvm.run(program, self.g2p, "Hello-9").returncode, 0)

    def test_programs_are_short(self):
        for name, most in (("spell.c", 40), ("spell.py", 15)):
            with open(os.path.join(EMBED, name), encoding="utf-8") as file:
                self.assertLessEqual(len(file.readlines()), most, name)

    def test_python_example(self):
        environment = {**os.environ, "RELAYVM_LIBRARY": LIBRARY, "PYTHONPATH": os.path.join(relayvm.ROOT, "python/runtime")}
        done = relayvm.must(sys.executable, os.path.join(EMBED, "spell.py"), self.g2p, "hello", "world", env=environment)
        self.assertEqual(done, "HH EH1 L OW0\nW ER1 L D\n")

    def test_cpp_example(self):
        """GCC evaluates arguments from the right, Clang from the left."""
        gcc = [("g++", "-std=c++17")] if shutil.which("g++") else []
        for compiler, *options in [("clang++-19", "-std=c++17"), ("clang++-19", "-std=c++20", "-fno-exceptions", "-fno-rtti"), *gcc]:
            program = self.build(os.path.join(EMBED, "spell.cc"), *options, compiler=compiler)
            self.assertEqual(relayvm.must(program, self.g2p, "relay", "world"), "R IY0 L EY1 \nW ER1 L D \n")

    def test_documents(self):
        with open(os.path.join(relayvm.ROOT, "docs/c.md"), encoding="utf-8") as file:
            examples = re.findall(r"^```(c|cpp)\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(examples), 2)
        model = f"{self.folder.name}/total.rvm"
        relayvm.must(relayvm.COMPILER, "compile", os.path.join(SOURCES, "values.relay"), "-o", model, "--target",
                     "portable", "--entry", "total")
        for language, text in examples:
            with self.subTest(language):
                source = f"{self.folder.name}/example.{language}"
                with open(source, "w", encoding="utf-8") as file:
                    file.write(text)
                compilers = ["clang-19", "gcc"] if language == "c" else ["clang++-19", "g++"]
                for compiler in filter(shutil.which, compilers):
                    program = self.build(source, "-std=c11" if language == "c" else "-std=c++20", "-Wno-missing-field-initializers",
                                         compiler=compiler)
                    self.assertEqual(relayvm.must(program, model), "6\n" if language == "c" else "6\n1\n3\n")
                    self.assertEqual(relayvm.run(program, "/nowhere.rvm").returncode, 1)

    def test_ctypes_example(self):
        done = relayvm.must(sys.executable, os.path.join(EMBED, "spell_ctypes.py"), LIBRARY, self.g2p, "world")
        self.assertEqual(done, "W ER1 L D\n")
