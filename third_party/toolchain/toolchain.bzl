"""Clang for this machine and, over the sysroot of third_party/aarch64/fetch_sysroot, for aarch64.

A repository of `clang_toolchain` has two suites: `toolchain`, whose C++ files begin with headers that are compiled in
advance, and `plain`, without them, for flags that these headers were not compiled with (sanitizers, tools of the build).
"""

load(":config.bzl", "COMPILE_FLAGS", "OPTIMISED_FLAGS", "REPRODUCIBLE_FLAGS")

_BUILD = """
load("@relayvm//third_party/toolchain:config.bzl", "clang_config")

package(default_visibility = ["//visibility:public"])

filegroup(name = "empty")

_COMMANDS = {commands}

# The text of the headers has the hash {text}: other text, other headers.
[genrule(
    name = variant + "_headers",
    outs = ["headers/" + variant + ".pch"],
    cmd = command.replace("$", "$$") + " -o $@ # {text}",
) for variant, command in _COMMANDS]

filegroup(
    name = "headers",
    srcs = [variant + "_headers" for variant, command in _COMMANDS],
)

[[
    cc_toolchain_suite(
        name = name,
        toolchains = {{"{cpu}": name + "_compiler", "{cpu}|clang": name + "_compiler"}},
    ),
    cc_toolchain(
        name = name + "_compiler",
        all_files = headers,
        compiler_files = headers,
        dwp_files = ":empty",
        linker_files = ":empty",
        objcopy_files = ":empty",
        strip_files = ":empty",
        toolchain_config = name + "_config",
    ),
    clang_config(
        name = name + "_config",
        cpu = "{cpu}",
        headers = headers,
        include_directories = ["{sysroot}/usr/include", "{sysroot}/usr/local/include", "{resources}"],
        link_libs = {link_libs},
        llvm = "{llvm}",
        sysroot = "{sysroot}",
        target_flags = {target_flags},
    ),
] for name, headers in [("toolchain", ":headers"), ("plain", ":empty")]]
"""

# The flags of .bazelrc that a header compiled in advance must agree with.
_LANGUAGE_FLAGS = ["-std=c++20", "-fno-exceptions", "-fno-rtti", "-fPIC"]

# Headers that most files read, and that take the longest to parse. A file still includes what it uses: the toolchain
# without these headers compiles every file, too.
_HEADERS = [
    "absl/container/flat_hash_map.h",
    "absl/container/flat_hash_set.h",
    "absl/functional/function_ref.h",
    "absl/status/statusor.h",
    "absl/strings/numbers.h",
    "absl/strings/str_format.h",
    "absl/strings/str_join.h",
    "absl/strings/str_split.h",
    "algorithm",
    "array",
    "cmath",
    "cstdint",
    "functional",
    "iostream",
    "limits",
    "map",
    "memory",
    "optional",
    "set",
    "span",
    "string",
    "string_view",
    "utility",
    "vector",
]

# A header compiled in advance serves one level of optimisation: name, flags, further headers. Clang takes the first of the
# folder that agrees with the flags of a file.
_VARIANTS = [
    ("libraries", ["-O2"], []),
    ("tests", ["-O0"], ["gtest/gtest.h"]),
]

def _commands(clang, target_flags, sysroot, variants):
    """The commands that compile _HEADERS in advance, as (name of the variant, words)."""
    commands = []
    for name, flags, further in variants:
        words = [clang] + target_flags + (["--sysroot=" + sysroot] if sysroot else [])
        words += COMPILE_FLAGS + OPTIMISED_FLAGS + _LANGUAGE_FLAGS + flags + REPRODUCIBLE_FLAGS
        for header in _HEADERS + further:
            words += ["-include", header]

        # The same bytes in each checkout: without the times of files.
        words += ["-x", "c++-header", "-fpch-instantiate-templates", "-Xclang", "-fno-pch-timestamp"]

        # A header of the system is the main file: dependency files then name files of the system alone.
        commands.append((name, words + [sysroot + "/usr/include/absl/strings/str_cat.h"]))
    return commands

def _quote(words):
    return " ".join(["'%s'" % word for word in words])

def _hash_of_text(repository_ctx, commands):
    """The hash of all that the headers include, so that an update of the system's packages makes them anew."""
    lines = [_quote(words) + " -E" for _, words in commands]
    result = repository_ctx.execute(["sh", "-c", "{ %s; } | sha256sum | cut -c1-16" % " && ".join(lines)])
    if result.return_code != 0 or result.stderr:
        fail("clang-19 could not read the headers that are compiled in advance:\n" + result.stderr)
    return result.stdout.strip()

def _implementation(repository_ctx):
    cpu = repository_ctx.attr.cpu
    sysroot = ""
    target_flags = []
    link_libs = ["-lstdc++", "-lm"]
    variants = _VARIANTS
    if repository_ctx.attr.sysroot:
        root = repository_ctx.path(Label("//:WORKSPACE")).dirname
        sysroot = "%s/%s" % (root, repository_ctx.attr.sysroot)
        if not repository_ctx.path(sysroot).exists:
            fail("no %s: `./run build --cpu %s` makes it" % (repository_ctx.attr.sysroot, cpu))
        target_flags = ["--target=%s-linux-gnu" % cpu]

        # There is no GoogleTest for other machines.
        variants = [variant for variant in variants if variant[0] != "tests"]

        # Systems of ARM machines have older ones.
        link_libs = ["-l:libstdc++.a", "-lm"]
    clang = repository_ctx.which("clang-19")
    if clang == None:
        fail("no clang-19: `./run build` installs it")
    clang = clang.realpath
    resources = repository_ctx.execute([clang, "-no-canonical-prefixes", "-print-resource-dir"]).stdout.strip()
    commands = _commands(str(clang), target_flags, sysroot, variants)
    repository_ctx.file("BUILD", _BUILD.format(
        commands = [(name, _quote(words)) for name, words in commands],
        cpu = cpu,
        link_libs = link_libs,
        llvm = clang.dirname,
        resources = resources,
        sysroot = sysroot,
        target_flags = target_flags,
        text = _hash_of_text(repository_ctx, commands),
    ))

clang_toolchain = repository_rule(
    implementation = _implementation,
    attrs = {
        "cpu": attr.string(mandatory = True, doc = "Bazel's name of the target: k8, aarch64"),
        "sysroot": attr.string(doc = "the folder of the target's libraries in the workspace; empty for this machine's own"),
    },
    doc = "Clang as Bazel's compiler for one CPU",
    local = True,
)
