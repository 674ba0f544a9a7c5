#include "tools/key_file.h"

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace rvm::tools {
namespace {

template <typename Key>
absl::StatusOr<Key> ReadKey(const std::string& path, absl::StatusOr<Key> (*parse)(std::string_view)) {
  RVM_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  absl::StatusOr<Key> key = parse(text);
  if (key.ok()) return key;
  return absl::InvalidArgumentError(absl::StrCat("`", path, "`: ", std::string(key.status().message())));
}

}  // namespace

absl::StatusOr<PublicKey> ReadPublicKey(const std::string& path) { return ReadKey(path, ParsePublicKey); }
absl::StatusOr<SecretKey> ReadSecretKey(const std::string& path) { return ReadKey(path, ParseSecretKey); }

}  // namespace rvm::tools
