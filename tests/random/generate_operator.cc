// Operator calls that give a tensor of a wanted type.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/element.h"
#include "tests/random/generator.h"

namespace rvm::random_programs {
namespace {

std::string Suffix(DataType dtype) { return std::string(dtype == kInt32 ? "" : FindDataType(dtype)->suffix); }

std::string ListText(const std::vector<int64_t>& items) { return absl::StrCat("[", absl::StrJoin(items, ", "), "]"); }

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

}  // namespace

std::string Generator::Number(DataType dtype) {
  if (dtype.is_bool()) return dice_.Chance(50) ? "True" : "False";
  if (dtype.is_float()) {
    if (!smooth_ && dice_.Chance(2)) {
      bool has_infinity = std::isinf(Literal::Scalar(dtype, std::numeric_limits<double>::infinity()).DoubleAt(0));
      return absl::StrCat(has_infinity && dice_.Chance(50) ? "inf" : "nan", Suffix(dtype));
    }
    return absl::StrCat((dice_.Pick(17) - 8) / 4.0, Suffix(dtype));
  }
  if (dice_.Chance(4)) {
    int bits = dtype.is_uint() ? dtype.bits : dtype.bits - 1;
    uint64_t most = ~uint64_t{0} >> (64 - bits);
    return absl::StrCat(dtype.is_int() && dice_.Chance(50) ? "-" : "", most, Suffix(dtype));
  }
  return absl::StrCat(dice_.Pick(9) - (dtype.is_uint() ? 0 : 4), Suffix(dtype));
}

// REQUIRES: static.
std::string Generator::TensorConstant(const TypeRef& type) {
  if (IsScalar(type)) return Number(type->dtype);
  std::vector<int64_t> shape = StaticShape(type);
  if (dice_.Chance(20)) {
    const char* op = dice_.Chance(50) ? "zeros" : "ones";
    return absl::StrCat(op, "(shape=", ListText(shape), ", dtype=\"", type->dtype.ToString(), "\")");
  }
  std::string shape_text = absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
  std::vector<std::string> numbers;
  for (int64_t i = Product(shape); i > 0; --i) numbers.push_back(Number(type->dtype));
  return absl::StrCat("Constant([", absl::StrJoin(numbers, ", "), "], ", shape_text, ", ", type->dtype.ToString(), ")");
}

TypeRef Generator::WithDims(const TypeRef& type, const std::vector<int64_t>& shape) const {
  std::vector<std::string> dims;
  for (int64_t extent : shape) dims.push_back(absl::StrCat(extent));
  return Tensor(type->dtype, std::move(dims));
}

DataType Generator::NumericDType() {
  for (int tries = 0; tries < 8; ++tries) {
    DataType dtype = dice_.Of(dtypes_);
    if (!dtype.is_bool() && !(smooth_ && dtype.is_float())) return dtype;
  }
  return kInt32;
}

std::string Generator::Operator(const TypeRef& type, int depth) {
  if (!for_device()) return PlainOperator(type, depth);
  bool is_product = flavor_ == Flavor::kProducts && type->dtype == kInt32 && IsStaticTensor(type) && dice_.Chance(15);
  return Marked(is_product ? ByteProduct(type) : PlainOperator(type, depth));
}

std::string Generator::PlainOperator(const TypeRef& type, int depth) {
  if (dice_.Chance(5)) return CallGeneric(type, depth);
  if (!IsStaticTensor(type)) return dice_.Chance(60) ? Elementwise(type, depth) : OpenOperator(type, depth);
  bool may_be_layer = smooth_ && type->dtype.is_float() && type->dims.size() >= 2 && type->dims.size() <= 3;
  if (may_be_layer && dice_.Chance(35)) return Layers(type, depth);
  int choice = dice_.Pick(100);
  if (IsScalar(type)) {
    if (choice < 72) return Elementwise(type, depth);
    if (choice < 84) return Cast(type, depth);
    if (choice < 92) return Select(type, depth);
    return Reduction(type, depth);
  }
  if (choice < 35) return Elementwise(type, depth);
  if (choice < 42) return Cast(type, depth);
  if (choice < 50) return Select(type, depth);
  if (choice < 62) return Reduction(type, depth);
  if (choice < 76) return Movement(type, depth);
  if (choice < 88) return Transform(type, depth);
  return Join(type, depth);
}

std::string Generator::Elementwise(const TypeRef& type, int depth) {
  if (type->dtype.is_bool()) return BoolOperator(type, depth);
  if (!type->dtype.is_float()) return IntOperator(type, depth);
  return smooth_ ? SmoothFloatOperator(type, depth) : ExactFloatOperator(type, depth);
}

std::string Generator::Operand(const TypeRef& type, int depth) {
  if (IsScalar(type) || dice_.Chance(65)) return Expr(type, depth - 1);
  if (!IsStaticTensor(type)) return Expr(Scalar(type->dtype), depth - 1);
  std::vector<int64_t> shape = StaticShape(type);
  for (int64_t& extent : shape) {
    if (dice_.Chance(40)) extent = 1;
  }
  shape.erase(shape.begin(), shape.begin() + dice_.Pick(static_cast<int>(shape.size()) + 1));
  return Expr(WithDims(type, shape), depth - 1);
}

std::string Generator::BoolOperator(const TypeRef& type, int depth) {
  int choice = dice_.Pick(10);
  if (choice < 5 && IsStaticTensor(type)) {
    TypeRef operand = Tensor(NumericDType(), type->dims);
    static const std::vector<std::string> kCompare = {"==", "!=", "<", "<=", ">", ">="};
    return absl::StrCat("(", Expr(operand, depth - 1), " ", dice_.Of(kCompare), " ", Operand(operand, depth), ")");
  }
  if (choice == 5) return absl::StrCat("logical_not(", Expr(type, depth - 1), ")");
  if (choice == 6 && !smooth_ && IsStaticTensor(type)) {
    static const std::vector<std::string> kPredicates = {"isnan", "isinf", "isfinite"};
    return absl::StrCat(dice_.Of(kPredicates), "(", Expr(Tensor(kFloat32, type->dims), depth - 1), ")");
  }
  static const std::vector<std::string> kLogic = {"logical_and", "logical_or",  "logical_xor", "equal",
                                                  "not_equal",   "bitwise_and", "bitwise_or",  "bitwise_xor"};
  return absl::StrCat(dice_.Of(kLogic), "(", Expr(type, depth - 1), ", ", Operand(type, depth), ")");
}

std::string Generator::IntOperator(const TypeRef& type, int depth) {
  static const std::vector<std::string> kInfix = {"+", "-", "*", "/"};
  static const std::vector<std::string> kBinary = {
      "minimum", "maximum",     "floor_divide", "floor_mod",   "trunc_divide", "trunc_mod",   "mod",
      "power",   "bitwise_and", "bitwise_or",   "bitwise_xor", "left_shift",   "right_shift", "subtract"};
  static const std::vector<std::string> kUnary = {"negative", "abs",     "sign",       "bitwise_not",
                                                  "copy",     "nn.relu", "zeros_like", "ones_like"};
  int choice = dice_.Pick(10);
  if (choice < 5)
    return absl::StrCat("(", Expr(type, depth - 1), " ", dice_.Of(kInfix), " ", Operand(type, depth), ")");
  if (choice < 8) {
    return absl::StrCat(dice_.Of(kBinary), "(", Expr(type, depth - 1), ", ", Operand(type, depth), ")");
  }
  if (choice == 8 && type->dtype.is_int()) {
    return absl::StrCat("clip(", Expr(type, depth - 1), ", a_min=-2f, a_max=3f)");
  }
  return absl::StrCat(dice_.Of(kUnary), "(", Expr(type, depth - 1), ")");
}

std::string Generator::ExactFloatOperator(const TypeRef& type, int depth) {
  static const std::vector<std::string> kInfix = {"+", "-", "/"};
  static const std::vector<std::string> kUnary = {"negative", "abs",  "floor",   "ceil", "round",
                                                  "trunc",    "sign", "nn.relu", "sqrt", "copy"};
  int choice = dice_.Pick(10);
  if (choice < 4) {
    return absl::StrCat("(", Expr(type, depth - 1), " ", dice_.Of(kInfix), " ", Operand(type, depth), ")");
  }
  if (choice < 6) {
    // Kernels round a product that is added to something once, with the sum: tensors are only doubled
    // and halved, which needs no rounding.
    std::string factor =
        IsScalar(type) ? Operand(type, depth) : absl::StrCat(dice_.Chance(50) ? "2" : "-0.5", Suffix(type->dtype));
    return absl::StrCat("(", Expr(type, depth - 1), " * ", factor, ")");
  }
  if (choice == 6) return absl::StrCat("clip(", Expr(type, depth - 1), ", a_min=-2f, a_max=3f)");
  if (choice == 7) {
    const char* op = dice_.Chance(50) ? "minimum" : "maximum";
    return absl::StrCat(op, "(", Expr(type, depth - 1), ", ", Operand(type, depth), ")");
  }
  return absl::StrCat(dice_.Of(kUnary), "(", Expr(type, depth - 1), ")");
}

// Keeps values small and errors from growing.
std::string Generator::SmoothFloatOperator(const TypeRef& type, int depth) {
  static const std::vector<std::string> kUnary = {"tanh",     "sigmoid", "erf", "sin",     "cos",
                                                  "negative", "atan",    "abs", "nn.relu", "nn.leaky_relu"};
  // The last three have kinks.
  int without_kinks = static_cast<int>(kUnary.size()) - 3;
  auto unary = [&] {
    return differentiable_ ? kUnary[static_cast<size_t>(dice_.Pick(without_kinks))] : dice_.Of(kUnary);
  };
  static const std::vector<std::string> kBinary = {"minimum", "maximum"};
  std::string half = absl::StrCat("0.5", Suffix(type->dtype));
  int choice = dice_.Pick(10);
  if (choice < 2) return absl::StrCat("((", Expr(type, depth - 1), " + ", Operand(type, depth), ") * ", half, ")");
  if (choice == 2) return absl::StrCat("((", Expr(type, depth - 1), " - ", Operand(type, depth), ") * ", half, ")");
  if (choice == 3) return absl::StrCat("tanh((", Expr(type, depth - 1), " * ", Operand(type, depth), "))");
  if (differentiable_ && choice == 4) return absl::StrCat("exp(sin(", Expr(type, depth - 1), "))");
  if (choice == 4) return absl::StrCat("exp(negative(abs(", Expr(type, depth - 1), ")))");
  if (choice == 5 && !differentiable_) {
    return absl::StrCat(dice_.Of(kBinary), "(", Expr(type, depth - 1), ", ", Operand(type, depth), ")");
  }
  if (choice == 6 && !type->dims.empty()) {
    const char* op = dice_.Chance(70) ? "nn.softmax" : "nn.log_softmax";
    return absl::StrCat(op, "(", Expr(type, depth - 1), ", axis=", dice_.Pick(static_cast<int>(type->dims.size())),
                        ")");
  }
  return absl::StrCat(unary(), "(", Expr(type, depth - 1), ")");
}

std::string Generator::Cast(const TypeRef& type, int depth) {
  DataType from = dice_.Of(dtypes_);
  if (smooth_) {
    // Nothing may depend on the last bits of a float, and large integers would make large floats.
    if (type->dtype.is_float() && !from.is_float()) from = kBool;
    if (!type->dtype.is_float() && from.is_float()) from = kInt32;
  }
  std::string value = Expr(Tensor(from, type->dims), depth - 1);
  return absl::StrCat("cast(", value, ", dtype=\"", type->dtype.ToString(), "\")");
}

std::string Generator::Select(const TypeRef& type, int depth) {
  TypeRef condition = Tensor(kBool, dice_.Chance(50) ? std::vector<std::string>{} : type->dims);
  return absl::StrCat("where(", Expr(condition, depth - 1), ", ", Expr(type, depth - 1), ", ", Expr(type, depth - 1),
                      ")");
}

// Sums and extremes along one more axis; matmuls.
std::string Generator::Reduction(const TypeRef& type, int depth) {
  std::vector<int64_t> shape = StaticShape(type);
  bool is_float = type->dtype.is_float();
  if (type->dtype == kInt32 && dice_.Chance(30) && shape.size() < 3) {
    std::vector<int64_t> wide = shape;
    int axis = dice_.Pick(static_cast<int>(shape.size()) + 1);
    wide.insert(wide.begin() + axis, 2);
    TypeRef source = WithDims(Scalar(NumericDType()), wide);
    return absl::StrCat(dice_.Chance(50) ? "argmax(" : "argmin(", Expr(source, depth - 1), ", axis=", axis, ")");
  }
  if (shape.size() == 2 && dice_.Chance(30) && !type->dtype.is_bool() && (smooth_ || !is_float)) {
    int64_t inner = 1 + dice_.Pick(3);
    std::string dense = absl::StrCat("nn.dense(", Expr(WithDims(type, {shape[0], inner}), depth - 1), ", ",
                                     Expr(WithDims(type, {shape[1], inner}), depth - 1), ")");
    return is_float ? absl::StrCat("tanh(", dense, ")") : dense;
  }
  std::vector<std::string> ops;
  if (!differentiable_ || !is_float) ops = {"max", "min"};
  if (type->dtype.is_bool()) ops = {"all", "any"};
  if (smooth_ && is_float) ops.push_back("mean");
  if (!is_float && !type->dtype.is_bool()) ops.insert(ops.end(), {"sum", "sum", "prod"});
  if (shape.empty()) {
    TypeRef source = WithDims(type, {1 + dice_.Pick(3), 1 + dice_.Pick(2)});
    return absl::StrCat(dice_.Of(ops), "(", Expr(source, depth - 1), ")");
  }
  int axis = dice_.Pick(static_cast<int>(shape.size()));
  std::vector<int64_t> wide = shape;
  bool keep = shape[static_cast<size_t>(axis)] == 1 && dice_.Chance(60);
  if (keep) {
    wide[static_cast<size_t>(axis)] = 1 + dice_.Pick(3);
  } else {
    wide.insert(wide.begin() + axis, 1 + dice_.Pick(3));
  }
  return absl::StrCat(dice_.Of(ops), "(", Expr(WithDims(type, wide), depth - 1), ", axis=[", axis, "]",
                      keep ? ", keepdims=True)" : ")");
}

// Each element is one of the source's.
std::string Generator::Movement(const TypeRef& type, int depth) {
  std::vector<int64_t> shape = StaticShape(type);
  int rank = static_cast<int>(shape.size());
  int axis = dice_.Pick(rank);
  size_t at = static_cast<size_t>(axis);
  std::vector<int64_t> from = shape;
  switch (dice_.Pick(9)) {
    case 0: {
      from = {Product(shape)};
      if (dice_.Chance(40)) from.push_back(1);
      if (dice_.Chance(30)) from.insert(from.begin(), 1);
      return absl::StrCat("reshape(", Expr(WithDims(type, from), depth - 1), ", newshape=", ListText(shape), ")");
    }
    case 1: {
      std::vector<int64_t> axes;
      for (int i = 0; i < rank; ++i) axes.push_back(i);
      dice_.Shuffle(axes);
      for (int i = 0; i < rank; ++i)
        from[static_cast<size_t>(axes[static_cast<size_t>(i)])] = shape[static_cast<size_t>(i)];
      return absl::StrCat("transpose(", Expr(WithDims(type, from), depth - 1), ", axes=", ListText(axes), ")");
    }
    case 2: return absl::StrCat("reverse(", Expr(type, depth - 1), ", axis=", axis, ")");
    case 3: {
      int64_t begin = dice_.Pick(2), stride = 1 + dice_.Pick(2);
      from[at] = begin + (shape[at] - 1) * stride + 1 + dice_.Pick(2);
      int64_t end = begin + (shape[at] - 1) * stride + 1;
      return absl::StrCat("strided_slice(", Expr(WithDims(type, from), depth - 1), ", begin=[", begin, "], end=[", end,
                          "], strides=[", stride, "], axes=[", axis, "])");
    }
    case 4: {
      from[at] = 1 + dice_.Pick(3);
      std::string data = Expr(WithDims(type, from), depth - 1);
      return absl::StrCat("take(", data, ", ", Expr(WithDims(Scalar(kInt32), {shape[at]}), depth - 1), ", axis=", axis,
                          dice_.Chance(50) ? ", mode=\"wrap\")" : ")");
    }
    case 5: {
      if (shape[at] != 1) return absl::StrCat("copy(", Expr(type, depth - 1), ")");
      from.erase(from.begin() + axis);
      return absl::StrCat("expand_dims(", Expr(WithDims(type, from), depth - 1), ", axis=", axis, ")");
    }
    case 6: {
      if (rank == 3) return Elementwise(type, depth);
      from.insert(from.begin() + axis, 1);
      return absl::StrCat("squeeze(", Expr(WithDims(type, from), depth - 1), ", axis=[", axis, "])");
    }
    case 7: {
      from[at] = 1;
      return absl::StrCat("broadcast_to(", Expr(WithDims(type, from), depth - 1), ", shape=", ListText(shape), ")");
    }
    default: {
      if (shape[at] % 2 != 0 && rank < 2) return Elementwise(type, depth);
      if (shape[at] % 2 != 0) return absl::StrCat("trilu(", Expr(type, depth - 1), ", 0, upper=True)");
      from[at] /= 2;
      return absl::StrCat("repeat(", Expr(WithDims(type, from), depth - 1), ", repeats=2, axis=", axis, ")");
    }
  }
}

std::string Generator::Join(const TypeRef& type, int depth) {
  std::vector<int64_t> shape = StaticShape(type);
  int axis = dice_.Pick(static_cast<int>(shape.size()));
  size_t at = static_cast<size_t>(axis);
  std::vector<int64_t> from = shape;
  switch (dice_.Pick(4)) {
    case 0: {
      if (shape[at] < 2) return Elementwise(type, depth);
      from[at] = 1;
      std::vector<int64_t> rest = shape;
      rest[at] -= 1;
      return absl::StrCat("concatenate((", Expr(WithDims(type, from), depth - 1), ", ",
                          Expr(WithDims(type, rest), depth - 1), "), axis=", axis, ")");
    }
    case 1: {
      from.erase(from.begin() + axis);
      std::string parts;
      for (int64_t i = 0; i < shape[at]; ++i) absl::StrAppend(&parts, Expr(WithDims(type, from), depth - 2), ", ");
      return absl::StrCat("stack((", parts, "), axis=", axis, ")");
    }
    case 2: {
      from[at] *= 2;
      return absl::StrCat("split(", Expr(WithDims(type, from), depth - 1), ", indices_or_sections=2, axis=", axis, ").",
                          dice_.Pick(2));
    }
    default: {
      if (type->dtype.is_bool() || type->dtype.is_float()) return Select(type, depth);
      const char* op = dice_.Chance(50) ? "cumsum" : "sort";
      return absl::StrCat(op, "(", Expr(type, depth - 1), ", axis=", axis, ")");
    }
  }
}

// Tensors with extents that only the run knows.
std::string Generator::OpenOperator(const TypeRef& type, int depth) {
  int rank = static_cast<int>(type->dims.size());
  int axis = dice_.Pick(rank);
  size_t at = static_cast<size_t>(axis);
  switch (dice_.Pick(5)) {
    case 0: return absl::StrCat("reverse(", Expr(type, depth - 1), ", axis=", axis, ")");
    case 1: {
      if (type->dims[at] != "?") return Elementwise(type, depth);
      return absl::StrCat("concatenate((", Expr(type, depth - 1), ", ", Expr(type, depth - 1), "), axis=", axis, ")");
    }
    case 2: {
      // (The gradient of `take` asks for a known extent.)
      bool is_refused = differentiable_ && type->dtype.is_float();
      if (type->dims[at] != "?" || is_refused) return Elementwise(type, depth);
      std::string data = Expr(type, depth - 1);
      return absl::StrCat("take(", data, ", ", Expr(Tensor(kInt32, {"?"}), depth - 1), ", axis=", axis, ")");
    }
    case 3:
      return absl::StrCat("where(", Expr(Scalar(kBool), depth - 1), ", ", Expr(type, depth - 1), ", ",
                          Expr(type, depth - 1), ")");
    default: {
      std::vector<std::string> dims(type->dims.rbegin(), type->dims.rend());
      TypeRef from = Tensor(type->dtype, dims);
      if (!VariablesOf(from).empty() || dims == type->dims)
        return absl::StrCat("transpose(", Expr(from, depth - 1), ")");
      return Elementwise(type, depth);
    }
  }
}

}  // namespace rvm::random_programs
