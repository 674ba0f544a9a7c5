"""What editors and notebooks have of Relay beside the language server: colours, the extension for VS Code, `%%relay`."""

import glob
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy
import python_test
import relayvm

VSCODE = os.path.join(relayvm.ROOT, "tools/editors/vscode")
COMPILER = os.path.join(relayvm.ROOT, "python/compiler")

SAMPLE = r'''#[version = "0.0.5"]
# a comment
type List[A] { Cons(A, List[A]), Nil }  /* nested /* twice */ */
free_var %w: Tensor[(n, 4), float16x8];
def @main(%x: int32, %0: bfloat16) -> (bool, float32) {
  let %y = nn.dense(%x, %w, units=4, out_dtype="int\"32") + 1.5e-3f * 2f;  // the end
  if (%x == 3i64) { True } else { match (%y) { Cons(h, _) => %t.0.1 } }
}'''
# Parts of the sample, in order, with the class of each.
PARTS = [
    ("# a comment", "comment"), ("type", "keyword"), ("List", "class"), ("Cons", "class"), ("Nil", "class"),
    ("/* nested /* twice */ */", "comment"), ("free_var", "keyword"), ("%w", "variable"), ("Tensor", "type"), ("4", "integer"),
    ("float16x8", "type"), ("def", "keyword"), ("@main", "function"), ("%x", "variable"), ("int32", "type"), ("%0", "variable"),
    ("bfloat16", "type"), ("bool", "type"), ("let", "keyword"), ("%y", "variable"), ("nn.dense", "builtin"), ("units", "attribute"),
    ("out_dtype", "attribute"), ('"int\\"32"', "string"), ("1.5e-3f", "float"), ("2f", "float"), ("// the end", "comment"), ("if", "keyword"),
    ("==", "operator"), ("3i64", "integer"), ("True", "constant"), ("else", "keyword"), ("match", "keyword"), ("Cons", "class"),
    ("%t", "variable"), ("0", "integer"), ("1", "integer"),
]
# The classes of Pygments' tokens and of TextMate's scopes, by their beginnings.
TOKENS = {"Comment": "comment", "Keyword.Type": "type", "Keyword.Constant": "constant", "Keyword": "keyword", "Name.Class": "class",
          "Name.Variable": "variable", "Name.Function": "function", "Name.Builtin": "builtin", "Name.Attribute": "attribute",
          "Literal.String": "string", "Literal.Number.Float": "float", "Literal.Number": "integer", "Operator": "operator"}
SCOPES = {"comment": "comment", "support.type": "type", "constant.language": "constant", "keyword.operator": "operator",
          "keyword.other.annotation": "comment", "keyword": "keyword", "entity.name.type": "class", "variable.other.name": "",
          "variable.other": "variable", "entity.name.function": "function", "support.function": "builtin",
          "variable.parameter.attribute": "attribute", "string": "string", "constant.numeric.float": "float", "constant.numeric": "integer"}


def classify(name, table):
    return next((kind for beginning, kind in table.items() if name.startswith(beginning)), "")


def programs():
    for pattern in ("tests/programs/*.relay", "examples/**/*.relay", "compiler/prelude/*.relay"):
        for path in sorted(glob.glob(pattern, root_dir=relayvm.ROOT, recursive=True)):
            with open(os.path.join(relayvm.ROOT, path), encoding="utf-8") as file:
                yield path, file.read()


def read_json(name):
    with open(os.path.join(VSCODE, name), encoding="utf-8") as file:
        return json.load(file)


class TextMate:
    """Applies a grammar of `match`, `captures`, `begin`, `end` and `include`, line by line, as editors do. The class of each
    character."""

    def __init__(self, grammar):
        self.repository = grammar["repository"]
        self.root = self.rules(grammar["patterns"])

    def rules(self, patterns, seen=()):
        found = []
        for pattern in patterns:
            if "include" in pattern:
                name = pattern["include"].removeprefix("#")
                found += self.rules([self.repository[name]], (*seen, name))
            elif "match" in pattern or "begin" in pattern:
                found.append(pattern)
            else:
                found += self.rules(pattern["patterns"], seen)
        return found

    def classes(self, text):
        stack, out = [], []
        for line in text.splitlines(keepends=True):
            at, kinds = 0, [""] * len(line)
            while at <= len(line):
                inside = stack[-1] if stack else None
                rules = self.rules(inside["patterns"]) if inside else self.root
                tried = [(re.compile(rule.get("match") or rule["begin"]).search(line, at), rule) for rule in rules]
                if inside:
                    tried.insert(0, (re.compile(inside["end"]).search(line, at), None))
                tried = [(found, rule) for found, rule in tried if found and found.end() > at]
                found, rule = min(tried, key=lambda pair: pair[0].start(), default=(None, None))
                end = found.start() if found else len(line)
                if inside:
                    kinds[at:end] = [classify(inside["name"], SCOPES)] * (end - at)
                if not found:
                    break
                name = (rule or inside).get("name", "")
                kinds[found.start():found.end()] = [classify(name, SCOPES)] * (found.end() - found.start())
                for group, capture in (rule or {}).get("captures", {}).items():
                    begin, stop = found.span(int(group))
                    kinds[begin:stop] = [classify(capture["name"], SCOPES)] * (stop - begin)
                if rule is None:
                    stack.pop()
                elif "begin" in rule:
                    stack.append(rule)
                at = found.end()
            out += kinds
        return out


class Colours(relayvm.TestCase):
    def check_sample(self, classes):
        at = 0
        for part, kind in PARTS:
            at = re.compile(r"(?<!\w)" + re.escape(part) + r"(?!\w)").search(SAMPLE, at).start()
            with self.subTest(part):
                self.assertEqual(set(classes[at:at + len(part)]) - {""}, {kind})
            at += len(part)

    def dtypes(self):
        with open(os.path.join(relayvm.ROOT, "base/data_type.def"), encoding="utf-8") as file:
            return re.findall(r'^RVM_DTYPE\(\w+, "(\w+)"', file.read(), re.MULTILINE)

    def test_the_grammar_for_vscode(self):
        grammar = TextMate(read_json("syntaxes/relay.tmLanguage.json"))
        self.check_sample(grammar.classes(SAMPLE))
        for dtype in self.dtypes():
            self.assertEqual(set(grammar.classes(dtype)), {"type"}, dtype)

    def lexer(self):
        try:
            importlib.import_module("pygments")
        except ImportError:
            self.skipTest("pygments is not installed")
        spec = importlib.util.spec_from_file_location("relayvm_pygments", f"{COMPILER}/relayvm_pygments.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.RelayLexer(stripnl=False, ensurenl=False)

    def pygments_classes(self, lexer, text):
        out = []
        for _, token, value in lexer.get_tokens_unprocessed(text):
            out += [classify(str(token).removeprefix("Token."), TOKENS)] * len(value)
        return out

    def test_pygments(self):
        lexer = self.lexer()
        self.check_sample(self.pygments_classes(lexer, SAMPLE))
        for dtype in self.dtypes():
            self.assertEqual(set(self.pygments_classes(lexer, dtype)), {"type"}, dtype)

    def test_pygments_reads_every_program_and_agrees_with_vscode(self):
        lexer, grammar = self.lexer(), TextMate(read_json("syntaxes/relay.tmLanguage.json"))
        for path, text in programs():
            with self.subTest(path):
                tokens = list(lexer.get_tokens_unprocessed(text))
                self.assertEqual("".join(value for _, _, value in tokens), text)
                self.assertEqual([value for _, token, value in tokens if "Error" in str(token)], [])
                pairs = zip(text, self.pygments_classes(lexer, text), grammar.classes(text))
                differ = [(i, c, a, b) for i, (c, a, b) in enumerate(pairs) if a != b and not c.isspace()]
                self.assertEqual(differ[:3], [], text[max(0, differ[0][0] - 40):differ[0][0] + 20] if differ else "")

    def test_the_wheel_names_the_lexer(self):
        spec = importlib.util.spec_from_file_location("wheels_of_editors", os.path.join(relayvm.ROOT, "python/wheels.py"))
        wheels = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(wheels)
        self.assertIn("[pygments.lexers]\nrelay = relayvm_pygments:RelayLexer\n", wheels.COMPILER.entry_points_text().decode())
        name, data = next(iter(wheels.COMPILER.files(editable=False)))
        self.assertEqual(name, "relayvm_pygments.py")
        self.assertIn(b"class RelayLexer", data)


# Stand-ins for what Visual Studio Code gives an extension; prints what the extension does.
STUBS = """
const Module = require("module");
const say = (...words) => console.log(words.join(" "));
const listeners = [], commands = {};
class LanguageClient {
  constructor(id, name, server, options) { this.server = server; say("client", id, server.command, server.args, JSON.stringify(options.documentSelector)); }
  async start() { if (this.server.command === "missing") throw new Error("spawn missing ENOENT"); say("started"); }
  needsStop() { return true; }
  async stop() { say("stopped"); }
}
let path = "relayvm";
const vscode = {
  workspace: { getConfiguration: (name) => ({ get: (key) => name + "." + key === "relayvm.path" ? path : undefined }),
               onDidChangeConfiguration: (listener) => { listeners.push(listener); return {}; } },
  window: { showErrorMessage: (text) => say("shown:", text) },
  commands: { registerCommand: (name, run) => { commands[name] = run; return {}; } },
};
const load = Module._load;
Module._load = (name, ...more) => name === "vscode" ? vscode : name === "vscode-languageclient/node" ? { LanguageClient } : load(name, ...more);
(async () => {
  const extension = require(process.argv[2]);
  const context = { subscriptions: [] };
  await extension.activate(context);
  await commands["relayvm.restart"]();
  path = "missing";
  await listeners[0]({ affectsConfiguration: (name) => name === "relayvm.path" });
  await listeners[0]({ affectsConfiguration: () => false });
  await extension.deactivate();
  say("subscriptions", context.subscriptions.length);
})();
"""


class VsCode(relayvm.TestCase):
    def test_manifest(self):
        package = read_json("package.json")
        with open(os.path.join(relayvm.ROOT, "base/version.h"), encoding="utf-8") as file:
            self.assertIn(f'"{package["version"]}"', file.read())
        (language,), (grammar,) = package["contributes"]["languages"], package["contributes"]["grammars"]
        self.assertEqual((language["id"], language["extensions"], grammar["language"]), ("relay", [".relay"], "relay"))
        self.assertEqual(grammar["scopeName"], read_json(grammar["path"])["scopeName"])
        self.assertEqual(read_json(language["configuration"])["comments"]["lineComment"], "//")
        self.assertTrue(os.path.exists(os.path.join(VSCODE, package["main"])))
        word = read_json(language["configuration"])["wordPattern"]
        self.assertEqual(re.findall(word, "let %x = nn.dense(@f(%y.0)) * 2"), ["let", "%x", "nn.dense", "@f", "%y", "0", "2"])

    def test_the_extension_starts_and_stops_the_server(self):
        if shutil.which("node") is None:
            self.skipTest("node is not installed")
        with tempfile.TemporaryDirectory() as folder:
            stubs = os.path.join(folder, "stubs.js")
            with open(stubs, "w", encoding="utf-8") as file:
                file.write(STUBS)
            said = relayvm.must("node", stubs, os.path.join(VSCODE, "extension.js")).splitlines()
        client = 'client relayvm relayvm lsp [{"language":"relay"}]'
        self.assertEqual(said, [client, "started", "stopped", client, "started", "stopped", client.replace("relayvm lsp", "missing lsp"),
                                "shown: `missing lsp` does not start; the setting relayvm.path names the program. spawn missing ENOENT",
                                "stopped", "subscriptions 2"])


class Shell:
    """What the magic uses of IPython's shell."""

    def __init__(self, **variables):
        self.user_ns, self.execution_count, self.magics = variables, 7, {}

    def push(self, variables):
        self.user_ns.update(variables)

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function

    def run(self, line, cell):
        self.magics["cell", "relay"](line, cell)
        return self.user_ns


class Magic(python_test.WithPackages, relayvm.TestCase):
    def shell(self, **variables):
        shell = Shell(**variables)
        self.vm.load_ipython_extension(shell)
        return shell

    def test_functions_become_variables(self):
        names = self.shell().run("", "def @double(%x: Tensor[(n), float32]) { %x * 2f }\n"
                                     "// def @no(%x: int32) { %x }\n"
                                     "def @twice[A](%f: fn (A) -> A, %x: A) { %f(%f(%x)) }\n"
                                     "def @four(%x: int32) { @twice(fn (%y: int32) { %y + 2 }, %x) }\n"
                                     "def @lengths(%l: List[List[int32]]) { @map(fn (%m: List[int32]) { @length(%m) }, %l) }\n")
        self.assertEqual(sorted(names), ["double", "four", "lengths"])
        self.assertEqual(list(names["double"]([1, 2])), [2, 4])
        self.assertEqual(int(names["four"](1)), 5)
        self.assertEqual([int(n) for n in names["lengths"]([[1], [2, 3], []])], [1, 2, 0])

    def test_options(self):
        names = self.shell(weights={"w": numpy.float32([1, 2])}).run(
            "model --params weights --target portable -O1",
            "free_var %w: Tensor[(2), float32];\ndef @scaled(%x: float32) { %w * %x }\n")
        self.assertEqual(list(names["scaled"](3)), [3, 6])
        self.assertFalse(names["model"].is_native)
        self.assertEqual(names["model"].entries.keys(), {"scaled"})
        self.assertEqual(int(self.shell().run("", "1 + 2")["main"]()), 3)

    def test_errors_are_those_of_the_cell(self):
        shell = self.shell()
        with self.assertRaises(self.vm.CompileError) as caught:
            shell.run("", "def @f(%x: int32) -> int32 {\n  %y\n}\ndef @g() -> int32 { 1f }\n")
        self.assertEqual([(d.file, d.line, d.kind) for d in caught.exception.diagnostics],
                         [("In[7]", 2, "unknown-variable"), ("In[7]", 4, "result-type-mismatch")])
        shown = "\n".join(caught.exception._render_traceback_())
        self.assertIn("In[7]:2:3: error: no variable is named `%y`", shown)
        self.assertNotIn("Traceback", shown)
        self.assertEqual(shell.user_ns, {})
        for line in ("--nonsense", "a b", "--target", "-O4", "-O x", "-O 12"):
            with self.subTest(line), self.assertRaisesRegex(ValueError, "usage: %%relay"):
                shell.run(line, "def @f() { 1 }")

    def test_in_ipython(self):
        program = ("from IPython.core.interactiveshell import InteractiveShell\n"
                   "shell = InteractiveShell.instance()\nshell.run_line_magic('load_ext', 'relayvm')\n"
                   "shell.run_cell('%%relay model\\ndef @double(%x: Tensor[(n), float32]) { %x * 2f }').raise_error()\n"
                   "shell.run_cell('print(double([1, 2]), model.entries)').raise_error()\n"
                   "result = shell.run_cell('%%relay\\ndef @f() { %y }')\nprint(type(result.error_in_exec).__name__)\n")
        if importlib.util.find_spec("IPython") is None:
            self.skipTest("IPython is not installed")
        path = os.pathsep.join([f"{relayvm.ROOT}/python/runtime", COMPILER, *filter(None, [os.environ.get("PYTHONPATH")])])
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path, "IPYTHONDIR": home},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertIn("[2. 4.] {'double': 'fn (%x: Tensor[(n), float32])", done.stdout)
        self.assertIn("no variable is named `%y`", done.stdout)
        self.assertIn("CellError", done.stdout)
        self.assertNotIn("_magic.py", done.stdout)


if __name__ == "__main__":
    unittest.main()
