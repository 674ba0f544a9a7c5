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

// Packs codes of 4 bits, the lower bits first.
void PackPairs(const uint8_t* codes, int64_t count, uint8_t* packed) {
  for (int64_t i = 0; i < count / 2; ++i) packed[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

// Codes of int8 become 0 ... 255, with a zero point of 128, as instructions for products of bytes have them.
void UnpackQ8(const uint8_t* block, std::span<uint8_t* const> parts) {
  std::memcpy(parts[1], block, 2);
  for (int i = 0; i < 32; ++i) parts[0][i] = block[2 + i] ^ 128;
}

// A byte has elements i and i + 16.
void UnpackQ4(const uint8_t* block, std::span<uint8_t* const> parts) {
  uint8_t codes[32];
  for (int i = 0; i < 16; ++i) {
    codes[i] = block[2 + i] & 15;
    codes[i + 16] = block[2 + i] >> 4;
  }
  PackPairs(codes, 32, parts[0]);
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
  PackPairs(codes, 256, parts[0]);
  for (int i = 0; i < 4; ++i) {
    parts[1][i] = packed[i] & 63;
    parts[2][i] = packed[i + 4] & 63;
    parts[1][i + 4] = static_cast<uint8_t>((packed[i + 8] & 15) | (packed[i] >> 6) << 4);
    parts[2][i + 4] = static_cast<uint8_t>((packed[i + 8] >> 4) | (packed[i + 4] >> 6) << 4);
  }
  std::memcpy(parts[3], block, 2);
  std::memcpy(parts[4], block + 2, 2);
}

// Two halves of 128 elements: 64 bytes of the low 4 bits, 32 of the high 2 bits, 8 scales; then one factor. Codes
// become bytes: to put 6 bits together in a kernel takes longer than to load 2 more.
void UnpackQ6K(const uint8_t* block, std::span<uint8_t* const> parts) {
  for (int half = 0; half < 2; ++half) {
    const uint8_t *lows = block + 64 * half, *highs = block + 128 + 32 * half;
    for (int k = 0; k < 32; ++k) {
      for (int i = 0; i < 4; ++i) {
        const int byte = lows[k + 32 * (i % 2)], low = i < 2 ? byte & 15 : byte >> 4, high = highs[k] >> (2 * i) & 3;
        parts[0][128 * half + 32 * i + k] = static_cast<uint8_t>(low | high << 4);
      }
    }
  }
  std::memcpy(parts[1], block + 192, 16);
  std::memcpy(parts[2], block + 208, 2);
}

constexpr BlockForm kBlockForms[] = {
    {"Q8_0", 32, 34, 2, {{"_codes", kUInt8, 32}, {"_scales", kFloat16, 1}}, UnpackQ8},
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
     3,
     {{"_codes", kUInt8, 256}, {"_scales", kInt8, 16}, {"_scale_factors", kFloat16, 1}},
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
  auto halves = [&](std::string_view suffix) {
    return number(absl::StrCat("unpack_bits(", part(suffix), ", bits=4)"));
  };
  // Numbers of parts of a block, times the factor of the block.
  auto scaled = [&](std::string_view suffix, std::string_view factors, int64_t count) {
    return absl::StrCat(number(part(suffix)), " * ", spread(number(part(factors)), count));
  };
  if (type == "Q8_0")
    return absl::StrCat("(", number(part("_codes")), " - 128f) * ", spread(number(part("_scales")), 32));
  if (type == "Q4_0") return absl::StrCat("(", halves("_codes"), " - 8f) * ", spread(number(part("_scales")), 32));
  if (type == "Q4_K") {
    return absl::StrCat(halves("_codes"), " * ", spread(scaled("_scales", "_scale_factors", 8), 32), " - ",
                        spread(scaled("_minima", "_minimum_factors", 8), 32));
  }
  return absl::StrCat("(", number(part("_codes")), " - 32f) * ", spread(scaled("_scales", "_scale_factors", 16), 16));
}

int64_t RoundedBlock(std::string_view type) {
  if (FindBlockForm(type) == nullptr) return 0;
  return type == "Q6_K" ? 16 : 32;
}

std::string RoundedRows(std::string_view function, int64_t size, int64_t block) {
  const std::string rows = absl::StrCat("Tensor[(t, ", size, "), float32]");
  return absl::StrCat(
      "def ", Abseil(function), "(%x: ", rows, ") -> ", rows, " {\n", "  let %blocks = reshape(%x, newshape=[0, ",
      size / block, ", ", block, "]);\n", "  let %greatest = max(abs(%blocks), axis=[-1], keepdims=True);\n",
      "  let %steps = round_half_even(%blocks * (127f / maximum(%greatest, 1e-30f)));\n",
      "  let %bytes = cast(%steps, dtype=\"int8\");\n",
      "  reshape(cast(%bytes, dtype=\"float32\") * (%greatest * 0.00787401572f), newshape=[0, ", size, "])\n}\n");
}

}  // namespace rvm::checkpoint
