#include "compiler/driver/compile.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/npy.h"
#include "compiler/builder/program_builder.h"
#include "gtest/gtest.h"
#include "serialization/encoder.h"
#include "vm/machine.h"

namespace rvm::driver {
namespace {

Value Floats(Shape shape, const std::vector<float>& values) {
  return Value::Tensor(Literal::FromValues<float>(kFloat32, std::move(shape), values));
}

struct Result {
  absl::StatusOr<CompiledProgram> program;
  std::string diagnostics;
};
Result CompileText(std::string_view text, const CompileOptions& options = {}) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  uint32_t source = sources.Add("test.relay", std::string(text));
  absl::StatusOr<CompiledProgram> program = Compile(source, diagnostics, options);
  return {std::move(program), diagnostics.Render()};
}

// Returns the value of an entry, or the error.
std::string ValueOf(const CompiledProgram& compiled, std::string_view entry, const std::vector<Value>& args) {
  auto program = vm::Program::Link(compiled.executable, {.allow_native = true});
  if (!program.ok()) return program.status().ToString();
  auto machine = vm::Machine::Create(*program, {});
  if (!machine.ok()) return machine.status().ToString();
  absl::StatusOr<Value> value = (*machine)->Invoke(entry, args);
  return value.ok() ? value->ToString() : value.status().ToString();
}

std::vector<std::string> EntriesOf(std::string_view text) {
  Result result = CompileText(text);
  if (!result.program.ok()) return {result.program.status().ToString(), result.diagnostics};
  std::vector<std::string> names;
  for (const Entry& entry : (*result.program->executable)->entries) names.push_back(entry.name);
  return names;
}

// A file of weights for the time of a test.
class WeightFile {
 public:
  explicit WeightFile(std::string_view name, const Literal& tensor)
      : path_(absl::StrCat(::testing::TempDir(), "/", std::string(name), ".npy")) {
    std::vector<uint8_t> bytes = EncodeNpy(tensor);
    EXPECT_TRUE(ReplaceFile(path_, bytes).ok());
  }
  ~WeightFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(DefaultEntries, AreWhatNothingCalls) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(EntriesOf("def @helper() { 1 } def @main() { @helper() } def @other() { @helper() }"),
            (Names{"main", "other"}));
  EXPECT_EQ(EntriesOf("def @main(%n: int32) -> int32 { @main(%n) } def @f(%n: int32) -> int32 { @main(%n) }"),
            (Names{"main", "f"}));
  EXPECT_EQ(EntriesOf("def @a(%n: int32) -> int32 { @b(%n) } def @b(%n: int32) -> int32 { @a(%n) }"), (Names{"a"}));
  EXPECT_EQ(EntriesOf("def @id[A](%x: A) -> A { %x } def @main() { 1 }"), (Names{"main"}));
}

TEST(Compile, RunsWithWeightsAtEveryLevel) {
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  WeightFile weights("w_levels", Literal::FromValues<float>(kFloat32, {4, 8}, values));
  for (int level = 0; level <= 3; ++level) {
    CompileOptions options;
    options.opt_level = level;
    options.params_files = {weights.path()};
    Result result = CompileText(
        "free_var %w_levels: Tensor[(4, 8), float32];"
        "def @main(%x: Tensor[(1, 8), float32]) { nn.dense(%x, %w_levels) }"
        "def @raw() { %w_levels }",
        options);
    ASSERT_TRUE(result.program.ok()) << result.program.status() << result.diagnostics;
    EXPECT_EQ(ValueOf(*result.program, "main", {Floats({1, 8}, {1, 0, 0, 0, 0, 0, 0, 1})}), "[[7f, 23f, 39f, 55f]]")
        << level;
    // The same weight unpacked.
    EXPECT_EQ(ValueOf(*result.program, "raw", {}).substr(0, 9), "[[0f, 1f,") << level;
    EXPECT_EQ((*result.program->executable)->constants.size(), 2u);
  }
}

TEST(Compile, DropsConstantsThatOnlyPackingUsed) {
  WeightFile weights("w_packed", Literal::Full(kFloat32, {32, 16}, 1));
  CompileOptions options;
  options.params_files = {weights.path()};
  Result result = CompileText(
      "free_var %w_packed: Tensor[(32, 16), float32]; def @main(%x: Tensor[(2, 16), float32]) { nn.dense(%x, "
      "%w_packed) }",
      options);
  ASSERT_TRUE(result.program.ok()) << result.program.status() << result.diagnostics;
  const Executable& executable = **result.program->executable;
  ASSERT_EQ(executable.constants.size(), 1u);
  EXPECT_EQ(executable.kernels[0].params[1].dims, ToDims(executable.constants[0].shape()));
}

// Kernels of one row and of any number of rows would choose panels of different widths.
TEST(Compile, KernelsAgreeOnTheLayoutOfAConstant) {
  WeightFile weights("w_shared", Literal::Full(kFloat32, {192, 64}, 0.5));
  const std::string_view text =
      "free_var %w_shared: Tensor[(192, 64), float32];"
      "def @one(%x: Tensor[(1, 64), float32]) { sum(nn.dense(%x, %w_shared)) }"
      "def @few(%x: Tensor[(3, 64), float32]) { sum(nn.dense(%x, %w_shared)) }"
      "def @many(%x: Tensor[(n, 64), float32]) { sum(nn.dense(%x, %w_shared)) }";
  for (const char* target : {"x86-64", "x86-64-v3", "x86-64-v4", "sapphirerapids"}) {
    CompileOptions options;
    options.target = target;
    options.params_files = {weights.path()};
    Result result = CompileText(text, options);
    ASSERT_TRUE(result.program.ok()) << result.program.status() << result.diagnostics;
    const Executable& executable = **result.program->executable;
    ASSERT_EQ(executable.constants.size(), 1u) << target;
    for (const KernelDesc& kernel : executable.kernels) {
      if (kernel.params.size() == 2) {
        EXPECT_EQ(kernel.params[1].dims, ToDims(executable.constants[0].shape())) << target << kernel.symbol;
      }
    }
  }
  CompileOptions options;
  options.params_files = {weights.path()};
  Result result = CompileText(text, options);
  EXPECT_EQ(ValueOf(*result.program, "one", {Floats({1, 64}, std::vector<float>(64, 1))}), "6144f");
  EXPECT_EQ(ValueOf(*result.program, "few", {Floats({3, 64}, std::vector<float>(192, 1))}), "18432f");
  EXPECT_EQ(ValueOf(*result.program, "many", {Floats({17, 64}, std::vector<float>(17 * 64, 1))}), "104448f");
}

TEST(Compile, IsDeterministic) {
  constexpr std::string_view kText = "def @main(%x: Tensor[(n), float32]) { (tanh(%x), sum(exp(%x))) }";
  Result a = CompileText(kText), b = CompileText(kText);
  ASSERT_TRUE(a.program.ok()) << a.program.status() << a.diagnostics;
  EXPECT_EQ(Encode(**a.program->executable), Encode(**b.program->executable));
}

TEST(Compile, ObserverSeesEachPass) {
  std::vector<std::string> seen;
  CompileOptions options;
  options.opt_level = 0;
  options.observer = [&](const passes::Pass& pass, const ir::Module&) { seen.emplace_back(pass.name); };
  ASSERT_TRUE(CompileText("def @main() { 1 }", options).program.ok());
  EXPECT_EQ(seen.front(), "specialize");
  EXPECT_EQ(seen.back(), "fuse_ops");
}

TEST(PrepareModule, StopsBetweenPasses) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  absl::StatusOr<ir::Module> module = Parse(sources.Add("test.relay", "def @main() { 1 }"), diagnostics);
  ASSERT_TRUE(module.ok());
  for (bool stops : {false, true}) {
    CompileOptions options;
    options.must_stop = [stops] { return stops; };
    BoundWeights weights;
    absl::Status status = PrepareModule(*module, diagnostics, options, "lambda_lift", weights).status();
    EXPECT_EQ(status.code(), stops ? absl::StatusCode::kCancelled : absl::StatusCode::kOk) << status;
  }
}

TEST(Compile, ReportsErrorsWhereTheyBelong) {
  Result result = CompileText("def @main() { 1 + True }");
  EXPECT_EQ(result.program.status().message(), "1 error");
  EXPECT_NE(result.diagnostics.find("test.relay:1:"), std::string::npos) << result.diagnostics;
  result = CompileText("free_var %w: Tensor[(2), float32]; def @main() { %w }");
  EXPECT_NE(result.diagnostics.find("[missing-weight]"), std::string::npos) << result.diagnostics;
  CompileOptions options;
  options.entries = {"mian"};
  result = CompileText("def @main() { 1 }", options);
  EXPECT_NE(result.diagnostics.find("the program has no function `@mian`; did you mean `@main`? [entry-not-found]"),
            std::string::npos)
      << result.diagnostics;
  options = {};
  options.target = "no-such-cpu";
  EXPECT_FALSE(CompileText("def @main() { 1 }", options).program.ok());
  options = {};
  options.params_files = {"no/such/file.npz"};
  EXPECT_EQ(CompileText("def @main() { 1 }", options).program.status().message(),
            "cannot read `no/such/file.npz`: No such file or directory");
}

TEST(Compile, MakesCodeForEachTarget) {
  CompileOptions options;
  options.target = "x86-64,x86-64-v3,x86-64-v4";
  Result result = CompileText("def @main(%x: Tensor[(8, 9), float32]) { nn.softmax(transpose(%x)) }", options);
  ASSERT_TRUE(result.program.ok()) << result.program.status();
  const std::vector<CodeObject>& objects = (*result.program->executable)->code_objects;
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[0].features.find("+avx"), std::string::npos);
  EXPECT_NE(objects[1].features.find("+avx2"), std::string::npos);
  EXPECT_EQ(objects[1].features.find("+avx512f"), std::string::npos);
  EXPECT_NE(objects[2].features.find("+avx512f"), std::string::npos);
  EXPECT_NE(objects[0].bytes, objects[1].bytes);
  EXPECT_NE(objects[1].bytes, objects[2].bytes);
  options.target = "x86-64-v3,portable";
  EXPECT_FALSE(CompileText("def @main() { 1 }", options).program.ok());
  options.target = "x86-64-v3,x86-64-v3";
  EXPECT_FALSE(CompileText("def @main() { 1 }", options).program.ok());
  options.target = "x86-64-v3,";
  EXPECT_FALSE(CompileText("def @main() { 1 }", options).program.ok());
}

// ---- CompileModule

// `@main(%x, %w)` with one matmul, as an importer of a model builds it.
Result CompileProduct(Dim columns) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  builder::ProgramBuilder b;
  builder::Type x = b.Tensor({1, columns}, kFloat32), w = b.Tensor({1, 4}, kFloat32);
  b.Define("main", {{"x", x}, {"w", w}}, nullptr, [&](builder::Values v) {
    b.SetOrigin(sources.AddOrigin("node `MatMul_3` of model.onnx"));
    return b.Op("nn.dense", {v[0], v[1]});
  });
  absl::StatusOr<ir::Module> module = std::move(b).Finish();
  absl::StatusOr<CompiledProgram> program = CompileModule(*std::move(module), diagnostics, {});
  return {std::move(program), diagnostics.Render()};
}

TEST(Compile, MakesVariantsOfKernels) {
  constexpr std::string_view kText = R"(
def @main(%x: Tensor[(1, 4), float32], %n: int32) { (tanh(%x), dyn.zeros(stack((%n, %n), axis=0), dtype="float32")) }
)";
  auto count = [&](const CompileOptions& options) {
    Result result = CompileText(kText, options);
    EXPECT_TRUE(result.program.ok()) << result.program.status() << result.diagnostics;
    if (!result.program.ok()) return size_t{0};
    const Executable& executable = **result.program->executable;
    for (const BatchVariant& batch : executable.batch_variants) {
      EXPECT_EQ(executable.kernels[batch.kernel.value].name + "_batch", executable.kernels[batch.variant.value].name);
    }
    return executable.batch_variants.size();
  };
  EXPECT_EQ(count({.native_control = false}), 0u);
  EXPECT_EQ(count({.native_control = false, .batch = true}), 0u);
  // `tanh` and `stack` have one; the extents of the zeros are values, which may differ from call to call.
  EXPECT_EQ(count({.native_control = false, .batch = true, .batch_all = true}), 2u);
}

TEST(CompileModule, ShowsTheOriginOfATypeError) {
  Result result = CompileProduct(5);
  EXPECT_EQ(result.program.status().message(), "1 error");
  EXPECT_TRUE(result.diagnostics.starts_with("node `MatMul_3` of model.onnx: error: `nn.dense`")) << result.diagnostics;
  EXPECT_EQ(std::count(result.diagnostics.begin(), result.diagnostics.end(), '\n'), 1) << result.diagnostics;
}

TEST(CompileModule, ShowsTheOriginInABacktrace) {
  Result result = CompileProduct(Dim::Any());
  ASSERT_TRUE(result.program.ok()) << result.diagnostics;
  const Value row = Floats({1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(ValueOf(*result.program, "main", {row, row}), Floats({1, 1}, {30}).ToString());
  std::string error = ValueOf(*result.program, "main", {Floats({1, 2}, {1, 2}), row});
  EXPECT_TRUE(error.ends_with("\n  in `main` at node `MatMul_3` of model.onnx")) << error;
}

}  // namespace
}  // namespace rvm::driver
