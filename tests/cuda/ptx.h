// A parser and an interpreter for the part of PTX (NVIDIA, "Parallel Thread Execution ISA", version 7.0) that the
// compiler emits. Strict: what it does not know is an error that names the line; memory is exact to the byte.
#ifndef RVM_TESTS_CUDA_PTX_H_
#define RVM_TESTS_CUDA_PTX_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ptx {

// Device memory. Addresses are never used twice, and allocations lie apart, so that any access outside of one shows.
class Memory {
 public:
  uint64_t Allocate(size_t bytes);
  bool Free(uint64_t address);  // false: no allocation begins there
  // Returns the allocation that the address is in; 0: none.
  uint64_t BlockOf(uint64_t address) const;
  // `bytes` bytes at the address; null, with the reason in `problem`, if they are not all in one allocation.
  uint8_t* At(uint64_t address, size_t bytes, std::string& problem);
  size_t blocks() const { return blocks_.size(); }
  size_t bytes() const;

 private:
  std::map<uint64_t, std::vector<uint8_t>> blocks_;
  std::map<uint64_t, size_t> freed_;
  uint64_t next_ = 0x7f0000000000;
};

enum class Op : uint8_t {
  kAbs,
  kAdd,
  kAnd,
  kBarrier,
  kBranch,
  kClz,
  kExtract,
  kConvert,
  kDiv,
  kFma,
  kInsert,
  kLoad,
  kLoadParam,
  kMad,
  kMax,
  kMin,
  kMma,
  kMove,
  kMul,
  kMulHigh,
  kMulWide,
  kMadWide,
  kNeg,
  kNot,
  kOr,
  kPopCount,
  kRcp,
  kRem,
  kReturn,
  kSelect,
  kSetPredicate,
  kShl,
  kShr,
  kShuffle,
  kSqrt,
  kStore,
  kSub,
  kToTf32,
  kXor,
};
enum class Kind : uint8_t { kBits, kUnsigned, kSigned, kFloat, kPredicate };
struct Type {
  Kind kind = Kind::kBits;
  uint8_t bytes = 4;
};
enum class Rounding : uint8_t { kNone, kNearest, kZero, kDown, kUp, kNearestInt, kZeroInt, kDownInt, kUpInt };
enum class Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };
enum class Special : uint8_t { kThread, kThreads, kBlock, kBlocks };

enum class MmaType : uint8_t { kFloat16, kBFloat16, kTf32, kSigned8, kUnsigned8 };
// mma.sync: rows x 8 sums of products of `depth` elements.
struct MmaShape {
  size_t rows = 0, depth = 0;
  MmaType a = MmaType::kFloat16, b = MmaType::kFloat16;
};

struct Operand {
  enum class From : uint8_t { kRegister, kNumber, kSpecial } from = From::kNumber;
  uint64_t value = 0;  // number of the register, or what it is
};
struct Instruction {
  Op op;
  Type type, source;  // `source`: of what is converted
  Rounding rounding = Rounding::kNone;
  Compare compare = Compare::kEq;
  int guard = -1;  // a predicate
  bool is_guard_negated = false;
  std::vector<uint32_t> to;
  std::vector<Operand> from;
  bool keeps_nan = false;  // max, min: a NaN wins, else it loses
  int64_t offset = 0;      // of an address
  bool is_shared = false;  // the address is one of the memory that a block shares
  MmaShape mma;            // `from`: the registers of a, b and the sums; `type`: of the sums
  std::string label;
  size_t target = 0;
  int line = 0;
};
struct Entry {
  std::string name;
  std::map<std::string, size_t> params;  // offsets
  size_t param_bytes = 0;
  uint32_t num_registers = 0;
  uint32_t threads = 0;                  // that a block must have; 0: any number
  std::map<std::string, size_t> shared;  // variables in the memory that a block shares: their offsets
  size_t shared_bytes = 0;
  std::vector<Instruction> code;
};
struct Module {
  int capability = 0;  // 75 or 80: that of the device, or a later one
  std::map<std::string, Entry> entries;
};

// "": it is understood; else what is wrong, with the line.
std::string Parse(const std::string& text, Module& module);

struct Grid {
  uint32_t blocks = 1, threads = 1;
};
// Totals over all threads.
struct Counts {
  uint64_t instructions = 0;
  uint64_t loaded = 0;   // elements, from global memory
  uint64_t sectors = 0;  // of 32 bytes, that warps load from global memory or store to it, as one instruction
};
// Runs all threads, block by block, in an order that depends on `seed`, as the threads of a block do: each runs until
// it waits for others. "": done; else the fault. Faults are also, whatever the order:
// - two threads access a byte of shared memory, one of them to write, without a barrier between them;
// - a byte of shared memory is read that the block did not write;
// - threads of a block wait at different barriers, or end while others wait; likewise lanes of a warp that exchange
//   values or multiply matrices;
// - a factor of an `mma` is not rounded to TF32.
// Products of `mma` are exact, and their sums are rounded once: a GPU may give other last bits.
std::string Run(const Entry& entry, Grid grid, const std::vector<uint64_t>& params, uint32_t seed, Memory& memory,
                Counts* counts = nullptr);

}  // namespace ptx

#endif  // RVM_TESTS_CUDA_PTX_H_
