// The symbols of a kernel as an executable numbers them.
#ifndef RVM_COMPILER_LOWERING_SYMBOL_NUMBERS_H_
#define RVM_COMPILER_LOWERING_SYMBOL_NUMBERS_H_

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "base/dim.h"
#include "kernels/schedule/schedule.h"

namespace rvm::lowering {

class SymbolNumbers {
 public:
  explicit SymbolNumbers(const schedule::Schedule& schedule) {
    for (size_t i = 0; i < schedule.symbols.size(); ++i) {
      numbers_.emplace(schedule.symbols[i].id(), static_cast<int64_t>(i));
    }
  }

  // Returns the dim over the numbers of its symbols. REQUIRES: they are the kernel's.
  Dim Numbered(const Dim& dim) const {
    return SubstituteDim(dim, [&](const Dim& leaf) -> std::optional<Dim> {
      if (leaf.kind() != DimKind::kVar) return std::nullopt;
      return Dim::Var(numbers_.at(leaf.id()), leaf.name());
    });
  }

 private:
  absl::flat_hash_map<int64_t, int64_t> numbers_;
};

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_SYMBOL_NUMBERS_H_
