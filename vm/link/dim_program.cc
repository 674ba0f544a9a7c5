#include "vm/link/dim_program.h"

#include <utility>

namespace rvm::vm {
namespace {
constexpr size_t kMaxDepth = 32;
}  // namespace

std::optional<DimProgram> DimProgram::Compile(const Dim& dim, uint32_t num_symbols) {
  DimProgram program;
  // Reverse Polish order is the reverse of (operator, rhs, lhs) order.
  std::vector<Dim> pending = {dim};
  while (!pending.empty()) {
    Dim next = std::move(pending.back());
    pending.pop_back();
    if (next.is_binary()) {
      program.steps_.push_back({next.kind(), 0});
      pending.push_back(next.lhs());
      pending.push_back(next.rhs());
      continue;
    }
    if (next.is_const()) {
      program.steps_.push_back({DimKind::kConst, next.constant()});
    } else if (next.kind() == DimKind::kVar && next.id() >= 0 && next.id() < int64_t{num_symbols}) {
      program.steps_.push_back({DimKind::kVar, next.id()});
    } else {
      return std::nullopt;
    }
  }
  program.steps_ = {program.steps_.rbegin(), program.steps_.rend()};
  if (program.steps_.size() == 1) {
    const Step& leaf = program.steps_[0];
    program.symbol_ = leaf.kind == DimKind::kConst ? kConstant : leaf.number;
    program.number_ = leaf.number;
  }
  size_t depth = 0;
  for (const Step& step : program.steps_) {
    if (step.kind == DimKind::kConst || step.kind == DimKind::kVar) {
      if (++depth > kMaxDepth) return std::nullopt;
    } else {
      --depth;
    }
  }
  return program;
}

std::optional<int64_t> DimProgram::EvaluateSteps(std::span<const int64_t> symbols) const {
  int64_t stack[kMaxDepth];
  size_t top = 0;
  for (const Step& step : steps_) {
    if (step.kind == DimKind::kConst) {
      stack[top++] = step.number;
    } else if (step.kind == DimKind::kVar) {
      stack[top++] = symbols[static_cast<size_t>(step.number)];
    } else {
      --top;
      if (OverflowsBinaryDim(step.kind, stack[top - 1], stack[top])) [[unlikely]]
        return std::nullopt;
      stack[top - 1] = EvaluateBinaryDim(step.kind, stack[top - 1], stack[top]);
    }
  }
  return stack[0];
}

std::optional<int64_t> DimProgram::AsConst() const {
  return symbol_ == kConstant ? std::optional(number_) : std::nullopt;
}

}  // namespace rvm::vm
