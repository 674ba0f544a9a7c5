"""A program for this machine and, from the same objects, one for users, whose systems may have an older glibc."""

load(":older_interface.bzl", "OLDER_GLIBC_LIBRARIES")

# For cc_binary, without the feature link_libs, which names the machine's libstdc++.
_OLDER_GLIBC = [
    "-L$(BINDIR)/third_party/glibc/interface",
    "-l:libstdc++.a",
    # This machine's libgcc_s.so.1 is linked with this machine's glibc.
    "-Wl,--allow-shlib-undefined",
] + OLDER_GLIBC_LIBRARIES

def cc_program(
        name,
        srcs,
        deps,
        linkopts = [],
        libraries = [],
        manylinux_libraries = [],
        additional_linker_inputs = []):
    """The programs NAME and manylinux/NAME, with the options and libraries for all or for one of them."""
    native.cc_library(
        name = name + "_main",
        srcs = srcs,
        alwayslink = True,
        deps = deps,
    )
    native.cc_binary(
        name = name,
        additional_linker_inputs = additional_linker_inputs,
        linkopts = linkopts + libraries,
        visibility = ["//visibility:public"],
        deps = [":" + name + "_main"],
    )
    native.cc_binary(
        name = "manylinux/" + name,
        additional_linker_inputs = additional_linker_inputs + ["//third_party/glibc:interface"],
        features = ["-link_libs"],
        linkopts = linkopts + manylinux_libraries + _OLDER_GLIBC,
        # Only `./run dist` needs it.
        tags = ["manual"],
        visibility = ["//visibility:public"],
        deps = [
            ":" + name + "_main",
            "//third_party/glibc:newer_functions",
            "//third_party/glibc:older_start",
        ],
    )
