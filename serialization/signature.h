// Signatures of executables: who made a file, and that it is still what they made.
//
// A signature is Ed25519 (RFC 8032) over the BLAKE2b-512 hash (RFC 7693) of the whole file, as libsodium
// computes both. The file's last section holds it; file_format.md has the
// layout.
#ifndef RVM_SERIALIZATION_SIGNATURE_H_
#define RVM_SERIALIZATION_SIGNATURE_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rvm {

using PublicKey = std::array<uint8_t, 32>;
using SecretKey = std::array<uint8_t, 64>;

struct KeyPair {
  PublicKey public_key;
  SecretKey secret_key;
};
KeyPair MakeKeyPair();

// One line of text, as key files hold it: "relayvm-public-key 3d40...".
std::string KeyToText(const PublicKey& key);
std::string KeyToText(const SecretKey& key);
// kInvalidArgument for any other text, with what was seen and expected.
absl::StatusOr<PublicKey> ParsePublicKey(std::string_view text);
absl::StatusOr<SecretKey> ParseSecretKey(std::string_view text);

// Signs the bytes of a `.rvm` file; an older signature is replaced. REQUIRES: Decode accepts them.
void Sign(std::vector<uint8_t>& bytes, const SecretKey& key);

// Returns the key that signed the bytes of a `.rvm` file. kUnauthenticated if none did, if the signature is of other
// bytes, or if the key is none of `trusted`. Reads all of the file. REQUIRES: Decode accepts the bytes.
absl::StatusOr<PublicKey> CheckSignature(std::span<const uint8_t> bytes, std::span<const PublicKey> trusted);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_SIGNATURE_H_
