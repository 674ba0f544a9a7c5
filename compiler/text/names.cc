#include "compiler/text/names.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::text {
namespace {

template <typename Map>
std::vector<std::string_view> Keys(const Map& first, const Map& second) {
  std::vector<std::string_view> keys;
  for (const auto& [name, value] : first) keys.push_back(name);
  for (const auto& [name, value] : second) keys.push_back(name);
  return keys;
}

}  // namespace

bool Names::IsOfPrelude(std::string_view& name) const {
  bool has_prefix = name.starts_with(kPreludePrefix);
  if (has_prefix) name.remove_prefix(kPreludePrefix.size());
  return has_prefix || in_prelude_;
}

std::string Names::FunctionNameInModule(std::string_view name) const {
  bool is_taken = !prefix_.empty() || program_.functions.contains(Abseil(name));
  if (in_prelude_) return absl::StrCat(is_taken ? Abseil(kPreludePrefix) : "", Abseil(name));
  if (prefix_.empty() || name.starts_with(kPreludePrefix)) return std::string(name);
  return name == "main" ? prefix_ : absl::StrCat(prefix_, ".", Abseil(name));
}

std::string Names::TypeNameInModule(std::string_view name) const {
  bool is_taken = !prefix_.empty() || program_.types.contains(Abseil(name));
  if (in_prelude_) return absl::StrCat(is_taken ? Abseil(kPreludePrefix) : "", Abseil(name));
  if (prefix_.empty() || name.starts_with(kPreludePrefix)) return std::string(name);
  return absl::StrCat(prefix_, ".", Abseil(name));
}

const Names::Function* Names::ImportFunction(std::string_view name, std::string_view name_in_module, ir::Span span) {
  Scope& scope = IsOfPrelude(name) ? prelude_ : program_;
  auto [entry, is_new] = scope.functions.try_emplace(std::string(name), Function{std::string(name_in_module), span});
  return is_new ? nullptr : &entry->second;
}

const ir::AdtDef* Names::ImportType(std::string_view name, ir::AdtDef* adt) {
  bool is_of_prelude = IsOfPrelude(name);
  auto [entry, is_new] = (is_of_prelude ? prelude_ : program_).types.try_emplace(std::string(name), adt);
  if (!is_new) return entry->second;
  if (!is_of_prelude) return nullptr;
  for (ir::Constructor* constructor : adt->constructors)
    prelude_.constructors[constructor->name].push_back(constructor);
  return nullptr;
}

const ir::AdtDef* Names::UseTypeOfPrelude(std::string_view name, ir::AdtDef* adt) {
  auto [entry, is_new] = program_.types.try_emplace(std::string(name), adt);
  if (!is_new) return entry->second;
  for (ir::Constructor* constructor : adt->constructors)
    program_.constructors[constructor->name].push_back(constructor);
  return nullptr;
}

const Names::Function* Names::DefineFunction(std::string_view name, ir::Span span) {
  Function function{FunctionNameInModule(name), span};
  Scope& scope = IsOfPrelude(name) ? prelude_ : program_;
  auto [entry, is_new] = scope.functions.try_emplace(std::string(name), std::move(function));
  return is_new ? nullptr : &entry->second;
}

const ir::AdtDef* Names::DefineType(std::string_view name, ir::AdtDef* adt) {
  Scope& scope = IsOfPrelude(name) ? prelude_ : program_;
  if (&scope == &prelude_ && !in_prelude_) shared_.insert(adt);
  auto [entry, is_new] = scope.types.try_emplace(std::string(name), adt);
  return is_new ? nullptr : entry->second;
}

void Names::ShareWithPrelude(std::string_view name) {
  ir::AdtDef* adt = program_.types.at(Abseil(name));
  prelude_.types.try_emplace(std::string(name), adt);
  shared_.insert(adt);
}

void Names::DefineConstructor(ir::Constructor* constructor) {
  (in_prelude_ ? prelude_ : program_).constructors[constructor->name].push_back(constructor);
  if (shared_.contains(constructor->adt)) prelude_.constructors[constructor->name].push_back(constructor);
}

const Names::Function* Names::FindFunction(std::string_view name) const {
  bool is_of_prelude = IsOfPrelude(name);
  auto own = program_.functions.find(Abseil(name));
  if (!is_of_prelude && own != program_.functions.end()) return &own->second;
  auto found = prelude_.functions.find(Abseil(name));
  return found == prelude_.functions.end() ? nullptr : &found->second;
}

ir::AdtDef* Names::FindType(std::string_view name) const {
  bool is_of_prelude = IsOfPrelude(name);
  auto own = program_.types.find(Abseil(name));
  if (!is_of_prelude && own != program_.types.end()) return own->second;
  auto found = prelude_.types.find(Abseil(name));
  return found == prelude_.types.end() ? nullptr : found->second;
}

std::vector<ir::Constructor*> Names::FindConstructors(std::string_view name) const {
  auto own = program_.constructors.find(Abseil(name));
  if (!in_prelude_ && own != program_.constructors.end()) return own->second;
  auto found = prelude_.constructors.find(Abseil(name));
  if (found == prelude_.constructors.end()) return {};
  std::vector<ir::Constructor*> mentioned;
  for (ir::Constructor* constructor : found->second) {
    std::string_view type = constructor->adt->name;
    if (type.starts_with(kPreludePrefix)) type.remove_prefix(kPreludePrefix.size());
    if (!in_prelude_ && mentioned_.contains(Abseil(type))) mentioned.push_back(constructor);
  }
  // In the Prelude, and in a program that mentions none of the types, the name refers to the first one.
  if (mentioned.empty()) mentioned.push_back(found->second.front());
  return mentioned;
}

std::vector<std::string_view> Names::Functions() const { return Keys(program_.functions, prelude_.functions); }
std::vector<std::string_view> Names::Types() const { return Keys(program_.types, prelude_.types); }
std::vector<std::string_view> Names::Constructors() const { return Keys(program_.constructors, prelude_.constructors); }

}  // namespace rvm::text
