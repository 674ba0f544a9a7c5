#include "compiler/passes/workers.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace rvm::passes {

Workers NameWorkers(const ir::Module& module, const std::vector<std::string>& entries,
                    absl::FunctionRef<bool(std::string_view)> changes) {
  absl::flat_hash_set<std::string> names;
  for (const ir::GlobalFunction& global : module.functions) names.insert(global.name);
  Workers workers;
  for (const std::string& entry : entries) {
    if (!changes(entry) || workers.contains(entry)) continue;
    std::string base = absl::StrCat(entry, ".worker"), name = base;
    for (int i = 1; !names.insert(name).second; ++i) name = absl::StrCat(base, "_", i);
    workers[entry] = name;
  }
  return workers;
}

}  // namespace rvm::passes
