// DimProgram: a Dim over a kernel's symbols, compiled for evaluation on every call.
#ifndef RVM_VM_LINK_DIM_PROGRAM_H_
#define RVM_VM_LINK_DIM_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dim.h"

namespace rvm::vm {

class DimProgram {
 public:
  // nullopt if a leaf is neither a constant nor a symbol below `num_symbols`, or if the expression
  // is too deep to be a shape.
  static std::optional<DimProgram> Compile(const Dim& dim, uint32_t num_symbols);

  // nullopt if the value or a part of it overflows.
  std::optional<int64_t> Evaluate(std::span<const int64_t> symbols) const {
    if (symbol_ != kNoLeaf) [[likely]]
      return symbol_ == kConstant ? number_ : symbols[static_cast<size_t>(symbol_)];
    return EvaluateSteps(symbols);
  }
  std::optional<int64_t> AsConst() const;

 private:
  std::optional<int64_t> EvaluateSteps(std::span<const int64_t> symbols) const;

  // Postfix: leaves push, operators replace the two topmost values.
  struct Step {
    DimKind kind;
    int64_t number;  // of a constant or a symbol
  };
  std::vector<Step> steps_;
  // Symbol of a program that is one leaf, as most are: kConstant, or the number of the symbol.
  static constexpr int64_t kNoLeaf = -1;
  static constexpr int64_t kConstant = -2;
  int64_t symbol_ = kNoLeaf;
  int64_t number_ = 0;
};

}  // namespace rvm::vm

#endif  // RVM_VM_LINK_DIM_PROGRAM_H_
