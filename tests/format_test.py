"""The sources look as clang-format and a few plain rules of docs/style.md say."""

import re

import relayvm


def tracked(*patterns):
    return relayvm.must("git", "-C", relayvm.ROOT, "ls-files", *patterns).split()


def read(path):
    with open(f"{relayvm.ROOT}/{path}", encoding="utf-8") as file:
        return file.read()


def enumeration_defaults(text):
    """Lines of the `default:` of each switch one of whose cases is an enumerator."""
    noise = r"""//[^\n]*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'"""
    text = re.sub(noise, lambda m: "0" + "\n" * m.group().count("\n"), text, flags=re.DOTALL)
    blocks, found, is_switch = [], [], False
    for token in re.finditer(r"\bswitch \(|[{}]|\bcase (?:\w+::)*(k[A-Z])?\w*:(?!:)|\bdefault:", text):
        if token.group() == "{":
            blocks.append({"defaults": [], "is_enumeration": False} if is_switch else None)
            is_switch = False
        elif token.group() == "}":
            block = blocks.pop() if blocks else None  # branches of #if may close one block twice
            if block and block["is_enumeration"]:
                found += block["defaults"]
        elif token.group().startswith("switch"):
            is_switch = True
        else:
            switch = next((block for block in reversed(blocks) if block), {"defaults": []})
            if token.group() == "default:":
                switch["defaults"].append(text.count("\n", 0, token.start()) + 1)
            elif token.group(1):
                switch["is_enumeration"] = True
    return found


# Openings that leave out the subject of the sentence, which the reader must then find in the code below (docs/style.md).
OPENINGS = re.compile(r"(?:What|Of|Where|As|Which|Those|Also|So that)\b")
# A comment that opens so above a function that tells; LLVM writes "Returns whether".
WHETHER = re.compile(r"^(?![ \t]*//)[^\n]*\n(\s*//+ Whether\b[^\n]*)\n(?:\s*//[^\n]*\n)*(?:\s*template <[^\n]*\n)?"
                     r"\s*(?:(?:virtual|static|inline|constexpr|friend) )*bool [\w:]+\(", re.MULTILINE)
# House words for established terms.
HOUSE_WORDS = {r"\bk(?:Most|Least)(?=[A-Z]|\b)": "kMax and kMin", r"//.*\b[Ss]tretch(?:es)?\b": "batch",
               r"//.*\b(?:[Pp]roducts? of (?:\w+ )*matrices|[Mm]atrix products?)\b": "matmul, or GEMM of a library",
               r"//.*\b[Pp]laces of (?:extremes|the (?:greatest|least))": "indices"}
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)


def comments(text):
    """The first line of each comment of C++, with its number. Lines that go on with a comment are no first ones."""
    found, in_comment = [], False
    text = RAW_STRING.sub(lambda match: "\n" * match.group().count("\n"), text)
    for number, line in enumerate(text.split("\n"), 1):
        own = re.match(r"\s*//+ ?(.*)", line)
        if own and not in_comment:
            found.append((number, own.group(1)))
        elif not own and (behind := re.search(r"[^:\"/]\s// ?(.*)", line)):
            found.append((number, behind.group(1)))
        in_comment = own is not None
    return found


class Format(relayvm.TestCase):
    def test_clang_format(self):
        wrong = set()
        files = tracked("*.h", "*.cc")
        for start in range(0, len(files), 40):
            done = relayvm.run("clang-format-19", "--dry-run", *files[start:start + 40], cwd=relayvm.ROOT)
            wrong.update(re.findall(r"^(\S+?):\d+:\d+: warning", done.stderr, re.MULTILINE))
        self.assert_none(sorted(wrong), "./run fmt formats them")

    def test_includes(self):
        done = relayvm.run("python3", "tools/includes.py", "--check", cwd=relayvm.ROOT)
        self.assert_none(done.stdout.splitlines(), "./run fmt adds these includes")

    def test_no_trailing_blanks(self):
        wrong = [path for path in tracked("*.h", "*.cc", "*.def", "*.py", "*.relay", "BUILD", "*/BUILD")
                 if re.search(r"[ \t]+$", read(path), re.MULTILINE) or (read(path) and not read(path).endswith("\n"))]
        self.assert_none(wrong)

    def test_header_guards(self):
        wrong = []
        for path in tracked("*.h"):
            guard = "RVM_" + re.sub(r"[^A-Z0-9]", "_", path.upper()) + "_"
            if f"#ifndef {guard}\n#define {guard}\n" not in read(path):
                wrong.append(f"{path}: expected {guard}")
        self.assert_none(wrong)

    def test_no_loose_ends(self):
        wrong = [path for path in tracked("*.h", "*.cc", "*.py", "*.md", "*.relay", "run")
                 if path not in ("tests/format_test.py", "docs/style.md") and re.search(r"\b(TODO|FIXME|XXX)\b", read(path))]
        self.assert_none(wrong)

    def test_links_of_documents_lead_somewhere(self):
        wrong = []
        for path in tracked("*.md"):
            folder = path.rsplit("/", 1)[0] if "/" in path else "."
            prose = re.sub(r"```.*?```|`[^`]*`|^ {4}[^\n]*$", "", read(path), flags=re.DOTALL | re.MULTILINE)
            for link in re.findall(r"\]\(([^)#\s\[]+)(?:#[^)]*)?\)", prose):
                if not re.match(r"[a-z]+:", link) and relayvm.run("test", "-e", f"{relayvm.ROOT}/{folder}/{link}").returncode:
                    wrong.append(f"{path}: {link}")
        self.assert_none(wrong)

    def test_files_that_are_named_exist(self):
        """In comments and documents: by path, or by the end of one."""
        known = {path[i:] for path in tracked() for i in [0, *(m.end() for m in re.finditer("/", path))]}
        examples = {"foo.cc", "foo.h", "foo_test.cc"}
        wrong = []
        for path in tracked("*.h", "*.cc", "*.def", "*.py", "*.md"):
            text = read(path)
            if not path.endswith(".md"):
                comment = r'#[^\n]*|""".*?"""' if path.endswith(".py") else r"//[^\n]*"
                text = "\n".join(re.findall(comment, text, re.DOTALL))
            for name in re.findall(r"(?<![\w./<>*{-])([\w-][\w/.-]*\.(?:h|cc|def|md|py))\b(?![\w*{(])", text):
                if name not in known and name not in examples:
                    wrong.append(f"{path}: {name}")
        self.assert_none(wrong)

    def test_comments_begin_with_a_verb_or_a_noun(self):
        self.assertEqual(comments("// Of a\n// b\nint c;  // Where\n//\n"), [(1, "Of a"), (3, "Where"), (4, "")])
        wrong = [f"{path}:{number}: {text}" for path in tracked("*.h", "*.cc", "*.def")
                 for number, text in comments(read(path)) if OPENINGS.match(text)]
        self.assertEqual(WHETHER.findall("\n// Whether a.\n// b\nbool C(int d);\n"), ["// Whether a."])
        self.assertEqual(WHETHER.findall("\n// Whether a.\nbool c = false;\n"), [])
        wrong += [f"{path}: {text.strip()}" for path in tracked("*.h", "*.cc") for text in WHETHER.findall(read(path))]
        self.assert_none(wrong, "functions: a verb (Returns, Emits); members and constants: the noun that names the thing")

    def test_house_words(self):
        wrong = [f"{path}:{number}: {match.group()}; expected {word}" for path in tracked("*.h", "*.cc", "*.def")
                 for number, line in enumerate(read(path).splitlines(), 1)
                 for pattern, word in HOUSE_WORDS.items() if (match := re.search(pattern, line))]
        self.assert_none(wrong)

    def test_switches_over_enumerations_have_no_default(self):
        self.assertEqual(enumeration_defaults("switch (x) { case 'a': f(); default: g(); }"), [])
        self.assertEqual(enumeration_defaults("switch (x) {\n case E::kA: { f(); }\n default: g();\n}"), [3])
        self.assertEqual(enumeration_defaults("switch (x) { case kA: switch (c) { case 1: default: ; } }"), [])
        wrong = [f"{path}:{line}" for path in tracked("*.h", "*.cc") for line in enumeration_defaults(read(path))]
        self.assert_none(wrong, "name the other cases, so that the compiler finds a new one, or write it with `if`")
