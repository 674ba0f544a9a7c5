// KernelRecipe: what a kernel computes, as data. A portable executable holds one for each of
// its kernels instead of machine code; vm/recipe runs them.
//
// A recipe is a list of loop nests, run in order. At each position of its axes a nest computes values, step by step,
// from elements of buffers, and stores some of them. At most one step reduces a value over further axes: the steps
// before it also run at each position of those; the steps after it use its result, but no value from before it. A nest
// that loads from a buffer that it stores into, that stores under a condition, or that sorts one, runs its positions in
// order; the positions of other nests may run in any order, or in parallel. What a limit is made from is computed once,
// before the first position.
//
// A recipe cannot do harm: a load outside a buffer gives 0, a store outside one ends the call with an error, and no
// function of numbers traps.
#ifndef RVM_SERIALIZATION_RECIPE_H_
#define RVM_SERIALIZATION_RECIPE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/data_type.h"
#include "base/dim.h"
#include "base/scalar_op.h"

namespace rvm {

// Fields of RecipeStep that an op uses, besides `dtype`; the others are 0.
enum RecipeFields : uint8_t {
  kFunctionField = 1,  // `function`
  kNumberField = 2,    // `a` is a number
  kAField = 4,         // `a` is a value
  kBField = 8,         // `b` is one
  kCField = 16,        // `c` is one
  kBufferField = 32,
  kBitsField = 64,
};

// RVM_RECIPE_OP(Name, text, fields)
#define RVM_RECIPE_OPS(RVM_RECIPE_OP)                                                                                  \
  RVM_RECIPE_OP(Constant, "constant", kBitsField)     /* an integer, or the bits of a double */                        \
  RVM_RECIPE_OP(Index, "index", kNumberField)         /* of an axis, the reduced ones behind; int64 */                 \
  RVM_RECIPE_OP(Extent, "extent", kNumberField)       /* one of `extents`; int64 */                                    \
  RVM_RECIPE_OP(Load, "load", kAField | kBufferField) /* element number a */                                           \
  RVM_RECIPE_OP(Unary, "unary", kFunctionField | kAField)                                                              \
  RVM_RECIPE_OP(Binary, "binary", kFunctionField | kAField | kBField)                                                  \
  RVM_RECIPE_OP(Select, "select", kAField | kBField | kCField) /* b where a, else c */                                 \
  RVM_RECIPE_OP(Cast, "cast", kAField)                                                                                 \
  RVM_RECIPE_OP(Reduce, "reduce", kFunctionField | kAField)                                                            \
  RVM_RECIPE_OP(Store, "store", kAField | kBField | kBufferField) /* element number a is b; makes no value */          \
  RVM_RECIPE_OP(Bitcast, "bitcast", kAField)                      /* to a dtype of as many bits */                     \
  /* Sorts b keys and, behind them, the b numbers that go with them; behind these are 2 * b more, scratch. The keys */ \
  /* begin at element number a. Makes no value. */                                                                     \
  RVM_RECIPE_OP(Order, "order", kAField | kBField | kBufferField)                                                      \
  RVM_RECIPE_OP(StoreIf, "store_if", kAField | kBField | kCField | kBufferField) /* a store, where c */                \
  /* Only the positions of axis number a below b run. What b is made from depends on no axis. Makes no value. */       \
  RVM_RECIPE_OP(Limit, "limit", kNumberField | kBField)

#define RVM_ENUMERATOR(Name, text, fields) k##Name,
#define RVM_INFO(Name, text, fields) {text, fields},
enum class RecipeOp : uint8_t { RVM_RECIPE_OPS(RVM_ENUMERATOR) };
struct RecipeOpInfo {
  std::string_view name;
  uint8_t fields;
};
inline constexpr RecipeOpInfo kRecipeOps[] = {RVM_RECIPE_OPS(RVM_INFO)};
#undef RVM_ENUMERATOR
#undef RVM_INFO

constexpr bool MakesValue(RecipeOp op) {
  return op != RecipeOp::kStore && op != RecipeOp::kStoreIf && op != RecipeOp::kOrder && op != RecipeOp::kLimit;
}
constexpr bool IsStore(RecipeOp op) { return op == RecipeOp::kStore || op == RecipeOp::kStoreIf; }

// The names of what `function` may be.
inline std::span<const std::string_view> FunctionNames(RecipeOp op) {
  switch (op) {
    case RecipeOp::kUnary: return kUnaryOpNames;
    case RecipeOp::kBinary: return kBinaryOpNames;
    case RecipeOp::kReduce: return kReduceOpNames;
    case RecipeOp::kConstant:
    case RecipeOp::kIndex:
    case RecipeOp::kExtent:
    case RecipeOp::kLoad:
    case RecipeOp::kSelect:
    case RecipeOp::kCast:
    case RecipeOp::kStore:
    case RecipeOp::kBitcast:
    case RecipeOp::kOrder:
    case RecipeOp::kStoreIf:
    case RecipeOp::kLimit: return {};
  }
}

// The number of a value is that of the step that makes it. Floats are computed as float32 or float64: those of 16 bits
// are float32, rounded by casts and stores.
struct RecipeStep {
  RecipeOp op = RecipeOp::kConstant;
  uint8_t function = 0;
  DataType dtype;
  uint32_t a = 0, b = 0, c = 0;
  uint32_t buffer = 0;  // params, then results, then workspaces
  int64_t bits = 0;
  bool operator==(const RecipeStep&) const = default;
};

struct RecipeNest {
  Dims axes;
  Dims reduce_axes;
  Dims extents;  // for kExtent
  std::vector<RecipeStep> steps;
  bool operator==(const RecipeNest&) const = default;
};

// A tensor that lives while the kernel runs.
struct RecipeWorkspace {
  DataType dtype;
  Dim offset;    // bytes; a multiple of 64
  Dim elements;  // how many
  bool operator==(const RecipeWorkspace&) const = default;
};

// Dims are over the symbols of the kernel.
struct KernelRecipe {
  std::vector<RecipeWorkspace> workspaces;
  std::vector<RecipeNest> nests;
  bool operator==(const KernelRecipe&) const = default;
};

inline constexpr size_t kMaxRecipeAxes = 64;

}  // namespace rvm

#endif  // RVM_SERIALIZATION_RECIPE_H_
