// Any bytes as an ONNX model: a message, or a program that prints, and types or says why not.
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/import/onnx/import.h"
#include "compiler/text/printer.h"
#include "compiler/typing/infer_type.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  onnx::ImportOptions options;
  options.files = [](std::string_view) { return absl::NotFoundError("no such file"); };
  absl::StatusOr<onnx::ImportedModel> model = onnx::Import({data, size}, options);
  if (!model.ok()) {
    RVM_CHECK(!model.status().message().empty(), "a model is refused without a reason");
    RVM_CHECK(model.status().code() != absl::StatusCode::kInternal, "a mistake of the importer");
    return 0;
  }
  RVM_CHECK(!text::PrintModule(model->module).empty(), "a program without text");
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  if (typing::InferTypes(model->module, diagnostics)) return 0;
  RVM_CHECK(!diagnostics.all().empty(), "a module is refused without a reason");
  return 0;
}
