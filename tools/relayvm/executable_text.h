// Descriptions of an executable for people: `relayvm inspect` and `relayvm report`.
#ifndef RVM_TOOLS_RELAYVM_EXECUTABLE_TEXT_H_
#define RVM_TOOLS_RELAYVM_EXECUTABLE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serialization/executable.h"

namespace rvm::tools {

// "@main(%x: Tensor[(?, 3), float32]) -> float32"
std::string SignatureText(const Executable& executable, const Entry& entry);

// Class, format, sizes, targets, sections, metadata and entries. `file`: the encoded executable, from `path`.
std::string SummaryText(std::span<const uint8_t> file, const Executable& executable, const std::string& path);

// "Tensor[(n, 3), float32], int32"
std::string TensorsText(const std::vector<KernelTensor>& tensors);
// Returns the decisions of the compiler for a kernel: tiles, vectors, threads. Empty if it has none.
std::string ScheduleText(const Executable& executable, const KernelDesc& kernel);

// Returns the name of the weight that the constant was, "encoder.w"; "" for others.
std::string_view WeightName(const Executable& executable, size_t constant);
// Returns the place in the source of the instruction at `pc`, "walk.relay:6:30"; "" if it is unknown.
std::string PlaceText(const Executable& executable, const FunctionDesc& function, uint32_t pc);
std::string PlaceText(const Executable& executable, const SourceLine& line);

// Every kernel with its shapes, schedule and checks.
std::string KernelsText(const Executable& executable);
// Every constant with its type and size.
std::string ConstantsText(const Executable& executable);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_EXECUTABLE_TEXT_H_
