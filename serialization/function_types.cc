#include "serialization/function_types.h"

#include <algorithm>
#include <utility>

namespace rvm {
namespace {

// Visits each type at most twice: on its way in and on its way out.
class Traversal {
 public:
  Traversal(const Executable& executable, FunctionTypes& types)
      : executable_(executable), types_(types), seen_{Flags(), Flags()} {}

  void Add(TypeId type, bool is_taken) {
    std::vector<bool>& seen = seen_[is_taken ? 1 : 0];
    if (seen[type.value]) return;
    seen[type.value] = true;
    work_.push_back({type, is_taken});
  }

  void Run() {
    while (!work_.empty()) {
      auto [id, is_taken] = work_.back();
      work_.pop_back();
      const TypeDesc& type = executable_.types[id.value];
      if (type.kind == TypeDescKind::kClosure) {
        (is_taken ? types_.taken : types_.given)[id.value] = true;
        AddAll(type.fields, !is_taken);
        Add(type.result, is_taken);
      } else if (type.kind == TypeDescKind::kAdt) {
        for (const AdtDesc::Constructor& c : executable_.adts[type.adt.value].constructors) AddAll(c.fields, is_taken);
      } else {
        AddAll(type.fields, is_taken);
      }
    }
  }

 private:
  std::vector<bool> Flags() const { return std::vector<bool>(executable_.types.size()); }
  void AddAll(const std::vector<TypeId>& types, bool is_taken) {
    for (TypeId type : types) Add(type, is_taken);
  }

  const Executable& executable_;
  FunctionTypes& types_;
  std::vector<bool> seen_[2];
  std::vector<std::pair<TypeId, bool>> work_;
};

}  // namespace

bool FunctionTypes::gives_any() const { return std::find(given.begin(), given.end(), true) != given.end(); }

FunctionTypes FunctionTypesOf(const Executable& executable) {
  FunctionTypes types(executable);
  Traversal traversal(executable, types);
  for (const Entry& entry : executable.entries) {
    const FunctionDesc& function = executable.functions[entry.function.value];
    for (size_t p = 0; p < function.num_params; ++p) traversal.Add(function.registers[p].type, /*is_taken=*/true);
    traversal.Add(function.result, /*is_taken=*/false);
  }
  traversal.Run();
  return types;
}

}  // namespace rvm
