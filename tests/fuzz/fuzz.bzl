"""A fuzz target: a binary for libFuzzer, one that replays files, and an ordinary test that replays its corpus."""

def fuzz_target(name, srcs, deps, corpus = []):
    native.cc_library(
        name = name + "_code",
        srcs = srcs,
        alwayslink = True,
        deps = deps,
    )

    # With --config=fuzz only; elsewhere it finds nothing, for nothing guides it.
    native.cc_binary(
        name = name,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_code"],
    )
    native.cc_binary(
        name = name + "_replay",
        testonly = True,
        srcs = ["replay.cc"],
        deps = [
            ":" + name + "_code",
            ":mutate",
            "//third_party:gtest_main",
        ],
    )
    if corpus:
        native.cc_test(
            name = name + "_test",
            srcs = ["replay.cc"],
            args = ["$(locations %s)" % file for file in corpus],
            data = corpus,
            deps = [
                ":" + name + "_code",
                ":mutate",
                "//third_party:gtest_main",
            ],
        )
