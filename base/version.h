// The version of compiler and libraries. (The file format has its own: serialization/format.h.)
#ifndef RVM_BASE_VERSION_H_
#define RVM_BASE_VERSION_H_

#include <cstdint>
#include <string_view>

namespace rvm {

inline constexpr uint32_t kVersionMajor = 0, kVersionMinor = 1, kVersionPatch = 0;
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace rvm

#endif  // RVM_BASE_VERSION_H_
