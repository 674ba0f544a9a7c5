#include "serialization/limits.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/dim_size.h"
#include "base/status_macros.h"

namespace rvm {
namespace {

using namespace limits;

absl::Status CheckCount(std::string_view owner, size_t count, std::string_view what, size_t most) {
  if (count <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(Abseil(owner), " has ", count, " ", Abseil(what), "; an executable takes at most ", most));
}

std::string Named(std::string_view kind, std::string_view name) {
  return absl::StrCat(Abseil(kind), " `", Abseil(name), "`");
}

absl::Status CheckDim(std::string_view kernel, const Dim& dim) {
  bool is_large = CountDimNodes(dim, kMaxDimNodes) > kMaxDimNodes;
  if (!is_large && DimDepth(dim) <= kMaxDimDepth) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      Named("kernel", kernel), " has an extent whose formula is ",
      is_large ? absl::StrCat("larger than ", kMaxDimNodes, " terms") : absl::StrCat("nested over ", kMaxDimDepth),
      "; an executable takes at most ", kMaxDimNodes, " terms, nested at most ", kMaxDimDepth,
      " deep. Give extents that are known as numbers, or join fewer tensors in one operator"));
}

absl::Status CheckDims(std::string_view kernel, const Dims& dims) {
  for (const Dim& dim : dims) RVM_RETURN_IF_ERROR(CheckDim(kernel, dim));
  return absl::OkStatus();
}

absl::Status CheckKernel(const KernelDesc& kernel) {
  for (const auto* tensors : {&kernel.params, &kernel.results}) {
    for (const KernelTensor& tensor : *tensors) RVM_RETURN_IF_ERROR(CheckDims(kernel.name, tensor.dims));
  }
  for (const KernelDesc::Check& check : kernel.checks) {
    RVM_RETURN_IF_ERROR(CheckDims(kernel.name, {check.a, check.b}));
  }
  return CheckDim(kernel.name, kernel.workspace);
}

absl::Status CheckRecipe(std::string_view kernel, const KernelRecipe& recipe) {
  for (const RecipeWorkspace& workspace : recipe.workspaces) {
    RVM_RETURN_IF_ERROR(CheckDims(kernel, {workspace.offset, workspace.elements}));
  }
  for (const RecipeNest& nest : recipe.nests) {
    for (const Dims* dims : {&nest.axes, &nest.reduce_axes, &nest.extents}) {
      RVM_RETURN_IF_ERROR(CheckDims(kernel, *dims));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckKernels(const Executable& executable) {
  for (const KernelDesc& kernel : executable.kernels) RVM_RETURN_IF_ERROR(CheckKernel(kernel));
  for (size_t i = 0; i < executable.recipes.size() && i < executable.kernels.size(); ++i) {
    RVM_RETURN_IF_ERROR(CheckRecipe(executable.kernels[i].name, executable.recipes[i]));
  }
  for (const DeviceCode& code : executable.device_codes) {
    for (const DeviceCode::Kernel& kernel : code.kernels) {
      std::string_view name;
      if (kernel.kernel.value < executable.kernels.size()) name = executable.kernels[kernel.kernel.value].name;
      RVM_RETURN_IF_ERROR(CheckDim(name, kernel.workspace));
      RVM_RETURN_IF_ERROR(CheckDims(name, kernel.launches));
      for (const DeviceProduct& product : kernel.products) RVM_RETURN_IF_ERROR(CheckDims(name, product.dims()));
      for (const DeviceCall& call : kernel.calls) RVM_RETURN_IF_ERROR(CheckDims(name, call.dims()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLimits(const Executable& executable) {
  RVM_RETURN_IF_ERROR(CheckCount("the program", executable.layouts.size(), "layouts of cells", kMaxLayouts));
  for (const TypeDesc& type : executable.types) {
    RVM_RETURN_IF_ERROR(CheckCount("a type", type.fields.size(), "fields", kMaxFields));
  }
  for (const AdtDesc& adt : executable.adts) {
    RVM_RETURN_IF_ERROR(CheckCount(Named("type", adt.name), adt.constructors.size(), "constructors", kMaxConstructors));
  }
  for (const CellLayout& layout : executable.layouts) {
    RVM_RETURN_IF_ERROR(CheckCount("a layout of cells", layout.fields.size(), "fields", kMaxFields));
  }
  for (const FunctionDesc& function : executable.functions) {
    RVM_RETURN_IF_ERROR(
        CheckCount(Named("function", function.name), function.registers.size(), "registers", kMaxRegisters));
  }
  return CheckKernels(executable);
}

}  // namespace rvm
