#include "tests/fuzz/check_imported.h"

#include "absl/status/status.h"
#include "base/check.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/text/printer.h"
#include "compiler/typing/infer_type.h"

namespace rvm {

void CheckImported(const absl::StatusOr<importing::ImportedModel>& model, diagnostics::SourceMap* sources) {
  if (!model.ok()) {
    RVM_CHECK(!model.status().message().empty(), "a model is refused without a reason");
    RVM_CHECK(model.status().code() != absl::StatusCode::kInternal, "a mistake of the importer");
    return;
  }
  ir::Module module = model->module;
  RVM_CHECK(!text::PrintModule(module).empty(), "a program without text");
  diagnostics::SourceMap own;
  diagnostics::Diagnostics diagnostics(sources == nullptr ? &own : sources);
  if (typing::InferTypes(module, diagnostics)) return;
  RVM_CHECK(!diagnostics.all().empty(), "a module is refused without a reason");
}

}  // namespace rvm
