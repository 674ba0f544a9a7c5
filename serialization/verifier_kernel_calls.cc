// Kernel calls. A kernel checks nothing, so its buffers must be as its descriptor says
// before it runs: proven here for static shapes, checked by the VM for dynamic ones,
// whose results must still fit the types of their registers.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "serialization/function_verifier.h"
#include "serialization/verify_tables.h"

namespace rvm {

struct FunctionVerifier::KernelArg {
  DataType dtype;
  std::span<const int64_t> dims;
};

absl::Status FunctionVerifier::CheckKernelCall(const Instruction& i) {
  bool planned = i.opcode() == Opcode::kCallKernelPlanned;
  bool is_static = i.opcode() != Opcode::kCallKernelDynamic;
  const Operand& outs = i[0];
  const KernelDesc& kernel = executable_.kernels[i[planned ? 2 : 1].u32()];
  const Operand& args = i[planned ? 3 : 2];
  if (args.count != kernel.params.size()) {
    return Error(absl::StrCat(args.count, " arguments; kernel `", kernel.name, "` takes ", kernel.params.size()));
  }
  if (outs.count != kernel.results.size()) {
    return Error(absl::StrCat(outs.count, " destinations; kernel `", kernel.name, "` gives ", kernel.results.size()));
  }
  if (is_static && kernel.num_symbols != 0) {
    return Error(absl::StrCat("kernel `", kernel.name, "` has symbolic shapes; expected call_kernel_dynamic"));
  }
  if (planned && i[1].count != outs.count) return Error(absl::StrCat(i[1].count, " offsets; expected ", outs.count));
  RVM_RETURN_IF_ERROR(CheckMovedArgs(args));
  std::vector<std::optional<int64_t>> symbols(kernel.num_symbols);
  for (uint32_t a = 0; a < args.count; ++a)
    RVM_RETURN_IF_ERROR(CheckKernelArg(args, a, kernel.params[a], is_static, symbols));
  for (uint32_t r = 0; r < outs.count; ++r)
    RVM_RETURN_IF_ERROR(CheckKernelResult(outs.u16(r), r, kernel.results[r], symbols));
  return absl::OkStatus();
}

// A result may overwrite an argument that the call consumes, so no other argument is the same register.
absl::Status FunctionVerifier::CheckMovedArgs(const Operand& args) {
  absl::flat_hash_set<uint16_t> moved;
  for (uint32_t a = 0; a < args.count; ++a) {
    uint16_t arg = args.u16(a);
    if ((arg & kConstantArg) == 0 && (arg & kMovedArg) != 0) moved.insert(arg & ~kMovedArg);
  }
  if (moved.empty()) return absl::OkStatus();
  absl::flat_hash_set<uint16_t> seen;
  for (uint32_t a = 0; a < args.count; ++a) {
    if ((args.u16(a) & kConstantArg) != 0) continue;
    uint16_t reg = args.u16(a) & ~kMovedArg;
    if (!seen.insert(reg).second && moved.contains(reg))
      return Error(absl::StrCat("register r", reg, " is used up and used again by one call"));
  }
  return absl::OkStatus();
}

// Checks an argument, and derives the values of symbols from dims that are known.
absl::Status FunctionVerifier::CheckKernelArg(const Operand& args, uint32_t index, const KernelTensor& param,
                                              bool is_static, std::vector<std::optional<int64_t>>& symbols) {
  uint16_t operand = args.u16(index);
  auto error = [&](std::string_view saw) {
    return Error(absl::StrCat("argument ", index, " is ", Abseil(saw), "; the kernel takes ", param.dtype.ToString(),
                              " of shape ", DimsToString(param.dims)));
  };
  KernelArg arg;
  if ((operand & kConstantArg) != 0) {
    const Literal& literal = executable_.constants[operand & ~kConstantArg];
    arg = {literal.dtype(), literal.shape()};
    if (arg.dtype != param.dtype || arg.dims.size() != param.dims.size()) {
      return error(absl::StrCat("a constant ", arg.dtype.ToString(), " of shape ", ShapeToString(literal.shape())));
    }
  } else {
    uint16_t reg = operand & ~kMovedArg;
    const TypeDesc& desc = type(reg);
    if (desc.kind != TypeDescKind::kScalar && desc.kind != TypeDescKind::kTensor) return error(Text(type_id(reg)));
    arg = {desc.dtype, desc.dims};
    if (arg.dtype != param.dtype || arg.dims.size() != param.dims.size()) return error(Text(type_id(reg)));
  }
  for (size_t d = 0; d < arg.dims.size(); ++d) {
    bool known = arg.dims[d] != TypeDesc::kUnknownDim;
    const Dim& dim = param.dims[d];
    if (is_static && (!known || dim.AsConst() != arg.dims[d]))
      return error(absl::StrCat("a tensor of another or an unknown dim ", d));
    if (known && dim.kind() == DimKind::kVar && !symbols[static_cast<size_t>(dim.id())])
      symbols[static_cast<size_t>(dim.id())] = arg.dims[d];
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::CheckKernelResult(uint16_t reg, uint32_t index, const KernelTensor& result,
                                                 const std::vector<std::optional<int64_t>>& symbols) {
  const TypeDesc& desc = type(reg);
  bool fits = (desc.kind == TypeDescKind::kScalar || desc.kind == TypeDescKind::kTensor) &&
              desc.dtype == result.dtype && desc.dims.size() == result.dims.size();
  for (size_t d = 0; fits && d < desc.dims.size(); ++d) {
    if (desc.dims[d] == TypeDesc::kUnknownDim) continue;
    std::optional<int64_t> extent =
        EvaluateDim(result.dims[d], [&](const Dim& leaf) { return symbols[static_cast<size_t>(leaf.id())]; });
    fits = extent == desc.dims[d];
  }
  return Expect(fits, absl::StrCat("result ", index, " is ", result.dtype.ToString(), " of shape ",
                                   DimsToString(result.dims), "; the destination is ", Text(type_id(reg))));
}

// A planned output ends the life of what lay at its place in the arena. Neither an argument nor another output of the
// call may lie there: the kernel would overwrite what it reads, or a header. But an output may take exactly the place
// of an argument that the call consumes, if the kernel writes it only after reading the argument.
absl::Status FunctionVerifier::PlaceOutputs(const Instruction& i) {
  const Operand &outs = i[0], &offsets = i[1], &args = i[3];
  const KernelDesc& kernel = executable_.kernels[i[2].u32()];
  absl::flat_hash_set<uint16_t> busy;
  absl::flat_hash_map<uint32_t, uint32_t> given_up;  // offset of a consumed argument -> its number
  for (uint32_t a = 0; a < args.count; ++a) {
    uint16_t reg = args.u16(a) & ~kMovedArg;
    if ((args.u16(a) & kConstantArg) != 0 || !is_planned(reg)) continue;
    busy.insert(reg);
    if ((args.u16(a) & kMovedArg) != 0) given_up[places_[reg]] = a;
  }
  for (uint32_t r = 0; r < outs.count; ++r) {
    uint16_t reg = outs.u16(r);
    uint32_t offset = offsets.u32(r);
    if (is_planned(reg) != (offset != kNoOffset)) {
      return Error(absl::StrCat(
          "register r", reg, is_planned(reg) ? " is planned but has no offset" : " has an offset but is not planned"));
    }
    if (!is_planned(reg)) continue;
    if (auto found = given_up.find(offset); found != given_up.end() && kernel.MayReuse(r, found->second)) {
      busy.erase(args.u16(found->second) & ~kMovedArg);
      given_up.erase(found);
    }
    if (busy.contains(reg)) return Error(absl::StrCat("planned register r", reg, " is used twice in one call"));
    RVM_RETURN_IF_ERROR(PlaceOutput(reg, offset, busy));
    busy.insert(reg);
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::PlaceOutput(uint16_t reg, uint32_t offset, const absl::flat_hash_set<uint16_t>& busy) {
  const TypeDesc& desc = type(reg);
  uint64_t bytes = static_cast<uint64_t>(desc.dtype.bytes());
  for (int64_t dim : desc.dims) bytes *= static_cast<uint64_t>(dim);
  uint64_t end = uint64_t{offset} + kPlannedHeaderBytes + bytes;
  if (offset % kPlannedHeaderBytes != 0)
    return Error(absl::StrCat("offset ", offset, " is not a multiple of ", kPlannedHeaderBytes));
  if (end > function_.arena_bytes) {
    return Error(
        absl::StrCat("planned register r", reg, " ends at ", end, " of an arena of ", function_.arena_bytes, " bytes"));
  }
  if (state_.live.Has(reg)) {
    state_.arena.erase(places_[reg]);
    state_.live.Remove(reg);
  }
  auto it = state_.arena.lower_bound(offset);
  if (it != state_.arena.begin() && std::prev(it)->second.end > offset) --it;
  while (it != state_.arena.end() && it->first < end) {
    if (busy.contains(it->second.reg)) {
      return Error(absl::StrCat("planned register r", reg, " overlaps r", it->second.reg, ", which this call uses"));
    }
    state_.live.Remove(it->second.reg);
    it = state_.arena.erase(it);
  }
  state_.arena[offset] = {static_cast<uint32_t>(end), reg};
  places_[reg] = offset;
  state_.live.Add(reg);
  return absl::OkStatus();
}

}  // namespace rvm
