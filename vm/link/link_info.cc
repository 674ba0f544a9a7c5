#include "vm/link/link_info.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/function_types.h"
#include "serialization/isa/isa.h"

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

void MakeHeaders(KernelInfo::TensorInfo& info) {
  Tensor& heap = info.heap_header;
  heap.object = {1, 0, kTensorLayout};
  heap.dtype = info.dtype;
  heap.rank = static_cast<uint16_t>(info.dims.size());
  heap.storage = TensorStorage::kInline;
  heap.inline_dims = false;
  heap.data = nullptr;
  heap.block_bytes = Heap::BlockBytes(info.bytes);
  heap.dims = info.dims.data();
  info.planned_header = heap;
  info.planned_header.object.count = kImmortal;
  info.planned_header.storage = TensorStorage::kBorrowed;
  info.planned_header.owner = nullptr;
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
    MakeHeaders(info);
  }
  return info;
}

// The first dim of a parameter that is a symbol binds it, unless the symbol is a value; every other dim is checked.
absl::Status LinkBinds(const KernelDesc& desc, KernelInfo& info) {
  std::vector<bool> bound(desc.num_symbols, false);
  for (const KernelDesc::ValueSymbol& value : desc.values) {
    bound[value.symbol] = true;
    info.values.push_back({value.symbol, value.param, int64_t{value.element} * desc.params[value.param].dtype.bytes()});
  }
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
      if (binds_here(p, axis)) continue;
      std::vector<KernelInfo::Bind>& list = desc.params[p].dims[axis].is_const() ? info.binds : info.expectations;
      list.push_back({p, axis, -1, info.params[p].programs[axis]});
    }
  }
  return absl::OkStatus();
}

// Writes a kernel's shape_code.
class ShapeCoder {
 public:
  explicit ShapeCoder(LinkInfo& link) : link_(link) {}

  // Empty if a dim is neither a symbol nor a constant.
  std::vector<uint16_t> Write(const KernelDesc& desc) {
    bound_.assign(desc.num_symbols, false);
    code_.clear();
    is_plain_ = true;
    for (const KernelTensor& param : desc.params) Add(param.dims, /*binds=*/true);
    for (const KernelTensor& result : desc.results) Add(result.dims, /*binds=*/false);
    return is_plain_ ? std::move(code_) : std::vector<uint16_t>();
  }

 private:
  void Add(const Dims& dims, bool binds) {
    code_.push_back(static_cast<uint16_t>(dims.size()));
    for (const Dim& dim : dims) {
      bool is_symbol = dim.kind() == DimKind::kVar;
      if (!is_symbol && (!dim.is_const() || dim.constant() < 0)) is_plain_ = false;
      if (!is_plain_) return;
      size_t place = is_symbol ? static_cast<size_t>(dim.id()) : PlaceOfConstant(dim.constant());
      if (place >= kBindsSymbol) is_plain_ = false;
      bool is_new = is_symbol && !bound_[place];
      if (is_new) bound_[place] = true;
      code_.push_back(static_cast<uint16_t>(place | (is_new && binds ? kBindsSymbol : 0)));
    }
  }

  size_t PlaceOfConstant(int64_t value) {
    std::vector<int64_t>& constants = link_.shape_constants;
    auto [at, is_new] = places_.try_emplace(value, constants.size());
    if (is_new) constants.push_back(value);
    return link_.max_symbols + at->second;
  }

  LinkInfo& link_;
  absl::flat_hash_map<int64_t, size_t> places_;
  std::vector<bool> bound_;
  std::vector<uint16_t> code_;
  bool is_plain_ = true;
};

absl::StatusOr<KernelInfo> LinkKernel(const Executable& executable, size_t index, const std::vector<RvmKernel>& kernels,
                                      ShapeCoder& shapes) {
  const KernelDesc& desc = executable.kernels[index];
  KernelInfo info;
  if (executable.is_native()) {
    info.function = kernels[index];
  } else {
    RVM_ASSIGN_OR_RETURN(RecipePlan recipe, MakeRecipePlan(desc, executable.recipes[index]));
    info.recipe = std::make_shared<const RecipePlan>(std::move(recipe));
  }
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
  auto is_scalar = [](const KernelInfo::TensorInfo& t) { return t.scalar; };
  info.has_scalars = std::any_of(info.params.begin(), info.params.end(), is_scalar) ||
                     std::any_of(info.results.begin(), info.results.end(), is_scalar);
  for (const KernelDesc::Reuse& reuse : desc.reuses) info.results[reuse.result].may_take.push_back(reuse.param);
  for (const KernelDesc::Update& update : desc.updates) {
    KernelInfo::TensorInfo& result = info.results[update.result];
    result.begins_as = static_cast<int32_t>(update.param);
    result.grows = desc.results[update.result].dims != desc.params[update.param].dims;
    if (!result.grows) result.may_take.push_back(update.param);
  }
  RVM_RETURN_IF_ERROR(LinkBinds(desc, info));
  for (const KernelDesc::Check& check : desc.checks) {
    RVM_ASSIGN_OR_RETURN(DimProgram a, CompileDim(desc, check.a));
    RVM_ASSIGN_OR_RETURN(DimProgram b, CompileDim(desc, check.b));
    info.checks.push_back({std::move(a), std::move(b), check.relation, &check.what});
  }
  RVM_ASSIGN_OR_RETURN(info.workspace, CompileDim(desc, desc.workspace));
  info.static_workspace = info.workspace.AsConst().value_or(0);
  bool is_plain = info.recipe == nullptr && info.results.size() == 1 && desc.updates.empty();
  if (is_plain && info.is_static && !info.has_scalars) {
    info.plain_workspace = info.static_workspace;
  }
  std::optional<int64_t> workspace = info.workspace.AsConst();
  if (is_plain && !info.results[0].scalar && info.values.empty() && info.checks.empty() &&
      workspace.value_or(-1) >= 0) {
    info.shape_code = shapes.Write(desc);
    if (!info.shape_code.empty()) info.shaped_workspace = *workspace;
    info.shaped_header = Heap::HeaderWithDims(info.results[0].dtype, desc.results[0].dims.size());
  }
  return info;
}

// The types whose values may lead to a cycle of references. Any closure may: its type does not tell what it captured.
class CyclicTypes {
 public:
  explicit CyclicTypes(const Executable& executable) : executable_(executable), users_(executable.types.size()) {
    for (uint32_t t = 0; t < executable.types.size(); ++t) {
      const TypeDesc& type = executable.types[t];
      if (type.kind == TypeDescKind::kTuple || type.kind == TypeDescKind::kRef) AddUses(t, type.fields);
      if (type.kind != TypeDescKind::kAdt) continue;
      for (const AdtDesc::Constructor& c : executable.adts[type.adt.value].constructors) AddUses(t, c.fields);
    }
    // A reference can lead back to itself only through a closure or through an ADT that holds references: all other
    // types are acyclic.
    auto holds_refs = Reaching([&](uint32_t t) { return Is(t, TypeDescKind::kClosure) || Is(t, TypeDescKind::kRef); });
    leads_back_ = Reaching(
        [&](uint32_t t) { return Is(t, TypeDescKind::kClosure) || (Is(t, TypeDescKind::kAdt) && holds_refs[t]); });
    may_reach_ = Reaching([&](uint32_t t) { return Is(t, TypeDescKind::kClosure) || IsTracked(t); });
  }

  bool MayReach(TypeId type) const { return may_reach_[type.value]; }
  bool IsTracked(uint32_t t) const {
    return Is(t, TypeDescKind::kRef) && leads_back_[executable_.types[t].fields[0].value];
  }

 private:
  bool Is(uint32_t t, TypeDescKind kind) const { return executable_.types[t].kind == kind; }
  void AddUses(uint32_t user, const std::vector<TypeId>& fields) {
    for (TypeId field : fields) users_[field.value].push_back(user);
  }
  template <typename Pred>
  std::vector<bool> Reaching(Pred&& is_seed) const {
    std::vector<bool> reaches(users_.size(), false);
    std::vector<uint32_t> work;
    auto add = [&](uint32_t t) {
      if (reaches[t]) return;
      reaches[t] = true;
      work.push_back(t);
    };
    for (uint32_t t = 0; t < users_.size(); ++t) {
      if (is_seed(t)) add(t);
    }
    while (!work.empty()) {
      uint32_t t = work.back();
      work.pop_back();
      for (uint32_t user : users_[t]) add(user);
    }
    return reaches;
  }

  const Executable& executable_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<bool> leads_back_;
  std::vector<bool> may_reach_;
};

HeapLayout LinkLayout(const Executable& executable, const CyclicTypes& cyclic, const CellLayout& layout) {
  HeapLayout info;
  info.tag = layout.tag;
  info.num_fields = static_cast<uint16_t>(layout.fields.size());
  // A free cell holds the link to the next free one, so the smallest cell has two slots.
  info.bytes = static_cast<uint32_t>(sizeof(Object) + std::max<size_t>(1, layout.fields.size()) * sizeof(Slot));
  info.function = layout.kind == CellKind::kClosure ? layout.function.value : 0;
  info.is_tracked = cyclic.IsTracked(layout.type.value);
  if (info.is_tracked) info.bytes += sizeof(Slot);
  info.may_reach_cycle =
      std::any_of(layout.fields.begin(), layout.fields.end(), [&](TypeId field) { return cyclic.MayReach(field); });
  for (size_t i = 0; i < layout.fields.size(); ++i) {
    bool pointer = IsPointerType(executable, layout.fields[i]);
    info.is_pointer.push_back(pointer);
    if (pointer) info.pointer_fields.push_back(static_cast<uint16_t>(i));
  }
  return info;
}

absl::Status LinkLayouts(const Executable& executable, LinkInfo& info) {
  CyclicTypes cyclic(executable);
  info.layouts.emplace_back();
  info.layout_of_type.resize(executable.types.size(), 0);
  for (const CellLayout& layout : executable.layouts) {
    info.layouts.push_back(LinkLayout(executable, cyclic, layout));
    bool by_type = layout.kind == CellKind::kTuple || layout.kind == CellKind::kRef;
    uint16_t& known = info.layout_of_type[layout.type.value];
    if (by_type && known == 0) known = static_cast<uint16_t>(info.layouts.size() - 1);
  }
  // Arguments may contain tuples that no instruction makes.
  for (uint32_t t = 0; t < executable.types.size(); ++t) {
    const TypeDesc& type = executable.types[t];
    bool by_type = type.kind == TypeDescKind::kTuple || type.kind == TypeDescKind::kRef;
    if (!by_type || info.layout_of_type[t] != 0) continue;
    CellLayout layout;
    layout.type = TypeId(t);
    layout.fields = type.fields;
    info.layouts.push_back(LinkLayout(executable, cyclic, layout));
    info.layout_of_type[t] = static_cast<uint16_t>(info.layouts.size() - 1);
  }
  if (info.layouts.size() > 0xffff) {
    return absl::UnimplementedError(absl::StrCat(info.layouts.size(), " cell layouts; the VM handles 65535"));
  }
  return absl::OkStatus();
}

bool CallsHost(const FunctionDesc& function) {
  for (uint32_t pc = 0; pc < function.code.size();) {
    Instruction instruction = *ReadInstruction(function.code, pc);
    if (instruction.opcode() == Opcode::kCallHost) return true;
    pc += instruction.length;
  }
  return false;
}

// Finds the closures whose code calls the host: the verifier checked that they capture a number.
void FindHostLayouts(const Executable& executable, LinkInfo& info) {
  info.host_layout_of_type.resize(executable.types.size(), 0);
  for (size_t l = 0; l < executable.layouts.size(); ++l) {
    const CellLayout& layout = executable.layouts[l];
    if (layout.kind != CellKind::kClosure || layout.fields.size() != 1) continue;
    uint16_t& known = info.host_layout_of_type[layout.type.value];
    if (known == 0 && CallsHost(executable.functions[layout.function.value])) known = static_cast<uint16_t>(l + 1);
  }
}

// Handlers leave all calls to KernelCaller if elements of tensors may not be there.
void NeverCallDirectly(KernelInfo& kernel) {
  kernel.plain_workspace = std::numeric_limits<int64_t>::max();
  kernel.shaped_workspace = std::numeric_limits<int64_t>::max();
}

void UseDevice(const DeviceProgram& program, size_t index, KernelInfo& kernel) {
  kernel.device = program.kernels[index].get();
  NeverCallDirectly(kernel);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkInfo>> MakeLinkInfo(const Executable& executable,
                                                       const std::vector<RvmKernel>& kernels,
                                                       const DeviceProgram* device) {
  auto info = std::make_unique<LinkInfo>();
  RVM_RETURN_IF_ERROR(LinkLayouts(executable, *info));
  FindHostLayouts(executable, *info);
  info->gives_functions = FunctionTypesOf(executable).gives_any();
  for (const FunctionDesc& function : executable.functions) {
    auto registers = static_cast<uint32_t>(function.registers.size());
    uint32_t window = function.arena_bytes > 0 ? 1 : 0;
    info->functions.push_back({function.code.data(), registers + window + kLinkSlots, registers, function.arena_bytes});
  }
  for (const Entry& entry : executable.entries) info->equal_extents.push_back(FindEqualExtents(executable, entry));
  for (const KernelDesc& desc : executable.kernels) info->max_symbols = std::max(info->max_symbols, desc.num_symbols);
  ShapeCoder shapes(*info);
  for (size_t i = 0; i < executable.kernels.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(KernelInfo kernel, LinkKernel(executable, i, kernels, shapes));
    info->max_kernel_tensors =
        std::max(info->max_kernel_tensors, static_cast<uint32_t>(kernel.params.size() + kernel.results.size()));
    if (device != nullptr) UseDevice(*device, i, kernel);
    info->kernels.push_back(std::move(kernel));
  }
  info->device = device;
  info->has_batches = device == nullptr && !executable.batch_variants.empty();
  if (info->has_batches) {
    for (KernelInfo& kernel : info->kernels) NeverCallDirectly(kernel);
    for (const BatchVariant& batch : executable.batch_variants) info->kernels[batch.kernel.value].batch = &batch;
  }
  return info;
}

}  // namespace rvm::vm
