#include "compiler/lowering/opencl_source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/lowering/grid_launches.h"
#include "compiler/lowering/opencl_expression.h"

namespace rvm::lowering {
namespace {

absl::Status OnHost(const std::string& reason) { return absl::UnimplementedError(reason); }

// One function: a nest of a recipe.
class NestSource {
 public:
  NestSource(const KernelDesc& kernel, const KernelRecipe& recipe, const RecipeNest& nest)
      : kernel_(kernel), recipe_(recipe), nest_(nest) {}

  absl::StatusOr<OpenClFunction> Run();
  bool uses_fp64() const { return uses_fp64_; }

 private:
  struct Buffer {
    DataType dtype;
    Dim elements;
  };

  absl::Status Check() const;
  bool IsScalarParam(uint32_t buffer) const {
    return buffer < kernel_.params.size() && kernel_.params[buffer].dims.empty();
  }
  bool IsInWorkspace(uint32_t buffer) const { return buffer >= kernel_.params.size() + kernel_.results.size(); }
  Buffer BufferOf(uint32_t index) const;
  void CollectBuffers();
  size_t NumberOf(uint32_t buffer) const {
    return static_cast<size_t>(std::find(buffers_.begin(), buffers_.end(), buffer) - buffers_.begin());
  }
  // Returns the dim as an expression of parameters.
  std::string DimText(const Dim& dim);
  void Line(const std::string& text) { absl::StrAppend(&out_, std::string(indent_, ' '), text, "\n"); }
  void Open(const std::string& text) {
    Line(text + " {");
    indent_ += 2;
  }
  void Close() {
    indent_ -= 2;
    Line("}");
  }
  std::string Parameters() const;
  std::vector<DeviceCall::Argument> Arguments() const;
  void EmitBuffers();
  void EmitPosition();
  void EmitReduction(size_t reduce);
  void EmitStep(size_t number);
  std::string Load(const RecipeStep& step) const;
  void Store(const RecipeStep& step);
  std::string Value(uint32_t number) const { return absl::StrCat("v", number); }
  DataType TypeOf(uint32_t number) const { return nest_.steps[number].dtype; }

  const KernelDesc& kernel_;
  const KernelRecipe& recipe_;
  const RecipeNest& nest_;
  std::vector<uint32_t> buffers_;  // by number in the text
  std::vector<int64_t> symbols_;   // likewise
  std::string out_;
  size_t indent_ = 0;
  bool uses_fp64_ = false;
};

NestSource::Buffer NestSource::BufferOf(uint32_t index) const {
  size_t params = kernel_.params.size(), tensors = params + kernel_.results.size();
  if (index >= tensors) {
    const RecipeWorkspace& workspace = recipe_.workspaces[index - tensors];
    return {workspace.dtype, workspace.elements};
  }
  const KernelTensor& tensor = index < params ? kernel_.params[index] : kernel_.results[index - params];
  return {tensor.dtype, NumElements(tensor.dims)};
}

absl::Status NestSource::Check() const {
  for (const RecipeStep& step : nest_.steps) {
    if (step.dtype == kFloat8E4M3FN) return OnHost("it computes with float8_e4m3fn");
    bool bits = step.op == RecipeOp::kBitcast && (step.dtype.is_small_float() || TypeOf(step.a).is_small_float());
    if (bits) return OnHost("it uses the bits of 16-bit floats");
  }
  return absl::OkStatus();
}

void NestSource::CollectBuffers() {
  for (const RecipeStep& step : nest_.steps) {
    bool is_access = step.op == RecipeOp::kLoad || step.op == RecipeOp::kStore;
    if (is_access && NumberOf(step.buffer) == buffers_.size()) buffers_.push_back(step.buffer);
  }
}

std::string NestSource::DimText(const Dim& dim) {
  return OpenClDim(SubstituteDim(dim, [&](const Dim& leaf) -> std::optional<Dim> {
    if (leaf.kind() != DimKind::kVar) return std::nullopt;
    auto known = std::find(symbols_.begin(), symbols_.end(), leaf.id());
    if (known == symbols_.end()) known = symbols_.insert(known, leaf.id());
    return Dim::Var(known - symbols_.begin(), leaf.name());
  }));
}

std::string NestSource::Parameters() const {
  std::vector<std::string> list;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    uint32_t buffer = buffers_[i];
    const char* type = OpenClMemoryType(BufferOf(buffer).dtype);
    if (IsInWorkspace(buffer)) {
      list.push_back(absl::StrCat("ulong at", i));
    } else if (IsScalarParam(buffer)) {
      list.push_back(absl::StrCat("ulong b", i));
    } else {
      list.push_back(absl::StrCat("__global ", buffer < kernel_.params.size() ? "const " : "", type, "* b", i));
    }
  }
  if (std::any_of(buffers_.begin(), buffers_.end(), [&](uint32_t buffer) { return IsInWorkspace(buffer); })) {
    list.emplace_back("__global uchar* workspace");
  }
  for (size_t i = 0; i < symbols_.size(); ++i) list.push_back(absl::StrCat("long s", i));
  return absl::StrJoin(list, ", ");
}

std::vector<DeviceCall::Argument> NestSource::Arguments() const {
  auto workspace = static_cast<uint32_t>(kernel_.params.size() + kernel_.results.size());
  uint32_t zero = workspace + 1 + kernel_.num_symbols;
  std::vector<DeviceCall::Argument> arguments;
  bool uses_workspace = false;
  for (uint32_t buffer : buffers_) {
    if (IsInWorkspace(buffer)) {
      arguments.push_back({zero, recipe_.workspaces[buffer - workspace].offset});
      uses_workspace = true;
    } else {
      arguments.push_back({buffer, 0});
    }
  }
  if (uses_workspace) arguments.push_back({workspace, 0});
  for (int64_t symbol : symbols_) arguments.push_back({workspace + 1 + static_cast<uint32_t>(symbol), 0});
  return arguments;
}

// The number of elements of each buffer, and the addresses of those in the workspace.
void NestSource::EmitBuffers() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    Buffer buffer = BufferOf(buffers_[i]);
    uses_fp64_ |= buffer.dtype == kFloat64;
    if (IsScalarParam(buffers_[i])) {
      Line(absl::StrFormat("const %s x%d = %s;", OpenClType(buffer.dtype), i,
                           OpenClFromBits(buffer.dtype, absl::StrCat("b", i))));
      continue;
    }
    if (IsInWorkspace(buffers_[i])) {
      const char* type = OpenClMemoryType(buffer.dtype);
      Line(absl::StrFormat("__global %s* b%d = (__global %s*)(workspace + at%d);", type, i, type, i));
    }
    Line(absl::StrFormat("const ulong n%d = (ulong)%s;", i, DimText(buffer.elements)));
  }
}

absl::StatusOr<OpenClFunction> NestSource::Run() {
  RVM_RETURN_IF_ERROR(Check());
  CollectBuffers();
  indent_ = 2;
  EmitBuffers();
  Line(absl::StrCat("const long positions = ", DimText(NumElements(nest_.axes)), ";"));
  Open("for (long position = get_global_id(0); position < positions; position += get_global_size(0))");
  EmitPosition();
  Close();
  Close();
  return OpenClFunction{absl::StrCat("(", Parameters(), ") {\n", out_), Arguments()};
}

void NestSource::EmitPosition() {
  Line("long rest = position;");
  for (size_t axis = nest_.axes.size(); axis-- > 0;) {
    if (axis == 0) {
      Line("const long i0 = rest;");
    } else {
      std::string extent = DimText(nest_.axes[axis]);
      Line(absl::StrFormat("const long i%d = rest %% %s;", axis, extent));
      Line(absl::StrFormat("rest /= %s;", extent));
    }
  }
  size_t begin = 0;
  for (size_t i = 0; i < nest_.steps.size(); ++i) {
    if (nest_.steps[i].op != RecipeOp::kReduce) continue;
    EmitReduction(i);
    begin = i + 1;
  }
  for (size_t i = begin; i < nest_.steps.size(); ++i) EmitStep(i);
}

// The steps before the reduction run in its innermost loop.
void NestSource::EmitReduction(size_t reduce) {
  const RecipeStep& step = nest_.steps[reduce];
  OpenClReduction reduction(static_cast<ReduceOp>(step.function), TypeOf(step.a), Value(static_cast<uint32_t>(reduce)));
  for (const std::string& line : reduction.Begin()) Line(line);
  for (size_t i = 0; i < nest_.reduce_axes.size(); ++i) {
    std::string index = absl::StrCat("i", nest_.axes.size() + i);
    Open(absl::StrFormat("for (long %s = 0; %s < %s; ++%s)", index, index, DimText(nest_.reduce_axes[i]), index));
  }
  if (nest_.reduce_axes.empty()) Open("");
  for (size_t i = 0; i < reduce; ++i) EmitStep(i);
  for (const std::string& line : reduction.Add(Value(step.a))) Line(line);
  for (size_t i = 0; i < std::max<size_t>(nest_.reduce_axes.size(), 1); ++i) Close();
}

std::string NestSource::Load(const RecipeStep& step) const {
  size_t buffer = NumberOf(step.buffer);
  if (IsScalarParam(step.buffer)) return absl::StrCat("x", buffer);
  std::string at = Value(step.a);
  return absl::StrFormat("(ulong)%s < n%d ? %s : 0", at, buffer, OpenClLoad(step.dtype, absl::StrCat("b", buffer), at));
}

void NestSource::Store(const RecipeStep& step) {
  std::string at = Value(step.a);
  size_t buffer = NumberOf(step.buffer);
  Line(absl::StrFormat("if ((ulong)%s < n%d) %s;", at, buffer,
                       OpenClStore(step.dtype, absl::StrCat("b", buffer), at, Value(step.b))));
}

void NestSource::EmitStep(size_t number) {
  const RecipeStep& step = nest_.steps[number];
  uses_fp64_ |= step.dtype == kFloat64;
  std::string text;
  switch (step.op) {
    case RecipeOp::kConstant: text = OpenClConstant(step.dtype, step.bits); break;
    case RecipeOp::kIndex: text = absl::StrCat("i", step.a); break;
    case RecipeOp::kExtent: text = DimText(nest_.extents[step.a]); break;
    case RecipeOp::kLoad: text = Load(step); break;
    case RecipeOp::kUnary:
      text = OpenClUnary(static_cast<UnaryOp>(step.function), TypeOf(step.a), Value(step.a));
      break;
    case RecipeOp::kBinary: {
      auto op = static_cast<BinaryOp>(step.function);
      uses_fp64_ |= ComputesInFloat64(op, TypeOf(step.a));
      text = OpenClBinary(op, TypeOf(step.a), Value(step.a), Value(step.b));
      break;
    }
    case RecipeOp::kSelect: text = absl::StrFormat("v%d ? v%d : v%d", step.a, step.b, step.c); break;
    case RecipeOp::kCast: text = OpenClCast(TypeOf(step.a), step.dtype, Value(step.a)); break;
    case RecipeOp::kBitcast: text = absl::StrFormat("as_%s(v%d)", OpenClType(step.dtype), step.a); break;
    case RecipeOp::kStore: return Store(step);
    case RecipeOp::kReduce:
    case RecipeOp::kOrder:
    case RecipeOp::kStoreIf:
    case RecipeOp::kLimit: RVM_UNREACHABLE("not a step of straight-line code");
  }
  Line(absl::StrFormat("const %s v%d = %s;", OpenClType(step.dtype), number, text));
}

}  // namespace

absl::StatusOr<OpenClKernel> MakeOpenClKernel(const KernelDesc& kernel, const KernelRecipe& recipe) {
  OpenClKernel result;
  RVM_ASSIGN_OR_RETURN(result.launches, GridLaunches(kernel, recipe));
  for (const RecipeNest& nest : recipe.nests) {
    NestSource source(kernel, recipe, nest);
    RVM_ASSIGN_OR_RETURN(OpenClFunction function, source.Run());
    result.functions.push_back(std::move(function));
    result.uses_fp64 |= source.uses_fp64();
  }
  return result;
}

}  // namespace rvm::lowering
