#include "compiler/driver/params.h"

#include <zlib.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/npy.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"
#include "compiler/typing/infer_type.h"
#include "gtest/gtest.h"

namespace rvm::driver {
namespace {

using Bytes = std::vector<uint8_t>;

void Put(Bytes& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) out.push_back(static_cast<uint8_t>(value));
}
void Append(Bytes& out, const std::string& text) { out.insert(out.end(), text.begin(), text.end()); }

// Returns a zip archive of stored entries.
Bytes ZipOf(const std::vector<std::pair<std::string, Bytes>>& entries) {
  Bytes out, directory;
  for (const auto& [name, content] : entries) {
    uint32_t crc = static_cast<uint32_t>(crc32_z(0, content.data(), content.size()));
    size_t offset = out.size();
    Put(out, 0x04034b50, 4), Put(out, 20, 2), Put(out, 0, 8);
    Put(out, crc, 4), Put(out, content.size(), 4), Put(out, content.size(), 4);
    Put(out, name.size(), 2), Put(out, 0, 2);
    Append(out, name);
    out.insert(out.end(), content.begin(), content.end());
    Put(directory, 0x02014b50, 4), Put(directory, 20, 2), Put(directory, 20, 2), Put(directory, 0, 8);
    Put(directory, crc, 4), Put(directory, content.size(), 4), Put(directory, content.size(), 4);
    Put(directory, name.size(), 2), Put(directory, 0, 12), Put(directory, offset, 4);
    Append(directory, name);
  }
  size_t begin = out.size();
  out.insert(out.end(), directory.begin(), directory.end());
  Put(out, 0x06054b50, 4), Put(out, 0, 4), Put(out, entries.size(), 2), Put(out, entries.size(), 2);
  Put(out, directory.size(), 4), Put(out, begin, 4), Put(out, 0, 2);
  return out;
}

Bytes SafetensorsOf(const std::string& header, size_t data_bytes) {
  Bytes out;
  Put(out, header.size(), 8);
  Append(out, header);
  for (size_t i = 0; i < data_bytes; ++i) out.push_back(static_cast<uint8_t>(i));
  return out;
}

Literal Floats(Shape shape, std::vector<float> values) {
  return Literal::FromValues<float>(kFloat32, std::move(shape), values);
}
Bytes TestNpz() {
  return ZipOf({{"w.npy", EncodeNpy(Floats({2, 2}, {1, 2, 3, 4}))},
                {"notes.txt", {1, 2, 3}},
                {"layer.0.bias.npy", EncodeNpy(Floats({2}, {5, 6}))}});
}
// Returns the predecessor's `.params`: "w", two floats, and "n.b", an int64.
Bytes TestTensorList() {
  Bytes out;
  Put(out, 0xF7E58D4F05049CB7, 8), Put(out, 0, 8), Put(out, 2, 8);
  Put(out, 1, 8), Append(out, "w"), Put(out, 3, 8), Append(out, "n.b");
  Put(out, 2, 8);
  auto put_header = [&](uint64_t rank, uint64_t code, uint64_t bits) {
    Put(out, 0xDD5E40F096B4A13F, 8), Put(out, 0, 8), Put(out, 1, 4), Put(out, 0, 4);
    Put(out, rank, 4), Put(out, code, 1), Put(out, bits, 1), Put(out, 1, 2);
  };
  put_header(1, 2, 32), Put(out, 2, 8), Put(out, 8, 8), Put(out, 0x3f800000, 4), Put(out, 0x40000000, 4);
  put_header(0, 0, 64), Put(out, 8, 8), Put(out, 7, 8);
  return out;
}
std::string ErrorOf(const Bytes& bytes) { return std::string(DecodeParams("f", bytes).status().message()); }

TEST(LoadParams, ReadsStoredNpz) {
  absl::StatusOr<ParamFile> file = DecodeParams("f.npz", TestNpz());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors.size(), 2u);
  EXPECT_TRUE(file->tensors.at("w") == Floats({2, 2}, {1, 2, 3, 4}));
}

TEST(LoadParams, ReadsWhatNumPyDeflated) {
  absl::StatusOr<ParamFile> file = LoadParams("compiler/driver/testdata/deflated.npz");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tensors.at("w") == Floats({2, 3}, {0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(file->tensors.at("f") ==
              Literal::FromValues<int64_t>(kInt64, {2, 3}, std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(file->tensors.at("s") == Literal::Scalar(kFloat16, 1.5));
  EXPECT_TRUE(file->tensors.at("zeros") == Literal::Full(kFloat32, {40, 50}, 0));
  EXPECT_NE(file->unreadable.at("big").find("big-endian"), std::string::npos);
}

TEST(LoadParams, ReadsSafetensors) {
  absl::StatusOr<ParamFile> file = DecodeParams(
      "f.safetensors",
      SafetensorsOf(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                    R"("b":{"dtype":"BOOL","shape":[2,1],"data_offsets":[4,6]},)"
                    R"("c":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[6,7]},)"
                    R"("d":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[7,8]}})",
                    8));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tensors.at("a") ==
              Literal::FromValues<uint16_t>(kBFloat16, {2}, std::vector<uint16_t>{0x0100, 0x0302}));
  EXPECT_TRUE(file->tensors.at("b") == Literal::FromValues<uint8_t>(kBool, {2, 1}, std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(file->unreadable.count("c"), 1u);
  EXPECT_TRUE(file->tensors.at("d") == Literal::FromValues<uint8_t>(kFloat8E4M3FN, {1}, std::vector<uint8_t>{7}));
}

TEST(LoadParams, ReadsOneNpy) {
  absl::StatusOr<ParamFile> file = DecodeParams("some/w.npy", EncodeNpy(Floats({1}, {7})));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors.count("w"), 1u);
}

TEST(LoadParams, ReadsParams) {
  absl::StatusOr<ParamFile> file = DecodeParams("f.params", TestTensorList());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tensors.at("w") == Floats({2}, {1, 2}));
  EXPECT_TRUE(file->tensors.at("n.b") == Literal::ScalarInt(kInt64, 7));
  Bytes longer = TestTensorList();
  longer.push_back(0);
  EXPECT_EQ(ErrorOf(longer), "f: malformed .params: 1 bytes follow its tensors; expected none");
  Bytes fewer = TestTensorList();
  fewer[16 + 8 + 8 + 1 + 8 + 3] = 1;  // the count of tensors
  EXPECT_EQ(ErrorOf(fewer), "f: malformed .params: it has 2 names and 1 tensors");
}

TEST(LoadParams, SaysWhatIsWrong) {
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n";
  EXPECT_EQ(ErrorOf(Bytes(kPointer.begin(), kPointer.end())),
            "f: this is a pointer of Git LFS, not the file that it stands for; fetch that with `git lfs pull`");
  EXPECT_EQ(ErrorOf({1, 2, 3}), "f: this is no file of weights; expected .npz, .safetensors, .npy or .params");
  EXPECT_EQ(ErrorOf(SafetensorsOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
            "f: tensor `a`: it holds 4 bytes, which is not (2) of float32");
  EXPECT_EQ(ErrorOf(SafetensorsOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4)),
            "f: tensor `a`: its bytes are not among the 4 of the file");
  EXPECT_EQ(ErrorOf(SafetensorsOf(R"({"a":{"dtype":"F32"}})", 0)),
            "f: tensor `a`: its entry needs `dtype`, `shape` and two `data_offsets`");
  Bytes npz = TestNpz();
  npz[40] ^= 1;
  EXPECT_NE(ErrorOf(npz).find("checksum"), std::string::npos) << ErrorOf(npz);
  EXPECT_FALSE(LoadParams("no/such/file.npz").ok());
}

// Every prefix is refused, and no flipped bit crashes the reader.
void Damage(const Bytes& good) {
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodeParams("f", std::span(good).first(length)).ok()) << length;
  }
  for (size_t i = 0; i < good.size() * 8; ++i) {
    Bytes bad = good;
    bad[i / 8] ^= static_cast<uint8_t>(1 << (i % 8));
    (void)DecodeParams("f", bad);
  }
}
TEST(LoadParams, SurvivesDamagedParams) { Damage(TestTensorList()); }
TEST(LoadParams, SurvivesDamagedNpz) { Damage(TestNpz()); }
TEST(LoadParams, SurvivesDamagedSafetensors) {
  Damage(SafetensorsOf(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24));
}
TEST(LoadParams, SurvivesDamagedDeflatedNpz) {
  // A small one with a deflated entry, as zlib packs it.
  Bytes content = EncodeNpy(Floats({2}, {1, 2}));
  Bytes packed(compressBound(content.size()) + 32);
  z_stream stream = {};
  ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = content.data(), stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = packed.data(), stream.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  Bytes zip = ZipOf({{"w.npy", packed}});
  size_t directory = 30 + 5 + packed.size();
  uint32_t crc = static_cast<uint32_t>(crc32_z(0, content.data(), content.size()));
  zip[directory + 10] = 8;
  for (size_t i = 0; i < 4; ++i) {
    zip[directory + 16 + i] = static_cast<uint8_t>(crc >> (8 * i));
    zip[directory + 24 + i] = static_cast<uint8_t>(content.size() >> (8 * i));
  }
  absl::StatusOr<ParamFile> file = DecodeParams("f", zip);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tensors.at("w") == Floats({2}, {1, 2}));
  Damage(zip);
}

// Binds, then types: the printed module, or the diagnostics.
std::string Bind(std::string_view program, const std::vector<Bytes>& files, BoundWeights* weights = nullptr) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module;
  std::vector<ParamFile> params;
  for (const Bytes& bytes : files) params.push_back(*DecodeParams(absl::StrCat("f", params.size()), bytes));
  if (!text::ParseModule(sources.Add("t", std::string(program)), module, diagnostics) ||
      !BindParams(module, params, diagnostics, weights) || !typing::InferTypes(module, diagnostics)) {
    return diagnostics.Render();
  }
  return text::PrintExpr(module.FindFunction("main")->function->body);
}

TEST(BindParams, ReplacesVariablesEverywhere) {
  BoundWeights weights;
  std::string text = Bind(
      "free_var %layer_0_bias: Tensor[(2), float32]; def @main() { let %f = fn () { %layer_0_bias }; (%layer_0_bias, "
      "%f()) }",
      {TestNpz()}, &weights);
  EXPECT_EQ(text.find("layer_0_bias"), std::string::npos) << text;
  EXPECT_NE(text.find("Constant([5"), std::string::npos) << text;
  EXPECT_EQ(weights.unused, std::vector<std::string>{"w"});
}

TEST(BindParams, ReportsWhatDoesNotFit) {
  auto expect = [](std::string_view program, const std::vector<Bytes>& files, std::string_view message) {
    std::string text = Bind(program, files);
    EXPECT_NE(text.find(message), std::string::npos) << text;
  };
  expect("free_var %w: Tensor[(2, 3), float32]; def @main() { %w }", {TestNpz()},
         "tensor `w` of f0 has type `Tensor[(2, 2), float32]`; `%w` expects `Tensor[(2, 3), float32]` "
         "[weight-shape-mismatch]");
  expect("free_var %w: Tensor[(2, 2), float64]; def @main() { %w }", {TestNpz()}, "[weight-dtype-mismatch]");
  expect("free_var %ww: Tensor[(2, 2), float32]; def @main() { %ww }", {TestNpz()},
         "`%ww` has no weight: f0 has no tensor of that name; did you mean `w`? [missing-weight]");
  expect("free_var %w: Tensor[(2, 2), float32]; def @main() { %w }", {},
         "`%w` has no weight; give a file that holds it with `--params`");
  expect("free_var %w: Tensor[(2, 2), float32]; def @main() { %w }", {TestNpz(), TestNpz()},
         "`%w` may be `w` of f0 or `w` of f1");
}

TEST(BindParams, BindsParametersOfMain) {
  BoundWeights weights;
  std::string text = Bind(
      "def @main(%x: Tensor[(2), float32], %layer.0.bias: Tensor[(2), float32]) { add(%x, "
      "%layer.0.bias) }",
      {TestNpz()}, &weights);
  EXPECT_EQ(text, "%x + Constant([5f, 6f], (2), float32)");
  EXPECT_EQ(weights.bound, std::vector<std::string>{"layer.0.bias"});
  EXPECT_EQ(weights.arguments, std::vector<std::string>{"x"});
  EXPECT_EQ(weights.unused, std::vector<std::string>{"w"});
}

TEST(BindParams, ExtentsOfParametersOfMainAreThoseOfTheTensor) {
  std::string text = Bind(
      "def @main(%x: Tensor[(n, 2), float32], %w: Tensor[(n, k), float32]) -> Tensor[(n, k), "
      "float32] { let %y: Tensor[(n, k), float32] = add(%x, %w); %y }",
      {TestNpz()});
  EXPECT_NE(text.find("let %y: Tensor[(2, 2), float32]"), std::string::npos) << text;
  text = Bind("def @main(%w: Tensor[(n, n), float32], %layer_0_bias: Tensor[(n), float32]) { %w }", {TestNpz()});
  EXPECT_NE(text.find("Constant("), std::string::npos) << text;
}

TEST(BindParams, ParametersOfACalledMainStay) {
  BoundWeights weights;
  Bind("def @main(%w: Tensor[(2, 2), float32]) -> Tensor[(2, 2), float32] { @main(%w) }", {TestNpz()}, &weights);
  EXPECT_TRUE(weights.main_is_called);
  EXPECT_TRUE(weights.bound.empty());
}

TEST(BindParams, LeavesOpenDimsToTheTensor) {
  EXPECT_NE(Bind("free_var %w: Tensor[(?, 2), float32]; def @main() { %w }", {TestNpz()}).find("Constant"),
            std::string::npos);
}

}  // namespace
}  // namespace rvm::driver
