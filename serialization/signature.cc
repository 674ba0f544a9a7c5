#include "serialization/signature.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "serialization/checksum.h"
#include "serialization/format.h"

namespace rvm {
namespace {

static_assert(sizeof(PublicKey) == crypto_sign_PUBLICKEYBYTES && sizeof(SecretKey) == crypto_sign_SECRETKEYBYTES);
static_assert(sizeof(PublicKey) + crypto_sign_BYTES == format::kSignatureBytes);

constexpr std::string_view kPublicWord = "relayvm-public-key ";
constexpr std::string_view kSecretWord = "relayvm-secret-key ";
constexpr std::string_view kPurpose = "relayvm executable 1";  // so that the signature is valid for nothing else

void Start() { RVM_CHECK(sodium_init() >= 0, "libsodium does not start"); }

std::string Hex(std::span<const uint8_t> bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

template <typename Key>
absl::StatusOr<Key> ParseKey(std::string_view text, std::string_view word) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  Key key;
  size_t size = 0;
  bool starts = text.starts_with(word);
  std::string_view digits = starts ? text.substr(word.size()) : std::string_view();
  const char* end = nullptr;
  bool reads = sodium_hex2bin(key.data(), key.size(), digits.data(), digits.size(), nullptr, &size, &end) == 0;
  if (starts && reads && size == key.size() && end == digits.data() + digits.size()) return key;
  std::string saw = starts ? absl::StrCat(digits.size(), " characters after `", std::string(word), "`") : "other text";
  return absl::InvalidArgumentError(
      absl::StrCat("saw ", saw, "; expected `", std::string(word), "` and ", 2 * key.size(), " hexadecimal digits"));
}

uint64_t Little(std::span<const uint8_t> bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{bytes[at + i]} << (8 * i);
  return value;
}
void SetLittle(std::span<uint8_t> bytes, size_t at, size_t size, uint64_t value) {
  for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

// Offsets in the file of its section table's end and of the last entry's fields: the signature is the last section.
struct SignatureEntry {
  explicit SignatureEntry(std::span<const uint8_t> bytes)
      : table_end(format::kHeaderBytes + Little(bytes, format::kSectionCountOffset, 4) * format::kSectionEntryBytes) {}
  size_t table_end;
  size_t begin = table_end - format::kSectionEntryBytes;
  size_t checksum = begin + 4, offset = begin + 8, size = begin + 16;
};

// Hashes the file with zeros for the signature and for the two checksums that depend on it.
std::array<uint8_t, crypto_generichash_BYTES_MAX> Hash(std::span<const uint8_t> bytes) {
  SignatureEntry entry(bytes);
  std::vector<uint8_t> front(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(entry.table_end));
  SetLittle(front, format::kHeaderChecksumOffset, 4, 0);
  SetLittle(front, entry.checksum, 4, 0);
  std::span<const uint8_t> rest =
      bytes.subspan(entry.table_end, bytes.size() - entry.table_end - format::kSignatureBytes);
  std::array<uint8_t, crypto_generichash_BYTES_MAX> hash;
  crypto_generichash_state state;
  crypto_generichash_init(&state, reinterpret_cast<const uint8_t*>(kPurpose.data()), kPurpose.size(), hash.size());
  crypto_generichash_update(&state, front.data(), front.size());
  crypto_generichash_update(&state, rest.data(), rest.size());
  crypto_generichash_final(&state, hash.data(), hash.size());
  return hash;
}

}  // namespace

KeyPair MakeKeyPair() {
  Start();
  KeyPair pair;
  crypto_sign_keypair(pair.public_key.data(), pair.secret_key.data());
  return pair;
}

std::string KeyToText(const PublicKey& key) { return absl::StrCat(std::string(kPublicWord), Hex(key)); }
std::string KeyToText(const SecretKey& key) { return absl::StrCat(std::string(kSecretWord), Hex(key)); }
absl::StatusOr<PublicKey> ParsePublicKey(std::string_view text) { return ParseKey<PublicKey>(text, kPublicWord); }
absl::StatusOr<SecretKey> ParseSecretKey(std::string_view text) { return ParseKey<SecretKey>(text, kSecretWord); }

void Sign(std::vector<uint8_t>& bytes, const SecretKey& key) {
  Start();
  SignatureEntry entry(bytes);
  size_t offset = Little(bytes, entry.offset, 8);
  bytes.resize(offset + format::kSignatureBytes);
  SetLittle(bytes, format::kFileSizeOffset, 8, bytes.size());
  SetLittle(bytes, entry.size, 8, format::kSignatureBytes);
  auto hash = Hash(bytes);
  // The public half of an Ed25519 key is the end of the secret one.
  uint8_t* section = bytes.data() + offset;
  std::memcpy(section, key.data() + key.size() - sizeof(PublicKey), sizeof(PublicKey));
  crypto_sign_detached(section + sizeof(PublicKey), nullptr, hash.data(), hash.size(), key.data());
  SetLittle(bytes, entry.checksum, 4, Crc32c({section, format::kSignatureBytes}));
  uint32_t header = Crc32c(std::span<const uint8_t>(bytes).first(format::kHeaderChecksumOffset));
  std::span<const uint8_t> table(bytes.data() + format::kHeaderBytes, entry.table_end - format::kHeaderBytes);
  SetLittle(bytes, format::kHeaderChecksumOffset, 4, ExtendCrc32c(header, table));
}

absl::StatusOr<PublicKey> CheckSignature(std::span<const uint8_t> bytes, std::span<const PublicKey> trusted) {
  Start();
  SignatureEntry entry(bytes);
  if (Little(bytes, entry.size, 8) == 0) return absl::UnauthenticatedError("the executable is not signed");
  const uint8_t* section = bytes.data() + Little(bytes, entry.offset, 8);
  PublicKey key;
  std::memcpy(key.data(), section, key.size());
  auto hash = Hash(bytes);
  if (crypto_sign_verify_detached(section + key.size(), hash.data(), hash.size(), key.data()) != 0) {
    return absl::UnauthenticatedError("the signature is not of this executable: it was changed after signing");
  }
  if (std::find(trusted.begin(), trusted.end(), key) != trusted.end()) return key;
  return absl::UnauthenticatedError(absl::StrCat("the executable is signed by another key, `", KeyToText(key), "`"));
}

}  // namespace rvm
