#include "compiler/import/lists.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/checks.h"
#include "compiler/import/loops.h"

namespace rvm::importing {
namespace {

using builder::Pattern;

// Beginnings of the messages for indices beyond either end.
constexpr std::string_view kAbove = "the index of a sequence is out of bounds: the greatest one and the index";
constexpr std::string_view kBelow = "the index of a sequence is out of bounds: the index and the least one";
constexpr std::string_view kNoElement = "the index of a sequence is out of bounds: the elements, and those needed";
constexpr std::string_view kJoined = "an empty sequence cannot be joined: its elements, and those needed";

Pattern NilPattern() { return Pattern::Of("Nil"); }
Pattern ConsPattern(Pattern first, Pattern rest) { return Pattern::Of("Cons", {std::move(first), std::move(rest)}); }
Pattern FirstAndRest() { return ConsPattern(Pattern::Var("x"), Pattern::Var("rest")); }

// Returns a pattern's variables as operands.
Operands Bind(Emitter& emit, builder::Values values, std::vector<const ir::Type*> types) {
  Operands operands;
  for (size_t i = 0; i < values.size(); ++i) operands.push_back(emit.Bound(values[i], types[i]));
  return operands;
}

const ir::Type* ElementOf(Steps& c, Operand list) {
  const ir::Type* element = c.emit().ElementType(list->type, "List");
  if (element == nullptr)
    c.Fail(absl::StrCat("an input is of type `", ir::TypeToString(list->type), "`; expected a sequence"));
  return element;
}

builder::Value NilOf(Emitter& emit) { return emit.builder().Call(emit.builder().Constructor("Nil"), {}); }

// Calls `name`, a function over lists that calls itself.
Operand OverList(Steps& c, std::string_view name, const Operands& args, const ir::Type* result, FunctionBody body) {
  Emitter& emit = c.emit();
  bool is_known = std::none_of(args.begin(), args.end(), [](Operand o) { return o == nullptr || o->is_placeholder; });
  if (c.failed() || !is_known) return emit.Placeholder();
  std::vector<const ir::Type*> types;
  std::vector<builder::Value> values;
  for (Operand arg : args) {
    types.push_back(arg->type);
    values.push_back(emit.Use(arg));
  }
  if (emit.is_dry()) return emit.Bound(builder::Value(0), result);
  builder::Value function = DefineFunction(emit, name, types, result, body);
  return emit.Bound(emit.builder().Call(function, values), result);
}

Operand Position(Steps& c, Operand index) { return c.Cast(c.Scalar(index), kInt64); }
bool IsNatural(Operand index) { return index->constant && index->constant->IntAt(0) >= 0; }

// Counts a negative index from the end. The program fails if it is before the first element.
Operand FromTheFront(Steps& c, Operand list, Operand index) {
  if (c.failed() || index->is_placeholder || IsNatural(index)) return index;
  auto counted = [&]() -> Operands {
    Operand length = Length(c, list);
    return {c.Add(CheckAtLeast(c, index, index, c.Sub(c.Integer(0), length), kBelow), length)};
  };
  if (index->constant) return counted()[0];
  // Only a negative index counts the elements.
  Operands either = Branch(c, c.Op("less", {index, c.Integer(0)}), counted, [&]() -> Operands { return {index}; });
  return either.empty() ? c.emit().Placeholder() : either[0];
}

// Returns the element at `position`, which is at least 0. The program fails behind the last one.
Operand ElementFromTheFront(Steps& c, Operand list, Operand position) {
  const ir::Type *element = ElementOf(c, list), *list_type = list->type;
  Emitter& emit = c.emit();
  if (element == nullptr) return emit.Placeholder();
  return OverList(c, "at", {list, position, position}, element, [&](const builder::Value& self, const Operands& own) {
    builder::ProgramBuilder& b = emit.builder();
    Operand left = own[1], index = own[2];
    auto found = [&](builder::Values values) {
      return emit.InBlock([&] {
        Operands parts = Bind(emit, values, {element, list_type});
        return b.If(
            emit.Use(c.Op("less_equal", {left, c.Integer(0)})), [&] { return emit.Use(parts[0]); },
            [&] {
              return emit.InBlock([&] {
                return b.Call(self, {emit.Use(parts[1]), emit.Use(c.Sub(left, c.Integer(1))), emit.Use(index)});
              });
            });
      });
    };
    auto beyond = [&](builder::Values) {
      return emit.InBlock([&] {
        Operand greatest = c.Sub(c.Sub(index, left), c.Integer(1));
        Operand failed = CheckAtLeast(c, left, greatest, index, kAbove);
        return b.Call(self, {emit.Use(own[0]), emit.Use(failed), emit.Use(index)});
      });
    };
    return b.Match(emit.Use(own[0]), {{FirstAndRest(), found}, {NilPattern(), beyond}});
  });
}

// Prepends the elements of `list`, last one first, to `onto`, a list of type `type`.
Operand ReverseOntoTyped(Steps& c, Operand list, Operand onto, const ir::Type* type) {
  Emitter& emit = c.emit();
  const ir::Type *from = ElementOf(c, list), *to = emit.ElementType(type, "List"), *list_type = list->type;
  if (c.failed()) return emit.Placeholder();
  return OverList(c, "reverse", {list, onto}, type, [&](const builder::Value& self, const Operands& own) {
    return emit.builder().Match(emit.Use(own[0]),
                                {{NilPattern(), [&](builder::Values) { return emit.Use(own[1]); }},
                                 {FirstAndRest(), [&](builder::Values found) {
                                    return emit.InBlock([&] {
                                      Operands parts = Bind(emit, found, {from, list_type});
                                      Operand first = ir::TypesEqual(from, to) ? parts[0] : emit.Widened(parts[0], to);
                                      builder::Value longer = Cons(emit, emit.Use(first), emit.Use(own[1]));
                                      return emit.builder().Call(self, {emit.Use(parts[1]), longer});
                                    });
                                  }}});
  });
}

Operand WidenOption(Steps& c, Operand option, const ir::Type* type) {
  Emitter& emit = c.emit();
  const ir::Type *from = emit.ElementType(option->type, "Option"), *to = emit.ElementType(type, "Option");
  builder::Value value = emit.Use(option);
  if (emit.is_dry()) return emit.Bound(builder::Value(0), type);
  builder::ProgramBuilder& b = emit.builder();
  auto some = [&](builder::Values found) {
    return emit.InBlock([&] {
      Operand x = emit.Bound(found[0], from);
      bool is_list = emit.ElementType(from, "List") != nullptr;
      return b.Call(b.Constructor("Some"), {emit.Use(is_list ? WidenElements(c, x, to) : emit.Widened(x, to))});
    });
  };
  auto none = [&](builder::Values) { return b.Call(b.Constructor("None"), {}); };
  return emit.Bound(b.Match(value, {{Pattern::Of("Some", {Pattern::Var("x")}), some}, {Pattern::Of("None"), none}}),
                    type);
}

}  // namespace

builder::Value DefineFunction(Emitter& emit, std::string_view name, const std::vector<const ir::Type*>& params,
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

// ---- made

builder::Value Cons(Emitter& emit, const builder::Value& first, const builder::Value& rest) {
  return emit.builder().Call(emit.builder().Constructor("Cons"), {first, rest});
}

Operand Nil(Steps& c, const ir::Type* type) {
  return c.emit().Bound(c.emit().is_dry() ? builder::Value(0) : NilOf(c.emit()), type);
}

Operand EmptyList(Steps& c) { return Nil(c, c.emit().ListOf(c.emit().TupleOf({}))); }

bool IsEmptyList(Steps& c, Operand list) {
  const auto* tuple = ir::DynCast<ir::TupleType>(c.emit().ElementType(list->type, "List"));
  return tuple != nullptr && tuple->fields.empty();
}

Operand ListOf(Steps& c, const Operands& elements) {
  Emitter& emit = c.emit();
  bool is_known = std::none_of(elements.begin(), elements.end(), [](Operand o) { return !o || o->is_placeholder; });
  if (c.failed() || !is_known) return emit.Placeholder();
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

Operand WidenElements(Steps& c, Operand value, const ir::Type* type) {
  Emitter& emit = c.emit();
  if (value->is_placeholder || ir::TypesEqual(value->type, type)) return value;
  if (emit.ElementType(type, "Option") != nullptr) return WidenOption(c, value, type);
  if (emit.ElementType(type, "List") == nullptr) return value;
  if (IsEmptyList(c, value)) return Nil(c, type);
  if (value->reversed != nullptr) return ReverseOntoTyped(c, value->reversed, Nil(c, type), type);
  return ReverseOntoTyped(c, ReverseOntoTyped(c, value, Nil(c, type), type), Nil(c, type), type);
}

Operand Reversed(Steps& c, Operand list) {
  if (list->is_placeholder || IsEmptyList(c, list)) return list;
  return list->reversed != nullptr ? list->reversed : ReverseOntoTyped(c, list, Nil(c, list->type), list->type);
}

Operand ReverseOnto(Steps& c, Operand list, Operand onto) {
  if (IsEmptyList(c, list)) return onto;
  const ir::Type* type = c.emit().Join(list->type, onto->type);
  if (type == nullptr) return c.Unsupported("a sequence of tensors of different ranks or dtypes");
  return ReverseOntoTyped(c, list, WidenElements(c, onto, type), type);
}

// ---- read

Operand Length(Steps& c, Operand list) {
  if (IsEmptyList(c, list)) return c.Integer(0);
  const ir::Type *element = ElementOf(c, list), *list_type = list->type;
  Emitter& emit = c.emit();
  Operand counted = list->reversed != nullptr ? list->reversed : list;
  Operand length =
      OverList(c, "length", {counted, c.Integer(0)}, emit.TensorType({}, kInt64),
               [&](const builder::Value& self, const Operands& own) {
                 return emit.builder().Match(
                     emit.Use(own[0]), {{NilPattern(), [&](builder::Values) { return emit.Use(own[1]); }},
                                        {ConsPattern(Pattern::Any(), Pattern::Var("rest")), [&](builder::Values found) {
                                           return emit.InBlock([&] {
                                             Operands parts = Bind(emit, found, {list_type, element});
                                             return emit.builder().Call(
                                                 self, {emit.Use(parts[0]), emit.Use(c.Add(own[1], c.Integer(1)))});
                                           });
                                         }}});
               });
  length->counted = list;
  return length;
}

Operand ElementAt(Steps& c, Operand list, Operand index) {
  Emitter& emit = c.emit();
  const ir::Type* element = ElementOf(c, list);
  if (element == nullptr) return emit.Placeholder();
  if (IsEmptyList(c, list)) return c.Fail("the sequence is empty");
  index = Position(c, index);
  if (c.failed() || index->is_placeholder) return emit.Placeholder();
  if (list->reversed != nullptr && index->constant && !IsNatural(index)) {
    return ElementFromTheFront(c, list->reversed, c.Sub(c.Integer(-1), index));
  }
  if (Operand rest = emit.ReadInStep(list, index)) {
    emit.Use(list);
    if (emit.is_dry()) return emit.Bound(builder::Value(0), element);
    auto beyond = [&] { return emit.InBlock([&] { return emit.Use(ElementFromTheFront(c, list, index)); }); };
    return emit.Bound(emit.builder().Match(emit.Use(rest), {{ConsPattern(Pattern::Var("x"), Pattern::Any()),
                                                             [](builder::Values found) { return found[0]; }},
                                                            {NilPattern(), [&](builder::Values) { return beyond(); }}}),
                      element);
  }
  return ElementFromTheFront(c, list, FromTheFront(c, list, index));
}

Operand Rest(Steps& c, Operand list) {
  Emitter& emit = c.emit();
  if (c.failed() || list->is_placeholder || IsEmptyList(c, list)) return list;
  builder::Value value = emit.Use(list);
  if (emit.is_dry()) return emit.Bound(builder::Value(0), list->type);
  return emit.Bound(emit.builder().Match(value, {{ConsPattern(Pattern::Any(), Pattern::Var("rest")),
                                                  [](builder::Values found) { return found[0]; }},
                                                 {NilPattern(), [&](builder::Values) { return NilOf(emit); }}}),
                    list->type);
}

// ---- changed

Operands SplitAt(Steps& c, Operand list, Operand count) {
  Emitter& emit = c.emit();
  const ir::Type *element = ElementOf(c, list), *list_type = list->type;
  if (c.failed()) return {emit.Placeholder(), emit.Placeholder()};
  Operand nothing = Nil(c, list_type);
  Operand pair = OverList(
      c, "split", {list, count, nothing, count}, emit.TupleOf({list_type, list_type}),
      [&](const builder::Value& self, const Operands& own) {
        builder::ProgramBuilder& b = emit.builder();
        Operand left = own[1], done = own[2], all = own[3];
        auto is_done = [&] { return emit.Use(c.Op("less_equal", {left, c.Integer(0)})); };
        auto result = [&] { return b.TupleOf({emit.Use(done), emit.Use(own[0])}); };
        auto next = [&](builder::Values found) {
          return emit.InBlock([&] {
            Operands parts = Bind(emit, found, {element, list_type});
            return b.If(is_done(), result, [&] {
              return emit.InBlock([&] {
                builder::Value longer = Cons(emit, emit.Use(parts[0]), emit.Use(done));
                return b.Call(self, {emit.Use(parts[1]), emit.Use(c.Sub(left, c.Integer(1))), longer, emit.Use(all)});
              });
            });
          });
        };
        auto end = [&](builder::Values) {
          return emit.InBlock([&] {
            return b.If(is_done(), result, [&] {
              return emit.InBlock([&] {
                Operand failed = CheckAtLeast(c, left, c.Sub(all, left), all, kNoElement);
                return b.Call(self, {emit.Use(own[0]), emit.Use(failed), emit.Use(done), emit.Use(all)});
              });
            });
          });
        };
        return b.Match(emit.Use(own[0]), {{NilPattern(), end}, {FirstAndRest(), next}});
      });
  if (c.failed() || pair->is_placeholder) return {emit.Placeholder(), emit.Placeholder()};
  return {emit.Field(pair, 0), emit.Field(pair, 1)};
}

Operand Append(Steps& c, Operand list, Operand element) {
  Emitter& emit = c.emit();
  if (c.failed() || list->is_placeholder || element->is_placeholder) return emit.Placeholder();
  if (IsEmptyList(c, list)) return ListOf(c, {element});
  if (ElementOf(c, list) == nullptr) return emit.Placeholder();
  const ir::Type* type = emit.Join(list->type, emit.ListOf(element->type));
  if (type == nullptr) return c.Unsupported("a sequence of tensors of different ranks or dtypes");
  Operand first = emit.Widened(element, emit.ElementType(type, "List"));
  Operand reversed = WidenElements(c, Reversed(c, list), type);
  builder::Value value = emit.Use(first), rest = emit.Use(reversed);
  return emit.Backwards(emit.Bound(emit.is_dry() ? builder::Value(0) : Cons(emit, value, rest), type));
}

Operand InsertAt(Steps& c, Operand list, Operand index, Operand element) {
  index = Position(c, index);
  if (c.failed() || index->is_placeholder || list->is_placeholder) return c.emit().Placeholder();
  if (index->counted == list) return Append(c, list, element);
  if (IsEmptyList(c, list)) {
    Operand zero = c.Integer(0);
    return ListOf(c, {CheckAtLeast(c, CheckAtLeast(c, element, index, zero, kBelow), zero, index, kAbove)});
  }
  Operands parts = SplitAt(c, list, FromTheFront(c, list, index));
  return ReverseOnto(c, parts[0], ReverseOnto(c, ListOf(c, {element}), parts[1]));
}

Operand EraseLast(Steps& c, Operand list) {
  if (c.failed() || list->is_placeholder) return c.emit().Placeholder();
  if (IsEmptyList(c, list)) return c.Fail("the sequence is empty");
  Operands parts = SplitAt(c, Reversed(c, list), c.Integer(1));
  return c.failed() || parts[1]->is_placeholder ? c.emit().Placeholder() : c.emit().Backwards(parts[1]);
}

Operand EraseAt(Steps& c, Operand list, Operand index) {
  index = Position(c, index);
  if (c.failed() || index->is_placeholder || list->is_placeholder) return c.emit().Placeholder();
  if (IsEmptyList(c, list)) return c.Fail("the sequence is empty");
  Operands parts = SplitAt(c, list, c.Add(FromTheFront(c, list, index), c.Integer(1)));
  return ReverseOnto(c, Rest(c, parts[0]), parts[1]);
}

// Neighbours are joined until one is left: each pass halves the list and turns it round.
Operand Join(Steps& c, Operand list, int64_t axis, bool is_reversed, bool may_be_empty) {
  const ir::Type* element = ElementOf(c, list);
  const auto* tensor = ir::DynCast<ir::TensorType>(element);
  if (tensor == nullptr)
    return c.failed() ? c.emit().Placeholder() : c.Fail("cannot join a sequence whose elements have no known type");
  Emitter& emit = c.emit();
  Dims dims = tensor->shape.dims;
  axis = c.Axis(axis, static_cast<int64_t>(dims.size()));
  if (c.failed()) return emit.Placeholder();
  dims[static_cast<size_t>(axis)] = Dim::Any();
  const ir::Type* part = emit.TensorType(dims, tensor->dtype.dtype);
  const ir::Type* parts = emit.ListOf(part);
  if (list->reversed != nullptr) {
    list = list->reversed;
    is_reversed = !is_reversed;
  }
  Operand nothing = Nil(c, parts), order = emit.Constant(Literal::ScalarInt(kBool, is_reversed));
  if (may_be_empty) order = CheckAtLeast(c, order, Length(c, list), c.Integer(1), kJoined);
  return OverList(
      c, "join", {WidenElements(c, list, parts), nothing, order}, part,
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

}  // namespace rvm::importing
