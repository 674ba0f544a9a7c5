#include "compiler/import/torch/script.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/data_type.h"
#include "base/status_macros.h"
#include "compiler/import/torch/script_runner.h"
#include "compiler/import/torch/script_syntax.h"

namespace rvm::torch {
namespace {

using Entries = absl::flat_hash_map<std::string, ZipEntry>;

class ArchiveSource final : public ScriptSource {
 public:
  explicit ArchiveSource(const Entries& entries) : entries_(entries) {}

  const SourceFile* File(const std::string& path, absl::Status& status) override {
    auto [at, is_new] = files_.try_emplace(path);
    if (!is_new) return at->second.get();
    std::string name = absl::StrCat("code/", path, ".py");
    auto entry = entries_.find(name);
    if (entry == entries_.end()) return nullptr;
    absl::StatusOr<SourceFile> file = Parsed(entry->second);
    if (!file.ok()) {
      status.Update(absl::InvalidArgumentError(absl::StrCat("`", name, "` in it: ", file.status().message())));
      return nullptr;
    }
    at->second = std::make_unique<SourceFile>(*std::move(file));
    return at->second.get();
  }

 private:
  static absl::StatusOr<SourceFile> Parsed(const ZipEntry& entry) {
    std::vector<uint8_t> storage;
    RVM_ASSIGN_OR_RETURN(importing::Bytes bytes, ReadZipEntry(entry, storage));
    return ParseScript({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  const Entries& entries_;
  std::map<std::string, std::unique_ptr<SourceFile>> files_;
};

absl::StatusOr<Pickle> ReadPickle(const Entries& entries, const std::string& name) {
  auto entry = entries.find(name);
  if (entry == entries.end()) return absl::NotFoundError("no such entry");
  std::vector<uint8_t> storage;
  RVM_ASSIGN_OR_RETURN(importing::Bytes bytes, ReadZipEntry(entry->second, storage));
  return Pickle::Read(bytes);
}

}  // namespace

absl::StatusOr<ScriptModel> ReadScript(const Entries& entries, const importing::ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(Pickle module, ReadPickle(entries, "data.pkl"));
  absl::StatusOr<Pickle> constants = ReadPickle(entries, "constants.pkl");
  if (!constants.ok() && !absl::IsNotFound(constants.status())) return constants.status();
  ArchiveSource source(entries);
  return ScriptRunner(source, module.root(), constants.ok() ? &constants->root() : nullptr, options).Run();
}

void DropDTypes(importing::ImportOptions& options) {
  for (auto& [name, extents] : options.shapes) {
    if (!extents.empty() && ParseDataType(extents.back())) extents.pop_back();
  }
}

}  // namespace rvm::torch
