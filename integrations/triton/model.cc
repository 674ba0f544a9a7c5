#include "integrations/triton/model.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "integrations/triton/status.h"

namespace rvm::triton {
namespace {

constexpr uint32_t kConfigVersion = 1;

absl::StatusOr<std::string> PathOf(TRITONBACKEND_Model* handle) {
  ArtifactType type = ArtifactType::kFileSystem;
  const char* folder = nullptr;
  uint64_t version = 0;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelRepository(handle, &type, &folder)));
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelVersion(handle, &version)));
  if (type != ArtifactType::kFileSystem) {
    return absl::UnimplementedError("the model is not in a file system; expected a folder");
  }
  return absl::StrCat(folder, "/", version, "/model.rvm");
}

absl::StatusOr<JsonValue> ParseMessage(TRITONSERVER_Message* message) {
  const char* text = nullptr;
  size_t size = 0;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONSERVER_MessageSerializeToJson(message, &text, &size)));
  return ParseJson(std::string_view(text, size));
}

absl::StatusOr<JsonValue> ReadConfig(TRITONBACKEND_Model* handle) {
  TRITONSERVER_Message* message = nullptr;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelConfig(handle, kConfigVersion, &message)));
  absl::StatusOr<JsonValue> config = ParseMessage(message);
  LogIfError(TRITONSERVER_MessageDelete(message), "a message is not deleted");
  return config;
}

absl::Status SetConfig(TRITONBACKEND_Model* handle, const std::string& config) {
  TRITONSERVER_Message* message = nullptr;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONSERVER_MessageNewFromSerializedJson(&message, config.data(), config.size())));
  absl::Status status = StatusOf(TRITONBACKEND_ModelSetConfig(handle, kConfigVersion, message));
  LogIfError(TRITONSERVER_MessageDelete(message), "a message is not deleted");
  return status;
}

absl::StatusOr<relayvm::Program> LoadProgram(const std::string& path, const ModelParameters& parameters) {
  static_assert(sizeof(parameters.trusted_keys[0]) == 32);
  rvm_load_options options = {};
  // The operator, who put the file there, answers for its machine code, unless keys do.
  options.allow_native = parameters.trusted_keys.empty();
  options.trusted_keys = reinterpret_cast<const uint8_t(*)[32]>(parameters.trusted_keys.data());
  options.key_count = parameters.trusted_keys.size();
  if (!parameters.device.empty()) options.device = parameters.device.c_str();
  relayvm::Result<relayvm::Program> program = relayvm::Program::LoadFile(path, options);
  if (!program) return StatusOf(program.error());
  return *program;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Load(TRITONBACKEND_Model* handle) {
  RVM_ASSIGN_OR_RETURN(std::string path, PathOf(handle));
  RVM_ASSIGN_OR_RETURN(JsonValue config, ReadConfig(handle));
  RVM_ASSIGN_OR_RETURN(ModelParameters parameters, ReadParameters(config));
  RVM_ASSIGN_OR_RETURN(relayvm::Program program, LoadProgram(path, parameters));
  RVM_ASSIGN_OR_RETURN(JsonValue signature, ParseJson(rvm_program_signature(program.get())));
  RVM_ASSIGN_OR_RETURN(EntryForms forms, FormsOf(signature, parameters.entry));
  bool completes = false;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelAutoCompleteConfig(handle, &completes)));
  if (completes) {
    RVM_RETURN_IF_ERROR(CompleteConfig(config, forms));
    RVM_RETURN_IF_ERROR(SetConfig(handle, JsonText(config)));
  }
  RVM_RETURN_IF_ERROR(CheckConfig(config, forms));
  if (parameters.lanes == 0) {
    const JsonValue* variants = signature.Find("variants");
    bool has_variants = variants != nullptr && variants->AsInt() != nullptr && *variants->AsInt() > 0;
    parameters.lanes = has_variants ? 8 : 1;
  }
  return std::make_unique<Model>(std::move(program), std::move(parameters), std::move(forms));
}

}  // namespace rvm::triton
