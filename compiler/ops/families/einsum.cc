// Sums of products in Einstein notation.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a tuple of tensors of one dtype", true}};
constexpr AttrSpec kAttrs[] = {{"equation", AttrType::kString, "",
                                "a letter per axis of each operand, then of the result: \"bij,bjk->bik\"; \"...\" "
                                "stands for axes that broadcast"}};

// An axis: a letter, or one of the axes of `...`, numbered from the last (-1, -2, ...).
using Label = int;
using Labels = std::vector<Label>;

struct Equation {
  std::vector<Labels> operands;
  Labels result;
};

// Returns the labels of the axes of an operand of rank `rank`; nullopt if the term does not fit.
std::optional<Labels> ParseTerm(std::string_view term, size_t rank) {
  Labels labels;
  size_t dots = term.find("...");
  size_t letters = static_cast<size_t>(std::count_if(term.begin(), term.end(), [](char c) { return c != '.'; }));
  size_t dot_count = term.size() - letters;
  if (dot_count != 0 && (dot_count != 3 || dots == std::string_view::npos)) return std::nullopt;
  if (letters > rank || (dot_count == 0 && letters != rank)) return std::nullopt;
  for (size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      for (size_t k = rank - letters; k > 0; --k) labels.push_back(-static_cast<Label>(k));
      i += 2;
      continue;
    }
    bool is_letter = (term[i] >= 'a' && term[i] <= 'z') || (term[i] >= 'A' && term[i] <= 'Z');
    if (!is_letter) return std::nullopt;
    labels.push_back(term[i]);
  }
  return labels;
}

// Without "->", the result has the axes of `...`, then the letters that occur once, in alphabetical order.
Labels ImplicitResult(const std::vector<Labels>& operands) {
  std::map<Label, int> seen;
  for (const Labels& labels : operands) {
    for (Label label : labels) ++seen[label];
  }
  Labels result;
  for (const auto& [label, count] : seen) {
    if (label < 0 || count == 1) result.push_back(label);
  }
  return result;
}

std::optional<Equation> Parse(std::string_view text, const std::vector<size_t>& ranks) {
  std::string plain;
  for (char c : text) {
    if (c != ' ') plain += c;
  }
  std::string_view rest = plain;
  size_t arrow = rest.find("->");
  std::string_view left = rest.substr(0, arrow);
  Equation equation;
  size_t broadcast = 0;
  for (size_t rank : ranks) {
    size_t comma = left.find(',');
    bool is_last = equation.operands.size() + 1 == ranks.size();
    if ((comma == std::string_view::npos) != is_last) return std::nullopt;
    std::optional<Labels> labels = ParseTerm(left.substr(0, comma), rank);
    if (!labels) return std::nullopt;
    for (Label label : *labels) broadcast = std::max(broadcast, static_cast<size_t>(std::max(-label, 0)));
    equation.operands.push_back(*std::move(labels));
    if (!is_last) left.remove_prefix(comma + 1);
  }
  if (arrow == std::string_view::npos) {
    equation.result = ImplicitResult(equation.operands);
    return equation;
  }
  std::string_view right = rest.substr(arrow + 2);
  size_t letters = static_cast<size_t>(std::count_if(right.begin(), right.end(), [](char c) { return c != '.'; }));
  std::optional<Labels> result = ParseTerm(right, letters + (letters == right.size() ? 0 : broadcast));
  if (!result) return std::nullopt;
  for (size_t i = 0; i < result->size(); ++i) {
    Label label = (*result)[i];
    bool known = std::any_of(equation.operands.begin(), equation.operands.end(), [&](const Labels& labels) {
      return std::find(labels.begin(), labels.end(), label) != labels.end();
    });
    bool repeated = std::find(result->begin(), result->begin() + static_cast<std::ptrdiff_t>(i), label) !=
                    result->begin() + static_cast<std::ptrdiff_t>(i);
    if (!known || repeated) return std::nullopt;
  }
  equation.result = *std::move(result);
  return equation;
}

// Returns the extent of an axis, from the extents in two operands.
Dim Joined(Label label, const Dim& a, const Dim& b) {
  if (label < 0) return Broadcast(a, b);
  return a == Dim(1) || (b.is_const() && b != Dim(1)) ? b : a;
}

std::map<Label, Dim> Extents(const Equation& equation, const std::vector<Dims>& shapes) {
  std::map<Label, Dim> extents;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t k = 0; k < shapes[i].size(); ++k) {
      Label label = equation.operands[i][k];
      auto [it, added] = extents.try_emplace(label, shapes[i][k]);
      if (!added) it->second = Joined(label, it->second, shapes[i][k]);
    }
  }
  return extents;
}

Solve EinsumRelation(TypeContext& context) {
  const ir::Type* type = context.arg(0);
  if (type->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
  const auto* tuple = ir::DynCast<ir::TupleType>(type);
  std::vector<Dims> shapes;
  std::vector<size_t> ranks;
  std::optional<DataType> dtype;
  for (const ir::Type* field : tuple != nullptr ? tuple->fields : std::vector<const ir::Type*>()) {
    if (field->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
    const auto* tensor = ir::DynCast<ir::TensorType>(field);
    if (tensor != nullptr && (!tensor->shape.is_dims() || !tensor->dtype.is_concrete())) return Solve::kStuck;
    if (tensor == nullptr || tensor->dtype.dtype != dtype.value_or(tensor->dtype.dtype)) break;
    dtype = tensor->dtype.dtype;
    shapes.push_back(tensor->shape.dims);
    ranks.push_back(tensor->shape.dims.size());
  }
  if (tuple == nullptr || shapes.empty() || shapes.size() != tuple->fields.size()) {
    return context.Fail(
        DiagnosticKind::kNotTensorTuple,
        absl::StrCat("argument 1 has type `", ir::TypeToString(type), "`; expected a tuple of tensors of one dtype"),
        0);
  }
  const std::string& text = context.attrs().GetString("equation");
  std::optional<Equation> equation = Parse(text, ranks);
  if (!equation) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`equation` \"", text, "\" does not fit operands of type `",
                                     ir::TypeToString(type), "`; expected a letter per axis, as in \"ij,jk->ik\""));
  }
  std::map<Label, Dim> extents;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t k = 0; k < shapes[i].size(); ++k) {
      Label label = equation->operands[i][k];
      const Dim& dim = shapes[i][k];
      auto [it, added] = extents.try_emplace(label, dim);
      if (added) continue;
      bool stretched = it->second == Dim(1) || dim == Dim(1);
      if (label < 0) {
        it->second = context.RequireBroadcast(it->second, dim, "`einsum`: extents of an axis of `...`");
        continue;
      }
      if (!stretched && !context.RequireEqual(it->second, dim, "`einsum`: extents of axes of one letter"))
        return Solve::kFailed;
      it->second = Joined(label, it->second, dim);
    }
  }
  Dims out;
  for (Label label : equation->result) out.push_back(extents.at(label));
  return ResultTensor(context, out, *dtype);
}

std::vector<Tensor> ComputeEinsum(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  std::vector<Dims> shapes;
  std::vector<size_t> ranks;
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    shapes.push_back(context.input(i).dims());
    ranks.push_back(shapes.back().size());
  }
  Equation equation = *Parse(context.attrs().GetString("equation"), ranks);
  std::map<Label, Dim> extents = Extents(equation, shapes);
  Labels summed;
  Dims sums;
  for (const auto& [label, extent] : extents) {
    if (std::find(equation.result.begin(), equation.result.end(), label) != equation.result.end()) continue;
    summed.push_back(label);
    sums.push_back(extent);
  }
  DataType wide = Accumulator(out.dtype);
  auto product = [&](std::span<const Expr> o, std::span<const Expr> r) {
    std::map<Label, Expr> at;
    for (size_t k = 0; k < equation.result.size(); ++k) at[equation.result[k]] = o[k];
    for (size_t k = 0; k < summed.size(); ++k) at[summed[k]] = r[k];
    Expr value;
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<Expr> indices;
      for (size_t k = 0; k < shapes[i].size(); ++k) {
        Label label = equation.operands[i][k];
        const Dim& dim = shapes[i][k];
        bool is_one = dim == Dim(1);
        indices.push_back(is_one      ? te::Index(0)
                          : label < 0 ? te::BroadcastIndex(at[label], dim, extents[label])
                                      : at[label]);
      }
      Expr factor = te::Cast(wide, context.input(i)(indices));
      value = value ? value * factor : factor;
    }
    return value;
  };
  if (summed.empty()) {
    return {
        CastTensor(te::ComputeTensor("einsum", wide, out.dims, [&](std::span<const Expr> o) { return product(o, {}); }),
                   out.dtype)};
  }
  return {CastTensor(ReduceOver(te::ReduceOp::kSum, wide, out.dims, sums, product), out.dtype)};
}

constexpr OpDef kOps[] = {
    {.name = "einsum",
     .summary = "sums of products over named axes",
     .inputs = kInputs,
     .attrs = kAttrs,
     .type_relation = EinsumRelation,
     .fusion = FusionClass::kContraction,
     .compute = ComputeEinsum,
     .gradient = EinsumGradient},
};

}  // namespace

namespace {

// Writes equations with letters of its own.
class TermWriter {
 public:
  std::string Write(const Labels& labels) {
    std::string term;
    for (Label label : labels) {
      if (label < 0 && term.find('.') == std::string::npos) term += "...";
      if (label >= 0) term += letters_.try_emplace(label, static_cast<char>('a' + letters_.size())).first->second;
    }
    return term;
  }
  std::string NewLetter() { return Write({fresh_++}); }

 private:
  std::map<Label, char> letters_;
  Label fresh_ = 'z' + 1;  // no letter of an equation
};

int64_t CountDots(const Labels& labels) {
  return std::count_if(labels.begin(), labels.end(), [](Label label) { return label < 0; });
}

// Returns the most axes of `...` that the result or an operand other than `i` has.
int64_t MostDotsBut(size_t i, const Equation& equation) {
  int64_t most = CountDots(equation.result);
  for (size_t k = 0; k < equation.operands.size(); ++k) {
    if (k != i) most = std::max(most, CountDots(equation.operands[k]));
  }
  return most;
}

// The adjoint of operand `i` is the product of d and the other operands, summed to its axes. An axis that the operand
// alone has was summed: its adjoint is repeated along it. A letter that the operand has twice reads a diagonal: the
// second gets a letter of its own, and an identity matrix ties both.
void GiveOperand(Pullback& p, const Equation& equation, size_t i, TermWriter& writer) {
  const Labels& labels = equation.operands[i];
  int64_t other_dots = MostDotsBut(i, equation);
  if (other_dots > 0 && other_dots < CountDots(labels)) {
    return p.Refuse("there is no rule for some axes of `...` that are summed");
  }
  std::string text = writer.Write(equation.result), wanted;
  std::vector<Term> factors = {p.d()};
  for (size_t k = 0; k < equation.operands.size(); ++k) {
    if (k == i) continue;
    absl::StrAppend(&text, ",", writer.Write(equation.operands[k]));
    factors.push_back(p.x(0, k));
  }
  std::vector<int64_t> summed;
  for (size_t axis = 0; axis < labels.size(); ++axis) {
    auto place = labels.begin() + static_cast<std::ptrdiff_t>(axis);
    std::string letter = writer.Write({labels[axis]});
    bool is_second = std::find(labels.begin(), place, labels[axis]) != place;
    bool is_first_of_two = !is_second && std::find(place + 1, labels.end(), labels[axis]) != labels.end();
    if (labels[axis] < 0 && other_dots > 0) {
      if (wanted.find('.') == std::string::npos) wanted += letter;
    } else if (is_second) {
      std::string second = writer.NewLetter();
      absl::StrAppend(&text, ",", letter, second);
      factors.push_back(UnitMatrix(p.x(0, i), static_cast<int64_t>(axis)));
      wanted += second;
    } else if (!is_first_of_two && text.find(letter) == std::string::npos) {
      summed.push_back(static_cast<int64_t>(axis));
    } else {
      wanted += letter;
    }
  }
  Term share = p.CallOnTuple("einsum", factors, ir::Attrs{{"equation", absl::StrCat(text, "->", wanted)}});
  for (int64_t axis : summed) share = p.Call("expand_dims", {share}, ir::Attrs{{"axis", axis}});
  if (!summed.empty()) share = p.Call("broadcast_to_like", {share, p.x(0, i)});
  p.Give(0, i, share);
}

}  // namespace

void EinsumGradient(Pullback& p) {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < p.num_fields(0); ++i) ranks.push_back(p.type(0, i).shape.dims.size());
  Equation equation = *Parse(p.attrs().GetString("equation"), ranks);
  size_t axes = equation.result.size();
  for (const Labels& labels : equation.operands) axes += labels.size();
  if (axes > 26) return p.Refuse("there is a rule for up to 26 axes of operands and result together");
  TermWriter writer;
  for (size_t i = 0; i < equation.operands.size(); ++i) GiveOperand(p, equation, i, writer);
}

std::span<const OpDef> EinsumOps() { return kOps; }

}  // namespace rvm::ops
