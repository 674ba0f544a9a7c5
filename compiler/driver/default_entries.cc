#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/driver/compile.h"
#include "compiler/ir/walk.h"

namespace rvm::driver {
namespace {

bool IsPolymorphic(const ir::Function& function) { return OpenTypeParam(function) != nullptr; }

std::vector<std::string_view> MentionsIn(const ir::GlobalFunction& global) {
  std::vector<std::string_view> mentioned;
  ir::ForEachExpr(global.function->body, [&](const ir::Expr* expr) {
    const auto* callee = ir::DynCast<ir::GlobalExpr>(expr);
    if (callee != nullptr && callee->name != global.name) mentioned.push_back(callee->name);
    return true;
  });
  return mentioned;
}

using Mentions = absl::flat_hash_map<std::string_view, std::vector<std::string_view>>;

void Reach(std::string_view from, const Mentions& mentions, absl::flat_hash_set<std::string_view>& reached) {
  std::vector<std::string_view> open = {from};
  while (!open.empty()) {
    std::string_view name = open.back();
    open.pop_back();
    if (!reached.insert(name).second) continue;
    auto it = mentions.find(name);
    if (it != mentions.end()) open.insert(open.end(), it->second.begin(), it->second.end());
  }
}

}  // namespace

const ir::TypeParam* OpenTypeParam(const ir::Function& function) {
  for (const ir::TypeParam* param : function.type_params) {
    if (param->kind != ir::Kind::kShapeVar) return param;
  }
  return nullptr;
}

std::vector<std::string> DefaultEntries(const ir::Module& module) {
  Mentions mentions;
  absl::flat_hash_set<std::string_view> mentioned, reached;
  for (const ir::GlobalFunction& global : module.functions) {
    std::vector<std::string_view>& names = mentions[global.name];
    names = MentionsIn(global);
    mentioned.insert(names.begin(), names.end());
  }
  absl::flat_hash_set<std::string_view> chosen;
  auto choose = [&](const ir::GlobalFunction& global) {
    chosen.insert(global.name);
    Reach(global.name, mentions, reached);
  };
  for (const ir::GlobalFunction& global : module.functions) {
    bool is_root = global.name == "main" || !mentioned.contains(global.name);
    if (is_root && !IsPolymorphic(*global.function)) choose(global);
  }
  // The rest are cycles, or are called by polymorphic functions only.
  for (const ir::GlobalFunction& global : module.functions) {
    if (!reached.contains(global.name) && !IsPolymorphic(*global.function)) choose(global);
  }
  std::vector<std::string> entries;
  for (const ir::GlobalFunction& global : module.functions) {
    if (chosen.contains(global.name)) entries.push_back(global.name);
  }
  return entries;
}

}  // namespace rvm::driver
