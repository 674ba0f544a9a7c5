// The order of effects before and after a pass.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/walk.h"
#include "compiler/passes/verify/verify_module.h"
#include "compiler/text/printer.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

struct Effect {
  std::string_view kind;
  ir::Span span;
  const Expr* node;
  bool operator==(const Effect& other) const { return kind == other.kind && span == other.span; }
};

// "" if evaluating `expr`, apart from its operands, has no effect.
std::string_view EffectKind(const Expr* expr) {
  switch (expr->expr_kind) {
    case ExprKind::kRefRead: return "read";
    case ExprKind::kRefWrite: return "write";
    case ExprKind::kMatch: return Cast<ir::Match>(expr)->is_complete ? "" : "match";
    case ExprKind::kCall: {
      const Expr* callee = Cast<ir::Call>(expr)->callee;
      bool is_pure =
          callee->expr_kind == ExprKind::kOp || callee->expr_kind == ExprKind::kConstructor || ir::IsPrimitive(callee);
      return is_pure ? "" : "call";
    }
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor:
    case ExprKind::kTuple:
    case ExprKind::kProject:
    case ExprKind::kFunction:
    case ExprKind::kLet:
    case ExprKind::kIf:
    case ExprKind::kRefCreate: return "";
  }
  return "";
}

// In the order of evaluation; those of branches and of function literals where these stand.
std::vector<Effect> EffectsOf(const Expr* body) {
  struct Item {
    const Expr* expr;
    bool is_effect;  // else its parts come first
  };
  std::vector<Effect> effects;
  std::vector<Item> stack = {{body, false}};
  std::vector<const Expr*> parts;
  while (!stack.empty()) {
    Item item = stack.back();
    stack.pop_back();
    std::string_view kind = EffectKind(item.expr);
    if (item.is_effect) {
      effects.push_back({kind, item.expr->span, item.expr});
      continue;
    }
    parts.clear();
    ir::PushChildren(item.expr, parts);  // the first one last
    const auto* match = DynCast<ir::Match>(item.expr);
    if (!kind.empty() && match == nullptr) stack.push_back({item.expr, true});
    for (size_t i = 0; i < parts.size(); ++i) {
      // A match fails after its value and before its clauses.
      if (!kind.empty() && match != nullptr && i + 1 == parts.size()) stack.push_back({item.expr, true});
      stack.push_back({parts[i], false});
    }
  }
  return effects;
}

}  // namespace

std::vector<Finding> VerifyEffectOrder(const ir::Module& before, const ir::Module& after) {
  std::vector<Finding> findings;
  absl::flat_hash_map<std::string_view, const ir::Function*> old;
  for (const ir::GlobalFunction& global : before.functions) old[global.name] = global.function;
  for (const ir::GlobalFunction& global : after.functions) {
    auto found = old.find(global.name);
    if (found == old.end()) continue;
    std::vector<Effect> expected = EffectsOf(found->second->body);
    auto next = expected.begin();
    for (const Effect& effect : EffectsOf(global.function->body)) {
      next = std::find(next, expected.end(), effect);
      if (next == expected.end()) {
        findings.push_back({global.name, effect.node, "the pass moved or added this effect"});
        break;
      }
      ++next;
    }
  }
  return findings;
}

std::string FindingToString(const Finding& finding, const diagnostics::SourceMap& sources) {
  constexpr size_t kMaxText = 200;
  std::string text = absl::StrCat("in `@", finding.function, "`");
  if (finding.node != nullptr) {
    const ir::Span& span = finding.node->span;
    if (span.valid()) {
      absl::StrAppend(&text, ", ", sources.PlaceText(span));
    }
    std::string node = text::PrintExpr(finding.node);
    if (node.size() > kMaxText) node = node.substr(0, kMaxText) + "...";
    absl::StrAppend(&text, ", `", node, "`");
  }
  return absl::StrCat(text, ": ", finding.message);
}

}  // namespace rvm::passes
