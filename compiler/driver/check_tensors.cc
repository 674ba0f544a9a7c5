#include "compiler/driver/check_tensors.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/type_parts.h"
#include "compiler/ir/walk.h"
#include "serialization/executable.h"

namespace rvm::driver {
namespace {

using diagnostics::DiagnosticKind;

// Finds tensors that no executable can hold; looks at each type once.
class TensorFinder {
 public:
  struct Finding {
    DiagnosticKind kind;
    std::string message;  // empty: none
  };

  Finding Find(const ir::Type* type) {
    std::vector<const ir::Type*> open = {type};
    while (!open.empty()) {
      const ir::Type* next = open.back();
      open.pop_back();
      if (next == nullptr || !seen_.insert(next).second) continue;
      if (const auto* tensor = ir::DynCast<ir::TensorType>(next)) {
        if (Finding finding = Judge(*tensor); !finding.message.empty()) return finding;
      } else if (const auto* adt = ir::DynCast<ir::AdtType>(next)) {
        for (const ir::TypeArg& arg : adt->args) {
          if (arg.kind == ir::Kind::kBaseType && IsUnstorable(arg.dtype)) return Lanes(arg.dtype);
        }
      }
      ir::ForEachPart(next, [&](const ir::Type* part) { open.push_back(part); });
    }
    return {};
  }

 private:
  static bool IsUnstorable(const ir::DTypeTerm& dtype) { return dtype.is_concrete() && !IsStorable(dtype.dtype); }

  static Finding Lanes(const ir::DTypeTerm& dtype) {
    return {DiagnosticKind::kUnsupported, absl::StrCat("saw the dtype `", dtype.dtype.ToString(),
                                                       "`, which no back-end runs yet; expected a dtype of one lane")};
  }

  static Finding Judge(const ir::TensorType& tensor) {
    if (IsUnstorable(tensor.dtype)) return Lanes(tensor.dtype);
    if (!tensor.shape.is_dims() || !tensor.dtype.is_concrete()) return {};
    if (tensor.shape.dims.size() > kMaxRank) {
      return {DiagnosticKind::kTensorTooLarge,
              absl::StrCat("a tensor has ", tensor.shape.dims.size(), " axes; expected at most ", kMaxRank)};
    }
    std::vector<int64_t> dims;
    for (const Dim& dim : tensor.shape.dims) dims.push_back(dim.AsConst().value_or(TypeDesc::kUnknownDim));
    if (!IsTooLarge(tensor.dtype.dtype, dims)) return {};
    return {DiagnosticKind::kTensorTooLarge,
            absl::StrCat("`", ir::TypeToString(&tensor), "` has more bytes than any memory; expected at most 2^48")};
  }

  absl::flat_hash_set<const ir::Type*> seen_;
};

}  // namespace

void CheckTensors(const ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  TensorFinder finder;
  for (const ir::GlobalFunction& global : module.functions) {
    bool reported = false;
    auto check = [&](const ir::Type* type, ir::Span span) {
      if (reported) return;
      TensorFinder::Finding finding = finder.Find(type);
      if (finding.message.empty()) return;
      reported = true;
      diagnostics.Error(span, finding.kind, finding.message);
    };
    for (const ir::Var* param : global.function->params) check(param->type, param->span);
    ir::ForEachExpr(global.function->body, [&](const ir::Expr* expr) {
      // The types of operators are those of their arguments, which are checked themselves.
      if (ir::DynCast<ir::OpExpr>(expr) == nullptr) check(expr->type, expr->span);
      return !reported;
    });
  }
}

}  // namespace rvm::driver
