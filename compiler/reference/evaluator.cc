#include "compiler/reference/evaluator.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "compiler/analysis/free_vars.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/evaluate_op.h"
#include "compiler/reference/convert.h"
#include "compiler/reference/op_call.h"

namespace rvm::reference {
namespace {

using ir::Expr;
using ir::ExprKind;

// Use of the next value.
enum class ContinuationKind : uint8_t {
  kOperand,  // it is operand `index` of `expr`
  kLet,      // bind it, go on with the body
  kIf,
  kMatch,        // choose by it
  kReturn,       // leave the activation with it
  kCheckResult,  // check it against the result type of `expr`, a function
};
struct Continuation {
  ContinuationKind kind;
  const Expr* expr;
  size_t index = 0;
};

// One call in progress. Its variables have their slots from `base` on.
struct Activation {
  std::string_view function;
  size_t base = 0;
};

// The operands of `expr` that are evaluated: not a callee that is an operator or a constructor.
bool HasEvaluatedCallee(const ir::Call* call) {
  return call->callee->expr_kind != ExprKind::kOp && call->callee->expr_kind != ExprKind::kConstructor;
}
size_t NumOperands(const Expr* expr) {
  switch (expr->expr_kind) {
    case ExprKind::kTuple: return ir::Cast<ir::Tuple>(expr)->fields.size();
    case ExprKind::kCall: {
      const auto* call = ir::Cast<ir::Call>(expr);
      return call->args.size() + (HasEvaluatedCallee(call) ? 1 : 0);
    }
    case ExprKind::kRefWrite: return 2;
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor:
    case ExprKind::kProject:
    case ExprKind::kFunction:
    case ExprKind::kLet:
    case ExprKind::kIf:
    case ExprKind::kMatch:
    case ExprKind::kRefCreate:
    case ExprKind::kRefRead: return 1;
  }
}
const Expr* Operand(const Expr* expr, size_t i) {
  switch (expr->expr_kind) {
    case ExprKind::kTuple: return ir::Cast<ir::Tuple>(expr)->fields[i];
    case ExprKind::kProject: return ir::Cast<ir::Project>(expr)->tuple;
    case ExprKind::kRefCreate: return ir::Cast<ir::RefCreate>(expr)->value;
    case ExprKind::kRefRead: return ir::Cast<ir::RefRead>(expr)->ref;
    case ExprKind::kRefWrite: return i == 0 ? ir::Cast<ir::RefWrite>(expr)->ref : ir::Cast<ir::RefWrite>(expr)->value;
    case ExprKind::kCall: {
      const auto* call = ir::Cast<ir::Call>(expr);
      if (!HasEvaluatedCallee(call)) return call->args[i];
      return i == 0 ? call->callee : call->args[i - 1];
    }
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor:
    case ExprKind::kFunction:
    case ExprKind::kLet:
    case ExprKind::kIf:
    case ExprKind::kMatch: RVM_UNREACHABLE("an expression without operands");
  }
}

Handle NewTensor(Literal literal) {
  Handle handle(new Object(ObjectKind::kTensor));
  handle->tensor = std::move(literal);
  return handle;
}
Handle NewTuple(std::vector<Handle> fields) {
  Handle handle(new Object(ObjectKind::kTuple));
  handle->fields = std::move(fields);
  return handle;
}

std::vector<Handle> MoveOut(std::span<Handle> handles) {
  return {std::make_move_iterator(handles.begin()), std::make_move_iterator(handles.end())};
}
Handle NewAdt(const ir::Constructor* constructor, std::span<Handle> fields) {
  Handle handle(new Object(ObjectKind::kAdt));
  handle->constructor = constructor;
  handle->fields = MoveOut(fields);
  return handle;
}

template <typename F>
void ForEachPatternVar(const ir::Pattern* root, F&& visit) {
  std::vector<const ir::Pattern*> patterns = {root};
  while (!patterns.empty()) {
    const ir::Pattern* pattern = patterns.back();
    patterns.pop_back();
    if (pattern->kind == ir::PatternKind::kVar) visit(pattern->var);
    patterns.insert(patterns.end(), pattern->fields.begin(), pattern->fields.end());
  }
}

class Evaluator {
 public:
  Evaluator(const ir::Module& module, const EvaluateOptions& options) : module_(module), options_(options) {
    for (const ir::GlobalFunction& global : module.functions) {
      globals_.emplace(global.name, &global);
      AssignSlots(global.function);
    }
  }

  absl::StatusOr<Value> Run(std::string_view entry, std::span<const Value> args) {
    RVM_ASSIGN_OR_RETURN(Handle callee, Entry(entry, args.size()));
    std::vector<Handle> handles;
    ArgumentReader reader(module_, refs_);
    for (size_t i = 0; i < args.size(); ++i) {
      const ir::Var& param = *callee->function->params[i];
      absl::StatusOr<Handle> arg = reader.Read(args[i], param.type);
      if (!arg.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("argument ", i + 1, " of `@", Abseil(entry), "`, `%", param.name,
                                                       "`: ", arg.status().message()));
      }
      handles.push_back(*std::move(arg));
    }
    absl::Status status = Apply(callee, handles, nullptr);
    if (status.ok()) status = Loop();
    if (status.ok()) return ToValue(value_);
    std::string where = activations_.empty() ? "" : absl::StrCat(" (in `", Abseil(activations_.back().function), "`)");
    return absl::Status(status.code(), absl::StrCat(status.message(), where));
  }

 private:
  absl::StatusOr<Handle> Entry(std::string_view entry, size_t num_args) {
    auto it = globals_.find(entry);
    if (it == globals_.end()) {
      std::vector<std::string_view> names;
      for (const ir::GlobalFunction& global : module_.functions) names.push_back(global.name);
      return absl::NotFoundError(
          absl::StrCat("the program has no function `@", Abseil(entry), "`", DidYouMean(entry, names, "@")));
    }
    size_t expected = it->second->function->params.size();
    if (num_args != expected) {
      return absl::InvalidArgumentError(absl::StrCat("`@", Abseil(entry), "` is given ", num_args,
                                                     num_args == 1 ? " argument" : " arguments", "; expected ",
                                                     expected));
    }
    return Closure(it->second->function, it->second->name, nullptr, /*is_global=*/true);
  }

  // Every variable has a slot in the activations of the function that binds it, and the same one in those of the
  // functions inside it, which may capture it.
  void AssignSlots(const ir::Function* global) {
    uint32_t next = 0;
    auto assign = [&](const ir::Var* var) { slots_.emplace(var, next++); };
    std::vector<const ir::Function*> functions;
    ir::ForEachExpr(global, [&](const Expr* expr) {
      if (const auto* function = ir::DynCast<ir::Function>(expr)) {
        functions.push_back(function);
        for (const ir::Var* param : function->params) assign(param);
      } else if (const auto* let = ir::DynCast<ir::Let>(expr)) {
        assign(let->var);
      } else if (const auto* match = ir::DynCast<ir::Match>(expr)) {
        for (const ir::Clause& clause : match->clauses) ForEachPatternVar(clause.pattern, assign);
      }
      return true;
    });
    for (const ir::Function* function : functions) facts_[function].frame_slots = next;
  }

  absl::Status Loop() {
    int64_t steps = 0;
    while (expr_ != nullptr || !continuations_.empty()) {
      if (options_.max_steps >= 0 && ++steps > options_.max_steps) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the evaluation takes more than ", options_.max_steps, " steps"));
      }
      if (expr_ != nullptr) {
        RVM_RETURN_IF_ERROR(Enter(std::exchange(expr_, nullptr)));
      } else {
        Continuation next = continuations_.back();
        continuations_.pop_back();
        RVM_RETURN_IF_ERROR(Continue(next));
      }
      if (static_cast<int64_t>(continuations_.size()) > options_.max_depth) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the evaluation nests more than ", options_.max_depth, " deep"));
      }
    }
    return absl::OkStatus();
  }

  // Sets value_, or expr_ to what comes first and pushes what comes then.
  absl::Status Enter(const Expr* expr) {
    switch (expr->expr_kind) {
      case ExprKind::kConstant: {
        Handle& constant = constants_[expr];
        if (!constant) constant = NewTensor(ir::Cast<ir::Constant>(expr)->literal);
        value_ = constant;
        return absl::OkStatus();
      }
      case ExprKind::kVar: return Lookup(ir::Cast<ir::VarExpr>(expr)->var);
      case ExprKind::kGlobal: {
        Handle& closure = constants_[expr];
        if (!closure) {
          auto it = globals_.find(ir::Cast<ir::GlobalExpr>(expr)->name);
          RVM_CHECK(it != globals_.end(), "a typed module refers to a function it does not have");
          closure = Closure(it->second->function, it->second->name, nullptr, /*is_global=*/true);
        }
        value_ = closure;
        return absl::OkStatus();
      }
      case ExprKind::kOp: {
        value_ = Handle(new Object(ObjectKind::kOp));
        value_->op = ir::Cast<ir::OpExpr>(expr)->op;
        return absl::OkStatus();
      }
      case ExprKind::kConstructor: {
        const ir::Constructor* constructor = ir::Cast<ir::ConstructorExpr>(expr)->constructor;
        value_ = Handle(new Object(constructor->fields.empty() ? ObjectKind::kAdt : ObjectKind::kConstructor));
        value_->constructor = constructor;
        return absl::OkStatus();
      }
      case ExprKind::kFunction:
        value_ = Closure(ir::Cast<ir::Function>(expr), "fn", nullptr, /*is_global=*/false);
        return absl::OkStatus();
      case ExprKind::kLet: EnterLet(ir::Cast<ir::Let>(expr)); return absl::OkStatus();
      case ExprKind::kIf:
        continuations_.push_back({ContinuationKind::kIf, expr});
        expr_ = ir::Cast<ir::If>(expr)->condition;
        return absl::OkStatus();
      case ExprKind::kMatch:
        continuations_.push_back({ContinuationKind::kMatch, expr});
        expr_ = ir::Cast<ir::Match>(expr)->value;
        return absl::OkStatus();
      case ExprKind::kTuple:
      case ExprKind::kProject:
      case ExprKind::kCall:
      case ExprKind::kRefCreate:
      case ExprKind::kRefRead:
      case ExprKind::kRefWrite: {
        if (NumOperands(expr) == 0) return Complete(expr);
        continuations_.push_back({ContinuationKind::kOperand, expr, 0});
        expr_ = Operand(expr, 0);
        return absl::OkStatus();
      }
    }
    RVM_UNREACHABLE("an unknown kind of expression");
  }

  void EnterLet(const ir::Let* let) {
    if (const auto* function = ir::DynCast<ir::Function>(let->value)) {
      Slot(let->var) = Closure(function, let->var->name, let->var, /*is_global=*/false);
      expr_ = let->body;
      return;
    }
    continuations_.push_back({ContinuationKind::kLet, let});
    expr_ = let->value;
  }

  // Goes on with value_.
  absl::Status Continue(const Continuation& next) {
    switch (next.kind) {
      case ContinuationKind::kOperand:
        operands_.push_back(std::move(value_));
        if (next.index + 1 == NumOperands(next.expr)) return Complete(next.expr);
        continuations_.push_back({next.kind, next.expr, next.index + 1});
        expr_ = Operand(next.expr, next.index + 1);
        return absl::OkStatus();
      case ContinuationKind::kLet: {
        const auto* let = ir::Cast<ir::Let>(next.expr);
        expr_ = let->body;
        return Bind(let->var, std::move(value_));
      }
      case ContinuationKind::kIf: {
        const auto* conditional = ir::Cast<ir::If>(next.expr);
        expr_ = value_->tensor.IntAt(0) != 0 ? conditional->then_branch : conditional->else_branch;
        return absl::OkStatus();
      }
      case ContinuationKind::kMatch: return Match(ir::Cast<ir::Match>(next.expr));
      case ContinuationKind::kReturn:
        frames_.resize(activations_.back().base);
        activations_.pop_back();
        return absl::OkStatus();
      case ContinuationKind::kCheckResult: {
        const auto* type = ir::DynCast<ir::FuncType>(next.expr->type);
        return CheckShape(type->result, "the result");
      }
    }
    RVM_UNREACHABLE("an unknown kind of continuation");
  }

  // All operands of `expr` are on top of operands_.
  absl::Status Complete(const Expr* expr) {
    size_t rest = operands_.size() - NumOperands(expr);
    absl::Status status = CompleteWith(expr, std::span(operands_).subspan(rest));
    operands_.resize(rest);
    return status;
  }

  absl::Status CompleteWith(const Expr* expr, std::span<Handle> operands) {
    switch (expr->expr_kind) {
      case ExprKind::kTuple: value_ = NewTuple(MoveOut(operands)); return absl::OkStatus();
      case ExprKind::kProject:
        value_ = operands[0]->fields[ir::Cast<ir::Project>(expr)->index];
        return absl::OkStatus();
      case ExprKind::kRefCreate: value_ = refs_.New(std::move(operands[0])); return absl::OkStatus();
      case ExprKind::kRefRead: value_ = operands[0]->fields[0]; return absl::OkStatus();
      case ExprKind::kRefWrite:
        operands[0]->fields[0] = std::move(operands[1]);
        value_ = NewTuple({});
        return absl::OkStatus();
      case ExprKind::kConstant:
      case ExprKind::kVar:
      case ExprKind::kGlobal:
      case ExprKind::kOp:
      case ExprKind::kConstructor:
      case ExprKind::kFunction:
      case ExprKind::kCall:
      case ExprKind::kLet:
      case ExprKind::kIf:
      case ExprKind::kMatch: return CompleteCall(ir::Cast<ir::Call>(expr), operands);
    }
  }

  absl::Status CompleteCall(const ir::Call* call, std::span<Handle> operands) {
    if (const ops::OpDef* op = ir::OpCallee(call)) return CallOp(*op, call->attrs, operands);
    if (const auto* constructor = ir::DynCast<ir::ConstructorExpr>(call->callee)) {
      value_ = NewAdt(constructor->constructor, operands);
      return absl::OkStatus();
    }
    return Apply(operands[0], operands.subspan(1), call);
  }

  // `call`: for its place; null for the call from outside.
  absl::Status Apply(const Handle& callee, std::span<Handle> args, const ir::Call* call) {
    if (callee->kind == ObjectKind::kOp) return CallOpValue(*callee->op, args);
    if (callee->kind == ObjectKind::kConstructor || callee->kind == ObjectKind::kAdt) {
      value_ = NewAdt(callee->constructor, args);
      return absl::OkStatus();
    }
    if (callee->kind == ObjectKind::kHost) return CallHost(*callee.get(), args);
    const ir::Function* function = callee->function;
    RVM_CHECK(function->params.size() == args.size(), "a typed call has as many arguments as its callee parameters");
    bool is_tail =
        call != nullptr && !continuations_.empty() && continuations_.back().kind == ContinuationKind::kReturn;
    if (is_tail) {
      frames_.resize(activations_.back().base);
    } else {
      continuations_.push_back({ContinuationKind::kReturn, nullptr});
      activations_.push_back({"", frames_.size()});
    }
    const FunctionFacts& facts = *callee->facts;
    frames_.resize(frames_.size() + facts.frame_slots);
    activations_.back().function = callee->name;
    for (size_t i = 0; i < callee->fields.size(); ++i) Slot(facts.captured[i]) = callee->fields[i];
    if (callee->self != nullptr) Slot(callee->self) = callee;
    absl::flat_hash_map<int64_t, int64_t> dims;
    for (size_t i = 0; i < args.size(); ++i) RVM_RETURN_IF_ERROR(Bind(function->params[i], std::move(args[i]), &dims));
    if (facts.check_result) continuations_.push_back({ContinuationKind::kCheckResult, function});
    expr_ = function->body;
    return absl::OkStatus();
  }

  absl::Status CallHost(const Object& callee, std::span<Handle> args) {
    std::vector<Value> values;
    for (const Handle& arg : args) {
      RVM_ASSIGN_OR_RETURN(Value value, ToValue(arg));
      values.push_back(std::move(value));
    }
    RVM_ASSIGN_OR_RETURN(Value result, callee.host->Call(values));
    absl::StatusOr<Handle> handle = ArgumentReader(module_, refs_).Read(result, callee.host_type->result);
    if (!handle.ok()) {
      return absl::AbortedError(absl::StrCat("the result of a function of the host: ", handle.status().message()));
    }
    value_ = *std::move(handle);
    return absl::OkStatus();
  }

  // `attrs` belong to the place of the call, and so does what is prepared for it.
  absl::Status CallOp(const ops::OpDef& op, const ir::Attrs& attrs, std::span<Handle> operands) {
    for (size_t i = 0; i < operands.size(); ++i) {
      bool is_tensor = operands[i]->kind == ObjectKind::kTensor;
      if (!is_tensor || !ops::IsCount(op, i) || !operands[i]->tensor.dtype().is_float()) continue;
      operands[i] = NewTensor(ops::ToIntegers(operands[i]->tensor));
    }
    bool all_tensors = std::all_of(operands.begin(), operands.end(),
                                   [](const Handle& operand) { return operand->kind == ObjectKind::kTensor; });
    if (!all_tensors) return CallOpOnValues(op, attrs, operands);
    absl::InlinedVector<Literal, 3> args;
    for (const Handle& operand : operands) args.push_back(operand->tensor);
    OpCall& place = op_calls_.try_emplace(&attrs, op, attrs).first->second;
    RVM_ASSIGN_OR_RETURN(std::optional<std::vector<Literal>> results, place.Call(args));
    if (!results) return CallOpOnValues(op, attrs, operands);
    if (!place.has_tuple_result()) {
      value_ = NewTensor(std::move((*results)[0]));
      return absl::OkStatus();
    }
    std::vector<Handle> fields;
    for (Literal& tensor : *results) fields.push_back(NewTensor(std::move(tensor)));
    value_ = NewTuple(std::move(fields));
    return absl::OkStatus();
  }

  absl::Status CallOpOnValues(const ops::OpDef& op, const ir::Attrs& attrs, std::span<Handle> operands) {
    std::vector<Value> args;
    for (const Handle& operand : operands) {
      RVM_ASSIGN_OR_RETURN(Value arg, ToValue(operand));
      args.push_back(std::move(arg));
    }
    RVM_ASSIGN_OR_RETURN(Value result, ops::EvaluateOp(op, attrs, args));
    if (result.kind() == ValueKind::kTensor) {
      value_ = NewTensor(result.tensor());
      return absl::OkStatus();
    }
    std::vector<Handle> fields;
    for (const Value& field : result.fields()) fields.push_back(NewTensor(field.tensor()));
    value_ = NewTuple(std::move(fields));
    return absl::OkStatus();
  }

  // An operator that went through a variable has its default attributes.
  absl::Status CallOpValue(const ops::OpDef& op, std::span<Handle> operands) {
    auto [it, is_new] = default_attrs_.try_emplace(&op);
    if (is_new) {
      diagnostics::SourceMap sources;
      diagnostics::Diagnostics diagnostics(&sources);
      it->second = std::make_unique<ir::Attrs>();
      if (!ops::CompleteAttrs(op, {}, *it->second, diagnostics)) {
        return absl::InvalidArgumentError(absl::StrCat("`", Abseil(op.name), "` has no default attributes"));
      }
    }
    return CallOp(op, *it->second, operands);
  }

  absl::Status Match(const ir::Match* match) {
    for (const ir::Clause& clause : match->clauses) {
      std::vector<std::pair<const ir::Var*, Handle>> bindings;
      if (!Fits(clause.pattern, value_, bindings)) continue;
      for (auto& [var, handle] : bindings) RVM_RETURN_IF_ERROR(Bind(var, std::move(handle)));
      expr_ = clause.body;
      value_ = Handle();
      return absl::OkStatus();
    }
    std::string name = value_->kind == ObjectKind::kAdt ? value_->constructor->name : "the value";
    return absl::FailedPreconditionError(absl::StrCat("no clause of the `match?` fits `", name, "`"));
  }

  static bool Fits(const ir::Pattern* root, const Handle& value,
                   std::vector<std::pair<const ir::Var*, Handle>>& bindings) {
    std::vector<std::pair<const ir::Pattern*, Handle>> stack = {{root, value}};
    while (!stack.empty()) {
      auto [pattern, handle] = std::move(stack.back());
      stack.pop_back();
      if (pattern->kind == ir::PatternKind::kWildcard) continue;
      if (pattern->kind == ir::PatternKind::kVar) {
        bindings.emplace_back(pattern->var, handle);
        continue;
      }
      if (pattern->kind == ir::PatternKind::kConstructor && handle->constructor != pattern->constructor) return false;
      if (pattern->kind == ir::PatternKind::kLiteral && !(handle->tensor == *pattern->literal)) return false;
      for (size_t i = 0; i < pattern->fields.size(); ++i) stack.emplace_back(pattern->fields[i], handle->fields[i]);
    }
    return true;
  }

  absl::Status Lookup(const ir::Var* var) {
    auto it = slots_.find(var);
    if (it == slots_.end()) {
      return absl::FailedPreconditionError(absl::StrCat("the free variable `%", var->name, "` has no value"));
    }
    value_ = frames_[activations_.back().base + it->second];
    return absl::OkStatus();
  }

  // `dims`: of the signature that `var` is a parameter of; null elsewhere.
  absl::Status Bind(const ir::Var* var, Handle handle, absl::flat_hash_map<int64_t, int64_t>* dims = nullptr) {
    if (const auto* type = ir::DynCast<ir::TensorType>(var->type)) {
      std::string mismatch = TensorMismatch(handle->tensor, *type, dims);
      if (!mismatch.empty()) return absl::InvalidArgumentError(absl::StrCat("`%", var->name, "`: ", mismatch));
    }
    Slot(var) = std::move(handle);
    return absl::OkStatus();
  }

  absl::Status CheckShape(const ir::Type* type, std::string_view what) {
    const auto* tensor_type = ir::DynCast<ir::TensorType>(type);
    if (tensor_type == nullptr) return absl::OkStatus();
    std::string mismatch = TensorMismatch(value_->tensor, *tensor_type, nullptr);
    if (mismatch.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(Abseil(what), ": ", mismatch));
  }

  Handle Closure(const ir::Function* function, std::string_view name, const ir::Var* self, bool is_global) {
    Handle closure(new Object(ObjectKind::kClosure));
    closure->function = function;
    closure->name = name;
    closure->self = self;
    closure->facts = &Facts(function, is_global);
    for (const ir::Var* var : closure->facts->captured) {
      // A let variable is not bound yet where its own function captures it.
      closure->fields.push_back(var == self ? Handle() : Slot(var));
    }
    return closure;
  }

  const FunctionFacts& Facts(const ir::Function* function, bool is_global) {
    FunctionFacts& facts = facts_.at(function);
    if (!known_.insert(function).second) return facts;
    if (!is_global) {
      facts.captured = analysis::FreeVars(function);
      std::erase_if(facts.captured, [&](const ir::Var* var) { return !slots_.contains(var); });
    }
    const auto* type = ir::DynCast<ir::FuncType>(function->type);
    facts.check_result = type != nullptr && type->result->type_kind == ir::TypeKind::kTensor &&
                         !ir::TypesEqual(type->result, function->body->type);
    return facts;
  }

  // Returns the slot of a variable that the program binds, in the latest activation.
  Handle& Slot(const ir::Var* var) { return frames_[activations_.back().base + slots_.at(var)]; }

  const ir::Module& module_;
  const EvaluateOptions& options_;
  RefCells refs_;  // dies after all that holds references
  absl::flat_hash_map<std::string_view, const ir::GlobalFunction*> globals_;
  absl::flat_hash_map<const ir::Var*, uint32_t> slots_;
  absl::node_hash_map<const ir::Function*, FunctionFacts> facts_;
  absl::flat_hash_set<const ir::Function*> known_;  // whose facts are complete
  absl::flat_hash_map<const ops::OpDef*, std::unique_ptr<ir::Attrs>> default_attrs_;
  absl::flat_hash_map<const ir::Attrs*, OpCall> op_calls_;  // by the attributes of the place
  absl::flat_hash_map<const Expr*, Handle> constants_;      // of constants and global functions
  std::vector<Continuation> continuations_;
  std::vector<Activation> activations_;
  std::vector<Handle> frames_;  // the slots of all activations
  std::vector<Handle> operands_;
  const Expr* expr_ = nullptr;
  Handle value_;
};

}  // namespace

absl::StatusOr<Value> Evaluate(const ir::Module& module, std::string_view entry, std::span<const Value> args,
                               const EvaluateOptions& options) {
  return Evaluator(module, options).Run(entry, args);
}

}  // namespace rvm::reference
