"""Clang as a cross compiler for aarch64, over the sysroot of third_party/aarch64/fetch_sysroot."""

_SYSROOT = "build/aarch64/sysroot"

_BUILD = """
load("@bazel_tools//tools/cpp:unix_cc_toolchain_config.bzl", "cc_toolchain_config")

package(default_visibility = ["//visibility:public"])

filegroup(name = "empty")

cc_toolchain_suite(name = "toolchain", toolchains = {{"aarch64": ":compiler", "aarch64|clang": ":compiler"}})

cc_toolchain(
    name = "compiler",
    all_files = ":empty",
    compiler_files = ":empty",
    dwp_files = ":empty",
    linker_files = ":empty",
    objcopy_files = ":empty",
    strip_files = ":empty",
    toolchain_config = ":config",
)

# Flags as those that Bazel finds for the compiler of this machine.
cc_toolchain_config(
    name = "config",
    abi_libc_version = "local",
    abi_version = "local",
    builtin_sysroot = "{sysroot}",
    compile_flags = ["--target=aarch64-linux-gnu", "-U_FORTIFY_SOURCE", "-fstack-protector", "-fno-omit-frame-pointer"],
    compiler = "clang",
    cpu = "aarch64",
    cxx_builtin_include_directories = ["{sysroot}/usr/include", "{resources}/include", "{resources}/share"],
    dbg_compile_flags = ["-g"],
    host_system_name = "local",
    link_flags = ["--target=aarch64-linux-gnu", "-Wl,-no-as-needed", "-Wl,-z,relro,-z,now"],
    # Systems of ARM machines have older ones.
    link_libs = ["-l:libstdc++.a", "-lm"],
    opt_compile_flags = ["-g0", "-O2", "-D_FORTIFY_SOURCE=1", "-DNDEBUG", "-ffunction-sections", "-fdata-sections"],
    opt_link_flags = ["-Wl,--gc-sections"],
    supports_start_end_lib = True,
    target_libc = "local",
    target_system_name = "aarch64-linux-gnu",
    tool_paths = {{
        "ar": "{llvm}/llvm-ar",
        "cpp": "{llvm}/clang-cpp",
        "dwp": "{llvm}/llvm-dwp",
        "gcc": "{llvm}/clang",
        "gcov": "{llvm}/llvm-cov",
        "llvm-cov": "{llvm}/llvm-cov",
        "ld": "{llvm}/ld.lld",
        "nm": "{llvm}/llvm-nm",
        "objcopy": "{llvm}/llvm-objcopy",
        "objdump": "{llvm}/llvm-objdump",
        "strip": "{llvm}/llvm-strip",
    }},
    toolchain_identifier = "aarch64",
    unfiltered_compile_flags = [
        "-no-canonical-prefixes",
        "-Wno-builtin-macro-redefined",
        "-D__DATE__=\\"redacted\\"",
        "-D__TIMESTAMP__=\\"redacted\\"",
        "-D__TIME__=\\"redacted\\"",
    ],
)
"""

def _implementation(repository_ctx):
    root = repository_ctx.path(Label("//:WORKSPACE")).dirname
    sysroot = repository_ctx.path("%s/%s" % (root, _SYSROOT))
    if not sysroot.exists:
        fail("no %s: `./run build --cpu aarch64` makes it" % _SYSROOT)
    clang = repository_ctx.which("clang-19")
    if clang == None:
        fail("no clang-19: `./run build --cpu aarch64` installs it")
    resources = repository_ctx.execute([clang, "-print-resource-dir"]).stdout.strip()
    repository_ctx.file("BUILD", _BUILD.format(
        llvm = clang.realpath.dirname,
        resources = resources,
        sysroot = sysroot,
    ))

aarch64_toolchain = repository_rule(implementation = _implementation, local = True)
