#include "vm/device/binary_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/file.h"

namespace rvm::device {
namespace {

// A file is a hash of the key and the binary, and then the binary.
constexpr std::string_view kPurpose = "relayvm device binary 1";
constexpr std::string_view kSuffix = ".bin";
constexpr std::string_view kPart = ".part-";

using Hash = BinaryCache::Key;

class Hasher {
 public:
  Hasher() {
    crypto_generichash_init(&state_, reinterpret_cast<const uint8_t*>(kPurpose.data()), kPurpose.size(), sizeof(Hash));
  }
  void Add(const void* bytes, uint64_t size) {
    crypto_generichash_update(&state_, reinterpret_cast<const uint8_t*>(&size), sizeof(size));
    crypto_generichash_update(&state_, static_cast<const uint8_t*>(bytes), size);
  }
  Hash Finish() {
    Hash hash;
    crypto_generichash_final(&state_, hash.data(), hash.size());
    return hash;
  }

 private:
  crypto_generichash_state state_;
};

Hash HashOf(const BinaryCache::Key& key, std::span<const uint8_t> binary) {
  Hasher hasher;
  hasher.Add(key.data(), key.size());
  hasher.Add(binary.data(), binary.size());
  return hasher.Finish();
}

// Makes the directory and those above it, for this user alone.
void MakeDirectories(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    ::mkdir(path.substr(0, slash).c_str(), 0700);
  }
  ::mkdir(path.c_str(), 0700);
}

bool WriteAll(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

// Returns a value that the environment of a program with more rights than its caller does not give.
std::string_view Variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? std::string_view() : value;
}

}  // namespace

std::string BinaryCache::DirectoryOf(std::string_view name) {
  if (Variable("RELAYVM_DEVICE_CACHE") == "off") return "";
  std::string_view base = Variable("XDG_CACHE_HOME"), home = Variable("HOME");
  // The specification of base directories ignores relative paths.
  if (base.starts_with('/')) return absl::StrCat(Abseil(base), "/relayvm/", Abseil(name));
  return home.starts_with('/') ? absl::StrCat(Abseil(home), "/.cache/relayvm/", Abseil(name)) : "";
}

BinaryCache::Key BinaryCache::KeyOf(std::span<const std::string_view> parts) {
  Hasher hasher;
  for (std::string_view part : parts) hasher.Add(part.data(), part.size());
  return hasher.Finish();
}

std::string BinaryCache::PathOf(const Key& key) const {
  std::string digits(2 * key.size() + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), key.data(), key.size());
  digits.pop_back();
  return absl::StrCat(directory_, "/", digits, Abseil(kSuffix));
}

bool BinaryCache::IsOurs() const {
  struct stat info;
  return !directory_.empty() && ::stat(directory_.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<std::vector<uint8_t>> BinaryCache::Find(const Key& key) const {
  if (!IsOurs()) return std::nullopt;
  std::string path = PathOf(key);
  absl::StatusOr<std::string> read = ReadFile(path);
  if (!read.ok()) return std::nullopt;
  std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(read->data()), read->size());
  if (bytes.size() <= sizeof(Hash)) return std::nullopt;
  std::span<const uint8_t> binary = bytes.subspan(sizeof(Hash));
  Hash hash = HashOf(key, binary);
  if (std::memcmp(hash.data(), bytes.data(), hash.size()) != 0) return std::nullopt;
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now
  return std::vector<uint8_t>(binary.begin(), binary.end());
}

void BinaryCache::Keep(const Key& key, std::span<const uint8_t> binary) const {
  if (directory_.empty() || binary.empty() || static_cast<int64_t>(binary.size()) > limit_bytes_ / 4) return;
  MakeDirectories(directory_);
  if (!IsOurs()) return;
  Hash hash = HashOf(key, binary);
  std::string path = PathOf(key);
  std::string part = absl::StrCat(path, Abseil(kPart), "XXXXXX");
  int file = ::mkostemp(part.data(), O_CLOEXEC);
  if (file < 0) return;
  bool succeeded = WriteAll(file, hash) && WriteAll(file, binary);
  succeeded = ::close(file) == 0 && succeeded;
  if (!succeeded || std::rename(part.c_str(), path.c_str()) != 0) ::unlink(part.c_str());
  DropOldest();
}

void BinaryCache::DropOldest() const {
  // Time of last use, size, path. What a process that died left half written counts, too.
  std::vector<std::tuple<timespec, int64_t, std::string>> files;
  int64_t bytes = 0;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(directory_.c_str()), ::closedir);
  if (directory == nullptr) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    std::string_view name = entry->d_name;
    struct stat info;
    std::string path = absl::StrCat(directory_, "/", Abseil(name));
    bool is_entry = absl::StrContains(Abseil(name), Abseil(kSuffix));
    if (!is_entry || ::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    files.emplace_back(info.st_mtim, info.st_size, std::move(path));
    bytes += info.st_size;
  }
  if (bytes <= limit_bytes_) return;
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    const timespec &x = std::get<0>(a), &y = std::get<0>(b);
    return std::tie(x.tv_sec, x.tv_nsec) < std::tie(y.tv_sec, y.tv_nsec);
  });
  for (const auto& [time, size, path] : files) {
    if (bytes <= limit_bytes_) break;
    if (::unlink(path.c_str()) == 0) bytes -= size;
  }
}

}  // namespace rvm::device
