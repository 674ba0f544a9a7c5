// Constants of the `.rvm` file that the encoder and the decoder share; the
// layout itself is in README.md.
#ifndef RVM_SERIALIZATION_FORMAT_H_
#define RVM_SERIALIZATION_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rvm::format {

// Not text, and broken by transports that touch line ends or the eighth bit.
inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'R', 'V', 'M', '\r', '\n', 0x1a, '\n'};
inline constexpr uint16_t kMajor = 5;
inline constexpr uint16_t kMinor = 0;

enum class FileClass : uint8_t { kPortable = 0, kNative = 1 };

// In the order in which they lie in the file. All are always there.
enum class Section : uint32_t {
  kStrings = 1,
  kTypes,
  kAdts,
  kLayouts,
  kKernels,
  kFunctions,
  kConstants,
  kEntries,
  kFiles,
  kLines,
  kMetadata,
  kRecipes,
  kNativeObjects,
  kConstantData,
  kSignature,
};
inline constexpr uint32_t kNumSections = 15;

constexpr std::string_view SectionName(Section section) {
  constexpr std::string_view kNames[] = {"strings",   "types",     "adts",           "layouts",       "kernels",
                                         "functions", "constants", "entries",        "files",         "lines",
                                         "metadata",  "recipes",   "native objects", "constant data", "signature"};
  return kNames[static_cast<uint32_t>(section) - 1];
}

inline constexpr uint32_t kHeaderBytes = 32;
inline constexpr uint32_t kSectionEntryBytes = 24;
inline constexpr uint32_t kSectionAlignment = 8;
// Of the constant data and of each tensor in it: a mapped file is used in place.
inline constexpr uint32_t kTensorAlignment = 64;

// A public key and a signature; the section may also be empty.
inline constexpr uint32_t kSignatureBytes = 96;

inline constexpr uint32_t kClassOffset = 12;
inline constexpr uint32_t kFileSizeOffset = 16;
inline constexpr uint32_t kSectionCountOffset = 24;
inline constexpr uint32_t kHeaderChecksumOffset = 28;

// Deepest dim expression and the most nodes in one, so that no file can exhaust the host stack.
inline constexpr int kMaxDimDepth = 256;
inline constexpr int kMaxDimNodes = 4096;

enum class DimCode : uint8_t {
  kConst = 0,
  kVar = 1,
  kAdd = 2,
  kSub,
  kMul,
  kFloorDiv,
  kFloorMod,
  kMin,
  kMax,
  kBroadcast
};

constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

constexpr uint32_t SectionAlignment(Section section) {
  return section == Section::kConstantData ? kTensorAlignment : kSectionAlignment;
}

}  // namespace rvm::format

#endif  // RVM_SERIALIZATION_FORMAT_H_
