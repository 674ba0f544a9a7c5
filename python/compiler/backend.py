"""The build back-end of this project (PEP 517, PEP 660)."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import wheels  # noqa: E402

WHEEL = wheels.Wheel(HERE, "relayvm", "relayvm", "//capi/compiler:librelayvm_compiler.so.1", "Compiles and runs Relay programs", ["relayvm-runtime"])


def build_wheel(directory, config_settings=None, metadata_directory=None):
    return WHEEL.build(directory, editable=False)


def build_editable(directory, config_settings=None, metadata_directory=None):
    return WHEEL.build(directory, editable=True)
