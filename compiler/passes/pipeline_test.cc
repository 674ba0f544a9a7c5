#include "compiler/passes/pipeline.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

TEST(PipelineTest, NamesAreUnique) {
  std::map<std::string_view, const Pass*> passes;
  for (const Step& step : Pipeline()) {
    EXPECT_EQ(passes.try_emplace(step.pass.name, &step.pass).first->second, &step.pass) << step.pass.name;
    EXPECT_FALSE(step.pass.summary.empty()) << step.pass.name;
  }
}

TEST(PipelineTest, EachPassFindsTheFormsItNeeds) {
  for (int level = 0; level <= 3; ++level) {
    Forms forms;
    for (const Step& step : Pipeline()) {
      if (level < step.min_opt_level || step.max_rounds > 0) continue;
      EXPECT_TRUE(forms.Has(step.pass.needs)) << step.pass.name << " at level " << level;
      forms = forms | step.pass.gives;
    }
    EXPECT_TRUE(forms.Has(Forms(Form::kANormal) | Form::kCountedResults | Form::kKernels)) << level;
  }
}

TEST(PipelineTest, LevelsChoosePasses) {
  EXPECT_EQ(After("inline", "def @main() { 1 }", 0), "no such pass at level 0");
  EXPECT_EQ(After("inline", "def @main() { 1 }", 1), "def @main() {\n  1\n}\n");
}

TEST(PipelineTest, OnlyPassesAboveLevel0MayBeLeftOut) {
  EXPECT_TRUE(IsRequired(*FindPass("to_anf")));
  EXPECT_TRUE(IsRequired(*FindPass("fuse_ops")));
  EXPECT_FALSE(IsRequired(*FindPass("inline")));
  EXPECT_FALSE(IsRequired(*FindPass("unbox_tuples")));
}

// The module is verified after each pass.
TEST(PipelineTest, EachOptionalPassMayBeLeftOut) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module;
  uint32_t id = sources.Add("test.relay", R"(
def @sum(%xs: List[(float32, float32)], %n: int32) -> (float32, int32) {
  match (%xs) { Nil => (0f, %n), Cons((%a, %b), %rest) => { let (%s, %m) = @sum(%rest, %n + 1); (%s + %a * %b, %m) } }
}
def @main(%x: Tensor[(4), float32], %w: Tensor[(4), float32]) {
  let %f = fn (%y: Tensor[(4), float32]) { tanh(%y + %w) + tanh(%y + %w) };
  (@map(%f, [%x, %f(%x)]), @sum([(1f, 2f)], 0), grad(fn (%y: float32) { %y * %y })(2f))
}
)");
  ASSERT_TRUE(text::ParseModule(id, module, diagnostics) && typing::InferTypes(module, diagnostics));
  for (const Step& step : Pipeline()) {
    if (IsRequired(step.pass)) continue;
    std::vector<PassTime> times;
    PipelineOptions options{.opt_level = 3, .left_out = {std::string(step.pass.name)}, .verify = true, .times = &times};
    absl::StatusOr<ir::Module> result = RunPasses(module, {"main"}, diagnostics, options);
    ASSERT_TRUE(result.ok()) << "without " << step.pass.name << ": " << result.status();
    for (const PassTime& entry : times) EXPECT_NE(entry.pass, &step.pass);
  }
}

TEST(PipelineTest, TimesOfPasses) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module;
  uint32_t id = sources.Add("test.relay", "def @main(%x: int32) { %x + 1 }");
  ASSERT_TRUE(text::ParseModule(id, module, diagnostics) && typing::InferTypes(module, diagnostics));
  std::vector<PassTime> times;
  ASSERT_TRUE(RunPasses(module, {"main"}, diagnostics, {.times = &times}).ok());
  std::map<const Pass*, int> runs;
  for (const PassTime& entry : times) {
    EXPECT_TRUE(runs.try_emplace(entry.pass, entry.runs).second) << entry.pass->name << " has two entries";
    EXPECT_GT(entry.time.count(), 0) << entry.pass->name;
  }
  EXPECT_EQ(times.front().pass, &kSpecialize);
  EXPECT_EQ(runs[&kSpecialize], 1);
  EXPECT_GE(runs[&kInline], 2);
  EXPECT_FALSE(runs.contains(&kPartialEvaluate));  // of level 3
}

TEST(PipelineTest, UnknownEntry) {
  EXPECT_EQ(After("fuse_ops", "def @other() { 1 }", 0), "INVALID_ARGUMENT: no function is named `@main`");
}

TEST(PipelineTest, NodesOfTheInputStay) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module;
  uint32_t id = sources.Add("test.relay", R"(
def @f[A](%x: A) -> A { %x }
def @main(%x: Tensor[(4), float32]) { let %l = fn (%i: int32) -> int32 { %i + @f(2) }; (tanh(exp(@f(%x))), %l(1)) }
)");
  ASSERT_TRUE(text::ParseModule(id, module, diagnostics) && typing::InferTypes(module, diagnostics));
  std::string before = text::PrintModule(module);
  ASSERT_TRUE(RunPasses(module, {"main"}, diagnostics, {.verify = true}).ok());
  EXPECT_EQ(text::PrintModule(module), before);
}

constexpr int kDepth = 100000;

TEST(DeepProgramTest, Lets) {
  std::string source = "def @main(%x: int32) {\n  let %v0 = %x + 1;\n";
  for (int i = 0; i < kDepth; ++i) absl::StrAppend(&source, "  let %v", i + 1, " = %v", i, " * %x;\n");
  absl::StrAppend(&source, "  %v", kDepth, "\n}\n");
  EXPECT_NE(After("fuse_ops", source, 2).find(absl::StrCat("let %v", kDepth - 1, " ")), std::string::npos);
}

TEST(DeepProgramTest, NestedCalls) {
  std::string open, close;
  for (int i = 0; i < kDepth; ++i) {
    open += "negative(";
    close += ")";
  }
  std::string after = After("to_anf", absl::StrCat("def @main(%x: int32) { ", open, "%x", close, " }"), 1);
  EXPECT_NE(after.find(absl::StrCat("%t_", kDepth - 2, " = ")), std::string::npos);
}

TEST(DeepProgramTest, FusionStopsAtItsLimit) {
  std::string source = "def @main(%x: Tensor[(4), float32]) {\n  let %v0 = tanh(%x);\n";
  for (int i = 0; i < 999; ++i) absl::StrAppend(&source, "  let %v", i + 1, " = add(%v", i, ", %x);\n");
  std::string after = After("fuse_ops", source + "  %v999\n}\n", 2);
  size_t kernels = 0;
  for (size_t at = after.find("Primitive"); at != std::string::npos; at = after.find("Primitive", at + 1)) ++kernels;
  EXPECT_EQ(kernels, 16u);  // 1000 operators, 64 to a kernel
}

}  // namespace
}  // namespace rvm::passes
