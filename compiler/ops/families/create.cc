// Operators that create tensors, and operators that return the shape or size of tensors.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dim_bounds.h"
#include "compiler/ops/dynamic_twins.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a tensor"}};
constexpr Input kFullInputs[] = {{"fill_value", "a scalar"}};
constexpr Input kFullLikeInputs[] = {{"data", "a tensor whose shape is taken"}, {"fill_value", "a scalar"}};
constexpr AttrSpec kShapeAttrs[] = {
    {"shape", AttrType::kInts, "", "the shape of the result"},
    {"dtype", AttrType::kDType, "\"\"", "the dtype of the result (float32; `full`: of fill_value)"}};
constexpr AttrSpec kDTypeAttrs[] = {{"dtype", AttrType::kDType, "\"\"", "an integer dtype (int32)"}};

Solve ShapeResult(TypeContext& context, DataType dtype) {
  Dims dims;
  for (int64_t extent : context.attrs().GetInts("shape")) {
    if (extent < 0) {
      return context.Fail(DiagnosticKind::kNegativeExtent,
                          absl::StrCat("`shape` has ", extent, "; expected extents >= 0"));
    }
    dims.push_back(extent);
  }
  return ResultTensor(context, dims, dtype);
}

Solve FillRelation(TypeContext& context) { return ShapeResult(context, DTypeAttr(context.attrs(), "dtype", kFloat32)); }

Solve FullRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* value = TensorArg(context, 0, &failed);
  if (value == nullptr) return failed ? Solve::kFailed : Solve::kStuck;
  if (!value->shape.dims.empty()) {
    return context.Fail(DiagnosticKind::kRankMismatch,
                        absl::StrCat("`fill_value` has rank ", value->shape.dims.size(), "; expected a scalar"), 0);
  }
  return ShapeResult(context, DTypeAttr(context.attrs(), "dtype", value->dtype.dtype));
}

Solve FullLikeRelation(TypeContext& context) {
  return context.Unify(context.arg(0), context.result()) ? Solve::kDone : Solve::kFailed;
}

Solve ShapeOfRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  if (data == nullptr) return failed ? Solve::kFailed : Solve::kStuck;
  return ResultTensor(context, {static_cast<int64_t>(data->shape.dims.size())},
                      DTypeAttr(context.attrs(), "dtype", kInt32));
}

std::vector<Tensor> ComputeShapeOf(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  const Dims& dims = context.input(0).dims();
  return {te::ComputeTensor("shape_of", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr result = te::Index(0);
    for (size_t axis = dims.size(); axis-- > 0;) {
      result = te::Select(te::Binary(te::BinaryOp::kEqual, i[0], te::Index(static_cast<int64_t>(axis))),
                          te::DimValue(dims[axis]), result);
    }
    return te::Cast(out.dtype, result);
  })};
}

Solve SizeRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  if (data == nullptr) return failed ? Solve::kFailed : Solve::kStuck;
  return ResultTensor(context, {}, DTypeAttr(context.attrs(), "dtype", kInt32));
}

std::vector<Tensor> ComputeSize(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  Dim size = NumElements(context.input(0).dims());
  return {te::ComputeTensor("size", out.dtype, {},
                            [&](std::span<const Expr>) { return te::Cast(out.dtype, te::DimValue(size)); })};
}

// ---- diagonals -------------------------------------------------------------------

constexpr AttrSpec kEyeAttrs[] = {
    {"rows", AttrType::kInt, "", "the rows of the matrix"},
    {"columns", AttrType::kInt, "None", "its columns; None: as many as rows", true},
    {"k", AttrType::kInt, "0", "the diagonal; 0 is the main one, negative ones are below"},
    {"dtype", AttrType::kDType, "\"\"", "the dtype of the result (float32)"}};
constexpr Input kDiagInputs[] = {{"data", "a vector, or a tensor of matrices (..., m, n)"}};
constexpr AttrSpec kDiagAttrs[] = {
    {"k", AttrType::kInt, "0", "the diagonal; 0 is the main one, negative ones are below"}};
constexpr Example kEyeExamples[] = {{"eye(rows=2)", "[[1f, 0f], [0f, 1f]]"},
                                    {"eye(rows=2, columns=3, k=1, dtype=\"int32\")", "[[0, 1, 0], [0, 0, 1]]"}};
constexpr Example kDiagExamples[] = {{"diag([1, 2])", "[[1, 0], [0, 2]]"},
                                     {"diag([5], k=-1)", "[[0, 0], [5, 0]]"},
                                     {"diag([[1, 2, 3], [4, 5, 6]], k=1)", "[2, 6]"}};

Solve EyeRelation(TypeContext& context) {
  int64_t rows = context.attrs().GetInt("rows");
  int64_t columns = context.attrs().IsNone("columns") ? rows : context.attrs().GetInt("columns");
  if (rows < 0 || columns < 0) {
    return context.Fail(DiagnosticKind::kNegativeExtent,
                        absl::StrCat("the matrix would have ", rows, " rows and ", columns, " columns; expected >= 0"));
  }
  return ResultTensor(context, {rows, columns}, DTypeAttr(context.attrs(), "dtype", kFloat32));
}

std::vector<Tensor> ComputeEye(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  Expr k = te::Index(context.attrs().GetInt("k"));
  return {te::ComputeTensor("eye", out.dtype, out.dims, [&](std::span<const Expr> i) {
    return te::Select(Equal(i[1] - i[0], k), te::Const(out.dtype, 1), te::Const(out.dtype, 0));
  })};
}

Solve DiagRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  if (data == nullptr) return failed ? Solve::kFailed : Solve::kStuck;
  Dims dims = data->shape.dims;
  int64_t k = context.attrs().GetInt("k");
  if (dims.empty()) return FailRank(context, 0, 0, "1 or more");
  if (dims.size() == 1) {
    Dim side = dims[0] + (k < 0 ? -k : k);
    return ResultTensor(context, {side, side}, data->dtype.dtype);
  }
  Dim rows = dims[dims.size() - 2] + (k < 0 ? k : 0), columns = dims[dims.size() - 1] - (k > 0 ? k : 0);
  dims.pop_back();
  dims.back() = ClampedToNatural(Min(rows, columns));
  return ResultTensor(context, dims, data->dtype.dtype);
}

std::vector<Tensor> ComputeDiag(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  int64_t k = context.attrs().GetInt("k");
  Expr down = te::Index(k < 0 ? -k : 0), right = te::Index(k > 0 ? k : 0);
  return {te::ComputeTensor("diag", out.dtype, out.dims, [&](std::span<const Expr> i) {
    if (data.rank() == 1) {
      return te::Select(Equal(i[1] - i[0], te::Index(k)), data({i[0] - down}), te::Const(out.dtype, 0));
    }
    std::vector<Expr> at(i.begin(), i.end());
    at.back() = i.back() + down;
    at.push_back(i.back() + right);
    return data(at);
  })};
}

// ---- grids ------------------------------------------------------------------------

constexpr Input kGridInputs[] = {{"data", "a tuple of vectors (or scalars) of one dtype", true}};
constexpr AttrSpec kGridAttrs[] = {
    {"indexing", AttrType::kString, "\"ij\"", "\"ij\", or \"xy\": the first two axes exchanged"}};

// Returns the axis of the grid along which vector `i` varies.
size_t GridAxis(const ir::Attrs& attrs, size_t i, size_t count) {
  return attrs.GetString("indexing") == "xy" && count > 1 && i < 2 ? 1 - i : i;
}

Solve MeshgridRelation(TypeContext& context) {
  const ir::Type* type = context.arg(0);
  if (type->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
  const auto* tuple = ir::DynCast<ir::TupleType>(type);
  if (tuple == nullptr || tuple->fields.empty()) {
    return context.Fail(
        DiagnosticKind::kNotTensorTuple,
        absl::StrCat("argument 1 has type `", ir::TypeToString(type), "`; expected a tuple of one or more vectors"), 0);
  }
  const std::string& indexing = context.attrs().GetString("indexing");
  if (indexing != "ij" && indexing != "xy") {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`indexing` is \"", indexing, "\"; expected \"ij\" or \"xy\""));
  }
  Dims grid(tuple->fields.size());
  std::optional<DataType> dtype;
  for (size_t i = 0; i < grid.size(); ++i) {
    if (tuple->fields[i]->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
    const auto* vector = ir::DynCast<ir::TensorType>(tuple->fields[i]);
    if (vector != nullptr && (!vector->shape.is_dims() || !vector->dtype.is_concrete())) return Solve::kStuck;
    if (vector == nullptr || vector->shape.dims.size() > 1 ||
        vector->dtype.dtype != dtype.value_or(vector->dtype.dtype)) {
      return context.Fail(
          DiagnosticKind::kNotTensorTuple,
          absl::StrCat("the tuple holds a `", ir::TypeToString(tuple->fields[i]), "`; expected vectors of one dtype"),
          0);
    }
    dtype = vector->dtype.dtype;
    grid[GridAxis(context.attrs(), i, grid.size())] = vector->shape.dims.empty() ? Dim(1) : vector->shape.dims[0];
  }
  std::vector<const ir::Type*> fields(grid.size(), ir::MakeTensorType(context.arena(), grid, *dtype));
  return context.Result(context.arena().New<ir::TupleType>(std::move(fields)));
}

std::vector<Tensor> ComputeMeshgrid(const ComputeContext& context) {
  std::vector<Tensor> grids;
  for (size_t k = 0; k < context.num_inputs(); ++k) {
    const Tensor& vector = context.input(k);
    size_t axis = GridAxis(context.attrs(), k, context.num_inputs());
    grids.push_back(te::ComputeTensor("meshgrid", vector.dtype(), context.output(k).dims, [&](std::span<const Expr> i) {
      return vector.rank() == 0 ? vector({}) : vector({i[axis]});
    }));
  }
  return grids;
}

constexpr OpDef kOps[] = {
    Op("eye", "a matrix that is 1 on a diagonal and 0 elsewhere", {}, kEyeAttrs, EyeRelation, FusionClass::kElementwise,
       ComputeEye, kEyeExamples),
    WithGradient(Op("diag", "a matrix that has a vector on a diagonal, or the diagonals of matrices", kDiagInputs,
                    kDiagAttrs, DiagRelation, FusionClass::kInjective, ComputeDiag, kDiagExamples),
                 DiagGradient),
    {.name = "zeros",
     .summary = "zeros of a shape",
     .attrs = kShapeAttrs,
     .type_relation = FillRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeFill<0>},
    {.name = "ones",
     .summary = "ones of a shape",
     .attrs = kShapeAttrs,
     .type_relation = FillRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeFill<1>},
    {.name = "full",
     .summary = "a shape filled with a scalar",
     .inputs = kFullInputs,
     .attrs = kShapeAttrs,
     .type_relation = FullRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeFull<0>,
     .gradient = FullGradient},
    {.name = "full_like",
     .summary = "the shape and dtype of data filled with a scalar",
     .inputs = kFullLikeInputs,
     .type_relation = FullLikeRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeFull<1>,
     .gradient = FullLikeGradient},
    {.name = "shape_of",
     .summary = "the extents as a vector",
     .inputs = kInputs,
     .attrs = kDTypeAttrs,
     .type_relation = ShapeOfRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeShapeOf},
    {.name = "ndarray_size",
     .summary = "the number of elements",
     .inputs = kInputs,
     .attrs = kDTypeAttrs,
     .type_relation = SizeRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeSize},
    {.name = "meshgrid",
     .summary = "a tuple of the coordinates of a grid's points",
     .inputs = kGridInputs,
     .attrs = kGridAttrs,
     .type_relation = MeshgridRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeMeshgrid,
     .gradient = MeshgridGradient},
};

}  // namespace

std::span<const OpDef> CreateOps() { return kOps; }

}  // namespace rvm::ops
