"""Texts of files as functions of C++, so that programs need no files at run time."""

def embed_text(name, out, header, namespace, texts):
    """Makes the file `out`, in which each function of `texts` returns the text of its file.

    Args:
      name: of the rule.
      out: the C++ file.
      header: that declares the functions: `std::string_view Text();`.
      namespace: of the functions.
      texts: files by function. None has the characters `)TEXT"`.
    """
    lines = ["echo '#include \"%s\"'" % header, "echo 'namespace %s {'" % namespace]
    for function, file in texts.items():
        lines += [
            "printf 'std::string_view %s() { return R\"TEXT('" % function,
            "cat $(location %s)" % file,
            "echo ')TEXT\"; }'",
        ]
    lines.append("echo '}  // namespace %s'" % namespace)
    native.genrule(
        name = name,
        srcs = texts.values(),
        outs = [out],
        cmd = "{ %s; } > $@" % "; ".join(lines),
    )
