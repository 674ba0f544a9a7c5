"""The build back-end of this project (PEP 517, PEP 660)."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import wheels  # noqa: E402

WHEEL = wheels.Wheel(HERE, "relayvm-runtime", "relayvm_runtime", "//capi:librelayvm.so.1", "Runs compiled Relay programs", ["numpy>=1.24"])


def build_wheel(directory, config_settings=None, metadata_directory=None):
    return WHEEL.build(directory, editable=False)


def build_editable(directory, config_settings=None, metadata_directory=None):
    return WHEEL.build(directory, editable=True)
