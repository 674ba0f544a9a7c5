#include "compiler/lowering/opencl_source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/lowering/grid_launches.h"
#include "compiler/lowering/opencl_expression.h"
#include "serialization/device_contract.h"

namespace rvm::lowering {
namespace {

absl::Status OnHost(const std::string& reason) { return absl::UnimplementedError(reason); }

// One function: a nest of a recipe.
class NestSource {
 public:
  NestSource(const KernelDesc& kernel, const KernelRecipe& recipe, const RecipeNest& nest)
      : kernel_(kernel), recipe_(recipe), nest_(nest) {}

  absl::StatusOr<std::string> Run(const std::string& name);
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
  Buffer BufferOf(uint32_t index) const;
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

std::string NestSource::Parameters() const {
  std::vector<std::string> list;
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    list.push_back(kernel_.params[i].dims.empty()
                       ? absl::StrCat("ulong b", i)
                       : absl::StrCat("__global const ", OpenClMemoryType(kernel_.params[i].dtype), "* b", i));
  }
  for (const KernelTensor& result : kernel_.results) {
    list.push_back(absl::StrCat("__global ", OpenClMemoryType(result.dtype), "* b", list.size()));
  }
  list.push_back("__global uchar* workspace");
  for (uint32_t s = 0; s < kernel_.num_symbols; ++s) list.push_back(absl::StrCat("long s", s));
  std::string text;
  for (const std::string& parameter : list) absl::StrAppend(&text, text.empty() ? "" : ", ", parameter);
  return text;
}

// The number of elements of each buffer that the nest accesses, and the addresses of those in the workspace.
void NestSource::EmitBuffers() {
  size_t tensors = kernel_.params.size() + kernel_.results.size();
  for (uint32_t index = 0; index < tensors + recipe_.workspaces.size(); ++index) {
    bool used = false;
    for (const RecipeStep& step : nest_.steps) {
      used |= (step.op == RecipeOp::kLoad || step.op == RecipeOp::kStore) && step.buffer == index;
    }
    if (!used) continue;
    Buffer buffer = BufferOf(index);
    uses_fp64_ |= buffer.dtype == kFloat64;
    if (IsScalarParam(index)) {
      Line(absl::StrFormat("const %s x%d = %s;", OpenClType(buffer.dtype), index,
                           OpenClFromBits(buffer.dtype, absl::StrCat("b", index))));
      continue;
    }
    if (index >= tensors) {
      const char* type = OpenClMemoryType(buffer.dtype);
      Line(absl::StrFormat("__global %s* b%d = (__global %s*)(workspace + %s);", type, index, type,
                           OpenClDim(recipe_.workspaces[index - tensors].offset)));
    }
    Line(absl::StrFormat("const ulong n%d = (ulong)%s;", index, OpenClDim(buffer.elements)));
  }
}

absl::StatusOr<std::string> NestSource::Run(const std::string& name) {
  RVM_RETURN_IF_ERROR(Check());
  Open(absl::StrCat("__kernel void ", name, "(", Parameters(), ")"));
  EmitBuffers();
  Line(absl::StrCat("const long positions = ", OpenClDim(NumElements(nest_.axes)), ";"));
  Open("for (long position = get_global_id(0); position < positions; position += get_global_size(0))");
  EmitPosition();
  Close();
  Close();
  return std::move(out_);
}

void NestSource::EmitPosition() {
  Line("long rest = position;");
  for (size_t axis = nest_.axes.size(); axis-- > 0;) {
    if (axis == 0) {
      Line("const long i0 = rest;");
    } else {
      std::string extent = OpenClDim(nest_.axes[axis]);
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
    Open(absl::StrFormat("for (long %s = 0; %s < %s; ++%s)", index, index, OpenClDim(nest_.reduce_axes[i]), index));
  }
  if (nest_.reduce_axes.empty()) Open("");
  for (size_t i = 0; i < reduce; ++i) EmitStep(i);
  for (const std::string& line : reduction.Add(Value(step.a))) Line(line);
  for (size_t i = 0; i < std::max<size_t>(nest_.reduce_axes.size(), 1); ++i) Close();
}

std::string NestSource::Load(const RecipeStep& step) const {
  if (IsScalarParam(step.buffer)) return absl::StrCat("x", step.buffer);
  std::string at = Value(step.a);
  return absl::StrFormat("(ulong)%s < n%d ? %s : 0", at, step.buffer,
                         OpenClLoad(step.dtype, absl::StrCat("b", step.buffer), at));
}

void NestSource::Store(const RecipeStep& step) {
  std::string at = Value(step.a);
  Line(absl::StrFormat("if ((ulong)%s < n%d) %s;", at, step.buffer,
                       OpenClStore(step.dtype, absl::StrCat("b", step.buffer), at, Value(step.b))));
}

void NestSource::EmitStep(size_t number) {
  const RecipeStep& step = nest_.steps[number];
  uses_fp64_ |= step.dtype == kFloat64;
  std::string text;
  switch (step.op) {
    case RecipeOp::kConstant: text = OpenClConstant(step.dtype, step.bits); break;
    case RecipeOp::kIndex: text = absl::StrCat("i", step.a); break;
    case RecipeOp::kExtent: text = OpenClDim(nest_.extents[step.a]); break;
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

absl::StatusOr<OpenClKernel> MakeOpenClKernel(uint32_t number, const KernelDesc& kernel, const KernelRecipe& recipe) {
  OpenClKernel result;
  RVM_ASSIGN_OR_RETURN(result.launches, GridLaunches(kernel, recipe));
  result.source = absl::StrCat("\n// ", kernel.name, "\n");
  for (size_t i = 0; i < recipe.nests.size(); ++i) {
    NestSource source(kernel, recipe, recipe.nests[i]);
    RVM_ASSIGN_OR_RETURN(std::string text, source.Run(device_contract::FunctionName(number, static_cast<uint32_t>(i))));
    result.source += text;
    result.uses_fp64 |= source.uses_fp64();
  }
  return result;
}

}  // namespace rvm::lowering
