#include "tools/lsp/line_index.h"

#include <gtest/gtest.h>

#include <string_view>

namespace rvm::tools::lsp {
namespace {

TEST(LineIndexTest, CountsUtf16Units) {
  // One byte, two, three and four bytes; the last is a surrogate pair.
  LineIndex index("a\u00e4\u20ac\U0001f600b");
  EXPECT_EQ(index.PositionOf(0), (Position{0, 0}));
  EXPECT_EQ(index.PositionOf(1), (Position{0, 1}));
  EXPECT_EQ(index.PositionOf(3), (Position{0, 2}));
  EXPECT_EQ(index.PositionOf(6), (Position{0, 3}));
  EXPECT_EQ(index.PositionOf(10), (Position{0, 5}));
  EXPECT_EQ(index.OffsetOf({0, 3}), 6u);
  EXPECT_EQ(index.OffsetOf({0, 4}), 6u);  // inside the pair
  EXPECT_EQ(index.OffsetOf({0, 5}), 10u);
}

TEST(LineIndexTest, KnowsThreeEndsOfLines) {
  LineIndex index("a\nbc\r\nd\re");
  EXPECT_EQ(index.OffsetOf({1, 1}), 3u);
  EXPECT_EQ(index.OffsetOf({2, 0}), 6u);
  EXPECT_EQ(index.OffsetOf({3, 0}), 8u);
  EXPECT_EQ(index.PositionOf(8), (Position{3, 0}));
  EXPECT_EQ(index.PositionOf(7), (Position{2, 1}));
}

TEST(LineIndexTest, MovesPositionsIntoTheText) {
  LineIndex index("ab\ncd");
  EXPECT_EQ(index.OffsetOf({0, 99}), 2u);
  EXPECT_EQ(index.OffsetOf({9, 0}), 5u);
  EXPECT_EQ(index.OffsetOf({-1, 3}), 0u);
  EXPECT_EQ(index.OffsetOf({1, -1}), 3u);
  EXPECT_EQ(index.PositionOf(99), (Position{1, 2}));
}

TEST(LineIndexTest, CountsBytesThatAreNoText) {
  LineIndex index(std::string_view("\xff\x80z\xe2\x82", 5));
  for (int i = 0; i <= 5; ++i) {
    EXPECT_EQ(index.PositionOf(static_cast<size_t>(i)), (Position{0, i}));
    EXPECT_EQ(index.OffsetOf({0, i}), static_cast<size_t>(i));
  }
}

}  // namespace
}  // namespace rvm::tools::lsp
