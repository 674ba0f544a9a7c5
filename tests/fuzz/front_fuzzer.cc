// Any text: a typed module or diagnostics; and what parses prints as text that parses to the same.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"
#include "compiler/typing/infer_type.h"

namespace rvm {
namespace {

bool Parse(const std::string& text, ir::Module& module) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  return text::ParseModule(sources.Add("fuzz.relay", text), module, diagnostics);
}

void TryText(const std::string& text) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module;
  bool has_placeholders = false;
  if (!text::ParseModule(sources.Add("fuzz.relay", text), module, diagnostics,
                         {.has_placeholders = &has_placeholders})) {
    if (has_placeholders) typing::InferTypes(module, diagnostics);
    RVM_CHECK(!diagnostics.all().empty(), "text is refused without a reason");
    diagnostics.Render();
    return;
  }
  ir::Module again;
  RVM_CHECK(Parse(text::PrintModule(module), again), "the printed text does not parse");
  RVM_CHECK(ir::StructurallyEqual(module, again), "the printed text is another module");
  if (typing::InferTypes(module, diagnostics)) return;
  RVM_CHECK(!diagnostics.all().empty(), "a module is refused without a reason");
  diagnostics.Render();
}

}  // namespace
}  // namespace rvm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rvm::TryText(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
