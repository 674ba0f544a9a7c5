// Shared parts of the tests of passes: from Relay text to the text after a pass.
#ifndef RVM_COMPILER_PASSES_PASS_TEST_SUPPORT_H_
#define RVM_COMPILER_PASSES_PASS_TEST_SUPPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/passes/pipeline.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"
#include "compiler/typing/infer_type.h"
#include "gtest/gtest.h"

namespace rvm::passes {

// Returns the functions of the module after the first run of the pass `name` (the last one if it is repeated) at
// `opt_level`, printed, or the first error. Type definitions are left out. The entry is `@main`. `batch`:
// PassContext::batch.
inline std::string After(std::string_view name, std::string source, int opt_level, bool batch = false) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module;
  uint32_t id = sources.Add("test.relay", std::move(source));
  if (!text::ParseModule(id, module, diagnostics) || !typing::InferTypes(module, diagnostics)) {
    return diagnostics.Render();
  }
  std::optional<ir::Module> seen;
  bool is_repeated = false;
  for (const Step& step : Pipeline()) is_repeated |= step.pass.name == name && step.max_rounds > 0;
  PipelineOptions options{.opt_level = opt_level, .batch = batch, .verify = true};
  options.observer = [&](const Pass& pass, const ir::Module& after) {
    if (pass.name == name && (!seen || is_repeated)) seen = after;
  };
  absl::StatusOr<ir::Module> result = RunPasses(module, {"main"}, diagnostics, options);
  if (!diagnostics.ok()) return diagnostics.Render();
  if (!result.ok()) return result.status().ToString();
  if (!seen) return absl::StrCat("no such pass at level ", opt_level);
  seen->adts.clear();
  std::string text = text::PrintModule(*seen);
  return text.substr(text.find("\n\n") + 2);
}

// Program before and after a pass.
struct PassCase {
  std::string_view name;  // of the case
  std::string_view pass;
  int opt_level;
  const char* source;
  const char* expected;
};

class PassTest : public testing::TestWithParam<PassCase> {
 protected:
  static void Check() {
    const PassCase& c = GetParam();
    EXPECT_EQ(After(c.pass, c.source, c.opt_level), c.expected);
  }
};

// A program that a pass leaves as it is.
struct KeptProgram {
  std::string_view name;  // of the case
  const char* source;
};

class KeptTest : public testing::TestWithParam<KeptProgram> {
 protected:
  // At level 2. `before`: the pass before.
  static void Check(std::string_view pass, std::string_view before) {
    const char* source = GetParam().source;
    EXPECT_EQ(After(pass, source, 2), After(before, source, 2));
  }
};

inline constexpr auto NameOfCase = [](const auto& info) { return std::string(info.param.name); };

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PASS_TEST_SUPPORT_H_
