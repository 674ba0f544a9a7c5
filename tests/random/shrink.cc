#include "tests/random/shrink.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"
#include "compiler/typing/infer_type.h"

namespace rvm::random_programs {
namespace {

using ir::Expr;
using ir::ExprKind;

// Collects pointers to all expressions, each before those inside it.
void CollectSlots(Expr** slot, std::vector<Expr**>& slots) {
  slots.push_back(slot);
  auto collect = [&](Expr*& child) { CollectSlots(&child, slots); };
  Expr* expr = *slot;
  switch (expr->expr_kind) {
    case ExprKind::kTuple:
      for (Expr*& field : ir::Cast<ir::Tuple>(expr)->fields) collect(field);
      break;
    case ExprKind::kProject: collect(ir::Cast<ir::Project>(expr)->tuple); break;
    case ExprKind::kFunction: collect(ir::Cast<ir::Function>(expr)->body); break;
    case ExprKind::kCall:
      collect(ir::Cast<ir::Call>(expr)->callee);
      for (Expr*& arg : ir::Cast<ir::Call>(expr)->args) collect(arg);
      break;
    case ExprKind::kLet:
      collect(ir::Cast<ir::Let>(expr)->value);
      collect(ir::Cast<ir::Let>(expr)->body);
      break;
    case ExprKind::kIf:
      collect(ir::Cast<ir::If>(expr)->condition);
      collect(ir::Cast<ir::If>(expr)->then_branch);
      collect(ir::Cast<ir::If>(expr)->else_branch);
      break;
    case ExprKind::kMatch:
      collect(ir::Cast<ir::Match>(expr)->value);
      for (ir::Clause& clause : ir::Cast<ir::Match>(expr)->clauses) collect(clause.body);
      break;
    case ExprKind::kRefCreate: collect(ir::Cast<ir::RefCreate>(expr)->value); break;
    case ExprKind::kRefRead: collect(ir::Cast<ir::RefRead>(expr)->ref); break;
    case ExprKind::kRefWrite:
      collect(ir::Cast<ir::RefWrite>(expr)->ref);
      collect(ir::Cast<ir::RefWrite>(expr)->value);
      break;
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor: break;
  }
}

// Returns a constant of a tensor type with known extents; else null.
Expr* ConstantOf(const ir::Type* type, ir::Arena& arena) {
  const auto* tensor = ir::DynCast<ir::TensorType>(type);
  if (tensor == nullptr || !tensor->shape.is_dims() || !tensor->dtype.is_concrete()) return nullptr;
  Shape shape;
  for (const Dim& dim : tensor->shape.dims) {
    if (!dim.is_const()) return nullptr;
    shape.push_back(dim.constant());
  }
  return arena.New<ir::Constant>(Literal::Full(tensor->dtype.dtype, std::move(shape), 1), ir::Span{});
}

// Returns a constructor without fields of an ADT's value; null if that is what stands there.
Expr* ConstructorOf(const Expr* old, ir::Arena& arena) {
  const auto* type = ir::DynCast<ir::AdtType>(old->type);
  if (type == nullptr || old->expr_kind == ExprKind::kConstructor) return nullptr;
  for (const ir::Constructor* constructor : type->adt->constructors) {
    if (constructor->fields.empty()) return arena.New<ir::ConstructorExpr>(constructor, ir::Span{});
  }
  return nullptr;
}

class Shrinker {
 public:
  Shrinker(Program program, const std::function<bool(const Program&)>& fails, int tries)
      : program_(std::move(program)), fails_(fails), tries_(tries) {}

  Program Run() {
    bool changed = true;
    while (changed && tries_ > 0) {
      changed = DropCalls();
      changed |= DropFunctions();
      changed |= Replace();
    }
    return std::move(program_);
  }

 private:
  bool Try(Program candidate) {
    if (tries_ <= 0 || candidate.text == program_.text) return false;
    --tries_;
    if (!fails_(candidate)) return false;
    program_ = std::move(candidate);
    return true;
  }

  bool DropCalls() {
    bool changed = false;
    for (size_t i = 0; program_.calls.size() > 1 && i < program_.calls.size();) {
      Program candidate = program_;
      candidate.calls.erase(candidate.calls.begin() + static_cast<ptrdiff_t>(i));
      --tries_;
      if (tries_ > 0 && fails_(candidate)) {
        program_ = std::move(candidate);
        changed = true;
      } else {
        ++i;
      }
    }
    return changed;
  }

  // The program in hand as a module; typed where that is possible.
  bool Read() {
    sources_.emplace();
    diagnostics_.emplace(&*sources_);
    module_ = ir::Module();
    uint32_t id = sources_->Add("shrink.relay", program_.text);
    if (!text::ParseModule(id, module_, *diagnostics_)) return false;
    typing::InferTypes(module_, *diagnostics_);
    return true;
  }

  Program Printed() const {
    Program candidate = program_;
    candidate.text = text::PrintModule(module_);
    return candidate;
  }

  bool DropFunctions() {
    bool changed = false;
    for (size_t i = 0; Read() && i < module_.functions.size();) {
      module_.functions.erase(module_.functions.begin() + static_cast<ptrdiff_t>(i));
      if (Try(Printed())) {
        changed = true;
      } else {
        ++i;
      }
    }
    for (size_t i = 0; Read() && i < module_.adts.size();) {
      module_.adts.erase(module_.adts.begin() + static_cast<ptrdiff_t>(i));
      if (Try(Printed())) {
        changed = true;
      } else {
        ++i;
      }
    }
    return changed;
  }

  // Expressions that may stand in the place of one: parts of it, then a constant.
  std::vector<Expr*> Smaller(Expr** slot) {
    std::vector<Expr**> inside;
    CollectSlots(slot, inside);
    std::vector<Expr*> found;
    const Expr* old = *slot;
    if (old->expr_kind != ExprKind::kConstant) {
      if (Expr* constant = ConstantOf(old->type, *module_.arena)) found.push_back(constant);
    }
    if (Expr* constructor = ConstructorOf(old, *module_.arena)) found.push_back(constructor);
    auto add = [&](Expr* part) {
      bool fits = old->type == nullptr || part->type == nullptr || ir::TypesEqual(old->type, part->type);
      if (fits && found.size() < 14) found.push_back(part);
    };
    if (auto* let = ir::DynCast<ir::Let>(*slot)) add(let->body);
    if (auto* branch = ir::DynCast<ir::If>(*slot)) add(branch->else_branch);
    if (auto* match = ir::DynCast<ir::Match>(*slot)) add(match->clauses.back().body);
    for (size_t i = 1; i < inside.size(); ++i) add(*inside[i]);
    return found;
  }

  bool DropClauses(Expr* expr) {
    auto* match = ir::DynCast<ir::Match>(expr);
    if (match == nullptr) return false;
    for (size_t i = 0; match->clauses.size() > 1 && i < match->clauses.size(); ++i) {
      std::vector<ir::Clause> all = match->clauses;
      match->clauses.erase(match->clauses.begin() + static_cast<ptrdiff_t>(i));
      if (Try(Printed())) return true;
      match->clauses = std::move(all);
    }
    return false;
  }

  bool Replace() {
    bool changed = false;
    if (!Read()) return false;
    for (size_t function = 0; function < module_.functions.size(); ++function) {
      for (size_t i = 0;; ++i) {
        std::vector<Expr**> slots;
        CollectSlots(&module_.functions[function].function->body, slots);
        if (i >= slots.size() || tries_ <= 0) break;
        bool shrunk = DropClauses(*slots[i]);
        Expr* old = *slots[i];
        for (Expr* candidate : shrunk ? std::vector<Expr*>() : Smaller(slots[i])) {
          *slots[i] = candidate;
          shrunk = Try(Printed());
          if (shrunk) break;
          *slots[i] = old;
        }
        if (!shrunk) continue;
        changed = true;
        // The text is the program; types come from it.
        if (!Read() || function >= module_.functions.size()) return true;
        --i;
      }
    }
    return changed;
  }

  Program program_;
  const std::function<bool(const Program&)>& fails_;
  int tries_;
  std::optional<diagnostics::SourceMap> sources_;
  std::optional<diagnostics::Diagnostics> diagnostics_;
  ir::Module module_;
};

}  // namespace

Program Shrink(Program program, const std::function<bool(const Program&)>& fails, int max_tries) {
  return Shrinker(std::move(program), fails, max_tries).Run();
}

}  // namespace rvm::random_programs
