// Constants of the `.rvm` file that its readers and writers share; file_format.md has the layout.
#ifndef RVM_SERIALIZATION_FORMAT_H_
#define RVM_SERIALIZATION_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rvm::format {

// Not text, and broken by transports that touch line ends or the eighth bit.
inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'R', 'V', 'M', '\r', '\n', 0x1a, '\n'};
inline constexpr uint16_t kMajor = 6;
inline constexpr uint16_t kMinor = 4;

// The sections that this version knows. They lie in the file in the order of their ids.
enum class Section : uint16_t {
  kStrings = 1,
  kTypes,
  kAdts,
  kLayouts,
  kKernels,
  kFunctions,
  kConstants,
  kConstantData,
  kEntries,
  kFiles,
  kLines,
  kMetadata,
  kRecipes,
  kTargets,
  kCodeObject,  // one for each target
  kDeviceCode,  // one for each kind of device
  kDeviceProducts,
  kUpdates,
  kDeviceCalls,
  kControl,
  kBatch,
  kSignature = 0xffff,
};

struct SectionSpec {
  Section id;
  std::string_view name;
  bool is_required;  // in every file; others are there only if they hold something
  bool is_needed;    // the flag of its entry: a reader that does not know the section must refuse the file
};
inline constexpr SectionSpec kSections[] = {
    {Section::kStrings, "strings", true, true},
    {Section::kTypes, "types", true, true},
    {Section::kAdts, "adts", true, true},
    {Section::kLayouts, "layouts", true, true},
    {Section::kKernels, "kernels", true, true},
    {Section::kFunctions, "functions", true, true},
    {Section::kConstants, "constants", true, true},
    {Section::kConstantData, "constant data", true, true},
    {Section::kEntries, "entries", true, true},
    {Section::kFiles, "files", false, false},
    {Section::kLines, "lines", false, false},
    {Section::kMetadata, "metadata", false, false},
    {Section::kRecipes, "recipes", false, true},
    {Section::kTargets, "targets", false, true},
    {Section::kCodeObject, "code object", false, true},
    {Section::kDeviceCode, "device code", false, true},
    {Section::kDeviceProducts, "products", false, false},
    {Section::kUpdates, "updates", false, true},
    {Section::kDeviceCalls, "calls", false, true},
    {Section::kControl, "control", false, false},
    {Section::kBatch, "batch", false, false},
    {Section::kSignature, "signature", true, true},
};

// Null for a section that this version does not know.
constexpr const SectionSpec* FindSection(uint16_t id) {
  for (const SectionSpec& spec : kSections) {
    if (static_cast<uint16_t>(spec.id) == id) return &spec;
  }
  return nullptr;
}

inline constexpr uint32_t kHeaderBytes = 32;
inline constexpr uint32_t kSectionEntryBytes = 24;
inline constexpr uint32_t kSectionAlignment = 8;
// Alignment of the constant data and of each tensor in it: a mapped file is used in place.
inline constexpr uint32_t kTensorAlignment = 64;

// Flag of a section entry; no other is defined.
inline constexpr uint16_t kNeededFlag = 1;

// Flags of a product; no other is defined.
inline constexpr uint8_t kTf32Flag = 1, kTailFlag = 2;

// A public key and a signature; the section may also be empty.
inline constexpr uint32_t kSignatureBytes = 96;

inline constexpr uint32_t kVersionOffset = 8;
inline constexpr uint32_t kClassOffset = 12;
inline constexpr uint32_t kFileSizeOffset = 16;
inline constexpr uint32_t kSectionCountOffset = 24;
inline constexpr uint32_t kHeaderChecksumOffset = 28;

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

constexpr uint32_t SectionAlignment(uint16_t id) {
  return id == static_cast<uint16_t>(Section::kConstantData) ? kTensorAlignment : kSectionAlignment;
}

}  // namespace rvm::format

#endif  // RVM_SERIALIZATION_FORMAT_H_
