// Decision trees of matches: which constructor to test next, and which clause to run.
//
// Built from the matrix of patterns, first clause first, left to right (L. Maranget, "Compiling
// pattern matching to good decision trees", 2008). No part of the value is tested
// twice on a path.
#ifndef RVM_COMPILER_BYTECODE_DECISION_TREE_H_
#define RVM_COMPILER_BYTECODE_DECISION_TREE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "compiler/bytecode/type_table.h"
#include "compiler/ir/expr.h"

namespace rvm::bytecode {

// A part of the matched value: the value itself (number 0), or a field of another part.
using Part = uint32_t;

struct DecisionNode;

// Value that a part has on a branch: a literal, or constructor `tag` (0 for a tuple) with its fields by part.
struct DecisionCase {
  uint32_t tag = 0;
  const Literal* literal = nullptr;
  LayoutId layout;  // invalid without fields
  std::vector<Part> fields;
  std::vector<bool> is_needed;   // by field: tested or bound below
  bool whole_is_needed = false;  // the part itself is bound below
  std::unique_ptr<DecisionNode> node;
};

struct DecisionNode {
  enum class Kind : uint8_t { kFail, kLeaf, kSwitch } kind = Kind::kFail;
  // kLeaf
  size_t clause = 0;
  std::vector<std::pair<const ir::Var*, Part>> bindings;
  // kSwitch: the cases that are tested for, and the default (null: no other case is possible).
  Part part = 0;
  bool is_tuple = false;  // one case, nothing to test
  std::vector<DecisionCase> cases;
  std::unique_ptr<DecisionNode> otherwise;

  bool tests_literals() const { return !cases.empty() && cases[0].literal != nullptr; }
};

struct DecisionTree {
  std::unique_ptr<DecisionNode> root;
  std::vector<TypeId> part_types;
  std::vector<uint32_t> leaves_of_clause;  // how many leaves run a clause
};

// `is_used`: whether a clause's body mentions the variable. kResourceExhausted for a match whose
// tree would be huge.
absl::StatusOr<DecisionTree> BuildDecisionTree(const ir::Match& match, TypeId value_type, TypeTable& types,
                                               absl::FunctionRef<bool(const ir::Var*)> is_used);

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_DECISION_TREE_H_
