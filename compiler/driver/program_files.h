// Reads the files that a program imports: texts and models.
//
//   ProgramFiles files;
//   CompileOptions options;
//   options.files = &files;
//   program = Compile(source, diagnostics, options);
#ifndef RVM_COMPILER_DRIVER_PROGRAM_FILES_H_
#define RVM_COMPILER_DRIVER_PROGRAM_FILES_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/params.h"
#include "compiler/import/import_options.h"
#include "compiler/ir/module.h"
#include "compiler/text/imports.h"

namespace rvm::driver {

// A path is relative to the folder of the text that imports it; that folder is the one of the text's name in the source
// map. A file that is imported twice, with the same options, is read once. One use per program. Not thread-safe.
class ProgramFiles : public text::Importer {
 public:
  // An import that the program's text does not have, of a path that is relative to the working directory. An import in
  // the text that has the same name is not read.
  void Add(text::ImportLine line) { given_.push_back(std::move(line)); }
  // The same of a text in memory. Its own imports are relative to the folder of the program's.
  void AddText(std::string name, std::string text);
  const std::vector<text::ImportLine>& given() const { return given_; }
  // Folder for the imports of the program's own text, in place of that of its name.
  void set_folder(std::string folder) { folder_ = std::move(folder); }
  // Only texts that were added may be imported.
  void set_reads_no_files() { reads_files_ = false; }
  // Texts are only declared, models are not read: for formatters and editors.
  void set_only_declares() { only_declares_ = true; }
  // Returns true if the program imports anything.
  bool has_imports() const { return has_imports_; }

  std::optional<text::ImportedFile> Import(const text::ImportLine& line, const std::string& prefix, ir::Module& module,
                                           diagnostics::Diagnostics& diagnostics) override;

  // The weights of the imported models, and those that imports name, by the names of the free variables in the module.
  std::vector<ParamFile> TakeWeights() { return std::move(weights_); }
  // Claims of models that the program does not check, a sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  bool ImportText(const text::ImportLine& line, const std::string& path, const std::string& prefix, ir::Module& module,
                  diagnostics::Diagnostics& diagnostics);
  bool ParseText(const text::ImportLine& line, const std::string& path, std::string text, const std::string& prefix,
                 ir::Module& module, diagnostics::Diagnostics& diagnostics);
  bool ImportModel(const text::ImportLine& line, const std::string& path, const std::string& prefix, ir::Module& module,
                   diagnostics::Diagnostics& diagnostics);
  void AddWeights(std::string path, ParamFile file, const std::string& prefix);
  std::string FolderOf(const text::ImportLine& line, const diagnostics::SourceMap& sources) const;

  std::vector<text::ImportLine> given_;
  std::map<std::string, std::string, std::less<>> texts_;  // of AddText
  bool reads_files_ = true;
  std::optional<std::string> folder_;
  bool only_declares_ = false;
  bool has_imports_ = false;
  std::vector<std::string> open_;                             // the paths of the texts being read, outermost first
  std::map<std::string, std::string, std::less<>> prefixes_;  // of files that have been read, with their options
  std::vector<ParamFile> weights_;
  std::vector<std::string> warnings_;
};

// Adds "NAME=EXTENTS" to the shapes of `options`, as in "image=1,3,h,w".
absl::Status AddShape(std::string_view text, importing::ImportOptions& options);
// Adds "NAME=VALUE" to the frozen inputs of `options`: 3, 1.5, true, 1,80 or @FILE.npy, a path relative to `folder`.
absl::Status AddFrozen(std::string_view text, std::string_view folder, importing::ImportOptions& options);
// Sets the dtype of the caches of `options`: float16, bfloat16 or float32.
absl::Status AddCacheDType(std::string_view text, importing::ImportOptions& options);
// Sets the dtype of rows that quantised weights multiply: int8 or float32.
absl::Status AddActivationDType(std::string_view text, importing::ImportOptions& options);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_PROGRAM_FILES_H_
