// Backtrace: the Relay calls that led to an error, as text.
#ifndef RVM_VM_INTERPRETER_BACKTRACE_H_
#define RVM_VM_INTERPRETER_BACKTRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "serialization/executable.h"

namespace rvm::vm {

// Returns the entry that covers `pc`; null if there is none.
const SourceLine* FindLine(const FunctionDesc& function, uint32_t pc);

class Backtrace {
 public:
  explicit Backtrace(const Executable& executable) : executable_(executable) {}

  // Adds a frame, from the innermost out. Consecutive frames of one function at one place collapse, and only the first
  // and last few runs are kept, so a million frames cost no memory. False: there are too many frames; the outer ones
  // are omitted, so that errors stay fast.
  bool Add(FunctionId function, uint32_t pc);
  // Adds the frame of the entry, unless the function with its body, of the same name, was added last: the compiler
  // splits some entries.
  void AddEntry(FunctionId function, uint32_t pc);

  // "\n  in `f` at a.relay:3:5\n  ... 99 more frames of `f`", one line per entry. Where the innermost frames are in the
  // Prelude, the place in the program that called it comes first.
  std::string ToString() const;

 private:
  struct Run {
    FunctionId function;
    const SourceLine* line;  // null: unknown
    int64_t frames;
  };
  static constexpr size_t kKeptInner = 24;
  static constexpr size_t kKeptOuter = 6;
  static constexpr int64_t kMaxFrames = 1 << 20;  // some milliseconds
  Run* Latest();
  bool IsInPrelude(const Run& run) const;
  // Like AppendRun, without repeated frames.
  void AppendPlace(const Run& run, std::string& out) const;
  void AppendRun(const Run& run, std::string& out) const;

  const Executable& executable_;
  int64_t frames_ = 0;
  bool is_cut_ = false;
  FunctionId last_function_;
  uint32_t last_pc_ = 0;
  std::vector<Run> inner_;
  std::vector<Run> outer_;  // a ring of the last runs
  size_t next_outer_ = 0;
  int64_t skipped_frames_ = 0;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_BACKTRACE_H_
