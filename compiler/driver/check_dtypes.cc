#include "compiler/driver/check_dtypes.h"

#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/walk.h"

namespace rvm::driver {
namespace {

// Finds dtypes that are not storable; looks at each type once.
class DTypeFinder {
 public:
  std::optional<DataType> Find(const ir::Type* type) {
    std::vector<const ir::Type*> open = {type};
    while (!open.empty()) {
      const ir::Type* next = open.back();
      open.pop_back();
      if (next == nullptr || !seen_.insert(next).second) continue;
      if (const auto* tensor = ir::DynCast<ir::TensorType>(next)) {
        if (IsUnstorable(tensor->dtype)) return tensor->dtype.dtype;
      } else if (const auto* tuple = ir::DynCast<ir::TupleType>(next)) {
        open.insert(open.end(), tuple->fields.begin(), tuple->fields.end());
      } else if (const auto* func = ir::DynCast<ir::FuncType>(next)) {
        open.insert(open.end(), func->params.begin(), func->params.end());
        open.push_back(func->result);
      } else if (const auto* ref = ir::DynCast<ir::RefType>(next)) {
        open.push_back(ref->contents);
      } else if (const auto* adt = ir::DynCast<ir::AdtType>(next)) {
        for (const ir::TypeArg& arg : adt->args) {
          if (arg.kind == ir::Kind::kBaseType && IsUnstorable(arg.dtype)) return arg.dtype.dtype;
          if (arg.kind == ir::Kind::kType) open.push_back(arg.type);
        }
      }
    }
    return std::nullopt;
  }

 private:
  static bool IsUnstorable(const ir::DTypeTerm& dtype) { return dtype.is_concrete() && !IsStorable(dtype.dtype); }

  absl::flat_hash_set<const ir::Type*> seen_;
};

}  // namespace

void CheckDTypes(const ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  DTypeFinder finder;
  for (const ir::GlobalFunction& global : module.functions) {
    bool reported = false;
    auto check = [&](const ir::Type* type, ir::Span span) {
      if (reported) return;
      std::optional<DataType> dtype = finder.Find(type);
      if (!dtype) return;
      reported = true;
      diagnostics.Error(span, diagnostics::DiagnosticKind::kUnsupported,
                        absl::StrCat("saw the dtype `", dtype->ToString(),
                                     "`, which no back-end runs yet; expected a dtype of one lane"));
    };
    for (const ir::Var* param : global.function->params) check(param->type, param->span);
    ir::ForEachExpr(global.function->body, [&](const ir::Expr* expr) {
      check(expr->type, expr->span);
      return !reported;
    });
  }
}

}  // namespace rvm::driver
