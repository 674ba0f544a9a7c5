#include "kernels/runtime/imports.h"

#include <cmath>
#include <cstring>

#include "base/order_keys.h"

namespace rvm::runtime {
namespace {

using Unary32 = float (*)(float);
using Unary64 = double (*)(double);
using Binary32 = float (*)(float, float);
using Binary64 = double (*)(double, double);
using Ternary32 = float (*)(float, float, float);
using Ternary64 = double (*)(double, double, double);

template <typename Function>
const void* Address(Function* function) {
  return reinterpret_cast<const void*>(function);
}

struct Import {
  std::string_view name;
  const void* address;
};

void OrderRows(int64_t* rows, int64_t count, int64_t n, const volatile int32_t* cancel) {
  bool all = true;
  for (int64_t i = 0; all && i < count; ++i) all = OrderKeys(rows + i * 4 * n, n, cancel);
}

#define RVM_UNARY(name) \
  {#name "f", Address(*static_cast<Unary32>(::name##f))}, { #name, Address(*static_cast<Unary64>(::name)) }
#define RVM_BINARY(name) \
  {#name "f", Address(*static_cast<Binary32>(::name##f))}, { #name, Address(*static_cast<Binary64>(::name)) }

}  // namespace

const void* FindImport(std::string_view name) {
  static const Import kImports[] = {
      {"memset", Address(*static_cast<void* (*)(void*, int, size_t)>(::memset))},
      {"memcpy", Address(*static_cast<void* (*)(void*, const void*, size_t)>(::memcpy))},
      {"memmove", Address(*static_cast<void* (*)(void*, const void*, size_t)>(::memmove))},
      RVM_UNARY(exp),
      RVM_UNARY(log),
      RVM_UNARY(log2),
      RVM_UNARY(log10),
      RVM_UNARY(tanh),
      RVM_UNARY(erf),
      RVM_UNARY(sin),
      RVM_UNARY(cos),
      RVM_UNARY(tan),
      RVM_UNARY(asin),
      RVM_UNARY(acos),
      RVM_UNARY(atan),
      RVM_UNARY(sinh),
      RVM_UNARY(cosh),
      RVM_UNARY(asinh),
      RVM_UNARY(acosh),
      RVM_UNARY(atanh),
      // Instructions that the baseline CPU lacks.
      RVM_UNARY(floor),
      RVM_UNARY(ceil),
      RVM_UNARY(trunc),
      RVM_UNARY(nearbyint),
      RVM_BINARY(pow),
      RVM_BINARY(fmod),
      {"rvm_order_rows", Address(OrderRows)},
      {"fmaf", Address(*static_cast<Ternary32>(::fmaf))},
      {"fma", Address(*static_cast<Ternary64>(::fma))},
  };
  for (const Import& import : kImports) {
    if (import.name == name) return import.address;
  }
  return nullptr;
}

}  // namespace rvm::runtime
