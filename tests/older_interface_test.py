"""third_party/glibc/older_interface.py: which versions of symbols it keeps, and what a program that is linked with them asks for."""

import os
import re
import sys
import tempfile
import unittest

import relayvm

SCRIPT = os.path.join(relayvm.ROOT, "third_party/glibc/older_interface.py")
NEWER = r"""
int first_wait(void) { return 1; }
int second_wait(void) { return 2; }
int newest_wait(void) { return 3; }
__asm__(".symver first_wait, wait_a_bit@GLIBC_2.2.5");
__asm__(".symver second_wait, wait_a_bit@GLIBC_2.10");
__asm__(".symver newest_wait, wait_a_bit@@GLIBC_2.34");
int only_new(void) { return 4; }
int hidden_from_users(void) { return 5; }
long table[4] = {1, 2, 3, 4};
extern long other_name[4] __attribute__((alias("table")));
int number = 7;
"""
VERSIONS = """GLIBC_2.2.5 { table; other_name; number; local: *; };
GLIBC_2.10 { wait_a_bit; };
GLIBC_2.28 { only_new; };
GLIBC_2.34 { wait_a_bit; };
GLIBC_PRIVATE { hidden_from_users; };
"""


class OlderInterface(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.older = os.path.join(self.folder, "older")
        os.mkdir(self.older)
        source, versions = self.write("newer.c", NEWER), self.write("newer.lds", VERSIONS)
        self.newer = os.path.join(self.folder, "libtime.so.6")
        self.clang("-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libtime.so.6", f"-Wl,--version-script,{versions}", source, "-o", self.newer)
        relayvm.must(sys.executable, SCRIPT, "2.27", "x86_64-linux-gnu", self.older, self.newer)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def clang(self, *arguments):
        return relayvm.run("clang-19", "-fuse-ld=lld", *arguments)

    def program(self, text):
        """What linking a program with the older interface says, and the program."""
        path = os.path.join(self.folder, "program")
        return self.clang(self.write("program.c", text), f"-L{self.older}", "-ltime", "-Wl,--allow-shlib-undefined", "-o", path), path

    def test_each_name_has_its_newest_version_up_to_the_limit(self):
        printed = relayvm.must("llvm-readelf-19", "--dyn-syms", "--wide", f"{self.older}/libtime.so")
        symbols = re.findall(r"(\S+) +(\d+) (FUNC|OBJECT) .* (\w+@@?GLIBC\S+)$", printed, re.MULTILINE)
        self.assertEqual(sorted(name for _, _, _, name in symbols if not name.startswith("GLIBC")),
                         ["number@@GLIBC_2.2.5", "other_name@@GLIBC_2.2.5", "table@@GLIBC_2.2.5", "wait_a_bit@@GLIBC_2.10"])
        # A program's copy of data has all names of it.
        address = {name.split("@")[0]: (value, size, kind) for value, size, kind, name in symbols}
        self.assertEqual(address["table"], address["other_name"])
        self.assertEqual(address["table"][1:], ("32", "OBJECT"))
        self.assertEqual(address["wait_a_bit"][2], "FUNC")
        self.assertEqual(len({value for value, _, _ in address.values()}), 3)

    def test_a_program_asks_for_the_older_version(self):
        done, program = self.program("int wait_a_bit(void); extern int number; int main(void) { return 10 * number + wait_a_bit(); }")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("wait_a_bit@GLIBC_2.10", relayvm.must("llvm-readelf-19", "--dyn-syms", program))
        self.assertIn("[libtime.so.6]", relayvm.must("llvm-readelf-19", "-d", program))
        ran = relayvm.run(program, env={**os.environ, "LD_LIBRARY_PATH": self.folder})
        self.assertEqual(ran.returncode, 72, ran.stderr)

    def test_what_is_newer_does_not_link(self):
        for name in ("only_new", "hidden_from_users"):
            done, _ = self.program(f"int {name}(void); int main(void) {{ return {name}(); }}")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"undefined symbol: {name}", done.stderr)


if __name__ == "__main__":
    unittest.main()
