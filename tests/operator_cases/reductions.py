"""Operators that reduce axes."""

import numpy as np

from operator_cases.case import FLOATS, random, wide

AXES = [("", None), ("axis=1", (1,)), ("axis=[0, 2], keepdims=True", (0, 2)), ("axis=-1", (2,)), ("axis=[1], exclude=True", (0, 2)),
        ("axis=[]", ())]


def cases(case):
    functions = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "variance": np.var}
    for op, f in functions.items():
        for dtype in FLOATS + (["int32", "int64", "uint8"] if op in ("sum", "max", "min", "prod") else []):
            for attrs, axes in AXES:
                x = random((3, 4, 5), dtype, op, low=-1.5, high=1.5)
                keepdims = "keepdims" in attrs
                with np.errstate(over="ignore"):
                    expected = f(wide(x), axis=axes, keepdims=keepdims)
                tolerance = {"float16": 8e-3, "float32": 1e-5, "float64": 1e-9}.get(dtype, 0)
                case(op, f"{op}(%a{', ' + attrs if attrs else ''})", [x], np.asarray(expected).astype(dtype), tolerance)
    for op, f in {"all": np.all, "any": np.any}.items():
        for attrs, axes in AXES:
            x = random((2, 3, 4), "bool", op)
            case(op, f"{op}(%a{', ' + attrs if attrs else ''})", [x], f(x, axis=axes, keepdims="keepdims" in attrs))
    for op, f in {"argmax": np.argmax, "argmin": np.argmin}.items():
        for dtype in FLOATS + ["int32", "uint8"]:
            x = random((3, 40), dtype, op)
            case(op, f"{op}(%a, axis=1)", [x], f(x, axis=1).astype(np.int32))
            case(op, f"{op}(%a, axis=[-2])", [x], f(x, axis=0).astype(np.int32))
            case(op, f"{op}(%a, axis=1, keepdims=True)", [x], f(x, axis=1)[:, None].astype(np.int32))
            last = x.shape[1] - 1 - f(x[:, ::-1], axis=1)
            case(op, f"{op}(%a, axis=1, select_last_index=True)", [x], last.astype(np.int32))
    x = random((4, 6), "float32", "unbiased")
    case("variance", "variance(%a, axis=1, unbiased=True)", [x], np.var(wide(x), axis=1, ddof=1).astype("float32"), 1e-5)
    long = random((2, 1000), "float32", "long")
    case("sum", "sum(%a, axis=1)", [long], long.sum(axis=1, dtype=np.float64).astype("float32"), 1e-4)
