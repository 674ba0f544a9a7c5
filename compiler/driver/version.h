// The version of the compiler, as people see it. (The file format has its own: serialization/format.h.)
#ifndef RVM_COMPILER_DRIVER_VERSION_H_
#define RVM_COMPILER_DRIVER_VERSION_H_

#include <string_view>

namespace rvm::driver {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_VERSION_H_
