// Drawing a graph by Graphviz's `dot`, a process of its own.
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "tools/relayvm/program_graph.h"

extern char** environ;

namespace rvm::tools {
namespace {

// A file that ends with its owner.
class TemporaryFile {
 public:
  TemporaryFile() : fd_(mkostemp(path_, O_CLOEXEC)) {}
  ~TemporaryFile() {
    if (fd_ < 0) return;
    close(fd_);
    unlink(path_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  bool ok() const { return fd_ >= 0; }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/relayvm-graph-XXXXXX";
  int fd_;
};

}  // namespace

absl::StatusOr<std::string> DrawSvg(const std::string& dot) {
  TemporaryFile in, out;
  if (!in.ok() || !out.ok())
    return absl::UnavailableError(absl::StrCat("no file could be made in /tmp: ", strerror(errno)));
  RVM_RETURN_IF_ERROR(ReplaceFile(in.path(), dot));
  std::string program = "dot", format = "-Tsvg", output = absl::StrCat("-o", out.path()), input = in.path();
  char* args[] = {program.data(), format.data(), output.data(), input.data(), nullptr};
  pid_t pid = 0;
  int error = posix_spawnp(&pid, "dot", nullptr, nullptr, args, environ);
  int status = 0;
  if (error == 0 && waitpid(pid, &status, 0) != pid) error = errno;
  if (error != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("Graphviz's `dot` cannot be run (", strerror(error),
                     "); install the package graphviz, or write the graph to a file that ends in .dot"));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::InternalError("Graphviz's `dot` failed; a file that ends in .dot keeps what it was given");
  }
  return ReadFile(out.path());
}

absl::Status WriteGraph(const ProgramGraph& graph, const std::string& path) {
  if (path.ends_with(".dot")) return ReplaceFile(path, graph.dot);
  if (!path.ends_with(".svg")) {
    return absl::InvalidArgumentError(absl::StrCat("saw `", path, "`; expected a file that ends in .svg or .dot"));
  }
  RVM_ASSIGN_OR_RETURN(std::string svg, DrawSvg(graph.dot));
  return ReplaceFile(path, svg);
}

}  // namespace rvm::tools
