"""What a call from Python costs beside the work that it does, and each element of a list that goes in or comes out."""

import time

import python_threads

LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"
COUNT = LIST + "def @main(%l: List[int32]) -> int32 { match (%l) { Nil => 0, Cons(%x, %r) => %x + @main(%r) } }"
MAKE = LIST + """def @up(%i: int32, %l: List[int32]) -> List[int32] { if (%i == 0) { %l } else { @up(%i - 1, Cons(%i, %l)) } }
def @main(%n: int32) -> List[int32] { @up(%n, Nil) }"""
DOUBLE = "def @main(%x: Tensor[(n), float32]) -> Tensor[(n), float32] { %x * 2f }"


def peer():
    """ONNX Runtime's call of the same product; None where it is not installed."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return None
    import numpy
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    two = numpy_helper.from_array(numpy.array(2, "float32"), "two")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["y"])], "g", values[:1], values[1:], [two])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda x: session.run(None, {"x": x})[0]


def microseconds(functions, calls):
    """Of processor time, the least of 20 rounds in turns."""
    least = [float("inf")] * len(functions)
    for _ in range(20):
        for i, function in enumerate(functions):
            began = time.thread_time()
            for _ in range(calls):
                function()
            least[i] = min(least[i], (time.thread_time() - began) / calls * 1e6)
    return least


def table(_folder):
    vm, onnxruntime = python_threads.package(), peer()
    import numpy as np
    x, words = np.ones(8, "float32"), np.arange(1000, dtype="int32")
    double, count, make = vm.compile(DOUBLE), vm.compile(COUNT), vm.compile(MAKE)
    limited, session = double.with_limits(time_limit=10), double.session()
    calls = [lambda: double(x), lambda: session(x), lambda: limited(x)]
    names = ["a call of a program", "of a session", "with a time limit"]
    if onnxruntime is not None:
        np.testing.assert_array_equal(double(x), onnxruntime(x))
        calls.append(lambda: onnxruntime(x))
        names.append("of ONNX Runtime")
    lines = ["| Python, 8 numbers doubled | Microseconds of processor time |", "|---|---:|"]
    lines += [f"| {name} | {time:.1f} |" for name, time in zip(names, microseconds(calls, 1000))]
    numbers = words.tolist()
    assert count(numbers) == count(words) == words.sum() and list(make(1000)) == list(range(1, 1001))
    lists = [lambda: count(numbers), lambda: count(words), lambda: list(make(1000)), lambda: np.asarray(make(1000))]
    names = ["a list of 1,000 numbers in", "the same as a vector", "a list of 1,000 out, as a list", "as an array"]
    lines += ["", "| A list of 1,000 elements, the run included | Microseconds an element |", "|---|---:|"]
    lines += [f"| {name} | {time / 1000:.2f} |" for name, time in zip(names, microseconds(lists, 20))]
    return "\n".join(lines) + "\n"
