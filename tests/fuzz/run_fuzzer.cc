// Any executable that the verifier accepts runs: to a value or an error within its limits, with no error
// of memory and nothing left behind. Mutations change tables and instructions, not bytes.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/value.h"
#include "serialization/decoder.h"
#include "serialization/encoder.h"
#include "serialization/verifier.h"
#include "tests/fuzz/code_mutator.h"
#include "tests/fuzz/executable_mutator.h"
#include "tests/fuzz/mutate.h"
#include "vm/machine.h"

namespace rvm::fuzz {
namespace {

// A value that can be an argument of the type; none for a function, and for an ADT that never ends.
std::optional<Value> RandomArgument(const Executable& executable, TypeId id, int depth, Dice& dice) {
  const TypeDesc& type = executable.types[id.value];
  std::vector<TypeId> fields = type.fields;
  const AdtDesc::Constructor* constructor = nullptr;
  switch (type.kind) {
    case TypeDescKind::kScalar:
      return Value::Tensor(Literal::ScalarInt(type.dtype, static_cast<int64_t>(dice.Pick(7)) - 2));
    case TypeDescKind::kTensor: {
      Shape shape;
      int64_t elements = 1;
      for (int64_t dim : type.dims) {
        shape.push_back(dim == TypeDesc::kUnknownDim ? static_cast<int64_t>(dice.Pick(4)) : dim);
        if (__builtin_mul_overflow(elements, shape.back(), &elements) || elements > 4096) return std::nullopt;
      }
      return Value::Tensor(Literal::Full(type.dtype, std::move(shape), static_cast<double>(dice.Pick(7)) / 2 - 1));
    }
    case TypeDescKind::kClosure:
    case TypeDescKind::kShell: return std::nullopt;
    case TypeDescKind::kAdt: {
      const AdtDesc& adt = executable.adts[type.adt.value];
      if (adt.constructors.empty()) return std::nullopt;
      auto fewer_fields = [](const auto& a, const auto& b) { return a.fields.size() < b.fields.size(); };
      constructor = depth <= 0 ? &*std::min_element(adt.constructors.begin(), adt.constructors.end(), fewer_fields)
                               : &adt.constructors[dice.Pick(adt.constructors.size())];
      fields = constructor->fields;
      break;
    }
    case TypeDescKind::kTuple:
    case TypeDescKind::kRef: break;
  }
  if (depth < -8) return std::nullopt;
  std::vector<Value> values;
  for (TypeId field : fields) {
    std::optional<Value> value = RandomArgument(executable, field, depth - 1, dice);
    if (!value) return std::nullopt;
    values.push_back(*std::move(value));
  }
  if (type.kind == TypeDescKind::kRef) return Value::Ref(std::move(values[0]));
  if (constructor != nullptr) return Value::Adt(constructor->name, std::move(values));
  return Value::Tuple(std::move(values));
}

void RunEntry(vm::Machine& machine, const Executable& executable, const Entry& entry, Dice& dice) {
  const FunctionDesc& function = executable.functions[entry.function.value];
  std::vector<Value> args;
  for (uint16_t i = 0; i < function.num_params; ++i) {
    std::optional<Value> arg = RandomArgument(executable, function.registers[i].type, 3, dice);
    if (!arg) return;
    args.push_back(*std::move(arg));
  }
  absl::StatusOr<Value> result = machine.Invoke(entry.name, args);
  if (result.ok()) result->ToString();
  RVM_CHECK(result.status().code() != absl::StatusCode::kInternal, result.status().ToString().c_str());
  RVM_CHECK(machine.stats().live_objects == 0, "objects are left behind");
}

// Whether the bytes are an executable that verifies.
bool RunBytes(const uint8_t* data, size_t size) {
  // Machine code is not for any bytes to bring.
  auto program = vm::Program::Load({data, size}, {});
  if (!program.ok()) return false;
  vm::MachineOptions limits{
      .memory_limit_bytes = 16 << 20, .stack_limit_bytes = 1 << 20, .fuel = 2000, .time_limit_ms = 50};
  auto machine = vm::Machine::Create(*program, limits);
  if (!machine.ok()) return true;
  Dice dice(size);
  for (const Entry& entry : (*program)->executable().entries) {
    for (int i = 0; i < 2; ++i) RunEntry(**machine, (*program)->executable(), entry, dice);
  }
  return true;
}

}  // namespace
}  // namespace rvm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // What does not verify stays out of the corpus: a mutation of it would hardly ever run.
  return rvm::fuzz::RunBytes(data, size) ? 0 : -1;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  absl::StatusOr<rvm::Executable> executable = rvm::Decode({data, size});
  if (!executable.ok()) return rvm::fuzz::MutateBytes(data, size, max_size);
  rvm::fuzz::MutateExecutable(*executable, seed);
  std::vector<uint8_t> bytes = rvm::Encode(*executable);
  if (bytes.size() > max_size) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
