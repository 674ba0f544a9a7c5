#include "compiler/ops/select_scalar.h"

#include "base/data_type.h"
#include "compiler/ops/families/extent.h"
#include "compiler/ops/identity.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {
namespace {

std::optional<DataType> ScalarDType(const ir::Expr& expr) {
  const auto* tensor = ir::DynCast<ir::TensorType>(expr.type);
  if (tensor == nullptr || !ir::IsScalar(tensor)) return std::nullopt;
  return tensor->dtype.dtype;
}

}  // namespace

std::optional<ScalarInstruction> SelectScalar(const ir::Call& call) {
  const OpDef* op = ir::OpCallee(&call);
  if (op == nullptr || op->scalar == nullptr || !ScalarDType(call)) return std::nullopt;
  std::optional<DataType> dtype;
  for (const ir::Expr* arg : call.args) {
    dtype = ScalarDType(*arg);
    if (!dtype) return std::nullopt;
  }
  return op->scalar->For(*dtype);
}

bool NeedsNoKernel(const ir::Call& call) {
  const OpDef* op = ir::OpCallee(&call);
  if (op == nullptr) return false;
  if (SelectScalar(call) || IsExtent(call)) return true;
  if (IsCheckExtent(call) || IsCheckAtLeast(call)) return true;
  if (IsIdentity(*op) && ir::TypesEqual(call.args[0]->type, call.type)) return true;
  return op->is_reshape && !ir::IsScalar(call.type) && !ir::IsScalar(call.args[0]->type);
}

}  // namespace rvm::ops
