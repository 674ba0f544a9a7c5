// Attention of several heads.
#ifndef RVM_COMPILER_IMPORT_BLOCKS_ATTENTION_H_
#define RVM_COMPILER_IMPORT_BLOCKS_ATTENTION_H_

#include <cstdint>

#include "compiler/import/steps.h"

namespace rvm::importing {

// (batch, steps, heads * size) as (batch, steps, heads, size).
Operand HeadsOf(Steps& c, Operand x, int64_t heads);
// (batch, steps, heads, size) as (batch, heads, steps, size), or the other way round.
Operand HeadsOutside(Steps& c, Operand x);
// (batch, heads, steps, size) as (batch, steps, heads * size).
Operand JoinHeads(Steps& c, Operand x);

// x, (batch, steps, heads, size), with the first elements of each head rotated by angles whose cosine and sine are
// (batch, steps, half), batch maybe 1: as many elements as both have together.
Operand Rotated(Steps& c, Operand x, Operand cosine, Operand sine, bool interleaved);

// Returns 1 / sqrt(size) for queries (..., size), in their dtype.
Operand ScaleOfSize(Steps& c, Operand query);

struct AttendOptions {
  double scale = 0;  // of products; 0: 1 / sqrt(size)
  double softcap = 0;
  Operand bias = nullptr;  // added to products
  Operand sink = nullptr;  // by head: a further product, of a key without a value
};
// Returns the values that queries attend to: all are (batch, heads, steps, size). Heads of queries may be a multiple of
// those of keys and values.
Operand Attend(Steps& c, Operand query, Operand key, Operand value, const AttendOptions& options);

// 0 where `condition` holds, else `otherwise`.
Operand BiasWhere(Steps& c, Operand condition, double otherwise);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_BLOCKS_ATTENTION_H_
