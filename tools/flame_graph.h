// A profile's time line as a flame graph: who calls what, and how long it takes.
#ifndef RVM_TOOLS_FLAME_GRAPH_H_
#define RVM_TOOLS_FLAME_GRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serialization/executable.h"
#include "vm/profiler/profile.h"

namespace rvm::tools {

// A function or kernel below its callers. A call of a function that is active already, directly or through others,
// counts to its outermost activation, so the tree of a recursion is no deeper than the program has functions.
struct FlameFrame {
  std::string name;
  bool is_kernel = false;
  int64_t calls = 0;
  double ns = 0;  // with what it calls
  std::map<std::string, std::unique_ptr<FlameFrame>> callees;
};

// `events`: a time line as Profiler::Trace gives it. Functions without an end last until the last event.
FlameFrame FoldTrace(const Executable& executable, const std::vector<vm::TraceEvent>& events);

// One line per stack, "@main;@step;fused_dense_tanh 1234", with its own time in nanoseconds: the input of
// flamegraph.pl, speedscope and others.
std::string FoldedStacks(const FlameFrame& root);

// Returns a drawing, 1200 pixels wide; the title of a frame has its full name, calls and time.
std::string FlameGraphSvg(const FlameFrame& root);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_FLAME_GRAPH_H_
