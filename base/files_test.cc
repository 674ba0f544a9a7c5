// Readers of foreign bytes: .npy and JSON.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/json.h"
#include "base/npy.h"

namespace rvm {
namespace {

Literal Iota(DataType dtype, Shape shape) {
  int64_t count = *NumElements(shape);
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(count * dtype.bytes());
  for (int64_t i = 0; i < count; ++i) StoreInt(dtype, buffer->data() + i * dtype.bytes(), i);
  return Literal(dtype, std::move(shape), std::move(buffer));
}

std::vector<uint8_t> NpyOf(std::string header, const Literal& elements) {
  std::string text = "\x93NUMPY";
  text += std::string("\x01\x00", 2);
  text.push_back(static_cast<char>(header.size()));
  text.push_back('\0');
  text += header;
  text.append(reinterpret_cast<const char*>(elements.data()), static_cast<size_t>(elements.bytes()));
  return {text.begin(), text.end()};
}

TEST(Npy, RoundTripsEveryDType) {
  for (DataType dtype :
       {kBool, kInt8, kInt16, kInt32, kInt64, kUInt8, kUInt16, kUInt32, kUInt64, kFloat16, kFloat32, kFloat64}) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{0, 4}, Shape{2, 1, 3, 2}}) {
      Literal tensor = Iota(dtype, shape);
      absl::StatusOr<Literal> read = DecodeNpy(EncodeNpy(tensor));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_TRUE(*read == tensor) << dtype.ToString() << ShapeToString(shape);
    }
  }
}

TEST(Npy, ElementsBeginAtAMultipleOf64) { EXPECT_EQ(EncodeNpy(Iota(kFloat32, {2, 3})).size() % 64, 24u); }

TEST(Npy, WritesBFloat16AsFloat32) {
  absl::StatusOr<Literal> read = DecodeNpy(EncodeNpy(Iota(kBFloat16, {3})));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == Iota(kFloat32, {3}));
}

TEST(Npy, RearrangesFortranOrder) {
  absl::StatusOr<Literal> read =
      DecodeNpy(NpyOf("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", Iota(kInt32, {6})));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == Literal::FromValues<int32_t>(kInt32, {2, 3}, std::vector<int32_t>{0, 2, 4, 1, 3, 5}));
}

TEST(Npy, NamesWhatItCannotRead) {
  auto message = [](std::string header) {
    return std::string(DecodeNpy(NpyOf(std::move(header), Iota(kInt32, {6}))).status().message());
  };
  EXPECT_NE(message("{'descr': '>i4', 'fortran_order': False, 'shape': (6,), }").find("big-endian"), std::string::npos);
  EXPECT_NE(message("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }").find("`<c8`"), std::string::npos);
  EXPECT_NE(message("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (6,), }").find("structures"),
            std::string::npos);
  EXPECT_NE(message("{'descr': '<i4', 'fortran_order': False, 'shape': (7,), }").find("(7)"), std::string::npos);
  EXPECT_NE(message("{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }").find("not"),
            std::string::npos);
}

TEST(Npy, TruncationAndFlippedBytesNeverCrash) {
  std::vector<uint8_t> good = EncodeNpy(Iota(kFloat32, {2, 3}));
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodeNpy(std::span(good).first(length)).ok()) << length;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<uint8_t> bad = good;
      bad[i] ^= static_cast<uint8_t>(1 << bit);
      (void)DecodeNpy(bad);
    }
  }
}

TEST(Json, ReadsEveryKindOfValue) {
  absl::StatusOr<JsonValue> json =
      ParseJson(R"( {"a": [1, -2.5e1, "x\n\u00e9\ud83d\ude00"], "b": {"c": null}, "d": true} )");
  ASSERT_TRUE(json.ok()) << json.status();
  const JsonValue::Array& a = *json->Find("a")->AsArray();
  EXPECT_EQ(*a[0].AsInt(), 1);
  EXPECT_EQ(*a[1].AsDouble(), -25);
  EXPECT_EQ(*a[2].AsString(), "x\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_TRUE(json->Find("b")->Find("c")->is_null());
  EXPECT_TRUE(*json->Find("d")->AsBool());
  EXPECT_EQ(json->Find("e"), nullptr);
}

TEST(Json, RefusesWhatIsNotJson) {
  for (std::string_view text : {"", "{", "[1,]", "{\"a\":1,}", "{\"a\":1,\"a\":2}", "01", "1.", "+1", "\"\\q\"",
                                "\"\\ud800\"", "nul", "1 2", "\"\n\"", "{a:1}", "1e999"}) {
    EXPECT_FALSE(ParseJson(text).ok()) << text;
  }
  EXPECT_FALSE(ParseJson(std::string(1000000, '[')).ok());
}

TEST(File, ReplacesAndReadsBack) {
  std::string path = absl::StrCat(::testing::TempDir(), "/file_test.", ::getpid());
  EXPECT_EQ(ReadFile(path).status().code(), absl::StatusCode::kNotFound);
  for (std::string_view text : {std::string_view("first, longer"), std::string_view("second"), std::string_view("")}) {
    ASSERT_TRUE(ReplaceFile(path, text).ok());
    absl::StatusOr<std::string> read = ReadFile(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, text);
  }
  auto write = [&](bool finishes) {
    absl::StatusOr<FileWriter> file = FileWriter::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    for (uint8_t byte : {'t', 'w', 'o'}) file->Write({&byte, 1});
    if (finishes) EXPECT_TRUE((*std::move(file)).Finish().ok());
  };
  write(false);
  EXPECT_EQ(*ReadFile(path), "");
  EXPECT_EQ(ReadFile(absl::StrCat(path, ".", ::getpid(), ".part")).status().code(), absl::StatusCode::kNotFound);
  write(true);
  EXPECT_EQ(*ReadFile(path), "two");
  ::unlink(path.c_str());
  EXPECT_FALSE(ReplaceFile(absl::StrCat(::testing::TempDir(), "/no/such/folder/x"), "text").ok());
}

}  // namespace
}  // namespace rvm
