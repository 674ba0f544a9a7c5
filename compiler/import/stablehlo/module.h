// Module: the contents of a portable artifact, which is MLIR bytecode of VHLO, the versioned form of StableHLO.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_MODULE_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_MODULE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/literal.h"
#include "compiler/import/file_bytes.h"

namespace rvm::stablehlo {

using importing::Bytes;

struct Type {
  enum class Kind : uint8_t { kElement, kTensor, kFunction, kToken, kOther };
  Kind kind = Kind::kOther;
  std::string name;               // of the element, also of a tensor: "float32", "complex64"
  std::optional<DataType> dtype;  // of the element, or of its parts; nullopt if Relay does not have it
  bool is_complex = false;        // the element has a real and an imaginary part
  int bits = 0;                   // of an element that is an integer or a float
  std::vector<int64_t> shape;     // of a tensor; -1: an unknown extent
};

struct Attribute {
  enum class Kind : uint8_t { kInteger, kFloat, kText, kArray, kDictionary, kTensor, kType, kLocation, kOther };
  Kind kind = Kind::kOther;
  int64_t integer = 0;  // also of a bool, and of an enumeration
  double number = 0;
  std::string_view text;                   // also the name of a location
  std::vector<const Attribute*> elements;  // of a dictionary, a key and a value in turn
  const Type* type = nullptr;              // of a tensor, and of a type
  Bytes data;                              // of a tensor: its elements, or one that all are

  // Returns the value for a key of a dictionary; null if there is none.
  const Attribute* Find(std::string_view key) const;
};

struct Block;

struct Operation {
  std::string_view name;                  // "dot_general", without a version
  uint64_t offset = 0;                    // in the file
  std::string_view location;              // "jit(f)/tanh"; empty: unknown
  std::vector<int32_t> operands;          // numbers of values
  std::vector<int32_t> results;           // the same
  std::vector<const Type*> types;         // of the results
  const Attribute* dictionary = nullptr;  // null: none
  std::string_view property_names;        // "dimension,is_stable"
  std::vector<const Attribute*> properties;
  bool has_unknown_properties = false;  // whose names this version of the reader does not know
  std::vector<Block> regions;           // each has one block

  // Returns a property or an attribute; null if there is none.
  const Attribute* Find(std::string_view name) const;
};

// Every value of a module has a number of its own.
struct Block {
  std::vector<int32_t> arguments;
  std::vector<const Type*> types;           // of the arguments
  std::vector<std::string_view> locations;  // of the arguments; empty: unknown
  std::vector<Operation> operations;
};

class Module {
 public:
  // kInvalidArgument, with the offset of the mistake, where the bytes are no artifact. `bytes` must outlive the module.
  static absl::StatusOr<Module> Read(Bytes bytes);

  std::string_view producer() const { return producer_; }
  int32_t num_values() const { return num_values_; }
  // Returns the operation `func` of that name; null if there is none.
  const Operation* FindFunction(std::string_view name) const;
  const std::vector<const Operation*>& functions() const { return functions_; }

 private:
  friend class ModuleReader;

  std::string_view producer_;
  int32_t num_values_ = 0;
  std::unique_ptr<Block> top_;
  std::deque<Type> types_;
  std::deque<Attribute> attributes_;
  std::vector<const Operation*> functions_;
  absl::flat_hash_map<std::string_view, const Operation*> by_name_;
};

// Returns true if the bytes begin as MLIR bytecode does.
bool IsBytecode(Bytes bytes);

// Returns how many elements a tensor of that type has; nullopt if an extent is unknown.
std::optional<int64_t> CountElements(const Type& type);
// Returns true if all elements of an attribute that is a tensor are stored as one.
bool IsSplat(const Attribute& tensor);
// Returns the elements of an attribute that is a tensor and no splat; with `is_splat` the one element as a scalar.
// nullopt for elements that Relay does not have, and where the bytes do not fit the type.
std::optional<Literal> LiteralOf(const Attribute& tensor, bool is_splat = false);

// Returns the integers of an attribute: a number, an array of them or a tensor of integers; nullopt for others.
std::optional<std::vector<int64_t>> IntegersOf(const Attribute& attribute);

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_MODULE_H_
