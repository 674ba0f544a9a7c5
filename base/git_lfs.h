// Pointers of Git LFS: the short texts that stand in a checkout for large files that were not fetched.
#ifndef RVM_BASE_GIT_LFS_H_
#define RVM_BASE_GIT_LFS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rvm {

inline constexpr const char* kGitLfsPointerMessage =
    "this is a pointer of Git LFS, not the file that it stands for; fetch that with `git lfs pull`";

// Returns true if `bytes` are such a pointer.
inline bool IsGitLfsPointer(std::span<const uint8_t> bytes) {
  constexpr std::string_view kStart = "version https://git-lfs.github.com/spec/";
  constexpr size_t kMaxSize = 1024;
  if (bytes.size() > kMaxSize) return false;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with(kStart);
}

}  // namespace rvm

#endif  // RVM_BASE_GIT_LFS_H_
