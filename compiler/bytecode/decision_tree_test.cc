#include "compiler/bytecode/decision_tree.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/value.h"
#include "compiler/ir/module.h"
#include "compiler/ir/walk.h"
#include "compiler/text/parser.h"
#include "compiler/typing/infer_type.h"

namespace rvm::bytecode {
namespace {

// Returns a tree as text: `0{#1(1 2): .., ..; else: ..}` looks at part 0, whose constructor 1 has the fields 1 and 2; a
// leaf is the number of its clause with what it binds, and `!` that nothing fits.
std::string ToString(const DecisionNode& node) {
  if (node.kind == DecisionNode::Kind::kFail) return "!";
  if (node.kind == DecisionNode::Kind::kLeaf) {
    std::string leaf = absl::StrCat("clause", node.clause);
    for (const auto& [var, part] : node.bindings) absl::StrAppend(&leaf, " ", var->name, "=", part);
    return leaf;
  }
  std::string text = absl::StrCat(node.part, node.is_tuple ? "(" : "{");
  for (const DecisionCase& decision : node.cases) {
    if (&decision != &node.cases.front()) text += ", ";
    if (decision.literal != nullptr) absl::StrAppend(&text, ScalarToString(*decision.literal, 0));
    if (decision.literal == nullptr && !node.is_tuple) absl::StrAppend(&text, "#", decision.tag);
    for (size_t i = 0; i < decision.fields.size(); ++i) {
      absl::StrAppend(&text, i == 0 && node.is_tuple ? "" : " ", decision.is_needed[i] ? "" : "-", decision.fields[i]);
    }
    absl::StrAppend(&text, ": ", ToString(*decision.node));
  }
  if (node.otherwise != nullptr) absl::StrAppend(&text, ", else: ", ToString(*node.otherwise));
  return text + (node.is_tuple ? ")" : "}");
}

struct Tree {
  ir::Module module;
  Executable executable;
  absl::StatusOr<DecisionTree> tree = absl::InternalError("no match");

  // Builds the tree of the first `match` in the program.
  explicit Tree(std::string_view program) {
    diagnostics::SourceMap sources;
    diagnostics::Diagnostics diagnostics(&sources);
    uint32_t source = sources.Add("test", std::string(program));
    bool ok = text::ParseModule(source, module, diagnostics) && typing::InferTypes(module, diagnostics);
    EXPECT_TRUE(ok) << diagnostics.Render();
    if (!ok) return;
    TypeTable types(*module.arena, executable);
    for (const ir::GlobalFunction& function : module.functions) {
      ir::ForEachExpr(function.function, [&](const ir::Expr* expr) {
        const auto* match = ir::DynCast<ir::Match>(expr);
        if (match == nullptr) return true;
        auto is_used = [](const ir::Var* var) { return var->name != "unused"; };
        tree = BuildDecisionTree(*match, types.Lower(match->value->type), types, is_used);
        return false;
      });
    }
  }
  std::string Text() const { return tree.ok() ? ToString(*tree->root) : std::string(tree.status().message()); }
};

struct Case {
  const char* name;
  const char* program;
  const char* tree;
};
class DecisionTrees : public testing::TestWithParam<Case> {};

TEST_P(DecisionTrees, AreBuiltAsExpected) { EXPECT_EQ(Tree(GetParam().program).Text(), GetParam().tree); }

const Case kCases[] = {
    {"Wildcard", "def @main(%x: int32) { match (%x) { _ => 1 } }", "clause0"},
    {"Variable", "def @main(%x: int32) { match (%x) { %y => %y } }", "clause0 y=0"},
    {"UnusedVariable", "def @main(%x: int32) { match (%x) { %unused => 1 } }", "clause0"},
    {"AllConstructors", "type T { A, B(int32), }\ndef @main(%t: T) { match (%t) { A => 0, B(%x) => %x } }",
     "0{#0: clause0, #1 1: clause1 x=1}"},
    {"TheOrderOfClauses", "type T { A, B, C, }\ndef @main(%t: T) { match (%t) { C => 0, A => 1, _ => 2 } }",
     "0{#2: clause0, #0: clause1, else: clause2}"},
    {"NothingElseIsPossible", "type T { A, B, }\ndef @main(%t: T) { match (%t) { A => 0, B => 1, } }",
     "0{#0: clause0, #1: clause1}"},
    {"NothingFits", "type T { A, B, }\ndef @main(%t: T) { match? (%t) { A => 0 } }", "0{#0: clause0, else: !}"},
    {"NoFieldIsNeeded", "type T { A(int32, int32), }\ndef @main(%t: T) { match (%t) { A(_, %y) => %y } }",
     "0{#0 -1 2: clause0 y=2}"},
    {"TupleFieldsAreLookedAtOnce",
     "type T { A, B, }\ndef @main(%a: T, %b: T) { match ((%a, %b)) { (A, A) => 0, (A, B) => 1, (B, _) => 2 } }",
     "0(1 2: 1{#0: 2{#0: clause0, #1: clause1}, #1: clause2})"},
    {"ALaterClauseAppliesInSeveralPlaces",
     "type T { A, B, }\ndef @main(%a: T, %b: T) { match ((%a, %b)) { (A, A) => 0, (_, B) => 1, (_, A) => 2 } }",
     "0(1 2: 1{#0: 2{#0: clause0, #1: clause1}, else: 2{#1: clause1, #0: clause2}})"},
    {"NestedPatterns",
     "type L { N, C(int32, L), }\ndef @main(%l: L) { match (%l) { C(%x, N) => %x, C(_, %rest) => 2, N => 3 } }",
     "0{#1 1 2: 2{#0: clause0 x=1, else: clause1 rest=2}, #0: clause2}"},
    {"IntegersAreNeverExhausted", "def @main(%x: int32) { match (%x) { 0 => 1, -3 => 2, 0 => 3, %y => %y } }",
     "0{0: clause0, -3: clause1, else: clause3 y=0}"},
    {"BoolsAre", "def @main(%x: bool) { match (%x) { True => 1, False => 2 } }", "0{True: clause0, False: clause1}"},
    {"LiteralsInFields",
     "def @main(%x: int32, %b: bool) { match ((%x, %b)) { (0, True) => 1, (1, _) => 2, (_, True) => 3, _ => 4 } }",
     "0(1 2: 1{0: 2{True: clause0, else: clause3}, 1: clause1, else: 2{True: clause2, else: clause3}})"},
};
INSTANTIATE_TEST_SUITE_P(Matches, DecisionTrees, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DecisionTree, CountsTheLeavesOfEachClause) {
  Tree tree("type T { A, B, }\ndef @main(%a: T, %b: T) { match ((%a, %b)) { (A, A) => 0, _ => 1 } }");
  ASSERT_TRUE(tree.tree.ok());
  EXPECT_EQ(tree.tree->leaves_of_clause, (std::vector<uint32_t>{1, 2}));
}

}  // namespace
}  // namespace rvm::bytecode
