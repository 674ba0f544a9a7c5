// The verbs of `relayvm`, one file each. main.cc lists them.
#ifndef RVM_TOOLS_RELAYVM_VERB_H_
#define RVM_TOOLS_RELAYVM_VERB_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "tools/options.h"

namespace rvm::tools {

struct Verb {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view usage;    // "FILE.relay -o FILE.rvm [options]"
  std::span<const OptionSpec> options;
  std::string_view more;  // help behind the options: what to know, examples
  // Prints results to stdout. A status that is not OK is shown as `relayvm: error: ...`.
  absl::Status (*run)(std::span<const std::string> args);
  // Takes the options of WithProgramOptions (load_program.h), and values, as well.
  bool runs_program = false;
};

extern const Verb kCheckVerb;
extern const Verb kFmtVerb;
extern const Verb kExplainVerb;
extern const Verb kLspVerb;
extern const Verb kCompileVerb;
extern const Verb kRunVerb;
extern const Verb kEvalVerb;
extern const Verb kGradVerb;
extern const Verb kImportVerb;
extern const Verb kQuantizeVerb;
extern const Verb kNativeVerb;
extern const Verb kInspectVerb;
extern const Verb kProfileVerb;
extern const Verb kReportVerb;
extern const Verb kBenchVerb;
extern const Verb kDevicesVerb;
extern const Verb kVerifyVerb;
extern const Verb kSignVerb;
extern const Verb kKeyGenVerb;

// A status for errors that have been printed already. Any other status is printed by main.
absl::Status AlreadyShown();
bool IsAlreadyShown(const absl::Status& status);

// A source file and its diagnostics.
class SourceFile {
 public:
  static absl::StatusOr<SourceFile> Read(const std::string& path);
  // Makes the source of the model at `path`, which is no text: its diagnostics have origins for places.
  static SourceFile OfModel(const std::string& path);
  diagnostics::Diagnostics& diagnostics() { return *diagnostics_; }
  uint32_t id() const { return id_; }  // REQUIRES: not OfModel
  const std::string& path() const { return path_; }
  std::string_view text() const { return sources_->text(id_); }
  // Prints errors and warnings to stderr. AlreadyShown if `status` or one of them is an error.
  absl::Status Report(const absl::Status& status);

 private:
  explicit SourceFile(const std::string& path);
  std::string path_;
  uint32_t id_ = 0;
  std::unique_ptr<diagnostics::SourceMap> sources_;
  std::unique_ptr<diagnostics::Diagnostics> diagnostics_;
};

// Returns the single positional argument of most verbs; the error states what was expected.
absl::StatusOr<std::string> OneFile(const Options& options, std::string_view what);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_VERB_H_
