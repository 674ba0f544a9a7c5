"""A shared library for users without Bazel: with a soname, and exporting only what a version script lists.

cc_binary cannot make it: Debian's static Abseil has thread-local accesses that only fit an executable, so the library
needs the shared one, and of that only the parts that it uses; or it has those files of Abseil compiled anew.
"""

load("//third_party/glibc:older_interface.bzl", "OLDER_GLIBC_LIBRARIES")

def _glibc_flags(interface):
    """`interface`: the libraries of the glibc that it is to run with."""
    return ["-L" + interface[0].dirname, "-static-libstdc++"] + OLDER_GLIBC_LIBRARIES if interface else []

def _impl(ctx):
    roots = [dep.label for dep in ctx.attr.deps]
    replaced = [library.label for library in ctx.attr.replaced]
    whole, libraries, flags = [], [], []
    for dep in ctx.attr.deps:
        for linked in dep[CcInfo].linking_context.linker_inputs.to_list():
            if linked.owner in replaced:
                continue
            archives = [library.pic_static_library or library.static_library for library in linked.libraries]
            (whole if linked.owner in roots else libraries).extend([file for file in archives if file])
            flags += [flag for flag in linked.user_link_flags if flag not in flags]
    compiler = ctx.attr._cc_toolchain[cc_common.CcToolchainInfo]
    if compiler.sysroot:  # a cross compiler's
        flags = ["--target=" + compiler.target_gnu_system_name, "--sysroot=" + compiler.sysroot] + flags
    output = ctx.actions.declare_file(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add_all(["-shared", "-fuse-ld=lld", "-O2", "-o", output, "-Wl,-soname," + ctx.attr.soname])
    arguments.add(ctx.file.version_script, format = "-Wl,--version-script=%s")
    arguments.add_all(["-Wl,--gc-sections,-z,relro,-z,now,-z,defs,--strip-all,--build-id=sha1", "-Wl,--disable-new-dtags,-rpath,$ORIGIN"])
    arguments.add_all(["-Wl,--whole-archive"] + whole + ["-Wl,--no-whole-archive"] + libraries)
    arguments.add_all(["-Wl,--as-needed"] + ctx.files.shared + ctx.attr.linkopts)
    arguments.add_all(_glibc_flags(ctx.files.glibc) + flags)
    ctx.actions.run(
        outputs = [output],
        inputs = whole + libraries + ctx.files.shared + ctx.files.glibc + [ctx.file.version_script],
        executable = "/usr/bin/clang++-19",
        arguments = [arguments],
        mnemonic = "SharedLibrary",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles(files = [output]))]

shared_library = rule(
    implementation = _impl,
    attrs = {
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "deps": attr.label_list(providers = [CcInfo]),  # linked whole; theirs as far as they are used
        "glibc": attr.label(doc = "the interface of the glibc that it is to run with; else this machine's"),
        "linkopts": attr.string_list(),
        "replaced": attr.label_list(providers = [CcInfo]),  # dependencies that are left out
        "shared": attr.label_list(allow_files = True),  # shared libraries in their place
        "soname": attr.string(mandatory = True),
        "version_script": attr.label(allow_single_file = True, mandatory = True),
    },
)
