// Pickled values: the trees that torch.jit.save and torch.save write. Nothing that a file names is ever called: a class
// or a function is its name, and what would be made of it is that name and the arguments.
#ifndef RVM_COMPILER_IMPORT_TORCH_PICKLE_H_
#define RVM_COMPILER_IMPORT_TORCH_PICKLE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/file_bytes.h"

namespace rvm::torch {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kTuple,
  kList,
  kDict,        // `items`: keys and values in turn
  kGlobal,      // `text`: "module.name"
  kObject,      // `items`: a global and the arguments; its attributes are `state`
  kPersistent,  // `items`: its id
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<PickleValue*> items;
  PickleValue* state = nullptr;

  // Returns the value of a key of a dict; null if there is none.
  const PickleValue* Find(std::string_view key) const;
  // Returns the name of what an object was made by; "" for other values.
  std::string_view maker() const;
};

class Pickle {
 public:
  static absl::StatusOr<Pickle> Read(importing::Bytes bytes);
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_PICKLE_H_
