"""Where an error inside the Prelude happened: the program's place comes first, at every level."""

import os
import re
import tempfile

import relayvm

PROGRAM = """def @main(%l: List[int32], %n: int32) -> int32 {
  %n +
    @nth(%l, %n)
}
def @first(%l: List[int32]) -> int32 {
  1 + @hd(%l)
}
def @last_step(%l: List[int32], %n: int32) -> int32 {
  @nth(%l, %n)
}
"""
PRELUDE = os.path.join(relayvm.ROOT, "compiler/prelude/prelude.relay")


class PreludePlaces(relayvm.TestCase):
    def fail(self, level, entry, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "words.relay")
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM)
            model = relayvm.compile_file(path, os.path.join(folder, "m.rvm"), level, extra=["--entry", entry])
            done = relayvm.run(relayvm.COMPILER, "run", model, "--entry", entry, *arguments)
            self.assertEqual(done.returncode, 1, done.stdout)
            return done.stderr

    def test_the_callers_place_comes_first(self):
        for level in (0, 1, 2, 3):
            for entry, line, arguments in (("main", 3, ("[1, 2]", "5")), ("first", 6, ("[]",)),
                                           ("last_step", 9, ("[1, 2]", "5"))):
                with self.subTest(level=level, entry=entry):
                    message = self.fail(level, entry, *arguments)
                    places = re.findall(r" at (\S+?):(\d+):\d+", message)
                    self.assertTrue(places, message)
                    self.assertTrue(places[0][0].endswith("words.relay"), message)
                    self.assertEqual(places[0][1], str(line), message)

    def test_places_in_the_prelude_are_lines_of_its_source(self):
        message = self.fail(0, "first", "[]")
        line = re.search(r"in `hd.*` at <prelude>:(\d+):", message)
        self.assertTrue(line, message)
        with open(PRELUDE, encoding="utf-8") as file:
            self.assertIn("def @hd", file.read().splitlines()[int(line.group(1)) - 1])
