#include "vm/interpreter/native_code.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/abi/machine_abi.h"

namespace rvm::vm {

const NativeCode::Place* NativeCode::PlaceOfCall(uintptr_t address) const {
  // The address is that of the instruction behind the call, which may belong to another place.
  auto after = std::upper_bound(places.begin(), places.end(), address - 1,
                                [](uintptr_t a, const Place& place) { return a < place.begin; });
  if (after == places.begin() || (after - 1)->line == 0) return nullptr;
  return &*(after - 1);
}

absl::StatusOr<std::shared_ptr<const NativeCode>> LoadNativeCode(const Executable& executable, const ControlCode& code,
                                                                 const LinkInfo& link) {
  auto native = std::make_shared<NativeCode>();
  RVM_ASSIGN_OR_RETURN(native->library, runtime::KernelLibrary::Load(code.bytes, MachineImports()));
  std::vector<const void*> functions;
  for (size_t i = 0; i < executable.functions.size(); ++i) {
    std::string symbol = absl::StrCat(RVM_FUNCTION_SYMBOL, i);
    const void* function = reinterpret_cast<const void*>(native->library->Find(symbol));
    if (function == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("the control code for ", code.target, " has no symbol `", symbol,
                                                     "`, the code of `", executable.functions[i].name, "`"));
    }
    functions.push_back(function);
    auto begin = reinterpret_cast<uintptr_t>(function);
    auto index = static_cast<uint32_t>(i);
    for (const ControlCode::Place& place : code.functions[i].places) {
      native->places.push_back({begin + place.offset, index, place.line});
    }
    native->places.push_back({begin + code.functions[i].size, index, 0});
  }
  std::stable_sort(native->places.begin(), native->places.end(), [](const auto& a, const auto& b) {
    // One function may begin where another ends.
    return a.begin != b.begin ? a.begin < b.begin : a.line == 0 && b.line != 0;
  });
  for (const HeapLayout& layout : link.layouts) native->closures.push_back(functions[layout.function]);
  native->entries.resize(functions.size(), nullptr);
  for (const Entry& entry : executable.entries) {
    std::string symbol = absl::StrCat(RVM_STUB_SYMBOL, entry.function.value);
    const void* stub = reinterpret_cast<const void*>(native->library->Find(symbol));
    if (stub == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("the control code for ", code.target, " has no symbol `", symbol,
                                                     "`, the stub of entry `", entry.name, "`"));
    }
    native->entries[entry.function.value] = stub;
  }
  // Stubs of closures that the host may call. In files without them, the bytecode of these closures runs.
  for (const CellLayout& layout : executable.layouts) {
    const void*& stub = native->entries[layout.kind == CellKind::kClosure ? layout.function.value : 0];
    if (layout.kind != CellKind::kClosure || stub != nullptr) continue;
    std::string symbol = absl::StrCat(RVM_STUB_SYMBOL, layout.function.value);
    stub = reinterpret_cast<const void*>(native->library->Find(symbol));
  }
  for (const FunctionInfo& function : link.functions) native->bytecode.push_back(function.code);
  for (const KernelInfo& kernel : link.kernels) {
    native->kernels.push_back(kernel.device == nullptr ? kernel.function : nullptr);
  }
  for (const FunctionDesc& function : executable.functions) {
    size_t results = function.returns_fields ? executable.types[function.result.value].fields.size() : 1;
    native->max_values = std::max({native->max_values, size_t{function.num_params}, results});
  }
  return native;
}

}  // namespace rvm::vm
