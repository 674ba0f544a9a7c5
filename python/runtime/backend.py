"""The build back-end of this project (PEP 517, PEP 660)."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import wheels  # noqa: E402

WHEEL = wheels.Wheel(HERE, "relayvm-runtime", "relayvm_runtime", "//capi:librelayvm.so.1", "Runs compiled Relay programs", ["numpy>=1.24"])
build_wheel, build_editable = WHEEL.build_wheel, WHEEL.build_editable
