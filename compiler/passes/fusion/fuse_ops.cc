// Fuses operator calls into primitive functions, one kernel each.
//
// Takes a module in A-normal form. Gives the same, where groups of operator calls of one block
// have become calls of primitive function literals, each compiled to one kernel
// (lowering/fused_function.h):
//
//   let %t = fn (%x: ..., %w: ..., Primitive=1) { let %a = ...; let %b = ...; (%a, %b) }(%x, %w);
//   let %a = %t.0;
//   let %b = %t.1;
//
// A group with several results is followed by one projection for each, and its tuple has no
// other use. Calls that need no kernel (scalar instructions, views) stay as they are, except that
// identities become their argument: from here on the marks among them mean nothing.
//
// The operators of a composite, which an accelerator computes (placement/find_places.h), are a group at each level,
// and other operators there a group each. Elsewhere:
//
// -O0: each operator is a group. -O1: elementwise, broadcast and injective operators join
// their consumers, and follow one reduction or contraction. -O2: all that data connects, such as
// a whole recurrent cell. No operator is computed twice.
//
// Where independent calls run together (PassContext::batch), a product of what is known beforehand, as the input of a
// recurrent cell, stays apart from what the step before must have been computed for: it then runs for all steps at
// once.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ir/primitive.h"
#include "compiler/ops/identity.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/select_scalar.h"
#include "compiler/passes/fusion/carried_values.h"
#include "compiler/passes/fusion/fusion_groups.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"
#include "compiler/target/device_kind.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

using Renaming = absl::flat_hash_map<const ir::Var*, ir::Var*>;

// Builds one primitive function and the call of it.
class PrimitiveBuilder {
 public:
  PrimitiveBuilder(ir::Arena& arena, const Renaming& renamed) : arena_(arena), renamed_(renamed) {}

  // Adds a member to the body. `names[i]`: the variable outside of its output i, or null.
  void AddMember(const FusionStep& step) {
    std::vector<Expr*> args;
    const ops::OpDef& op = *ir::OpCallee(step.op);
    for (size_t i = 0; i < step.op->args.size(); ++i) {
      Expr* arg = step.op->args[i];
      const auto* constant = DynCast<ir::Constant>(arg);
      bool is_immediate =
          constant != nullptr && ops::DecidesShape(op, i) && constant->literal.num_elements() <= ir::kMaxImmediates;
      args.push_back(is_immediate ? arg : Operand(arg));
    }
    span_ = step.op->span;
    Expr* call = At(span_).Call(step.op->callee, std::move(args), TakeDevice(step.op->attrs), step.op->type);
    const ir::Builder at = At(step.span);
    ir::Var* var = at.Bind(step.var == nullptr ? "t" : step.var->name, call, body_)->var;
    if (call->type->type_kind != ir::TypeKind::kTuple) {
      Define(step.outputs[0].var, var);
      inner_outputs_.push_back({var});
      return;
    }
    std::vector<ir::Var*> fields;
    for (uint32_t i = 0; i < step.outputs.size(); ++i) {
      const OpOutput& output = step.outputs[i];
      Expr* field = at.Project(at.Use(var), i, output.type);
      fields.push_back(at.Bind(output.var == nullptr ? "t" : output.var->name, field, body_)->var);
      Define(output.var, fields.back());
    }
    inner_outputs_.push_back(std::move(fields));
  }

  // Makes output `i` of the member added `member`-th a result.
  void AddResult(size_t member, size_t i) { results_.push_back(inner_outputs_[member][i]); }

  ir::Call* Finish() {
    const ir::Builder at = At(span_);
    std::vector<Expr*> results;
    for (ir::Var* var : results_) results.push_back(at.Use(var));
    Expr* result = results.size() == 1 ? results[0] : at.Tuple(std::move(results));
    ir::Function* function = at.Function({}, std::move(params_), MakeLets(arena_, body_, result));
    function->is_primitive = true;
    if (!device_.empty()) function->attrs.Set(target::kDeviceAttr, device_);
    return at.Call(function, std::move(args_));
  }

 private:
  ir::Builder At(ir::Span span) const { return {arena_, span}; }

  // Returns the attributes without the device, which becomes that of the function, and without the composite.
  ir::Attrs TakeDevice(const ir::Attrs& attrs) {
    std::string_view device = target::DeviceOf(attrs);
    if (device.empty() && !target::CompositeOf(attrs)) return attrs;
    if (!device.empty()) device_ = device;
    ir::Attrs others;
    for (const ir::Attr& attr : attrs.entries()) {
      bool is_place = attr.name == target::kDeviceAttr || attr.name == target::kCompositeAttr;
      if (!is_place) others.Set(attr.name, attr.value, attr.span);
    }
    return others;
  }

  void Define(const ir::Var* outside, ir::Var* inside) {
    if (outside != nullptr) inner_[outside] = inside;
  }

  Expr* Operand(Expr* expr) {
    if (const auto* tuple = DynCast<ir::Tuple>(expr)) {
      std::vector<Expr*> fields;
      for (Expr* field : tuple->fields) fields.push_back(Operand(field));
      return At(expr->span).Tuple(std::move(fields), expr->type);
    }
    if (const auto* constant = DynCast<ir::Constant>(expr)) {
      if (constant->literal.rank() == 0) return expr;
      return At(expr->span).Use(ConstantParam(expr, constant->literal));
    }
    ir::Var* var = Cast<ir::VarExpr>(expr)->var;
    if (auto renamed = renamed_.find(var); renamed != renamed_.end()) var = renamed->second;
    auto [it, added] = inner_.try_emplace(var, nullptr);
    if (added) it->second = Param(var->name, var->type, At(expr->span).Use(var));
    return At(expr->span).Use(it->second);
  }

  // Weights that several operators read are a parameter for each, so that each may have them in a layout of its own.
  ir::Var* ConstantParam(Expr* constant, const Literal& literal) {
    if (literal.bytes() > kMaxSharedBytes) return Param("c", constant->type, constant);
    for (const auto& [known, param] : constants_) {
      if (known->data() == literal.data() && known->dtype() == literal.dtype() && known->shape() == literal.shape()) {
        return param;
      }
    }
    ir::Var* param = Param("c", constant->type, constant);
    constants_.emplace_back(&literal, param);
    return param;
  }

  ir::Var* Param(std::string_view name, const ir::Type* type, Expr* arg) {
    params_.push_back(At(arg->span).DeclaredVar(name, type));
    args_.push_back(arg);
    return params_.back();
  }

  ir::Arena& arena_;
  const Renaming& renamed_;
  Renaming inner_;  // variable outside -> variable inside
  std::vector<std::pair<const Literal*, ir::Var*>> constants_;
  std::vector<std::vector<ir::Var*>> inner_outputs_;  // by member
  std::vector<ir::Var*> params_;
  std::vector<Expr*> args_;
  std::vector<Binding> body_;
  std::vector<ir::Var*> results_;
  std::string device_;
  ir::Span span_;
};

// Rewrites the blocks of one global function, nested ones included.
class Fuser : public Rewriter {
 public:
  Fuser(ir::Arena& arena, const FusionOptions& options, const BlockUses& uses)
      : Rewriter(arena), uses_(uses), options_(options) {}

  // An atom, a callee or a block.
  Expr* Rewrite(Expr* expr) override {
    bool is_block = expr->expr_kind == ExprKind::kLet || expr->expr_kind == ExprKind::kCall;
    return WithStack([&] { return is_block ? Block(expr) : RewriteNode(expr); });
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = renamed_.find(use->var);
      return found == renamed_.end() ? expr : At(expr->span).Use(found->second);
    }
    if (ir::IsPrimitive(expr)) return expr;
    return RewriteChildren(expr);
  }

 private:
  // A result of a group that is used outside of it.
  struct Result {
    ir::Var* var;
    const ir::Type* type;
  };

  Expr* Block(Expr* block) {
    FusionPlan plan(arena_, block, uses_, options_, renamed_);
    std::vector<Binding> chain;
    Expr* tail = nullptr;
    for (FusionPlan::Item item : plan.Order()) {
      if (item.is_group) {
        EmitGroup(plan, item.index, chain, tail);
        continue;
      }
      const FusionStep& step = plan.steps()[item.index];
      Emit(step.var, RewriteNode(step.value), step.span, chain, tail);
    }
    RVM_CHECK(tail != nullptr, "a block has lost its tail");
    return MakeLets(arena_, chain, tail);
  }

  static void Emit(ir::Var* var, Expr* value, ir::Span span, std::vector<Binding>& chain, Expr*& tail) {
    if (var == nullptr) {
      tail = value;
    } else {
      chain.push_back({var, value, span});
    }
  }

  // Puts the argument of an identity in the place of its result.
  void EmitArgument(const FusionStep& step, std::vector<Binding>& chain, Expr*& tail) {
    Expr* argument = RewriteNode(step.op->args[0]);
    const auto* use = DynCast<ir::VarExpr>(argument);
    // A variable of a more precise type is bound by a step that checks it.
    if (step.var != nullptr && use != nullptr && !step.checks_type) {
      renamed_[step.var] = use->var;
    } else {
      Emit(step.var, argument, step.span, chain, tail);
    }
  }

  void EmitGroup(const FusionPlan& plan, uint32_t index, std::vector<Binding>& chain, Expr*& tail) {
    const std::vector<uint32_t>& members = plan.groups()[index].members;
    const FusionStep& last = plan.steps()[members.back()];
    if (members.size() == 1 && ops::NeedsNoKernel(*last.op)) {
      if (ops::IsIdentity(*ir::OpCallee(last.op))) return EmitArgument(last, chain, tail);
      return Emit(last.var, RewriteChildren(last.value), last.span, chain, tail);
    }
    PrimitiveBuilder builder(arena_, renamed_);
    std::vector<Result> results;
    std::vector<Binding> rebuilt;  // tuples of operators that are used as a whole
    Expr* own_tail = nullptr;
    for (size_t m = 0; m < members.size(); ++m) {
      const FusionStep& step = plan.steps()[members[m]];
      builder.AddMember(step);
      bool is_tail = step.var == nullptr;
      bool is_tuple = step.op->type->type_kind == ir::TypeKind::kTuple;
      bool is_whole = is_tail || !step.tuple_users.empty();
      std::vector<Expr*> fields;
      for (size_t i = 0; i < step.outputs.size(); ++i) {
        const OpOutput& output = step.outputs[i];
        if (!is_whole && !plan.IsUsedOutside(output.users, index)) continue;
        fields.push_back(AddResult(builder, m, i, output, results));
      }
      if (is_whole && is_tuple) {
        Emit(step.var, At(step.op->span).Tuple(fields, step.op->type), step.span, rebuilt, own_tail);
      } else if (is_tail) {
        own_tail = fields[0];
      }
    }
    if (results.empty()) AddResult(builder, members.size() - 1, 0, last.outputs[0], results);
    EmitCall(builder.Finish(), results, last.span, chain, own_tail);
    chain.insert(chain.end(), rebuilt.begin(), rebuilt.end());
    if (own_tail != nullptr) tail = own_tail;
  }

  Expr* AddResult(PrimitiveBuilder& builder, size_t member, size_t i, const OpOutput& output,
                  std::vector<Result>& results) {
    builder.AddResult(member, i);
    ir::Var* var = output.var != nullptr ? output.var : At({}).Var("t", output.type);
    results.push_back({var, output.type});
    return At({}).Use(var);
  }

  // Binds the results. `tail` is what the block returns if the group has its tail, else null.
  void EmitCall(ir::Call* call, const std::vector<Result>& results, ir::Span span, std::vector<Binding>& chain,
                Expr*& tail) {
    if (results.size() == 1) {
      const auto* use = DynCast<ir::VarExpr>(tail);
      if (use != nullptr && use->var == results[0].var) {
        tail = call;
      } else {
        chain.push_back({results[0].var, call, span});
      }
      return;
    }
    const ir::Builder at = At(span);
    ir::Var* tuple = at.Bind("t", call, chain)->var;
    std::vector<Binding> checked;
    for (uint32_t i = 0; i < results.size(); ++i) {
      Expr* project = at.Project(at.Use(tuple), i, results[i].type);
      // A variable of a more precise type than the kernel's result is bound by a step that checks it.
      bool is_plain = ir::TypesEqual(results[i].var->type, results[i].type);
      ir::Var* var = is_plain ? results[i].var : at.Var(results[i].var->name, results[i].type);
      chain.push_back({var, project, span});
      if (!is_plain) checked.push_back({results[i].var, at.Use(var), span});
    }
    chain.insert(chain.end(), checked.begin(), checked.end());
  }

  const BlockUses& uses_;
  const FusionOptions& options_;
  Renaming renamed_;
};

absl::StatusOr<ir::Module> FuseOps(const ir::Module& module, PassContext& context) {
  std::optional<CarriedValues> carried;
  if (context.batch) carried.emplace(module);
  FusionOptions options{context.opt_level, carried ? &*carried : nullptr};
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    BlockUses uses(global.function->body);
    return Fuser(*module.arena, options, uses).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kFuseOps = {.name = "fuse_ops",
                       .summary = "operator calls grouped into kernels",
                       .run = FuseOps,
                       .needs = Form::kANormal,
                       .gives = Form::kKernels,
                       .keeps_effect_order = true};

}  // namespace rvm::passes
