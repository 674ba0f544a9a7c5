#include "compiler/import/torch/script_schemas.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"

namespace rvm::torch {
namespace {

struct Row {
  std::string_view name, overload, arguments, results;
};
constexpr Row kRows[] = {
#define RVM_SCHEMA(name, overload, arguments, results) {name, overload, arguments, results},
#include "compiler/import/torch/schemas.def"
#undef RVM_SCHEMA
};

constexpr std::string_view kList = "[]";

bool RemoveSuffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

SchemaArgument ArgumentOf(std::string_view text) {
  SchemaArgument argument;
  argument.is_keyword = text.starts_with('*');
  if (argument.is_keyword) text.remove_prefix(1);
  argument.has_default = RemoveSuffix(text, "=");
  argument.is_optional = RemoveSuffix(text, "?");
  argument.is_list = RemoveSuffix(text, kList);
  size_t colon = text.find(':');
  argument.name = text.substr(0, colon);
  argument.type = text.substr(colon + 1);
  return argument;
}

Schema SchemaOf(const Row& row) {
  Schema schema;
  schema.overload = row.overload;
  for (std::string_view rest = row.arguments; !rest.empty();) {
    size_t end = std::min(rest.find(' '), rest.size());
    schema.arguments.push_back(ArgumentOf(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  for (std::string_view rest = row.results; !rest.empty();) {
    size_t size = rest.substr(1).starts_with(kList) ? 1 + kList.size() : 1;
    schema.results.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return schema;
}

bool IsOfNumbers(const Schema& schema) {
  return std::any_of(schema.arguments.begin(), schema.arguments.end(),
                     [](const SchemaArgument& argument) { return argument.type == "S"; });
}

}  // namespace

std::span<const Schema> FindSchemas(std::string_view name) {
  static const auto* const kSchemas = [] {
    auto* schemas = new absl::flat_hash_map<std::string_view, std::vector<Schema>>();
    for (const Row& row : kRows) (*schemas)[row.name].push_back(SchemaOf(row));
    for (auto& [operator_name, overloads] : *schemas) {
      std::stable_partition(overloads.begin(), overloads.end(), [](const Schema& s) { return !IsOfNumbers(s); });
    }
    return schemas;
  }();
  auto found = kSchemas->find(name);
  return found == kSchemas->end() ? std::span<const Schema>() : std::span<const Schema>(found->second);
}

}  // namespace rvm::torch
