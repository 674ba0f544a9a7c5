// Operators on complex numbers, made of what operators do to their real and imaginary parts.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch {
namespace convert {
namespace {

using importing::Complex;
using importing::Term;

Complex InOf(NodeContext& c, const char* name) { return importing::ComplexOf(c, c.In(name)); }

// Operators that do the same to both parts, such as those that move elements. Real tensors among the arguments, such as
// indices, stay.
Operands ByParts(NodeContext& c) {
  auto part = [&](bool is_imaginary) {
    return c.ByReals([&](Operand x, size_t) { return IsComplex(x) ? PartOf(c, x, is_imaginary) : x; });
  };
  const Operands re = part(false);
  return importing::MakeComplexes(c, re, part(true));
}

constexpr std::string_view kIndexed = "indexed";

// The same where real numbers among the arguments are added to complex ones, or joined with them. Conditions stay, and
// so do integers if the row says that they are indices.
Operands BySums(NodeContext& c) {
  auto part = [&](bool is_imaginary) {
    return c.ByReals(
        [&](Operand x, size_t) {
          const bool is_part =
              IsComplex(x) || (c.row().variant == kIndexed ? c.DTypeOf(x).is_float() : !c.DTypeOf(x).is_bool());
          return is_part ? PartOf(c, x, is_imaginary) : x;
        },
        is_imaginary);
  };
  const Operands re = part(false);
  return importing::MakeComplexes(c, re, part(true));
}

// Products, of which a sum of products is one, too: linear in each of two arguments.
Operands ByProducts(NodeContext& c) {
  const std::vector<size_t> complex = c.ComplexInputs();
  if (complex.size() > 2) return {c.Unsupported("a product of more than two complex tensors")};
  // Returns the product with the chosen parts of the complex arguments.
  auto product = [&](bool first, bool second) {
    const Operands results = c.ByReals([&](Operand x, size_t i) {
      if (!IsComplex(x)) return x;
      return PartOf(c, x, i == complex[0] ? first : second);
    });
    return Term(c, c.failed() || results.empty() ? c.emit().Placeholder() : results[0]);
  };
  if (complex.size() < 2) return {Complex{product(false, false), product(true, true)}};
  return {Complex{product(false, false) - product(true, true), product(false, true) + product(true, false)}};
}

// Returns both arguments in one dtype, and their quotient.
Operands Divide(NodeContext& c) {
  if (c.Has("rounding_mode")) return {c.Unsupported("a rounded quotient of complex numbers")};
  Complex a = InOf(c, "self"), b = InOf(c, "other");
  Operand parts[] = {a.re, a.im, b.re, b.im};
  c.Promote({&parts[0], &parts[1], &parts[2], &parts[3]});
  a = {{c, parts[0]}, {c, parts[1]}};
  b = {{c, parts[2]}, {c, parts[3]}};
  if (c.failed()) return {};
  if (!IsComplex(c.In("other"))) return {Complex{a.re / b.re, a.im / b.re}};
  return {a / b};
}

Operands Reciprocal(NodeContext& c) {
  const Complex z = InOf(c, "self");
  const Term square = z.re * z.re + z.im * z.im;
  return {Complex{z.re / square, -z.im / square}};
}

Operands Square(NodeContext& c) {
  const Complex z = InOf(c, "self");
  return {Complex(z * z)};
}

// Powers of real exponents, by lengths and angles; small integers by products.
Operands Power(NodeContext& c) {
  const Complex z = InOf(c, "self");
  Operand given = c.In("exponent");
  if (c.failed() || IsComplex(given)) return {c.failed() ? nullptr : c.Unsupported("a complex exponent")};
  if (given->constant && given->constant->num_elements() == 1) {
    const double exponent = given->constant->DoubleAt(0);
    if (exponent == 1) return {c.In("self")};
    if (exponent == 2) return {Complex(z * z)};
    if (exponent == 3) return {Complex(z * z * z)};
  }
  const Term exponent(c, c.Cast(given, c.DTypeOf(z.re)));
  return {Complex(Polar(Length(z).Apply("power", exponent), Angle(z) * exponent))};
}

Operands Root(NodeContext& c) { return {Sqrt(InOf(c, "self"))}; }

Operands Exponential(NodeContext& c) { return {Exp(InOf(c, "self"))}; }

Operands Logarithm(NodeContext& c) { return {Log(InOf(c, "self"))}; }

Operands Sign(NodeContext& c) { return {Direction(InOf(c, "self"))}; }

Operands Absolute(NodeContext& c) { return {Length(InOf(c, "self"))}; }
Operands AngleOf(NodeContext& c) { return {Angle(InOf(c, "self"))}; }

Operands Mirrored(NodeContext& c) { return {Conjugate(InOf(c, "self"))}; }

Operands Part(NodeContext& c) { return {PartOf(c, c.In("self"), c.row().variant == "imag")}; }
Operands ViewAsReal(NodeContext& c) { return {importing::ToPairs(c, c.In("self"))}; }

// Equality of both parts; of one for `ne`.
Operands Compare(NodeContext& c) {
  const Complex a = InOf(c, "self"), b = InOf(c, "other");
  auto compare = [&](Operand x, Operand y) {
    c.Promote({&x, &y});
    return Term(c, c.Op(c.row().variant, {x, y}));
  };
  const Term re = compare(a.re, b.re), im = compare(a.im, b.im);
  return {c.row().variant == "equal" ? And(re, im) : Or(re, im)};
}

// Conversions, and tensors that are filled with a number: real numbers of the parts' dtype, with zeros.
Operands FromReal(NodeContext& c) {
  Operand x = c.Has("self") ? c.In("self") : nullptr;
  const DataType part = c.OutputPartDType(0).value_or(kFloat32);
  if (IsComplex(x) && !c.row().variant.empty()) {
    if (c.OutputDType(0)) return {c.Cast(PartOf(c, x, false), *c.OutputDType(0))};  // drops the imaginary part
    return {MakeComplex(c, c.Cast(PartOf(c, x, false), part), c.Cast(PartOf(c, x, true), part))};
  }
  auto filled = [&](bool is_imaginary) {
    if (!c.row().variant.empty()) return x;
    const Operands results = c.ByReals([&](Operand from, size_t) { return PartOf(c, from, is_imaginary); });
    return c.failed() || results.empty() ? c.emit().Placeholder() : results[0];
  };
  Operand re = c.Cast(filled(false), part);
  const Argument* value = c.Find("fill_value");
  const bool is_complex = value != nullptr && value->kind == ArgumentKind::kComplex;
  return {MakeComplex(c, re, is_complex ? c.Cast(filled(true), part) : c.Op("zeros_like", {re}))};
}

// Extents and the like, which both parts have.
Operands OfOnePart(NodeContext& c) {
  return c.ByReals([&](Operand x, size_t) { return PartOf(c, x, false); });
}

constexpr std::string_view kConversion = "conversion";
constexpr OperatorRow kRows[] = {
    {"_assert_tensor_metadata", OfOnePart},
    {"_conj", Mirrored},
    {"_to_copy", FromReal, kConversion},
    {"_unsafe_view", ByParts},
    {"abs", Absolute},
    {"absolute", Absolute},
    {"add", BySums},
    {"addmm", BySums},
    {"alias", ByParts},
    {"angle", AngleOf},
    {"as_strided", ByParts},
    {"atleast_1d", ByParts},
    {"atleast_2d", ByParts},
    {"atleast_3d", ByParts},
    {"bmm", ByProducts},
    {"broadcast_to", ByParts},
    {"cat", BySums},
    {"chunk", ByParts},
    {"clone", ByParts},
    {"concat", BySums},
    {"concatenate", BySums},
    {"conj", Mirrored},
    {"conj_physical", Mirrored},
    {"constant_pad_nd", ByParts},
    {"contiguous", ByParts},
    {"copy", BySums},
    {"cumsum", ByParts},
    {"detach", ByParts},
    {"diag_embed", ByParts},
    {"diagonal", ByParts},
    {"div", Divide},
    {"divide", Divide},
    {"dim", OfOnePart},
    {"dot", ByProducts},
    {"einsum", ByProducts},
    {"empty", FromReal},
    {"empty_like", FromReal},
    {"eq", Compare, "equal"},
    {"exp", Exponential},
    {"expand", ByParts},
    {"expand_as", ByParts},
    {"fft_fftshift", ByParts},
    {"fft_ifftshift", ByParts},
    {"flatten", ByParts},
    {"flip", ByParts},
    {"full", FromReal},
    {"full_like", FromReal},
    {"gather", ByParts},
    {"imag", Part, "imag"},
    {"index", ByParts},
    {"index_add", BySums, kIndexed},
    {"index_put", BySums, kIndexed},
    {"index_select", ByParts},
    {"linear", ByProducts},
    {"log", Logarithm},
    {"matmul", ByProducts},
    {"mean", ByParts},
    {"mm", ByProducts},
    {"movedim", ByParts},
    {"mT", ByParts},
    {"mul", ByProducts},
    {"multiply", ByProducts},
    {"mv", ByProducts},
    {"narrow", ByParts},
    {"ne", Compare, "not_equal"},
    {"neg", ByParts},
    {"negative", ByParts},
    {"new_zeros", FromReal},
    {"numpy_T", ByParts},
    {"ones", FromReal},
    {"ones_like", FromReal},
    {"outer", ByProducts},
    {"pad", ByParts},
    {"permute", ByParts},
    {"positive", ByParts},
    {"pow", Power},
    {"ravel", ByParts},
    {"real", Part},
    {"reciprocal", Reciprocal},
    {"repeat", ByParts},
    {"repeat_interleave", ByParts},
    {"reshape", ByParts},
    {"resolve_conj", ByParts},
    {"resolve_neg", ByParts},
    {"roll", ByParts},
    {"rsub", BySums},
    {"scatter_add", BySums, kIndexed},
    {"select", ByParts},
    {"select_scatter", BySums},
    {"sgn", Sign},
    {"slice", ByParts},
    {"slice_scatter", BySums},
    {"split", ByParts},
    {"split_with_sizes", ByParts},
    {"sqrt", Root},
    {"square", Square},
    {"squeeze", ByParts},
    {"stack", BySums},
    {"sub", BySums},
    {"subtract", BySums},
    {"sum", ByParts},
    {"swapaxes", ByParts},
    {"sym_numel", OfOnePart},
    {"sym_size", OfOnePart},
    {"t", ByParts},
    {"take", ByParts},
    {"tile", ByParts},
    {"to", FromReal, kConversion},
    {"transpose", ByParts},
    {"tril", ByParts},
    {"triu", ByParts},
    {"true_divide", Divide},
    {"unbind", ByParts},
    {"unflatten", ByParts},
    {"unfold", ByParts},
    {"unsqueeze", ByParts},
    {"view", ByParts},
    {"view_as", ByParts},
    {"view_as_real", ViewAsReal},
    {"where", BySums},
    {"zeros", FromReal},
    {"zeros_like", FromReal},
};

}  // namespace

std::span<const OperatorRow> ComplexOperators() { return kRows; }

}  // namespace convert

const OperatorRow* FindComplexRow(const Node& node) {
  static const auto* const kRows = [] {
    auto* rows = new absl::flat_hash_map<std::string_view, const OperatorRow*>();
    for (const OperatorRow& row : convert::ComplexOperators()) rows->emplace(row.name, &row);
    return rows;
  }();
  const OperatorRow* real = FindRow(node);
  if (real != nullptr && real->takes_complex) return real;
  auto found = real == nullptr ? kRows->end() : kRows->find(real->name);
  return found == kRows->end() ? nullptr : found->second;
}

}  // namespace rvm::torch
