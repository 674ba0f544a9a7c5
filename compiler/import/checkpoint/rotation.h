// Frequencies by which heads are rotated (RoPE).
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_ROTATION_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_ROTATION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rvm::checkpoint {

struct Rotation {
  double base = 10000;
  std::string kind = "default";  // how frequencies are scaled for texts longer than those of the training
  double factor = 1;
  double low_factor = 1, high_factor = 4, original_length = 8192;  // of "llama3"
};

// "`default`, `linear` or `llama3`"
std::string RotationKinds();
bool IsRotationKind(std::string_view kind);

// Half as many frequencies as a head has elements. REQUIRES: IsRotationKind(rotation.kind).
std::vector<float> Frequencies(const Rotation& rotation, int64_t head_size);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_ROTATION_H_
