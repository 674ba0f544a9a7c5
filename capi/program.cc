// Programs of the C interface: loaded, verified, described.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "capi/handles.h"
#include "capi/signature_json.h"
#include "capi/sized_struct.h"
#include "devices/plugin/accelerator_library.h"
#include "serialization/decoder.h"
#include "serialization/signature.h"
#include "serialization/verifier.h"

namespace rvm::capi {
namespace {

rvm_error* Verify(const MappedFile& file) {
  absl::StatusOr<Executable> executable = Decode(file.bytes, {.owner = file.owner, .check_constants = true});
  absl::Status status = executable.ok() ? rvm::Verify(*std::move(executable)).status() : executable.status();
  return status.ok() ? nullptr : ErrorOf(status, RVM_INVALID_FILE);
}

rvm_error* ReadOptions(const rvm_load_options* given, vm::LoadOptions& result) {
  rvm_load_options options;
  absl::Status status = ReadStruct(given, "rvm_load_options", options);
  if (!status.ok()) return ErrorOf(status, RVM_INVALID_ARGUMENT);
  if (options.key_count > 0 && options.trusted_keys == nullptr) return NullArgument("trusted_keys", "array of keys");
  if (options.device_libraries != nullptr) {
    status = device::OpenAcceleratorLibraries(options.device_libraries);
    if (!status.ok()) return ErrorOf(status, RVM_UNSUPPORTED_TARGET);
  }
  if (options.device != nullptr) result.device = options.device;
  result.host_fallback = options.host_fallback != 0;
  result.allow_native = options.allow_native != 0;
  result.trusted_keys.resize(options.key_count);
  if (options.key_count > 0) {
    std::memcpy(result.trusted_keys.data(), options.trusted_keys, options.key_count * sizeof(PublicKey));
  }
  return nullptr;
}

rvm_error* Load(const MappedFile& file, const rvm_load_options* given, rvm_program** out) {
  vm::LoadOptions options;
  if (rvm_error* error = ReadOptions(given, options)) return error;
  absl::StatusOr<std::shared_ptr<const vm::Program>> program = vm::Program::LoadMapped(file, options);
  if (!program.ok()) return ErrorOf(program.status(), RVM_INVALID_FILE);
  auto result = std::make_unique<rvm_program>();
  const Executable& executable = (*program)->executable();
  result->interface = InterfaceOf(executable);
  result->signature = SignatureJson(executable, result->interface);
  for (size_t i = 0; i < executable.entries.size(); ++i) {
    result->entry_types.push_back(EntryType(executable, executable.entries[i], result->interface.entries[i]));
  }
  result->program = *std::move(program);
  *out = result.release();
  return nullptr;
}

rvm_error* NamePath(const char* path, rvm_error* error) {
  if (error != nullptr) error->message = absl::StrCat(path, ": ", error->message);
  return error;
}

absl::StatusOr<MappedFile> Map(const char* path, rvm_error*& error) {
  absl::StatusOr<MappedFile> file = MapFile(path);
  if (!file.ok()) error = NewError(RVM_IO, std::string(file.status().message()));
  return file;
}

}  // namespace
}  // namespace rvm::capi

using rvm::capi::NullArgument;

rvm_error* rvm_program_load_file(const char* path, const rvm_load_options* options, rvm_program** out) {
  if (path == nullptr) return NullArgument("path", "path of a file");
  if (out == nullptr) return NullArgument("out", "rvm_program*");
  rvm_error* error = nullptr;
  auto file = rvm::capi::Map(path, error);
  return error != nullptr ? error : rvm::capi::NamePath(path, rvm::capi::Load(*file, options, out));
}

rvm_error* rvm_program_load(const void* bytes, size_t size, const rvm_load_options* options, rvm_program** out) {
  if (bytes == nullptr) return NullArgument("bytes", "executable's bytes");
  if (out == nullptr) return NullArgument("out", "rvm_program*");
  return rvm::capi::Load({{static_cast<const uint8_t*>(bytes), size}, nullptr}, options, out);
}

rvm_error* rvm_program_load_borrow(const void* bytes, size_t size, const rvm_load_options* options,
                                   void (*release)(void* context), void* context, rvm_program** out) {
  if (bytes == nullptr) return NullArgument("bytes", "executable's bytes");
  if (out == nullptr) return NullArgument("out", "rvm_program*");
  // Gives the bytes back only once they were taken over.
  struct Owner {
    ~Owner() {
      if (is_taken && release != nullptr) release(context);
    }
    void (*release)(void* context);
    void* context;
    bool is_taken = false;
  };
  auto owner = std::make_shared<Owner>(release, context);
  rvm_error* error = rvm::capi::Load({{static_cast<const uint8_t*>(bytes), size}, owner}, options, out);
  owner->is_taken = error == nullptr;
  return error;
}

rvm_error* rvm_program_get_stats(const rvm_program* program, rvm_program_stats* out) {
  if (rvm_error* error = rvm_program::Check(program, "program")) return error;
  if (out == nullptr) return NullArgument("out", "rvm_program_stats");
  absl::Status status = rvm::capi::CheckStructSize(out->struct_size, "rvm_program_stats");
  if (!status.ok()) return rvm::capi::ErrorOf(status, RVM_INVALID_ARGUMENT);
  const rvm::capi::RunCounts& counts = *program->counts;
  rvm_program_stats all = {};
  static_assert(std::size(all.errors) == rvm::capi::RunCounts::kCodes);
  all.struct_size = sizeof(all);
  all.runs = counts.runs;
  std::copy(counts.errors.begin(), counts.errors.end(), all.errors);
  all.seconds = static_cast<double>(counts.nanoseconds) * 1e-9;
  all.peak_bytes = counts.peak_bytes;
  rvm::capi::WriteStruct(all, out);
  return nullptr;
}

rvm_error* rvm_verify(const void* bytes, size_t size) {
  if (bytes == nullptr) return NullArgument("bytes", "executable's bytes");
  return rvm::capi::Verify({{static_cast<const uint8_t*>(bytes), size}, nullptr});
}

rvm_error* rvm_verify_file(const char* path) {
  if (path == nullptr) return NullArgument("path", "path of a file");
  rvm_error* error = nullptr;
  auto file = rvm::capi::Map(path, error);
  return error != nullptr ? error : rvm::capi::NamePath(path, rvm::capi::Verify(*file));
}

rvm_error* rvm_sign(const void* bytes, size_t size, const uint8_t secret_key[64], char** out, size_t* out_size) {
  if (bytes == nullptr) return NullArgument("bytes", "executable's bytes");
  if (secret_key == nullptr) return NullArgument("secret_key", "key of 64 bytes");
  if (out == nullptr) return NullArgument("out", "char*");
  if (out_size == nullptr) return NullArgument("out_size", "size_t");
  const auto* begin = static_cast<const uint8_t*>(bytes);
  if (rvm_error* error = rvm::capi::Verify({{begin, size}, nullptr})) return error;
  std::vector<uint8_t> file(begin, begin + size);
  rvm::SecretKey key;
  std::memcpy(key.data(), secret_key, key.size());
  rvm::Sign(file, key);
  *out = static_cast<char*>(std::malloc(file.size()));
  if (*out == nullptr) return rvm::capi::NewError(RVM_RESOURCE_EXHAUSTED, "no memory for the signed executable");
  std::memcpy(*out, file.data(), file.size());
  *out_size = file.size();
  return nullptr;
}

rvm_program* rvm_program_retain(rvm_program* program) { return rvm_program::Retain(program); }
void rvm_program_release(rvm_program* program) { rvm_program::Release(program); }

size_t rvm_program_entry_count(const rvm_program* program) {
  return rvm_program::Is(program) ? program->entry_types.size() : 0;
}
const char* rvm_program_entry_name(const rvm_program* program, size_t entry) {
  if (entry >= rvm_program_entry_count(program)) return nullptr;
  return program->program->executable().entries[entry].name.c_str();
}
const char* rvm_program_entry_type(const rvm_program* program, size_t entry) {
  return entry < rvm_program_entry_count(program) ? program->entry_types[entry].c_str() : nullptr;
}
const char* rvm_program_signature(const rvm_program* program) {
  return rvm_program::Is(program) ? program->signature.c_str() : nullptr;
}
