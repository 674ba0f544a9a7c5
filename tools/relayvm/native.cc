// relayvm native: machine code of functions for an executable that has none for a CPU, without its source.
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "compiler/driver/compile.h"
#include "serialization/decoder.h"
#include "serialization/encoder.h"
#include "serialization/verifier.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"-o", "FILE.rvm", "where the executable goes (in place)"},
    {"--target", "CPU[,CPU...]", "the CPUs to compile for, as of `relayvm compile` (host)"},
};

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path, OneFile(options, "a .rvm file"));
  RVM_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
  absl::StatusOr<Executable> decoded = Decode(file.bytes, {.owner = file.owner, .check_constants = true});
  if (!decoded.ok()) {
    return absl::Status(decoded.status().code(), absl::StrCat(path, ": ", decoded.status().message()));
  }
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const VerifiedExecutable> executable, Verify(*std::move(decoded)));
  RVM_ASSIGN_OR_RETURN(executable, driver::AddControlCode(std::move(executable), options.Value("--target", "host")));
  return EncodeFile(**executable, options.Value("-o", path)).status();
}

}  // namespace

const Verb kNativeVerb = {
    .name = "native",
    .summary = "compile the functions of an executable file to machine code",
    .usage = "FILE.rvm [-o FILE.rvm] [--target CPU,...]",
    .options = kOptions,
    .more = R"(
The file keeps its bytecode, which runs where the machine code does not. Kernels stay as they are: machine code, or
recipes of a portable executable. A signature is lost: sign the new file.

Examples:
  relayvm native model.rvm -o fast.rvm
  relayvm native model.rvm --target x86-64-v3,aarch64
)",
    .run = Run,
};

}  // namespace rvm::tools
