// Each example in diagnostic_kind.def causes its diagnostic.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/driver/compile.h"
#include "gtest/gtest.h"

namespace rvm::driver {
namespace {

using diagnostics::DiagnosticKind;

class DiagnosticExamples : public testing::TestWithParam<DiagnosticKind> {};

TEST_P(DiagnosticExamples, CausesItsDiagnostic) {
  std::string_view example = diagnostics::DiagnosticExample(GetParam());
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  uint32_t source = sources.Add("example.relay", std::string(example));
  absl::StatusOr<ir::Module> module = ParseAndType(source, diagnostics);
  if (module.ok()) CheckInstances(*module, diagnostics).IgnoreError();
  auto is_expected = [](const diagnostics::Diagnostic& diagnostic) { return diagnostic.kind == GetParam(); };
  EXPECT_TRUE(std::any_of(diagnostics.all().begin(), diagnostics.all().end(), is_expected)) << example << "\n"
                                                                                            << diagnostics.Render();
}

std::vector<DiagnosticKind> KindsWithExample() {
  std::vector<DiagnosticKind> kinds;
  for (DiagnosticKind kind : diagnostics::AllDiagnosticKinds()) {
    if (!diagnostics::DiagnosticExample(kind).empty()) kinds.push_back(kind);
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Table, DiagnosticExamples, testing::ValuesIn(KindsWithExample()),
                         [](const auto& info) { return std::string(diagnostics::DiagnosticName(info.param)); });

}  // namespace
}  // namespace rvm::driver
