// Schemas of ATen: the names and types of arguments, which TorchScript's code leaves out and exported programs have.
#ifndef RVM_COMPILER_IMPORT_TORCH_SCRIPT_SCHEMAS_H_
#define RVM_COMPILER_IMPORT_TORCH_SCRIPT_SCHEMAS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rvm::torch {

struct SchemaArgument {
  std::string_view name, type;  // types: see schemas.def
  bool is_optional = false;     // None is a value of it
  bool is_list = false;
  bool has_default = false;
  bool is_keyword = false;  // only its name gives it
};

struct Schema {
  std::string_view overload;
  std::vector<SchemaArgument> arguments;
  std::vector<std::string_view> results;  // "T", "T[]", "I"
};

// Returns the overloads of an operator, those on tensors before those on numbers; empty if it is not known.
std::span<const Schema> FindSchemas(std::string_view name);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_SCRIPT_SCHEMAS_H_
