// Operators with indices, masks and shapes taken from other tensors; functions whose type parameters are shapes and
// dtypes.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/random/generator.h"

namespace rvm::random_programs {
namespace {

std::string ListText(const std::vector<int64_t>& items) { return absl::StrCat("[", absl::StrJoin(items, ", "), "]"); }

// Polymorphic functions by number; the operators in them are typed for all shapes and dtypes at once. Those from
// kFirstComparing on compare elements, which only exact ones bear; those from kFirstDerived on have constraints that
// inference finds.
constexpr const char* kGenericBodies[] = {
    "[S: Shape, T: BaseType](%x: Tensor[S, T]) -> Tensor[S, T] { let %y = reshape_like(%x, %x); copy(%y) }",
    "[S: Shape, T: BaseType](%x: Tensor[S, T]) -> Tensor[S, T] { where(zeros_like(%x) == %x, %x, %x) }",
    "[S: Shape, T: BaseType](%n: int32, %x: Tensor[S, T]) -> Tensor[S, T] "
    "{ if (%n <= 0) { %x } else { @NAME(%n - 1, maximum(%x, zeros_like(%x))) } }",
    "[S: Shape, T: BaseType](%f: fn (Tensor[S, T]) -> Tensor[S, T], %x: Tensor[S, T]) -> Tensor[S, T] { %f(%f(%x)) }",
    "[S: Shape, T: BaseType](%x: Tensor[S, T]) -> Tensor[S, T] { where(%x == max(%x), %x, zeros_like(%x)) }",
    "[S: Shape, T: BaseType](%x: Tensor[S, T]) -> Tensor[S, T] "
    "{ let %low = min(%x); let %f = fn [R: Shape](%y: Tensor[R, T]) -> Tensor[R, T] { maximum(%y, %low) }; %f(%x) }",
    "[S: Shape, T: BaseType](%x: Tensor[S, T]) { squeeze(expand_dims(%x, axis=0), axis=[0]) }",
    "[S: Shape, T: BaseType](%x: Tensor[S, T]) { let %two = stack((%x, %x), axis=0); take(%two, 1, axis=0) }",
    "[S: Shape, T: BaseType](%n: int32, %x: Tensor[S, T]) -> Tensor[S, T] "
    "{ let %p = split(stack((%x, %x), axis=-1), indices_or_sections=2, axis=-1); "
    "if (%n <= 0) { squeeze(%p.1, axis=[-1]) } else { @NAME(%n - 1, %x) } }",
};
constexpr int kFirstComparing = 4, kFirstDerived = 6;

}  // namespace

std::string Generator::GenericHelper(int number) {
  auto [it, is_new] = generic_helpers_.try_emplace(number, absl::StrCat("@generic", number));
  if (is_new) {
    std::string text = absl::StrCat("def ", it->second, kGenericBodies[number]);
    if (size_t at = text.find("@NAME"); at != std::string::npos) text.replace(at, 5, it->second);
    definitions_.push_back(std::move(text));
  }
  return it->second;
}

// Returns a call of a function that takes any shape and dtype.
std::string Generator::CallGeneric(const TypeRef& type, int depth) {
  bool is_exact = !smooth_ || !type->dtype.is_float();
  constexpr int kNumComparing = kFirstDerived - kFirstComparing;
  int number = dice_.Pick(static_cast<int>(std::size(kGenericBodies)) - (is_exact ? 0 : kNumComparing));
  if (!is_exact && number >= kFirstComparing) number += kNumComparing;
  if (differentiable_ && type->dtype.is_float() && number == 2) number = 3;  // has a kink
  std::string first = number == 2 || number == 8 ? absl::StrCat(dice_.Pick(3), ", ")
                      : number == 3 ? absl::StrCat(FunctionLiteral(FunctionOf({type}, type), depth - 1), ", ")
                                    : "";
  return absl::StrCat(GenericHelper(number), "(", first, Expr(type, depth - 1), ")");
}

// Returns a tensor of which a part is written, and which may be needed as it was: then it must be copied.
// REQUIRES: static, and no scalar.
std::string Generator::PartialUpdate(const TypeRef& type, int depth) {
  std::vector<int64_t> shape = StaticShape(type), part = shape;
  std::string begin, end, strides;
  auto vector = [&](std::string& text, int64_t number) { absl::StrAppend(&text, text.empty() ? "" : ", ", number); };
  for (int64_t& extent : part) {
    int64_t first = dice_.Pick(static_cast<int>(extent)), step = 1 + dice_.Pick(2);
    int64_t last = first + dice_.Pick(static_cast<int>(extent - first) + 1);
    vector(begin, dice_.Chance(70) ? first : first - extent);
    vector(end, last == extent && dice_.Chance(50) ? 99 : last);
    vector(strides, step);
    // A larger slice writes its last elements repeatedly.
    extent = std::max<int64_t>((last - first + step - 1) / step - dice_.Pick(2), 1);
  }
  auto constant = [&](const std::string& numbers) {
    return absl::StrCat("Constant([", numbers, "], (", shape.size(), "), int32)");
  };
  std::string data = NewName("u"), set = NewName("u");
  std::string written = absl::StrCat("strided_set(", data, ", ", Expr(WithDims(type, part), depth - 1), ", ",
                                     constant(begin), ", ", constant(end), ", ", constant(strides), ")");
  if (dice_.Chance(40)) {
    std::vector<int64_t> rows = shape;
    rows[0] = 1 + dice_.Pick(3);
    // Places below 0 count from the end, and others are left out.
    std::string places = Expr(WithDims(Scalar(kInt32), {1, rows[0]}), depth - 1);
    written = absl::StrCat("scatter_nd(", data, ", clip(", places, ", a_min=-3f, a_max=5f), ",
                           Expr(WithDims(type, rows), depth - 1), ")");
  }
  std::string result = set;
  if (dice_.Chance(50)) {
    const char* pair = type->dtype.is_bool() ? "logical_xor" : "maximum";
    result = absl::StrCat(pair, "(", result, ", ", data, ")");
  }
  return absl::StrCat("{ let ", data, " = ", Expr(type, depth - 1), "; let ", set, " = ", written, "; ", result, " }");
}

// REQUIRES: static, and no scalar.
std::string Generator::Transform(const TypeRef& type, int depth) {
  std::vector<int64_t> shape = StaticShape(type);
  int axis = dice_.Pick(static_cast<int>(shape.size()));
  size_t at = static_cast<size_t>(axis);
  std::vector<int64_t> from = shape;
  auto integers = [&](const std::vector<int64_t>& dims) { return Expr(WithDims(Scalar(kInt32), dims), depth - 1); };
  if (!differentiable_ && dice_.Chance(15)) return PartialUpdate(type, depth);
  switch (dice_.Pick(12)) {
    case 0: {
      std::vector<int64_t> reps(shape.size(), 1);
      if (shape[at] % 2 == 0) from[at] /= 2, reps[at] = 2;
      return absl::StrCat("tile(", Expr(WithDims(type, from), depth - 1), ", reps=", ListText(reps), ")");
    }
    case 1: {
      from[at] = 1 + dice_.Pick(3);
      std::string indices = absl::StrCat("clip(", integers(shape), ", a_min=0f, a_max=", from[at] - 1, "f)");
      return absl::StrCat("gather(", Expr(WithDims(type, from), depth - 1), ", ", indices, ", axis=", axis, ")");
    }
    case 2: return absl::StrCat("full(", Expr(Scalar(type->dtype), depth - 1), ", shape=", ListText(shape), ")");
    case 3: return absl::StrCat("full_like(", Expr(type, depth - 1), ", ", Expr(Scalar(type->dtype), depth - 1), ")");
    case 4: {
      from.erase(from.begin() + axis);
      return absl::StrCat("one_hot(", integers(from), ", ", Expr(Scalar(type->dtype), depth - 1), ", ",
                          Expr(Scalar(type->dtype), depth - 1), ", depth=", shape[at], ", axis=", axis, ", dtype=\"",
                          type->dtype.ToString(), "\")");
    }
    case 5:
      if (shape.size() < 2) return Select(type, depth);
      return absl::StrCat("reverse_sequence(", Expr(type, depth - 1), ", clip(", integers({shape[0]}),
                          ", a_min=0f, a_max=", shape[1], "f), seq_axis=1, batch_axis=0)");
    case 6: {
      from[at] += dice_.Pick(3);
      return absl::StrCat("slice_like(", Expr(WithDims(type, from), depth - 1), ", ", Expr(type, depth - 1), ", axes=[",
                          axis, "])");
    }
    case 7: {
      from[at] = 1;
      return absl::StrCat("broadcast_to_like(", Expr(WithDims(type, from), depth - 1), ", ", integers(shape), ")");
    }
    case 8: {
      if (type->dtype.is_float() || type->dtype.is_bool()) return Select(type, depth);
      return absl::StrCat("cumprod(", Expr(type, depth - 1), ", axis=", axis,
                          dice_.Chance(50) ? ")" : ", exclusive=True)");
    }
    case 9: {
      if (type->dtype != kInt32) return Select(type, depth);
      TypeRef source = WithDims(Scalar(NumericDType()), shape);
      if (source->dtype.is_float()) source = type;
      return absl::StrCat("argsort(", Expr(source, depth - 1), ", axis=", axis,
                          dice_.Chance(50) ? ")" : ", is_ascend=False)");
    }
    case 10: {
      if (type->dtype.is_float() || type->dtype.is_bool()) return Select(type, depth);
      from[at] += dice_.Pick(2);
      return absl::StrCat("topk(", Expr(WithDims(type, from), depth - 1), ", k=", shape[at], ", axis=", axis,
                          ", ret_type=\"both\").0");
    }
    default: {
      std::string indices = absl::StrCat("clip(", integers(shape), ", a_min=0f, a_max=", shape[at] - 1, "f)");
      if (differentiable_ && type->dtype.is_float()) {
        return absl::StrCat("scatter_elements(", Expr(type, depth - 1), ", ", indices, ", ", Expr(type, depth - 1),
                            ", axis=", axis, ", reduction=\"add\")");
      }
      const char* mode = type->dtype.is_bool() || type->dtype.is_float() || dice_.Chance(50) ? "max" : "add";
      return absl::StrCat("scatter_elements(", Expr(type, depth - 1), ", ", indices, ", ", Expr(type, depth - 1),
                          ", axis=", axis, ", reduction=\"", mode, "\")");
    }
  }
}

}  // namespace rvm::random_programs
