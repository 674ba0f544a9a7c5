#include "serialization/signature.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "serialization/assembler.h"
#include "serialization/decoder.h"
#include "serialization/encoder.h"

namespace rvm {
namespace {

std::vector<uint8_t> TinyFile() {
  std::ifstream file("serialization/testdata/tiny.rvmasm");
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<Executable> program = Assemble(text.str());
  EXPECT_TRUE(program.ok()) << program.status();
  return Encode(*program);
}

TEST(SignatureTest, SignedFilesDecodeAndNameTheirKey) {
  KeyPair keys = MakeKeyPair();
  std::vector<uint8_t> plain = TinyFile(), bytes = plain;
  EXPECT_EQ(CheckSignature(plain, {}).status().message(), "the executable is not signed");
  Sign(bytes, keys.secret_key);
  absl::StatusOr<Executable> decoded = Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(Encode(*decoded), plain);
  PublicKey trusted[] = {MakeKeyPair().public_key, keys.public_key};
  absl::StatusOr<PublicKey> signer = CheckSignature(bytes, trusted);
  ASSERT_TRUE(signer.ok()) << signer.status();
  EXPECT_EQ(*signer, keys.public_key);
}

TEST(SignatureTest, SigningAgainReplaces) {
  KeyPair first = MakeKeyPair(), second = MakeKeyPair();
  std::vector<uint8_t> bytes = TinyFile();
  Sign(bytes, first.secret_key);
  size_t size = bytes.size();
  Sign(bytes, second.secret_key);
  EXPECT_EQ(bytes.size(), size);
  EXPECT_TRUE(CheckSignature(bytes, std::span(&second.public_key, 1)).ok());
  EXPECT_FALSE(CheckSignature(bytes, std::span(&first.public_key, 1)).ok());
}

// Whatever is changed, even with all checksums made right again, the signature is of something else.
TEST(SignatureTest, NoByteCanChange) {
  KeyPair keys = MakeKeyPair();
  std::vector<uint8_t> signed_bytes = TinyFile();
  Sign(signed_bytes, keys.secret_key);
  for (size_t at = 0; at < signed_bytes.size(); ++at) {
    std::vector<uint8_t> bytes = signed_bytes;
    bytes[at] ^= 1;
    bool rejected =
        !Decode(bytes, {.check_constants = true}).ok() || !CheckSignature(bytes, std::span(&keys.public_key, 1)).ok();
    EXPECT_TRUE(rejected) << at;
  }
  std::vector<uint8_t> other = TinyFile();
  Sign(other, MakeKeyPair().secret_key);
  std::copy(signed_bytes.end() - 96, signed_bytes.end() - 64, other.end() - 96);  // claims the trusted key
  EXPECT_FALSE(CheckSignature(other, std::span(&keys.public_key, 1)).ok());
}

TEST(SignatureTest, UntrustedKeysAreNamed) {
  KeyPair keys = MakeKeyPair();
  std::vector<uint8_t> bytes = TinyFile();
  Sign(bytes, keys.secret_key);
  PublicKey trusted[] = {MakeKeyPair().public_key};
  absl::Status status = CheckSignature(bytes, trusted).status();
  EXPECT_NE(std::string(status.message()).find(KeyToText(keys.public_key)), std::string::npos) << status;
}

TEST(SignatureTest, KeysAsText) {
  KeyPair keys = MakeKeyPair();
  EXPECT_EQ(ParsePublicKey(KeyToText(keys.public_key) + "\n").value(), keys.public_key);
  EXPECT_EQ(ParseSecretKey(KeyToText(keys.secret_key)).value(), keys.secret_key);
  EXPECT_EQ(ParsePublicKey(KeyToText(keys.secret_key)).status().message(),
            "saw other text; expected `relayvm-public-key ` and 64 hexadecimal digits");
  EXPECT_EQ(ParsePublicKey("relayvm-public-key 12g4").status().message(),
            "saw 4 characters after `relayvm-public-key `; expected `relayvm-public-key ` and 64 hexadecimal digits");
  EXPECT_FALSE(ParsePublicKey(KeyToText(keys.public_key) + "00").ok());
}

}  // namespace
}  // namespace rvm
