// The activations of DarkNet.
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "compiler/import/darknet/importer.h"
#include "compiler/import/term.h"

namespace rvm::darknet {
namespace {

using importing::Term;

Term Sigmoid(const Term& x) { return x.Apply("sigmoid"); }
Term Tanh(const Term& x) { return x.Apply("tanh"); }
Term Clip(const Term& x, double least, double greatest) {
  return {x.steps(), x.steps().Op("clip", {x}, {{"a_min", least}, {"a_max", greatest}})};
}
Term Below(const Term& x, double slope) { return Select(x > 0.0, x, x * slope); }

Term Elu(const Term& x) { return Select(x >= 0.0, x, x.Apply("expm1")); }
Term Selu(const Term& x) { return Select(x >= 0.0, x * 1.0507, x.Apply("expm1") * (1.0507 * 1.6732)); }
Term Gelu(const Term& x) { return 0.5 * x * (Tanh(0.797885 * x + 0.035677 * (x * x * x)) + 1.0); }
Term HardMish(const Term& x) { return Select(x > 0.0, x, Select(x > -2.0, x * x * 0.5 + x, 0)); }
Term Lhtan(const Term& x) { return Select(x < 0.0, x * 0.001, Select(x > 1.0, (x - 1) * 0.001 + 1, x)); }
Term Plse(const Term& x) {
  return Select(x < -4.0, (x + 4) * 0.01, Select(x > 4.0, (x - 4) * 0.01 + 1, x * 0.125 + 0.5));
}
Term Stair(const Term& x) {
  const Term whole = Floor(x), half = Floor(x * 0.5);
  return Select(whole - half * 2 == 0.0, half, x - whole + half);
}

struct Activation {
  std::string_view name;
  Term (*apply)(const Term& x);
};
constexpr Activation kActivations[] = {
    {"elu", Elu},
    {"gelu", Gelu},
    {"hard_mish", HardMish},
    {"hardtan", [](const Term& x) { return Clip(x, -1, 1); }},
    {"leaky", [](const Term& x) { return Below(x, 0.1); }},
    {"lhtan", Lhtan},
    {"linear", [](const Term& x) { return x; }},
    {"loggy", [](const Term& x) { return Sigmoid(x) * 2 - 1; }},
    {"logistic", Sigmoid},
    {"mish", [](const Term& x) { return x * Tanh(x.Apply("nn.softplus")); }},
    {"plse", Plse},
    {"ramp", [](const Term& x) { return Max(x, x.Like(0)) + x * 0.1; }},
    {"relie", [](const Term& x) { return Below(x, 0.01); }},
    {"relu", [](const Term& x) { return x.Apply("nn.relu"); }},
    {"relu6", [](const Term& x) { return Clip(x, 0, 6); }},
    {"selu", Selu},
    {"stair", Stair},
    {"swish", [](const Term& x) { return x * Sigmoid(x); }},
    {"tanh", Tanh},
};

}  // namespace

Operand LayerContext::Activated(Operand x, std::string_view name) {
  for (const Activation& activation : kActivations) {
    if (activation.name == name) return activation.apply(Term(*this, x));
  }
  return Unsupported(absl::StrCat("the activation `", ReadableText(name.substr(0, 40)), "`"));
}

}  // namespace rvm::darknet
