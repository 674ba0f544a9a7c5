#include "compiler/bytecode/decision_tree.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/stack_guard.h"

namespace rvm::bytecode {
namespace {

constexpr size_t kMaxNodes = 200'000;

struct Test {
  Part part;
  const ir::Pattern* pattern;  // a constructor, a tuple or a literal
};

// A clause with what is still to be tested for it.
struct Row {
  size_t clause;
  std::vector<Test> tests;
  std::vector<std::pair<const ir::Var*, Part>> bindings;
};

class TreeBuilder {
 public:
  TreeBuilder(TypeTable& types, DecisionTree& tree, absl::FunctionRef<bool(const ir::Var*)> is_used)
      : types_(types), tree_(tree), is_used_(is_used) {}

  absl::StatusOr<std::unique_ptr<DecisionNode>> Build(std::vector<Row> rows) {
    return WithStack([&] { return BuildHere(std::move(rows)); });
  }

  // Adds the tests and bindings of `pattern` for `part` to the row.
  void Require(Row& row, Part part, const ir::Pattern* pattern) {
    if (pattern->kind == ir::PatternKind::kVar) {
      if (is_used_(pattern->var)) row.bindings.push_back({pattern->var, part});
    } else if (pattern->kind != ir::PatternKind::kWildcard) {
      row.tests.push_back({part, pattern});
    }
  }

 private:
  absl::StatusOr<std::unique_ptr<DecisionNode>> BuildHere(std::vector<Row> rows) {
    if (++num_nodes_ > kMaxNodes) {
      return absl::ResourceExhaustedError("a match needs a decision tree of more than 200000 nodes; nest the matches");
    }
    auto node = std::make_unique<DecisionNode>();
    if (rows.empty()) return node;
    if (rows[0].tests.empty()) {
      node->kind = DecisionNode::Kind::kLeaf;
      node->clause = rows[0].clause;
      node->bindings = std::move(rows[0].bindings);
      ++tree_.leaves_of_clause[node->clause];
      return node;
    }
    node->kind = DecisionNode::Kind::kSwitch;
    node->part = rows[0].tests[0].part;
    const ir::Pattern& first = *rows[0].tests[0].pattern;
    node->is_tuple = first.kind == ir::PatternKind::kTuple;
    size_t num_values = NumValues(first, tree_.part_types[node->part]);
    for (const ir::Pattern* pattern : ValuesTested(rows, node->part)) {
      absl::StatusOr<DecisionCase> result = BuildCase(rows, node->part, *pattern);
      if (!result.ok()) return result.status();
      node->cases.push_back(*std::move(result));
    }
    if (node->cases.size() < num_values) {
      std::vector<Row> rest;
      for (const Row& row : rows) {
        if (FindTest(row, node->part) == row.tests.end()) rest.push_back(row);
      }
      absl::StatusOr<std::unique_ptr<DecisionNode>> otherwise = Build(std::move(rest));
      if (!otherwise.ok()) return otherwise.status();
      node->otherwise = *std::move(otherwise);
    }
    return node;
  }

  static std::vector<Test>::const_iterator FindTest(const Row& row, Part part) {
    return std::find_if(row.tests.begin(), row.tests.end(), [&](const Test& test) { return test.part == part; });
  }

  // Identifies what a pattern tests a part for.
  static int64_t KeyOf(const ir::Pattern& pattern) {
    switch (pattern.kind) {
      case ir::PatternKind::kConstructor: return pattern.constructor->tag;
      case ir::PatternKind::kLiteral: return pattern.literal->IntAt(0);
      case ir::PatternKind::kTuple:
      case ir::PatternKind::kWildcard:
      case ir::PatternKind::kVar: break;
    }
    return 0;
  }

  // How many keys there are. Integers are never exhausted.
  size_t NumValues(const ir::Pattern& pattern, TypeId type) {
    if (pattern.kind == ir::PatternKind::kTuple) return 1;
    if (pattern.kind == ir::PatternKind::kConstructor) return types_.num_constructors(type);
    return pattern.literal->dtype().is_bool() ? 2 : std::numeric_limits<size_t>::max();
  }

  // One pattern for each key that the rows test for, in their order.
  static std::vector<const ir::Pattern*> ValuesTested(const std::vector<Row>& rows, Part part) {
    std::vector<const ir::Pattern*> values;
    absl::flat_hash_set<int64_t> seen;
    for (const Row& row : rows) {
      auto test = FindTest(row, part);
      if (test != row.tests.end() && seen.insert(KeyOf(*test->pattern)).second) values.push_back(test->pattern);
    }
    return values;
  }

  DecisionCase MakeCase(const ir::Pattern& pattern, TypeId type) {
    DecisionCase result;
    if (pattern.kind == ir::PatternKind::kLiteral) {
      result.literal = pattern.literal;
      return result;
    }
    bool is_tuple = pattern.kind == ir::PatternKind::kTuple;
    result.tag = is_tuple ? 0 : pattern.constructor->tag;
    result.layout = is_tuple ? types_.TupleLayout(type) : types_.ConstructorLayout(type, result.tag);
    for (TypeId field : is_tuple ? types_.desc(type).fields : types_.ConstructorFields(type, result.tag)) {
      result.fields.push_back(static_cast<Part>(tree_.part_types.size()));
      tree_.part_types.push_back(field);
    }
    return result;
  }

  absl::StatusOr<DecisionCase> BuildCase(const std::vector<Row>& rows, Part part, const ir::Pattern& pattern) {
    DecisionCase result = MakeCase(pattern, tree_.part_types[part]);
    result.is_needed.assign(result.fields.size(), false);
    std::vector<Row> fitting;
    for (const Row& row : rows) {
      auto test = FindTest(row, part);
      if (test != row.tests.end() && KeyOf(*test->pattern) != KeyOf(pattern)) continue;
      Row next{row.clause, {}, row.bindings};
      for (const Test& other : row.tests) {
        if (other.part != part) {
          next.tests.push_back(other);
          continue;
        }
        // In the place of the test, so that order stays left to right.
        for (size_t i = 0; i < other.pattern->fields.size(); ++i) {
          size_t before = next.tests.size() + next.bindings.size();
          Require(next, result.fields[i], other.pattern->fields[i]);
          if (next.tests.size() + next.bindings.size() > before) result.is_needed[i] = true;
        }
      }
      for (const auto& [var, bound] : next.bindings) result.whole_is_needed |= bound == part;
      fitting.push_back(std::move(next));
    }
    absl::StatusOr<std::unique_ptr<DecisionNode>> node = Build(std::move(fitting));
    if (!node.ok()) return node.status();
    result.node = *std::move(node);
    return result;
  }

  TypeTable& types_;
  DecisionTree& tree_;
  absl::FunctionRef<bool(const ir::Var*)> is_used_;
  size_t num_nodes_ = 0;
};

}  // namespace

absl::StatusOr<DecisionTree> BuildDecisionTree(const ir::Match& match, TypeId value_type, TypeTable& types,
                                               absl::FunctionRef<bool(const ir::Var*)> is_used) {
  DecisionTree tree;
  tree.part_types.push_back(value_type);
  tree.leaves_of_clause.assign(match.clauses.size(), 0);
  TreeBuilder builder(types, tree, is_used);
  std::vector<Row> rows;
  for (size_t i = 0; i < match.clauses.size(); ++i) {
    Row row{i, {}, {}};
    builder.Require(row, 0, match.clauses[i].pattern);
    rows.push_back(std::move(row));
  }
  absl::StatusOr<std::unique_ptr<DecisionNode>> root = builder.Build(std::move(rows));
  if (!root.ok()) return root.status();
  tree.root = *std::move(root);
  return tree;
}

}  // namespace rvm::bytecode
