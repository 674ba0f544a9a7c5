#include "compiler/import/checkpoint/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "compiler/diagnostics/diagnostics.h"

namespace rvm::checkpoint {
namespace {

using importing::Bytes;

// The pages of a tensor of blocks are not needed once its parts are copied; those of a tensor that is shared are.
TEST(ImportGguf, ReleasesTheTensorsThatItHasCopied) {
  absl::StatusOr<std::string> file = ReadFile("tests/fuzz/corpus/checkpoint/llama.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  // A mapped file begins at a multiple of what tensors are aligned to; others are copied.
  constexpr size_t kAlignment = 64;
  std::shared_ptr<void> owner(std::aligned_alloc(kAlignment, (file->size() / kAlignment + 1) * kAlignment), std::free);
  std::memcpy(owner.get(), file->data(), file->size());
  Bytes bytes(static_cast<const uint8_t*>(owner.get()), file->size());
  diagnostics::SourceMap sources;
  std::vector<Bytes> released;
  importing::ImportOptions options{.sources = &sources};
  options.release = [&](Bytes part) { released.push_back(part); };
  absl::StatusOr<importing::ImportedModel> model = ImportGguf({bytes, owner}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  auto is_within = [](const uint8_t* byte, Bytes part) {
    return byte >= part.data() && byte < part.data() + part.size();
  };
  size_t num_shared = 0, num_codes = 0;
  for (const auto& [name, value] : model->weights) {
    const auto* data = reinterpret_cast<const uint8_t*>(value.data());
    num_shared += is_within(data, bytes) ? 1 : 0;
    num_codes += name.ends_with("_codes") && !name.ends_with("_high_codes") ? 1 : 0;
    EXPECT_TRUE(std::ranges::none_of(released, [&](Bytes part) { return is_within(data, part); })) << name;
  }
  EXPECT_GT(num_shared, 0u);
  EXPECT_GT(num_codes, 0u);
  EXPECT_GE(released.size(), num_codes);  // one for each tensor of blocks
  for (Bytes part : released) EXPECT_TRUE(is_within(part.data(), bytes));
}

}  // namespace
}  // namespace rvm::checkpoint
