#include "compiler/import/torch/expression.h"

#include <cctype>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace rvm::torch {
namespace {

constexpr int kMaxDepth = 50;
constexpr size_t kMaxText = 4096;

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

// Reads a text from its front.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool Take(std::string_view token) {
    SkipSpace();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }
  std::optional<int64_t> Number() {
    SkipSpace();
    int64_t value = 0;
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  std::string_view Word() {
    SkipSpace();
    size_t size = 0;
    while (size < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[size])) || rest_[size] == '_')) ++size;
    std::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return word;
  }
  // The text up to `end`, which is taken, too.
  std::optional<std::string_view> Until(char end) {
    size_t at = rest_.find(end);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view text = rest_.substr(0, at);
    rest_.remove_prefix(at + 1);
    return text;
  }

 private:
  void SkipSpace() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

std::optional<Dim> ParseSympy(Reader& reader, const DimOfName& symbol, int depth) {
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

// Sums and products in Python, as guards have them.
class GuardParser {
 public:
  GuardParser(std::string_view text, const DimOfAxis& axis) : reader_(text), axis_(axis) {}

  std::optional<Comparison> Parse() {
    using Kind = Comparison::Kind;
    std::optional<Dim> lhs = Sum(0);
    if (!lhs) return std::nullopt;
    constexpr std::pair<std::string_view, Kind> kOperators[] = {{"==", Kind::kEqual},        {"!=", Kind::kNotEqual},
                                                                {"<=", Kind::kLessEqual},    {"<", Kind::kLess},
                                                                {">=", Kind::kGreaterEqual}, {">", Kind::kGreater}};
    for (const auto& [token, kind] : kOperators) {
      if (!reader_.Take(token)) continue;
      std::optional<Dim> rhs = Sum(0);
      return rhs && reader_.AtEnd() ? std::optional(Comparison{kind, *lhs, *rhs}) : std::nullopt;
    }
    return std::nullopt;
  }

 private:
  std::optional<Dim> Sum(int depth) {
    std::optional<Dim> sum = Product(depth);
    while (sum) {
      bool adds = reader_.Take("+");
      if (!adds && !reader_.Take("-")) break;
      std::optional<Dim> more = Product(depth);
      sum = !more ? std::nullopt : std::optional(adds ? *sum + *more : *sum - *more);
    }
    return sum;
  }

  std::optional<Dim> Product(int depth) {
    std::optional<Dim> product = Factor(depth);
    while (product) {
      std::string_view function = reader_.Take("*") ? "Mul" : reader_.Take("//") ? "FloorDiv" : "";
      if (function.empty() && reader_.Take("%")) function = "Mod";
      if (function.empty()) break;
      std::optional<Dim> factor = Factor(depth);
      product = factor ? Fold(function, {*product, *factor}) : std::nullopt;
    }
    return product;
  }

  std::optional<Dim> Factor(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (reader_.Take("(")) {
      std::optional<Dim> inner = Sum(depth + 1);
      return inner && reader_.Take(")") ? inner : std::nullopt;
    }
    if (reader_.Take("L['")) {
      std::optional<std::string_view> input = reader_.Until('\'');
      if (!input || !reader_.Take("].size()[")) return std::nullopt;
      std::optional<int64_t> number = reader_.Number();
      return number && reader_.Take("]") ? axis_(*input, *number) : std::nullopt;
    }
    std::optional<int64_t> number = reader_.Number();
    return number ? std::optional(Dim(*number)) : std::nullopt;
  }

  Reader reader_;
  const DimOfAxis& axis_;
};

}  // namespace

std::optional<Dim> ParseExtent(std::string_view text, const DimOfName& symbol) {
  if (text.size() > kMaxText) return std::nullopt;
  Reader reader(text);
  std::optional<Dim> dim = ParseSympy(reader, symbol, 0);
  return dim && reader.AtEnd() ? dim : std::nullopt;
}

std::optional<Comparison> ParseGuard(std::string_view text, const DimOfAxis& axis) {
  if (text.size() > kMaxText) return std::nullopt;
  return GuardParser(text, axis).Parse();
}

}  // namespace rvm::torch
