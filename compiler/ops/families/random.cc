// Random numbers as functions of a key.
//
// The generator is Threefry-4x64 with 20 rounds: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011. It maps a key and a counter of 256 bits each
// to 256 random bits, so every element is computed independently.
//
// A key is uint64[10]: words 0-3 are Threefry's key, 4-5 the path of the splits that led to it, 6-7 the counter, 8-9
// the bit of the path that the next split decides (K. Claessen, M. H. Palka, "Splittable pseudorandom number generators
// using cryptographic hashing", Haskell 2013). Keys, words and uniform numbers are those of the predecessor, bit for
// bit: its Threefry leaves out the last key injection and adds the second word of a pair twice before the exclusive or,
// and block j of a draw adds j to each of the words 4-7.
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/element.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr int64_t kKeyWords = 10;
constexpr int64_t kPathWord = 4;
constexpr int64_t kCounterWord = 7;
constexpr int64_t kBitWord = 8;

constexpr Input kKeyInputs[] = {{"key", "uint64[10]: the seed, then seven zeros, 1 << 63, 0"}};
constexpr Input kUniformInputs[] = {{"key", "uint64[10]"}, {"low", "a scalar"}, {"high", "a scalar"}};
constexpr Input kNormalInputs[] = {
    {"key", "uint64[10]"}, {"mean", "a scalar"}, {"scale", "standard deviation, a scalar"}};
constexpr Input kOutShape = {
    .name = "out_shape", .doc = "an integer vector, the shape of the numbers", .decides_shape = true};
constexpr Input kDynamicUniformInputs[] = {kUniformInputs[0], kUniformInputs[1], kUniformInputs[2], kOutShape};
constexpr Input kDynamicNormalInputs[] = {kNormalInputs[0], kNormalInputs[1], kNormalInputs[2], kOutShape};
constexpr Input kMultinomialInputs[] = {{"key", "uint64[10]"}, {"probs", "weights of the classes (..., classes)"}};
constexpr AttrSpec kShapeAttrs[] = {{"out_shape", AttrType::kInts, "", "the shape of the numbers"}};
constexpr AttrSpec kShapeDTypeAttrs[] = {
    {"out_shape", AttrType::kInts, "", "the shape of the numbers"},
    {"out_dtype", AttrType::kDType, "\"\"", "their dtype, floating point (that of argument 2)"}};
constexpr AttrSpec kDynamicAttrs[] = {
    {"out_shape", AttrType::kAny, "None", "unused, for compatibility", true},
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

// The random words of `blocks`, where counter(k, i) is word k of the counter of block i.
Words Threefry(const Tensor& key, const Dims& blocks, const std::function<Expr(int k, const Expr& i)>& counter) {
  constexpr int kRounds = 20;
  constexpr unsigned kRotations[8][2] = {{14, 16}, {52, 57}, {23, 40}, {5, 37}, {25, 33}, {46, 12}, {58, 22}, {32, 32}};
  auto word = [&](int64_t k) { return key({te::Index(k)}); };
  Tensor parity = te::ComputeTensor("parity", kUInt64, {}, [&](std::span<const Expr>) {
    return Xor(Xor(Xor(word(0), word(1)), Xor(word(2), word(3))), Word(0x1BD11BDAA9FC1A22));
  });
  auto schedule = [&](int k) { return k % 5 == 4 ? parity({}) : word(k % 5); };
  Words x;
  for (int k = 0; k < 4; ++k) {
    x.push_back(OverBlocks(blocks, [&](std::span<const Expr> i) { return counter(k, i[0]) + schedule(k); }));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t half = 0; half < 2; ++half) {
      size_t a = 2 * half, b = (round % 2 == 0) == (half == 0) ? 1 : 3;
      unsigned bits = kRotations[round % 8][half];
      Tensor left = x[a], right = x[b];
      Tensor sum = OverBlocks(blocks, [&](std::span<const Expr> i) { return left(i) + right(i); });
      x[a] = sum;
      x[b] = OverBlocks(blocks,
                        [&](std::span<const Expr> i) { return Xor(RotateLeft(right(i), bits), sum(i) + right(i)); });
    }
    if (round % 4 != 3 || round == kRounds - 1) continue;
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

// Word `k` of block `block`, where `k` is a run-time value.
Expr PickWord(const Words& words, const Expr& block, const Expr& k) {
  Expr value = words[3]({block});
  for (size_t w = 3; w-- > 0;)
    value = te::Select(Equal(k, te::Index(static_cast<int64_t>(w))), words[w]({block}), value);
  return value;
}

// Word `word` of the key whose path is that of `key` extended by one step, to the right or to the left, and whose
// counter is `counter`.
Expr Extended(const Tensor& key, const Expr& word, bool to_right, const Expr& counter) {
  auto is = [&](int64_t k) { return Equal(word, te::Index(k)); };
  auto at = [&](int64_t k) { return key({te::Index(k)}); };
  Expr result = key({word}), one = Word(1);
  if (to_right) {
    for (int64_t k : {0, 1}) {
      result = te::Select(is(kPathWord + k), te::Binary(BinaryOp::kOr, at(kPathWord + k), at(kBitWord + k)), result);
    }
  }
  if (counter) {
    result = te::Select(is(kCounterWord - 1), Word(0), te::Select(is(kCounterWord), counter, result));
  }
  // The bit is shifted right across both words.
  Expr high = te::Binary(BinaryOp::kShiftRight, at(kBitWord), one);
  Expr low = te::Binary(BinaryOp::kShiftRight, at(kBitWord + 1), one);
  low = te::Select(Equal(at(kBitWord), one), Word(uint64_t{1} << 63), low);
  return te::Select(is(kBitWord), high, te::Select(is(kBitWord + 1), low, result));
}

// Returns the key from which `count` words are drawn: `key`, or one with another path if the counter would overflow.
Tensor WithRoom(const Tensor& key, const Dim& count) {
  return te::ComputeTensor("key", kUInt64, {kKeyWords}, [&](std::span<const Expr> i) {
    Expr most = Word(~uint64_t{0}) - te::Cast(kUInt64, te::DimValue(count));
    return te::Select(Less(key({te::Index(kCounterWord)}), most), key(i), Extended(key, i[0], true, Word(0)));
  });
}

// A vector of `count` random words of a key whose counter does not overflow. A last block of fewer than four words has
// a different counter.
Tensor Draw(const Tensor& key, const Dim& count) {
  Dim full = FloorDiv(count, 4);
  Words words = Threefry(key, {FloorDiv(count + 3, 4)}, [&](int k, const Expr& i) {
    Expr word = key({te::Index(kPathWord + k)}), whole = te::Cast(kUInt64, te::DimValue(full));
    Expr rest = kPathWord + k == kCounterWord ? word + whole * Word(4) : word;
    return te::Select(Less(i, te::DimValue(full)), word + te::Cast(kUInt64, i), rest);
  });
  return te::ComputeTensor("bits", kUInt64, {count}, [&](std::span<const Expr> i) {
    return PickWord(words, te::Binary(BinaryOp::kFloorDivide, i[0], te::Index(4)),
                    te::Binary(BinaryOp::kFloorMod, i[0], te::Index(4)));
  });
}

// The key to use after Draw(key, count).
Tensor After(const Tensor& key, const Dim& count) {
  return te::ComputeTensor("key", kUInt64, {kKeyWords}, [&](std::span<const Expr> i) {
    Expr blocks = te::Cast(kUInt64, te::DimValue(FloorDiv(count + 3, 4)));
    Expr word = te::Select(Equal(i[0], te::Index(kCounterWord)), key(i) + blocks * Word(4), key(i));
    return te::Select(Equal(i[0], te::Index(kCounterWord - 1)), Word(0), word);
  });
}

// ---- distributions ---------------------------------------------------------------------

// Uniform in [0, 1), a multiple of 2^-p where p is the number of bits of the dtype's fraction. float64 takes the
// upper bits of a word, the others those of its lower half.
Expr UnitInterval(const Expr& bits, DataType dtype) {
  DataType wide = Accumulator(dtype);
  int precision = FindDataType(dtype)->fraction_bits;
  int below = dtype == kFloat64 ? 64 - precision : 32 - precision;
  Expr word = dtype == kFloat64 ? bits : te::Binary(BinaryOp::kAnd, bits, Word(0xFFFFFFFF));
  Expr integer = te::Binary(BinaryOp::kShiftRight, word, Word(static_cast<uint64_t>(below)));
  // Signed integers convert to floats in one instruction.
  return te::Cast(wide, te::Cast(kInt64, integer)) *
         te::FloatConst(wide, 1.0 / static_cast<double>(int64_t{1} << precision));
}

Expr ScalarOf(const Tensor& tensor, DataType wide) { return te::Cast(wide, tensor({})); }

std::vector<Tensor> ComputeGenerate(const ComputeContext& context) {
  const te::TensorSpec& out = context.output(1);
  Dim count = Volume(out.dims);
  Tensor key = WithRoom(context.input(0), count);
  Tensor bits = Draw(key, count);
  return {After(key, count), te::ComputeTensor("random", kUInt64, out.dims, [&](std::span<const Expr> i) {
            return bits({FlatIndex(i, out.dims)});
          })};
}

// The left key extends the path by a 0, the right key by a 1. A full path is hashed into the key, with the counter.
std::vector<Tensor> ComputeSplit(const ComputeContext& context) {
  const Tensor& key = context.input(0);
  Words hash = Threefry(key, {1}, [&](int k, const Expr&) { return key({te::Index(kPathWord + k)}); });
  auto word = [&](int64_t k) { return key({te::Index(k)}); };
  std::vector<Tensor> halves;
  for (bool to_right : {false, true}) {
    halves.push_back(te::ComputeTensor("key", kUInt64, {kKeyWords}, [&](std::span<const Expr> i) {
      Expr is_full = And(Equal(word(kBitWord), Word(0)), Equal(word(kBitWord + 1), Word(0)));
      Expr fresh = te::Select(Equal(i[0], te::Index(kBitWord)), Word(uint64_t{1} << 62), Word(0));
      if (to_right) fresh = te::Select(Equal(i[0], te::Index(kPathWord)), Word(uint64_t{1} << 63), fresh);
      fresh = te::Select(Less(i[0], te::Index(kPathWord)), PickWord(hash, te::Index(0), i[0]), fresh);
      return te::Select(is_full, fresh, Extended(key, i[0], to_right, Expr()));
    }));
  }
  return halves;
}

std::vector<Tensor> ComputeUniform(const ComputeContext& context) {
  const te::TensorSpec& out = context.output(1);
  DataType wide = Accumulator(out.dtype);
  Dim count = Volume(out.dims);
  Tensor key = WithRoom(context.input(0), count);
  Tensor bits = Draw(key, count);
  Tensor uniform = te::ComputeTensor("uniform", wide, out.dims, [&](std::span<const Expr> i) {
    Expr low = ScalarOf(context.input(1), wide), high = ScalarOf(context.input(2), wide);
    return UnitInterval(bits({FlatIndex(i, out.dims)}), out.dtype) * (high - low) + low;
  });
  return {After(key, count), CastTensor(uniform, out.dtype)};
}

// Box and Muller 1958. Each number uses two words: number i uses word i and word n + i of 2n words.
std::vector<Tensor> ComputeNormal(const ComputeContext& context) {
  const te::TensorSpec& out = context.output(1);
  DataType wide = Accumulator(out.dtype);
  Dim size = Volume(out.dims), count = size * 2;
  Tensor key = WithRoom(context.input(0), count);
  Tensor bits = Draw(key, count);
  Tensor normal = te::ComputeTensor("normal", wide, out.dims, [&](std::span<const Expr> i) {
    Expr flat = FlatIndex(i, out.dims);
    // In (0, 1], so that the logarithm is finite.
    Expr u = te::Const(wide, 1) - UnitInterval(bits({flat}), wide);
    Expr angle = te::FloatConst(wide, 6.283185307179586) * UnitInterval(bits({flat + te::DimValue(size)}), wide);
    Expr radius = te::Unary(UnaryOp::kSqrt, te::Const(wide, -2) * te::Unary(UnaryOp::kLog, u));
    Expr mean = ScalarOf(context.input(1), wide), scale = ScalarOf(context.input(2), wide);
    return radius * te::Unary(UnaryOp::kSin, angle) * scale + mean;
  });
  return {After(key, count), CastTensor(normal, out.dtype)};
}

// The first class at which the cumulative sum of weights, divided by their total, exceeds a uniform random number.
std::vector<Tensor> ComputeMultinomial(const ComputeContext& context) {
  const Tensor& probs = context.input(1);
  const te::TensorSpec& out = context.output(1);
  size_t last = probs.rank() - 1;
  const Dim& classes = probs.dims()[last];
  Dim count = Volume(out.dims);
  Tensor key = WithRoom(context.input(0), count);
  Tensor bits = Draw(key, count);
  Tensor weight = te::ComputeTensor("weight", kFloat32, probs.dims(), [&](std::span<const Expr> i) {
    return te::Binary(BinaryOp::kMaximum, te::Cast(kFloat32, probs(i)), te::Const(kFloat32, 0));
  });
  Tensor total =
      ReduceAxis(te::ReduceOp::kSum, kFloat32, probs.dims(), last, [&](std::span<const Expr> i) { return weight(i); });
  Tensor running =
      Running(probs.dims(), last, te::Const(kFloat32, 0), [&](std::span<const Expr> i, const Expr& before) {
        return before + te::Binary(BinaryOp::kDivide, weight(i), AtZero(total, i, last));
      });
  Tensor below = ReduceOver(te::ReduceOp::kSum, kInt64, out.dims, {classes},
                            [&](std::span<const Expr> o, std::span<const Expr> r) {
                              Expr sum = running(With(o, last, r[0]));
                              Expr target = UnitInterval(bits({FlatIndex(o, out.dims)}), kFloat32);
                              return te::Cast(kInt64, te::Binary(BinaryOp::kLessEqual, sum, target));
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

// The attribute `out_shape`; false if it is no shape.
bool OutShape(TypeContext& context, Dims& dims) {
  for (int64_t extent : context.attrs().GetInts("out_shape")) {
    if (extent < 0) {
      context.Fail(DiagnosticKind::kNegativeExtent,
                   absl::StrCat("`out_shape` has ", extent, "; expected extents >= 0"));
      return false;
    }
    dims.push_back(extent);
  }
  return true;
}

Solve GenerateRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims dims;
  if (!OutShape(context, dims) || !IsKey(context, *args[0])) return Solve::kFailed;
  return WithKey(context, ir::MakeTensorType(context.arena(), dims, kUInt64));
}

Solve SplitRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  return IsKey(context, *args[0]) ? WithKey(context, nullptr) : Solve::kFailed;
}

template <bool is_given>
Solve DistributionRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (int i = 1; i < 3; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (!arg.shape.dims.empty()) return FailRank(context, i, arg.shape.dims.size(), "a scalar");
    if (!arg.dtype.dtype.is_float()) return FailDType(context, i, arg.dtype.dtype, "a floating-point dtype");
  }
  Dims dims;
  bool has_shape = is_given ? ShapeValues(context, 3, dims) : OutShape(context, dims);
  if (!has_shape || !IsKey(context, *args[0])) return Solve::kFailed;
  DataType dtype = DTypeAttr(context.attrs(), "out_dtype", args[1]->dtype.dtype);
  if (!dtype.is_float()) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`out_dtype` is \"", dtype.ToString(), "\"; expected a floating-point dtype"));
  }
  return WithKey(context, ir::MakeTensorType(context.arena(), dims, dtype));
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
    WithGradient(Op("random.uniform", "a tuple of the next key and numbers uniform in [low, high)", kUniformInputs,
                    kShapeDTypeAttrs, DistributionRelation<false>, FusionClass::kOpaque, ComputeUniform),
                 UniformGradient),
    WithGradient(Op("random.normal", "a tuple of the next key and normally distributed numbers", kNormalInputs,
                    kShapeDTypeAttrs, DistributionRelation<false>, FusionClass::kOpaque, ComputeNormal),
                 NormalGradient),
    WithGradient(
        Op("dyn.random.uniform", "a tuple of the next key and numbers uniform in [low, high)", kDynamicUniformInputs,
           kDynamicAttrs, DistributionRelation<true>, FusionClass::kOpaque, ComputeUniform),
        UniformGradient),
    WithGradient(
        Op("dyn.random.normal", "a tuple of the next key and normally distributed numbers", kDynamicNormalInputs,
           kDynamicAttrs, DistributionRelation<true>, FusionClass::kOpaque, ComputeNormal),
        NormalGradient),
    Op("random.multinomial", "a tuple of the next key and samples of classes, int64", kMultinomialInputs, kSamplesAttrs,
       MultinomialRelation, FusionClass::kOpaque, ComputeMultinomial),
};

}  // namespace

std::span<const OpDef> RandomOps() { return kOps; }

}  // namespace rvm::ops
