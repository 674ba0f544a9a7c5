#include "compiler/import/torch/expression.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/torch/expression_reader.h"

namespace rvm::torch {
namespace {

constexpr int kMaxDepth = 50;
constexpr std::string_view kSymbolPrefix = "Symbol('";

std::optional<Dim> Fold(std::string_view function, const std::vector<Dim>& args) {
  if (args.empty()) return std::nullopt;
  auto all = [&](auto combine) {
    Dim result = args[0];
    for (size_t i = 1; i < args.size(); ++i) result = combine(result, args[i]);
    return std::optional(result);
  };
  if (function == "Add") return all([](const Dim& a, const Dim& b) { return a + b; });
  if (function == "Mul") return all([](const Dim& a, const Dim& b) { return a * b; });
  if (function == "Max") return all([](const Dim& a, const Dim& b) { return Max(a, b); });
  if (function == "Min") return all([](const Dim& a, const Dim& b) { return Min(a, b); });
  if (args.size() != 2) return std::nullopt;
  if (function == "Pow" || function == "PowByNatural") {
    if (!args[1].is_const() || args[1].constant() < 1 || args[1].constant() > 4) return std::nullopt;
    Dim power = args[0];
    for (int64_t i = 1; i < args[1].constant(); ++i) power = power * args[0];
    return power;
  }
  bool divides = args[1].is_const() && args[1].constant() > 0;
  if (!divides) return std::nullopt;
  if (function == "FloorDiv" || function == "CleanDiv") return FloorDiv(args[0], args[1]);
  if (function == "Mod" || function == "PythonMod") return FloorMod(args[0], args[1]);
  if (function == "CeilDiv") return FloorDiv(args[0] + (args[1] - 1), args[1]);
  return std::nullopt;
}

std::optional<Dim> ParseSympy(ExpressionReader& reader, const DimOfName& symbol, int depth) {
  if (depth > kMaxDepth) return std::nullopt;
  std::string_view function = reader.Word();
  if (!reader.Take("(")) return std::nullopt;
  if (function == "Symbol") {
    if (!reader.Take("'")) return std::nullopt;
    std::optional<std::string_view> name = reader.Until('\'');
    if (!name || !reader.Until(')')) return std::nullopt;
    return symbol(*name);
  }
  if (function == "Integer") {
    std::optional<int64_t> number = reader.Number();
    return number && reader.Take(")") ? std::optional(Dim(*number)) : std::nullopt;
  }
  std::vector<Dim> args;
  while (!reader.Take(")")) {
    if (!args.empty() && !reader.Take(",")) return std::nullopt;
    std::optional<Dim> arg = ParseSympy(reader, symbol, depth + 1);
    if (!arg) return std::nullopt;
    args.push_back(*std::move(arg));
  }
  return Fold(function, args);
}

}  // namespace

std::string_view PlainSymbol(std::string_view expression) {
  if (!expression.starts_with(kSymbolPrefix)) return "";
  expression.remove_prefix(kSymbolPrefix.size());
  size_t quote = expression.find('\'');
  if (quote == std::string_view::npos || expression.find(')') != expression.size() - 1) return "";
  return expression.substr(0, quote);
}

std::optional<Dim> ParseExtent(std::string_view text, const DimOfName& symbol) {
  if (text.size() > kMaxExpressionText) return std::nullopt;
  ExpressionReader reader(text);
  std::optional<Dim> dim = ParseSympy(reader, symbol, 0);
  return dim && reader.AtEnd() ? dim : std::nullopt;
}

}  // namespace rvm::torch
