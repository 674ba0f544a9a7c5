#include "compiler/import/checkpoint/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  auto owner = std::make_shared<std::string>(*std::move(file));
  Bytes bytes(reinterpret_cast<const uint8_t*>(owner->data()), owner->size());
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
