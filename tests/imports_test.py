"""Programs of several files: `import` and `--import`."""

import os
import re
import tempfile

import numpy
import relayvm

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnx = None

SCALE = """
free_var %w: Tensor[(2), float32];
type Pair { Pair(float32, float32), Nothing, }
def @main(%x: Tensor[(n, 2), float32]) -> Tensor[(n, 2), float32] { %x * %w }
def @twice(%x: Tensor[(n, 2), float32]) -> Tensor[(n, 2), float32] { @main(@main(%x)) }
def @pair(%x: float32) -> Pair { if (%x > 0f) { Pair(%x, %x) } else { Nothing } }
def @both(%xs: List[float32]) -> List[float32] { @map(fn (%x: float32) { %x + 1f }, %xs) }
"""


def read(path):
    with open(os.path.join(relayvm.ROOT, path), encoding="utf-8") as file:
        return file.read()


def formats():
    """[(format, ending)] of the table of compiler/import/import_file.cc, which commands, C and Python follow."""
    rows = re.findall(r'^    \{"(\w+)", (?:"(.+?)"|kFolderFile),', read("compiler/import/import_file.cc"), re.MULTILINE)
    return [(name, ending or "config.json") for name, ending in rows]


def endings_of_models():
    return [ending for _, ending in formats()]


class Formats(relayvm.TestCase):
    """Lists of formats in texts, which no code derives, name those of the table."""

    ENDING = re.compile(r"(?<![\w/])(?:-symbol|config)?\.[a-z][a-z0-9]+\b")

    def test_the_table_is_read(self):
        self.assertGreaterEqual({name for name, _ in formats()}, {"onnx", "torch", "tflite", "tensorflow", "transformers"})

    def test_lists_of_all_endings(self):
        for path, start, end in (("python/compiler/relayvm/_compiler.py", "_MODELS = (", ")"),
                                 ("python/compiler/relayvm/_compiler.py", "    path: an ", " file, a SavedModel, or a folder"),
                                 ("include/relayvm/relayvm_compiler.h", "The ending of a file, ", ", is its format")):
            with self.subTest(path, start=start):
                text = read(path)
                self.assertEqual(text.count(start), 1)
                found = self.ENDING.findall(text.split(start)[1].split(end)[0])
                self.assertEqual(found, endings_of_models()[:len(endings_of_models()) - ("SavedModel" in end)])

    def test_lists_of_the_usual_endings(self):
        """The first ending of each format, and others, in the order of the table."""
        first = {}
        for name, ending in formats():
            first.setdefault(name, ending)
        files = read("tools/relayvm/model_files.h")
        for path, text in (("RVM_MODEL_FILES", files.split("#define RVM_MODEL_FILES")[1].split("//")[0].replace("FILE", "").replace("NAME", "")),
                           ("RVM_MODEL_ENDINGS", files.split("#define RVM_MODEL_ENDINGS")[1].split("\n")[0] + ", .gguf"),
                           ("docs/commands.md", read("docs/commands.md").split("and `report` take ")[1].split(" files and")[0])):
            with self.subTest(path):
                found = self.ENDING.findall(text)
                self.assertEqual(found, [ending for ending in endings_of_models() if ending in found])
                self.assert_none(sorted(set(first.values()) - {"config.json"} - set(found)), "formats that it lacks")


class Imports(relayvm.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)

    def path(self, name):
        return os.path.join(self.home.name, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def weights(self, name, **tensors):
        numpy.savez(self.path(name), **tensors)
        return self.path(name)

    def model(self, name, factor=2.0, shape=("n", 2)):
        """x * w + b of an ONNX model with weights `w` and `layer.b`."""
        weights = [numpy_helper.from_array(numpy.full(2, factor, "float32"), "w"),
                   numpy_helper.from_array(numpy.arange(2, dtype="float32"), "layer.b")]
        graph = helper.make_graph(
            [helper.make_node("Mul", ["x", "w"], ["y"], name="scale"),
             helper.make_node("Add", ["y", "layer.b"], ["z"])],
            "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, shape)], weights)
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path(name))
        return self.path(name)

    def run_program(self, source, *args, entry="main", options=()):
        """The result of the VM, and of the reference evaluator, which must be the same."""
        output, meaning = (relayvm.must(relayvm.COMPILER, verb, source, "--entry", entry, *options, "--", *args).strip()
                           for verb in ("run", "eval"))
        self.assertEqual(output, meaning)
        return output

    def errors(self, source, *options, verb="check"):
        done = relayvm.run(relayvm.COMPILER, verb, source, *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    # ---- texts

    def test_text(self):
        self.write("lib/scale.relay", SCALE)
        self.weights("lib/../w.npz", w=numpy.array([2, 3], "float32"))
        main = self.write("main.relay", """import "lib/scale.relay" as @scale(params="w.npz");
def @main(%x: Tensor[(n, 2), float32]) { (@scale(%x), @scale.twice(%x)) }
def @kind(%x: float32) -> float32 {
  let %p: scale.Pair = @scale.pair(%x);
  match (%p) { scale.Pair.Pair(%a, _) => %a, scale.Pair.Nothing => @second(scale.Pair.Pair(7f, 8f)) }
}
def @second(%p: scale.Pair) -> float32 { match (%p) { scale.Pair.Pair(_, %b) => %b, _ => 0f } }
def @list(%x: float32) -> List[float32] { @rev(@scale.both([%x, 2f])) }
""")
        self.assertEqual(self.run_program(main, "[[1, 1]]"), "([[2f, 3f]], [[4f, 9f]])")
        self.assertEqual(self.run_program(main, "3", entry="kind"), "3f")
        self.assertEqual(self.run_program(main, "-3", entry="kind"), "8f")
        self.assertEqual(self.run_program(main, "0.5", entry="list"), "Cons(3f, Cons(1.5f, Nil))")

    def test_names_are_apart(self):
        """Each file has names of its own, also for what the Prelude defines."""
        self.write("a.relay", "def @helper(%x: int32) { %x + 1 }\ndef @rev(%x: int32) { @helper(%x) }\n"
                              "type List[A] { Nil, Cons(A, List[A]), }\n"
                              "def @main(%x: int32) { (@rev(%x), @map(fn (%y: int32) { %y * 2 }, Cons(%x, Nil))) }\n")
        self.write("b.relay", "def @helper(%x: int32) { %x * 10 }\ntype Stack { Nil, Push(int32, Stack), }\n"
                              "def @main(%x: int32) {"
                              " match (Push(@helper(%x), Nil)) { Push(%y, _) => %y, Nil => 0 } }\n")
        main = self.write("main.relay", """import "a.relay" as @a;
import "b.relay" as @b;
type List[A] { Cons(A, List[A]), Nil, }
def @helper(%x: int32) { %x - 1 }
def @map(%x: int32) { @helper(%x) }
def @main(%x: int32) -> (int32, int32, int32, List[int32]) {
  let (%y, %l) = @a(%x);
  (%y, @b(%x), @map(%x), match (%l) { Cons(%z, _) => [%z, 1], Nil => Nil })
}
""")
        self.assertEqual(self.run_program(main, "5"), "(6, 50, 4, Cons(10, Cons(1, Nil)))")

    def test_of_imports(self):
        """A file that two others import is one: its types are the same."""
        self.write("lib/types.relay", "type Box { Box(int32), }\ndef @open(%b: Box) { match (%b) { Box(%x) => %x } }\n")
        self.write("lib/make.relay", 'import "types.relay" as @t\n'
                                     "def @main(%x: int32) -> t.Box { t.Box.Box(%x + 1) }\n")
        main = self.write("main.relay", 'import "lib/make.relay" as @make; import "lib/../lib/types.relay" as @types;\n'
                                        "def @main(%x: int32) { @types.open(@make(%x)) + @make.t.open(@make(1)) }\n")
        self.assertEqual(self.run_program(main, "5"), "8")

    def test_expression(self):
        self.write("one.relay", "1 + 1")
        self.assertEqual(self.run_program(self.write("main.relay", 'import "one.relay" as @one;\n@one() * 3')), "6")

    def test_entries(self):
        """Imported functions are entries if they are called `@NAME` and nothing calls them; others are dropped."""
        self.write("a.relay", "def @main(%x: int32) { @f(%x) }\ndef @f(%x: int32) { %x * 3 }\n"
                              "def @unused(%x: int32) { %x }\n")
        main = self.write("main.relay", 'import "a.relay" as @first;\nimport "a.relay" as @second;\n')
        shown = relayvm.must(relayvm.COMPILER, "check", main, "--types")
        self.assertEqual(shown, "@first: fn (int32) -> int32\n@first.f: fn (int32) -> int32\n")
        self.assertEqual(self.run_program(main, "2", entry="first"), "6")

    def test_weights_of_a_text(self):
        """By `--params`, with the name of the import."""
        self.write("scale.relay", SCALE)
        main = self.write("main.relay", 'import "scale.relay" as @scale;\n'
                                        "def @main(%scale_w: int32, %x: Tensor[(1, 2), float32]) { @scale(%x) }\n")
        params = self.path("p.npz")
        numpy.savez(params, **{"scale.w": numpy.array([5, 6], "float32")})
        self.assertIn("`%scale.w` has no weight", self.errors(main, "-o", self.path("x.rvm"), verb="compile"))
        self.assertIn("[missing-weight]", self.errors(main, "-o", self.path("x.rvm"), verb="compile"))

    def test_parameters_are_not_weights(self):
        """A parameter of @main with the name of an imported weight stays one."""
        self.write("scale.relay", SCALE)
        self.weights("w.npz", w=numpy.array([2, 3], "float32"))
        main = self.write("main.relay", 'import "scale.relay" as @scale(params="w.npz");\n'
                                        "def @main(%scale_w: float32, %x: Tensor[(1, 2), float32]) {"
                                        " @scale(%x) * %scale_w }\n")
        self.assertEqual(self.run_program(main, "10", "[[1, 1]]"), "[[20f, 30f]]")

    def test_printed_program_reads_back(self):
        self.write("scale.relay", SCALE)
        self.weights("w.npz", w=numpy.array([2, 3], "float32"))
        main = self.write("main.relay", """import "scale.relay" as @scale(params="w.npz");
def @main(%x: float32) -> float32 { match (@scale.pair(%x)) { scale.Pair.Pair(%a, %b) => %a + %b, _ => 1f } }
""")
        printed = relayvm.must(relayvm.COMPILER, "compile", main, "-O0", "-o", self.path("x.rvm"), "--print-after",
                               "specialize")
        text = printed[printed.index("type "):]
        again = self.write("again.relay", text)
        self.assertEqual(self.run_program(again, "4"), self.run_program(main, "4"))

    # ---- what is wrong

    def test_places_of_errors(self):
        self.write("lib/bad.relay", "def @main(%x: int32) -> int32 { %x + 1f }\n")
        main = self.write("main.relay", 'import "lib/bad.relay" as @bad;\ndef @main(%x: int32) { @bad(%x) }\n')
        self.assertIn(f"{self.path('lib/bad.relay')}:1:38: error:", self.errors(main))
        self.write("lib/bad.relay", "def @main(%x: int32) -> int32 { %y }\n")
        self.assertIn(f"{self.path('lib/bad.relay')}:1:33: error:", self.errors(main))

    def test_files_that_cannot_be_read(self):
        endings = endings_of_models()
        for path, message in (("none.relay", "No such file"), ("none.onnx", "No such file"),
                              ("main.json", f"expected a .relay, {', '.join(endings[:-1])} or {endings[-1]} file"), (".relay", "No such file")):
            main = self.write("main.relay", f'import "{path}" as @f;\ndef @main(%x: int32) {{ @f(%x) }}\n')
            shown = self.errors(main)
            self.assertIn("main.relay:1:8: error: cannot import", shown)
            self.assertIn(message, shown)
            self.assertEqual(shown.count("error:"), 2, shown)  # and the number of them

    def test_cycles(self):
        main = self.write("a.relay", 'import "b.relay" as @b;\ndef @main(%x: int32) { @b(%x) }\n')
        self.write("b.relay", 'import "c.relay" as @c;\ndef @main(%x: int32) { @c(%x) }\n')
        self.write("c.relay", 'import "./b.relay" as @b;\ndef @main(%x: int32) { @b(%x) }\n')
        shown = self.errors(main)
        self.assertIn("c.relay:1:8: error: ", shown)
        self.assertIn("[import-cycle]", shown)
        self.write("b.relay", 'import "a.relay" as @a;\ndef @main(%x: int32) { @a(%x) }\n')
        self.assertIn("[import-cycle]", self.errors(main))
        itself = self.write("d.relay", 'import "d.relay" as @d;\ndef @main(%x: int32) { @d(%x) }\n')
        self.assertIn("[import-cycle]", self.errors(itself))

    def test_wrong_lines(self):
        self.write("a.relay", "def @main(%x: int32) { %x }\ndef @f(%x: int32) { %x }\n")
        for line, message in (
                ('import "a.relay";', "saw `;`; expected `as` and a name"),
                ('import "a.relay" as a;', "expected a name with `@`"),
                ('import a.relay as @a;', "expected a file in quotes"),
                ('import "a.relay" as @prelude;', "`@prelude` is the Prelude"),
                ('import "a.relay" as @a(params=3);', "expected a string"),
                ('import "a.relay" as @a(shape="x=1");', "a .relay file has no such option; expected `params`"),
                ('import "a.relay" as @a(params="none.npz");', "none.npz"),
                ('import "a.relay" as @a; import "a.relay" as @a;', "function `@a` is defined twice"),
                ('import "a.relay" as @a; def @a(%x: int32) { %x }', "function `@a` is defined twice"),
                ('import "a.relay" as @a; def @a.f(%x: int32) { %x }', "function `@a.f` is defined twice"),
                ('import "a.relay" as @a; def @g(%x: int32) { @a.h(%x) }', "no function is named `@a.h`"),
                ('import "a.relay" as @a; def @g(%x: a.T) { %x }', "no type is named `a.T`")):
            with self.subTest(line):
                main = self.write("main.relay", f"{line}\ndef @main(%x: int32) {{ @a(%x) }}\n")
                self.assertIn(message, self.errors(main))

    def test_text_without_a_file(self):
        """Standard input has no folder: paths are relative to the working directory; a gradient reads the file, too."""
        self.write("sq.relay", "def @main(%x: float32) -> float32 { %x * %x }\n")
        main = self.write("main.relay", 'import "sq.relay" as @sq;\ndef @main(%x: float32) -> float32 { @sq(%x) }\n')
        gradient = self.write("g.relay", relayvm.must(relayvm.COMPILER, "grad", main))
        self.assertEqual(self.run_program(gradient, "3", entry="main_grad"), "(9f, (6f,))")

    # ---- the formatter

    def test_formatter(self):
        self.write("scale.relay", SCALE)
        text = """#[version = "0.0.5"]

// The model is not read.
import "none.onnx" as @model(shape="x=1,n", freeze="k=3");
import "scale.relay" as @scale;

type List[A] {
  Cons(A, List[A]),
  Nil,
}

// A function.
def @main(%p: scale.Pair) -> float32 {
  match (%p) {
    scale.Pair.Pair(%a, %b) => @model(%a, @scale.pair(%b)),
    scale.Pair.Nothing => 0f,
  }
}
"""
        main = self.write("main.relay", text)
        self.assertEqual(relayvm.must(relayvm.COMPILER, "fmt", main), text)
        loose = self.write("loose.relay", text.replace(";\n", "\n", 1).replace("    ", " ").replace("\n\n", "\n"))
        self.assertEqual(relayvm.must(relayvm.COMPILER, "fmt", loose), text)

    # ---- models

    def test_model(self):
        if onnx is None:
            self.skipTest("needs onnx")
        self.model("models/step.onnx")
        main = self.write("main.relay", """import "models/step.onnx" as @step;
def @loop(%x: Tensor[(n, 2), float32], %i: int32) -> Tensor[(n, 2), float32] {
  if (%i == 0) { %x } else { @loop(@step(%x), %i - 1) }
}
def @main(%x: Tensor[(n, 2), float32], %i: int32) { @loop(%x, %i) }
""")
        self.assertEqual(self.run_program(main, "[[1, 1], [0, 2]]", "3"), "[[8f, 15f], [0f, 23f]]")
        # The type of a model is known: symbolic extents are kept, and wrong ones are found.
        self.assertIn("@step: fn [n: ShapeVar](Tensor[(n, 2), float32]) -> Tensor[(n, 2), float32]",
                      relayvm.must(relayvm.COMPILER, "check", main, "--types"))
        wrong = self.write("wrong.relay", 'import "models/step.onnx" as @step;\n'
                                          "def @main(%x: Tensor[(3), float32]) { @step(%x) }\n")
        self.assertIn("wrong.relay:2:", self.errors(wrong))

    def test_models_beside_each_other(self):
        """Weights of the same names do not meet; a model that is imported twice has its weights once."""
        if onnx is None:
            self.skipTest("needs onnx")
        self.model("a.onnx", 2)
        self.model("b.onnx", 3)
        main = self.write("main.relay", """import "a.onnx" as @a;
import "b.onnx" as @b;
import "a.onnx" as @c;
def @main(%x: Tensor[(n, 2), float32]) { (@a(%x), @b(%x), @c(%x)) }
""")
        self.assertEqual(self.run_program(main, "[[1, 1]]"), "([[2f, 3f]], [[3f, 4f]], [[2f, 3f]])")

    def test_options(self):
        if onnx is None:
            self.skipTest("needs onnx")
        self.model("a.onnx", 2)
        one = self.write("one.relay", 'import "a.onnx" as @a(shape="x=1,2");\n'
                                      "def @main(%x: Tensor[(1, 2), float32]) { @a(%x) }\n")
        self.assertIn("@a: fn (Tensor[(1, 2), float32])", relayvm.must(relayvm.COMPILER, "check", one, "--types"))
        frozen = self.write("frozen.relay", 'import "a.onnx" as @a(freeze="x=@x.npy");\ndef @main() { @a() }\n')
        numpy.save(self.path("x.npy"), numpy.array([[1, 2]], "float32"))
        self.assertEqual(self.run_program(frozen), "[[2f, 5f]]")
        for option, message in (('shape="2"', "expected NAME=EXTENTS"), ('freeze="x=one"', "`one` is no number"),
                                ('params="w.npz"', "a model has no such option; expected `shape` or `freeze`"),
                                ('freeze="x=@none.npy"', "none.npy")):
            main = self.write("main.relay", f'import "a.onnx" as @a({option});\ndef @main() {{ @a() }}\n')
            shown = self.errors(main)
            self.assertIn("main.relay:1:23: error:", shown)
            self.assertIn("[bad-import-option]", shown)
            self.assertIn(message, shown)
        main = self.write("main.relay", 'import "a.onnx" as @a(shape="q=2");\ndef @main(%x: float32) { %x }\n')
        self.assertIn("[import-failed]", self.errors(main))

    def test_command_line(self):
        if onnx is None:
            self.skipTest("needs onnx")
        self.model("a.onnx", 2)
        self.model("b.onnx", 5)
        main = self.write("main.relay", "def @main(%x: Tensor[(1, 2), float32]) { @step(%x) }\n")
        given = ("--import", f"step={self.path('a.onnx')}")
        self.assertEqual(self.run_program(main, "[[1, 1]]", options=given), "[[2f, 3f]]")
        types = relayvm.must(relayvm.COMPILER, "check", main, *given, "--shape", "@step.x=1,2", "--types")
        self.assertIn("@step: fn (Tensor[(1, 2), float32])", types)
        # In place of the file that the text names.
        main = self.write("main.relay", 'import "a.onnx" as @step;\n'
                                        "def @main(%x: Tensor[(1, 2), float32]) { @step(%x) }\n")
        other = ("--import", f"step={self.path('b.onnx')}")
        self.assertEqual(self.run_program(main, "[[1, 1]]", options=other), "[[5f, 6f]]")
        for options, message in ((("--import", "a.onnx"), "expected NAME=FILE"),
                                 (("--import", "a b=a.onnx"), "expected NAME=FILE"),
                                 (("--import", "step=none.onnx"), "cannot import"),
                                 ((*given, "--shape", "x=1"), "expected an input"),
                                 (("--shape", "@none.x=1"), "expected an input")):
            self.assertIn(message, self.errors(main, *options))

    def test_origins(self):
        """What fails in a model names its node."""
        if onnx is None:
            self.skipTest("needs onnx")
        self.model("a.onnx", 2, ("n", "m"))
        main = self.write("main.relay", 'import "a.onnx" as @a;\ndef @main(%x: Tensor[(1, 3), float32]) { @a(%x) }\n')
        done = relayvm.run(relayvm.COMPILER, "run", main, "[[1, 2, 3]]")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a.onnx", done.stderr)
        self.assertIn("scale", done.stderr)

    def test_torch(self):
        where = os.path.join(relayvm.ROOT, "tests", "torch", "attention.pt2")
        main = self.write("main.relay", f'import "{where}" as @model;\n')
        own = relayvm.must(relayvm.COMPILER, "check", where, "--types").splitlines()
        shown = relayvm.must(relayvm.COMPILER, "check", main, "--types").splitlines()
        (line,) = [line for line in own if line.startswith("@main:")]
        self.assertIn(line.replace("@main:", "@model:"), shown)
