// The rules of single opcodes beyond the classes of their operands.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "serialization/function_verifier.h"
#include "serialization/verify_tables.h"

namespace rvm {
namespace {

// Returns whether a register of `dtype` may hold `bits`: integers extended to 64 bits, bools 0 or 1, floats in
// the low bytes with zeros above.
bool IsExtended(DataType dtype, uint64_t bits) {
  if (dtype.bits >= 64) return true;
  if (!dtype.is_int()) return bits >> dtype.bits == 0;
  auto value = static_cast<int64_t>(bits);
  int64_t limit = int64_t{1} << (dtype.bits - 1);
  return value >= -limit && value < limit;
}

}  // namespace

absl::Status FunctionVerifier::CheckRules(const Instruction& i) {
  switch (i.opcode()) {
    case Opcode::kMove:
    case Opcode::kRetain: return ExpectAssignable(type_id(i[1].u16()), type_id(i[0].u16()), "the source");
    case Opcode::kLoadInt:
      return CheckLoadBits(i[0].u16(), static_cast<uint64_t>(int64_t{static_cast<int32_t>(i[1].u32())}));
    case Opcode::kLoadBits: return CheckLoadBits(i[0].u16(), i[1].value());
    case Opcode::kLoadConst: return CheckLoadConst(i);
    case Opcode::kLoadTag: return CheckTag(i[0].u16(), i[1].u16(), true);
    case Opcode::kBranchTag: return CheckTag(i[0].u16(), i[1].u16(), false);
    case Opcode::kSwitch: {
      size_t constructors = executable_.adts[type(i[0].u16()).adt.value].constructors.size();
      return Expect(
          i[1].count == constructors && constructors > 0,
          absl::StrCat(i[1].count, " targets; ", Text(type_id(i[0].u16())), " has ", constructors, " constructors"));
    }
    case Opcode::kFatal: return Expect(i[0].u16() == 0, absl::StrCat("unknown reason ", i[0].u16()));
    case Opcode::kReturn:
      RVM_RETURN_IF_ERROR(ExpectConvention(function_, false));
      return ExpectAssignable(type_id(i[0].u16()), function_.result, "the result");
    case Opcode::kReturnFields: return CheckReturnFields(i[0]);
    case Opcode::kCall:
      RVM_RETURN_IF_ERROR(ExpectConvention(executable_.functions[i[1].u32()], false));
      return CheckCall(FunctionId(i[1].u32()), i[2], type_id(i[0].u16()), "the destination");
    case Opcode::kCallFields: return CheckCallFields(i[0], FunctionId(i[1].u32()), i[2]);
    case Opcode::kTailCall:
      RVM_RETURN_IF_ERROR(ExpectConvention(executable_.functions[i[0].u32()], function_.returns_fields));
      return CheckCall(FunctionId(i[0].u32()), i[1], function_.result, "the result of this function");
    case Opcode::kCallClosure: return CheckCallClosure(i[1].u16(), i[2], type_id(i[0].u16()), "the destination");
    case Opcode::kTailCallClosure:
      RVM_RETURN_IF_ERROR(ExpectConvention(function_, false));
      return CheckCallClosure(i[0].u16(), i[1], function_.result, "the result of this function");
    case Opcode::kCallHost: return CheckCallHost(i);
    case Opcode::kMakeCell: return CheckMakeCell(i[0].u16(), LayoutId(i[1].u16()), i[2]);
    case Opcode::kMakeCellIn:
      RVM_RETURN_IF_ERROR(CheckShell(i[1].u16(), LayoutId(i[2].u16())));
      return CheckMakeCell(i[0].u16(), LayoutId(i[2].u16()), i[3]);
    case Opcode::kGetField: return CheckGetField(i);
    case Opcode::kUnpack: return CheckUnpack(i[0], i[1].u16(), LayoutId(i[2].u16()));
    case Opcode::kUnpackShell:
      RVM_RETURN_IF_ERROR(CheckShell(i[1].u16(), LayoutId(i[3].u16())));
      return CheckUnpack(i[0], i[2].u16(), LayoutId(i[3].u16()));
    case Opcode::kRefRead: return ExpectAssignable(type(i[1].u16()).fields[0], type_id(i[0].u16()), "the contents");
    case Opcode::kRefWrite: return ExpectAssignable(type_id(i[1].u16()), type(i[0].u16()).fields[0], "the value");
    case Opcode::kCallKernel:
    case Opcode::kCallKernelPlanned:
    case Opcode::kCallKernelDynamic: return CheckKernelCall(i);
    case Opcode::kGetDim: {
      size_t rank = type(i[1].u16()).dims.size();
      return Expect(i[2].u16() < rank, absl::StrCat("axis ", i[2].u16(), " out of range; the tensor has rank ", rank));
    }
    case Opcode::kGetElement: return CheckGetElement(i);
    case Opcode::kView:
    case Opcode::kCheckShape: return CheckShapeChange(i);
    case Opcode::kCheckDims:
      return Expect(i[2].u16() <= static_cast<uint16_t>(DimRelation::kAtLeast),
                    absl::StrCat("unknown check ", i[2].u16()));
    case Opcode::kWrapInt:
    case Opcode::kCast: return CheckDTypes(i);
    case Opcode::kDrop:
    case Opcode::kBranchEqImm:
    case Opcode::kBranchNeImm:
    case Opcode::kBranchLtImm:
    case Opcode::kBranchGeImm:
    case Opcode::kJump:
    case Opcode::kBranchIf:
    case Opcode::kBranchUnless:
    case Opcode::kBranchEqInt:
    case Opcode::kBranchNeInt:
    case Opcode::kBranchLtInt:
    case Opcode::kBranchLeInt:
    case Opcode::kGetTag:
    case Opcode::kDropShell:
#define RVM_OP(...)
#define RVM_SCALAR_OP(code, Name, ...) case Opcode::k##Name:
#include "serialization/isa/isa.def"
      return absl::OkStatus();
  }
}

absl::Status FunctionVerifier::CheckLoadBits(uint16_t dst, uint64_t bits) {
  return Expect(IsExtended(type(dst).dtype, bits),
                absl::StrCat("0x", absl::Hex(bits), " is no value of ", Text(type_id(dst))));
}

absl::Status FunctionVerifier::CheckLoadConst(const Instruction& i) {
  const Literal& literal = executable_.constants[i[1].u32()];
  const TypeDesc& dst = type(i[0].u16());
  bool fits = literal.dtype() == dst.dtype && literal.shape().size() == dst.dims.size();
  for (size_t d = 0; fits && d < dst.dims.size(); ++d)
    fits = dst.dims[d] == TypeDesc::kUnknownDim || dst.dims[d] == literal.shape()[d];
  return Expect(fits, absl::StrCat("constant ", i[1].u32(), " has dtype ", literal.dtype().ToString(), " and shape ",
                                   ShapeToString(literal.shape()), "; expected ", Text(type_id(i[0].u16()))));
}

absl::Status FunctionVerifier::CheckTag(uint16_t adt, uint16_t tag, bool no_fields) {
  const AdtDesc& desc = executable_.adts[type(adt).adt.value];
  if (tag >= desc.constructors.size()) {
    return Error(
        absl::StrCat("tag ", tag, " out of range; `", desc.name, "` has ", desc.constructors.size(), " constructors"));
  }
  return Expect(!no_fields || desc.constructors[tag].fields.empty(),
                absl::StrCat("constructor `", desc.constructors[tag].name, "` has fields; expected none"));
}

absl::Status FunctionVerifier::CheckArgs(std::span<const TypeId> params, const Operand& args) {
  if (args.count != params.size()) return Error(absl::StrCat(args.count, " arguments; expected ", params.size()));
  for (uint32_t a = 0; a < args.count; ++a) {
    if (IsAssignable(executable_, type_id(args.u16(a)), params[a])) continue;
    return Error(absl::StrCat("argument ", a, " is ", Text(type_id(args.u16(a))), "; expected ", Text(params[a])));
  }
  return absl::OkStatus();
}

absl::Status FunctionVerifier::CheckCall(FunctionId callee, const Operand& args, TypeId destination,
                                         std::string_view destination_name) {
  const FunctionDesc& function = executable_.functions[callee.value];
  std::vector<TypeId> params;
  for (size_t p = 0; p < function.num_params; ++p) params.push_back(function.registers[p].type);
  RVM_RETURN_IF_ERROR(CheckArgs(params, args));
  // The code of a closure reads its captures through parameter 0, which must be a closure of its layout: that is known
  // only of the running closure.
  if (closure_layouts_[callee.value].valid() && !(callee == id_ && args.u16(0) == 0 && state_.self_intact)) {
    return Error(absl::StrCat("`", function.name, "` is the code of a closure; expected call_closure"));
  }
  if (IsAssignable(executable_, function.result, destination)) return absl::OkStatus();
  return Error(absl::StrCat(Abseil(destination_name), " is ", Text(destination), "; `", function.name, "` gives ",
                            Text(function.result)));
}

absl::Status FunctionVerifier::ExpectConvention(const FunctionDesc& function, bool returns_fields) {
  if (function.returns_fields == returns_fields) return absl::OkStatus();
  std::string_view seen = function.returns_fields ? "fields" : "a value";
  return Error(absl::StrCat("`", function.name, "` returns ", Abseil(seen), "; expected ",
                            returns_fields ? "fields" : "a value"));
}

absl::Status FunctionVerifier::CheckReturnFields(const Operand& fields) {
  RVM_RETURN_IF_ERROR(ExpectConvention(function_, true));
  const std::vector<TypeId>& types = executable_.types[function_.result.value].fields;
  if (fields.count != types.size()) return Error(absl::StrCat(fields.count, " fields; the result has ", types.size()));
  for (uint32_t f = 0; f < fields.count; ++f)
    RVM_RETURN_IF_ERROR(ExpectAssignable(type_id(fields.u16(f)), types[f], absl::StrCat("field ", f)));
  return absl::OkStatus();
}

absl::Status FunctionVerifier::CheckCallFields(const Operand& dsts, FunctionId callee, const Operand& args) {
  const FunctionDesc& function = executable_.functions[callee.value];
  RVM_RETURN_IF_ERROR(ExpectConvention(function, true));
  RVM_RETURN_IF_ERROR(CheckCall(callee, args, function.result, "the destination"));
  const std::vector<TypeId>& types = executable_.types[function.result.value].fields;
  if (dsts.count != types.size())
    return Error(absl::StrCat(dsts.count, " destinations; the result has ", types.size(), " fields"));
  for (uint32_t f = 0; f < dsts.count; ++f)
    RVM_RETURN_IF_ERROR(ExpectAssignable(types[f], type_id(dsts.u16(f)), absl::StrCat("field ", f)));
  return absl::OkStatus();
}

absl::Status FunctionVerifier::CheckCallClosure(uint16_t closure, const Operand& args, TypeId destination,
                                                std::string_view name) {
  const TypeDesc& callee = type(closure);
  RVM_RETURN_IF_ERROR(CheckArgs(callee.fields, args));
  if (IsAssignable(executable_, callee.result, destination)) return absl::OkStatus();
  return Error(absl::StrCat(Abseil(name), " is ", Text(destination), "; the closure gives ", Text(callee.result)));
}

// The machine makes cells of such a closure for functions of the host, and finds the function by the captured number.
absl::Status FunctionVerifier::CheckCallHost(const Instruction& i) {
  LayoutId layout_id = closure_layouts_[id_.value];
  if (!layout_id.valid() || i[1].u16() != 0 || !state_.self_intact) {
    return Error("the host is called by the closure that runs, in register r0");
  }
  const CellLayout& layout = executable_.layouts[layout_id.value];
  const TypeDesc* number = layout.fields.size() == 1 ? &executable_.types[layout.fields[0].value] : nullptr;
  if (number == nullptr || number->kind != TypeDescKind::kScalar || number->dtype != kInt64) {
    return Error(absl::StrCat("layout ", layout_id.value, " captures ", layout.fields.size(),
                              " values; expected one, the number of a function, of int64"));
  }
  return CheckCallClosure(i[1].u16(), i[2], type_id(i[0].u16()), "the destination");
}

absl::Status FunctionVerifier::CheckMakeCell(uint16_t dst, LayoutId layout_id, const Operand& fields) {
  const CellLayout& layout = executable_.layouts[layout_id.value];
  if (fields.count != layout.fields.size())
    return Error(absl::StrCat(fields.count, " fields; layout ", layout_id.value, " has ", layout.fields.size()));
  for (uint32_t f = 0; f < fields.count; ++f) {
    if (IsAssignable(executable_, type_id(fields.u16(f)), layout.fields[f])) continue;
    return Error(
        absl::StrCat("field ", f, " is ", Text(type_id(fields.u16(f))), "; expected ", Text(layout.fields[f])));
  }
  return ExpectAssignable(layout.type, type_id(dst), "the cell");
}

// Cells with as many fields have the same size, except references.
absl::Status FunctionVerifier::CheckShell(uint16_t shell, LayoutId layout) {
  if (executable_.layouts[layout.value].kind == CellKind::kRef) return Error("a reference has a cell of its own");
  size_t fields = executable_.layouts[layout.value].fields.size();
  return Expect(type(shell).dims[0] == static_cast<int64_t>(fields),
                absl::StrCat("register r", shell, " is ", Text(type_id(shell)), "; layout ", layout.value, " has ",
                             fields, " fields"));
}

absl::Status FunctionVerifier::CheckGetField(const Instruction& i) {
  const CellLayout& layout = executable_.layouts[i[2].u16()];
  uint16_t cell = i[1].u16();
  if (type_id(cell) != layout.type)
    return Error(
        absl::StrCat("layout ", i[2].u16(), " is of ", Text(layout.type), "; the cell is ", Text(type_id(cell))));
  if (layout.kind == CellKind::kRef) return Error("the cell is a reference; expected ref_read");
  // The type of a closure does not tell what it captured; only the code of its layout knows.
  if (layout.kind == CellKind::kClosure &&
      !(cell == 0 && state_.self_intact && closure_layouts_[id_.value] == LayoutId(i[2].u16()))) {
    return Error("captured values may be read only from the closure that runs, in register r0");
  }
  if (i[3].u16() >= layout.fields.size())
    return Error(
        absl::StrCat("field ", i[3].u16(), " out of range; layout ", i[2].u16(), " has ", layout.fields.size()));
  return ExpectAssignable(layout.fields[i[3].u16()], type_id(i[0].u16()), "the field");
}

absl::Status FunctionVerifier::CheckUnpack(const Operand& dsts, uint16_t cell, LayoutId layout_id) {
  const CellLayout& layout = executable_.layouts[layout_id.value];
  if (type_id(cell) != layout.type)
    return Error(
        absl::StrCat("layout ", layout_id.value, " is of ", Text(layout.type), "; the cell is ", Text(type_id(cell))));
  if (dsts.count != layout.fields.size())
    return Error(
        absl::StrCat(dsts.count, " destinations; layout ", layout_id.value, " has ", layout.fields.size(), " fields"));
  for (uint32_t f = 0; f < dsts.count; ++f)
    RVM_RETURN_IF_ERROR(ExpectAssignable(layout.fields[f], type_id(dsts.u16(f)), absl::StrCat("field ", f)));
  return absl::OkStatus();
}

absl::Status FunctionVerifier::CheckGetElement(const Instruction& i) {
  const TypeDesc& tensor = type(i[1].u16());
  bool has_integers = tensor.dtype.is_integral() && type(i[0].u16()).dtype == kInt64;
  if (!has_integers)
    return Error(absl::StrCat("an element of ", Text(type_id(i[1].u16())), "; expected an integer, to int64"));
  bool is_static = std::count(tensor.dims.begin(), tensor.dims.end(), TypeDesc::kUnknownDim) == 0;
  std::optional<int64_t> size = is_static ? NumElements(Shape(tensor.dims.begin(), tensor.dims.end())) : std::nullopt;
  return Expect(size && i[2].u16() < *size,
                absl::StrCat("element ", i[2].u16(), " of ", Text(type_id(i[1].u16())), " is out of range"));
}

absl::Status FunctionVerifier::CheckShapeChange(const Instruction& i) {
  TypeId shape_id(i[2].u32());
  const TypeDesc& shape = executable_.types[shape_id.value];
  const TypeDesc& src = type(i[1].u16());
  if (shape.kind != TypeDescKind::kTensor || shape.dtype != src.dtype)
    return Error(absl::StrCat("the new type is ", Text(shape_id), "; expected a tensor of ", src.dtype.ToString()));
  if (i.opcode() == Opcode::kView) {
    auto unknown = static_cast<uint32_t>(std::count(shape.dims.begin(), shape.dims.end(), TypeDesc::kUnknownDim));
    if (i[3].count != unknown) return Error(absl::StrCat(i[3].count, " dims; ", Text(shape_id), " needs ", unknown));
  } else if (shape.dims.size() != src.dims.size()) {
    return Error(absl::StrCat("the new type is ", Text(shape_id), "; expected one of rank ", src.dims.size()));
  }
  return ExpectAssignable(shape_id, type_id(i[0].u16()), "the new type");
}

absl::Status FunctionVerifier::CheckDTypes(const Instruction& i) {
  DataType dst = type(i[0].u16()).dtype;
  DataType to = *UnpackDataType(i[i.spec->num_operands - 1].u16());
  if (to != dst) return Error(absl::StrCat("dtype ", to.ToString(), "; the destination is ", dst.ToString()));
  if (i.opcode() == Opcode::kWrapInt) return absl::OkStatus();
  DataType from = *UnpackDataType(i[2].u16());
  DataType src = type(i[1].u16()).dtype;
  return Expect(from == src, absl::StrCat("dtype ", from.ToString(), "; the source is ", src.ToString()));
}

}  // namespace rvm
