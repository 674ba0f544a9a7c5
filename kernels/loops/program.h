// Programs of loops: what the threads of a GPU do in one launch of a kernel, in the order in which they do it. A
// schedule is lowered to one program for each launch (lower.h). A printer writes it in the language of a device, the
// verifier checks its form (verify.h), and tests run it and find races (testing/evaluate.h).
//
// A program runs in blocks of schedule::kBlockThreads threads. Blocks share nothing but the tensors, and run in any
// order. All threads of a block run the same statements; they wait for one another at barriers only. No barrier depends
// on a condition, be it the same for all threads: PoCL 3.1 loses statements around such barriers.
#ifndef RVM_KERNELS_LOOPS_PROGRAM_H_
#define RVM_KERNELS_LOOPS_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/data_type.h"
#include "base/dim.h"
#include "base/scalar_op.h"
#include "base/strong_id.h"

namespace rvm::loops {

// A value that one statement defines, for those behind it in its body and in the bodies that these contain.
using Value = StrongId<struct ValueTag>;
using BufferId = StrongId<struct BufferTag>;

enum class BufferKind : uint8_t {
  kInput,      // a tensor that is only read
  kScalar,     // likewise, of rank 0
  kOutput,     // a result
  kWorkspace,  // a part of the kernel's workspace
  kShared,     // memory of a block; undefined where a block begins
  kPrivate,    // memory of a thread; likewise
};

struct Buffer {
  BufferKind kind = BufferKind::kInput;
  DataType dtype;
  Dim elements;       // constant for memory of a block or a thread
  size_t number = 0;  // of the input or the output
  Dim offset = 0;     // in the workspace, in bytes

  bool is_global() const { return kind != BufferKind::kShared && kind != BufferKind::kPrivate; }
  bool is_read_only() const { return kind == BufferKind::kInput || kind == BufferKind::kScalar; }
};

enum class Op : uint8_t {
  kConstant,  // `bits`: an integer, or the bits of a double
  kDim,       // the value of `dim`; int64
  kBlock,     // the number of the block; int64
  kThread,    // the number of the thread in its block; int64
  kUnary,
  kBinary,
  kSelect,
  kCast,
  kBitcast,
  kLoad,        // element a of the buffer
  kLoadOrZero,  // likewise; 0 if there is no such element
  kStore,       // element a of the buffer becomes b
  kBarrier,     // no thread goes on before all have come here; then they see what the others stored before
  kFor,         // the body for each value from a below b, in steps of c > 0; for a in any case if it has a barrier
  kIf,          // the body if a holds
};

struct Statement {
  Op op = Op::kConstant;
  // The dtype of the result, or of the element that is stored. float16 and bfloat16 compute in float32, and are rounded
  // by casts and by stores to buffers of their dtype.
  DataType dtype = kInt64;
  Value result;  // what the statement defines; of kFor, the number of the iteration
  Value a, b, c;
  uint8_t function = 0;  // of kUnary and kBinary: the UnaryOp or BinaryOp
  int64_t bits = 0;
  Dim dim;
  BufferId buffer;
  bool is_unrolled = false;  // of kFor: a printer should ask for straight-line code
  std::vector<Statement> body;
};

struct Program {
  std::vector<Buffer> buffers;
  std::vector<DataType> values;  // dtypes, by number
  Dim blocks;
  std::vector<Statement> body;

  const Buffer& buffer(BufferId id) const { return buffers[id.value]; }
  DataType type(Value value) const { return values[value.value]; }
  // Returns the bytes of shared memory that a block has.
  int64_t shared_bytes() const;
};

// Returns the dtype in which a value of `dtype` is computed, and kept in memory of a block or a thread without loss.
constexpr DataType RegisterType(DataType dtype) { return dtype.is_small_float() ? kFloat32 : dtype; }

// Returns true if the threads wait for one another in the body.
bool HasBarrier(const std::vector<Statement>& body);

// Returns true for the statements that define a value.
bool Defines(Op op);

// Returns the program as text, a statement a line: for people, messages and tests.
std::string ToString(const Program& program);
// Returns the first line of the statement.
std::string ToString(const Statement& statement);

}  // namespace rvm::loops

#endif  // RVM_KERNELS_LOOPS_PROGRAM_H_
