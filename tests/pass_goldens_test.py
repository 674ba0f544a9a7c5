"""What each pass makes of a program, with all types: `passes/<pass>/*.relay`.

A file is `// level: N` (and `, last run` for a pass that is repeated; and `, device: RULES` as `--device` takes them), a program, `// EXPECT`, and the program after the pass as comments.
`UPDATE_GOLDENS=1 .venv/bin/python tests/run_python_tests.py pass_goldens` writes what stands behind `// EXPECT` anew.
"""

import glob
import os
import re
import tempfile

import relayvm

FOLDER = os.path.join(relayvm.ROOT, "tests/passes")
EXPECT = "// EXPECT\n"


def after_pass(name, source, level, run, device):
    """The program after one run of the pass (1: the first, -1: the last), without type definitions, as comments."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.relay")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        printed = relayvm.must(relayvm.COMPILER, "compile", path, "-o", os.path.join(folder, "m.rvm"), f"-O{level}",
                               "--verify-passes", "--print-types", "--print-after", name,
                               *(["--device", device] if device else ["--target", "portable"]))
    text = printed.split(f"// after {name}\n")[run].split("\n// after ")[0]
    text = text[text.index("def @"):] if "def @" in text else text
    return "".join(f"// {line}".rstrip() + "\n" for line in text.rstrip().splitlines())


class PassGoldens(relayvm.TestCase):
    def test_each_pass_has_one(self):
        listed = relayvm.run(relayvm.COMPILER, "compile", "x.relay", "--with-pass", "no such pass").stderr
        passes = re.search(r"the passes are (.*)", listed).group(1).split()
        self.assertIn("unbox_tuples", passes)
        self.assert_none([name for name in passes if not glob.glob(f"{FOLDER}/{name}/*.relay")], "passes without a golden")
        self.assert_none(sorted(set(os.listdir(FOLDER)) - set(passes)), "goldens of no pass")


def add_test(path):
    name = os.path.basename(os.path.dirname(path))

    def test(self):
        with open(path, encoding="utf-8") as file:
            source, _, expected = file.read().partition(EXPECT)
        level, last, device = re.match(r"// level: (\d)(, last run)?(?:, device: (.+))?\n", source).groups()
        seen = after_pass(name, source, level, -1 if last else 1, device)
        if os.environ.get("UPDATE_GOLDENS"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(source + EXPECT + seen)
        else:
            self.assertEqual(seen, expected)

    setattr(PassGoldens, f"test_{name}_{os.path.basename(path)[:-len('.relay')]}", test)


for found in sorted(glob.glob(f"{FOLDER}/*/*.relay")):
    add_test(found)
