"""How Bazel calls Clang: the configuration of one toolchain."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load(
    "@bazel_tools//tools/cpp:cc_toolchain_config_lib.bzl",
    "feature",
    "flag_group",
    "flag_set",
    "tool_path",
    "with_feature_set",
)

COMPILE_FLAGS = ["-U_FORTIFY_SOURCE", "-fstack-protector", "-fno-omit-frame-pointer"]

OPTIMISED_FLAGS = ["-g0", "-O2", "-D_FORTIFY_SOURCE=1", "-DNDEBUG", "-ffunction-sections", "-fdata-sections"]

# The same bytes wherever and whenever a file is compiled.
REPRODUCIBLE_FLAGS = [
    "-no-canonical-prefixes",
    "-Wno-builtin-macro-redefined",
    "-D__DATE__=\"redacted\"",
    "-D__TIMESTAMP__=\"redacted\"",
    "-D__TIME__=\"redacted\"",
]

_COMPILE_CPP = [ACTION_NAMES.cpp_compile, ACTION_NAMES.linkstamp_compile]

_COMPILE = _COMPILE_CPP + [ACTION_NAMES.c_compile, ACTION_NAMES.assemble, ACTION_NAMES.preprocess_assemble]

_LINK = [
    ACTION_NAMES.cpp_link_executable,
    ACTION_NAMES.cpp_link_dynamic_library,
    ACTION_NAMES.cpp_link_nodeps_dynamic_library,
]

_OPTIMISED = [with_feature_set(features = ["opt"])]

def _set(actions, flags, when = []):
    return flag_set(actions = actions, flag_groups = [flag_group(flags = flags)] if flags else [], with_features = when)

def _implementation(ctx):
    compiled = ctx.files.headers
    headers = ["-include-pch", compiled[0].dirname] if compiled else []
    target = ctx.attr.target_flags
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        abi_libc_version = "local",
        abi_version = "local",
        builtin_sysroot = ctx.attr.sysroot,
        compiler = "clang",
        cxx_builtin_include_directories = ctx.attr.include_directories,
        # Bazel adds those that it has for every toolchain: dependency files, include paths, the flags of .bazelrc.
        features = [
            feature(name = "supports_pic", enabled = True),
            feature(name = "supports_start_end_lib", enabled = True),
            feature(name = "dbg"),
            feature(name = "opt"),
            feature(
                name = "default_compile_flags",
                enabled = True,
                flag_sets = [
                    _set(_COMPILE, target + COMPILE_FLAGS),
                    _set(_COMPILE, ["-g"], [with_feature_set(features = ["dbg"])]),
                    _set(_COMPILE, OPTIMISED_FLAGS, _OPTIMISED),
                    # The headers are compiled with the flags of optimised builds.
                    _set(_COMPILE_CPP, headers, _OPTIMISED),
                ],
            ),
            feature(
                name = "default_link_flags",
                enabled = True,
                flag_sets = [
                    _set(_LINK, target + ["-fuse-ld=lld", "-Wl,-no-as-needed", "-Wl,-z,relro,-z,now"]),
                    _set(_LINK, ["-Wl,--gc-sections"], _OPTIMISED),
                ],
            ),
            feature(name = "link_libs", enabled = True, flag_sets = [_set(_LINK, ctx.attr.link_libs)]),
            feature(
                name = "unfiltered_compile_flags",
                enabled = True,
                flag_sets = [_set(_COMPILE, REPRODUCIBLE_FLAGS)],
            ),
        ],
        host_system_name = "local",
        target_cpu = ctx.attr.cpu,
        target_libc = "local",
        target_system_name = ctx.attr.cpu + "-linux-gnu" if ctx.attr.sysroot else "local",
        tool_paths = [tool_path(name = name, path = ctx.attr.llvm + "/" + tool) for name, tool in [
            ("ar", "llvm-ar"),
            ("cpp", "clang-cpp"),
            ("dwp", "llvm-dwp"),
            ("gcc", "clang"),
            ("gcov", "llvm-cov"),
            ("ld", "ld.lld"),
            ("nm", "llvm-nm"),
            ("objcopy", "llvm-objcopy"),
            ("objdump", "llvm-objdump"),
            ("strip", "llvm-strip"),
        ]],
        toolchain_identifier = ctx.label.name,
    )

clang_config = rule(
    implementation = _implementation,
    attrs = {
        "cpu": attr.string(mandatory = True),
        "headers": attr.label(cfg = "exec", doc = "headers compiled in advance, all in one folder; none: an empty group"),
        "include_directories": attr.string_list(doc = "folders of headers that no target need declare"),
        "link_libs": attr.string_list(doc = "what comes last on each command that links"),
        "llvm": attr.string(mandatory = True, doc = "the folder of Clang and of LLVM's tools"),
        "sysroot": attr.string(doc = "the folder of the target's libraries; empty for this machine's own"),
        "target_flags": attr.string_list(doc = "names the target, if it is not this machine"),
    },
    doc = "Clang's flags, tools and folders",
    provides = [CcToolchainConfigInfo],
)
