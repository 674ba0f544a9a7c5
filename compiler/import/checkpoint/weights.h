// Weights: the tensors of a model as free variables of its program.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_WEIGHTS_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/data_type.h"
#include "base/literal.h"
#include "compiler/import/checkpoint/stored_tensor.h"
#include "compiler/import/refusals.h"

namespace rvm::checkpoint {

class Weights {
 public:
  // Refuses all tensors of unsupported types. Passes the bytes of tensors that it has copied to `release`, which may be
  // null. `tensors` and `refusals` must outlive this.
  // `rounds_rows`: rows that quantised weights multiply are rounded to bytes.
  Weights(const StoredTensors& tensors, importing::Refusals& refusals,
          std::function<void(importing::Bytes part)> release, bool rounds_rows);

  bool Has(std::string_view name) const { return tensors_.contains(name); }
  // Returns the dtype of caches of what that projection gives: float32 if its weights are of float32, else float16,
  // whose rounding is not above that of the weights.
  DataType CacheDType(const std::string& projection) const;
  // Returns the elements of a tensor, in float32, as a Relay expression in parentheses. Refuses a tensor that is
  // missing or has another shape.
  std::string Value(std::string_view name, const Shape& shape);
  // Returns `x`, an expression of rows of so many elements, as it is multiplied by the tensor: rounded in the blocks of
  // quantised weights, so that their products are products of bytes.
  std::string RowsFor(std::string_view name, std::string_view x, int64_t size);
  // Returns the rows of a matrix whose numbers `index` gives, an expression.
  std::string Rows(std::string_view name, const Shape& shape, std::string_view index);
  // Declares a constant that no file has, and returns the variable.
  std::string Declare(std::string_view name, Literal value);

  // Returns a `free_var` for each constant, a line each, and the functions that expressions call.
  const std::string& declarations() const { return declarations_; }
  std::map<std::string, Literal, std::less<>> TakeValues() { return std::move(values_); }
  // Names of tensors that no expression has, in order.
  std::vector<std::string> Unused() const;

 private:
  // Null: refused.
  const StoredTensor* Find(std::string_view name, const Shape& shape);
  // Returns the elements as Value does, of the parts that `part` gives by the variable that has them all.
  std::string Elements(std::string_view name, const Shape& shape,
                       absl::FunctionRef<std::string(const std::string& variable)> part);
  // Returns the variable of a part of the tensor.
  const std::string& VariableOf(const std::string& name, const StoredTensor& tensor, std::string_view suffix);

  const StoredTensors& tensors_;
  importing::Refusals& refusals_;
  std::function<void(importing::Bytes part)> release_;
  bool rounds_rows_;
  std::set<std::string> functions_;                                                                // declared ones
  std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>> variables_;  // by name and suffix
  std::string declarations_;
  std::map<std::string, Literal, std::less<>> values_;
};

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_WEIGHTS_H_
