#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/element.h"
#include "base/value.h"
#include "compiler/text/parser_state.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

namespace {

std::string SuffixesText() {
  std::string text;
  for (const LiteralSuffix& suffix : LiteralSuffixes()) absl::StrAppend(&text, " ", Abseil(suffix.text));
  return text;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns the magnitude with its sign, if it fits `dtype`.
std::optional<Literal> IntegerLiteral(uint64_t magnitude, bool negative, DataType dtype) {
  uint64_t max = dtype.is_uint() ? std::numeric_limits<uint64_t>::max() >> (64 - dtype.bits)
                                 : (uint64_t{1} << (dtype.bits - 1)) - (negative ? 0 : 1);
  if (magnitude > max || (dtype.is_uint() && negative && magnitude != 0)) return std::nullopt;
  return Literal::ScalarInt(dtype, static_cast<int64_t>(negative ? 0 - magnitude : magnitude));
}

}  // namespace

// `1`, `-2i64`, `1.5`, `1e-3f16`. Without a suffix: int32 (int64 where it needs that), float32.
std::optional<Literal> Parser::ScalarOf(const Token& token, bool negative, bool is_wide) {
  std::string_view digits = token.text;
  std::optional<DataType> suffix = TakeLiteralSuffix(digits);
  std::string shown = absl::StrCat("`", negative ? "-" : "", Abseil(token.text), "`");
  size_t letter = digits.find_first_not_of("0123456789.eE+-");
  if (letter == std::string_view::npos && std::isalpha(digits.back())) letter = digits.size() - 1;  // `1e`
  if (letter != std::string_view::npos) {
    Error(token.span, DiagnosticKind::kBadLiteralSuffix,
          absl::StrCat("saw the suffix `", Abseil(token.text.substr(letter)), "` in ", shown,
                       "; expected none or one of", SuffixesText()));
    return std::nullopt;
  }
  bool has_fraction = digits.find_first_of(".eE") != std::string_view::npos;
  if (has_fraction || (suffix && suffix->is_float())) {
    DataType dtype = suffix.value_or(kFloat32);
    if (!dtype.is_float()) {
      Error(token.span, DiagnosticKind::kFractionalInteger,
            absl::StrCat("saw ", shown, ", of dtype ", dtype.ToString(),
                         ", with a fraction or an exponent; expected digits alone"));
      return std::nullopt;
    }
    double value = 0;
    Literal literal;
    bool fits = absl::SimpleAtod(Abseil(digits), &value);
    if (fits) literal = Literal::Scalar(dtype, negative ? -value : value);
    // Infinity, or the greatest number of a dtype without infinity.
    double limit = Literal::Scalar(dtype, kInfinity).DoubleAt(0);
    if (fits && value <= limit && std::isfinite(literal.DoubleAt(0))) return literal;
    Error(token.span, DiagnosticKind::kFloatOutOfRange,
          absl::StrCat(shown, " does not fit ", dtype.ToString(), "; expected a smaller number",
                       std::isinf(limit) ? " or `inff`" : ""));
    return std::nullopt;
  }
  uint64_t magnitude = 0;
  std::optional<Literal> literal;
  if (absl::SimpleAtoi(Abseil(digits), &magnitude)) {
    literal = IntegerLiteral(magnitude, negative, suffix.value_or(kInt32));
    if (!literal && !suffix) literal = IntegerLiteral(magnitude, negative, kInt64);
    if (!literal && !suffix && is_wide) literal = IntegerLiteral(magnitude, negative, kUInt64);
  }
  if (!literal) {
    Error(token.span, DiagnosticKind::kIntegerOutOfRange,
          absl::StrCat(shown, " does not fit ", suffix.value_or(kInt64).ToString()));
  }
  return literal;
}

ir::Expr* Parser::ParseNumber(const Token& token, bool negative) {
  std::optional<Literal> literal = ScalarOf(token, negative);
  if (!literal) return ErrorExpr(token.span);
  ir::Span span = token.span;
  if (negative) --span.begin;
  return MakeConstant(*std::move(literal), span);
}

Parser::ListConstructors Parser::FindListConstructors() const {
  ListConstructors found;
  const ir::AdtDef* list = names_.FindType("prelude.List");
  if (list == nullptr) return found;
  for (ir::Constructor* constructor : list->constructors) {
    (constructor->fields.empty() ? found.nil : found.cons) = constructor;
  }
  return found;
}

// `[a, b]` is `Cons(a, Cons(b, Nil))` of the Prelude.
ir::Expr* Parser::ParseList() {
  ir::Span begin = Peek().span;
  auto [cons, nil] = FindListConstructors();
  if (nil == nullptr) return Unexpected("an expression", DiagnosticKind::kMissingExpression);
  ir::Span open = Take().span;
  std::vector<ir::Expr*> elements;
  while (!Accept("]")) {
    ir::Expr* element = ParseExpr();
    if (element == nullptr) return nullptr;
    elements.push_back(element);
    if (!Separator("]", open)) return nullptr;
  }
  ir::Span whole = From(begin);
  auto make = [&](const ir::Constructor* constructor, std::vector<ir::Expr*> args, ir::Span span) {
    return arena_.New<ir::Call>(arena_.New<ir::ConstructorExpr>(constructor, span), std::move(args), ir::Attrs{}, span);
  };
  ir::Call* list = make(nil, {}, whole);
  for (size_t i = elements.size(); i-- > 0;) {
    ir::Span rest{whole.source, elements[i]->span.begin, whole.end};
    list = make(cons, {elements[i], list}, i == 0 ? whole : rest);
  }
  list->is_list = true;
  return list;
}

// `inff`, `nanf64`, `infbf16`.
std::optional<Literal> Parser::SpecialFloat(std::string_view text, bool negative) {
  bool is_inf = text.starts_with("inf"), is_nan = text.starts_with("nan");
  if (!is_inf && !is_nan) return std::nullopt;
  std::string_view rest = text.substr(3);
  std::optional<DataType> dtype = TakeLiteralSuffix(rest);
  if (!dtype || !rest.empty() || !dtype->is_float()) return std::nullopt;
  // All NaNs print alike, so a sign before `nan` is ignored.
  if (is_nan) return Literal::Scalar(*dtype, std::numeric_limits<double>::quiet_NaN());
  Literal infinity = Literal::Scalar(*dtype, negative ? -kInfinity : kInfinity);
  return std::isinf(infinity.DoubleAt(0)) ? std::optional(infinity) : std::nullopt;
}

std::optional<Literal> Parser::ParseElement(bool is_wide) {
  int errors = diagnostics_.errors();
  bool negative = Accept("-");
  std::optional<Literal> number;
  if (Peek().kind == TokenKind::kNumber)
    number = ScalarOf(Take(), negative, is_wide);
  else if (PeekIs("True") || PeekIs("False"))
    number = Literal::ScalarInt(kBool, Take().text == "True");
  else if (Peek().kind == TokenKind::kIdent)
    number = SpecialFloat(Take().text, negative);
  if (!number && diagnostics_.errors() == errors) Unexpected("a number", DiagnosticKind::kMissingExpression);
  return number;
}

// Parses nested lists of numbers into `values` and the length of the lists at each depth into `lengths`. Reports lists
// of one depth that differ in length, and numbers at different depths.
bool Parser::ParseElements(std::vector<Literal>& values, Shape& lengths) {
  constexpr int64_t kUnknown = -1;
  ir::Span list = Take().span;
  std::vector<int64_t> open = {0};  // the number of elements read so far in each enclosing list
  lengths = {kUnknown};
  auto is_even = [&](int64_t& length, int64_t seen) {
    if (length != kUnknown && length != seen) {
      Error(list, DiagnosticKind::kElementCountMismatch,
            absl::StrCat("lists of the constant have ", length, " and ", seen, " elements; expected equal numbers"));
      return false;
    }
    length = seen;
    return true;
  };
  for (;;) {
    if (Accept("]")) {
      if (!is_even(lengths[open.size() - 1], open.back())) return false;
      open.pop_back();
      if (open.empty()) return true;
    } else if (PeekIs("[") && (values.empty() || open.size() < lengths.size())) {
      list = Take().span;
      open.push_back(0);
      if (open.size() > lengths.size()) lengths.push_back(kUnknown);
      continue;
    } else {
      if (open.size() < lengths.size()) {
        Unexpected("a list", DiagnosticKind::kMissingExpression);
        return false;
      }
      std::optional<Literal> number = ParseElement(/*is_wide=*/true);
      if (!number) return false;
      values.push_back(*std::move(number));
    }
    ++open.back();
    if (!Separator("]", list)) return false;
  }
}

// `Constant(1, (10, 10), float32)`: every element is the number. `Constant([1, 2], (2), int32)`: the elements in
// row-major order, flat or nested according to the shape.
ir::Expr* Parser::ParseConstant() {
  ir::Span begin = Take().span;
  ir::Span open = Take().span;
  std::vector<Literal> values;
  Shape lengths;
  bool is_list = PeekIs("[");
  if (is_list) {
    if (!ParseElements(values, lengths)) return nullptr;
  } else {
    std::optional<Literal> number = ParseElement(/*is_wide=*/true);
    if (!number) return nullptr;
    values.push_back(*std::move(number));
  }
  ir::ShapeTerm shape;
  ir::DTypeTerm dtype;
  if (!Expect(",", DiagnosticKind::kMissingComma) || !ParseShape(shape) ||
      !Expect(",", DiagnosticKind::kMissingComma) || !ParseDType(dtype) || !ExpectClose(")", open)) {
    return nullptr;
  }
  std::optional<Shape> extents = shape.is_dims() ? StaticShape(shape.dims) : std::nullopt;
  std::optional<int64_t> count = extents ? NumElements(*extents) : std::nullopt;
  constexpr int64_t kMaxElements = int64_t{1} << 28;
  if (!count || *count > kMaxElements || !dtype.is_concrete() || !IsStorable(dtype.dtype)) {
    Error(From(begin), DiagnosticKind::kBadConstant,
          absl::StrCat("saw a constant of type `", ir::TypeToString(arena_.New<ir::TensorType>(shape, dtype)),
                       "`; expected a shape of numbers, at most 2^28 elements, and a dtype of one lane"));
    return ErrorExpr(From(begin));
  }
  if (is_list && static_cast<int64_t>(values.size()) != *count) {
    Error(From(begin), DiagnosticKind::kElementCountMismatch,
          absl::StrCat("the constant lists ", values.size(), " element", values.size() == 1 ? "" : "s", "; its shape ",
                       ShapeToString(*extents), " has ", *count));
    return ErrorExpr(From(begin));
  }
  if (lengths.size() > 1 && lengths != *extents) {
    Error(From(begin), DiagnosticKind::kElementCountMismatch,
          absl::StrCat("the constant's lists are nested as ", ShapeToString(lengths), "; its shape is ",
                       ShapeToString(*extents)));
    return ErrorExpr(From(begin));
  }
  for (const Literal& value : values) {
    bool is_wide = value.dtype() == kUInt64 && value.IntAt(0) < 0;
    if (!is_wide || dtype.dtype == kUInt64 || dtype.dtype.is_float()) continue;
    Error(From(begin), DiagnosticKind::kIntegerOutOfRange,
          absl::StrCat("`", ScalarToString(value, 0), "` does not fit ", dtype.dtype.ToString()));
    return ErrorExpr(From(begin));
  }
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(*count * dtype.dtype.bytes());
  for (int64_t i = 0; i < *count; ++i) {
    const Literal& value = values[is_list ? static_cast<size_t>(i) : 0];
    std::byte* at = buffer->data() + i * dtype.dtype.bytes();
    if (dtype.dtype.is_float())
      StoreDouble(dtype.dtype, at, value.DoubleAt(0));
    else
      StoreInt(dtype.dtype, at, value.IntAt(0));
  }
  return MakeConstant(Literal(dtype.dtype, *extents, std::move(buffer)), From(begin));
}

bool Parser::ParseAttrValue(ir::AttrValue& value) {
  if (AtMeta()) return ParseMetaValue(value);
  if (PeekIs("[") || PeekIs("(")) {
    Token open = Take();
    std::string_view close = open.text == "[" ? "]" : ")";
    ir::AttrValue::List list;
    while (!Accept(close)) {
      ir::AttrValue element;
      if (!ParseAttrValue(element)) return false;
      list.push_back(std::move(element));
      if (!Separator(close, open.span)) return false;
    }
    value = std::move(list);
    return true;
  }
  bool negative = Accept("-");
  const Token token = Peek();
  if (token.kind != TokenKind::kPunct) Take();
  if (token.kind == TokenKind::kNumber) {
    std::optional<Literal> literal = ScalarOf(token, negative);
    if (!literal) return false;
    if (literal->dtype().is_float())
      value = literal->dtype() == kFloat32 ? std::strtod(std::string(token.text).c_str(), nullptr) * (negative ? -1 : 1)
                                           : literal->DoubleAt(0);
    else
      value = literal->IntAt(0);
    return true;
  }
  if (token.kind == TokenKind::kString && !negative) {
    std::optional<std::string> text = Unquote(token, diagnostics_);
    if (text) value = *std::move(text);
    return text.has_value();
  }
  if (token.kind == TokenKind::kIdent) {
    if (std::optional<Literal> special = SpecialFloat(token.text, negative)) {
      value = special->DoubleAt(0);
      return true;
    }
    if (!negative) {
      if (token.text == "True" || token.text == "False")
        value = token.text == "True";
      else if (token.text == "None" || token.text == "nullptr")
        value = ir::AttrValue();
      else
        value = std::string(token.text);  // a dtype, an enumerator or an extent
      if (const ir::TypeParam* param = FindTypeParam(token.text)) NoteTypeParam(param, token.span);
      return true;
    }
  }
  if (token.kind == TokenKind::kError) return false;
  Error(token.span, DiagnosticKind::kBadAttributeValue,
        absl::StrCat("saw `", Abseil(token.text),
                     "`; expected an attribute: a number, a string, True, False, None or a list"));
  return false;
}

}  // namespace rvm::text
