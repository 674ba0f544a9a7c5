// BinaryCache: a directory of binaries that drivers made, so that they need not make them again.
//
// Nothing here is an error: what cannot be read is not there, and what cannot be written is not kept. Any number of
// processes and threads may use a directory at a time.
#ifndef RVM_VM_DEVICE_BINARY_CACHE_H_
#define RVM_VM_DEVICE_BINARY_CACHE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rvm::device {

class BinaryCache {
 public:
  using Key = std::array<uint8_t, 32>;
  static constexpr int64_t kLimitBytes = int64_t{256} << 20;

  // `directory` is made when the first binary is kept; "": there is no cache.
  explicit BinaryCache(std::string directory, int64_t limit_bytes = kLimitBytes)
      : directory_(std::move(directory)), limit_bytes_(limit_bytes) {}
  // `$XDG_CACHE_HOME/relayvm/NAME`, or that of `~/.cache`; "" if there is neither, or RELAYVM_DEVICE_CACHE is `off`.
  static std::string DirectoryOf(std::string_view name);

  // Returns a BLAKE2b-256 hash of the parts, in order: all that a binary depends on.
  static Key KeyOf(std::span<const std::string_view> parts);
  // Returns the binary that was kept; nullopt if there is none, or only a damaged one.
  std::optional<std::vector<uint8_t>> Find(const Key& key) const;
  // Keeps the binary. If there are too many bytes then, those whose last use is oldest go.
  void Keep(const Key& key, std::span<const uint8_t> binary) const;

 private:
  std::string PathOf(const Key& key) const;
  // Returns whether the directory is there, and nobody else may write to it: binaries run with the rights of this
  // process.
  bool IsOurs() const;
  void DropOldest() const;

  std::string directory_;
  int64_t limit_bytes_;
};

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_BINARY_CACHE_H_
