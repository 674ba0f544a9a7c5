// The effect of each instruction on shapes and counts. Of scalars only integers matter: they count iterations and are
// extents.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vm/forecast/path.h"

namespace rvm::vm::forecast {
namespace {

using Kind = Shadow::Kind;

// Returns the result of an integer instruction; nullopt if it overflows, or if the instruction is another one.
std::optional<int64_t> Compute(Opcode opcode, int64_t a, int64_t b) {
  auto is = [opcode](auto... opcodes) { return ((opcode == opcodes) || ...); };
  int64_t result = 0;
  if (is(Opcode::kAddI32, Opcode::kAddImmI32, Opcode::kAddInt, Opcode::kAddImmInt)) {
    return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  }
  if (is(Opcode::kSubI32, Opcode::kSubInt)) {
    return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  }
  if (is(Opcode::kMulI32, Opcode::kMulInt)) {
    return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  }
  if (is(Opcode::kFloorDivInt, Opcode::kFloorModInt)) {
    if (b == 0 || b == -1) return std::nullopt;
    bool rounds = a % b != 0 && (a < 0) != (b < 0);
    return is(Opcode::kFloorDivInt) ? a / b - rounds : a % b + (rounds ? b : 0);
  }
  if (is(Opcode::kMinInt)) return std::min(a, b);
  if (is(Opcode::kMaxInt)) return std::max(a, b);
  if (is(Opcode::kEqInt)) return a == b;
  if (is(Opcode::kNeInt)) return a != b;
  if (is(Opcode::kLtInt)) return a < b;
  if (is(Opcode::kLeInt)) return a <= b;
  return std::nullopt;
}

// Returns whether a branch on integers is taken; nullopt if the instruction is another one.
std::optional<bool> Decide(Opcode opcode, int64_t a, int64_t b) {
  auto is = [opcode](auto... opcodes) { return ((opcode == opcodes) || ...); };
  if (is(Opcode::kBranchIf)) return a != 0;
  if (is(Opcode::kBranchUnless)) return a == 0;
  if (is(Opcode::kBranchEqInt, Opcode::kBranchEqImm)) return a == b;
  if (is(Opcode::kBranchNeInt, Opcode::kBranchNeImm)) return a != b;
  if (is(Opcode::kBranchLtInt, Opcode::kBranchLtImm)) return a < b;
  if (is(Opcode::kBranchLeInt)) return a <= b;
  if (is(Opcode::kBranchGeImm)) return a >= b;
  return std::nullopt;
}

bool FitsInRegister(int64_t value, DataType dtype) {
  return dtype.bits >= 64 || (value >= -(int64_t{1} << (dtype.bits - 1)) && value < int64_t{1} << (dtype.bits - 1));
}

}  // namespace

std::vector<Shadow> Path::Values(const Operand& regs) {
  std::vector<Shadow> values;
  for (uint32_t i = 0; i < regs.count; ++i) values.push_back(reg(regs.u16(i)));
  return values;
}

std::vector<uint16_t> Path::Registers(const Operand& regs) {
  std::vector<uint16_t> registers;
  for (uint32_t i = 0; i < regs.count; ++i) registers.push_back(regs.u16(i));
  return registers;
}

bool Path::Do(const Instruction& i, std::vector<Path>& others) {
  switch (i.opcode()) {
    case Opcode::kMove:
    case Opcode::kCheckShape: reg(i[0].u16()) = reg(i[1].u16()); return true;
    case Opcode::kRetain:
      Retain(reg(i[1].u16()));
      reg(i[0].u16()) = reg(i[1].u16());
      return true;
    case Opcode::kDrop:
    case Opcode::kDropShell: Drop(reg(i[0].u16())); return true;
    case Opcode::kLoadInt: reg(i[0].u16()) = {Kind::kInt, static_cast<int32_t>(i[1].u32())}; return true;
    case Opcode::kLoadBits:
      reg(i[0].u16()) =
          type(i[0].u16()).dtype.is_float() ? Shadow() : Shadow{Kind::kInt, static_cast<int64_t>(i[1].value())};
      return true;
    case Opcode::kLoadConst: reg(i[0].u16()) = Constant(i[1].u32()); return true;
    case Opcode::kLoadTag: reg(i[0].u16()) = {Kind::kTag, i[1].u16()}; return true;
    case Opcode::kJump: frame().pc = i[0].u32(); return true;
    case Opcode::kSwitch:
    case Opcode::kBranchTag: return Switch(i, others);
    case Opcode::kFatal: return false;
    case Opcode::kReturn:
    case Opcode::kReturnFields: return Return(Values(i[0]));
    case Opcode::kCall:
    case Opcode::kCallFields: return Call(FunctionId(i[1].u32()), Values(i[2]), Registers(i[0]), false);
    case Opcode::kTailCall: return Call(FunctionId(i[0].u32()), Values(i[1]), {}, true);
    case Opcode::kCallClosure:
    case Opcode::kTailCallClosure: return CallClosure(i);
    case Opcode::kCallHost: return CallHost(i);
    case Opcode::kMakeCell: {
      reg(i[0].u16()) = NewCell(static_cast<uint16_t>(i[1].u16() + 1), Values(i[2]));
      return true;
    }
    case Opcode::kMakeCellIn: {
      // Reuses the memory: the same bytes.
      Drop(reg(i[1].u16()));
      reg(i[0].u16()) = NewCell(static_cast<uint16_t>(i[2].u16() + 1), Values(i[3]));
      return true;
    }
    case Opcode::kGetTag: {
      Shadow cell = reg(i[1].u16());
      ShadowObject* object = Object(cell);
      bool known = object != nullptr || cell.is(Kind::kTag);
      int64_t tag = object != nullptr ? survey_->link.layouts[object->layout].tag : cell.value;
      reg(i[0].u16()) = known ? Shadow{Kind::kInt, tag} : Shadow();
      return true;
    }
    case Opcode::kGetField:
    case Opcode::kRefRead: {
      ShadowObject* object = Object(reg(i[1].u16()));
      size_t field = i.opcode() == Opcode::kGetField ? i[3].u16() : 0;
      Shadow value = object != nullptr ? object->fields[field] : Shadow();
      Retain(value);
      reg(i[0].u16()) = value;
      return true;
    }
    case Opcode::kRefWrite: {
      Shadow value = reg(i[1].u16());
      if (ShadowObject* object = Object(reg(i[0].u16()))) {
        Drop(std::exchange(object->fields[0], value));
      } else if (!lanes_.empty()) {
        // A tensor read from a reference may be on a device.
        return Unbounded("data decides which tensors a reference holds");
      }
      return true;
    }
    case Opcode::kUnpack: Unpack(i[0], reg(i[1].u16())); return true;
    case Opcode::kUnpackShell: {
      Shadow cell = reg(i[2].u16());
      ShadowObject* object = Object(cell);
      bool alone = object != nullptr && object->count == 1;
      int64_t bytes = alone ? object->bytes : 0;
      Unpack(i[0], cell);
      ShadowObject shell;
      shell.bytes = bytes;
      reg(i[1].u16()) = alone ? Make(std::move(shell)) : Shadow();
      return true;
    }
    case Opcode::kCallKernel:
    case Opcode::kCallKernelPlanned:
    case Opcode::kCallKernelDynamic: return CallKernel(i);
    case Opcode::kGetDim: {
      std::optional<Shape> shape = ShapeOf(reg(i[1].u16()), type(i[1].u16()));
      reg(i[0].u16()) = shape ? Shadow{Kind::kInt, (*shape)[i[2].u16()]} : Shadow();
      return true;
    }
    case Opcode::kView: return View(i);
    case Opcode::kCheckDims: return true;
    case Opcode::kBranchEqImm:
    case Opcode::kBranchNeImm:
    case Opcode::kBranchLtImm:
    case Opcode::kBranchGeImm:
    case Opcode::kBranchIf:
    case Opcode::kBranchUnless:
    case Opcode::kBranchEqInt:
    case Opcode::kBranchNeInt:
    case Opcode::kBranchLtInt:
    case Opcode::kBranchLeInt: return Branch(i, others);
    case Opcode::kGetElement: return FetchToHost(reg(i[1].u16())) && DoScalar(i);
    case Opcode::kWrapInt:
    case Opcode::kCast:
#define RVM_OP(...)
#define RVM_SCALAR_OP(code, Name, ...) case Opcode::k##Name:
#include "serialization/isa/isa.def"
      return DoScalar(i);
  }
}

bool Path::DoScalar(const Instruction& i) {
  Shadow result;
  uint16_t dst = i[0].u16();
  size_t operands = i.operands().size();
  Shadow a = reg(i[1].u16());
  if (i.opcode() == Opcode::kNotBool && a.is(Kind::kInt)) result = {Kind::kInt, a.value == 0};
  if (i.opcode() == Opcode::kWrapInt && a.is(Kind::kInt)) result = a;
  if (operands == 3 && i.opcode() != Opcode::kWrapInt) {
    bool is_register = i[2].kind() == OperandKind::kIn;
    Shadow b = is_register ? reg(i[2].u16()) : Shadow{Kind::kInt, static_cast<int16_t>(i[2].u16())};
    if (a.is(Kind::kInt) && b.is(Kind::kInt)) {
      if (std::optional<int64_t> value = Compute(i.opcode(), a.value, b.value)) result = {Kind::kInt, *value};
    }
  }
  // A number that wraps counts as data.
  if (result.is(Kind::kInt) && !FitsInRegister(result.value, type(dst).dtype)) result = {};
  reg(dst) = result;
  return true;
}

bool Path::Fork(const Operand& targets, uint32_t next, std::vector<Path>& others) {
  frame().has_forked = true;
  just_forked_ = true;
  std::vector<uint32_t> ways = {next};
  for (uint32_t t = 0; t < targets.count; ++t) ways.push_back(targets.u32(t));
  std::sort(ways.begin(), ways.end());
  ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
  for (size_t w = 1; w < ways.size(); ++w) {
    Path other = *this;
    other.frame().pc = ways[w];
    others.push_back(std::move(other));
  }
  frame().pc = ways[0];
  return true;
}

bool Path::Branch(const Instruction& i, std::vector<Path>& others) {
  Shadow a = reg(i[0].u16());
  Shadow b = {Kind::kInt, 0};
  const Operand& target = i[i.operands().size() - 1];
  if (i.operands().size() == 3) {
    b = i[1].kind() == OperandKind::kIn ? reg(i[1].u16()) : Shadow{Kind::kInt, static_cast<int16_t>(i[1].u16())};
  }
  std::optional<bool> taken;
  if (a.is(Kind::kInt) && b.is(Kind::kInt)) taken = Decide(i.opcode(), a.value, b.value);
  if (!taken) return Fork(target, frame().pc, others);
  if (*taken) frame().pc = target.u32();
  return true;
}

bool Path::Switch(const Instruction& i, std::vector<Path>& others) {
  Shadow adt = reg(i[0].u16());
  const Operand& targets = i[i.operands().size() - 1];
  bool is_switch = i.opcode() == Opcode::kSwitch;
  ShadowObject* object = Object(adt);
  if (object == nullptr && !adt.is(Kind::kTag)) return Fork(targets, is_switch ? targets.u32() : frame().pc, others);
  int64_t tag = object != nullptr ? survey_->link.layouts[object->layout].tag : adt.value;
  if (is_switch) {
    frame().pc = targets.u32(static_cast<uint32_t>(tag));
  } else if (tag == i[1].u16()) {
    frame().pc = targets.u32();
  }
  return true;
}

bool Path::Call(FunctionId callee, std::vector<Shadow> args, std::vector<uint16_t> dsts, bool is_tail) {
  bool forked = false;
  for (size_t f = frames_.size(); f-- > 0 && !is_tail;) {
    forked = forked || frames_[f].has_forked;
    if (frames_[f].function != callee || !forked) continue;
    return Unbounded(absl::StrCat("data decides how often `", survey_->executable.functions[callee.value].name,
                                  "` is called inside itself"));
  }
  if (size() > kMaxSize) return Unbounded("calls are nested deeper than is followed");
  if (is_tail) {
    dsts = std::move(frame().results);
    forked = frame().has_forked;
    Leave();
  }
  Enter(callee, std::move(args));
  frame().results = std::move(dsts);
  frame().has_forked = is_tail && forked;
  return true;
}

bool Path::CallClosure(const Instruction& i) {
  bool is_tail = i.opcode() == Opcode::kTailCallClosure;
  size_t at = is_tail ? 0 : 1;
  Shadow closure = reg(i[at].u16());
  ShadowObject* object = Object(closure);
  if (object == nullptr) return Unbounded("data decides which function is called");
  std::vector<Shadow> args = Values(i[at + 1]);
  args.insert(args.begin(), closure);
  return Call(FunctionId(survey_->link.layouts[object->layout].function), std::move(args), Registers(i[0]), is_tail);
}

// The values of the host are copies.
bool Path::CallHost(const Instruction& i) {
  for (Shadow arg : Values(i[2])) Drop(arg);
  std::optional<Shadow> result = HostValue(function().registers[i[0].u16()].type);
  if (!result) return Unbounded("a function of the host decides the size of what it gives");
  reg(i[0].u16()) = *result;
  return true;
}

std::optional<Shadow> Path::HostValue(TypeId id) {
  const TypeDesc& desc = survey_->executable.types[id.value];
  if (desc.kind == TypeDescKind::kScalar) return Shadow();
  if (desc.kind == TypeDescKind::kTensor) {
    bool is_static = std::count(desc.dims.begin(), desc.dims.end(), TypeDesc::kUnknownDim) == 0;
    if (!is_static) return std::nullopt;
    ShadowObject tensor;
    tensor.shape = Shape(desc.dims.begin(), desc.dims.end());
    tensor.element_bytes = ElementBytes(tensor.shape, desc.dtype);
    int64_t dims = static_cast<int64_t>(tensor.shape.size() * sizeof(int64_t));
    tensor.bytes = RoundUp64(static_cast<int64_t>(sizeof(Tensor)) + dims) + RoundUp64(tensor.element_bytes);
    tensor.may_reshape = tensor.takeable = true;
    return Make(std::move(tensor));
  }
  if (desc.kind != TypeDescKind::kTuple) return std::nullopt;
  std::vector<Shadow> fields;
  for (TypeId field : desc.fields) {
    std::optional<Shadow> value = HostValue(field);
    if (!value) return std::nullopt;
    fields.push_back(*value);
  }
  return NewCell(survey_->link.layout_of_type[id.value], std::move(fields));
}

bool Path::Return(std::vector<Shadow> results) {
  if (frames_.size() == 1) {
    int64_t bytes = 0;
    for (ShadowObject* object : Reachable(results[0])) {
      bytes += object->bytes;
      if (!FetchToHost(*object)) return false;
    }
    survey_->forecast.result_bytes = std::max(survey_->forecast.result_bytes, bytes);
    return false;
  }
  std::vector<uint16_t> dsts = std::move(frame().results);
  Leave();
  for (size_t i = 0; i < dsts.size(); ++i) reg(dsts[i]) = results[i];
  return true;
}

void Path::Unpack(const Operand& outs, Shadow cell) {
  ShadowObject* object = Object(cell);
  for (uint32_t o = 0; o < outs.count; ++o) {
    Shadow value = object != nullptr ? object->fields[o] : Shadow();
    Retain(value);
    reg(outs.u16(o)) = value;
  }
  Drop(cell);
}

bool Path::View(const Instruction& i) {
  Shadow source = reg(i[1].u16());
  const TypeDesc& to = survey_->executable.types[i[2].u32()];
  Shape shape;
  uint32_t next = 0;
  for (int64_t dim : to.dims) {
    if (dim == TypeDesc::kUnknownDim) {
      Shadow extent = reg(i[3].u16(next++));
      if (!extent.is(Kind::kInt)) return Unbounded("data decides the shape of a tensor");
      dim = extent.value;
    }
    shape.push_back(dim);
  }
  ShadowObject* object = Object(source);
  if (object != nullptr && object->count == 1 && object->may_reshape && object->shape.size() == shape.size()) {
    object->shape = std::move(shape);
    reg(i[0].u16()) = source;
    return true;
  }
  Shadow view = NewArgument(shape, 0);
  Object(view)->is_view = true;
  Object(view)->owner = source;
  reg(i[0].u16()) = view;
  return true;
}

bool Path::CallKernel(const Instruction& i) {
  bool planned = i.opcode() == Opcode::kCallKernelPlanned;
  const KernelInfo& kernel = survey_->link.kernels[i[planned ? 2 : 1].u32()];
  const Operand& args = i[planned ? 3 : 2];
  std::vector<int64_t> symbols(kernel.desc->num_symbols);
  for (const KernelInfo::Bind& bind : kernel.binds) {
    if (bind.symbol < 0) continue;
    uint16_t arg = args.u16(bind.param);
    std::optional<Shape> shape;
    if ((arg & kConstantArg) != 0) {
      shape = survey_->executable.constants[arg & ~kConstantArg].shape();
    } else {
      shape = ShapeOf(reg(arg & ~kMovedArg), type(arg & ~kMovedArg));
    }
    if (!shape) return Unbounded("data decides the shape of a tensor");
    symbols[static_cast<size_t>(bind.symbol)] = (*shape)[bind.axis];
  }
  for (const KernelInfo::ValueBind& value : kernel.values) {
    uint16_t arg = args.u16(value.param);
    bool is_constant = (arg & kConstantArg) != 0;
    Shadow shadow = is_constant ? Shadow() : reg(arg & ~kMovedArg);
    if (is_constant) {
      const Literal& literal = survey_->executable.constants[arg & ~kConstantArg];
      shadow = {Kind::kInt, literal.IntAt(value.offset / literal.dtype().bytes())};
    }
    if (!shadow.is(Kind::kInt)) return Unbounded("data decides the shape of a tensor");
    symbols[value.symbol] = shadow.value;
  }
  if (!lanes_.empty() && !FetchArgs(kernel, args)) return false;
  if (kernel.device == nullptr) {
    int64_t workspace = kernel.workspace.Evaluate(symbols).value_or(0);
    survey_->forecast.workspace_bytes = std::max(survey_->forecast.workspace_bytes, workspace);
  }
  if (survey_->link.has_batches && !kernel.is_static) survey_->CountWaiting(kernel, args, symbols);
  return MakeResults(i, kernel, symbols, args);
}

bool Path::GrowsInto(Shadow arg, const ShadowObject& grown, int64_t bytes, int64_t& capacity) {
  ShadowObject* object = Object(arg);
  if (object == nullptr || object->count != 1 || !object->takeable || !object->lanes.empty()) return false;
  size_t rank = grown.shape.size();
  int64_t dims = object->may_reshape ? static_cast<int64_t>(rank * sizeof(int64_t)) : 0;
  int64_t header = RoundUp64(static_cast<int64_t>(sizeof(Tensor)) + dims);
  if (!FitsGrown(object->bytes, header, rank, bytes)) {
    capacity = GrownCapacity(bytes);
    return false;
  }
  object->shape = grown.shape;
  object->may_reshape = true;
  grown_bytes_ += bytes - std::exchange(object->grown_bytes, bytes);
  return true;
}

bool Path::MakeResults(const Instruction& i, const KernelInfo& kernel, std::span<const int64_t> symbols,
                       const Operand& args) {
  bool planned = i.opcode() == Opcode::kCallKernelPlanned;
  // The header of a device's tensor has its dims.
  bool is_dynamic = i.opcode() == Opcode::kCallKernelDynamic || kernel.device != nullptr;
  std::vector<Shadow> moved(args.count);
  for (uint32_t a = 0; a < args.count; ++a) {
    if (IsMovedArg(args.u16(a))) moved[a] = reg(args.u16(a) & ~kMovedArg);
  }
  for (uint32_t r = 0; r < kernel.results.size(); ++r) {
    const KernelInfo::TensorInfo& result = kernel.results[r];
    Shadow& dst = reg(i[0].u16(r));
    dst = {};
    if (result.scalar) continue;
    bool in_arena = planned && i[1].u32(r) != kNoOffset;
    bool may_take = !in_arena && kernel.device == nullptr;
    for (size_t t = 0; t < result.may_take.size() && may_take && !dst.is(Kind::kObject); ++t) {
      Shadow& arg = moved[result.may_take[t]];
      ShadowObject* object = Object(arg);
      if (object == nullptr || object->count != 1 || !object->takeable || !object->lanes.empty()) continue;
      dst = std::exchange(arg, Shadow());
    }
    if (dst.is(Kind::kObject)) continue;
    ShadowObject tensor;
    int64_t bytes = result.dtype.bytes();
    for (const DimProgram& program : result.programs) {
      tensor.shape.push_back(program.Evaluate(symbols).value_or(-1));
      if (tensor.shape.back() < 0 || __builtin_mul_overflow(bytes, tensor.shape.back(), &bytes)) return false;
    }
    int64_t capacity = bytes;
    if (result.grows && may_take && is_dynamic) {
      Shadow& arg = moved[static_cast<size_t>(result.begins_as)];
      if (GrowsInto(arg, tensor, bytes, capacity)) {
        dst = std::exchange(arg, Shadow());
        continue;
      }
    }
    if (in_arena) {
      tensor.count = ShadowObject::kForever;
    } else {
      int64_t dims = is_dynamic ? static_cast<int64_t>(tensor.shape.size() * sizeof(int64_t)) : 0;
      tensor.bytes = RoundUp64(static_cast<int64_t>(sizeof(Tensor)) + dims);
      tensor.may_reshape = is_dynamic;
      tensor.element_bytes = bytes;
      if (kernel.device != nullptr) {
        if (!MakeDeviceResult(kernel, tensor)) return false;
      } else {
        tensor.bytes += RoundUp64(capacity);
        tensor.grown_bytes = capacity > bytes ? bytes : 0;
        grown_bytes_ += tensor.grown_bytes;
        tensor.takeable = true;
      }
    }
    dst = Make(std::move(tensor));
  }
  if (kernel.device != nullptr && !TakeForLaunch(kernel, symbols)) return false;
  for (Shadow shadow : moved) Drop(shadow);
  return true;
}

}  // namespace rvm::vm::forecast
