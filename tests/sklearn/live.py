"""Estimators of scikit-learn, XGBoost, LightGBM and CatBoost, converted to ONNX, beside ONNX Runtime and the estimator itself:

    python tests/sklearn/live.py [NAME_PART...]

Needs scikit-learn, skl2onnx, onnxmltools, onnxruntime, and xgboost, lightgbm and catboost for theirs; it is no part of the tree's own
environment. An estimator is one that `all_estimators` lists and skl2onnx converts. Labels must be those of ONNX Runtime, and
scores within 1e-5, or at most twice as far from those of the estimator in float64. Prints what differs and what is not
converted, and counts. The exit status is 1 if any differs.
"""

import collections
import os
import sys
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("RELAYVM_LIBRARY", f"{ROOT}/bazel-bin/capi/librelayvm.so.1")
os.environ.setdefault("RELAYVM_COMPILER_LIBRARY", f"{ROOT}/bazel-bin/capi/compiler/librelayvm_compiler.so.1")
sys.path[:0] = [f"{ROOT}/python/runtime", f"{ROOT}/python/compiler"]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import relayvm  # noqa: E402
import skl2onnx  # noqa: E402
from skl2onnx.common.data_types import FloatTensorType  # noqa: E402
from sklearn import linear_model, naive_bayes, preprocessing, svm  # noqa: E402
from sklearn.utils import all_estimators  # noqa: E402

KINDS = ("classifier", "regressor", "transformer", "cluster")
# Estimators whose constructors have required arguments, or whose defaults take no such data.
GIVEN = {
    "CalibratedClassifierCV": {"estimator": naive_bayes.GaussianNB()},
    "ClassifierChain": {"estimator": linear_model.LogisticRegression()},
    "GridSearchCV": {"estimator": linear_model.LogisticRegression(), "param_grid": {"C": [0.1, 1.0]}},
    "MultiOutputClassifier": {"estimator": linear_model.LogisticRegression()},
    "MultiOutputRegressor": {"estimator": linear_model.Ridge()},
    "OneVsOneClassifier": {"estimator": linear_model.LogisticRegression()},
    "OneVsRestClassifier": {"estimator": linear_model.LogisticRegression()},
    "StackingClassifier": {"estimators": [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())]},
    "StackingRegressor": {"estimators": [("a", linear_model.Ridge()), ("b", linear_model.Lasso())]},
    "VotingClassifier": {"estimators": [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())], "voting": "soft"},
    "VotingRegressor": {"estimators": [("a", linear_model.Ridge()), ("b", linear_model.Lasso())]},
    "ColumnTransformer": {"transformers": [("a", preprocessing.StandardScaler(), [0, 1, 2]), ("b", preprocessing.MinMaxScaler(), [3, 4, 5])]},
    "FixedThresholdClassifier": {"estimator": linear_model.LogisticRegression()},
    "FeatureUnion": {"transformer_list": [("a", preprocessing.StandardScaler()), ("b", preprocessing.MinMaxScaler())]},
    "RadiusNeighborsClassifier": {"radius": 50.0},
    "RadiusNeighborsRegressor": {"radius": 50.0},
    "NuSVC": {"probability": True},
    "SVC": {"probability": True},
    "RANSACRegressor": {"estimator": linear_model.Ridge(), "random_state": 0},
    "SelectFromModel": {"estimator": svm.LinearSVC()},
    "RFE": {"estimator": linear_model.Ridge()},
    "RFECV": {"estimator": linear_model.Ridge()},
}
COUNTS = {"CategoricalNB", "ComplementNB", "MultinomialNB", "OrdinalEncoder", "OneHotEncoder", "TfidfTransformer", "GammaRegressor", "PoissonRegressor",
          "LatentDirichletAllocation", "NMF", "MiniBatchNMF", "AdditiveChi2Sampler", "SelectKBest", "SelectFdr", "SelectFpr", "SelectFwe", "SelectPercentile"}
ROWS, FEATURES = 180, 6


def data(name, kind):
    """Features of training and of the comparison, and targets."""
    random = np.random.default_rng(7)
    if name in COUNTS:
        x = random.integers(0, 4, (ROWS, FEATURES)).astype("float32")
        x[:4] = np.arange(4)[:, None]
    else:
        x = random.normal(size=(ROWS, FEATURES)).astype("float32")
    score = x @ random.normal(size=FEATURES) + 0.3 * random.normal(size=ROWS)
    if kind == "classifier" or name.startswith("Select") or name in ("NeighborhoodComponentsAnalysis", "LinearDiscriminantAnalysis"):
        targets = np.digitize(score, np.quantile(score, [0.33, 0.66])).astype("int64")
    elif name in ("GammaRegressor", "PoissonRegressor"):
        targets = np.exp(score / 4)
    else:
        targets = score
    if name in ("MultiTaskElasticNet", "MultiTaskElasticNetCV", "MultiTaskLasso", "MultiTaskLassoCV", "MultiOutputRegressor", "RegressorChain", "CCA", "PLSCanonical"):
        targets = np.stack([targets, x[:, 0] - targets], axis=1)
    if name in ("FixedThresholdClassifier", "GaussianProcessClassifier"):
        targets = np.minimum(targets, 1)
    if name in ("MultiOutputClassifier", "ClassifierChain"):
        targets = np.stack([targets, (x[:, 0] > 0).astype("int64")], axis=1)
    if name == "SimpleImputer":
        x[random.random(x.shape) < 0.1] = np.nan
    if name == "IsotonicRegression":
        x = x[:, :1]
    return x, targets, x[::3].copy()


def expected(estimator, kind, x):
    """What the estimator computes in float64, as a list of arrays, or None if it has another form."""
    x = x.astype("float64")
    if kind == "classifier":
        scores = next((getattr(estimator, way) for way in ("predict_proba", "decision_function") if hasattr(estimator, way)), None)
        return [estimator.predict(x), None if scores is None else scores(x)]
    if kind == "transformer":
        result = estimator.transform(x)
        return [result.toarray() if hasattr(result, "toarray") else result]
    if kind == "cluster":
        return [estimator.predict(x), estimator.transform(x) if hasattr(estimator, "transform") else None]
    return [estimator.predict(x)]


def flat(values):
    """The arrays of outputs, of which some are sequences."""
    arrays = []
    for value in values:
        if isinstance(value, (list, tuple)) or not hasattr(value, "dtype") and hasattr(value, "__iter__"):
            arrays += flat(value)
        else:
            arrays.append(np.asarray(value))
    return arrays


def difference(got, want, exact):
    """Says how an output differs from that of ONNX Runtime; "" if it does not. `exact` is what the estimator says, or None."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} for {want.dtype}{want.shape}"
    if want.dtype.kind not in "f":
        return "" if np.array_equal(got, want) else f"{np.sum(got != want)} of {want.size} labels differ"
    a, b = got.astype("float64"), want.astype("float64")
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN in other places"
    error = float(np.nanmax(np.abs(a - b) / (1 + np.abs(b)), initial=0))
    if error <= 1e-5:
        return ""
    if exact is not None and np.size(exact) == want.size:
        exact = np.asarray(exact, "float64").reshape(want.shape)
        ours, theirs = (float(np.nanmax(np.abs(one - exact) / (1 + np.abs(exact)), initial=0)) for one in (a, b))
        if ours <= 2 * theirs:
            return ""
        return f"error {error:.2g}; from float64 {ours:.2g}, ONNX Runtime {theirs:.2g}"
    return f"error {error:.2g}"


class Comparison:
    def __init__(self):
        self.counts = collections.Counter()

    def note(self, name, state, why=""):
        self.counts[state] += 1
        if state != "equal":
            print(f"{state}\t{name}\t{why[:500]}", flush=True)

    def compare(self, name, model, feeds, exact):
        """Compares the outputs of a model, `ZipMap` aside, on some rows and on one."""
        content = without_zip_map(model).SerializeToString()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(content, options)
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.note(name, "not run by ONNX Runtime", str(error)[:120])
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                executable = relayvm.compile(relayvm.import_onnx(content))
        except relayvm.Error as error:
            self.note(name, "refused", str(error).replace("\n", "; "))
            return
        why = []
        for rows in (len(feeds), 1):
            x = feeds[:rows]
            want = flat(session.run(None, {session.get_inputs()[0].name: x}))
            got = executable(x)
            got = flat(got if isinstance(got, tuple) else (got,))
            truths = [None if isinstance(one, list) or one is None else np.asarray(one)[:rows] for one in exact or []]
            truths += [None] * (len(want) - len(truths))
            why += [f"{len(got)} outputs; expected {len(want)}"] * (len(got) != len(want))
            why += [f"output {k} of {rows} rows: {line}" for k, line in enumerate(map(difference, got, want, truths)) if line]
        self.note(name, "different" if why else "equal", "; ".join(why))


def estimators(comparison, parts):
    for kind in KINDS:
        for name, cls in all_estimators(kind):
            if parts and not any(part in name for part in parts):
                continue
            x, targets, feeds = data(name, kind)
            label = f"{kind} {name}"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    estimator = cls(**GIVEN.get(name, {})).fit(x, targets)
                    model = skl2onnx.convert_sklearn(estimator, initial_types=[("x", FloatTensorType([None, x.shape[1]]))],
                                                     target_opset={"": 18, "ai.onnx.ml": 3})
            except Exception as error:  # pylint: disable=broad-exception-caught
                comparison.note(label, "not converted", f"{type(error).__name__}: {error}".split("\n")[0][:120])
                continue
            try:
                exact = expected(estimator, kind, feeds)
            except Exception:  # pylint: disable=broad-exception-caught
                exact = None
            comparison.compare(label, model, feeds, exact)


def boosted(comparison, parts):
    """Models of the libraries of boosted trees, with 3 and with 2 classes."""
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType as Floats
    for name in ("XGBClassifier", "XGBRegressor", "LGBMClassifier", "LGBMRegressor", "CatBoostClassifier", "CatBoostRegressor"):
        for classes in (2, 3) if name.endswith("Classifier") else (0,):
            label = f"{name} of {classes} classes" if classes else name
            if parts and not any(part in label for part in parts):
                continue
            x, targets, feeds = data(name, "classifier" if classes else "regressor")
            targets = np.minimum(targets, 1) if classes == 2 else targets
            try:
                model = boosted_model(onnxmltools, Floats, name, x, targets)
            except Exception as error:  # pylint: disable=broad-exception-caught
                comparison.note(label, "not converted", f"{type(error).__name__}: {error}".split("\n")[0][:120])
                continue
            comparison.compare(label, model, feeds, None)


def boosted_model(onnxmltools, floats, name, x, targets):
    types = [("x", floats([None, x.shape[1]]))]
    if name.startswith("XGB"):
        import xgboost
        return onnxmltools.convert_xgboost(getattr(xgboost, name)(n_estimators=20).fit(x, targets), initial_types=types, target_opset=15)
    if name.startswith("LGBM"):
        import lightgbm
        fitted = getattr(lightgbm, name)(n_estimators=20, verbose=-1).fit(x, targets)
        return onnxmltools.convert_lightgbm(fitted, initial_types=types, target_opset=15)
    import catboost
    fitted = getattr(catboost, name)(iterations=20, verbose=False, allow_writing_files=False).fit(x, targets)
    path = f"/tmp/{name}-{os.getpid()}.onnx"
    try:
        fitted.save_model(path, format="onnx")
        return onnx.load(path)
    finally:
        if os.path.exists(path):
            os.remove(path)


def without_zip_map(model):
    """The model whose scores are a tensor: the input of `ZipMap` is its output."""
    graph = model.graph
    for node in [node for node in graph.node if node.op_type == "ZipMap"]:
        output = next(value for value in graph.output if value.name == node.output[0])
        scores = onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, [None, None])
        output.CopyFrom(scores)
        graph.node.remove(node)
    return model


def main():
    parts = sys.argv[1:]
    comparison = Comparison()
    estimators(comparison, parts)
    boosted(comparison, parts)
    print(dict(comparison.counts))
    return 1 if comparison.counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
