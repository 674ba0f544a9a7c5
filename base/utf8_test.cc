#include "base/utf8.h"

#include <gtest/gtest.h>

namespace rvm {
namespace {

TEST(Utf8Test, SizesOfCharacters) {
  EXPECT_EQ(Utf8CharacterSize(""), 0u);
  EXPECT_EQ(Utf8CharacterSize("ab"), 1u);
  EXPECT_EQ(Utf8CharacterSize("\xc3\xa9!"), 2u);
  EXPECT_EQ(Utf8CharacterSize("\xe2\x82\xac"), 3u);
  EXPECT_EQ(Utf8CharacterSize("\xf0\x9f\x98\x80"), 4u);
  for (std::string_view wrong : {"\x80", "\xff", "\xc3", "\xc3(", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_EQ(Utf8CharacterSize(wrong), 0u) << wrong;
  }
}

TEST(Utf8Test, ReadableText) {
  EXPECT_EQ(ReadableText("caf\xc3\xa9\n\t`x`"), "caf\xc3\xa9\n\t`x`");
  EXPECT_EQ(ReadableText(std::string_view("a\0\x1b[2J\x7f", 7)), "a\\x00\\x1b[2J\\x7f");
  EXPECT_EQ(ReadableText("\xff\xc3\xa9\xc3"), "\\xff\xc3\xa9\\xc3");
}

}  // namespace
}  // namespace rvm
