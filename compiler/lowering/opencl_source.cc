#include "compiler/lowering/opencl_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/lowering/opencl_expression.h"
#include "serialization/opencl_groups.h"

namespace rvm::lowering {
namespace {

using loops::Buffer;
using loops::BufferKind;
using loops::Op;
using loops::Program;
using loops::Statement;
using loops::Value;

absl::Status OnHost(const std::string& reason) { return absl::UnimplementedError(reason); }

// One function: the program of a launch.
class ProgramSource {
 public:
  ProgramSource(const KernelDesc& kernel, const SymbolNumbers& numbers, const Program& program)
      : kernel_(kernel),
        numbers_(numbers),
        program_(program),
        texts_(program.values.size()),
        uses_(program.values.size()),
        access_(program.buffers.size()) {}

  absl::StatusOr<OpenClFunction> Run();
  bool uses_fp64() const { return uses_fp64_; }

 private:
  // How the program uses a buffer.
  struct Access {
    bool is_loaded = false, is_stored = false;
    bool is_guarded = false;  // some elements that are loaded may not exist
  };

  absl::Status Scan(const std::vector<Statement>& body);
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
  void PrintBuffer(size_t number);
  void PrintBody(const std::vector<Statement>& body);
  void PrintLoop(const std::string& at, const std::string& begin, const std::string& end, const std::string& step,
                 bool has_barrier, absl::FunctionRef<void()> print_body);
  void Print(const Statement& s, const std::vector<Statement>& body);
  // Lets operands be written as `text` that refer to the statement's result.
  void Name(const Statement& s, std::string text) { texts_[s.result.value] = std::move(text); }
  void Define(const Statement& s, const std::string& text);
  bool IsInline(const Statement& s, const std::vector<Statement>& body) const;
  std::string ConstantText(const Statement& s) const;
  std::string Expression(const Statement& s) const;
  std::string Load(const Statement& s) const;
  std::string BarrierText() const;

  const std::string& Text(Value value) const { return texts_[value.value]; }
  bool HasWorkspace() const {
    return std::any_of(program_.buffers.begin(), program_.buffers.end(),
                       [](const Buffer& buffer) { return buffer.kind == BufferKind::kWorkspace; });
  }

  const KernelDesc& kernel_;
  const SymbolNumbers& numbers_;
  const Program& program_;
  std::vector<std::string> texts_;  // by value: how operands are written
  std::vector<int64_t> uses_;       // by value
  std::vector<Access> access_;      // by buffer
  std::vector<int64_t> symbols_;    // by number in the text
  std::string out_;
  size_t indent_ = 0;
  bool uses_fp64_ = false;
};

// Counts uses. Returns kUnimplemented, with the reason, for dtypes that OpenCL C does not have.
absl::Status ProgramSource::Scan(const std::vector<Statement>& body) {
  for (const Statement& s : body) {
    if (s.dtype == kFloat8E4M3FN) return OnHost("it computes with float8_e4m3fn");
    bool bits = s.op == Op::kBitcast && (s.dtype.is_small_float() || program_.type(s.a).is_small_float());
    if (bits) return OnHost("it uses the bits of 16-bit floats");
    uses_fp64_ |= s.dtype == kFloat64;
    if (s.op == Op::kBinary) uses_fp64_ |= ComputesInFloat64(static_cast<BinaryOp>(s.function), program_.type(s.a));
    for (Value operand : {s.a, s.b, s.c}) {
      if (operand.valid()) ++uses_[operand.value];
    }
    if (s.buffer.valid()) {
      Access& access = access_[s.buffer.value];
      (s.op == Op::kStore ? access.is_stored : access.is_loaded) = true;
      access.is_guarded |= s.op == Op::kLoadOrZero;
    }
    RVM_RETURN_IF_ERROR(Scan(s.body));
  }
  return absl::OkStatus();
}

std::string ProgramSource::DimText(const Dim& dim) {
  return OpenClDim(SubstituteDim(numbers_.Numbered(dim), [&](const Dim& leaf) -> std::optional<Dim> {
    if (leaf.kind() != DimKind::kVar) return std::nullopt;
    auto known = std::find(symbols_.begin(), symbols_.end(), leaf.id());
    if (known == symbols_.end()) known = symbols_.insert(known, leaf.id());
    return Dim::Var(known - symbols_.begin(), leaf.name());
  }));
}

std::string ProgramSource::Parameters() const {
  std::vector<std::string> list;
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& buffer = program_.buffers[i];
    const char* type = OpenClMemoryType(buffer.dtype);
    switch (buffer.kind) {
      case BufferKind::kInput: list.push_back(absl::StrCat("__global const ", type, "* restrict b", i)); break;
      case BufferKind::kScalar: list.push_back(absl::StrCat("ulong b", i)); break;
      case BufferKind::kOutput: list.push_back(absl::StrCat("__global ", type, "* restrict b", i)); break;
      case BufferKind::kWorkspace: list.push_back(absl::StrCat("ulong at", i)); break;
      case BufferKind::kShared:
      case BufferKind::kPrivate: break;
    }
  }
  if (HasWorkspace()) list.emplace_back("__global uchar* restrict workspace");
  for (size_t i = 0; i < symbols_.size(); ++i) list.push_back(absl::StrCat("long s", i));
  return absl::StrJoin(list, ", ");
}

std::vector<DeviceCall::Argument> ProgramSource::Arguments() const {
  auto results = static_cast<uint32_t>(kernel_.params.size());
  uint32_t workspace = results + static_cast<uint32_t>(kernel_.results.size());
  uint32_t zero = workspace + 1 + kernel_.num_symbols;
  std::vector<DeviceCall::Argument> arguments;
  for (const Buffer& buffer : program_.buffers) {
    auto number = static_cast<uint32_t>(buffer.number);
    if (buffer.is_read_only()) arguments.push_back({number, 0});
    if (buffer.kind == BufferKind::kOutput) arguments.push_back({results + number, 0});
    if (buffer.kind == BufferKind::kWorkspace) arguments.push_back({zero, numbers_.Numbered(buffer.offset)});
  }
  if (HasWorkspace()) arguments.push_back({workspace, 0});
  for (int64_t symbol : symbols_) arguments.push_back({workspace + 1 + static_cast<uint32_t>(symbol), 0});
  return arguments;
}

// Prints the element of a scalar, memory of a block or a thread, the address of what lies in the workspace, and the
// number of elements where a load asks for it.
void ProgramSource::PrintBuffer(size_t number) {
  const Buffer& buffer = program_.buffers[number];
  uses_fp64_ |= buffer.dtype == kFloat64;
  const char* type = OpenClMemoryType(buffer.dtype);
  switch (buffer.kind) {
    case BufferKind::kScalar:
      Line(absl::StrFormat("const %s x%d = %s;", OpenClType(buffer.dtype), number,
                           OpenClFromBits(buffer.dtype, absl::StrCat("b", number))));
      return;
    case BufferKind::kShared:
      Line(absl::StrFormat("__local %s b%d[%d];", type, number, buffer.elements.constant()));
      return;
    case BufferKind::kPrivate: Line(absl::StrFormat("%s b%d[%d];", type, number, buffer.elements.constant())); return;
    case BufferKind::kWorkspace:
      Line(absl::StrFormat("__global %s* b%d = (__global %s*)(workspace + at%d);", type, number, type, number));
      break;
    case BufferKind::kInput:
    case BufferKind::kOutput: break;
  }
  if (access_[number].is_guarded) {
    Line(absl::StrFormat("const ulong n%d = (ulong)%s;", number, DimText(buffer.elements)));
  }
}

absl::StatusOr<OpenClFunction> ProgramSource::Run() {
  RVM_RETURN_IF_ERROR(Scan(program_.body));
  indent_ = 2;
  for (size_t i = 0; i < program_.buffers.size(); ++i) PrintBuffer(i);
  Line("const long thread = get_local_id(0);");
  Line(absl::StrCat("const long blocks = ", DimText(program_.blocks), ";"));
  auto print = [&] {
    PrintBody(program_.body);
    if (program_.shared_bytes() > 0) Line(BarrierText());  // the next block uses the same memory
  };
  bool has_barrier = program_.shared_bytes() > 0 || HasBarrier(program_.body);
  PrintLoop("block", "get_group_id(0)", "blocks", "get_num_groups(0)", has_barrier, print);
  Close();
  return OpenClFunction{absl::StrCat("(", Parameters(), ") {\n", out_), Arguments()};
}

// Prints a loop; if there are barriers in it, as one that runs at least once. There are as many groups as blocks or
// fewer, so that the one of blocks may do so.
void ProgramSource::PrintLoop(const std::string& at, const std::string& begin, const std::string& end,
                              const std::string& step, bool has_barrier, absl::FunctionRef<void()> print_body) {
  std::string first = absl::StrFormat("long %s = %s;", at, begin), next = absl::StrFormat("%s += %s", at, step),
              goes_on = absl::StrFormat("%s < %s", at, end);
  if (!has_barrier) {
    Open(absl::StrFormat("for (%s %s; %s)", first, goes_on, next));
    print_body();
    return Close();
  }
  Line(first);
  Open("do");
  print_body();
  Line(next + ";");
  indent_ -= 2;
  Line(absl::StrFormat("} while (%s);", goes_on));
}

void ProgramSource::PrintBody(const std::vector<Statement>& body) {
  for (const Statement& s : body) Print(s, body);
}

void ProgramSource::Print(const Statement& s, const std::vector<Statement>& body) {
  switch (s.op) {
    case Op::kConstant: return Name(s, ConstantText(s));
    case Op::kBlock: return Name(s, "block");
    case Op::kThread: return Name(s, "thread");
    case Op::kDim: return Define(s, DimText(s.dim));
    case Op::kUnary:
    case Op::kBinary:
    case Op::kSelect:
    case Op::kCast:
    case Op::kBitcast:
    case Op::kLoad:
    case Op::kLoadOrZero:
      if (!IsInline(s, body)) return Define(s, Expression(s));
      return Name(s, absl::StrCat("(", Expression(s), ")"));
    case Op::kStore: {
      std::string buffer = absl::StrCat("b", s.buffer.value);
      return Line(OpenClStore(program_.buffer(s.buffer).dtype, buffer, Text(s.a), Text(s.b)) + ";");
    }
    case Op::kBarrier: return Line(BarrierText());
    case Op::kFor: {
      Name(s, absl::StrCat("v", s.result.value));
      bool has_barrier = HasBarrier(s.body);
      if (s.is_unrolled && !has_barrier) Line("#pragma unroll");
      return PrintLoop(Text(s.result), Text(s.a), Text(s.b), Text(s.c), has_barrier, [&] { PrintBody(s.body); });
    }
    case Op::kIf:
      Open(absl::StrCat("if (", Text(s.a), ")"));
      PrintBody(s.body);
      return Close();
  }
}

void ProgramSource::Define(const Statement& s, const std::string& text) {
  Name(s, absl::StrCat("v", s.result.value));
  Line(absl::StrFormat("const %s v%d = %s;", OpenClType(s.dtype), s.result.value, text));
}

// Returns true if the value is written where it is used: a product of floats that is added, which compilers contract
// within an expression only.
bool ProgramSource::IsInline(const Statement& s, const std::vector<Statement>& body) const {
  bool is_product = s.op == Op::kBinary && static_cast<BinaryOp>(s.function) == BinaryOp::kMultiply;
  if (!is_product || !s.dtype.is_float() || uses_[s.result.value] != 1) return false;
  return std::any_of(body.begin(), body.end(), [&](const Statement& use) {
    return use.op == Op::kBinary && static_cast<BinaryOp>(use.function) == BinaryOp::kAdd &&
           (use.a == s.result || use.b == s.result);
  });
}

std::string ProgramSource::ConstantText(const Statement& s) const {
  if (s.dtype == kInt64 && s.bits >= 0) return absl::StrCat(s.bits, "L");
  return s.dtype.is_float() ? absl::StrCat("(", OpenClConstant(s.dtype, s.bits), ")") : OpenClConstant(s.dtype, s.bits);
}

std::string ProgramSource::Expression(const Statement& s) const {
  switch (s.op) {
    case Op::kUnary: return OpenClUnary(static_cast<UnaryOp>(s.function), program_.type(s.a), Text(s.a));
    case Op::kBinary: return OpenClBinary(static_cast<BinaryOp>(s.function), program_.type(s.a), Text(s.a), Text(s.b));
    case Op::kSelect: return absl::StrFormat("%s ? %s : %s", Text(s.a), Text(s.b), Text(s.c));
    case Op::kCast: return OpenClCast(program_.type(s.a), s.dtype, Text(s.a));
    case Op::kBitcast: return absl::StrFormat("as_%s(%s)", OpenClType(s.dtype), Text(s.a));
    case Op::kLoad:
    case Op::kLoadOrZero: return Load(s);
    case Op::kConstant:
    case Op::kDim:
    case Op::kBlock:
    case Op::kThread:
    case Op::kStore:
    case Op::kBarrier:
    case Op::kFor:
    case Op::kIf: break;
  }
  RVM_UNREACHABLE("not an expression");
}

std::string ProgramSource::Load(const Statement& s) const {
  const Buffer& buffer = program_.buffer(s.buffer);
  if (buffer.kind == BufferKind::kScalar) return absl::StrCat("x", s.buffer.value);
  std::string element = OpenClLoad(buffer.dtype, absl::StrCat("b", s.buffer.value), Text(s.a));
  if (s.op == Op::kLoad) return element;
  return absl::StrFormat("(ulong)%s < n%d ? %s : 0", Text(s.a), s.buffer.value, element);
}

// Returns a barrier, which is for tensors, too, if threads read what others have stored to them.
std::string ProgramSource::BarrierText() const {
  bool has_global = false;
  for (size_t i = 0; i < access_.size(); ++i) {
    has_global |= program_.buffers[i].is_global() && access_[i].is_loaded && access_[i].is_stored;
  }
  return has_global ? "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);" : "barrier(CLK_LOCAL_MEM_FENCE);";
}

}  // namespace

std::string OpenClDeclaration(const std::string& name) {
  return absl::StrFormat("__kernel __attribute__((reqd_work_group_size(%d, 1, 1))) void %s",
                         device_contract::kGroupItems, name);
}

absl::StatusOr<OpenClKernel> MakeOpenClKernel(const KernelDesc& kernel, const SymbolNumbers& symbols,
                                              std::span<const Program> programs) {
  OpenClKernel result;
  for (const Program& program : programs) {
    ProgramSource source(kernel, symbols, program);
    RVM_ASSIGN_OR_RETURN(OpenClFunction function, source.Run());
    result.functions.push_back(std::move(function));
    result.uses_fp64 |= source.uses_fp64();
  }
  return result;
}

}  // namespace rvm::lowering
