// A .pt2 file: a zip archive of a program in JSON and of raw tensors, as torch.export.save writes it. A TorchScript
// file is read as the same: script.h.
#ifndef RVM_COMPILER_IMPORT_TORCH_ARCHIVE_H_
#define RVM_COMPILER_IMPORT_TORCH_ARCHIVE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/literal.h"
#include "base/zip.h"
#include "compiler/import/file_bytes.h"
#include "compiler/import/import_options.h"
#include "compiler/import/torch/program.h"

namespace rvm::torch {

// Returns the dtype of that ScalarType; nullopt if Relay has none.
std::optional<DataType> ToDataType(int64_t scalar_type);
// Returns the dtype of the two parts of complex numbers of that ScalarType; nullopt for others.
std::optional<DataType> ToPartDType(int64_t scalar_type);
// "complex64", "float8_e5m2"; "scalar type 99" where nobody knows it.
std::string ScalarTypeName(int64_t scalar_type);

class Archive {
 public:
  // `file` must outlive the archive; literals keep its owner alive.
  // The options give the shapes of inputs, which TorchScript files do not have.
  static absl::StatusOr<Archive> Read(const importing::FileBytes& file, const importing::ImportOptions& options);

  const Program& program() const { return *program_; }
  // Returns true for a TorchScript file.
  bool is_script() const { return is_script_; }
  // Returns the value of a parameter, buffer or constant; of a complex one the parts, along a last axis. A tensor that
  // lies aligned and dense in a file that somebody owns is a view of it, others are copies. kNotFound: no such tensor;
  // kUnimplemented: its dtype.
  absl::StatusOr<Literal> Tensor(std::string_view name) const;
  // Equal for tensors that are the same elements of the same storage; "" if there is no such tensor.
  std::string PlaceOf(std::string_view name) const;

 private:
  struct Entry {
    TensorMeta meta;
    std::string path;
    bool is_pickled = false;
  };

  absl::StatusOr<JsonValue> ReadJson(const ZipEntry& entry) const;
  absl::Status ReadConfig(std::string_view folder, std::string_view suffix);

  importing::FileBytes file_;
  std::string root_;  // the folder that all entries are in, "model/"
  absl::flat_hash_map<std::string, ZipEntry> entries_;
  absl::flat_hash_map<std::string, Entry> tensors_;
  std::unique_ptr<Program> program_;
  bool is_script_ = false;
};

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_ARCHIVE_H_
