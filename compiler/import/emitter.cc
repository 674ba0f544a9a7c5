#include "compiler/import/emitter.h"

#include <algorithm>
#include <iterator>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/dim_size.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ops/derive_type.h"

namespace rvm::importing {
namespace {

// Constants up to this size stand in the program's text; greater ones are weights.
constexpr int64_t kMaxTextElements = 64;
constexpr size_t kMaxRank = 64;
// A dim of so many leaves and operations is long.
constexpr int kMaxDimNodes = 24;
// Dims of the importer's own have greater ids than those of the program.
constexpr int64_t kFirstOwnDim = int64_t{1} << 40;

// Returns true if the text of a program could not tell an extent of that name from a dtype, a type or a keyword.
bool HasMeaningInTypes(std::string_view name) {
  constexpr std::string_view kWords[] = {"List", "Option", "data", "def", "extern", "free_var", "import", "type"};
  return ParseDataType(name) || std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}

}  // namespace

bool IsLongDim(const Dim& dim) { return CountDimNodes(dim, kMaxDimNodes) >= kMaxDimNodes; }

Emitter::Emitter(builder::ProgramBuilder& builder) : builder_(builder), next_dim_(kFirstOwnDim) {
  blocks_.emplace_back();
}

void Emitter::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

std::string Emitter::UniqueName(std::string_view name) {
  std::string clean;
  for (char c : name.substr(0, 100)) {
    bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    clean.push_back(is_word ? c : '_');
  }
  if (clean.empty() || (clean[0] >= '0' && clean[0] <= '9')) clean.insert(clean.begin(), '_');
  std::string unique = clean;
  int& count = name_counts_[clean];
  while (!names_.insert(unique).second) unique = absl::StrCat(clean, "_", ++count);
  return unique;
}

// ---- leaves

Operand Emitter::New(const ir::Type* type) {
  int64_t number = next_number();
  OperandNode& node = operands_.emplace_back();
  node.number = number;
  node.type = type;
  return &node;
}

Operand Emitter::NewStep(const ir::Type* type, builder::Value step) {
  Operand operand = New(type);
  operand->step = std::move(step);
  NameExtents(operand);
  return operand;
}

Operand Emitter::Constant(Literal literal, std::string name) {
  Operand operand = New(TensorType(ToDims(literal.shape()), literal.dtype()));
  operand->constant = std::move(literal);
  operand->name = std::move(name);
  return operand;
}

Operand Emitter::Number(double value, DataType dtype) {
  if (dtype.is_float()) return Constant(Literal::Scalar(dtype, value));
  bool is_integer = value >= -0x1p63 && value < 0x1p63;
  return Constant(Literal::ScalarInt(dtype, is_integer ? static_cast<int64_t>(value) : 0));
}

Operand Emitter::Integer(int64_t value, DataType dtype) {
  return Constant(dtype.is_float() ? Literal::Scalar(dtype, static_cast<double>(value))
                                   : Literal::ScalarInt(dtype, value));
}

Operand Emitter::Vector(std::span<const int64_t> values) {
  return Constant(Literal::FromValues<int64_t>(kInt64, {static_cast<int64_t>(values.size())}, values));
}

Operand Emitter::FromDim(const Dim& dim) {
  if (dim.is_const()) return Integer(dim.constant());
  Operand operand = New(TensorType({}, kInt64));
  operand->elements = {dim};
  return operand;
}

Operand Emitter::FromDims(std::span<const Dim> dims) {
  if (std::optional<Shape> shape = StaticShape(Dims(dims.begin(), dims.end()))) return Vector(*shape);
  Operand operand = New(TensorType({static_cast<int64_t>(dims.size())}, kInt64));
  operand->elements.emplace(dims.begin(), dims.end());
  return operand;
}

Operand Emitter::Tuple(std::vector<Operand> fields) {
  std::vector<const ir::Type*> types;
  for (Operand field : fields) types.push_back(field->type);
  Operand operand = New(TupleOf(std::move(types)));
  operand->fields = std::move(fields);
  return operand;
}

Operand Emitter::Field(Operand tuple, uint32_t index) {
  if (tuple->is_placeholder) return Placeholder();
  const auto* type = ir::DynCast<ir::TupleType>(tuple->type);
  if (type == nullptr || index >= type->fields.size()) {
    RVM_CHECK(failed(), "a field that the value has not");
    return Placeholder();
  }
  if (!tuple->fields.empty()) return tuple->fields[index];
  Operand operand = New(type->fields[index]);
  operand->whole = tuple;
  operand->index = index;
  NameExtents(operand);
  return operand;
}

Operand Emitter::Placeholder() {
  Operand operand = Number(0, kFloat32);
  operand->is_placeholder = true;
  return operand;
}

Operand Emitter::Bound(builder::Value value, const ir::Type* type) { return NewStep(type, std::move(value)); }

// ---- types

const Dims& Emitter::DimsOf(Operand operand) {
  static const Dims* const kNone = new Dims();
  if (const auto* tensor = ir::DynCast<ir::TensorType>(operand->type)) return tensor->shape.dims;
  Fail(absl::InvalidArgumentError(
      absl::StrCat("an input is of type `", ir::TypeToString(operand->type), "`; expected a tensor")));
  return *kNone;
}

DataType Emitter::DTypeOf(Operand operand) {
  const auto* tensor = ir::DynCast<ir::TensorType>(operand->type);
  if (tensor != nullptr) return tensor->dtype.dtype;
  DimsOf(operand);
  return kFloat32;
}

Dim Emitter::ExtentOf(Operand operand, int64_t axis) {
  const Dims& dims = DimsOf(operand);
  int64_t rank = static_cast<int64_t>(dims.size());
  if (axis < 0) axis += rank;
  if (axis >= 0 && axis < rank) return dims[static_cast<size_t>(axis)];
  Fail(absl::InvalidArgumentError(absl::StrCat("an input of rank ", rank, " has no axis ", axis)));
  return 1;
}

Dim Emitter::NameDim(std::string_view name) {
  std::string unique = UniqueName(name);
  if (HasMeaningInTypes(unique)) unique = UniqueName(absl::StrCat(unique, "_"));
  Dim dim = builder_.NamedDim(unique);
  named_.insert(dim.id());
  return dim;
}

Dim Emitter::NameAgain(const Dim& dim) {
  Dim again = builder_.NamedDim(std::string(dim.name()));
  named_.insert(again.id());
  return again;
}

void Emitter::PlaceNames(Operand operand) {
  const auto* tensor = ir::DynCast<ir::TensorType>(operand->type);
  if (tensor == nullptr) return;
  for (size_t axis = 0; axis < tensor->shape.dims.size(); ++axis) {
    const Dim& dim = tensor->shape.dims[axis];
    if (dim.kind() == DimKind::kVar && IsNamed(dim)) places_.try_emplace(dim.id(), Place{operand, axis});
  }
}

builder::Type Emitter::Annotation(const ir::Type* type) {
  if (const auto* tensor = ir::DynCast<ir::TensorType>(type)) {
    Dims dims;
    for (const Dim& dim : tensor->shape.dims) {
      bool is_named =
          IsArithmeticOf(dim, [&](const Dim& leaf) { return leaf.kind() == DimKind::kVar && IsNamed(leaf); });
      dims.push_back(is_named ? dim : Dim::Any());
    }
    return builder_.Tensor(std::move(dims), tensor->dtype.dtype);
  }
  if (const auto* tuple = ir::DynCast<ir::TupleType>(type)) {
    std::vector<const ir::Type*> fields;
    for (const ir::Type* field : tuple->fields) fields.push_back(Annotation(field));
    return builder_.Tuple(std::move(fields));
  }
  if (const ir::Type* element = ElementType(type, "List")) return ListOf(Annotation(element));
  if (const ir::Type* element = ElementType(type, "Option")) return OptionOf(Annotation(element));
  RVM_UNREACHABLE("a type that no importer makes");
}

const ir::Type* Emitter::Join(const ir::Type* a, const ir::Type* b) {
  if (a->type_kind != b->type_kind) return nullptr;
  if (const auto* tensor = ir::DynCast<ir::TensorType>(a)) {
    const auto* other = ir::DynCast<ir::TensorType>(b);
    const Dims &x = tensor->shape.dims, &y = other->shape.dims;
    if (tensor->dtype != other->dtype || x.size() != y.size()) return nullptr;
    Dims dims;
    for (size_t i = 0; i < x.size(); ++i) {
      dims.push_back(CompareDims(x[i], y[i]) == DimEquality::kEqual ? x[i] : Dim::Any());
    }
    return TensorType(std::move(dims), tensor->dtype.dtype);
  }
  if (const auto* tuple = ir::DynCast<ir::TupleType>(a)) {
    const auto* other = ir::DynCast<ir::TupleType>(b);
    if (tuple->fields.size() != other->fields.size()) return nullptr;
    std::vector<const ir::Type*> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      fields.push_back(Join(tuple->fields[i], other->fields[i]));
      if (fields.back() == nullptr) return nullptr;
    }
    return fields.empty() ? a : TupleOf(std::move(fields));
  }
  if (const auto* adt = ir::DynCast<ir::AdtType>(a)) {
    const auto* other = ir::DynCast<ir::AdtType>(b);
    if (adt->adt != other->adt) return nullptr;
    // A list without elements may have any type.
    auto is_unknown = [](const ir::AdtType* type) {
      const auto* tuple = ir::DynCast<ir::TupleType>(type->args[0].type);
      return tuple != nullptr && tuple->fields.empty();
    };
    if (is_unknown(adt)) return b;
    if (is_unknown(other)) return a;
    std::vector<ir::TypeArg> args = adt->args;
    for (size_t i = 0; i < args.size(); ++i) {
      args[i].type = Join(args[i].type, other->args[i].type);
      if (args[i].type == nullptr) return nullptr;
    }
    return arena_.New<ir::AdtType>(adt->adt, std::move(args));
  }
  return nullptr;
}

const ir::Type* Emitter::Escape(const ir::Type* type, int64_t watermark) {
  if (const auto* tensor = ir::DynCast<ir::TensorType>(type)) {
    Dims dims;
    for (const Dim& dim : tensor->shape.dims) {
      bool is_known = EvaluateDim(dim, [&](const Dim& leaf) -> std::optional<int64_t> {
                        bool is_outer = leaf.kind() == DimKind::kVar && leaf.id() < watermark;
                        return is_outer ? std::optional<int64_t>(1) : std::nullopt;
                      }).has_value();
      dims.push_back(is_known ? dim : Dim::Any());
    }
    return TensorType(std::move(dims), tensor->dtype.dtype);
  }
  if (const auto* tuple = ir::DynCast<ir::TupleType>(type)) {
    std::vector<const ir::Type*> fields;
    for (const ir::Type* field : tuple->fields) fields.push_back(Escape(field, watermark));
    return TupleOf(std::move(fields));
  }
  if (const ir::Type* element = ElementType(type, "List")) return ListOf(Escape(element, watermark));
  if (const ir::Type* element = ElementType(type, "Option")) return OptionOf(Escape(element, watermark));
  return type;
}

Operand Emitter::Retyped(Operand operand, const ir::Type* type) {
  if (operand->is_placeholder) return operand;
  if (is_dry()) return NewStep(type, builder::Value(0));
  return NewStep(type, Use(operand));
}

Operand Emitter::Widened(Operand operand, const ir::Type* type) {
  if (operand->is_placeholder || is_dry()) return Retyped(operand, type);
  builder::Type annotation = Annotation(type);
  builder::Value identity = builder_.Lambda(UniqueName("widen"), {{UniqueName("v"), annotation}}, annotation,
                                            [](const builder::Value&, builder::Values own) { return own[0]; });
  return NewStep(type, builder_.Call(identity, {Use(operand)}));
}

const ir::Type* Emitter::TupleOf(std::vector<const ir::Type*> fields) {
  return arena_.New<ir::TupleType>(std::move(fields));
}

const ir::Type* Emitter::ListOf(const ir::Type* element) {
  if (!list_) {
    list_ = builder_.NewType("List", {"A"});
    list_->Constructor("Cons", {list_->Param(0), list_->Self()}).Constructor("Nil");
  }
  return list_->Of({element});
}

Operand Emitter::Backwards(Operand reversed) {
  if (reversed->is_placeholder) return reversed;
  Operand operand = New(reversed->type);
  operand->reversed = reversed;
  return operand;
}

Operand Emitter::ReadInStep(Operand list, Operand index) {
  for (LoopReads& loop : loop_reads_) {
    if (loop.index != index || list->number >= loop.first_inner) continue;
    auto found = std::find(loop.lists.begin(), loop.lists.end(), list);
    if (found == loop.lists.end() && is_dry()) {
      loop.lists.push_back(list);
      return list;
    }
    size_t at = static_cast<size_t>(found - loop.lists.begin());
    return at < loop.rests.size() ? loop.rests[at] : is_dry() ? list : nullptr;
  }
  return nullptr;
}

const ir::Type* Emitter::OptionOf(const ir::Type* element) {
  if (!option_) {
    option_ = builder_.NewType("Option", {"A"});
    option_->Constructor("Some", {option_->Param(0)}).Constructor("None");
  }
  return option_->Of({element});
}

const ir::Type* Emitter::ElementType(const ir::Type* type, std::string_view name) const {
  const auto* adt = ir::DynCast<ir::AdtType>(type);
  return adt != nullptr && adt->adt->name == name ? adt->args[0].type : nullptr;
}

// ---- steps

void Emitter::NameExtents(Operand operand) {
  const auto* tensor = ir::DynCast<ir::TensorType>(operand->type);
  if (tensor == nullptr) return;
  Dims dims = tensor->shape.dims;
  bool changed = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!ContainsAny(dims[i]) && !IsLongDim(dims[i])) continue;
    dims[i] = Dim::Var(next_dim_++, "?");
    places_[dims[i].id()] = {operand, i};
    changed = true;
  }
  if (changed) operand->type = TensorType(std::move(dims), tensor->dtype.dtype);
}

builder::Value Emitter::Scalar(const Dim& dim) {
  if (dim.is_const()) return builder::Value(dim.constant());
  if (!dim.is_binary()) {
    auto place = places_.find(dim.id());
    RVM_CHECK(place != places_.end(), "an extent that no tensor has");
    return builder_.Op("extent", {Use(place->second.operand)}, {{"axis", static_cast<int64_t>(place->second.axis)}});
  }
  builder::Value a = Scalar(dim.lhs()), b = Scalar(dim.rhs());
  switch (dim.kind()) {
    case DimKind::kAdd: return builder_.Op("add", {a, b});
    case DimKind::kSub: return builder_.Op("subtract", {a, b});
    case DimKind::kMul: return builder_.Op("multiply", {a, b});
    case DimKind::kFloorDiv: return builder_.Op("floor_divide", {a, b});
    case DimKind::kFloorMod: return builder_.Op("floor_mod", {a, b});
    case DimKind::kMin: return builder_.Op("minimum", {a, b});
    case DimKind::kMax: return builder_.Op("maximum", {a, b});
    case DimKind::kBroadcast: {
      builder::Value is_one = builder_.Op("equal", {a, builder::Value(int64_t{1})});
      return builder_.Op("where", {is_one, b, a});
    }
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole: break;
  }
  RVM_UNREACHABLE("not a binary dim");
}

// Returns the step of a value that has none yet, added to the current block.
builder::Value Emitter::Spell(Operand operand) {
  if (operand->whole != nullptr) return Use(operand->whole).Field(operand->index);
  if (operand->elements) {
    std::vector<builder::Value> scalars;
    for (const Dim& dim : *operand->elements) scalars.push_back(Scalar(dim));
    const auto& type = *ir::DynCast<ir::TensorType>(operand->type);
    builder::Value value = scalars[0];
    const Dims& dims = type.shape.dims;
    if (!dims.empty()) {
      value = builder_.Op("stack", {builder_.TupleOf(scalars)}, {{"axis", 0}});
      if (dims.size() > 1) {
        ir::AttrValue::List shape;
        for (const Dim& dim : dims) shape.push_back(dim.constant());
        value = builder_.Op("reshape", {value}, {{"newshape", shape}});
      }
    }
    if (type.dtype.dtype == kInt64) return value;
    return builder_.Op("cast", {value}, {{"dtype", type.dtype.dtype.ToString()}});
  }
  if (operand->reversed != nullptr) return SpellReversed(operand);
  std::vector<builder::Value> fields;
  for (Operand field : operand->fields) fields.push_back(Use(field));
  return builder_.TupleOf(fields);
}

builder::Value Emitter::SpellReversed(Operand operand) {
  builder::Type type = Annotation(operand->type);
  using builder::Pattern;
  builder::Value reverse = builder_.Lambda(
      UniqueName("reverse"), {{UniqueName("v"), type}, {UniqueName("v"), type}}, type,
      [&](const builder::Value& self, builder::Values own) {
        auto next = [&](builder::Values found) {
          return builder_.Call(self, {found[1], builder_.Call(builder_.Constructor("Cons"), {found[0], own[1]})});
        };
        return builder_.Match(own[0], {{Pattern::Of("Nil"), [&](builder::Values) { return own[1]; }},
                                       {Pattern::Of("Cons", {Pattern::Var("x"), Pattern::Var("rest")}), next}});
      });
  return builder_.Call(reverse, {Use(operand->reversed), builder_.Call(builder_.Constructor("Nil"), {})});
}

builder::Value Emitter::Use(Operand operand) {
  if (operand->step) return *operand->step;
  if (is_dry()) {
    if (operand->reversed != nullptr) needed_lists_.push_back(operand);
    return builder::Value(0);
  }
  if (operand->constant) {
    if (operand->constant->num_elements() <= kMaxTextElements) return builder::Value(*operand->constant);
    std::string name = UniqueName(operand->name.empty() ? "constant" : operand->name);
    weights_.emplace(name, *operand->constant);
    operand->step = builder_.Weight(name, Annotation(operand->type));
    return *operand->step;
  }
  for (const auto& block : blocks_) {
    if (auto it = block.find(operand); it != block.end()) return it->second;
  }
  builder::Value value = Spell(operand);
  blocks_.back().emplace(operand, value);
  return value;
}

builder::Value Emitter::InBlock(absl::FunctionRef<builder::Value()> body) {
  blocks_.emplace_back();
  builder::Value result = body();
  blocks_.pop_back();
  return result;
}

const ir::Type* Emitter::Derive(const ops::OpDef& op, const ir::Attrs& attrs, std::span<const Operand> args) {
  std::vector<const ir::Type*> types;
  std::vector<const Literal*> values;
  for (Operand arg : args) {
    types.push_back(arg->type);
    values.push_back(arg->constant ? &*arg->constant : nullptr);
  }
  auto value_dim = [&](size_t arg, int64_t element) {
    const auto& elements = args[arg]->elements;
    return elements ? (*elements)[static_cast<size_t>(element)] : Dim::Any();
  };
  auto known_value = [&](size_t arg, int64_t element) -> std::optional<Dim> {
    const auto& elements = args[arg]->elements;
    return elements ? std::optional((*elements)[static_cast<size_t>(element)]) : std::nullopt;
  };
  absl::StatusOr<ops::DerivedResult> derived =
      ops::DeriveResult(op, attrs, types, values, arena_, value_dim, known_value);
  if (derived.ok()) return derived->result;
  Fail(derived.status());
  return nullptr;
}

Operand Emitter::Emit(const Dims* dims, std::string_view name, std::vector<Operand> args, ir::Attrs attrs) {
  for (Operand arg : args) {
    if (failed() || arg == nullptr || arg->is_placeholder) return Placeholder();
  }
  const ops::OpDef* op = ops::FindOp(name);
  RVM_CHECK(op != nullptr, "the importer names an operator that does not exist");
  // Nodes of malformed models have any number of inputs.
  const size_t least = ops::NumRequiredInputs(*op), most = op->inputs.size();
  if (args.size() < least || args.size() > most) {
    Fail(absl::InvalidArgumentError(absl::StrCat("it has ", args.size(), " inputs; `", Abseil(name), "` takes ",
                                                 least == most ? "" : absl::StrCat(least, " to "), most)));
    return Placeholder();
  }
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Attrs complete = attrs;
  if (!ops::CompleteAttrs(*op, {}, complete, diagnostics)) {
    Fail(absl::InvalidArgumentError(diagnostics.all()[0].message));
    return Placeholder();
  }
  const ir::Type* type = Derive(*op, complete, args);
  if (type == nullptr) return Placeholder();
  const auto* tensor = ir::DynCast<ir::TensorType>(type);
  if (tensor != nullptr && tensor->shape.dims.size() > kMaxRank) {
    Fail(absl::InvalidArgumentError(absl::StrCat("a tensor of more than ", kMaxRank, " axes")));
    return Placeholder();
  }
  if (dims != nullptr) type = TensorType(*dims, ir::DynCast<ir::TensorType>(type)->dtype.dtype);
  if (Operand folded = Fold(*op, complete, args, type)) return folded;
  if (failed()) return Placeholder();
  // A view of a view that has the first shape again is no view.
  Operand viewed = op->is_reshape && args[0]->viewed != nullptr ? args[0]->viewed : op->is_reshape ? args[0] : nullptr;
  if (viewed != nullptr && ir::TypesEqual(viewed->type, type)) return viewed;
  builder::Value step(0);
  if (!is_dry()) {
    std::vector<builder::Value> values;
    for (Operand arg : args) values.push_back(Use(arg));
    step = builder_.Op(name, std::move(values), std::move(attrs));
  }
  Operand result = NewStep(type, std::move(step));
  result->viewed = viewed;
  return result;
}

Operand Emitter::Op(std::string_view name, std::vector<Operand> args, ir::Attrs attrs) {
  return Emit(nullptr, name, std::move(args), std::move(attrs));
}

Operand Emitter::OpAs(Dims dims, std::string_view name, std::vector<Operand> args, ir::Attrs attrs) {
  return Emit(&dims, name, std::move(args), std::move(attrs));
}

Operand Emitter::Call(const builder::Value& callee, const std::vector<Operand>& args, const ir::Type* result) {
  if (failed()) return Placeholder();
  if (is_dry()) return NewStep(result, builder::Value(0));
  std::vector<builder::Value> values;
  for (Operand arg : args) values.push_back(Use(arg));
  return NewStep(result, builder_.Call(callee, values));
}

}  // namespace rvm::importing
