#include "compiler/import/stablehlo/order.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/checks.h"
#include "compiler/import/stablehlo/bodies.h"
#include "compiler/import/stablehlo/importer.h"
#include "compiler/import/term.h"

namespace rvm::stablehlo {
namespace {

using importing::Term;

// Greatest number of rows that are ordered by comparing all pairs.
constexpr int64_t kMaxCompared = 1024;
constexpr int64_t kTotalOrder = 2;  // of the types of comparisons
constexpr int kEqual = 0, kGreater = 3, kLess = 5;

// A key of a lexicographic order: a value of the comparator that depends on the first element alone.
struct Key {
  int32_t value;
  bool is_descending;
  bool is_total;  // floats are ordered with NaN and -0
};

// The form of a comparator: which operation gives each value.
class Comparator {
 public:
  explicit Comparator(const Block& body) : body_(body) {
    for (const Operation& op : body.operations) {
      for (int32_t result : op.results) makers_.emplace(result, &op);
    }
  }

  // Returns the keys, the most significant first, if the comparator is `a < b`, or `a < b or (a == b and ...)` of
  // values that are computed of both sides in one way; nullopt for other comparators.
  std::optional<std::vector<Key>> Keys() const {
    if (body_.operations.empty() || body_.operations.back().operands.size() != 1) return std::nullopt;
    std::vector<Key> keys;
    int32_t value = body_.operations.back().operands[0];
    while (true) {
      if (const std::optional<Key> key = AsKey(value, kLess, kGreater)) {
        keys.push_back(*key);
        return keys;
      }
      const Operation *either = Maker(value, "or"),
                      *both = either == nullptr ? nullptr : Maker(either->operands[1], "and");
      if (both == nullptr || keys.size() > 16) return std::nullopt;
      const std::optional<Key> key = AsKey(either->operands[0], kLess, kGreater),
                               same = AsKey(both->operands[0], kEqual, kEqual);
      if (!key || !same || key->value != same->value) return std::nullopt;
      keys.push_back(*key);
      value = both->operands[1];
    }
  }

 private:
  const Operation* Maker(int32_t value, std::string_view name) const {
    const auto found = makers_.find(value);
    const bool fits = found != makers_.end() && found->second->name == name && found->second->operands.size() == 2;
    return fits ? found->second : nullptr;
  }

  // Returns whether `value` compares f(a) with f(b) in one of two directions; the second is descending.
  std::optional<Key> AsKey(int32_t value, int64_t ascending, int64_t descending) const {
    const Operation* compare = Maker(value, "compare");
    const Attribute* direction = compare == nullptr ? nullptr : compare->Find("comparison_direction");
    if (direction == nullptr || (direction->integer != ascending && direction->integer != descending))
      return std::nullopt;
    const std::string left = Text(compare->operands[0], 0, 0), right = Text(compare->operands[1], 1, 0);
    if (left.empty() || left != right) return std::nullopt;
    const Attribute* type = compare->Find("compare_type");
    return Key{compare->operands[0], direction->integer != ascending, type != nullptr && type->integer == kTotalOrder};
  }

  // Returns a text of the steps that compute a value, with argument number 2 i + side of the comparator as `i`; "" if
  // they read the other side.
  std::string Text(int32_t value, size_t side, int depth) const {
    const auto argument = std::ranges::find(body_.arguments, value);
    if (argument != body_.arguments.end()) {
      const auto number = static_cast<size_t>(argument - body_.arguments.begin());
      return number % 2 == side ? absl::StrCat("#", number / 2) : "";
    }
    const auto found = makers_.find(value);
    if (found == makers_.end()) return absl::StrCat("v", value);  // of the outside
    const Operation& op = *found->second;
    if (!op.regions.empty() || op.results.size() != 1 || depth > 8) return "";
    if (op.operands.empty()) return absl::StrCat("v", value);
    std::string text = absl::StrCat(Abseil(op.name), "(");
    if (const Attribute* direction = op.Find("comparison_direction")) absl::StrAppend(&text, direction->integer, ",");
    for (int32_t operand : op.operands) {
      const std::string part = Text(operand, side, depth + 1);
      if (part.empty() || text.size() > 4096) return "";
      absl::StrAppend(&text, part, ",");
    }
    return text + ")";
  }

  const Block& body_;
  absl::flat_hash_map<int32_t, const Operation*> makers_;
};

Operand InOrder(NodeContext& c, Operand x, Operand order, int64_t axis) {
  return c.Op("gather", {x, order}, {{"axis", axis}});
}

// Returns the order of rows by keys: stable sorts from the least significant one on.
Operand OrderByKeys(NodeContext& c, const std::vector<Key>& keys, int64_t axis) {
  Operands sides;
  for (size_t i = 0; i < c.num_inputs(); ++i) sides.insert(sides.end(), {c.In(i), c.In(i)});
  std::vector<int32_t> numbers;
  for (const Key& key : keys) numbers.push_back(key.value);
  const Operands values = c.ValuesOnTensors(0, sides, numbers);
  if (c.failed() || values.size() != keys.size()) return c.emit().Placeholder();
  Operand order = nullptr;
  for (size_t i = keys.size(); i-- > 0;) {
    // Zeros of both signs are equal where floats are compared by value.
    const bool has_zeros = !keys[i].is_total && c.DTypeOf(values[i]).is_float();
    Operand key = TotalOrderKey(c, has_zeros ? c.Add(values[i], c.Number(0, values[i])) : values[i]);
    // The complement of integers has their order reversed, and equal ones stay in order.
    if (keys[i].is_descending) key = c.Op("bitwise_not", {key});
    if (order != nullptr) key = InOrder(c, key, order, axis);
    Operand next = c.Op("argsort", {key}, {{"axis", axis}, {"dtype", "int64"}});
    order = order == nullptr ? next : InOrder(c, order, next, axis);
  }
  return order;
}

// Returns the order of rows by any comparator: the place of a row is the number of those that come before it.
Operand OrderByPairs(NodeContext& c, int64_t axis) {
  const std::optional<int64_t> count = importing::KnownExtent(c, c.In(0), axis, "operand");
  if (!count) return c.emit().Placeholder();
  if (*count > kMaxCompared) {
    return c.Unsupported(absl::StrCat("a sort of ", *count, " elements by a comparator that is no order of keys"));
  }
  // Each element along `axis` against each along the axis behind it.
  Operands forward, backward;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    Operand mine = c.Unsqueeze(c.In(i), {axis + 1}), others = c.Unsqueeze(c.In(i), {axis});
    forward.insert(forward.end(), {others, mine});
    backward.insert(backward.end(), {mine, others});
  }
  const Operands is_before = c.OnTensors(0, forward), is_behind = c.OnTensors(0, backward);
  if (c.failed() || is_before.size() != 1 || is_behind.size() != 1) return c.emit().Placeholder();
  const int64_t pairs = c.RankOf(c.In(0)) + 1;
  if (c.RankOf(is_before[0]) != pairs || c.RankOf(is_behind[0]) != pairs) {
    return c.Unsupported("a comparator that compares no elements");
  }
  Operand numbers = c.Iota(*count);
  Dims along(static_cast<size_t>(c.RankOf(is_before[0])), Dim(1)), across = along;
  along[static_cast<size_t>(axis)] = *count;
  across[static_cast<size_t>(axis) + 1] = *count;
  const Term mine(c, c.Reshape(numbers, along)), others(c, c.Reshape(numbers, across));
  const Term comes_first = Or(Term(c, is_before[0]), And(Not(Term(c, is_behind[0])), others < mine));
  Operand places = c.Op("sum", {c.Cast(comes_first, kInt64)}, {{"axis", ir::IntList({{axis + 1}})}});
  return c.Op("argsort", {c.BroadcastTo(places, c.DimsOf(c.In(0)))}, {{"axis", axis}, {"dtype", "int64"}});
}

Operands Sort(NodeContext& c) {
  const int64_t axis = c.num_inputs() == 0 ? 0 : c.Axis(c.Int("dimension", -1), c.RankOf(c.In(0)));
  if (c.failed()) return {};
  if (c.num_regions() != 1 || c.num_inputs() == 0) return {c.Fail("it has not operands and a comparator")};
  if (c.op().regions[0].arguments.size() != 2 * c.num_inputs())
    return {c.Fail("its comparator does not fit its operands")};
  const std::optional<std::vector<Key>> keys = Comparator(c.op().regions[0]).Keys();
  Operand order = keys ? OrderByKeys(c, *keys, axis) : OrderByPairs(c, axis);
  Operands results;
  for (size_t i = 0; i < c.num_inputs() && !c.failed(); ++i) results.push_back(InOrder(c, c.In(i), order, axis));
  return results;
}

}  // namespace

// The results say how many elements that is: without `aggregate_to_topk` JAX expects more than k.
Operands ApproxTopK(NodeContext& c) {
  const Attribute *config = c.op().Find("mhlo.backend_config"), *called = c.op().Find("called_computations");
  const Attribute* axis_of = config == nullptr ? nullptr : config->Find("reduction_dim");
  const bool has_comparator = called != nullptr && called->elements.size() == 1;
  const Operation* comparator = has_comparator ? c.module().FindFunction(called->elements[0]->text) : nullptr;
  if (axis_of == nullptr || comparator == nullptr || comparator->regions.empty() || c.num_inputs() != 4) {
    return {c.Unsupported("it has not one tensor, its indices, their initial values, an axis and a comparator")};
  }
  const Block& body = comparator->regions[0];
  const std::optional<std::vector<Key>> keys = Comparator(body).Keys();
  const bool is_plain = keys && keys->size() == 1 && !body.arguments.empty() && (*keys)[0].value == body.arguments[0];
  if (!is_plain) return {c.Unsupported("a comparator that is not the order of the elements")};
  const int64_t axis = c.Axis(axis_of->integer, c.RankOf(c.In(0)));
  const Dims dims = c.ResultDims(0);
  if (c.failed() || std::cmp_greater_equal(axis, dims.size())) return {};
  const std::optional<int64_t> count = dims[static_cast<size_t>(axis)].AsConst();
  if (!count) return {c.Unsupported("a number of elements that only the running program knows")};
  Operand order = c.Op("topk", {c.In(0)},
                       {{"k", *count},
                        {"axis", axis},
                        {"ret_type", "indices"},
                        {"is_ascend", !(*keys)[0].is_descending},
                        {"dtype", "int64"},
                        {"exact", true}});
  return {InOrder(c, c.In(0), order, axis), InOrder(c, c.In(1), order, axis)};
}

namespace {

constexpr OperatorRow kRows[] = {
    {"sort", Sort},
};

}  // namespace

std::span<const OperatorRow> OrderOperators() { return kRows; }

}  // namespace rvm::stablehlo
