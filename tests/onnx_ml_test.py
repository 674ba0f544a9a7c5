"""Operators of ai.onnx.ml beside ONNX Runtime: linear models, support vectors, features, and ensembles of trees made here."""

import os
import unittest

import onnx_contrib_test
import onnx_test

LEVELS = (["-O0"], ["-O2"], ["--target", "portable"])
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


class Models(onnx_contrib_test.Models):
    SETS = {"": 21, "ai.onnx.ml": 3}

    def node(self, kind, inputs, outputs, domain="ai.onnx.ml", **attributes):
        given = {name: value for name, value in attributes.items() if not isinstance(value, list) or value}
        return super().node(kind, inputs, outputs, domain, **given)

    def check_all(self, nodes, feeds, **options):
        """Several nodes in one model. Their outputs are named by position."""
        outputs = [name for node in nodes for name in node.output]
        options = {"levels": LEVELS, "near": 1e-5, "extents": {name: ["n", *array.shape[1:]] for name, array in feeds[0].items()}, **options}
        return self.check(nodes, feeds, {}, outputs, **options)


    def inputs(self, *rows, features=4, dtype="float32", nan=0.1):
        feeds = []
        for count in rows:
            x = (self.random.integers(-6, 7, (count, features)) / 2).astype(dtype)
            x[self.random.random(x.shape) < nan] = float("nan")
            feeds.append({"x": x})
        return feeds


@unittest.skipUnless(onnx_test.has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class Linear(Models):
    def test_linear_models(self):
        """Regressors and classifiers of one and several scores, with each transform that has a meaning for them."""
        nodes, floats = [], lambda *shape: self.floats(*shape).ravel().tolist()
        for number, transform in enumerate(TRANSFORMS):
            attributes = {"post_transform": transform}
            scale = 0.05 if transform == "PROBIT" else 1
            small = lambda count, scale=scale: [0.5 * (scale < 1) + scale * value for value in floats(count)]
            weights = lambda count, scale=scale: [scale * value for value in floats(count)]
            nodes.append(self.node("LinearRegressor", ["x"], [f"r{number}"], coefficients=weights(5), intercepts=small(1), **attributes))
            nodes.append(self.node("LinearRegressor", ["x"], [f"s{number}"], coefficients=weights(15), intercepts=small(3), targets=3, **attributes))
            nodes.append(self.node("LinearClassifier", ["x"], [f"l{number}", f"c{number}"], coefficients=weights(15), intercepts=small(3),
                                   classlabels_ints=[7, -3, 12], **attributes))
            if transform != "PROBIT":
                nodes.append(self.node("LinearClassifier", ["x"], [f"k{number}", f"b{number}"], coefficients=weights(5), intercepts=small(1), classlabels_ints=[4, 9], **attributes))
        self.check_all(nodes, [{"x": self.floats(rows, 5)} for rows in (1, 7)], near=5e-5)

    def vectors(self, sizes, kernel, transform="NONE", probabilities=False, scale=1.0):
        """Attributes of a classifier of as many classes as `sizes`."""
        classes, count = len(sizes), sum(sizes)
        pairs = classes * (classes - 1) // 2
        spread = lambda size: (self.random.standard_normal(size) * scale).astype("float32").tolist()
        given = {"prob_a": (-self.random.random(pairs) - 0.5).tolist(), "prob_b": spread(pairs)} if probabilities else {}
        return {"kernel_type": kernel, "kernel_params": [0.3, 0.2, 3.0], "support_vectors": spread(count * 4), "vectors_per_class": list(sizes), "rho": spread(pairs),
                "coefficients": spread((classes - 1) * count), "classlabels_ints": list(range(10, 10 + classes)), "post_transform": transform, **given}

    def test_support_vectors(self):
        nodes = []
        for number, kernel in enumerate(("LINEAR", "POLY", "RBF", "SIGMOID")):
            three = self.vectors((3, 5, 4), kernel)
            one = {key: three[key] for key in ("kernel_type", "kernel_params", "support_vectors", "rho")}
            coefficients = self.floats(12).tolist()
            nodes.append(self.node("SVMRegressor", ["x"], [f"r{number}"], n_supports=12, coefficients=coefficients, **one))
            nodes.append(self.node("SVMRegressor", ["x"], [f"o{number}"], n_supports=12, coefficients=coefficients, one_class=1, **one))
            nodes.append(self.node("SVMClassifier", ["x"], [f"l{number}", f"c{number}"], **three))
            nodes.append(self.node("SVMClassifier", ["x"], [f"k{number}", f"b{number}"], **self.vectors((3, 4), kernel)))
        for number, transform in enumerate(TRANSFORMS[:4]):
            nodes.append(self.node("SVMClassifier", ["x"], [f"lt{number}", f"ct{number}"], **self.vectors((2, 2, 3, 2), "RBF", transform)))
            nodes.append(self.node("SVMClassifier", ["x"], [f"kt{number}", f"bt{number}"], **self.vectors((2, 3), "RBF", transform)))
        for number, sizes in enumerate(((2, 3), (2, 2, 3), (1, 2, 1, 3, 2))):
            nodes.append(self.node("SVMClassifier", ["x"], [f"lp{number}", f"p{number}"], **self.vectors(sizes, "RBF", probabilities=True)))
        for number, sign in enumerate((1, -1)):
            for classes in (2, 3):
                coefficients = (sign * self.np.abs(self.floats(classes * 4))).tolist()
                nodes.append(self.node("SVMClassifier", ["x"], [f"lm{number}{classes}", f"m{number}{classes}"], coefficients=coefficients, rho=[0.1], kernel_params=[0.0, 0.0, 0.0],
                                       kernel_type="LINEAR", classlabels_ints=list(range(classes))))
        self.check_all(nodes, [{"x": self.floats(rows, 4)} for rows in (1, 9)], near=2e-5)

    def test_refusals(self):
        x = {"x": ("float32", ["n", 4])}
        given = self.vectors((2, 3), "RBF")
        self.fails(self.node("SVMClassifier", ["x"], ["y"], **{**given, "rho": [1.0, 2.0]}), x, {}, "its 2 labels make 1 pairs; `rho` has 2 elements")
        self.fails(self.node("SVMClassifier", ["x"], ["y"], **{**given, "vectors_per_class": [2, 4]}), x, {}, "`vectors_per_class` and `coefficients` do not fit its labels")
        self.fails(self.node("SVMRegressor", ["x"], ["y"], n_supports=2, coefficients=[1.0, 2.0], rho=[0.0], support_vectors=[0.0] * 6, kernel_type="RBF"), x, {}, "not as many elements")
        self.fails(self.node("LinearRegressor", ["x"], ["y"], coefficients=[1.0] * 6), x, {}, "it has 6 coefficients for 1 rows of 4 features")
        self.fails(self.node("LinearRegressor", ["x"], ["y"], coefficients=[1.0] * 4, post_transform="CUBE"), x, {}, "`post_transform` is CUBE; expected NONE")
        self.fails(self.node("LinearClassifier", ["x"], ["y"], coefficients=[1.0] * 8, intercepts=[0.0] * 2, classlabels_strings=["a", "b"]), x, {}, "labels that are strings")


@unittest.skipUnless(onnx_test.has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class Features(Models):
    SETS = {"": 21, "ai.onnx.ml": 4}

    def test_numbers(self):
        nan = float("nan")
        nodes = [self.node("Scaler", ["x"], ["s1"], scale=[2.0, 0.5, 3.0], offset=[1.0, -1.0, 0.25]), self.node("Scaler", ["x"], ["s2"], scale=[2.0], offset=[0.5]),
                 self.node("Scaler", ["i"], ["s3"], scale=[0.1], offset=[0.5]), self.node("Imputer", ["x"], ["p1"], imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=nan),
                 self.node("Imputer", ["x"], ["p2"], imputed_value_floats=[5.0], replaced_value_float=0.0), self.node("Imputer", ["i"], ["p3"], imputed_value_int64s=[7, 8, 9], replaced_value_int64=2),
                 self.node("Binarizer", ["x"], ["b1"], threshold=0.25), self.node("FeatureVectorizer", ["x", "x"], ["f1"], inputdimensions=[3, 3])]
        nodes += [self.node("Normalizer", [name], [f"n{kind}{name}"], norm=kind) for kind in ("MAX", "L1", "L2") for name in ("x", "i")]
        x = self.floats(6, 3)
        x[2], x[3, 1], x[4, 0] = 0, nan, 0
        clean = self.np.where(self.np.isnan(x), -2, x)
        integers = self.random.integers(-3, 4, (6, 3)).astype("int64")
        integers[2] = 0
        # ONNX Runtime refuses NaN in two of them.
        is_clean = lambda node: node.op_type in ("Normalizer", "Binarizer")
        self.check_all([node for node in nodes if not is_clean(node)], [{"x": x, "i": integers}, {"x": x[:1], "i": integers[:1]}])
        self.check_all([node for node in nodes if is_clean(node)], [{"x": clean, "i": integers}])

    def test_categories(self):
        np = self.np
        tensor = lambda values, dtype: self.onnx.numpy_helper.from_array(np.array(values, dtype))
        nodes = [self.node("LabelEncoder", ["i"], ["a"], keys_int64s=[5, 3, -2, 3], values_floats=[0.5, 1.5, 2.5, 9.0], default_float=-7.0),
                 self.node("LabelEncoder", ["i"], ["b"], keys_int64s=[1], values_int64s=[100]),
                 self.node("LabelEncoder", ["x"], ["c"], keys_floats=[0.5, float("nan"), -1.0], values_int64s=[1, 2, 3], default_int64=42),
                 self.node("LabelEncoder", ["i"], ["d"], keys_tensor=tensor([4, 2], "int64"), values_tensor=tensor([7, -9], "int64"), default_tensor=tensor([3], "int64")),
                 self.node("OneHotEncoder", ["i"], ["e"], cats_int64s=[3, 5, -2]), self.node("OneHotEncoder", ["x"], ["f"], cats_int64s=[0, -1])]
        x = np.array([[0.5, np.nan, -1.0, 0.25], [-1.5, 3, 0, 0.5]], "float32")
        i = np.array([[5, 3, -2, 0], [1, 2, 4, 3]], "int64")
        self.check_all(nodes[:4] + nodes[4:5], [{"x": x, "i": i}])
        self.check_all(nodes[5:], [{"x": np.nan_to_num(x)}])

    def test_zip_map_is_its_scores(self):
        model = self.save([self.node("ZipMap", ["x"], ["y"], classlabels_int64s=[1, 2, 3])], {"x": ("float32", ["n", 3])}, ["y"], {})
        import in_process  # pylint: disable=import-outside-toplevel
        import relayvm  # pylint: disable=import-outside-toplevel
        executable, x = os.path.join(self.place, "model.rvm"), self.floats(2, 3)
        relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable)
        self.np.testing.assert_array_equal(in_process.load(executable)["main"](x), x)

    def test_an_unlisted_category(self):
        """`zeros` of 0 makes a category that is not listed an error of the run."""
        import in_process  # pylint: disable=import-outside-toplevel
        import relayvm  # pylint: disable=import-outside-toplevel
        model = self.save([self.node("OneHotEncoder", ["x"], ["y"], cats_int64s=[3, 5], zeros=0)], {"x": ("int64", ["n"])}, ["y"], {})
        executable = os.path.join(self.place, "model.rvm")
        for level in LEVELS:
            relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, *level)
            run = in_process.load(executable)["main"]
            self.np.testing.assert_array_equal(run(self.np.array([5, 3])), [[0, 1], [1, 0]])
            with self.assertRaisesRegex(Exception, "cats_int64s"):
                run(self.np.array([5, 4]))

    def test_refusals(self):
        x = {"x": ("int64", ["n", 3])}
        self.fails(self.node("LabelEncoder", ["x"], ["y"], keys_int64s=[1, 2], values_strings=["a", "b"]), x, {}, "strings, which Relay has not; number the categories")
        self.fails(self.node("LabelEncoder", ["x"], ["y"], keys_int64s=[1, 2], values_int64s=[1]), x, {}, "it has 2 keys and 1 values")
        self.fails(self.node("CategoryMapper", ["x"], ["y"], cats_int64s=[1], cats_strings=["a"]), x, {}, "strings, which Relay has not")
        self.fails(self.node("Scaler", ["x"], ["y"], scale=[1.0, 2.0], offset=[0.0, 0.0]), x, {}, "`scale` has 2 elements; expected 1, or one for each of 3 features")


class Forest:
    """Attributes of random trees. Numbers of few values let features equal thresholds."""

    def __init__(self, random, features, modes=MODES[:1], missing=0.0):
        self.random, self.features, self.modes, self.missing = random, features, modes, missing
        self.nodes, self.weights = [], []

    def tree(self, depth, targets, branch=0.8, chain=False, scale=1.0):
        """Adds a tree of at most `depth` steps. `targets(tree)` are those of a leaf."""
        tree, count, random = len({node["treeids"] for node in self.nodes}), [0], self.random
        stack = [(0, depth)]
        while stack:
            number, left = stack.pop()
            node = {"treeids": tree, "nodeids": number, "featureids": int(random.integers(self.features)), "values": float(random.integers(-4, 5) / 2),
                    "modes": "LEAF", "truenodeids": 0, "falsenodeids": 0, "missing_value_tracks_true": int(random.random() < self.missing)}
            if left > 0 and (number == 0 or chain or random.random() < branch):
                node.update(modes=str(random.choice(self.modes)), truenodeids=count[0] + 1, falsenodeids=count[0] + 2)
                stack += [(count[0] + 1, left - 1), (count[0] + 2, 0 if chain else left - 1)]
                count[0] += 2
            else:
                self.weights += [(tree, number, target, scale * float(random.standard_normal())) for target in targets(tree)]
            self.nodes.append(node)
        return self

    def attributes(self, prefix):
        nodes = sorted(self.nodes, key=lambda node: (node["treeids"], node["nodeids"]))
        names = [name for name in nodes[0] if name != "missing_value_tracks_true" or self.missing]
        result = {f"nodes_{name}": [node[name] for node in nodes] for name in names}
        trees, numbers, ids, values = zip(*self.weights)
        return {**result, f"{prefix}_treeids": trees, f"{prefix}_nodeids": numbers, f"{prefix}_ids": ids, f"{prefix}_weights": values}


@unittest.skipUnless(onnx_test.has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class Ensembles(Models):
    def forest(self, count, depth, targets, **options):
        trees = {key: options.pop(key) for key in ("branch", "chain", "scale") if key in options}
        forest = Forest(self.random, 4, **options)
        for _ in range(count):
            forest.tree(depth, targets, **trees)
        return forest

    def test_comparisons(self):
        """Each comparison alone and all of them, with and without NaN's own way, for floats and doubles."""
        nodes = []
        for number, modes in enumerate([*((mode,) for mode in MODES), MODES]):
            for missing in (0.0, 0.5):
                forest = self.forest(5, 4, lambda tree: [0], modes=modes, missing=missing)
                nodes.append(self.node("TreeEnsembleRegressor", ["x"], [f"y{number}{int(missing > 0)}"], n_targets=1, **forest.attributes("target")))
        self.check_all(nodes, self.inputs(1, 60))
        forest = self.forest(5, 4, lambda tree: [0], modes=MODES, missing=0.5).attributes("target")
        tensor = lambda name: self.onnx.numpy_helper.from_array(self.np.array(forest.pop(name), "float64"))
        doubles = {f"{name}_as_tensor": tensor(name) for name in ("nodes_values", "target_weights")}
        self.check_all([self.node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **forest, **doubles)], self.inputs(1, 60, dtype="float64"))

    def test_aggregates(self):
        """Sums, averages, least and greatest weights of one target, of several, of trees with one target each; base values."""
        nodes = []
        for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
            for name, targets, of_leaf in (("one", 1, lambda tree: [0]), ("all", 3, lambda tree: [0, 1, 2]), ("each", 3, lambda tree: [tree % 3])):
                forest = self.forest(7, 3, of_leaf).attributes("target")
                for base in ([], [0.5, -1.0, 2.0][:targets]):
                    nodes.append(self.node("TreeEnsembleRegressor", ["x"], [f"{aggregate}{name}{len(base)}"], n_targets=targets, aggregate_function=aggregate, base_values=base, **forest))
        self.check_all(nodes, self.inputs(1, 33))

    def test_transforms(self):
        nodes = []
        for transform in TRANSFORMS:
            scale = 0.02 if transform == "PROBIT" else 1
            base = [0.5, 0.4, 0.6] if transform == "PROBIT" else []
            for targets in (1, 2, 3):
                forest = self.forest(4, 3, lambda tree, targets=targets: range(targets), scale=scale).attributes("target")
                nodes.append(self.node("TreeEnsembleRegressor", ["x"], [f"{transform}{targets}"], n_targets=targets, post_transform=transform, base_values=base[:targets], **forest))
        # PROBIT is steep, and so imprecise, about a half.
        self.check_all(nodes, self.inputs(1, 20), near=2e-4)

    def test_unknown_numbers_of_features(self):
        """Rows may be longer than what the trees read; shorter ones are an error of the run."""
        import relayvm  # pylint: disable=import-outside-toplevel
        node = self.node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **self.forest(5, 4, lambda tree: [0], modes=MODES, missing=0.5).attributes("target"))
        model = self.check_all([node], self.inputs(3, 7, features=6), extents={"x": ["n", "m"]})
        done = relayvm.run(relayvm.COMPILER, "run", model, "[[1, 2]]")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("features of the rows, and those of the trees", done.stderr)

    def test_deep_trees(self):
        """A loop walks trees of more than 128 steps; shorter ones are steps in a row."""
        nodes = [self.node("TreeEnsembleRegressor", ["x"], [f"y{depth}"], n_targets=1, **self.forest(3, depth, lambda tree: [0], chain=True, modes=("BRANCH_NEQ",)).attributes("target"))
                 for depth in (1, 15, 16, 17, 40, 128, 150, 200)]
        self.check_all(nodes, self.inputs(1, 5, nan=0.6))

    def test_classes(self):
        """Labels and scores of several classes; leaves with weights of all classes, of one a tree, and of a few."""
        nodes = []
        for number, transform in enumerate(TRANSFORMS[:4]):
            for name, of_leaf in (("all", lambda tree: range(4)), ("each", lambda tree: [tree % 4]), ("few", lambda tree: [int(self.random.integers(4))])):
                forest = self.forest(8, 3, of_leaf).attributes("class")
                for base in ([], [0.1, 0.2, -0.3, 0.4]):
                    if name != "few" or base or transform == "NONE":
                        nodes.append(self.node("TreeEnsembleClassifier", ["x"], [f"l{name}{number}{len(base)}", f"s{name}{number}{len(base)}"], classlabels_int64s=[5, -1, 7, 3],
                                               post_transform=transform, base_values=base, **forest))
        self.check_all(nodes, self.inputs(1, 40))

    def test_two_classes(self):
        """Margins and probabilities of one class, scores of both, as scikit-learn, XGBoost and LightGBM are exported."""
        nodes = []
        for number, transform in enumerate(TRANSFORMS[:4]):
            for name, of_leaf in (("first", [0]), ("second", [1]), ("both", [0, 1])):
                for sign in ("mixed", "positive"):
                    forest = self.forest(4, 3, lambda tree, of_leaf=of_leaf: of_leaf).attributes("class")
                    if sign == "positive":
                        forest["class_weights"] = [abs(weight) / 8 for weight in forest["class_weights"]]
                    for base in ([], [0.3]) if name == "first" else ([],):
                        nodes.append(self.node("TreeEnsembleClassifier", ["x"], [f"l{name}{sign}{number}{len(base)}", f"s{name}{sign}{number}{len(base)}"], classlabels_int64s=[5, -1],
                                               post_transform=transform, base_values=base, **forest))
        # Labels of scores of both classes: ONNX Runtime gives 0 and 1 there, whatever the labels are.
        own = {2 * i for i, node in enumerate(nodes) if node.output[0].startswith("lboth")}
        self.check_all(nodes, self.inputs(1, 40), valid=lambda i, feed, array: array[:0] if i in own else array)

    def test_labels_are_those_of_the_greatest_scores(self):
        import in_process  # pylint: disable=import-outside-toplevel
        import relayvm  # pylint: disable=import-outside-toplevel
        nodes = [self.node("TreeEnsembleClassifier", ["x"], [f"l{len(base)}", f"s{len(base)}"], classlabels_int64s=[5, -1], base_values=base,
                           **self.forest(4, 3, lambda tree: [0, 1]).attributes("class")) for base in ([], [0.5, -0.5])]
        feed = self.inputs(40)[0]
        model = self.save(nodes, {"x": ("float32", ["n", 4])}, ["l0", "s0", "l2", "s2"], {})
        executable = os.path.join(self.place, "model.rvm")
        for level in LEVELS:
            relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, *level)
            results = in_process.load(executable)["main"](feed["x"])
            for labels, scores in (results[:2], results[2:]):
                self.np.testing.assert_array_equal(labels, self.np.where(self.np.asarray(scores)[:, 1] > self.np.asarray(scores)[:, 0], -1, 5))
                self.assertEqual(set(self.np.asarray(labels).tolist()), {5, -1})

    def test_refusals(self):
        x = {"x": ("float32", ["n", 4])}
        forest = self.forest(2, 3, lambda tree: [0], branch=1.0).attributes("target")
        circle = {**forest, "nodes_truenodeids": [0 if i == 1 and mode != "LEAF" else child for i, (child, mode) in enumerate(zip(forest["nodes_truenodeids"], forest["nodes_modes"]))]}
        self.fails(self.node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **circle), x, {}, "the nodes of a tree form a circle")
        lost = {**forest, "nodes_falsenodeids": [99] * len(forest["nodes_modes"])}
        self.fails(self.node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **lost), x, {}, "a child of node 0 is -1, which is no node")
        self.fails(self.node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **forest), {"x": ("float32", ["n", 1])}, {}, "its input has 1")
        self.fails(self.node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **{**forest, "target_ids": [3] * len(forest["target_ids"])}), x, {}, "not below 1")
        self.fails(self.node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **{**forest, "nodes_modes": ["BRANCH_XOR"] * len(forest["nodes_modes"])}), x, {}, "the mode BRANCH_XOR")
        self.fails(self.node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **{**forest, "nodes_values": [0.0]}), x, {}, "have different lengths, or are missing")


@unittest.skipUnless(onnx_test.has_runtime(), "the Python packages onnx and onnxruntime are not installed")
class EnsemblesOfSets(Models):
    """TreeEnsemble of version 5, with membership in sets."""
    SETS = {"": 21, "ai.onnx.ml": 5}

    def ensemble(self, count, targets, dtype, modes=range(7), missing=0.5):
        """Attributes of `count` trees of three levels, whose leaves follow each other."""
        np, random = self.np, self.random
        nodes, roots, leaves, members = [], [], [], []
        for _ in range(count):
            roots.append(len(nodes))
            first = len(nodes)
            for at in range(7):
                mode = int(random.choice(list(modes)))
                if mode == 6:
                    # ONNX Runtime has sets of positive integers alone.
                    members += [*random.integers(1, 5, int(random.integers(1, 6))).astype(float).tolist(), float("nan")]
                is_leaf = at >= 3
                children = (first + 2 * at + 1, first + 2 * at + 2) if not is_leaf else (len(leaves), len(leaves) + 1)
                if is_leaf:
                    leaves += [(int(random.integers(targets)), float(random.standard_normal())) for _ in range(2)]
                nodes.append((int(random.integers(4)), float(random.integers(-4, 5) / 2), mode, *children, int(is_leaf), int(random.random() < missing)))
        tensor = lambda values, kind: self.onnx.numpy_helper.from_array(np.array(values, kind))
        feature, split, mode, yes, no, is_leaf, tracks = zip(*nodes)
        sets = {"membership_values": tensor(members, dtype)} if members else {}
        return {"tree_roots": roots, "nodes_featureids": feature, "nodes_splits": tensor(split, dtype), "nodes_modes": tensor(mode, "uint8"), "nodes_truenodeids": yes, "nodes_falsenodeids": no,
                "nodes_trueleafs": is_leaf, "nodes_falseleafs": is_leaf, "nodes_missing_value_tracks_true": tracks, "n_targets": targets,
                "leaf_targetids": [leaf[0] for leaf in leaves], "leaf_weights": tensor([leaf[1] for leaf in leaves], dtype), **sets}

    def test_sets(self):
        for dtype in ("float32", "float64"):
            nodes, reference = [], []
            for aggregate in range(4):
                for targets, transform in ((1, 0), (3, 0), (3, 1), (2, 2)):
                    given = {"aggregate_function": aggregate, **self.ensemble(6, targets, dtype)}
                    nodes.append(self.node("TreeEnsemble", ["x"], [f"y{len(nodes)}"], post_transform=transform, **given))
                    # ONNX numbers SOFTMAX 1 and LOGISTIC 2; ONNX Runtime the other way round.
                    reference.append(self.node("TreeEnsemble", ["x"], nodes[-1].output, post_transform=(0, 2, 1)[transform], **given))
            self.check_all(nodes, self.inputs(1, 50, dtype=dtype, nan=0.1), reference=reference)
