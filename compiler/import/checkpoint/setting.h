// A setting of a model.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_SETTING_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_SETTING_H_

#include <cstdint>
#include <string>
#include <variant>

namespace rvm::checkpoint {

// The value of a setting; monostate if it is missing or of another type.
using Setting = std::variant<std::monostate, bool, int64_t, double, std::string>;

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_SETTING_H_
