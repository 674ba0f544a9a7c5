"""Writes programs of the predecessor with arguments and results: see README.md. Runs in its Python environment."""

import itertools
import os
import sys
import traceback

import numpy as np
import tvm
from tvm import relay

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu"
RANDOM = np.random.RandomState(7)


def floats(*shape, low=-2.0, high=2.0):
    return RANDOM.uniform(low, high, shape).astype("float32")


def integers(*shape, low=-9, high=9, dtype="int32"):
    return RANDOM.randint(low, high, shape).astype(dtype)


def variables(arrays):
    return [relay.var(f"x{i}", shape=a.shape, dtype=str(a.dtype)) for i, a in enumerate(arrays)]


def flatten(value):
    """The tensors of a result, tuples in order."""
    if isinstance(value, (list, tuple)) or type(value).__name__ in ("ADT", "TupleValue"):
        return [tensor for field in value for tensor in flatten(field)]
    return [value.numpy()]


class Writer:
    def __init__(self, folder):
        self.folder = folder
        self.written = 0
        self.refused = []

    def path(self, name, extension):
        return os.path.join(self.folder, f"{name}.{extension}")

    def module(self, name, module, arrays, params=None):
        """Prints and runs a module; one that the predecessor itself refuses is only listed. Its parameters that `params`
        does not name are `arrays`, in order."""
        try:
            module = relay.transform.InferType()(module)
            text = module.astext(show_meta_data=True)
            executor = relay.create_executor("vm", mod=module, device=tvm.cpu(), target=TARGET)
            rest = iter(arrays)
            arguments = [(params or {}).get(p.name_hint) or next(rest) for p in module["main"].params]
            results = flatten(executor.evaluate()(*arguments))
        except Exception as error:  # whatever it raises
            self.refused.append((name, str(error).strip().splitlines()[-1][:100]))
            return
        with open(self.path(name, "relay"), "w", encoding="utf-8") as file:
            file.write(text)
        tensors = {f"a{i}": a for i, a in enumerate(arrays)} | {f"r{i}": r for i, r in enumerate(results)}
        np.savez(self.path(name, "npz"), **tensors)
        if params is not None:
            with open(self.path(name, "params"), "wb") as file:
                file.write(relay.save_param_dict(params))
            with open(self.path(name, "json"), "w", encoding="utf-8") as file:
                file.write(tvm.ir.save_json(module))
        self.written += 1

    def operator(self, name, build, *arrays):
        """`build` gets a variable for each array."""
        try:
            params = variables(arrays)
            expr = build(*params)
            if isinstance(expr, relay.expr.TupleWrapper):
                expr = expr.astuple()
            module = tvm.IRModule.from_expr(relay.Function(params, expr))
        except Exception as error:
            self.refused.append((name, str(error).strip().splitlines()[-1][:100]))
            return
        self.module(name, module, list(arrays))


def elementwise(out):
    anywhere = "exp tanh sigmoid floor ceil trunc round abs negative sign cos sin atan erf copy zeros_like ones_like"
    for name in anywhere.split():
        out.operator(f"unary_{name}", getattr(relay, name), floats(2, 3))
    for name in "log sqrt rsqrt log2 log10 cosh sinh asinh tan isnan isfinite isinf".split():
        out.operator(f"unary_{name}", getattr(relay, name), floats(4, low=0.1))
    for name in "relu softmax log_softmax fast_softmax batch_flatten".split():
        out.operator(f"nn_{name}", getattr(relay.nn, name), floats(2, 3, 4))
    pairs = "add subtract multiply divide power maximum minimum equal not_equal less less_equal greater greater_equal"
    shapes = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 3), (4, 1))]
    for name, (a, b) in itertools.product(pairs.split(), shapes):
        out.operator(f"binary_{name}_{len(a)}_{len(b)}", getattr(relay, name), floats(*a, low=0.5), floats(*b, low=0.5))
    for name in "floor_divide floor_mod mod bitwise_and bitwise_or bitwise_xor left_shift right_shift".split():
        out.operator(f"integer_{name}", getattr(relay, name), integers(3, 4, low=0), integers(4, low=1, high=5))
    for name in "logical_and logical_or logical_xor".split():
        out.operator(f"boolean_{name}", getattr(relay, name), integers(5, low=0, high=2, dtype="bool"),
                     integers(5, low=0, high=2, dtype="bool"))
    for target in "int8 int32 int64 float16 float64 bool uint8".split():
        out.operator(f"cast_{target}", lambda x, t=target: relay.cast(x, t), floats(2, 3, low=0))
    out.operator("clip", lambda x: relay.clip(x, -0.5, 0.75), floats(3, 4))
    out.operator("where", relay.where, integers(3, 4, low=0, high=2, dtype="bool"), floats(3, 4), floats(4))


def reductions(out):
    axes = [None, 0, (0, 2), -1]
    for name, axis, keep in itertools.product("sum mean max min prod".split(), axes, (False, True)):
        out.operator(f"reduce_{name}_{axis}_{keep}".replace(" ", ""),
                     lambda x, n=name, a=axis, k=keep: getattr(relay, n)(x, axis=a, keepdims=k), floats(2, 3, 4))
    for name, axis in itertools.product("argmax argmin".split(), (None, 1)):
        out.operator(f"reduce_{name}_{axis}", lambda x, n=name, a=axis: getattr(relay, n)(x, axis=a), floats(3, 5))
    for name, axis in itertools.product("variance std".split(), (0, [1, 2])):
        out.operator(f"reduce_{name}_{axis}".replace(" ", ""),
                     lambda x, n=name, a=axis: getattr(relay, n)(x, axis=a), floats(2, 3, 4))
    out.operator("sum_exclude", lambda x: relay.sum(x, axis=1, exclude=True), floats(2, 3, 4))
    for name, exclusive, axis in itertools.product(("cumsum", "cumprod"), (None, True), (0, 1)):
        out.operator(f"{name}_{exclusive}_{axis}",
                     lambda x, n=name, e=exclusive, a=axis: getattr(relay, n)(x, axis=a, exclusive=e), floats(3, 4))


def transforms(out):
    x = floats(2, 3, 4)
    cases = {
        "reshape": lambda v: relay.reshape(v, (4, -1)), "reshape_zero": lambda v: relay.reshape(v, (0, -1)),
        "reshape_codes": lambda v: relay.reshape(v, (-3, 0)), "transpose": lambda v: relay.transpose(v, (2, 0, 1)),
        "transpose_default": relay.transpose, "expand_dims": lambda v: relay.expand_dims(v, 1, 2),
        "squeeze": lambda v: relay.squeeze(relay.expand_dims(v, 0)), "tile": lambda v: relay.tile(v, (2, 1, 2)),
        "repeat": lambda v: relay.repeat(v, 2, 1), "reverse": lambda v: relay.reverse(v, 1),
        "flip_slice": lambda v: relay.strided_slice(v, [1, 2, 3], [-3, -4, -5], [-1, -1, -1]),
        "slice": lambda v: relay.strided_slice(v, [0, 1], [2, 3]),
        "slice_axes": lambda v: relay.strided_slice(v, [1], [3], axes=[2]),
        "slice_size": lambda v: relay.strided_slice(v, [0, 1, 1], [2, 2, 2], slice_mode="size"),
        "split_number": lambda v: relay.split(v, 2, axis=2), "split_places": lambda v: relay.split(v, [1, 3], axis=2),
        "concatenate": lambda v: relay.concatenate([v, v], 1), "stack": lambda v: relay.stack([v, v], 1),
        "broadcast_to": lambda v: relay.broadcast_to(v, (5, 2, 3, 4)), "full_like": lambda v: relay.full_like(v, relay.const(3.0)),
        "layout": lambda v: relay.layout_transform(v, "NCW", "NWC"), "pad": lambda v: relay.nn.pad(v, ((1, 0), (0, 2), (1, 1)), 1.5),
        "pad_edge": lambda v: relay.nn.pad(v, ((1, 0), (0, 2), (1, 1)), pad_mode="edge"),
        "mirror_pad": lambda v: relay.nn.mirror_pad(v, ((1, 0), (0, 2), (1, 1)), "REFLECT"),
        "sort": lambda v: relay.sort(v, axis=1), "argsort": lambda v: relay.argsort(v, axis=2, is_ascend=False),
        "topk": lambda v: relay.topk(v, k=2, axis=-1), "topk_values": lambda v: relay.topk(v, k=2, ret_type="values"),
        "shape_of": relay.shape_of, "ndarray_size": relay.ndarray_size, "matrix_set_diag": lambda v: relay.matrix_set_diag(v, relay.sum(v, 1)),
        "sequence_mask": lambda v: relay.sequence_mask(v, relay.const(np.array([1, 2, 1], "int32")), axis=0),
        "reverse_sequence": lambda v: relay.reverse_sequence(v, relay.const(np.array([1, 2, 3, 1], "int32")), 1, 2),
    }
    for name, build in cases.items():
        out.operator(f"transform_{name}", build, x)
    for axis, mode in itertools.product((0, 1, None), ("clip", "wrap")):
        out.operator(f"take_{axis}_{mode}", lambda v, i, a=axis, m=mode: relay.take(v, i, axis=a, mode=m), floats(4, 5),
                     integers(3, low=0, high=4))
    out.operator("gather", lambda v, i: relay.gather(v, 1, i), floats(3, 4), integers(3, 2, low=0, high=4))
    out.operator("gather_nd", relay.gather_nd, floats(3, 4), integers(2, 5, low=0, high=3))
    out.operator("gather_nd_batch", lambda v, i: relay.gather_nd(v, i, 1), floats(2, 3, 4), integers(1, 2, low=0, high=3))
    out.operator("scatter_elements", lambda d, i, u: relay.scatter_elements(d, i, u, 0, "add"), floats(3, 4),
                 integers(2, 4, low=0, high=3), floats(2, 4))
    out.operator("scatter_nd", lambda d, i, u: relay.scatter_nd(d, i, u, "add"), floats(4, 3), integers(1, 2, low=0, high=4),
                 floats(2, 3))
    out.operator("one_hot", lambda i: relay.one_hot(i, relay.const(1.0), relay.const(0.0), 6, -1, "float32"),
                 integers(4, low=0, high=6))
    out.operator("arange", lambda: relay.arange(relay.const(1.0), relay.const(20.0), relay.const(2.0), "float32"))
    out.operator("arange_of_arguments", lambda a, b: relay.arange(a, b, relay.const(1, "int32"), "int32"),
                 np.array(2, "int32"), np.array(9, "int32"))
    out.operator("full", lambda: relay.full(relay.const(2.0), (2, 3), "float32"))
    out.operator("zeros", lambda: relay.zeros((2, 3), "int64"))
    out.operator("meshgrid", lambda a, b: relay.meshgrid([a, b], "ij"), floats(2), floats(3))
    out.operator("argwhere", relay.argwhere, integers(3, 4, low=0, high=2))
    out.operator("unique", lambda v: relay.unique(v, is_sorted=True), integers(9, low=0, high=4))
    out.operator("searchsorted", lambda s, v: relay.searchsorted(s, v, right=True), np.sort(floats(6)), floats(4))
    out.operator("trilu", lambda v: relay.trilu(v, relay.const(0), upper=True), floats(3, 4))


def networks_parts(out):
    image, weight = floats(1, 4, 9, 8), floats(6, 4, 3, 3)
    for strides, padding, dilation in itertools.product((1, 2), (0, (1, 2)), (1, 2)):
        out.operator(f"conv2d_{strides}_{padding}_{dilation}".replace(" ", ""),
                     lambda x, w, s=strides, p=padding, d=dilation: relay.nn.conv2d(
                         x, w, strides=s, padding=p, dilation=d, channels=6, kernel_size=(3, 3)), image, weight)
    for groups in (2, 4):
        out.operator(f"conv2d_groups_{groups}", lambda x, w, g=groups: relay.nn.conv2d(
            x, w, groups=g, channels=4, kernel_size=(3, 3)), image, floats(4, 4 // groups, 3, 3))
    out.operator("conv2d_nhwc", lambda x, w: relay.nn.conv2d(
        x, w, channels=6, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO"), floats(1, 9, 8, 4), floats(3, 3, 4, 6))
    out.operator("conv1d", lambda x, w: relay.nn.conv1d(x, w, padding=1, kernel_size=3), floats(1, 3, 8), floats(4, 3, 3))
    out.operator("conv3d", lambda x, w: relay.nn.conv3d(x, w, kernel_size=(2, 2, 2)), floats(1, 2, 4, 4, 4), floats(3, 2, 2, 2, 2))
    out.operator("conv2d_transpose", lambda x, w: relay.nn.conv2d_transpose(
        x, w, strides=(2, 2), padding=(1, 1), output_padding=(1, 1), channels=5, kernel_size=(3, 3)), floats(1, 4, 5, 5), floats(4, 5, 3, 3))
    out.operator("dense", lambda x, w: relay.nn.dense(x, w, units=5), floats(3, 4), floats(5, 4))
    out.operator("matmul", lambda x, w: relay.nn.matmul(x, w, transpose_b=True), floats(3, 4), floats(5, 4))
    out.operator("batch_matmul", relay.nn.batch_matmul, floats(2, 3, 4), floats(2, 5, 4))
    out.operator("bias_add", lambda x, b: relay.nn.bias_add(x, b, axis=-1), floats(2, 3, 4), floats(4))
    pools = [relay.nn.max_pool2d, relay.nn.avg_pool2d]
    for pool, ceil, padding in itertools.product(pools, (False, True), ((0, 0), (1, 1))):
        out.operator(f"{pool.__name__}_{ceil}_{padding}".replace(" ", ""), lambda x, f=pool, c=ceil, p=padding: f(
            x, pool_size=(3, 3), strides=(2, 2), padding=p, ceil_mode=c), image)
    out.operator("avg_pool2d_include_pad", lambda x: relay.nn.avg_pool2d(
        x, pool_size=(3, 3), padding=(1, 1), count_include_pad=True), image)
    for pool in (relay.nn.global_max_pool2d, relay.nn.global_avg_pool2d):
        out.operator(pool.__name__, pool, image)
    out.operator("adaptive_avg_pool2d", lambda x: relay.nn.adaptive_avg_pool2d(x, (3, 2)), image)
    out.operator("adaptive_max_pool1d", lambda x: relay.nn.adaptive_max_pool1d(x, 2), floats(1, 3, 8))
    out.operator("max_pool1d", lambda x: relay.nn.max_pool1d(x, pool_size=2, strides=2), floats(1, 3, 8))
    out.operator("max_pool3d", lambda x: relay.nn.max_pool3d(x, pool_size=2, strides=2), floats(1, 2, 4, 4, 4))
    out.operator("batch_norm", lambda x, g, b, m, v: relay.nn.batch_norm(x, g, b, m, v)[0], image, floats(4), floats(4),
                 floats(4), floats(4, low=0.5))
    out.operator("layer_norm", lambda x, g, b: relay.nn.layer_norm(x, g, b), floats(2, 3, 4), floats(4), floats(4))
    out.operator("group_norm", lambda x, g, b: relay.nn.group_norm(x, g, b, num_groups=2), image, floats(4), floats(4))
    out.operator("instance_norm", lambda x, g, b: relay.nn.instance_norm(x, g, b), image, floats(4), floats(4))
    out.operator("l2_normalize", lambda x: relay.nn.l2_normalize(x, 1e-4, [1]), image)
    out.operator("lrn", lambda x: relay.nn.lrn(x, size=3), image)
    out.operator("prelu", lambda x, a: relay.nn.prelu(x, a), image, floats(4))
    out.operator("leaky_relu", lambda x: relay.nn.leaky_relu(x, 0.2), image)
    out.operator("dropout", lambda x: relay.nn.dropout(x, 0.3), image)
    for layout, method in itertools.product(("NCHW", "NHWC"), ("nearest_neighbor", "bilinear")):
        out.operator(f"upsampling_{layout}_{method}", lambda x, l=layout, m=method: relay.nn.upsampling(
            x, 2, 2, layout=l, method=m), floats(1, 4, 4, 4))
    for height, scale in itertools.product((1, 3, 5), (0.5, 1.5, 2.5)):
        out.operator(f"upsampling_{height}_{scale}", lambda x, s=scale: relay.nn.upsampling(x, s, 1.0), floats(1, 1, height, 2))
    out.operator("deformable_conv2d", lambda x, o, w: relay.nn.deformable_conv2d(
        x, o, w, channels=2, kernel_size=(2, 2)), floats(1, 2, 4, 5), floats(1, 8, 3, 4), floats(2, 2, 2, 2))
    for method, mode in itertools.product(("nearest_neighbor", "linear", "cubic"), ("half_pixel", "align_corners", "asymmetric")):
        out.operator(f"resize2d_{method}_{mode}", lambda x, m=method, c=mode: relay.image.resize2d(
            x, (7, 6), method=m, coordinate_transformation_mode=c), floats(1, 2, 4, 5))
    out.operator("depth_to_space", lambda x: relay.nn.depth_to_space(x, 2), image)
    out.operator("space_to_depth", lambda x: relay.nn.space_to_depth(x, 2), floats(1, 2, 4, 4))
    out.operator("space_to_batch_nd", lambda x: relay.nn.space_to_batch_nd(x, [2, 2], [[0, 0], [2, 0]]), floats(1, 2, 4, 3))
    out.operator("batch_to_space_nd", lambda x: relay.nn.batch_to_space_nd(x, [2, 2], [[0, 1], [0, 0]]), floats(4, 3, 4, 2))
    out.operator("quantize", lambda x: relay.qnn.op.quantize(x, relay.const(0.1), relay.const(3), out_dtype="int8"), image)
    out.operator("dequantize", lambda x: relay.qnn.op.dequantize(x, relay.const(0.1), relay.const(3)), integers(3, 4, dtype="int8"))
    out.operator("requantize", lambda x: relay.qnn.op.requantize(
        x, relay.const(0.3), relay.const(1), relay.const(0.7), relay.const(-2), out_dtype="int8"), integers(3, 4))
    out.operator("qnn_add", lambda x, y: relay.qnn.op.add(x, y, *(relay.const(c) for c in (0.1, 1, 0.2, 2, 0.3, 3))),
                 integers(3, 4, dtype="uint8", low=0), integers(3, 4, dtype="uint8", low=0))
    out.operator("qnn_conv2d", lambda x, w: relay.qnn.op.conv2d(
        x, w, relay.const(1), relay.const(2), relay.const(0.1), relay.const(0.2), (3, 3), 6), integers(1, 4, 6, 6, dtype="uint8", low=0),
        integers(6, 4, 3, 3, dtype="uint8", low=0))
    out.operator("layout_nchw4c", lambda x: relay.layout_transform(x, "NCHW", "NCHW4c"), image)
    out.operator("if", lambda c, x: relay.If(c, relay.exp(x), relay.negative(x)), np.array(True), floats(3))
    out.operator("shared_between_branches", shared_between_branches, np.array(False), floats(3))


def shared_between_branches(condition, x):
    shared = relay.tanh(x)
    return relay.If(condition, shared + x, relay.If(condition, x, shared * shared))


def onnx_nodes(out):
    """Single nodes through the ONNX importer."""
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError:
        return print("no onnx: its importer is left out")
    types = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}

    def node(name, op, arrays, outputs=1, **attributes):
        inputs = [f"in/{i}" for i in range(len(arrays))]
        results = [f"out:{i}" for i in range(outputs)]
        graph = helper.make_graph(
            [helper.make_node(op, inputs, results, **attributes)], name,
            [helper.make_tensor_value_info(n, types[str(a.dtype)], a.shape) for n, a in zip(inputs, arrays)],
            [helper.make_empty_tensor_value_info(n) for n in results])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        try:
            module, params = relay.frontend.from_onnx(model, {n: a.shape for n, a in zip(inputs, arrays)}, opset=13)
        except Exception as error:
            out.refused.append((name, str(error).strip().splitlines()[-1][:100]))
            return
        out.module(f"onnx_{name}", module, arrays, params or None)

    for op in "Relu Sigmoid Tanh Exp Softplus Softsign HardSigmoid Elu Selu Erf Neg Abs Sign Identity Celu HardSwish".split():
        node(op.lower(), op, [floats(2, 3)])
    for op in "Add Sub Mul Div Max Min Mean Sum Less Greater Equal".split():
        node(op.lower(), op, [floats(2, 3), floats(3)])
    node("gemm", "Gemm", [floats(3, 4), floats(5, 4), floats(5)], alpha=0.5, beta=2.0, transB=1)
    node("matmul", "MatMul", [floats(2, 3, 4), floats(2, 4, 5)])
    node("conv", "Conv", [floats(1, 4, 8, 8), floats(6, 4, 3, 3), floats(6)], pads=[1, 1, 1, 1], strides=[2, 2])
    node("conv_transpose", "ConvTranspose", [floats(1, 4, 5, 5), floats(4, 3, 3, 3)], strides=[2, 2])
    node("max_pool", "MaxPool", [floats(1, 2, 7, 7)], kernel_shape=[3, 3], strides=[2, 2])
    node("average_pool", "AveragePool", [floats(1, 2, 7, 7)], kernel_shape=[2, 2])
    node("batch_normalization", "BatchNormalization", [floats(1, 3, 4), floats(3), floats(3), floats(3), floats(3, low=0.5)])
    node("softmax", "Softmax", [floats(2, 3, 4)], axis=1)
    node("transpose", "Transpose", [floats(2, 3, 4)], perm=[2, 0, 1])
    node("concat", "Concat", [floats(2, 3), floats(2, 2)], axis=1)
    node("split", "Split", [floats(4, 6)], outputs=2, axis=1)
    node("gather", "Gather", [floats(4, 3), np.array([2, 0], "int64")], axis=0)
    node("reduce_mean", "ReduceMean", [floats(2, 3, 4)], axes=[1], keepdims=0)
    node("flatten", "Flatten", [floats(2, 3, 4)], axis=2)
    node("lrn", "LRN", [floats(1, 5, 4, 4)], size=3)
    node("arg_max", "ArgMax", [floats(3, 4)], axis=1)
    node("where", "Where", [integers(2, 3, low=0, high=2, dtype="bool"), floats(2, 3), floats(2, 3)])
    node("lstm", "LSTM", [floats(3, 2, 4), floats(1, 12, 4), floats(1, 12, 3)], outputs=3, hidden_size=3)
    node("gru", "GRU", [floats(3, 2, 4), floats(1, 9, 4), floats(1, 9, 3)], outputs=2, hidden_size=3)


def model_zoo(out):
    import tvm.relay.testing as zoo
    workloads = {
        "mlp": lambda: zoo.mlp.get_workload(1),
        "lstm": lambda: zoo.lstm.get_workload(2, 8),
        "resnet18": lambda: zoo.resnet.get_workload(1, 10, 18, (3, 32, 32)),
        "mobilenet": lambda: zoo.mobilenet.get_workload(1, 10, (3, 32, 32)),
        "squeezenet": lambda: zoo.squeezenet.get_workload(1, 10, image_shape=(3, 64, 64)),
        "dqn": lambda: zoo.dqn.get_workload(1),
        "dcgan": lambda: zoo.dcgan.get_workload(1, oshape=(3, 64, 64), ngf=8),
        "synthetic": zoo.synthetic.get_workload,
    }
    for name, make in workloads.items():
        try:
            module, params = make()
        except Exception:
            traceback.print_exc(limit=1)
            continue
        arguments = [p for p in module["main"].params if p.name_hint not in params]
        arrays = [floats(*(int(d) for d in p.type_annotation.shape)) for p in arguments]
        out.module(f"zoo_{name}", module, arrays, params)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_programs.py FOLDER")
    os.makedirs(sys.argv[1], exist_ok=True)
    out = Writer(sys.argv[1])
    for make in (elementwise, reductions, transforms, networks_parts, onnx_nodes, model_zoo):
        make(out)
    print(f"{out.written} programs; the predecessor itself refused {len(out.refused)}:")
    for name, why in out.refused:
        print(f"  {name}: {why}")


main()
