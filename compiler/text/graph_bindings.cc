#include "compiler/text/graph_bindings.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "compiler/analysis/free_vars.h"
#include "compiler/ir/walk.h"

namespace rvm::text {
namespace {

using ir::DynCast;

struct Block;

// The position before statement `index` of `block`; the block's value counts as its last statement.
struct Place {
  Block* block = nullptr;
  size_t index = 0;
};

// A chain of lets, or an expression before which lets can be inserted. The value of a binding to be moved is a separate
// block; it has no enclosing block until the binding is placed.
struct Block {
  Place around;
  ir::Expr** root = nullptr;  // null for the value of a binding to be moved
  std::vector<ir::Let*> lets;
  std::vector<std::vector<ir::Let*>> moved_here;  // before each statement
};

class Placement {
 public:
  explicit Placement(ir::Function& function) : function_(function) {}

  void Run(const std::vector<ir::Var*>& vars) {
    FindMoving(vars);
    MakeBlocks();
    // The uses of a binding may be in the values of later bindings, so later bindings are placed first.
    std::vector<ir::Let*> order;
    for (const auto& [var, let] : moving_) order.push_back(let);
    std::sort(order.begin(), order.end(), [](const ir::Let* a, const ir::Let* b) {
      return a->span.end != b->span.end ? a->span.end > b->span.end : a->var->id > b->var->id;
    });
    for (ir::Let* let : order) MoveToUses(*let);
    for (const std::unique_ptr<Block>& block : blocks_) Relink(*block);
  }

 private:
  void FindMoving(const std::vector<ir::Var*>& vars) {
    absl::flat_hash_map<const ir::Var*, ir::Let*> graph_lets;
    std::vector<ir::Expr*> open = {function_.body};
    while (!open.empty()) {
      ir::Expr* expr = open.back();
      open.pop_back();
      if (auto* let = DynCast<ir::Let>(expr); let != nullptr && IsGraphVar(let->var)) graph_lets[let->var] = let;
      ir::ForEachChild(expr, [&](ir::Expr*& child) { open.push_back(child); });
    }
    std::vector<const ir::Var*> pending(vars.begin(), vars.end());
    while (!pending.empty()) {
      auto let = graph_lets.find(pending.back());
      pending.pop_back();
      if (let == graph_lets.end() || !moving_.emplace(let->first, let->second).second) continue;
      ir::ForEachExpr(let->second->value, [&](const ir::Expr* expr) {
        if (const auto* use = DynCast<ir::VarExpr>(expr); use != nullptr && IsGraphVar(use->var)) {
          pending.push_back(use->var);
        }
        return true;
      });
    }
  }

  Block* NewBlock(ir::Expr** root, Place around) {
    blocks_.push_back(std::make_unique<Block>());
    blocks_.back()->root = root;
    blocks_.back()->around = around;
    return blocks_.back().get();
  }

  struct Item {
    ir::Expr** expr;
    Place place;
    bool starts_block;
  };

  void MakeBlocks() {
    std::vector<Item> open = {{&function_.body, {}, true}};
    while (!open.empty()) {
      Item item = open.back();
      open.pop_back();
      if (item.starts_block || DynCast<ir::Let>(*item.expr) != nullptr) {
        MakeBlock(item, open);
      } else {
        Visit(*item.expr, item.place, open);
      }
    }
  }

  void MakeBlock(const Item& item, std::vector<Item>& open) {
    Block* block = NewBlock(item.expr, item.place);
    ir::Expr** next = item.expr;
    for (auto* let = DynCast<ir::Let>(*next); let != nullptr; let = DynCast<ir::Let>(*next)) {
      next = &let->body;
      if (moving_.contains(let->var)) {
        Block* value = NewBlock(nullptr, {});
        values_[let->var] = value;
        open.push_back({&let->value, {value, 0}, false});
      } else {
        open.push_back({&let->value, {block, block->lets.size()}, false});
        block->lets.push_back(let);
      }
    }
    ir::Expr* result = *next;
    Visit(result, {block, block->lets.size()}, open);
    block->moved_here.resize(block->lets.size() + 1);
    results_[block] = result;
  }

  void Visit(ir::Expr* expr, Place place, std::vector<Item>& open) {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      if (moving_.contains(use->var)) uses_[use->var].push_back(place);
      return;
    }
    const auto* branch = DynCast<ir::If>(expr);
    const auto* match = DynCast<ir::Match>(expr);
    bool is_function = expr->expr_kind == ir::ExprKind::kFunction;
    ir::ForEachChild(expr, [&](ir::Expr*& child) {
      bool is_branch = branch != nullptr && &child != &branch->condition;
      bool is_clause = match != nullptr && &child != &match->value;
      open.push_back({&child, place, is_function || is_branch || is_clause});
    });
  }

  void MoveToUses(ir::Let& let) {
    Block* value = values_[let.var];
    std::optional<Place> place;
    for (const Place& use : uses_[let.var]) {
      if (IsInside(use, value)) continue;  // a function that calls itself
      place = place ? Common(*place, use) : use;
    }
    if (!place) return;
    while (place->block->root == nullptr) *place = place->block->around;
    place->block->moved_here[place->index].push_back(&let);
    value->around = *place;
  }

  static bool IsInside(Place place, const Block* block) {
    while (place.block != nullptr && place.block != block) place = place.block->around;
    return place.block != nullptr;
  }

  // The last place in the innermost common block that precedes both.
  static Place Common(Place a, Place b) {
    absl::flat_hash_map<const Block*, size_t> around_a;
    for (; a.block != nullptr; a = a.block->around) around_a.emplace(a.block, a.index);
    for (; b.block != nullptr; b = b.block->around) {
      if (auto found = around_a.find(b.block); found != around_a.end()) {
        return {b.block, std::min(b.index, found->second)};
      }
    }
    RVM_CHECK(false, "uses of a graph binding in no common block");
    return {};
  }

  void Relink(Block& block) {
    if (block.root == nullptr) return;
    ir::Expr** end = block.root;
    auto append = [&](ir::Let* let) {
      *end = let;
      end = &let->body;
    };
    for (size_t i = 0; i <= block.lets.size(); ++i) {
      // Bindings were moved last definition first, so this restores the order of the source.
      std::for_each(block.moved_here[i].rbegin(), block.moved_here[i].rend(), append);
      if (i < block.lets.size()) append(block.lets[i]);
    }
    *end = results_[&block];
  }

  ir::Function& function_;
  absl::flat_hash_map<const ir::Var*, ir::Let*> moving_;
  absl::flat_hash_map<const ir::Var*, Block*> values_;
  absl::flat_hash_map<const ir::Var*, std::vector<Place>> uses_;
  absl::flat_hash_map<const Block*, ir::Expr*> results_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

// Finds uses of variables outside the scope of their binding.
class ScopeCheck {
 public:
  explicit ScopeCheck(const ir::Function& function) { Enter(&function); }

  // Returns the first such use, or null. `free`: variables that the function does not bind.
  const ir::VarExpr* FindFault(const absl::flat_hash_set<const ir::Var*>& free) {
    while (!open_.empty()) {
      Step step = open_.back();
      open_.pop_back();
      for (const ir::Var* var : step.ends) in_scope_.erase(var);
      if (step.expr == nullptr) continue;
      for (const ir::Var* var : step.begins) in_scope_.insert(var);
      if (const auto* use = DynCast<ir::VarExpr>(step.expr)) {
        if (!in_scope_.contains(use->var) && !free.contains(use->var)) return use;
      } else {
        Enter(step.expr);
      }
    }
    return nullptr;
  }

 private:
  struct Step {
    const ir::Expr* expr = nullptr;           // null: only ends scopes
    std::vector<const ir::Var*> begins = {};  // variables whose scopes begin before `expr`
    std::vector<const ir::Var*> ends = {};    // variables whose scopes end here
  };

  // Visits `expr` with `vars` in scope.
  void PushScope(const ir::Expr* expr, const std::vector<const ir::Var*>& vars) {
    open_.push_back({nullptr, {}, vars});
    open_.push_back({expr, vars, {}});
  }

  static void AddPatternVars(const ir::Pattern* root, std::vector<const ir::Var*>& vars) {
    std::vector<const ir::Pattern*> open = {root};
    while (!open.empty()) {
      const ir::Pattern* pattern = open.back();
      open.pop_back();
      if (pattern->var != nullptr) vars.push_back(pattern->var);
      open.insert(open.end(), pattern->fields.begin(), pattern->fields.end());
    }
  }

  void Enter(const ir::Expr* expr) {
    if (const auto* function = DynCast<ir::Function>(expr)) {
      PushScope(function->body, {function->params.begin(), function->params.end()});
    } else if (const auto* let = DynCast<ir::Let>(expr)) {
      bool is_recursive = let->value->expr_kind == ir::ExprKind::kFunction;
      PushScope(let->body, {let->var});
      is_recursive ? PushScope(let->value, {let->var}) : open_.push_back({let->value});
    } else if (const auto* match = DynCast<ir::Match>(expr)) {
      for (const ir::Clause& clause : match->clauses) {
        std::vector<const ir::Var*> vars;
        AddPatternVars(clause.pattern, vars);
        PushScope(clause.body, vars);
      }
      open_.push_back({match->value});
    } else {
      std::vector<const ir::Expr*> children;
      ir::PushChildren(expr, children);
      for (const ir::Expr* child : children) open_.push_back({child});
    }
  }

  std::vector<Step> open_;
  absl::flat_hash_set<const ir::Var*> in_scope_;
};

}  // namespace

bool IsGraphVar(const ir::Var* var) {
  return !var->name.empty() && absl::ascii_isdigit(static_cast<unsigned char>(var->name[0]));
}

bool PlaceGraphBindings(ir::Function& function, const std::vector<ir::Var*>& vars,
                        diagnostics::Diagnostics& diagnostics) {
  std::vector<ir::Var*> free = analysis::FreeVars(&function);
  Placement(function).Run(vars);
  const ir::VarExpr* fault = ScopeCheck(function).FindFault({free.begin(), free.end()});
  if (fault == nullptr) return true;
  diagnostics
      .Error(fault->span, diagnostics::DiagnosticKind::kVariableOutOfScope,
             absl::StrCat("a graph binding that needs `%", fault->var->name, "` is used where that is not in scope"))
      .AddNote(fault->var->span, "it is bound here");
  return false;
}

}  // namespace rvm::text
