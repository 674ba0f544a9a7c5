// Imports: the lines of a text that name other files, and the interface that reads these files.
//
//   import "step.onnx" as @step(shape="tokens=1,t");
//
// The definitions of an imported file are in the module of the program, under names that begin with a prefix: `step`
// for its `@main` and `step.f` for its `@f`. driver::ProgramFiles is the Importer that reads from disk.
#ifndef RVM_COMPILER_TEXT_IMPORTS_H_
#define RVM_COMPILER_TEXT_IMPORTS_H_

#include <optional>
#include <string>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/ir/span.h"

namespace rvm::text {

struct ImportLine {
  std::string path;  // as written: relative to the folder of the text
  std::string name;  // without the `@`
  struct Option {
    std::string name, value;  // shape="tokens=1,t"
    ir::Span span;
  };
  std::vector<Option> options;
  ir::Span span;       // the path; invalid if no text has the line
  ir::Span name_span;  // the same
};

struct ImportedFile {
  // The prefix of the file's definitions in the module.
  std::string prefix;
  // The file was not read. The text may call `@name`, but the module has no such function.
  bool is_opaque = false;
};

class Importer {
 public:
  virtual ~Importer() = default;
  // Adds the definitions of a file to `module`. `prefix` begins no name of `module` yet; the result has another one if
  // the file has been read before. Reports errors, and then returns nullopt.
  virtual std::optional<ImportedFile> Import(const ImportLine& line, const std::string& prefix, ir::Module& module,
                                             diagnostics::Diagnostics& diagnostics) = 0;
};

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_IMPORTS_H_
