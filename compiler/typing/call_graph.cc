#include "compiler/typing/call_graph.h"

#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/walk.h"

namespace rvm::typing {
std::vector<size_t> CalleesFirst(const ir::Module& module) {
  absl::flat_hash_map<std::string_view, size_t> index;
  for (size_t i = 0; i < module.functions.size(); ++i) index.emplace(module.functions[i].name, i);
  std::vector<std::vector<size_t>> callees(module.functions.size());
  for (size_t i = 0; i < module.functions.size(); ++i) {
    ir::ForEachExpr(module.functions[i].function->body, [&](const ir::Expr* expr) {
      const auto* global = ir::DynCast<ir::GlobalExpr>(expr);
      auto found = global == nullptr ? index.end() : index.find(global->name);
      if (found != index.end()) callees[i].push_back(found->second);
      return true;
    });
  }
  // Depth first, a function behind its callees; a call back into the path is left out, so the
  // order within a cycle depends on where it was entered.
  std::vector<size_t> order;
  std::vector<bool> seen(module.functions.size());
  std::vector<std::pair<size_t, size_t>> path;  // a function and how many callees were visited
  for (size_t root = 0; root < module.functions.size(); ++root) {
    if (!seen[root]) path.emplace_back(root, 0);
    seen[root] = true;
    while (!path.empty()) {
      auto& [function, next] = path.back();
      if (next == callees[function].size()) {
        order.push_back(function);
        path.pop_back();
        continue;
      }
      size_t callee = callees[function][next++];
      if (seen[callee]) continue;
      seen[callee] = true;
      path.emplace_back(callee, 0);
    }
  }
  return order;
}

}  // namespace rvm::typing
