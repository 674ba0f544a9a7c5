#include "compiler/import/checkpoint/weight_form.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"

namespace rvm::checkpoint {
namespace {

using importing::Bytes;

// A part of a block: `count` elements for each block.
struct BlockPart {
  std::string_view suffix;
  DataType dtype;
  int64_t count;
};

constexpr size_t kMaxParts = 5;

// Blocks of `elements` elements in `bytes` bytes. `unpack` writes the parts of one block, in their order.
struct BlockForm {
  std::string_view type;
  int64_t elements, bytes;
  size_t part_count;
  BlockPart parts[kMaxParts];
  void (*unpack)(const uint8_t* block, std::span<uint8_t* const> parts);
};

// Packs codes of 8 / N bits, N a byte, the lowest bits first.
template <int N>
void Pack(const uint8_t* codes, int64_t count, uint8_t* packed) {
  constexpr int kBits = 8 / N;
  for (int64_t i = 0; i < count / N; ++i) {
    uint8_t byte = 0;
    for (int k = 0; k < N; ++k) byte = static_cast<uint8_t>(byte | codes[i * N + k] << (k * kBits));
    packed[i] = byte;
  }
}

void UnpackQ8(const uint8_t* block, std::span<uint8_t* const> parts) {
  std::memcpy(parts[1], block, 2);
  std::memcpy(parts[0], block + 2, 32);
}

// A byte has elements i and i + 16.
void UnpackQ4(const uint8_t* block, std::span<uint8_t* const> parts) {
  uint8_t codes[32];
  for (int i = 0; i < 16; ++i) {
    codes[i] = block[2 + i] & 15;
    codes[i + 16] = block[2 + i] >> 4;
  }
  Pack<2>(codes, 32, parts[0]);
  std::memcpy(parts[1], block, 2);
}

// A factor of scales and one of minima; 8 scales and 8 minima of 6 bits in 12 bytes; 128 bytes of codes, of which 32
// bytes have 32 elements in their low bits and the next 32 in their high ones.
void UnpackQ4K(const uint8_t* block, std::span<uint8_t* const> parts) {
  const uint8_t *packed = block + 4, *bytes = block + 16;
  uint8_t codes[256];
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 32; ++k) {
      codes[64 * i + k] = bytes[32 * i + k] & 15;
      codes[64 * i + 32 + k] = bytes[32 * i + k] >> 4;
    }
  }
  Pack<2>(codes, 256, parts[0]);
  for (int i = 0; i < 4; ++i) {
    parts[1][i] = packed[i] & 63;
    parts[2][i] = packed[i + 4] & 63;
    parts[1][i + 4] = static_cast<uint8_t>((packed[i + 8] & 15) | (packed[i] >> 6) << 4);
    parts[2][i + 4] = static_cast<uint8_t>((packed[i + 8] >> 4) | (packed[i + 4] >> 6) << 4);
  }
  std::memcpy(parts[3], block, 2);
  std::memcpy(parts[4], block + 2, 2);
}

// Two halves of 128 elements: 64 bytes of the low 4 bits, 32 of the high 2 bits, 8 scales; then one factor.
void UnpackQ6K(const uint8_t* block, std::span<uint8_t* const> parts) {
  uint8_t low[256], high[256];
  for (int half = 0; half < 2; ++half) {
    const uint8_t *lows = block + 64 * half, *highs = block + 128 + 32 * half;
    for (int k = 0; k < 32; ++k) {
      for (int i = 0; i < 4; ++i) {
        uint8_t byte = lows[k + 32 * (i % 2)];
        low[128 * half + 32 * i + k] = i < 2 ? byte & 15 : byte >> 4;
        high[128 * half + 32 * i + k] = highs[k] >> (2 * i) & 3;
      }
    }
  }
  Pack<2>(low, 256, parts[0]);
  Pack<4>(high, 256, parts[1]);
  std::memcpy(parts[2], block + 192, 16);
  std::memcpy(parts[3], block + 208, 2);
}

constexpr BlockForm kBlockForms[] = {
    {"Q8_0", 32, 34, 2, {{"_codes", kInt8, 32}, {"_scales", kFloat16, 1}}, UnpackQ8},
    {"Q4_0", 32, 18, 2, {{"_codes", kUInt8, 16}, {"_scales", kFloat16, 1}}, UnpackQ4},
    {"Q4_K",
     256,
     144,
     5,
     {{"_codes", kUInt8, 128},
      {"_scales", kUInt8, 8},
      {"_minima", kUInt8, 8},
      {"_scale_factors", kFloat16, 1},
      {"_minimum_factors", kFloat16, 1}},
     UnpackQ4K},
    {"Q6_K",
     256,
     210,
     4,
     {{"_codes", kUInt8, 128}, {"_high_codes", kUInt8, 64}, {"_scales", kInt8, 16}, {"_scale_factors", kFloat16, 1}},
     UnpackQ6K},
};

struct FloatForm {
  std::string_view type;
  DataType dtype;
};
constexpr FloatForm kFloatForms[] = {{"F32", kFloat32}, {"F16", kFloat16}, {"BF16", kBFloat16}};

const BlockForm* FindBlockForm(std::string_view type) {
  for (const BlockForm& form : kBlockForms) {
    if (form.type == type) return &form;
  }
  return nullptr;
}

const FloatForm* FindFloatForm(std::string_view type) {
  for (const FloatForm& form : kFloatForms) {
    if (form.type == type) return &form;
  }
  return nullptr;
}

}  // namespace

std::string SupportedTypes() {
  std::vector<std::string> names;
  for (const FloatForm& form : kFloatForms) names.emplace_back(form.type);
  for (const BlockForm& form : kBlockForms) names.emplace_back(form.type);
  std::string last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " or ", last);
}

bool IsSupportedType(std::string_view type) { return FindFloatForm(type) != nullptr || FindBlockForm(type) != nullptr; }

std::vector<WeightPart> PartsOf(const StoredTensor& tensor) {
  std::vector<WeightPart> result;
  if (const FloatForm* form = FindFloatForm(tensor.type)) {
    result.push_back({"", importing::WrapElements(form->dtype, tensor.shape, tensor.data)});
    return result;
  }
  const BlockForm& form = *FindBlockForm(tensor.type);
  const auto blocks = static_cast<int64_t>(tensor.data.bytes.size()) / form.bytes;
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<uint8_t*> at;
  for (const BlockPart& part : std::span(form.parts, form.part_count)) {
    buffers.push_back(Buffer::Allocate(blocks * part.count * part.dtype.bytes()));
    at.push_back(reinterpret_cast<uint8_t*>(buffers.back()->data()));
  }
  for (int64_t i = 0; i < blocks; ++i) {
    form.unpack(tensor.data.bytes.data() + i * form.bytes, at);
    for (size_t k = 0; k < at.size(); ++k) at[k] += form.parts[k].count * form.parts[k].dtype.bytes();
  }
  for (size_t k = 0; k < at.size(); ++k) {
    Shape shape = tensor.shape;
    shape.back() = shape.back() / form.elements * form.parts[k].count;
    result.push_back({std::string(form.parts[k].suffix), Literal(form.parts[k].dtype, shape, std::move(buffers[k]))});
  }
  return result;
}

std::string ElementsOf(std::string_view type, size_t rank,
                       const std::function<std::string(std::string_view suffix)>& part) {
  if (type == "F32") return part("");
  auto number = [](std::string_view x) { return absl::StrCat("cast(", Abseil(x), ", dtype=\"float32\")"); };
  if (FindFloatForm(type) != nullptr) return number(part(""));
  auto spread = [&](std::string_view x, int64_t times) {
    return absl::StrCat("repeat(", Abseil(x), ", repeats=", times, ", axis=", rank - 1, ")");
  };
  auto bits = [&](std::string_view suffix, int64_t count) {
    return number(absl::StrCat("unpack_bits(", part(suffix), ", bits=", count, ")"));
  };
  // Numbers of parts of a block, times the factor of the block.
  auto scaled = [&](std::string_view suffix, std::string_view factors, int64_t count) {
    return absl::StrCat(number(part(suffix)), " * ", spread(number(part(factors)), count));
  };
  if (type == "Q8_0") return absl::StrCat(number(part("_codes")), " * ", spread(number(part("_scales")), 32));
  if (type == "Q4_0") return absl::StrCat("(", bits("_codes", 4), " - 8f) * ", spread(number(part("_scales")), 32));
  if (type == "Q4_K") {
    return absl::StrCat(bits("_codes", 4), " * ", spread(scaled("_scales", "_scale_factors", 8), 32), " - ",
                        spread(scaled("_minima", "_minimum_factors", 8), 32));
  }
  return absl::StrCat("(", bits("_codes", 4), " + ", bits("_high_codes", 2), " * 16f - 32f) * ",
                      spread(scaled("_scales", "_scale_factors", 16), 16));
}

}  // namespace rvm::checkpoint
