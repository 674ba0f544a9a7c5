"""The language server, spoken to as editors do."""

import glob
import os
import re
import tempfile
import time

import language_server
import relayvm
from language_server import apply_edits, place_at, place_of, spans

PROGRAM = """\
// A shape with its size.
type Shape[A] { Circle(A), Square(A, A), Empty }

// The sum of two things,
// one of them scaled.
def @scaled(%x: Tensor[(n, 4), float32], %factor: float32) -> Tensor[(n, 4), float32] {
  let %twice = %x * 2f;
  let %x = nn.relu(%twice);
  %x * %factor + %twice
}

def @area(%s: Shape[int32]) {
  match (%s) { Circle(%r) => %r * %r * 3, Square(%a, %b) => %a * %b, Empty => 0 }
}

def @main(%t: Tensor[(3, 4), float32]) {
  let %f = fn (%k: int32) -> int32 { @area(Square(%k, %k)) };
  (@scaled(%t, 0.5f), %f(2), @map(%f, [1, 2]), sum(%t, axis=[1], keepdims=True))
}
"""


def labels(completion):
    return [item["label"] for item in completion["items"]]


def example_texts():
    """Every program of the tree: of tests, of errors and of examples."""
    paths = [path for pattern in ("tests/programs/*.relay", "tests/errors/*.relay", "examples/**/*.relay", "tests/limits/*.relay")
             for path in glob.glob(pattern, root_dir=relayvm.ROOT, recursive=True)]
    texts = {}
    for path in sorted(paths):
        with open(os.path.join(relayvm.ROOT, path), encoding="utf-8", errors="replace") as file:
            texts[path] = file.read()
    return texts


class LanguageServer(relayvm.TestCase):
    def setUp(self):
        self.server = self.enterContext(language_server.Server())

    def hover(self, part, nth=0, text=PROGRAM):
        found = self.server.at("hover", place_of(text, part, nth))
        return None if found is None else found["contents"]["value"]

    def parts(self, method, part, nth=0, text=PROGRAM, **more):
        """The parts of the text that an answer of places names."""
        found = self.server.at(method, place_of(text, part, nth), **more)
        found = [found] if isinstance(found, dict) else found
        return [text[begin:end] for begin, end in spans(text, found)], [begin for begin, _ in spans(text, found)]

    def test_imports(self):
        """Names in imported files are read beside the text; models are not."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "half.relay"), "w", encoding="utf-8") as file:
                file.write("def @main(%x: float32) { %x / 2f }\n")
            uri = f"file://{folder}/main.relay"
            text = ('import "half.relay" as @half;\nimport "none.onnx" as @model;\n'
                    "def @main(%x: float32) { @model(@half(%x)) }\n")
            self.assertEqual(self.server.open(text, uri), [])
            codes = [d["code"] for d in self.server.open(text.replace("@half(", "@halve("), uri)]
            self.assertEqual(codes, ["unknown-function"])
            codes = [d["code"] for d in self.server.open(text.replace("half.relay", "gone.relay"), uri)]
            self.assertEqual(codes, ["import-failed"])
        self.assertEqual([d["code"] for d in self.server.open(text, "untitled:1")], ["import-refused"] * 2)

    def test_diagnostics_are_those_of_the_compiler(self):
        text = "def @f(%x: Tensor[(2, 3), float32]) { nn.dense(%x, %y) }\ndef @g() -> int32 { 1f }\n"
        shown = self.server.open(text)
        self.assertEqual([(d["code"], d["severity"], d["source"]) for d in shown],
                         [("unknown-variable", 1, "relayvm"), ("result-type-mismatch", 1, "relayvm")])
        self.assertEqual([text[begin:end] for begin, end in spans(text, shown)], ["%y", "1f"])
        self.assertIn("no variable is named `%y`", shown[0]["message"])
        self.assertEqual(self.server.diagnostics[language_server.URI]["version"], 1)

    def test_related_places_and_notes(self):
        text = "def @f() -> int32 { 1 }\ndef @f() -> int32 { 2 }\n"
        (first,) = self.server.open(text)
        (related,) = first["relatedInformation"]
        self.assertEqual(related["message"], "it is defined here first")
        self.assertEqual(related["location"]["range"]["start"], {"line": 0, "character": 4})
        with language_server.Server(capabilities={}) as plain:
            (shown,) = plain.open(text)
            self.assertNotIn("relatedInformation", shown)
            self.assertTrue(shown["message"].endswith("\nnote: it is defined here first"), shown)

    def test_a_warning_and_the_end_of_diagnostics(self):
        text = "def @f(%x: int32) { abs(%x); %x }\n"
        (warning,) = self.server.open(text)
        self.assertEqual((warning["code"], warning["severity"], warning["tags"]), ("discarded-value", 2, [1]))
        self.assertEqual(self.server.change(text.replace("abs(%x); ", "")), [])
        self.server.change("def")
        self.server.diagnostics.clear()
        self.server.notify("textDocument/didClose", {"textDocument": {"uri": language_server.URI}})
        self.assertEqual(self.server.wait(), [])
        with self.assertRaisesRegex(language_server.Refused, "no open text is `file:///test.relay`"):
            self.server.at("hover", (0, 0))

    def test_errors_of_instances_are_shown(self):
        text = ("def @f[A](%x: A, %y: A) { @g(%x, %y) }\ndef @g[s: Shape](%a: Tensor[s, float32], %b: Tensor[(2), float32]) { %a + %b }\n"
                "def @main(%a: Tensor[(3), float32], %b: Tensor[(2), float32]) { @g(%a, %b) }\n")
        checked = relayvm.run(relayvm.COMPILER, "check", "/dev/stdin", input=text).stderr
        self.assertEqual(sorted(re.findall(r"\[([a-z-]+)\]$", checked, re.MULTILINE)),
                         sorted(d["code"] for d in self.server.open(text)))

    def test_hover_of_names(self):
        self.assertEqual(self.server.open(PROGRAM), [])
        self.assertEqual(self.hover("%twice", 1), "```relay\n%twice: Tensor[(n, 4), float32]\n```")
        self.assertEqual(self.hover("%f(2"), "```relay\n%f: fn (int32) -> int32\n```")
        self.assertEqual(self.hover("@scaled", 1), "```relay\ndef @scaled(%x: Tensor[(n, 4), float32], %factor: float32) -> "
                         "Tensor[(n, 4), float32]\n```\n\nThe sum of two things,\none of them scaled.")
        self.assertEqual(self.hover("@area", 1), "```relay\ndef @area(%s: Shape[int32]) -> int32\n```")
        self.assertEqual(self.hover("Shape[int32]"), "```relay\ntype Shape[A] { Circle(A), Square(A, A), Empty }\n```\n\n"
                         "A shape with its size.")
        self.assertEqual(self.hover("Square(%k"), "```relay\nSquare(A, A): Shape[A]\n```")
        self.assertEqual(self.hover("(n, 4)", 0)[:9], "```relay\n")
        self.assertEqual(self.hover("n, 4"), "```relay\nn: ShapeVar\n```")
        self.assertIn("def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B]", self.hover("@map"))

    def test_hover_of_operators_and_expressions(self):
        self.server.open(PROGRAM)
        shown = self.hover("nn.relu")
        self.assertTrue(shown.startswith("```relay\nnn.relu(data)\n```"), shown)
        self.assertIn("The result is `Tensor[(n, 4), float32]`.", shown)
        self.assertIn("multiply(", self.hover("* 2f"))
        self.assertIn("keepdims", self.hover("keepdims"))
        self.assertNotIn("axis", self.hover("keepdims"))
        self.assertEqual(self.hover("0.5f"), "```relay\nfloat32\n```")
        self.assertEqual(self.hover("match"), "```relay\nint32\n```")
        self.assertIsNone(self.hover("// A shape"))

    def test_definition_references_and_highlights(self):
        self.server.open(PROGRAM)
        for part, definition in (("%twice)", "%twice ="), ("@area(Sq", "@area(%s"), ("Circle(%r", "Circle(A"), ("Shape[int", "Shape[A]"),
                                 ("%r *", "%r)"), ("%x * %factor", "%x = nn"), ("A, A", "A]"), ("%f(2)", "%f ="), ("%k, %k", "%k:")):
            with self.subTest(part):
                _, (begin,) = self.parts("definition", part)
                self.assertEqual(begin, PROGRAM.index(definition))
        self.assertIsNone(self.server.at("definition", place_of(PROGRAM, "@map")))
        self.assertIsNone(self.server.at("definition", place_of(PROGRAM, "nn.relu")))
        # The parameter and the variable that hides it are two.
        uses, begins = self.parts("references", "%x:", context={"includeDeclaration": True})
        self.assertEqual((uses, begins), (["%x", "%x"], [PROGRAM.index("%x:"), PROGRAM.index("%x * 2f")]))
        uses, _ = self.parts("references", "%x =", context={"includeDeclaration": False})
        self.assertEqual(uses, ["%x"])
        uses, _ = self.parts("documentHighlight", "n, 4")
        self.assertEqual(uses, ["n", "n"])
        uses, _ = self.parts("references", "* %r", context={"includeDeclaration": True})
        self.assertEqual(uses, ["*"] * 5)

    def test_symbols(self):
        self.server.open(PROGRAM + "free_var %w: float32;\ndef @broken(%x: ) { \n")
        symbols = self.server.request("textDocument/documentSymbol", {"textDocument": {"uri": language_server.URI}})
        self.assertEqual([symbol["name"] for symbol in symbols], ["Shape", "@scaled", "@area", "@main", "%w", "@broken"])
        self.assertEqual([child["name"] for child in symbols[0]["children"]], ["Circle", "Square", "Empty"])
        (begin, end), = spans(PROGRAM, [symbols[2]])
        self.assertEqual((PROGRAM[begin:end].split("(")[0], PROGRAM[begin:end][-1]), ("def @area", "}"))

    def complete(self, text):
        """The labels at the mark `^` of the text."""
        at = text.index("^")
        self.server.open(text.replace("^", ""))
        found = self.server.at("completion", place_at(text, at))
        return labels(found), found

    def test_completion_of_variables_and_functions(self):
        found, _ = self.complete("def @f(%long: int32, %b: Tensor[(n), float32]) { let %lower = 1; let %other = %lo^; %other }\n")
        self.assertEqual(sorted(found), ["%long", "%lower"])
        found, _ = self.complete("def @f(%x: int32) { let %g = fn (%inner: int32) { %inner }; %^ }\n")
        self.assertEqual(sorted(found), ["%g", "%x"])
        found, full = self.complete("def @first(%x: int32) -> bool { %x < 1 }\ndef @main() { @^ }\n")
        self.assertTrue({"@first", "@main", "@map", "@foldl"} <= set(found))
        (first,) = [item for item in full["items"] if item["label"] == "@first"]
        self.assertEqual(first["detail"], "@first(%x: int32) -> bool")
        # Behind an error that ends the reading of the function, the variables that it mentions.
        found, _ = self.complete("def @f(%x: int32) { let %a = abs(%x; let %b = (%^ }\n")
        self.assertTrue({"%x", "%a"} <= set(found), found)

    def test_completion_of_operators_and_attributes(self):
        found, full = self.complete("def @f(%x: Tensor[(2, 3), float32]) { nn.de^ }\n")
        self.assertIn("nn.dense", found)
        self.assertNotIn("add", found)
        (dense,) = [item for item in full["items"] if item["label"] == "nn.dense"]
        self.assertTrue(dense["detail"].startswith("nn.dense(data, weight, "), dense)
        self.assertEqual(dense["textEdit"]["range"]["start"]["character"], 38)
        found, _ = self.complete("def @f(%x: Tensor[(2, 3), float32]) { sum(%x, keepdims=True, ^) }\n")
        self.assertIn("axis=", found)
        self.assertNotIn("keepdims=", found)
        found, _ = self.complete("def @f(%l: List[int32]) { match (%l) { Co^ } }\n")
        self.assertIn("Cons", found)

    def test_completion_of_types(self):
        found, _ = self.complete("type Mine { A }\ndef @f[T](%x: T, %y: ^) { 1 }\n")
        self.assertTrue({"Mine", "T", "List", "Tensor", "int32"} <= set(found))
        self.assertNotIn("nn.dense", found)
        found, _ = self.complete("def @f(%y: Tensor[(2), flo^]) { 1 }\n")
        self.assertIn("float32", found)
        for text in ("// com^\ndef @f() { 1 }\n", "def @f() { cast(1, dtype=\"in^\") }\n", "def @f() { cast(1, dtype=\"in^\n"):
            self.assertEqual(self.complete(text)[0], [])

    def test_signature_help(self):
        text = ("def @f(%x: Tensor[(2, 3), float32]) { let %g = fn (%i: int32, %j: bool) { %i };\n"
                "  (concatenate((%x, %x), axis=0), @f(%x), %g(1, True), Cons(1, Nil), @foldl(%g, 1, Nil), nn.dense(%x, )) }\n")
        self.server.open(text)
        for part, label, parameter in (("axis=0", "concatenate(data, axis=0)", "axis=0"), ("x, %x), ax", "concatenate(", "data"),
                                       (" True", "%g(int32, bool) -> int32", "bool"), ("1, Nil)", "Cons(A, List[A]): List[A]", "A"),
                                       (" 1, Nil), nn", "@foldl[A, B](%f: fn (A, B) -> A, %z: A, %xs: List[B]) -> A", "%z: A"),
                                       (")) }", "nn.dense(data, weight", "weight")):
            with self.subTest(part):
                found = self.server.at("signatureHelp", place_of(text, part))
                (signature,) = found["signatures"]
                self.assertTrue(signature["label"].startswith(label), signature["label"])
                begin, end = signature["parameters"][found["activeParameter"]]["label"]
                self.assertEqual(signature["label"][begin:end], parameter)
        self.assertIsNone(self.server.at("signatureHelp", place_of(text, "@f(")))

    def test_formatting(self):
        with open(os.path.join(relayvm.ROOT, "examples/g2p/g2p.relay"), encoding="utf-8") as file:
            text = "\n\n" + file.read().replace(" = ", "=")
        self.server.open(text)
        params = {"textDocument": {"uri": language_server.URI}, "options": {"tabSize": 2, "insertSpaces": True}}
        formatted = apply_edits(text, self.server.request("textDocument/formatting", params))
        self.assertEqual(formatted, relayvm.must(relayvm.COMPILER, "fmt", "/dev/stdin", input=text))
        self.server.change(formatted)
        self.assertEqual(self.server.request("textDocument/formatting", params), [])
        self.server.change("def @f( {")
        self.assertIsNone(self.server.request("textDocument/formatting", params))

    def rename(self, text, part, name, nth=0):
        self.server.open(text)
        edits = self.server.at("rename", place_of(text, part, nth), newName=name)["changes"][language_server.URI]
        return apply_edits(text, edits)

    def test_rename(self):
        renamed = self.rename(PROGRAM, "%twice", "%double")
        self.assertEqual(renamed, PROGRAM.replace("%twice", "%double"))
        self.assertEqual(self.rename(PROGRAM, "Square", "Box"), PROGRAM.replace("Square", "Box"))
        self.assertEqual(self.rename(PROGRAM, "@area", "surface"), PROGRAM.replace("@area", "@surface"))
        self.assertEqual(self.rename(PROGRAM, "n, 4", "rows"), PROGRAM.replace("(n, 4)", "(rows, 4)"))
        text = "def @f(x: int32, %y: int32) { x + %x }\n".replace("(x", "(%x")
        self.assertEqual(self.rename(text, "%x", "z"), "def @f(%z: int32, %y: int32) { z + %z }\n")
        for part, name, why in (("%twice", "x", "another meaning"), ("%factor", "%twice", "another meaning"), ("@area", "map", "another meaning"),
                                ("@map", "f", "Prelude"), ("nn.relu", "f", "operators"), ("%f =", "a b", "expected a name"), ("%f =", "", "expected a name"),
                                ("0.5f", "x", "no name"), ("Circle", "Empty", "another meaning"), ("Shape", "int32", "another meaning")):
            with self.subTest(f"{part} to {name}"), self.assertRaisesRegex(language_server.Refused, why):
                self.rename(PROGRAM, part, name)
        prepared = self.server.at("prepareRename", place_of(PROGRAM, "%twice"))
        self.assertEqual((prepared["placeholder"], prepared["range"]["start"]["character"]), ("twice", 7))

    def test_positions_count_utf16(self):
        text = "/* \U0001f600 \u00e4 */ def @f(%x: int32) { /* \U0001f680\U0001f680 */ %y }\r\ndef @g() { @f(/* \u20ac */ 1f) }\r\n"
        shown = self.server.open(text)
        self.assertEqual([text[begin:end] for begin, end in spans(text, shown)], ["%y", "1f"])
        at = place_of(text, "%y")
        self.assertEqual(shown[0]["range"]["start"]["character"], at[1])
        (shown,) = self.server.change((at, (at[0], at[1] + 2), "%x"))
        self.assertEqual(shown["range"]["start"], {"line": 1, "character": 22})
        self.assertIn("%x: int32", self.server.at("hover", at)["contents"]["value"])
        # A byte order mark is a character of the text, but not of the program.
        (shown,) = self.server.open("\ufeffdef @f() { %y }")
        self.assertEqual(shown["range"]["start"], {"line": 0, "character": 12})
        self.assertIn("def @f()", self.server.at("hover", (0, 6))["contents"]["value"])

    def test_incremental_changes_give_the_same_text(self):
        """A text that grows by insertions at random places has the diagnostics of the whole text."""
        self.server.open("")
        text = ""
        for step in range(0, len(PROGRAM), 97):
            at = (step * 7919) % (len(text) + 1)
            part = PROGRAM[step:step + 97]
            changed = text[:at] + part + text[at:]
            self.server.change((place_at(text, at), place_at(text, at), part))
            text = changed
        by_steps = self.server.change((place_at(text, 0), place_at(text, len(text)), PROGRAM[:500]), ((0, 0), (0, 0), "\u20ac\n"),
                                      ((1, 0), (2, 0), ""))
        whole = "\u20ac\n" + PROGRAM[:500].split("\n", 1)[1]
        self.assertEqual(by_steps, self.server.change(whole))
        self.assertNotEqual(by_steps, [])

    def test_other_functions_keep_their_types_beside_a_broken_one(self):
        text = "def @f(%x: int32) -> bool { let %y = ; %x + }\ndef @g(%x: float32) { let %z = @f(1); (%z, %x) }\n"
        shown = self.server.open(text)
        self.assertEqual({d["range"]["start"]["line"] for d in shown}, {0})
        self.assertEqual(self.hover("%z,", text=text), "```relay\n%z: bool\n```")
        self.assertEqual(self.hover("@f(1", text=text), "```relay\ndef @f(%x: int32) -> bool\n```")
        self.assertEqual(self.hover("%x + }", text=text), "```relay\n%x: int32\n```")

    def test_requests_can_be_cancelled(self):
        big = "".join(f"def @f{i}(%x: Tensor[(n, 4), float32]) {{ nn.relu(%x + %x) }}\n" for i in range(2000))
        did_open = {"method": "textDocument/didOpen", "params": {"textDocument": {"uri": "file:///big", "languageId": "relay",
                                                                                 "version": 1, "text": big}}}
        hover = {"method": "textDocument/hover", "params": {"textDocument": {"uri": "file:///big"}, "position": {"line": 0, "character": 6}}}
        self.server.send(did_open, {"id": "a", **hover}, {"id": "b", **hover}, {"id": 77, **hover},
                         {"method": "$/cancelRequest", "params": {"id": "b"}}, {"method": "$/cancelRequest", "params": {"id": 99}})
        self.assertIn("def @f0(", self.server.answer("a")["contents"]["value"])
        with self.assertRaises(language_server.Refused) as refused:
            self.server.answer("b")
        self.assertEqual(refused.exception.code, -32800)
        self.assertIn("def @f0(", self.server.answer(77)["contents"]["value"])

    def test_changes_that_follow_at_once_are_read_together(self):
        self.server.open(PROGRAM)
        versions = []
        change = [{"method": "textDocument/didChange", "params": {
            "textDocument": {"uri": language_server.URI, "version": 100 + i}, "contentChanges": [{"text": PROGRAM + "\n" * i}]}} for i in range(50)]
        self.server.send(*change)
        while not versions or versions[-1] != 149:
            message = self.server.receive()
            versions.append(message["params"]["version"])
        self.assertLess(len(versions), 25)

    def test_faults_of_the_client(self):
        for method, params, code in (("textDocument/hover", {}, -32602), ("textDocument/hover", None, -32602), ("textDocument/nonsense", {}, -32601),
                                     ("initialize", {}, -32600), ("textDocument/hover", {"textDocument": {"uri": 1}}, -32602),
                                     ("textDocument/rename", {"textDocument": {"uri": language_server.URI}, "position": {"line": 0, "character": 0}}, -32602)):
            self.server.open(PROGRAM)
            with self.subTest(method=method, params=params), self.assertRaises(language_server.Refused) as refused:
                self.server.request(method, params)
            self.assertEqual(refused.exception.code, code)
        self.server.notify("textDocument/didOpen", {"textDocument": {}})
        self.server.notify("$/setTrace", {"value": "off"})
        self.server.send_bytes(b"Content-Length: 5\r\n\r\n{\"a\":")
        self.assertEqual(self.server.receive()["error"]["code"], -32700)
        self.server.send_bytes(b"Content-Length: 2\r\nContent-Type: x\r\n\r\n{}")
        self.assertEqual(self.server.receive()["error"]["code"], -32600)
        self.assertIn("%t", self.hover("%t:"))

    def test_life_of_a_server(self):
        self.assertEqual(self.server.end(), 0)
        with language_server.Server(initialize=False) as early:
            with self.assertRaises(language_server.Refused) as refused:
                early.request("textDocument/hover", {})
            self.assertEqual(refused.exception.code, -32002)
            early.notify("exit", None)
            self.assertEqual(early.process.wait(timeout=60), 1)
        for data in (b"", b"no header\r\n\r\n", b"Content-Length: 10\r\n\r\n{", b"Content-Length: 99999999999\r\n\r\n", b"x" * 10000):
            with self.subTest(data[:20]), language_server.Server() as server:
                server.send_bytes(data)
                server.process.stdin.close()
                self.assertEqual(server.process.wait(timeout=60), 1)
                self.assertIn(b"saw the end of the input", server.process.stderr.read())

    def test_a_big_text_answers_soon(self):
        text = "".join(f"def @f{i}(%x: Tensor[(n, 4), float32]) {{ let %y = nn.relu(%x); %y + @f{max(i - 1, 0)}(%x) }}\n".replace(f"@f{i}(%x)", "%x")
                       for i in range(10000))
        begin = time.monotonic()
        self.assertEqual(self.server.open(text), [])
        self.assertIn("%y", self.server.at("hover", place_of(text, "%y", 9999 * 2))["contents"]["value"])
        self.assertLess(time.monotonic() - begin, 30)

    def test_deep_nesting(self):
        for text in ("def @f() { " + "(" * 100000, "def @f() { " + "let %x = 1;" * 50000 + "%x }", "type T { " + "A(" * 50000,
                     "def @f(%x: " + "(" * 50000, "def @f() { " + "foo(" * 50000 + "^"):
            self.server.open(text)
            for method in ("hover", "completion", "signatureHelp"):
                self.server.at(method, place_at(text, len(text)))


METHODS = ("hover", "completion", "signatureHelp", "documentSymbol", "definition", "formatting")


class Prefixes(relayvm.TestCase):
    """Texts that end anywhere, as they do while somebody types them."""

    RUNS_FIRST = True

    def answer_all(self, server, text):
        version = next(server.versions)
        place = language_server.position(place_at(text, len(text)))
        about = {"textDocument": {"uri": language_server.URI}, "position": place}
        ids = [next(server.ids) for _ in METHODS]
        server.send({"method": "textDocument/didChange", "params": {"textDocument": {"uri": language_server.URI, "version": version},
                                                                    "contentChanges": [{"text": text}]}},
                    *({"id": i, "method": f"textDocument/{method}", "params": about}
                      for i, method in zip(ids, METHODS)))
        for request_id in ids:
            server.answer(request_id)

    def test_every_prefix_of_every_example(self):
        """Behind every token; without `--long` behind about 20 of each text."""
        budget = relayvm.long_or(10**9, 20)
        with language_server.Server() as server:
            server.open("")
            for path, text in example_texts().items():
                ends = [match.end() for match in re.finditer(r"\w+|\s+|[^\w\s]", text)]
                for end in ends[::max(1, len(ends) // budget)]:
                    try:
                        self.answer_all(server, text[:end])
                    except EOFError as error:
                        self.fail(f"{path}: after {end} characters: {error}")
