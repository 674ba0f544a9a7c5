// Where a piece of the program stands in its source text.
#ifndef RVM_COMPILER_IR_SPAN_H_
#define RVM_COMPILER_IR_SPAN_H_

#include <cstdint>

namespace rvm::ir {

// Half-open byte range [begin, end) of one source: a text, or the origin of what an importer made
// (diagnostics::SourceMap). Source 0 is "no source" (made by a pass or a builder).
struct Span {
  uint32_t source = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
  constexpr bool valid() const { return source != 0; }
  constexpr bool operator==(const Span&) const = default;
};

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_SPAN_H_
