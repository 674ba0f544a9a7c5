"""Search, index arithmetic, indexing by several tensors, replaced parts, and sums of products."""

import numpy as np

from operator_cases.case import FLOATS, random, rng, wide


def cases(case):
    for dtype in ["float32", "float64", "int32", "uint8"]:
        sequence, values = np.sort(random((9,), dtype, "sorted")), random((3, 5), dtype, "searched")
        values[0, :3] = sequence[[0, 4, 8]]
        for right in (False, True):
            side = "right" if right else "left"
            case("searchsorted", f"searchsorted(%a, %b, right={right})", [sequence, values], np.searchsorted(sequence, values, side).astype("int32"))
            rows = np.sort(random((3, 7), dtype, "rows"), axis=-1)
            expected = np.stack([np.searchsorted(r, v, side) for r, v in zip(rows, values)])
            case("searchsorted", f'searchsorted(%a, %b, right={right}, dtype="int64")', [rows, values], expected)
        for size in (1, 2, 3, 4, 255, 256, 1000):
            long = np.sort(random((size,), dtype, "long", size))
            case("searchsorted", "searchsorted(%a, %b)", [long, values], np.searchsorted(long, values).astype("int32"))
            case("searchsorted", "searchsorted(%a, %b, right=True)", [long, long], np.searchsorted(long, long, "right").astype("int32"))
        case("searchsorted", "searchsorted(%a, %b)", [sequence, values[0, 0]], np.searchsorted(sequence, values[0, 0]).astype("int32"))
        case("searchsorted", "searchsorted(%a, %b)", [sequence[:0], values], np.zeros((3, 5), "int32"))
        _indexed(case, dtype)
        _patched(case, dtype)
    for dtype in ["float32", "float64"]:
        _trees(case, dtype)
    for dtype in ["int32", "int64", "uint8"]:
        order = rng(dtype).permutation(11).astype(dtype)
        case("invert_permutation", "invert_permutation(%a)", [order], np.argsort(order).astype(dtype))
        case("invert_permutation", "invert_permutation(%a)", [order[:0]], order[:0])
        numbers, shape = rng(dtype, "numbers").integers(0, 60, (2, 7)).astype(dtype), np.array([3, 4, 5], dtype)
        case("unravel_index", "unravel_index(%a, %b)", [numbers, shape], np.stack(np.unravel_index(numbers, (3, 4, 5))).astype(dtype))
        case("unravel_index", "unravel_index(%a, %b)", [numbers[0, 0], shape], np.stack(np.unravel_index(numbers[0, 0], (3, 4, 5))).astype(dtype))
    _einsum(case)


def _indexed(case, dtype):
    x = random((3, 4, 5), dtype, "indexed")
    rows, columns = np.array([[2], [0]], "int32"), np.array([3, -1, 1], "int32")
    case("adv_index", "adv_index((%a, %b))", [x, rows], x[rows])
    case("adv_index", "adv_index((%a, %b, %c))", [x, rows, columns], x[rows, columns])
    case("adv_index", "adv_index((%a, %b, %c, %d))", [x, rows, columns, np.array([4, 0, 2], "int64")], x[rows, columns, np.array([4, 0, 2])])
    case("adv_index", "adv_index((%a, %b))", [x, np.array([99, -99], "int64")], x[[2, 0]])
    places = rng(dtype, "batched").integers(0, 4, (3, 2)).astype("int32")
    case("take", "take(%a, %b, axis=1, batch_dims=1)", [x, places], np.stack([x[b][places[b]] for b in range(3)]))
    case("take", "take(%a, %b, axis=2, batch_dims=1)", [x, places], np.stack([x[b][:, places[b]] for b in range(3)]))
    case("take", "take(%a, %b, axis=1, batch_dims=-1)", [x, places], np.stack([x[b][places[b]] for b in range(3)]))
    case("take", 'take(%a, %b, axis=1, batch_dims=1, mode="wrap")', [x, places - 7], np.stack([x[b][(places[b] - 7) % 4] for b in range(3)]))
    empty = np.array([1, 0], "int32")
    case("take", "take(%a, %b, axis=1)", [x[:, :0], empty], np.zeros((3, 2, 5), dtype))
    case("contrib_reverse_reshape", "contrib_reverse_reshape(%a, newshape=[-1, 0])", [x], x.reshape(12, 5))
    case("contrib_reverse_reshape", "contrib_reverse_reshape(%a, newshape=[2, -1, 0])", [random((4, 3, 5), dtype, "r")], random((4, 3, 5), dtype, "r").reshape(2, 6, 5))
    case("contrib_reverse_reshape", "contrib_reverse_reshape(%a, newshape=[0, -3])", [x], x.reshape(3, 20))


def _patched(case, dtype):
    x = random((4, 6), dtype, "patched")

    def patch(begin, end, strides, steps):
        v = random(x[steps].shape, dtype, "v", str(steps))
        expected = x.copy()
        expected[steps] = v
        vectors = [np.array(values, "int32") for values in (begin, end, strides)]
        case("strided_set", "strided_set(%a, %b, %c, %d, %e)", [x, v] + vectors, expected)

    patch([1, 0], [3, 6], [1, 2], np.s_[1:3, 0:6:2])
    patch([-3, -2], [4, 6], [2, 1], np.s_[-3:4:2, -2:6])
    patch([3, 5], [0, 1], [-1, -2], np.s_[3:0:-1, 5:1:-2])
    patch([2], [4], [1], np.s_[2:4])
    patch([0, 0], [4, 6], [3, 4], np.s_[::3, ::4])
    patch([2, 0], [2, 6], [1, 1], np.s_[2:2])
    for pushed, axis in ((1, 0), (3, 0), (9, 0), (2, 1), (0, -1)):
        shape = [pushed if i == axis % 2 else n for i, n in enumerate((4, 6))]
        new = random(shape, dtype, "pushed")
        kept = np.take(np.concatenate([x, new], axis), range(pushed, pushed + x.shape[axis]), axis)
        case("nn.fifo_buffer", f"nn.fifo_buffer(%a, %b, axis={axis})", [new, x], kept)
    batch = random((2, 3, 4), dtype, "diagonals")
    for k in (0, 1, -2, 3):
        length = min(3 + min(k, 0), 4 - max(k, 0))
        diagonal, expected = random((2, length), dtype, "diagonal", k), batch.copy()
        for i in range(length):
            expected[:, i + max(-k, 0), i + max(k, 0)] = diagonal[:, i]
        case("matrix_set_diag", f"matrix_set_diag(%a, %b, k1={k}, k2={k})", [batch, diagonal], expected)
        case("diag", f"diag(%a, k={k})", [batch], np.diagonal(batch, k, 1, 2))
    long, expected = random((2, 7), dtype, "long"), batch.copy()
    expected[:, np.arange(3), np.arange(3)] = long[:, :3]
    case("matrix_set_diag", "matrix_set_diag(%a, %b)", [batch, long], expected)
    for above, below in ((True, False), (False, True), (True, True)):
        low, high, longest = -2, 1, 3
        band, expected = random((2, 4, longest), dtype, "band"), batch.copy()
        for k in range(low, high + 1):
            length = min(3 + min(k, 0), 4 - max(k, 0))
            right = above if k > 0 else below
            for i in range(length):
                expected[:, i + max(-k, 0), i + max(k, 0)] = band[:, high - k, i + (longest - length if right else 0)]
        case("matrix_set_diag", f"matrix_set_diag(%a, %b, k1={low}, k2={high}, super_diag_right_align={above}, sub_diag_right_align={below})",
             [batch, band], expected)
    vectors = [random((n,), dtype, "grid", n) for n in (3, 4, 2)]
    for indexing in ("ij", "xy"):
        for k in range(3):
            case("meshgrid", f'meshgrid((%a, %b, %c), indexing="{indexing}").{k}', vectors, np.meshgrid(*vectors, indexing=indexing)[k])
    case("meshgrid", "meshgrid((%a, %b)).1", [vectors[0], vectors[1][0]], np.meshgrid(vectors[0], vectors[1][:1], indexing="ij")[1])


EQUATIONS = [("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("i,j->ij", (3,), (4,)),
             ("ii->i", (4, 4)), ("ii->", (4, 4)), ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("i,i->", (5,), (5,)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
             ("...i->...", (2, 3, 4)), ("ij,kj,k->ik", (3, 4), (2, 4), (2,)), ("b...,b...->b...", (2, 1, 3), (2, 4, 3)), ("ba", (2, 3)),
             ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("ij,jk->ik", (3, 0), (0, 5))]


def _einsum(case):
    for equation, *shapes in EQUATIONS:
        for dtype in FLOATS + ["int32"]:
            inputs = [random(shape, dtype, "einsum", k) for k, shape in enumerate(shapes)]
            letters = "".join(f"%{c}, " for c, _ in zip("abc", inputs))
            tolerance = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-9, "int32": 0}[dtype]
            case("einsum", f'einsum(({letters}), equation="{equation}")', inputs, np.einsum(equation, *map(wide, inputs)).astype(dtype), tolerance)


def _trees(case, dtype):
    """Nodes that rows reach in random graphs of nodes, from roots and from where other steps ended; NaN, and indices out of range."""
    nodes, trees = 25, 4
    generator = rng(dtype, "trees")
    for rows, rounds in ((1, 3), (6, 0), (6, 9), (40, 17)):
        data = random((rows, 3), dtype, "tree data", rows)
        data[generator.random(data.shape) < 0.1] = np.nan
        features, children = generator.integers(0, 3, nodes).astype("int32"), generator.integers(0, nodes, (nodes, 2)).astype("int32")
        thresholds = random((nodes,), dtype, "thresholds", rows)
        thresholds[0] = data[0, features[0]]
        for begin in (generator.integers(0, nodes, trees), generator.integers(0, nodes, (trees, rows)), np.array([0, nodes, -1])):
            begin = begin.astype("int32")
            node = np.broadcast_to(begin if begin.ndim == 2 else begin[:, None], (len(begin), rows)).astype("int64")
            for _ in range(rounds):
                node = np.where((node < 0) | (node >= nodes), nodes - 1, node)
                is_first = data[np.arange(rows), features[node]] <= thresholds[node]
                node = np.where(is_first, children[node, 0], children[node, 1])
            case("tree_nodes", f"tree_nodes(%a, %b, %c, %d, %e, rounds={rounds})", [data, begin, features, thresholds, children], node.astype("int32"))
