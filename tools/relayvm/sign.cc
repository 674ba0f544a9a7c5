// relayvm keygen, sign, verify: signatures of executables, and verification.
#include <sys/stat.h>

#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "serialization/decoder.h"
#include "serialization/signature.h"
#include "serialization/verifier.h"
#include "tools/key_file.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

// ---- keygen

absl::Status KeyGen(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions({}, args));
  RVM_ASSIGN_OR_RETURN(std::string name, OneFile(options, "a name for the files of the keys"));
  std::string secret = absl::StrCat(name, ".key"), open = absl::StrCat(name, ".pub");
  struct stat info;
  for (const std::string& path : {secret, open}) {
    if (stat(path.c_str(), &info) == 0) {
      return absl::AlreadyExistsError(absl::StrCat("`", path, "` exists: a key is never overwritten"));
    }
  }
  KeyPair keys = MakeKeyPair();
  mode_t mask = umask(077);  // nobody else may read the secret
  absl::Status written = ReplaceFile(secret, KeyToText(keys.secret_key) + "\n");
  umask(mask);
  RVM_RETURN_IF_ERROR(written);
  RVM_RETURN_IF_ERROR(ReplaceFile(open, KeyToText(keys.public_key) + "\n"));
  std::cout << secret << ": signs; keep it secret\n" << open << ": give it to whoever runs what you sign\n";
  return absl::OkStatus();
}

// ---- sign

constexpr OptionSpec kSignOptions[] = {
    {"--key", "FILE.key", "the secret key, of `relayvm keygen`"},
    {"-o", "FILE.rvm", "where the signed executable goes (in place)"},
};

absl::Status SignVerb(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kSignOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path, OneFile(options, "a .rvm file"));
  if (!options.Has("--key"))
    return absl::InvalidArgumentError("`--key FILE.key` is needed; `relayvm keygen` makes one");
  RVM_ASSIGN_OR_RETURN(SecretKey key, ReadSecretKey(options.Value("--key")));
  RVM_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
  RVM_RETURN_IF_ERROR(Decode(file.bytes, {.owner = file.owner, .check_constants = true}).status());
  std::vector<uint8_t> bytes(file.bytes.begin(), file.bytes.end());
  Sign(bytes, key);
  return ReplaceFile(options.Value("-o", path), bytes);
}

// ---- verify

constexpr OptionSpec kVerifyOptions[] = {
    {"--key", "FILE.pub", "also check that this key signed it; may be repeated: one of them"},
};

// Returns whether it has machine code.
absl::StatusOr<bool> CheckFile(const MappedFile& file, const std::vector<PublicKey>& keys) {
  RVM_ASSIGN_OR_RETURN(Executable executable, Decode(file.bytes, {.owner = file.owner, .check_constants = true}));
  bool has_code = executable.is_native() || !executable.control_codes.empty();
  RVM_RETURN_IF_ERROR(Verify(std::move(executable)).status());
  if (!keys.empty()) RVM_RETURN_IF_ERROR(CheckSignature(file.bytes, keys).status());
  return has_code;
}

absl::Status VerifyVerb(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kVerifyOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path, OneFile(options, "a .rvm file"));
  std::vector<PublicKey> keys;
  for (const std::string& key_path : options.Values("--key")) {
    RVM_ASSIGN_OR_RETURN(PublicKey key, ReadPublicKey(key_path));
    keys.push_back(key);
  }
  RVM_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
  absl::StatusOr<bool> has_code = CheckFile(file, keys);
  if (!has_code.ok()) {
    return absl::Status(has_code.status().code(), absl::StrCat(path, ": ", has_code.status().message()));
  }
  std::cout << path << ": sound; " << (*has_code ? "has machine code" : "portable: no machine code")
            << (keys.empty() ? "" : "; signed by a key given") << '\n';
  return absl::OkStatus();
}

}  // namespace

const Verb kKeyGenVerb = {
    .name = "keygen",
    .summary = "make a pair of keys for signing",
    .usage = "NAME",
    .options = {},
    .more = R"(
Writes NAME.key, which signs, and NAME.pub, with which a signature is checked (Ed25519).

Example:
  relayvm keygen ~/keys/models
)",
    .run = KeyGen,
};

const Verb kSignVerb = {
    .name = "sign",
    .summary = "sign an executable",
    .usage = "FILE.rvm --key FILE.key [-o FILE.rvm]",
    .options = kSignOptions,
    .more = R"(
Whoever has the public key can then tell that you made the file and that no byte of it was changed since:
`relayvm verify --key`, and `relayvm-run --key`, which refuses machine code of anyone else.

Example:
  relayvm sign model.rvm --key ~/keys/models.key
)",
    .run = SignVerb,
};

const Verb kVerifyVerb = {
    .name = "verify",
    .summary = "check an executable without running it",
    .usage = "FILE.rvm [--key FILE.pub]",
    .options = kVerifyOptions,
    .more = R"(
Checks the form of the file, all of its checksums, and that its bytecode and recipes are safe to run.
Machine code cannot be checked: trust it, or its signature, or use portable executables.

Example:
  relayvm verify model.rvm --key models.pub
)",
    .run = VerifyVerb,
};

}  // namespace rvm::tools
