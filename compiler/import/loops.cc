#include "compiler/import/loops.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rvm::importing {
namespace {

constexpr int kMaxRounds = 12;

// Several values as one: a tuple unless there is one alone.
builder::Value Pack(Emitter& emit, const Operands& operands) {
  if (operands.size() == 1) return emit.Use(operands[0]);
  std::vector<builder::Value> values;
  for (Operand operand : operands) values.push_back(emit.Use(operand));
  return emit.builder().TupleOf(values);
}

const ir::Type* PackedType(Emitter& emit, std::vector<const ir::Type*> types) {
  return types.size() == 1 ? types[0] : emit.TupleOf(std::move(types));
}

Operands Unpack(Emitter& emit, Operand packed, size_t count) {
  if (count == 1) return {packed};
  Operands fields;
  for (size_t i = 0; i < count; ++i) fields.push_back(emit.Field(packed, static_cast<uint32_t>(i)));
  return fields;
}

Operands Placeholders(Emitter& emit, size_t count) {
  Operands result;
  for (size_t i = 0; i < count; ++i) result.push_back(emit.Placeholder());
  return result;
}

bool AnyPlaceholder(const Operands& operands) {
  return std::any_of(operands.begin(), operands.end(), [](Operand o) { return o == nullptr || o->is_placeholder; });
}

// A function of `params` that may call itself: `body` gets itself and its parameters.
using FunctionBody = absl::FunctionRef<builder::Value(const builder::Value& self, const Operands& params)>;
builder::Value Define(Emitter& emit, std::string_view name, const std::vector<const ir::Type*>& params,
                      const ir::Type* result, FunctionBody body) {
  std::vector<builder::Param> declared;
  for (const ir::Type* type : params) declared.push_back({emit.UniqueName("v"), emit.Annotation(type)});
  return emit.builder().Lambda(emit.UniqueName(name), declared, emit.Annotation(result),
                               [&](const builder::Value& self, builder::Values values) {
                                 return emit.InBlock([&] {
                                   Operands operands;
                                   for (size_t i = 0; i < values.size(); ++i)
                                     operands.push_back(emit.Bound(values[i], params[i]));
                                   return body(self, operands);
                                 });
                               });
}

// A pattern's variables as operands.
Operands Bind(Emitter& emit, builder::Values values, std::vector<const ir::Type*> types) {
  Operands operands;
  for (size_t i = 0; i < values.size(); ++i) operands.push_back(emit.Bound(values[i], types[i]));
  return operands;
}

using builder::Pattern;
Pattern NilPattern() { return Pattern::Of("Nil"); }
Pattern ConsPattern(Pattern first, Pattern rest) { return Pattern::Of("Cons", {std::move(first), std::move(rest)}); }

const ir::Type* ElementOf(Steps& c, Operand list) {
  const ir::Type* element = c.emit().ElementType(list->type, "List");
  if (element == nullptr)
    c.Fail(absl::StrCat("an input is of type `", ir::TypeToString(list->type), "`; expected a sequence"));
  return element;
}

builder::Value NilOf(Emitter& emit) { return emit.builder().Call(emit.builder().Constructor("Nil"), {}); }

builder::Value Cons(Emitter& emit, const builder::Value& first, const builder::Value& rest) {
  return emit.builder().Call(emit.builder().Constructor("Cons"), {first, rest});
}

}  // namespace

Operands Branch(Steps& c, Operand condition, absl::FunctionRef<Operands()> then_block,
                absl::FunctionRef<Operands()> else_block) {
  Emitter& emit = c.emit();
  if (c.failed() || condition->is_placeholder) return {};
  int64_t watermark = emit.Watermark();
  Operands first, second;
  std::optional<builder::Value> chosen;
  if (emit.is_dry()) {
    first = then_block();
    second = else_block();
  } else {
    builder::Value test = emit.Use(condition);
    auto block = [&](absl::FunctionRef<Operands()> body, Operands& results) {
      return emit.InBlock([&] {
        results = body();
        return Pack(emit, results);
      });
    };
    chosen =
        emit.builder().If(test, [&] { return block(then_block, first); }, [&] { return block(else_block, second); });
  }
  if (first.size() != second.size()) {
    c.Fail("its branches have different numbers of outputs");
    return {};
  }
  if (AnyPlaceholder(first) || AnyPlaceholder(second)) return Placeholders(emit, first.size());
  std::vector<const ir::Type*> types;
  for (size_t i = 0; i < first.size(); ++i) {
    const ir::Type* joined = emit.Join(first[i]->type, second[i]->type);
    if (joined == nullptr) {
      c.Fail(absl::StrCat("output ", i, " is of type `", ir::TypeToString(first[i]->type), "` in one branch and `",
                          ir::TypeToString(second[i]->type), "` in the other",
                          "; if the shapes of the model's inputs decide which branch runs, give them: --shape "
                          "INPUT=EXTENT,..., and --freeze NAME=VALUE for inputs that are parameters"));
      return {};
    }
    types.push_back(emit.Escape(joined, watermark));
  }
  size_t count = types.size();
  if (count == 0) return {};
  return Unpack(emit, emit.Bound(chosen.value_or(builder::Value(0)), PackedType(emit, std::move(types))), count);
}

Rolled Roll(Steps& c, Operand limit, Operand condition, const Operands& initial, StepBody body) {
  Emitter& emit = c.emit();
  size_t size = initial.size();
  if (c.failed() || AnyPlaceholder(initial)) return {Placeholders(emit, size), {}};
  const ir::Type *index_type = emit.TensorType({}, kInt64), *condition_type = emit.TensorType({}, kBool);
  std::vector<const ir::Type*> types;
  for (Operand operand : initial) types.push_back(operand->type);

  // The types of the state are those that a step keeps: where it changes an extent, that is unknown.
  int64_t watermark = emit.Watermark();
  std::vector<const ir::Type*> rows;
  bool has_condition = false, is_stable = false;
  for (int round = 0; !is_stable; ++round) {
    if (round == kMaxRounds) {
      c.Fail("the types of its state never become stable");
      return {Placeholders(emit, size), {}};
    }
    emit.BeginDry();
    Operands params;
    for (const ir::Type* type : types) params.push_back(emit.Bound(builder::Value(0), type));
    Step step = body(emit.Bound(builder::Value(0), index_type), params);
    emit.EndDry();
    bool is_complete = step.state.size() == size && !AnyPlaceholder(step.state) && !AnyPlaceholder(step.rows);
    if (c.failed() || !is_complete) {
      if (step.state.size() != size) c.Fail("its body has another number of states than it");
      Rolled rolled = {Placeholders(emit, size), Placeholders(emit, step.rows.size())};
      return rolled;
    }
    has_condition = step.condition != nullptr;
    rows.clear();
    for (Operand row : step.rows) rows.push_back(emit.Escape(row->type, watermark));
    is_stable = true;
    for (size_t i = 0; i < size; ++i) {
      const ir::Type* joined = emit.Join(types[i], emit.Escape(step.state[i]->type, watermark));
      if (joined == nullptr) {
        c.Fail(absl::StrCat("state ", i, " is of type `", ir::TypeToString(types[i]), "` before a step and `",
                            ir::TypeToString(step.state[i]->type), "` behind it"));
        return {Placeholders(emit, size), {}};
      }
      is_stable = is_stable && ir::TypesEqual(joined, types[i]);
      types[i] = joined;
    }
  }

  has_condition = has_condition || condition != nullptr;
  std::vector<const ir::Type*> results = types, params = {index_type};
  for (const ir::Type* row : rows) results.push_back(emit.ListOf(row));
  if (has_condition) params.push_back(condition_type);
  params.insert(params.end(), results.begin(), results.end());
  Rolled rolled;
  rolled.count = limit;
  rolled.is_counted = limit != nullptr && !has_condition;
  const ir::Type* result_type = PackedType(emit, results);
  if (results.empty()) return rolled;
  Operand packed;
  if (emit.is_dry()) {
    packed = emit.Bound(builder::Value(0), result_type);
  } else {
    // Steps that the body needs and that stand outside are made outside.
    if (limit != nullptr) emit.Use(limit);
    builder::ProgramBuilder& b = emit.builder();
    builder::Value loop =
        Define(emit, "loop", params, result_type, [&](const builder::Value& self, const Operands& own) {
          Operand index = own[0];
          size_t first = has_condition ? 2 : 1;
          Operands state(own.begin() + static_cast<ptrdiff_t>(first),
                         own.begin() + static_cast<ptrdiff_t>(first + size));
          Operands lists(own.begin() + static_cast<ptrdiff_t>(first + size), own.end());
          Operands all = state;
          all.insert(all.end(), lists.begin(), lists.end());
          Operand goes_on = has_condition ? own[1] : nullptr;
          if (limit != nullptr) {
            Operand below = c.Op("less", {index, limit});
            goes_on = goes_on == nullptr ? below : c.Op("logical_and", {below, goes_on});
          }
          if (goes_on == nullptr) goes_on = emit.Constant(Literal::ScalarInt(kBool, 1));
          return b.If(
              emit.Use(goes_on),
              [&] {
                return emit.InBlock([&] {
                  Step step = body(index, state);
                  std::vector<builder::Value> next = {emit.Use(c.Add(index, c.Integer(1)))};
                  if (has_condition) {
                    next.push_back(step.condition == nullptr ? builder::Value(true) : emit.Use(step.condition));
                  }
                  for (size_t i = 0; i < size && i < step.state.size(); ++i) {
                    next.push_back(emit.Use(WidenList(c, step.state[i], types[i])));
                  }
                  for (size_t i = 0; i < step.rows.size() && i < lists.size(); ++i) {
                    next.push_back(Cons(emit, emit.Use(emit.Widened(step.rows[i], rows[i])), emit.Use(lists[i])));
                  }
                  return b.Call(self, next);
                });
              },
              [&] { return emit.InBlock([&] { return Pack(emit, all); }); });
        });
    std::vector<builder::Value> args = {builder::Value(int64_t{0})};
    if (has_condition) args.push_back(condition == nullptr ? builder::Value(true) : emit.Use(condition));
    for (size_t i = 0; i < size; ++i) args.push_back(emit.Use(WidenList(c, initial[i], types[i])));
    for (size_t i = 0; i < rows.size(); ++i) args.push_back(NilOf(emit));
    packed = emit.Bound(b.Call(loop, args), emit.Escape(result_type, watermark));
  }
  Operands all = Unpack(emit, packed, results.size());
  rolled.state.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(size));
  rolled.lists.assign(all.begin() + static_cast<ptrdiff_t>(size), all.end());
  return rolled;
}

// ---- lists

Operand EmptyList(Steps& c) {
  Emitter& emit = c.emit();
  const ir::Type* type = emit.ListOf(emit.TupleOf({}));
  return emit.Bound(emit.is_dry() ? builder::Value(0) : NilOf(emit), type);
}

bool IsEmptyList(Steps& c, Operand list) {
  const auto* tuple = ir::DynCast<ir::TupleType>(c.emit().ElementType(list->type, "List"));
  return tuple != nullptr && tuple->fields.empty();
}

Operand ListOf(Steps& c, const Operands& elements) {
  Emitter& emit = c.emit();
  if (c.failed() || AnyPlaceholder(elements)) return emit.Placeholder();
  if (elements.empty()) return EmptyList(c);
  const ir::Type* element = elements[0]->type;
  for (Operand operand : elements) {
    if (element != nullptr) element = emit.Join(element, operand->type);
  }
  if (element == nullptr) return c.Unsupported("a sequence of tensors of different ranks or dtypes");
  const ir::Type* type = emit.ListOf(element);
  if (emit.is_dry()) return emit.Bound(builder::Value(0), type);
  builder::Value list = NilOf(emit);
  for (size_t i = elements.size(); i-- > 0;) list = Cons(emit, emit.Use(emit.Widened(elements[i], element)), list);
  return emit.Bound(list, type);
}

namespace {

// Calls `name`, a function over a list that calls itself: of the parameters the first is the list.
using ListBody = absl::FunctionRef<builder::Value(const builder::Value& self, const Operands& params)>;
Operand OverList(Steps& c, std::string_view name, const Operands& args, const ir::Type* result, ListBody body) {
  Emitter& emit = c.emit();
  if (c.failed() || AnyPlaceholder(args)) return emit.Placeholder();
  if (emit.is_dry()) return emit.Bound(builder::Value(0), result);
  std::vector<const ir::Type*> types;
  for (Operand arg : args) types.push_back(arg->type);
  std::vector<builder::Value> values;
  for (Operand arg : args) values.push_back(emit.Use(arg));
  builder::Value function = Define(emit, name, types, result, body);
  return emit.Bound(emit.builder().Call(function, values), result);
}

}  // namespace

Operand Length(Steps& c, Operand list) {
  if (IsEmptyList(c, list)) return c.Integer(0);
  const ir::Type* element = ElementOf(c, list);
  Emitter& emit = c.emit();
  const ir::Type* list_type = list->type;
  return OverList(c, "length", {list, c.Integer(0)}, emit.TensorType({}, kInt64),
                  [&](const builder::Value& self, const Operands& own) {
                    return emit.builder().Match(
                        emit.Use(own[0]),
                        {{NilPattern(), [&](builder::Values) { return emit.Use(own[1]); }},
                         {ConsPattern(Pattern::Any(), Pattern::Var("rest")), [&](builder::Values found) {
                            return emit.InBlock([&] {
                              Operands parts = Bind(emit, found, {list_type, element});
                              return emit.builder().Call(self,
                                                         {emit.Use(parts[0]), emit.Use(c.Add(own[1], c.Integer(1)))});
                            });
                          }}});
                  });
}

namespace {

// `onto`, of the type `type`, behind the elements of `list` turned round.
Operand ReverseOntoTyped(Steps& c, Operand list, Operand onto, const ir::Type* type) {
  Emitter& emit = c.emit();
  const ir::Type *from = ElementOf(c, list), *to = emit.ElementType(type, "List"), *list_type = list->type;
  if (c.failed()) return emit.Placeholder();
  return OverList(c, "reverse", {list, onto}, type, [&](const builder::Value& self, const Operands& own) {
    return emit.builder().Match(emit.Use(own[0]),
                                {{NilPattern(), [&](builder::Values) { return emit.Use(own[1]); }},
                                 {ConsPattern(Pattern::Var("x"), Pattern::Var("rest")), [&](builder::Values found) {
                                    return emit.InBlock([&] {
                                      Operands parts = Bind(emit, found, {from, list_type});
                                      Operand first = ir::TypesEqual(from, to) ? parts[0] : emit.Widened(parts[0], to);
                                      builder::Value longer = Cons(emit, emit.Use(first), emit.Use(own[1]));
                                      return emit.builder().Call(self, {emit.Use(parts[1]), longer});
                                    });
                                  }}});
  });
}

Operand Nil(Steps& c, const ir::Type* type) {
  return c.emit().Bound(c.emit().is_dry() ? builder::Value(0) : NilOf(c.emit()), type);
}

}  // namespace

Operand WidenList(Steps& c, Operand list, const ir::Type* type) {
  if (c.emit().ElementType(type, "List") == nullptr || ir::TypesEqual(list->type, type)) return list;
  if (IsEmptyList(c, list)) return Nil(c, type);
  return ReverseOntoTyped(c, ReverseOntoTyped(c, list, Nil(c, type), type), Nil(c, type), type);
}

Operand ReverseOnto(Steps& c, Operand list, Operand onto) {
  if (IsEmptyList(c, list)) return onto;
  const ir::Type* type = c.emit().Join(list->type, onto->type);
  if (type == nullptr) return c.Unsupported("a sequence of tensors of different ranks or dtypes");
  return ReverseOntoTyped(c, list, WidenList(c, onto, type), type);
}

Operands SplitAt(Steps& c, Operand list, Operand count) {
  if (IsEmptyList(c, list)) return {list, list};
  Emitter& emit = c.emit();
  const ir::Type *element = ElementOf(c, list), *list_type = list->type;
  if (c.failed()) return {emit.Placeholder(), emit.Placeholder()};
  Operand nothing = Nil(c, list_type);
  Operand pair =
      OverList(c, "split", {list, count, nothing}, emit.TupleOf({list_type, list_type}),
               [&](const builder::Value& self, const Operands& own) {
                 builder::ProgramBuilder& b = emit.builder();
                 auto done = [&] { return b.TupleOf({emit.Use(own[2]), emit.Use(own[0])}); };
                 return b.Match(
                     emit.Use(own[0]),
                     {{NilPattern(), [&](builder::Values) { return done(); }},
                      {ConsPattern(Pattern::Var("x"), Pattern::Var("rest")), [&](builder::Values found) {
                         return emit.InBlock([&] {
                           Operands parts = Bind(emit, found, {element, list_type});
                           return b.If(emit.Use(c.Op("less_equal", {own[1], c.Integer(0)})), done, [&] {
                             return emit.InBlock([&] {
                               builder::Value longer = Cons(emit, emit.Use(parts[0]), emit.Use(own[2]));
                               return b.Call(self, {emit.Use(parts[1]), emit.Use(c.Sub(own[1], c.Integer(1))), longer});
                             });
                           });
                         });
                       }}});
               });
  return {emit.Field(pair, 0), emit.Field(pair, 1)};
}

Operand ElementAt(Steps& c, Operand list, Operand index) {
  const ir::Type* element = ElementOf(c, list);
  if (element == nullptr || IsEmptyList(c, list))
    return c.failed() ? c.emit().Placeholder() : c.Fail("the sequence is empty");
  Emitter& emit = c.emit();
  index = c.Cast(c.Scalar(index), kInt64);
  bool is_natural = index->constant && index->constant->IntAt(0) >= 0;
  if (!is_natural) {
    index = c.Where(c.Op("less", {index, c.Integer(0)}), c.Add(index, Length(c, list)), index);
  }
  const ir::Type* list_type = list->type;
  return OverList(c, "at", {list, index}, element, [&](const builder::Value& self, const Operands& own) {
    builder::ProgramBuilder& b = emit.builder();
    return b.Match(emit.Use(own[0]),
                   {{ConsPattern(Pattern::Var("x"), Pattern::Var("rest")),
                     [&](builder::Values found) {
                       return emit.InBlock([&] {
                         Operands parts = Bind(emit, found, {element, list_type});
                         return b.If(
                             emit.Use(c.Op("less_equal", {own[1], c.Integer(0)})), [&] { return emit.Use(parts[0]); },
                             [&] {
                               return emit.InBlock([&] {
                                 return b.Call(self, {emit.Use(parts[1]), emit.Use(c.Sub(own[1], c.Integer(1)))});
                               });
                             });
                       });
                     }}},
                   /*partial=*/true);
  });
}

// Neighbours are joined until one is left: each pass halves the list and turns it round.
Operand Join(Steps& c, Operand list, int64_t axis, bool is_reversed) {
  const ir::Type* element = ElementOf(c, list);
  const auto* tensor = ir::DynCast<ir::TensorType>(element);
  if (tensor == nullptr)
    return c.failed() ? c.emit().Placeholder() : c.Fail("a sequence of nothing that is known cannot be joined");
  Emitter& emit = c.emit();
  Dims dims = tensor->shape.dims;
  axis = c.Axis(axis, static_cast<int64_t>(dims.size()));
  if (c.failed()) return emit.Placeholder();
  dims[static_cast<size_t>(axis)] = Dim::Any();
  const ir::Type* part = emit.TensorType(dims, tensor->dtype.dtype);
  const ir::Type* parts = emit.ListOf(part);
  Operand nothing = Nil(c, parts);
  return OverList(
      c, "join", {WidenList(c, list, parts), nothing, emit.Constant(Literal::ScalarInt(kBool, is_reversed))}, part,
      [&](const builder::Value& self, const Operands& own) {
        builder::ProgramBuilder& b = emit.builder();
        auto flipped = [&] { return emit.Use(c.Op("logical_not", {own[2]})); };
        return b.Match(
            emit.Use(own[0]),
            {{ConsPattern(Pattern::Var("a"), NilPattern()),
              [&](builder::Values found) {
                return b.Match(emit.Use(own[1]), {{NilPattern(), [&](builder::Values) { return found[0]; }},
                                                  {Pattern::Any(), [&](builder::Values) {
                                                     return emit.InBlock([&] {
                                                       builder::Value all = Cons(emit, found[0], emit.Use(own[1]));
                                                       return b.Call(self, {all, NilOf(emit), flipped()});
                                                     });
                                                   }}});
              }},
             {ConsPattern(Pattern::Var("a"), ConsPattern(Pattern::Var("b"), Pattern::Var("rest"))),
              [&](builder::Values found) {
                return emit.InBlock([&] {
                  Operands three = Bind(emit, found, {part, part, parts});
                  auto joined = [&](Operand x, Operand y) {
                    return emit.InBlock(
                        [&] { return emit.Use(c.Op("concatenate", {emit.Tuple({x, y})}, {{"axis", axis}})); });
                  };
                  builder::Value both = b.If(
                      emit.Use(own[2]), [&] { return joined(three[1], three[0]); },
                      [&] { return joined(three[0], three[1]); });
                  return b.Call(self, {emit.Use(three[2]), Cons(emit, both, emit.Use(own[1])), emit.Use(own[2])});
                });
              }},
             {NilPattern(), [&](builder::Values) {
                return emit.InBlock([&] { return b.Call(self, {emit.Use(own[1]), NilOf(emit), flipped()}); });
              }}});
      });
}

Operands WithFirstAxis(Steps& c, Operands rows) {
  for (Operand& row : rows) {
    if (row->is_placeholder) continue;
    Dims dims = c.DimsOf(row);
    dims.insert(dims.begin(), Dim::Any());
    row = c.Unsqueeze(row, {0});
    row = c.emit().Retyped(row, c.emit().TensorType(dims, c.DTypeOf(row)));
  }
  return rows;
}

Operand StackRows(Steps& c, const Rolled& rolled, size_t row) {
  Emitter& emit = c.emit();
  if (c.failed() || row >= rolled.lists.size() || rolled.lists[row]->is_placeholder) return emit.Placeholder();
  Operand list = rolled.lists[row];
  const auto* tensor = ir::DynCast<ir::TensorType>(ElementOf(c, list));
  if (tensor == nullptr) return c.Unsupported("rows that are no tensors");
  // No rows at all: a tensor whose first extent is 0, and whose others are 0 where nobody knows them.
  Dims empty = {0};
  for (const Dim& dim :
       tensor->shape.dims.size() > 1 ? Dims(tensor->shape.dims.begin() + 1, tensor->shape.dims.end()) : Dims()) {
    empty.push_back(ContainsAny(dim) ? Dim(0) : dim);
  }
  Operand none =
      c.Cast(c.Number(0, list->is_placeholder ? list : emit.Number(0, tensor->dtype.dtype)), tensor->dtype.dtype);
  std::optional<Dims> count = rolled.count == nullptr ? std::nullopt : c.Symbols(rolled.count);
  bool never_empty = count && (*count)[0].is_const() && (*count)[0].constant() > 0 && rolled.is_counted;
  Operand stacked;
  if (never_empty) {
    stacked = Join(c, list, 0, true);
  } else {
    Operands either = Branch(
        c, c.Op("equal", {Length(c, list), c.Integer(0)}), [&]() -> Operands { return {c.BroadcastTo(none, empty)}; },
        [&]() -> Operands { return {Join(c, list, 0, true)}; });
    stacked = either.empty() ? nullptr : either[0];
  }
  if (stacked == nullptr || c.failed()) return emit.Placeholder();
  if (!count || !rolled.is_counted) return stacked;
  Dims dims = tensor->shape.dims;
  dims[0] = (*count)[0];
  return emit.Retyped(stacked, emit.TensorType(dims, tensor->dtype.dtype));
}

}  // namespace rvm::importing
