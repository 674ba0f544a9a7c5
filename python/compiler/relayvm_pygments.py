"""Relay for Pygments: `pygmentize -l relay`, Sphinx, MkDocs and Jupyter's nbconvert find the lexer by its entry point.

A module of its own, because Pygments imports the lexers of all packages when it looks for one.
"""

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import (Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace)

__all__ = ["RelayLexer"]

_NAME = r"[A-Za-z_]\w*"
_DTYPE = r"(?:bool|u?int(?:8|16|32|64)?|uint1|float(?:16|32|64)?|bfloat16|float8_e4m3fn)(?:x\d+)?"


class RelayLexer(RegexLexer):
    """Relay, in both spellings of its text format."""

    name = "Relay"
    aliases = ["relay"]
    filenames = ["*.relay"]
    mimetypes = ["text/x-relay"]

    tokens = {
        "root": [
            (r"[\s\ufeff]+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r"#(?!\[)[^\n]*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r"(#\[)(\w*)", bygroups(Punctuation, Comment.Preproc)),
            (r'"(?:\\.|[^"\\\n])*"', String.Double),
            (rf"(def)(\s+)(@(?:prelude\.)?\w+)", bygroups(Keyword.Declaration, Whitespace, Name.Function)),
            (rf"(type|data)(\s+)({_NAME})(?=\s*[\[{{<;])", bygroups(Keyword.Declaration, Whitespace, Name.Class)),
            (words(("let", "free_var", "extern"), suffix=r"\b"), Keyword.Declaration),
            (words(("if", "else", "match", "case", "fn", "fun", "where"), suffix=r"\b"), Keyword),
            (words(("True", "False", "None", "inff", "nanf"), suffix=r"\b"), Keyword.Constant),
            (rf"(?:Tensor|{_DTYPE})\b(?!\s*\()", Keyword.Type),
            (r"@(?:prelude\.)?\w+", Name.Function),
            (r"%\w+", Name.Variable),
            # An index of a tuple is no decimal point.
            (r"(\.)(\d+)", bygroups(Punctuation, Number.Integer)),
            (r"\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+|\.(?![\w.]))(?:f16|f32|f64|f8e4m3fn|bf16|f)?", Number.Float),
            (r"\d+(?:f16|f32|f64|f8e4m3fn|bf16|f)\b", Number.Float),
            (r"\d+(?:[iu](?:8|16|32|64)?)?\b", Number.Integer),
            (rf"({_NAME}(?:\.{_NAME})*)(\s*)(=)(?![=>])", bygroups(Name.Attribute, Whitespace, Operator)),
            (rf"{_NAME}(?:\.{_NAME})+", Name.Builtin),
            (r"(?:ref|ref_read|read|ref_write)\b(?=\s*\()", Keyword),
            (r"[A-Z]\w*", Name.Class),
            (rf"{_NAME}(?=\s*\()", Name.Builtin),
            (_NAME, Name),
            (r"->|=>|:=|[=!<>]=|[=+\-*/<>!?|&]", Operator),
            (r"[()\[\]{},;:.]", Punctuation),
        ],
        "comment": [
            (r"[^*/]+", Comment.Multiline),
            (r"/\*", Comment.Multiline, "#push"),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"[*/]", Comment.Multiline),
        ],
    }
