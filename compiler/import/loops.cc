#include "compiler/import/loops.h"

#include <algorithm>
#include <cstdint>
#include <optional>
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

// Returns true if an axis has two different known extents, which the type checker does not join.
bool HaveOtherNumbers(const ir::Type* a, const ir::Type* b) {
  const auto *x = ir::DynCast<ir::TensorType>(a), *y = ir::DynCast<ir::TensorType>(b);
  if (x == nullptr || y == nullptr || x->shape.dims.size() != y->shape.dims.size()) return false;
  for (size_t i = 0; i < x->shape.dims.size(); ++i) {
    const Dim &m = x->shape.dims[i], &n = y->shape.dims[i];
    if (m.is_const() && n.is_const() && m.constant() != n.constant()) return true;
  }
  return false;
}

// The results of a branch, as they were found out before its steps are made.
struct BranchResult {
  const ir::Type* type = nullptr;  // of both branches
  bool is_widened = false;         // tensors of different known extents
  bool is_backwards = false;       // lists of which both branches have the last element first
};

std::optional<std::vector<BranchResult>> JoinResults(Steps& c, const Operands& first, const Operands& second,
                                                     int64_t watermark) {
  Emitter& emit = c.emit();
  std::vector<BranchResult> results;
  for (size_t i = 0; i < first.size(); ++i) {
    const ir::Type* joined = emit.Join(first[i]->type, second[i]->type);
    if (joined == nullptr) {
      c.Fail(absl::StrCat("output ", i, " is of type `", ir::TypeToString(first[i]->type), "` in one branch and `",
                          ir::TypeToString(second[i]->type), "` in the other",
                          "; if the shapes of the model's inputs decide which branch runs, give them: --shape "
                          "INPUT=EXTENT,..., and --freeze NAME=VALUE for inputs that are parameters"));
      return std::nullopt;
    }
    results.push_back({emit.Escape(joined, watermark), HaveOtherNumbers(first[i]->type, second[i]->type),
                       first[i]->reversed != nullptr && second[i]->reversed != nullptr});
  }
  return results;
}

// Converts the results of one block to those that `results` describes.
Operands Fitted(Steps& c, Operands values, const std::vector<BranchResult>& results) {
  for (size_t i = 0; i < values.size() && i < results.size(); ++i) {
    if (results[i].is_backwards) values[i] = Reversed(c, values[i]);
    values[i] = WidenElements(c, values[i], results[i].type);
    if (results[i].is_widened) values[i] = c.emit().Widened(values[i], results[i].type);
  }
  return values;
}

}  // namespace

Operands Branch(Steps& c, Operand condition, absl::FunctionRef<Operands()> then_block,
                absl::FunctionRef<Operands()> else_block) {
  Emitter& emit = c.emit();
  if (c.failed() || condition->is_placeholder) return {};
  int64_t watermark = emit.Watermark();
  emit.BeginDry();
  Operands first = then_block(), second = else_block();
  emit.EndDry();
  size_t count = first.size();
  if (c.failed() || count != second.size()) {
    if (!c.failed()) c.Fail("its branches have different numbers of outputs");
    return Placeholders(emit, count);
  }
  if (AnyPlaceholder(first) || AnyPlaceholder(second)) return Placeholders(emit, count);
  std::optional<std::vector<BranchResult>> results = JoinResults(c, first, second, watermark);
  if (!results) return Placeholders(emit, count);
  if (count == 0) return {};
  std::vector<const ir::Type*> types;
  for (const BranchResult& result : *results) types.push_back(result.type);
  builder::Value chosen(0);
  if (emit.is_dry()) {
    Fitted(c, first, *results);
    Fitted(c, second, *results);
    for (size_t i = 0; i < count; ++i) {
      if ((*results)[i].is_backwards) continue;
      emit.Use(first[i]);
      emit.Use(second[i]);
    }
  } else {
    builder::Value test = emit.Use(condition);
    auto block = [&](absl::FunctionRef<Operands()> body) {
      return emit.InBlock([&] { return Pack(emit, Fitted(c, body(), *results)); });
    };
    chosen = emit.builder().If(test, [&] { return block(then_block); }, [&] { return block(else_block); });
  }
  Operands values = Unpack(emit, emit.Bound(chosen, PackedType(emit, std::move(types))), count);
  for (size_t i = 0; i < count; ++i) {
    if ((*results)[i].is_backwards) values[i] = emit.Backwards(values[i]);
  }
  return values;
}

namespace {

// One call of Roll.
class Loop {
 public:
  Loop(Steps& c, Operand limit, Operand condition, const Operands& initial, StepBody body)
      : c_(c), emit_(c.emit()), limit_(limit), condition_(condition), initial_(initial), body_(body) {
    for (Operand operand : initial) types_.push_back(operand->type);
    grows_.resize(initial.size());
  }

  Rolled Run() {
    int64_t watermark = emit_.Watermark();
    size_t needed = emit_.needed_lists().size();
    reads_.first_inner = emit_.next_number();
    bool is_derived = DeriveTypes(watermark);
    if (!is_derived) return {Placeholders(emit_, types_.size()), Placeholders(emit_, rows_.size())};
    Rolled rolled;
    rolled.count = limit_;
    rolled.is_counted = limit_ != nullptr && !has_condition_;
    std::vector<const ir::Type*> results = types_;
    for (const ir::Type* row : rows_) results.push_back(emit_.ListOf(row));
    if (results.empty()) return rolled;
    for (size_t i = 0; i < types_.size(); ++i) {
      if (emit_.is_dry() && !grows_[i]) emit_.Use(initial_[i]);
    }
    // Lists that the body needs and that stand outside are reversed outside.
    const Operands& lists = emit_.needed_lists();  // only grows while types are derived
    for (size_t i = needed; i < lists.size() && !emit_.is_dry(); ++i) {
      if (lists[i]->number < reads_.first_inner) emit_.Use(lists[i]);
    }
    const ir::Type* type = PackedType(emit_, results);
    Operand packed = emit_.is_dry() ? emit_.Bound(builder::Value(0), type)
                                    : emit_.Bound(Call(results), emit_.Escape(type, watermark));
    Operands all = Unpack(emit_, packed, results.size());
    for (size_t i = 0; i < types_.size(); ++i) rolled.state.push_back(grows_[i] ? emit_.Backwards(all[i]) : all[i]);
    rolled.lists.assign(all.begin() + static_cast<ptrdiff_t>(types_.size()), all.end());
    return rolled;
  }

 private:
  bool IsList(const ir::Type* type) const {
    const ir::Type* element = emit_.ElementType(type, "List");
    return element != nullptr && ir::DynCast<ir::TensorType>(element) != nullptr;
  }

  // The types of the state are those that a step keeps: where it changes an extent, that is unknown.
  bool DeriveTypes(int64_t watermark) {
    size_t size = types_.size();
    const ir::Type* index_type = emit_.TensorType({}, kInt64);
    for (int round = 0; round < kMaxRounds; ++round) {
      size_t needed = emit_.needed_lists().size();
      emit_.BeginDry();
      Operands params;
      for (const ir::Type* type : types_) {
        Operand param = emit_.Bound(builder::Value(0), type);
        params.push_back(IsList(type) ? emit_.Backwards(param) : param);
      }
      reads_.index = emit_.Bound(builder::Value(0), index_type);
      emit_.loop_reads().push_back(std::move(reads_));
      Step step = body_(emit_.loop_reads().back().index, params);
      reads_ = std::move(emit_.loop_reads().back());
      emit_.loop_reads().pop_back();
      emit_.EndDry();
      rows_.assign(step.rows.size(), nullptr);
      if (!c_.failed() && step.state.size() != size) c_.Fail("its body has another number of states than it");
      if (c_.failed() || AnyPlaceholder(step.state) || AnyPlaceholder(step.rows)) return false;
      has_condition_ = step.condition != nullptr || condition_ != nullptr;
      for (size_t i = 0; i < rows_.size(); ++i) rows_[i] = emit_.Escape(step.rows[i]->type, watermark);
      for (size_t i = 0; i < size; ++i) {
        const Operands& all = emit_.needed_lists();
        bool is_needed = std::find(all.begin() + static_cast<ptrdiff_t>(needed), all.end(), params[i]) != all.end();
        grows_[i] = params[i]->reversed != nullptr && step.state[i]->reversed != nullptr &&
                    step.state[i] != params[i] && !is_needed;
      }
      bool is_stable = true;
      for (size_t i = 0; i < size; ++i) {
        const ir::Type* joined = emit_.Join(types_[i], emit_.Escape(step.state[i]->type, watermark));
        if (joined == nullptr) {
          c_.Fail(absl::StrCat("state ", i, " is of type `", ir::TypeToString(types_[i]), "` before a step and `",
                               ir::TypeToString(step.state[i]->type), "` behind it"));
          return false;
        }
        is_stable = is_stable && ir::TypesEqual(joined, types_[i]);
        types_[i] = joined;
      }
      if (is_stable) return true;
    }
    c_.Fail("the types of its state never become stable");
    return false;
  }

  // State `i` as it is handed on.
  Operand Kept(Operand value, size_t i) {
    return WidenElements(c_, grows_[i] ? Reversed(c_, value) : value, types_[i]);
  }

  // Returns the loop as a function, called.
  builder::Value Call(const std::vector<const ir::Type*>& results) {
    // Steps that the body needs and that stand outside are made outside.
    if (limit_ != nullptr) emit_.Use(limit_);
    std::vector<const ir::Type*> params = {emit_.TensorType({}, kInt64)};
    if (has_condition_) params.push_back(emit_.TensorType({}, kBool));
    params.insert(params.end(), results.begin(), results.end());
    for (Operand list : reads_.lists) params.push_back(list->type);
    builder::Value loop = DefineFunction(
        emit_, "loop", params, PackedType(emit_, results),
        [&](const builder::Value& self, const Operands& own) { return Body(self, own, results.size()); });
    std::vector<builder::Value> args = {builder::Value(int64_t{0})};
    if (has_condition_) args.push_back(condition_ == nullptr ? builder::Value(true) : emit_.Use(condition_));
    for (size_t i = 0; i < types_.size(); ++i) args.push_back(emit_.Use(Kept(initial_[i], i)));
    for (const ir::Type* row : rows_) args.push_back(emit_.Use(Nil(c_, emit_.ListOf(row))));
    for (Operand list : reads_.lists) args.push_back(emit_.Use(list));
    return emit_.builder().Call(loop, args);
  }

  builder::Value Body(const builder::Value& self, const Operands& own, size_t results) {
    Operand index = own[0];
    auto first = own.begin() + (has_condition_ ? 2 : 1), end = first + static_cast<ptrdiff_t>(results);
    Operands all(first, end), rests(end, own.end());
    Operand goes_on = has_condition_ ? own[1] : nullptr;
    if (limit_ != nullptr) {
      Operand below = c_.Op("less", {index, limit_});
      goes_on = goes_on == nullptr ? below : c_.Op("logical_and", {below, goes_on});
    }
    if (goes_on == nullptr) goes_on = emit_.Constant(Literal::ScalarInt(kBool, 1));
    return emit_.builder().If(
        emit_.Use(goes_on), [&] { return emit_.InBlock([&] { return Again(self, index, all, rests); }); },
        [&] { return emit_.InBlock([&] { return Pack(emit_, all); }); });
  }

  // Returns a step, and the call of the loop for the next one.
  builder::Value Again(const builder::Value& self, Operand index, const Operands& all, const Operands& rests) {
    size_t size = types_.size();
    Operands state(all.begin(), all.begin() + static_cast<ptrdiff_t>(size));
    for (size_t i = 0; i < size; ++i) {
      if (grows_[i]) state[i] = emit_.Backwards(state[i]);
    }
    emit_.loop_reads().push_back({index, reads_.first_inner, reads_.lists, rests});
    Step step = body_(index, state);
    emit_.loop_reads().pop_back();
    std::vector<builder::Value> next = {emit_.Use(c_.Add(index, c_.Integer(1)))};
    if (has_condition_) next.push_back(step.condition == nullptr ? builder::Value(true) : emit_.Use(step.condition));
    for (size_t i = 0; i < size && i < step.state.size(); ++i) next.push_back(emit_.Use(Kept(step.state[i], i)));
    for (size_t i = 0; i < step.rows.size() && i < rows_.size(); ++i) {
      builder::Value row = emit_.Use(emit_.Widened(step.rows[i], rows_[i]));
      next.push_back(Cons(emit_, row, emit_.Use(all[size + i])));
    }
    for (Operand rest : rests) next.push_back(emit_.Use(Rest(c_, rest)));
    return emit_.builder().Call(self, next);
  }

  Steps& c_;
  Emitter& emit_;
  Operand limit_, condition_;
  const Operands& initial_;
  StepBody body_;
  std::vector<const ir::Type*> types_, rows_;  // of the state, and of the elements of the lists of rows
  std::vector<bool> grows_;                    // the lists of the state that are kept with the last element first
  bool has_condition_ = false;
  Emitter::LoopReads reads_;
};

}  // namespace

Rolled Roll(Steps& c, Operand limit, Operand condition, const Operands& state, StepBody body) {
  if (c.failed() || AnyPlaceholder(state)) return {Placeholders(c.emit(), state.size()), {}};
  return Loop(c, limit, condition, state, body).Run();
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
  const auto* tensor = ir::DynCast<ir::TensorType>(emit.ElementType(list->type, "List"));
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
