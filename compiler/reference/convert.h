// Conversion between Values and the objects of the evaluator.
#ifndef RVM_COMPILER_REFERENCE_CONVERT_H_
#define RVM_COMPILER_REFERENCE_CONVERT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/value.h"
#include "compiler/ir/module.h"
#include "compiler/reference/object.h"

namespace rvm::reference {

// Converts and checks the arguments of one call. Dims named in the callee's signature are bound by the first argument
// that has them.
class ArgumentReader {
 public:
  ArgumentReader(const ir::Module& module, RefCells& refs) : module_(module), refs_(refs) {}

  // Checks `value` against `type`; type parameters of kind Type accept any value.
  absl::StatusOr<Handle> Read(const Value& value, const ir::Type* type);

 private:
  // `dims`: the values of named extents; null: named extents are not checked.
  absl::StatusOr<Handle> ReadNode(const Value& value, const ir::Type* type, absl::flat_hash_map<int64_t, int64_t>* dims,
                                  std::vector<const ir::Type*>& field_types);
  absl::StatusOr<const ir::Constructor*> FindConstructor(const Value& value, const ir::Type* type);
  const std::vector<const ir::Type*>& FieldTypes(const ir::Constructor* constructor, const ir::AdtType* type);
  const ir::Type* Unique(const ir::Type* type);

  const ir::Module& module_;
  RefCells& refs_;
  ir::Arena arena_;                             // of the types of fields
  absl::flat_hash_map<int64_t, int64_t> dims_;  // by the id of the variable
  absl::flat_hash_map<size_t, std::vector<const ir::Type*>> unique_types_;
  absl::flat_hash_map<std::pair<const ir::Constructor*, const ir::Type*>, std::vector<const ir::Type*>> field_types_;
};

// Returns the difference between a tensor and its type, "saw Tensor[(2), float32]; expected ...", or "" if they agree.
// `dims`: the values of dim variables bound so far; null: variables match any extent.
std::string TensorMismatch(const Literal& tensor, const ir::TensorType& type,
                           absl::flat_hash_map<int64_t, int64_t>* dims);

// Returns kInvalidArgument for a value that contains itself through a reference.
absl::StatusOr<Value> ToValue(const Handle& handle);

}  // namespace rvm::reference

#endif  // RVM_COMPILER_REFERENCE_CONVERT_H_
