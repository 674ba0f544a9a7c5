// Functions, branches and loops, and calls of what is not StableHLO.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/utf8.h"
#include "compiler/import/loops.h"
#include "compiler/import/stablehlo/importer.h"
#include "compiler/import/stablehlo/linalg.h"
#include "compiler/import/stablehlo/order.h"
#include "compiler/import/stablehlo/window.h"

namespace rvm::stablehlo {
namespace {

using importing::Rolled;
using importing::Step;

bool HasPlaceholder(const Operands& operands) {
  for (Operand operand : operands) {
    if (operand == nullptr || operand->is_placeholder) return true;
  }
  return false;
}

// ---- functions

// JAX's functions on extents, of the quotient and the remainder, whose formulas are those for numbers of any sign.
std::optional<Operands> DividedExtents(NodeContext& c, std::string_view name) {
  name = name.substr(0, name.find_last_not_of("0123456789_") + 1);  // of several, all but one end in _0, _1, ...
  const bool has_quotient = name == "floor_divide" || name == "divmod",
             has_rest = name == "remainder" || name == "divmod";
  if (c.num_inputs() != 2 || !(has_quotient || has_rest) || !c.In(0)->elements) return std::nullopt;
  const std::optional<Dims> a = c.Symbols(c.In(0)), b = c.Symbols(c.In(1));
  if (!a || !b || a->size() != 1 || b->size() != 1 || !(*b)[0].is_const() || (*b)[0].constant() < 1)
    return std::nullopt;
  Operands results;
  if (has_quotient) results.push_back(c.emit().FromDim(FloorDiv((*a)[0], (*b)[0])));
  if (has_rest) results.push_back(c.emit().FromDim(FloorMod((*a)[0], (*b)[0])));
  for (Operand& result : results) result = c.Cast(result, c.DTypeOf(c.In(0)));
  return results;
}

Operands Call(NodeContext& c) {
  const std::string_view callee = c.Text("callee");
  if (std::optional<Operands> extents = DividedExtents(c, callee)) return *extents;
  return c.CallFunction(callee, c.Inputs(0, c.num_inputs()));
}

// Operators of a higher dialect with the function that they are. Those that Relay has stay whole.
Operands Composite(NodeContext& c) {
  const std::string_view name = c.Text("name");
  if (name == "chlo.erf" && c.num_inputs() == 1 && c.DTypeOf(c.In(0)) == kFloat32) return {c.Op("erf", {c.In(0)})};
  return c.CallFunction(c.Text("decomposition"), c.Inputs(0, c.num_inputs()));
}

Operands Identity(NodeContext& c) { return c.Inputs(0, c.num_inputs()); }

// ---- branches

// Returns the branch number `i` of those from there on.
Operands Choose(NodeContext& c, Operand index, size_t i) {
  if (i + 1 >= c.num_regions()) return c.Body(i, {});
  Operand is_here = c.Op("equal", {index, c.Number(static_cast<double>(i), index)});
  return importing::Branch(c, is_here, [&] { return c.Body(i, {}); }, [&] { return Choose(c, index, i + 1); });
}

constexpr size_t kMaxBranches = 256;

Operands Case(NodeContext& c) {
  Operand index = c.In(0);
  if (c.num_regions() == 0 || c.num_inputs() != 1) return {c.Fail("it has no branches")};
  if (c.num_regions() > kMaxBranches) return {c.Unsupported("more than 256 branches")};
  if (index->constant) {
    const int64_t at = index->constant->IntAt(0), last = static_cast<int64_t>(c.num_regions()) - 1;
    return c.Body(static_cast<size_t>(at < 0 || at > last ? last : at), {});
  }
  return Choose(c, c.Cast(index, kInt32), 0);
}

Operands If(NodeContext& c) {
  Operand condition = c.In(0);
  if (c.num_regions() != 2 || c.num_inputs() != 1) return {c.Fail("it has not two branches")};
  if (condition->constant) return c.Body(condition->constant->IntAt(0) != 0 ? 0 : 1, {});
  return importing::Branch(c, condition, [&] { return c.Body(0, {}); }, [&] { return c.Body(1, {}); });
}

// ---- loops

// Returns, for each value, whether the body hands it on as it is: such values are no state.
std::vector<bool> Invariants(const Block& body) {
  std::vector<bool> is_kept(body.arguments.size(), false);
  if (body.operations.empty()) return is_kept;
  const std::vector<int32_t>& next = body.operations.back().operands;
  for (size_t i = 0; i < is_kept.size() && i < next.size(); ++i) is_kept[i] = next[i] == body.arguments[i];
  return is_kept;
}

Operands While(NodeContext& c) {
  if (c.num_regions() != 2) return {c.Fail("it has not a condition and a body")};
  Operands all = c.Inputs(0, c.num_inputs()), state;
  const std::vector<bool> is_kept = Invariants(c.op().regions[1]);
  if (is_kept.size() != all.size()) return {c.Fail("its body has another number of arguments than it")};
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_kept[i]) state.push_back(all[i]);
  }
  const auto merged = [&](const Operands& own) {
    Operands values = all;
    for (size_t i = 0, next = 0; i < values.size(); ++i) {
      if (!is_kept[i] && next < own.size()) values[i] = own[next++];
    }
    return values;
  };
  const auto goes_on = [&](const Operands& values) -> Operand {
    const Operands result = c.Body(0, values);
    return c.failed() || result.size() != 1 ? c.emit().Placeholder() : result[0];
  };
  Operand first = goes_on(all);
  if (c.failed() || first->is_placeholder) return {};
  const Rolled rolled = Roll(c, nullptr, first, state, [&](Operand, const Operands& own) -> Step {
    const Operands results = c.Body(1, merged(own));
    if (c.failed() || results.size() != all.size() || HasPlaceholder(results)) {
      return {nullptr, Operands(own.size(), c.emit().Placeholder()), {}};
    }
    Operands next;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!is_kept[i]) next.push_back(results[i]);
    }
    return {goes_on(merged(next)), next, {}};
  });
  return c.failed() || HasPlaceholder(rolled.state) ? Operands() : merged(rolled.state);
}

// ---- calls of what is not StableHLO

constexpr std::string_view kIdentities[] = {"Sharding",
                                            "SPMDFullToShardShape",
                                            "SPMDShardToFullShape",
                                            "annotate_device_placement",
                                            "xla.sdy.FuncResultSharding",
                                            "LayoutConstraint"};

// Returns a condition on the extents of the inputs, with numbers for {0}, {1}, ... of its message.
Operands ShapeAssertion(NodeContext& c) {
  constexpr std::string_view kPositive = "Expected value >= 1 for dimension variable";
  std::string_view message = c.Text("error_message");
  // JAX has no extents of 0; a program that runs for them, too, is none the worse.
  if (message.find(kPositive) != std::string_view::npos) return {};
  if (message.empty()) message = "a condition on the extents of the inputs";
  c.Check(c.Scalar(c.In(0)), ReadableText(message.substr(0, message.find(". Using the following"))));
  return {};
}

Operands CustomCall(NodeContext& c) {
  const std::string_view target = c.Text("call_target_name");
  for (std::string_view identity : kIdentities) {
    if (target == identity) return c.Inputs(0, c.num_inputs());
  }
  if (target == "shape_assertion") return ShapeAssertion(c);
  const std::string quoted = absl::StrCat("`", Abseil(target.substr(0, 100)), "`");
  if (target == "stablehlo.dynamic_reduce_window") return DynamicReduceWindow(c);
  if (target.starts_with("lapack_")) return CallRoutine(c, target);
  if (target == "ApproxTopK") return ApproxTopK(c);
  if (target.find("callback") != std::string_view::npos) {
    return {c.Unsupported(absl::StrCat(quoted, ", a function of Python that JAX calls back"))};
  }
  return {c.Unsupported(absl::StrCat(quoted, ", which StableHLO does not define"))};
}

Operands Map(NodeContext& c) { return c.OnTensors(0, c.Inputs(0, c.num_inputs())); }

// Operators that no program on one device needs, or that other forms replace.
Operands Refuse(NodeContext& c) { return {c.Unsupported(std::string(c.row().variant))}; }

constexpr std::string_view kDevices = "it is for several devices",
                           kHost = "it exchanges data with the host while the program runs",
                           kGenerator =
                               "a generator of the platform; JAX's default one, threefry, is supported: leave "
                               "`jax_default_prng_impl` as it is";

constexpr OperatorRow kRows[] = {
    {"all_gather", Refuse, kDevices},
    {"all_reduce", Refuse, kDevices},
    {"all_to_all", Refuse, kDevices},
    {"call", Call, "", Lanes::kElementwise},
    {"case", Case},
    {"collective_broadcast", Refuse, kDevices},
    {"collective_permute", Refuse, kDevices},
    {"composite", Composite},
    {"custom_call", CustomCall},
    {"if", If},
    {"infeed", Refuse, kHost},
    {"map", Map},
    {"optimization_barrier", Identity},
    {"outfeed", Refuse, kHost},
    {"partition_id", Refuse, kDevices},
    {"recv", Refuse, kHost},
    {"reduce_scatter", Refuse, kDevices},
    {"replica_id", Refuse, kDevices},
    {"rng", Refuse, kGenerator},
    {"rng_bit_generator", Refuse, kGenerator},
    {"send", Refuse, kHost},
    {"while", While},
};

}  // namespace

std::span<const OperatorRow> ControlOperators() { return kRows; }

}  // namespace rvm::stablehlo
