// The position of a piece of the program in its source text.
#ifndef RVM_COMPILER_IR_SPAN_H_
#define RVM_COMPILER_IR_SPAN_H_

#include <cstdint>

namespace rvm::ir {

// A half-open byte range [begin, end) of a source, which is a text or the origin of nodes made by an importer
// (diagnostics::SourceMap). Source 0 means "no source": the node was made by a pass or a builder.
struct Span {
  uint32_t source = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
  constexpr bool valid() const { return source != 0; }
  constexpr bool operator==(const Span&) const = default;
};

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_SPAN_H_
