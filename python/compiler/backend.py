"""The build back-end of this project (PEP 517, PEP 660)."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import wheels  # noqa: E402

build_wheel, build_editable = wheels.COMPILER.build_wheel, wheels.COMPILER.build_editable
