#include "vm/link_info.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace rvm::vm {
namespace {

absl::Status BadKernel(const KernelDesc& desc, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("in kernel `", desc.name, "`: ", what));
}

absl::StatusOr<DimProgram> CompileDim(const KernelDesc& desc, const Dim& dim) {
  std::optional<DimProgram> program = DimProgram::Compile(dim, desc.num_symbols);
  if (program.has_value()) return *std::move(program);
  return BadKernel(desc, absl::StrCat("dim `", dim.ToString(), "` is no expression over the kernel's ",
                                      desc.num_symbols, " symbols"));
}

absl::StatusOr<KernelInfo::TensorInfo> LinkTensor(const KernelDesc& desc, const KernelTensor& tensor) {
  KernelInfo::TensorInfo info;
  info.dtype = tensor.dtype;
  info.scalar = tensor.dims.empty();
  for (const Dim& dim : tensor.dims) {
    RVM_ASSIGN_OR_RETURN(DimProgram program, CompileDim(desc, dim));
    info.programs.push_back(std::move(program));
  }
  if (std::optional<Shape> shape = StaticShape(tensor.dims); shape.has_value()) {
    std::optional<int64_t> elements = NumElements(*shape);
    int64_t bytes = 0;
    bool negative = std::any_of(shape->begin(), shape->end(), [](int64_t d) { return d < 0; });
    if (negative || !elements || __builtin_mul_overflow(*elements, tensor.dtype.bytes(), &bytes)) {
      return BadKernel(desc, absl::StrCat("shape ", ShapeToString(*shape), " is out of range"));
    }
    info.dims.assign(shape->begin(), shape->end());
    info.bytes = bytes;
  }
  return info;
}

// The first dim of a parameter that is a symbol binds it; every other dim is checked.
absl::Status LinkBinds(const KernelDesc& desc, KernelInfo& info) {
  std::vector<bool> bound(desc.num_symbols, false);
  for (uint32_t p = 0; p < desc.params.size(); ++p) {
    const Dims& dims = desc.params[p].dims;
    for (uint32_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis].kind() != DimKind::kVar) continue;
      auto symbol = static_cast<size_t>(dims[axis].id());
      if (bound[symbol]) continue;
      bound[symbol] = true;
      info.binds.push_back({p, axis, static_cast<int32_t>(symbol), {}});
    }
  }
  if (auto it = std::find(bound.begin(), bound.end(), false); it != bound.end()) {
    return BadKernel(desc, absl::StrCat("no parameter has symbol ", it - bound.begin(), " as a dim"));
  }
  auto binds_here = [&](uint32_t p, uint32_t axis) {
    return std::any_of(info.binds.begin(), info.binds.end(),
                       [&](const KernelInfo::Bind& b) { return b.symbol >= 0 && b.param == p && b.axis == axis; });
  };
  for (uint32_t p = 0; p < desc.params.size(); ++p) {
    for (uint32_t axis = 0; axis < desc.params[p].dims.size(); ++axis) {
      if (!binds_here(p, axis)) info.binds.push_back({p, axis, -1, info.params[p].programs[axis]});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelInfo> LinkKernel(const KernelDesc& desc, RvmKernel function) {
  KernelInfo info;
  info.function = function;
  info.desc = &desc;
  auto is_static = [](const KernelTensor& t) { return StaticShape(t.dims).has_value(); };
  info.is_static = std::all_of(desc.params.begin(), desc.params.end(), is_static) &&
                   std::all_of(desc.results.begin(), desc.results.end(), is_static);
  for (const KernelTensor& tensor : desc.params) {
    RVM_ASSIGN_OR_RETURN(KernelInfo::TensorInfo param, LinkTensor(desc, tensor));
    info.params.push_back(std::move(param));
  }
  for (const KernelTensor& tensor : desc.results) {
    RVM_ASSIGN_OR_RETURN(KernelInfo::TensorInfo result, LinkTensor(desc, tensor));
    info.results.push_back(std::move(result));
  }
  RVM_RETURN_IF_ERROR(LinkBinds(desc, info));
  for (const KernelDesc::Check& check : desc.checks) {
    RVM_ASSIGN_OR_RETURN(DimProgram a, CompileDim(desc, check.a));
    RVM_ASSIGN_OR_RETURN(DimProgram b, CompileDim(desc, check.b));
    info.checks.push_back({std::move(a), std::move(b), check.broadcast, &check.what});
  }
  RVM_ASSIGN_OR_RETURN(info.workspace, CompileDim(desc, desc.workspace));
  info.static_workspace = info.workspace.AsConst().value_or(0);
  return info;
}

HeapLayout LinkLayout(const Executable& executable, const CellLayout& layout) {
  HeapLayout info;
  info.tag = layout.tag;
  info.num_fields = static_cast<uint16_t>(layout.fields.size());
  // A free cell holds the link to the next free one, so the least cell has two slots.
  info.bytes = static_cast<uint32_t>(sizeof(Object) + std::max<size_t>(1, layout.fields.size()) * sizeof(Slot));
  info.function = layout.kind == CellKind::kClosure ? layout.function.value : 0;
  for (size_t i = 0; i < layout.fields.size(); ++i) {
    bool pointer = IsPointerType(executable, layout.fields[i]);
    info.is_pointer.push_back(pointer);
    if (pointer) info.pointer_fields.push_back(static_cast<uint16_t>(i));
  }
  return info;
}

absl::Status LinkLayouts(const Executable& executable, LinkInfo& info) {
  info.layouts.emplace_back();
  info.layout_of_type.resize(executable.types.size(), 0);
  for (const CellLayout& layout : executable.layouts) {
    info.layouts.push_back(LinkLayout(executable, layout));
    bool by_type = layout.kind == CellKind::kTuple || layout.kind == CellKind::kRef;
    uint16_t& known = info.layout_of_type[layout.type.value];
    if (by_type && known == 0) known = static_cast<uint16_t>(info.layouts.size() - 1);
  }
  // A tuple may come in as an argument that no instruction ever makes.
  for (uint32_t t = 0; t < executable.types.size(); ++t) {
    const TypeDesc& type = executable.types[t];
    bool by_type = type.kind == TypeDescKind::kTuple || type.kind == TypeDescKind::kRef;
    if (!by_type || info.layout_of_type[t] != 0) continue;
    CellLayout layout;
    layout.type = TypeId(t);
    layout.fields = type.fields;
    info.layouts.push_back(LinkLayout(executable, layout));
    info.layout_of_type[t] = static_cast<uint16_t>(info.layouts.size() - 1);
  }
  if (info.layouts.size() > 0xffff) {
    return absl::UnimplementedError(absl::StrCat(info.layouts.size(), " cell layouts; the VM handles 65535"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const LinkInfo>> MakeLinkInfo(const Executable& executable,
                                                             const std::vector<RvmKernel>& kernels) {
  auto info = std::make_unique<LinkInfo>();
  RVM_RETURN_IF_ERROR(LinkLayouts(executable, *info));
  for (const FunctionDesc& function : executable.functions) {
    auto registers = static_cast<uint32_t>(function.registers.size());
    uint32_t window = function.arena_bytes > 0 ? 1 : 0;
    info->functions.push_back({function.code.data(), registers + window + kLinkSlots, registers, function.arena_bytes});
  }
  for (size_t i = 0; i < executable.kernels.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(KernelInfo kernel, LinkKernel(executable.kernels[i], kernels[i]));
    info->max_kernel_tensors =
        std::max(info->max_kernel_tensors, static_cast<uint32_t>(kernel.params.size() + kernel.results.size()));
    info->max_symbols = std::max(info->max_symbols, executable.kernels[i].num_symbols);
    info->kernels.push_back(std::move(kernel));
  }
  return info;
}

}  // namespace rvm::vm
