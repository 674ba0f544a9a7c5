"""Programs of `./run bench control` as ONNX models with the operator Loop. Recursion, lists and trees ONNX does not have."""

import numpy as np
import onnx.parser
import onnxruntime

TENSOR_LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
tensor_loop (int64 n, float[4] a, float[4] b, float limit) => (float result) {
  yes = Constant <value = bool {1}> ()
  zeros = Constant <value = float[4] {0, 0, 0, 0}> ()
  x = Loop <body = step (int64 i, bool more, float[4] old) => (bool again, float[4] new) {
    scaled = Mul (a, old)
    new = Add (scaled, b)
    total = ReduceSum <keepdims = 0> (new)
    again = LessOrEqual (total, limit)
  }> (n, yes, zeros)
  result = ReduceSum <keepdims = 0> (x)
}
"""

VITERBI = """
<ir_version: 8, opset_import: ["" : 17]>
viterbi (int64 n, float[n, 8] scores, float[8, 8] steps) => (int64 result) {
  yes = Constant <value = bool {1}> ()
  zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  rounds = Sub (n, one)
  first = Gather <axis = 0> (scores, zero)
  best, rows = Loop <body = forward (int64 i, bool more, float[8] old) => (bool again, float[8] new, int64[8] row) {
    again = Identity (more)
    ways = Add (steps, old)
    row = ArgMax <axis = 1, keepdims = 0> (ways)
    most = ReduceMax <axes = [1], keepdims = 0> (ways)
    t = Add (i, one)
    score = Gather <axis = 0> (scores, t)
    new = Add (most, score)
  }> (rounds, yes, first)
  last = ArgMax <axis = 0, keepdims = 0> (best)
  factor = Constant <value = int64 {31}> ()
  modulus = Constant <value = int64 {1000003}> ()
  state, result = Loop <body = backward (int64 i, bool more, int64 to, int64 sum) => (bool again, int64 from, int64 next) {
    again = Identity (more)
    behind = Sub (rounds, i)
    at = Sub (behind, one)
    row = Gather <axis = 0> (rows, at)
    from = Gather <axis = 0> (row, to)
    product = Mul (sum, factor)
    added = Add (product, from)
    next = Mod (added, modulus)
  }> (rounds, yes, last, last)
}
"""

DECODER = """
<ir_version: 8, opset_import: ["" : 17]>
decoder (int64 n, float[32, 16] embedding, float[16, 16] recurrent, float[32, 16] output) => (int64 result) {
  yes = Constant <value = bool {1}> ()
  zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  steps = Constant <value = int64 {20}> ()
  firsts = Constant <value = int64 {31}> ()
  factor = Constant <value = int64 {31}> ()
  modulus = Constant <value = int64 {1000003}> ()
  zeros = Constant <value = float[16] {ZEROS}> ()
  result = Loop <body = sequence (int64 i, bool more, int64 sum) => (bool again, int64 sum_of_all) {
    again = Identity (more)
    remainder = Mod (i, firsts)
    first = Add (remainder, one)
    token_end, state_end, sum_of_all = Loop <body = step (int64 k, bool go, int64 token, float[16] state, int64 old)
                                               => (bool go_on, int64 best, float[16] next, int64 new) {
      product = MatMul (recurrent, state)
      row = Gather <axis = 0> (embedding, token)
      added = Add (product, row)
      next = Tanh (added)
      logits = MatMul (output, next)
      best = ArgMax <axis = 0, keepdims = 0> (logits)
      shifted = Mul (old, factor)
      with_best = Add (shifted, best)
      new = Mod (with_best, modulus)
      go_on = Greater (best, zero)
    }> (steps, yes, first, zeros, sum)
  }> (n, yes, zero)
}
""".replace("ZEROS", ", ".join("0" * 16))

MODELS = {"tensor_loop": TENSOR_LOOP, "viterbi": VITERBI, "decoder": DECODER}


def runner(name, n, arrays):
    """A function without arguments that runs the model once."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(MODELS[name]).SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    feed = dict(zip((value.name for value in session.get_inputs()), [np.array(n, np.int64), *arrays]))
    return lambda: session.run(None, feed)[0].item()
