#include "kernels/runtime/imports.h"

#include <math.h>
#include <string.h>

#include <cstdint>
#include <type_traits>

#include "base/order_keys.h"

namespace rvm::runtime {
namespace {

// The C names under which kernels call them.
void rvm_order_rows(int64_t* rows, int64_t count, int64_t n, const volatile int32_t* cancel) {
  bool all = true;
  for (int64_t i = 0; all && i < count; ++i) all = OrderKeys(rows + i * 4 * n, n, cancel);
}
void rvm_order_first(int64_t* rows, int64_t count, int64_t n, int64_t first, const volatile int32_t* cancel) {
  bool all = true;
  for (int64_t i = 0; all && i < count; ++i) all = OrderFirstKeys(rows + i * 4 * n, n, first, cancel);
}

// The type selects one of the C++ overloads of a libm function.
template <typename Function>
const void* Address(std::add_pointer_t<Function> function) {
  return reinterpret_cast<const void*>(function);
}

}  // namespace

const void* FindImport(std::string_view symbol, std::span<const Import> more) {
  static const Import kImports[] = {
#define RVM_IMPORT(symbol, type) {#symbol, Address<type>(symbol)},
#include "kernels/abi/imports.def"
#undef RVM_IMPORT
  };
  for (std::span<const Import> imports : {std::span<const Import>(kImports), more}) {
    for (const Import& import : imports) {
      if (import.symbol == symbol) return import.address;
    }
  }
  return nullptr;
}

}  // namespace rvm::runtime
