#include "tools/relayvm/traffic_text.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/dim_postfix.h"
#include "base/units.h"
#include "serialization/isa/isa.h"
#include "tools/relayvm/program_graph.h"

namespace rvm::tools {
namespace {

// Returns the operations of a call for one token: with 1 for each symbol. nullopt if the file does not say them.
std::optional<int64_t> OperationsForToken(const Executable& executable, const KernelDesc& kernel) {
  std::string_view each = executable.FindMetadata(absl::StrCat("operations.", kernel.symbol));
  if (each.empty()) return std::nullopt;
  return EvaluatePostfix(each, std::vector<int64_t>(kernel.num_symbols, 1));
}

// Adds the constants that the kernel calls of a function read.
void AddConstants(const Executable& executable, const FunctionDesc& function, std::set<size_t>& constants) {
  for (uint32_t pc = 0; pc < function.code.size();) {
    std::optional<Instruction> instruction = ReadInstruction(function.code, pc);
    if (!instruction.has_value()) break;
    std::optional<int64_t> operations;
    for (const Operand& operand : instruction->operands()) {
      if (operand.kind() == OperandKind::kKernel)
        operations = OperationsForToken(executable, executable.kernels[operand.u32()]);
      if (operand.kind() != OperandKind::kArgs) continue;
      for (uint32_t i = 0; i < operand.count; ++i) {
        const uint16_t arg = operand.u16(i);
        if ((arg & kConstantArg) == 0) continue;
        const size_t constant = arg & ~kConstantArg;
        if (!operations || *operations >= executable.constants[constant].num_elements()) constants.insert(constant);
      }
    }
    pc += instruction->length;
  }
}

// Returns the bytes of the tensors of a type for each unit of their open extent, if they have one.
int64_t BytesOfToken(const Executable& executable, TypeId id) {
  const TypeDesc& type = executable.types[id.value];
  int64_t bytes = 0;
  if (type.kind == TypeDescKind::kTuple) {
    for (TypeId field : type.fields) bytes += BytesOfToken(executable, field);
  }
  if (type.kind != TypeDescKind::kTensor || std::ranges::count(type.dims, TypeDesc::kUnknownDim) != 1) return bytes;
  bytes = type.dtype.bytes();
  for (int64_t dim : type.dims) bytes *= dim == TypeDesc::kUnknownDim ? 1 : dim;
  return bytes;
}

}  // namespace

Traffic TrafficOf(const Executable& executable, const Entry& entry) {
  std::set<size_t> constants;
  for (uint32_t id : ReachedFunctions(executable, entry.function)) {
    AddConstants(executable, executable.functions[id], constants);
  }
  Traffic traffic;
  for (size_t constant : constants) traffic.weight_bytes += executable.constants[constant].bytes();
  const FunctionDesc& function = executable.functions[entry.function.value];
  for (size_t i = 0; i < function.num_params; ++i) {
    traffic.token_bytes += BytesOfToken(executable, function.registers[i].type);
  }
  return traffic;
}

std::string TrafficText(const Executable& executable, double bandwidth) {
  auto time = [&](int64_t bytes) { return DurationText(static_cast<double>(bytes) / bandwidth * 1e9); };
  std::string text = absl::StrCat("traffic, at ", RateText(bandwidth, "B/s"), " that a thread reads here\n");
  for (const Entry& entry : executable.entries) {
    const Traffic traffic = TrafficOf(executable, entry);
    absl::StrAppendFormat(&text, "  @%-18s weights %s, %s a call", entry.name, BytesText(traffic.weight_bytes),
                          time(traffic.weight_bytes));
    if (traffic.token_bytes > 0) {
      absl::StrAppendFormat(&text, "; and %s, %s for each token of its arguments", BytesText(traffic.token_bytes),
                            time(traffic.token_bytes));
    }
    text += "\n";
  }
  return text;
}

}  // namespace rvm::tools
