#include "tools/relayvm/verb.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace rvm::tools {
namespace {

// Not the text of any diagnostic.
constexpr char kShown[] = "\x01 already shown";

}  // namespace

absl::Status AlreadyShown() { return absl::AbortedError(kShown); }
bool IsAlreadyShown(const absl::Status& status) { return status.message() == kShown; }

SourceFile::SourceFile(const std::string& path)
    : path_(path),
      sources_(std::make_unique<diagnostics::SourceMap>()),
      diagnostics_(std::make_unique<diagnostics::Diagnostics>(sources_.get())) {}

absl::StatusOr<SourceFile> SourceFile::Read(const std::string& path) {
  RVM_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  // Spans are 32-bit byte offsets.
  if (text.size() >= (uint64_t{1} << 31))
    return absl::InvalidArgumentError(absl::StrCat("`", path, "` has more than 2 GiB"));
  SourceFile file(path);
  file.id_ = file.sources_->Add(path, std::move(text));
  return file;
}

SourceFile SourceFile::OfModel(const std::string& path) { return SourceFile(path); }

absl::Status SourceFile::Report(const absl::Status& status) {
  std::cerr << diagnostics_->Render();
  if (diagnostics_->ok()) return status;
  std::cerr << "relayvm: error: " << path_ << ": " << std::string(diagnostics_->ToStatus().message()) << '\n';
  return AlreadyShown();
}

absl::StatusOr<std::string> OneFile(const Options& options, std::string_view what) {
  if (options.positional().size() == 1) return options.positional()[0];
  if (options.positional().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no file given; expected ", std::string(what)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("saw `", options.positional()[1], "` after the file; expected ", std::string(what), " alone"));
}

}  // namespace rvm::tools
