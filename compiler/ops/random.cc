// Random numbers as functions of a key.
//
// The generator is Threefry-4x64 with 20 rounds: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011. It maps a key and a counter of 256 bits each
// to 256 random bits, so every element is computed on its own.
//
// A key is uint64[10]: words 0-3 are Threefry's key, words 4-6 its counter; the others are carried along. Block j
// of a draw has the counter (w4 + j, w5, w6, 0), and the key returned has w4 moved on. Splitting takes the blocks
// (w4, w5, w6, 1) and (w4, w5, w6, 2), which no draw uses, as keys whose counters are 0.
#include "absl/strings/str_cat.h"
#include "compiler/ops/compute_helpers.h"
#include "compiler/ops/families.h"
#include "compiler/ops/relations.h"

namespace rvm::ops {
namespace {

using diagnostics::DiagnosticKind;
using te::BinaryOp;
using te::Expr;
using te::Tensor;
using te::UnaryOp;
using Types = std::vector<const ir::TensorType*>;

constexpr int64_t kKeyWords = 10;
constexpr int64_t kCounterWord = 4;

constexpr Input kKeyInputs[] = {{"key", "uint64[10]: four words of seed, then zeros"}};
constexpr Input kUniformInputs[] = {{"key", "uint64[10]"}, {"low", "a scalar"}, {"high", "a scalar"}};
constexpr Input kNormalInputs[] = {
    {"key", "uint64[10]"}, {"mean", "a scalar"}, {"scale", "standard deviation, a scalar"}};
constexpr Input kMultinomialInputs[] = {{"key", "uint64[10]"}, {"probs", "weights of the classes (..., classes)"}};
constexpr AttrSpec kShapeAttrs[] = {{"out_shape", AttrType::kInts, "", "the shape of the numbers"}};
constexpr AttrSpec kShapeDTypeAttrs[] = {
    {"out_shape", AttrType::kInts, "", "the shape of the numbers"},
    {"out_dtype", AttrType::kDType, "\"\"", "their dtype, floating point (that of argument 2)"}};
constexpr AttrSpec kSamplesAttrs[] = {{"num_samples", AttrType::kInt, "1", "how many samples of each distribution"}};

// ---- Threefry ------------------------------------------------------------------------

Expr Word(uint64_t value) { return te::IntConst(kUInt64, static_cast<int64_t>(value)); }
Expr Xor(Expr a, Expr b) { return te::Binary(BinaryOp::kXor, std::move(a), std::move(b)); }
Expr RotateLeft(const Expr& x, unsigned bits) {
  return te::Binary(BinaryOp::kOr, te::Binary(BinaryOp::kShiftLeft, x, Word(bits)),
                    te::Binary(BinaryOp::kShiftRight, x, Word(64 - bits)));
}

using Words = std::vector<Tensor>;  // four vectors, an element per block

Tensor OverBlocks(const Dims& blocks, const std::function<Expr(std::span<const Expr>)>& body) {
  return te::ComputeTensor("threefry", kUInt64, blocks, body);
}

// The blocks of the counters (first(i), w5, w6, last(i)).
Words Threefry(const Tensor& key, const Dims& blocks, const std::function<Expr(const Expr& i)>& first,
               const std::function<Expr(const Expr& i)>& last) {
  constexpr int kRounds = 20;
  constexpr unsigned kRotations[8][2] = {{14, 16}, {52, 57}, {23, 40}, {5, 37}, {25, 33}, {46, 12}, {58, 22}, {32, 32}};
  auto word = [&](int64_t k) { return key({te::Index(k)}); };
  Tensor parity = te::ComputeTensor("parity", kUInt64, {}, [&](std::span<const Expr>) {
    return Xor(Xor(Xor(word(0), word(1)), Xor(word(2), word(3))), Word(0x1BD11BDAA9FC1A22));
  });
  auto schedule = [&](int k) { return k % 5 == 4 ? parity({}) : word(k % 5); };
  Words x;
  for (int k = 0; k < 4; ++k) {
    x.push_back(OverBlocks(blocks, [&](std::span<const Expr> i) {
      Expr counter = k == 0 ? first(i[0]) : k == 3 ? last(i[0]) : word(kCounterWord + k);
      return counter + schedule(k);
    }));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t half = 0; half < 2; ++half) {
      size_t a = 2 * half, b = (round % 2 == 0) == (half == 0) ? 1 : 3;
      unsigned bits = kRotations[round % 8][half];
      Tensor left = x[a], right = x[b];
      Tensor sum = OverBlocks(blocks, [&](std::span<const Expr> i) { return left(i) + right(i); });
      x[a] = sum;
      x[b] = OverBlocks(blocks, [&](std::span<const Expr> i) { return Xor(RotateLeft(right(i), bits), sum(i)); });
    }
    if (round % 4 != 3) continue;
    int injection = round / 4 + 1;
    for (int k = 0; k < 4; ++k) {
      Tensor mixed = x[static_cast<size_t>(k)];
      x[static_cast<size_t>(k)] = OverBlocks(blocks, [&](std::span<const Expr> i) {
        Expr sum = mixed(i) + schedule(injection + k);
        return k == 3 ? sum + Word(static_cast<uint64_t>(injection)) : sum;
      });
    }
  }
  return x;
}

// Word `k` of the block `block`, k known only at run time.
Expr PickWord(const Words& words, const Expr& block, const Expr& k) {
  Expr value = words[3]({block});
  for (size_t w = 3; w-- > 0;)
    value = te::Select(Equal(k, te::Index(static_cast<int64_t>(w))), words[w]({block}), value);
  return value;
}

// `count` random words, a vector.
Tensor Draw(const Tensor& key, const Dim& count) {
  Words words = Threefry(
      key, {FloorDiv(count + 3, 4)},
      [&](const Expr& i) { return key({te::Index(kCounterWord)}) + te::Cast(kUInt64, i); },
      [](const Expr&) { return Word(0); });
  return te::ComputeTensor("bits", kUInt64, {count}, [&](std::span<const Expr> i) {
    return PickWord(words, te::Binary(BinaryOp::kFloorDivide, i[0], te::Index(4)),
                    te::Binary(BinaryOp::kFloorMod, i[0], te::Index(4)));
  });
}

// `key` moved on by what Draw(key, count) took.
Tensor After(const Tensor& key, const Dim& count) {
  return te::ComputeTensor("key", kUInt64, {kKeyWords}, [&](std::span<const Expr> i) {
    Expr blocks = te::Cast(kUInt64, te::DimValue(FloorDiv(count + 3, 4)));
    return te::Select(Equal(i[0], te::Index(kCounterWord)), key(i) + blocks, key(i));
  });
}

// ---- distributions ---------------------------------------------------------------------

// Uniform in [0, 1), a multiple of 2^-p where p is the dtype's precision.
Expr UnitInterval(const Expr& bits, DataType dtype) {
  DataType wide = Accumulator(dtype);
  int precision = dtype == kFloat64 ? 53 : dtype == kFloat32 ? 24 : dtype == kFloat16 ? 11 : 8;
  Expr integer = te::Binary(BinaryOp::kShiftRight, bits, Word(static_cast<uint64_t>(64 - precision)));
  // Signed integers convert to floats in one instruction.
  return te::Cast(wide, te::Cast(kInt64, integer)) *
         te::FloatConst(wide, 1.0 / static_cast<double>(int64_t{1} << precision));
}

Expr ScalarOf(const Tensor& tensor, DataType wide) { return te::Cast(wide, tensor({})); }

std::vector<Tensor> ComputeGenerate(const ComputeContext& context) {
  const Tensor& key = context.input(0);
  const te::TensorSpec& out = context.output(1);
  Dim count = Volume(out.dims);
  Tensor bits = Draw(key, count);
  return {After(key, count), te::ComputeTensor("random", kUInt64, out.dims, [&](std::span<const Expr> i) {
            return bits({FlatIndex(i, out.dims)});
          })};
}

std::vector<Tensor> ComputeSplit(const ComputeContext& context) {
  const Tensor& key = context.input(0);
  Words words = Threefry(
      key, {2}, [&](const Expr&) { return key({te::Index(kCounterWord)}); },
      [](const Expr& i) { return te::Cast(kUInt64, i + te::Index(1)); });
  std::vector<Tensor> halves;
  for (int64_t half = 0; half < 2; ++half) {
    halves.push_back(te::ComputeTensor("key", kUInt64, {kKeyWords}, [&](std::span<const Expr> i) {
      Expr carried = te::Select(Less(i[0], te::Index(kCounterWord + 4)), Word(0), key(i));
      return te::Select(Less(i[0], te::Index(4)), PickWord(words, te::Index(half), i[0]), carried);
    }));
  }
  return halves;
}

std::vector<Tensor> ComputeUniform(const ComputeContext& context) {
  const Tensor& key = context.input(0);
  const te::TensorSpec& out = context.output(1);
  DataType wide = Accumulator(out.dtype);
  Dim count = Volume(out.dims);
  Tensor bits = Draw(key, count);
  Tensor uniform = te::ComputeTensor("uniform", wide, out.dims, [&](std::span<const Expr> i) {
    Expr low = ScalarOf(context.input(1), wide), high = ScalarOf(context.input(2), wide);
    return low + (high - low) * UnitInterval(bits({FlatIndex(i, out.dims)}), out.dtype);
  });
  return {After(key, count), CastTensor(uniform, out.dtype)};
}

// Box and Muller 1958: two words for each number. float64 throughout for float64, else float32.
std::vector<Tensor> ComputeNormal(const ComputeContext& context) {
  const Tensor& key = context.input(0);
  const te::TensorSpec& out = context.output(1);
  DataType wide = Accumulator(out.dtype);
  Dim count = Volume(out.dims) * 2;
  Tensor bits = Draw(key, count);
  Tensor normal = te::ComputeTensor("normal", wide, out.dims, [&](std::span<const Expr> i) {
    Expr flat = FlatIndex(i, out.dims) * te::Index(2);
    // In (0, 1], so that the logarithm is finite.
    Expr u = te::Const(wide, 1) - UnitInterval(bits({flat}), wide);
    Expr angle = te::FloatConst(wide, 6.283185307179586) * UnitInterval(bits({flat + te::Index(1)}), wide);
    Expr radius = te::Unary(UnaryOp::kSqrt, te::Const(wide, -2) * te::Unary(UnaryOp::kLog, u));
    Expr mean = ScalarOf(context.input(1), wide), scale = ScalarOf(context.input(2), wide);
    return mean + scale * radius * te::Unary(UnaryOp::kCos, angle);
  });
  return {After(key, count), CastTensor(normal, out.dtype)};
}

// The class below which the running sum of weights exceeds a uniform part of their total.
std::vector<Tensor> ComputeMultinomial(const ComputeContext& context) {
  const Tensor &key = context.input(0), &probs = context.input(1);
  const te::TensorSpec& out = context.output(1);
  size_t last = probs.rank() - 1;
  const Dim& classes = probs.dims()[last];
  DataType wide = Accumulator(probs.dtype());
  Dim count = Volume(out.dims);
  Tensor bits = Draw(key, count);
  Tensor running = ReduceOver(te::ReduceOp::kSum, wide, probs.dims(), {classes},
                              [&](std::span<const Expr> o, std::span<const Expr> r) {
                                Expr counts = te::Binary(BinaryOp::kLessEqual, r[0], o[last]);
                                Expr weight = te::Cast(wide, probs(With(o, last, r[0])));
                                return te::Select(counts, weight, te::Const(wide, 0));
                              });
  Tensor target = te::ComputeTensor("target", wide, out.dims, [&](std::span<const Expr> i) {
    Expr total = running(With(i, last, te::DimValue(classes) - te::Index(1)));
    return UnlessEmpty(classes, total * UnitInterval(bits({FlatIndex(i, out.dims)}), wide));
  });
  Tensor below = ReduceOver(te::ReduceOp::kSum, kInt64, out.dims, {classes},
                            [&](std::span<const Expr> o, std::span<const Expr> r) {
                              Expr sum = running(With(o, last, r[0]));
                              return te::Cast(kInt64, te::Binary(BinaryOp::kLessEqual, sum, target(o)));
                            });
  return {After(key, count), te::ComputeTensor("multinomial", kInt64, out.dims,
                                               [&](std::span<const Expr> i) { return Clamp(below(i), classes); })};
}

// ---- types -----------------------------------------------------------------------------

bool IsKey(TypeContext& context, const ir::TensorType& key) {
  if (key.shape.dims.size() != 1) {
    FailRank(context, 0, key.shape.dims.size(), "rank 1");
  } else if (key.dtype.dtype != kUInt64) {
    FailDType(context, 0, key.dtype.dtype, "`uint64`");
  } else {
    return context.RequireEqual(key.shape.dims[0], kKeyWords, "words of the key");
  }
  return false;
}

// A tuple of a key and numbers, or of two keys.
Solve WithKey(TypeContext& context, const ir::Type* second) {
  const ir::Type* key = ir::MakeTensorType(context.arena(), {kKeyWords}, kUInt64);
  return context.Result(
      context.arena().New<ir::TupleType>(std::vector<const ir::Type*>{key, second != nullptr ? second : key}));
}

std::optional<Dims> OutShape(TypeContext& context) {
  Dims dims;
  for (int64_t extent : context.attrs().GetInts("out_shape")) {
    if (extent < 0) {
      context.Fail(DiagnosticKind::kNegativeExtent,
                   absl::StrCat("`out_shape` has ", extent, "; expected extents >= 0"));
      return std::nullopt;
    }
    dims.push_back(extent);
  }
  return dims;
}

Solve GenerateRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<Dims> dims = OutShape(context);
  if (!dims || !IsKey(context, *args[0])) return Solve::kFailed;
  return WithKey(context, ir::MakeTensorType(context.arena(), *dims, kUInt64));
}

Solve SplitRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  return IsKey(context, *args[0]) ? WithKey(context, nullptr) : Solve::kFailed;
}

Solve DistributionRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (int i = 1; i < 3; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (!arg.shape.dims.empty()) return FailRank(context, i, arg.shape.dims.size(), "a scalar");
    if (!arg.dtype.dtype.is_float()) return FailDType(context, i, arg.dtype.dtype, "a floating-point dtype");
  }
  std::optional<Dims> dims = OutShape(context);
  if (!dims || !IsKey(context, *args[0])) return Solve::kFailed;
  DataType dtype = DTypeAttr(context.attrs(), "out_dtype", args[1]->dtype.dtype);
  if (!dtype.is_float()) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`out_dtype` is \"", dtype.ToString(), "\"; expected a floating-point dtype"));
  }
  return WithKey(context, ir::MakeTensorType(context.arena(), *dims, dtype));
}

Solve MultinomialRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims dims = args[1]->shape.dims;
  if (dims.empty()) return FailRank(context, 1, 0, "1 or more");
  if (!args[1]->dtype.dtype.is_float()) return FailDType(context, 1, args[1]->dtype.dtype, "a floating-point dtype");
  int64_t samples = context.attrs().GetInt("num_samples");
  if (samples < 0) {
    return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`num_samples` is ", samples, "; expected >= 0"));
  }
  if (!IsKey(context, *args[0])) return Solve::kFailed;
  dims.back() = samples;
  return WithKey(context, ir::MakeTensorType(context.arena(), dims, kInt64));
}

constexpr OpDef kOps[] = {
    Op("random.threefry_generate", "a tuple of the next key and random words", kKeyInputs, kShapeAttrs,
       GenerateRelation, FusionClass::kOpaque, ComputeGenerate),
    Op("random.threefry_split", "a tuple of two keys whose numbers are independent", kKeyInputs, {}, SplitRelation,
       FusionClass::kOpaque, ComputeSplit),
    Op("random.uniform", "a tuple of the next key and numbers uniform in [low, high)", kUniformInputs, kShapeDTypeAttrs,
       DistributionRelation, FusionClass::kOpaque, ComputeUniform),
    Op("random.normal", "a tuple of the next key and normally distributed numbers", kNormalInputs, kShapeDTypeAttrs,
       DistributionRelation, FusionClass::kOpaque, ComputeNormal),
    Op("random.multinomial", "a tuple of the next key and samples of classes, int64", kMultinomialInputs, kSamplesAttrs,
       MultinomialRelation, FusionClass::kOpaque, ComputeMultinomial),
};

}  // namespace

std::span<const OpDef> RandomOps() { return kOps; }

}  // namespace rvm::ops
