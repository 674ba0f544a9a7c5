"""The libraries of an older glibc, for the linker.

older_interface.py makes them from this machine's or the sysroot's. With their folder as the first to look into, `-lc`,
`-lm`, `-ldl` and `-lpthread` are these; `-lld` is the loader, which has functions, too.
"""

def _implementation(ctx):
    compiler = ctx.attr._cc_toolchain[cc_common.CcToolchainInfo]
    cpu, loader = ("aarch64", "ld-linux-aarch64.so.1") if compiler.sysroot else ("x86_64", "ld-linux-x86-64.so.2")
    names = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", loader]
    found_as = ["libc.so", "libm.so", "libpthread.so", "libdl.so", "libld.so"]
    outputs = [ctx.actions.declare_file("%s/%s" % (ctx.label.name, name)) for name in found_as]
    ctx.actions.run(
        outputs = outputs,
        inputs = [ctx.file._program],
        executable = "/usr/bin/python3",
        arguments = [ctx.file._program.path, ctx.attr.version, cpu + "-linux-gnu", outputs[0].dirname] +
                    ["%s/lib/%s-linux-gnu/%s" % (compiler.sysroot or "", cpu, name) for name in names],
        mnemonic = "OlderInterface",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset(outputs))]

# Names the libraries in the order of older programs. Before 2.34 some functions of libc.so.6 were in libpthread.so.0
# and libdl.so.2; the loader must come last: a program whose first library it is does not start with glibc 2.31.
OLDER_GLIBC_LIBRARIES = [
    "-l:libc_nonshared.a",
    "-Wl,--no-as-needed,-lpthread,-ldl",
    "-Wl,--as-needed,-lm,-lc,-lld",
]

older_interface = rule(
    implementation = _implementation,
    attrs = {
        "version": attr.string(mandatory = True, doc = "the glibc, 2.x"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_program": attr.label(allow_single_file = True, default = ":older_interface.py"),
    },
)
