// Steps: the operators of Relay as importers use them, one call each, on values whose types are known.
//
// Where nothing has to be computed nothing is added: a cast to the same dtype gives the value itself. The first mistake
// sticks, as in Emitter, and gives placeholders, so that a converter goes on.
#ifndef RVM_COMPILER_IMPORT_STEPS_H_
#define RVM_COMPILER_IMPORT_STEPS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/import/emitter.h"

namespace rvm::importing {

class Steps {
 public:
  explicit Steps(Emitter& emit) : emit_(emit) {}

  Emitter& emit() const { return emit_; }
  Operand Op(std::string_view name, Operands args, ir::Attrs attrs = {}) {
    return emit_.Op(name, std::move(args), std::move(attrs));
  }
  Operand Add(Operand a, Operand b) { return Op("add", {a, b}); }
  Operand Sub(Operand a, Operand b) { return Op("subtract", {a, b}); }
  Operand Mul(Operand a, Operand b) { return Op("multiply", {a, b}); }
  Operand Div(Operand a, Operand b) { return Op("divide", {a, b}); }
  Operand Where(Operand condition, Operand a, Operand b) { return Op("where", {condition, a, b}); }
  Operand Number(double value, Operand like) { return emit_.Number(value, emit_.DTypeOf(like)); }
  Operand Integer(int64_t value) { return emit_.Integer(value); }
  const Dims& DimsOf(Operand x) { return emit_.DimsOf(x); }
  int64_t RankOf(Operand x) { return emit_.RankOf(x); }
  DataType DTypeOf(Operand x) { return emit_.DTypeOf(x); }
  Dim ExtentOf(Operand x, int64_t axis) { return emit_.ExtentOf(x, axis); }
  // Returns the same without a kernel where it has that type already.
  Operand Cast(Operand x, DataType dtype);
  Operand Reshape(Operand x, const Dims& dims);
  Operand BroadcastTo(Operand x, const Dims& dims);
  Operand Transpose(Operand x, std::span<const int64_t> axes);
  // The axes [begin, begin + count) of a tensor's elements along `axis`.
  Operand SliceAxis(Operand x, int64_t axis, const Dim& begin, const Dim& end);
  Operand Squeeze(Operand x, std::vector<int64_t> axes);
  Operand Unsqueeze(Operand x, std::vector<int64_t> axes);  // sorted places in the result
  // Joined along an axis, many parts in groups, so that no extent is a sum of very many; one part as it is.
  Operand Concatenate(Operands parts, int64_t axis);
  Operand Scalar(Operand x);  // of a tensor of one element
  // `axis` counted from the front; a mistake, and 0, if it is no axis of `rank`.
  int64_t Axis(int64_t axis, int64_t rank);
  std::vector<int64_t> Axes(std::vector<int64_t> axes, int64_t rank);
  Operand NumElements(Operand x);  // an int64 scalar
  Operand Iota(const Dim& count);  // 0, 1, ... as int64
  // Returns the integers of an input that has to be known now; a mistake that names `what` if they are not.
  std::optional<std::vector<int64_t>> Constants(Operand x, std::string_view what);
  // Returns the elements of an integer vector as dims; nullopt if only the running program knows them.
  std::optional<Dims> Symbols(Operand x);

  // ---- mistakes. They give placeholders, so that a converter goes on.
  Operand Fail(std::string message);         // the model is wrong
  Operand Unsupported(std::string message);  // the importer does not know
  bool failed() const { return emit_.failed(); }

 private:
  Emitter& emit_;
};

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_STEPS_H_
