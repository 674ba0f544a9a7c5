// Keys in files, as `relayvm keygen` writes them.
#ifndef RVM_TOOLS_KEY_FILE_H_
#define RVM_TOOLS_KEY_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "serialization/signature.h"

namespace rvm::tools {

// Errors name the file.
absl::StatusOr<PublicKey> ReadPublicKey(const std::string& path);
absl::StatusOr<SecretKey> ReadSecretKey(const std::string& path);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_KEY_FILE_H_
