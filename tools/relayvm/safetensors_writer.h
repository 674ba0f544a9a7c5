// Tensors as a .safetensors file, which `--params` reads.
#ifndef RVM_TOOLS_RELAYVM_SAFETENSORS_WRITER_H_
#define RVM_TOOLS_RELAYVM_SAFETENSORS_WRITER_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "base/literal.h"

namespace rvm::tools {

// Names are letters, digits and underscores.
absl::Status WriteSafetensors(const std::map<std::string, Literal, std::less<>>& tensors, const std::string& path);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_SAFETENSORS_WRITER_H_
