#include "absl/container/flat_hash_set.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/expr_children.h"

namespace rvm::driver {
namespace {

// Dims may stay open in an executable; types, shapes and dtypes may not.
bool IsPolymorphic(const ir::Function& function) {
  for (const ir::TypeParam* param : function.type_params) {
    if (param->kind != ir::Kind::kShapeVar) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> DefaultEntries(const ir::Module& module) {
  absl::flat_hash_set<std::string_view> mentioned;
  for (const ir::GlobalFunction& global : module.functions) {
    std::vector<ir::Expr**> places = {&global.function->body};
    while (!places.empty()) {
      ir::Expr* expr = *places.back();
      places.pop_back();
      const auto* callee = ir::DynCast<ir::GlobalExpr>(expr);
      if (callee != nullptr && callee->name != global.name) mentioned.insert(callee->name);
      AppendChildren(expr, places);
    }
  }
  std::vector<std::string> entries, monomorphic;
  for (const ir::GlobalFunction& global : module.functions) {
    if (IsPolymorphic(*global.function)) continue;
    monomorphic.push_back(global.name);
    if (global.name == "main" || !mentioned.contains(global.name)) entries.push_back(global.name);
  }
  return entries.empty() ? monomorphic : entries;
}

}  // namespace rvm::driver
