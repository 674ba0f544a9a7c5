// The interpreter finds what the threads of a block may do wrong together. Faulty code is a correct sum over a block
// with one instruction changed.
#include "tests/cuda/ptx.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ptx {
namespace {

// Each of 64 threads leaves its number in shared memory; the first one stores what thread 63 left.
constexpr char kLast[] = R"(
.version 6.5
.target sm_75
.address_size 64
.visible .entry last(
.param .u64 last_0
)
.reqntid 64, 1, 1
{
.reg .pred %p<3>;
.reg .b32 %r<4>;
.reg .b64 %rd<6>;
.shared .align 4 .b8 values[256];
ld.param.u64 %rd1, [last_0];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
mov.u64 %rd3, values;
add.s64 %rd4, %rd3, %rd2;
st.shared.u32 [%rd4], %r1;
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra $done;
ld.shared.u32 %r2, [values+252];
st.global.u32 [%rd1], %r2;
$done:
ret;
}
)";

constexpr char kSum[] = R"(
.version 6.5
.target sm_75
.address_size 64
.visible .entry sum(
.param .u64 sum_0
)
{
.reg .pred %p<3>;
.reg .b32 %r<6>;
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [sum_0];
mov.u32 %r1, %tid.x;
shfl.sync.bfly.b32 %r2|%p1, %r1, 16, 31, -1;
add.s32 %r3, %r1, %r2;
shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;
setp.ne.u32 %p2, %r1, 0;
@%p2 bra $done;
st.global.u32 [%rd1], %r4;
$done:
ret;
}
)";

std::string With(std::string text, const std::string& old, const std::string& now) {
  size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

struct Outcome {
  std::string fault;
  uint32_t value = 0;
};

Outcome RunText(const std::string& text, uint32_t threads, uint32_t seed) {
  Module module;
  std::string problem = Parse(text, module);
  EXPECT_EQ(problem, "");
  if (!problem.empty()) return {problem};
  Memory memory;
  uint64_t address = memory.Allocate(4);
  Outcome outcome;
  outcome.fault = Run(module.entries.begin()->second, {1, threads}, {address}, seed, memory);
  std::memcpy(&outcome.value, memory.At(address, 4, problem), 4);
  return outcome;
}

void ExpectFault(const std::string& text, const std::string& says, uint32_t threads = 64) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    std::string fault = RunText(text, threads, seed).fault;
    EXPECT_NE(fault.find(says), std::string::npos) << "seed " << seed << ": " << fault;
  }
}

TEST(PtxTest, ThreadsOfABlockShareMemory) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    Outcome outcome = RunText(kLast, 64, seed);
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.value, 63u);
  }
}

TEST(PtxTest, FindsMissingBarriers) { ExpectFault(With(kLast, "bar.sync 0;", ""), "shared memory"); }

TEST(PtxTest, FindsRaces) {
  ExpectFault(With(kLast, "add.s64 %rd4, %rd3, %rd2;", "mov.u64 %rd4, values;"), "without a barrier in between");
  // Reads of several threads, then a write of one of them.
  ExpectFault(With(kLast, "@%p1 bra $done;", "ld.shared.u32 %r3, [values];\nst.shared.u32 [%rd4], %r3;"),
              "without a barrier in between");
}

TEST(PtxTest, FindsSharedMemoryThatWasNeverWritten) {
  ExpectFault(With(kLast, "st.shared.u32 [%rd4], %r1;", ""), "shared memory that was never written");
  ExpectFault(With(kLast, "values+252", "values+256"), "shared memory that was never written");
  ExpectFault(With(kLast, "values+252", "values+4096"), "shared memory beyond its end");
}

TEST(PtxTest, FindsDivergentBarriers) {
  ExpectFault(With(kLast, "bar.sync 0;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $done;",
                   "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra $done;\nbar.sync 0;"),
              "1 of 64 threads wait at a barrier, and the others have ended");
  ExpectFault(With(kLast, "bar.sync 0;",
                   "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra $other;\nbar.sync 0;\nbra $join;\n$other:\nbar.sync 0;\n$join:"),
              "threads wait at different barriers");
}

TEST(PtxTest, FindsBlocksOfAnotherSize) { ExpectFault(kLast, "runs in blocks of 64 threads", 32); }

TEST(PtxTest, LanesOfAWarpExchangeValues) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    Outcome outcome = RunText(kSum, 32, seed);
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.value, 1u + 17u);
  }
}

TEST(PtxTest, FindsLanesThatDoNotExchange) {
  std::string text =
      With(kSum, "shfl.sync.bfly.b32 %r4", "setp.ne.u32 %p2, %r1, 3;\n@!%p2 bra $done;\nshfl.sync.bfly.b32 %r4");
  ExpectFault(text, "exchange values without the others", 32);
  ExpectFault(kSum, "exchange values without the others", 16);  // a warp that is not whole
}

// ---- mma.sync -----------------------------------------------------------------

// Layout of the elements of the fragments in the PTX ISA, for each shape: element i of the lane with number t in group
// g.
struct Layout {
  std::string shape, types;
  size_t rows, depth;
  MmaType a_type, b_type;
  size_t a_count, b_count;  // elements of a lane
  size_t (*a_row)(size_t g, size_t i);
  size_t (*a_column)(size_t t, size_t i);
  size_t (*b_row)(size_t t, size_t i);
};

std::vector<Layout> Layouts() {
  std::vector<Layout> all;
  all.push_back({"m16n8k8", "f32.f16.f16.f32", 16, 8, MmaType::kFloat16, MmaType::kFloat16, 4, 2,
                 [](size_t g, size_t i) { return i < 2 ? g : g + 8; },
                 [](size_t t, size_t i) { return t * 2 + (i & 1); }, [](size_t t, size_t i) { return t * 2 + i; }});
  for (MmaType type : {MmaType::kFloat16, MmaType::kBFloat16}) {
    all.push_back({"m16n8k16", type == MmaType::kFloat16 ? "f32.f16.f16.f32" : "f32.bf16.bf16.f32", 16, 16, type, type,
                   8, 4, [](size_t g, size_t i) { return i < 2 || (4 <= i && i < 6) ? g : g + 8; },
                   [](size_t t, size_t i) { return t * 2 + (i & 1) + (i < 4 ? 0 : 8); },
                   [](size_t t, size_t i) { return t * 2 + (i & 1) + (i < 2 ? 0 : 8); }});
  }
  all.push_back({"m16n8k8", "f32.tf32.tf32.f32", 16, 8, MmaType::kTf32, MmaType::kTf32, 4, 2,
                 [](size_t g, size_t i) { return i == 0 || i == 2 ? g : g + 8; },
                 [](size_t t, size_t i) { return i < 2 ? t : t + 4; },
                 [](size_t t, size_t i) { return i == 0 ? t : t + 4; }});
  for (MmaType a : {MmaType::kSigned8, MmaType::kUnsigned8}) {
    for (MmaType b : {MmaType::kSigned8, MmaType::kUnsigned8}) {
      std::string types = std::string("s32.") + (a == MmaType::kSigned8 ? "s8." : "u8.") +
                          (b == MmaType::kSigned8 ? "s8." : "u8.") + "s32";
      all.push_back({"m8n8k16", types, 8, 16, a, b, 4, 4, [](size_t g, size_t) { return g; },
                     [](size_t t, size_t i) { return t * 4 + i; }, [](size_t t, size_t i) { return t * 4 + i; }});
      all.push_back({"m16n8k32", types, 16, 32, a, b, 16, 8,
                     [](size_t g, size_t i) { return i < 4 || (8 <= i && i < 12) ? g : g + 8; },
                     [](size_t t, size_t i) { return t * 4 + (i & 3) + (i < 8 ? 0 : 16); },
                     [](size_t t, size_t i) { return t * 4 + (i & 3) + (i < 4 ? 0 : 16); }});
    }
  }
  return all;
}

size_t Bytes(MmaType type) {
  return type == MmaType::kTf32 ? 4 : type == MmaType::kFloat16 || type == MmaType::kBFloat16 ? 2 : 1;
}

uint32_t Encode(MmaType type, int value) {
  switch (type) {
    case MmaType::kFloat16: return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    case MmaType::kBFloat16: return std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
    case MmaType::kTf32: return std::bit_cast<uint32_t>(static_cast<float>(value));
    case MmaType::kSigned8:
    case MmaType::kUnsigned8: return static_cast<uint8_t>(value);
  }
  return 0;
}

// Returns a warp whose lanes each load the words of a, b and c, multiply, and store the result over c.
std::string MmaText(const Layout& layout) {
  size_t a = layout.a_count * Bytes(layout.a_type) / 4, b = layout.b_count * Bytes(layout.b_type) / 4,
         c = layout.rows / 4, all = a + b + c;
  bool is_later = layout.shape != "m8n8k16" && !(layout.shape == "m16n8k8" && layout.a_type == MmaType::kFloat16);
  std::string text = is_later ? ".version 7.0\n.target sm_80\n" : ".version 6.5\n.target sm_75\n";
  text += ".address_size 64\n.visible .entry multiply(\n.param .u64 multiply_0\n)\n{\n.reg .pred %p<2>;\n";
  text += ".reg .b32 %t;\n.reg .b32 %w<" + std::to_string(all) + ">;\n.reg .b64 %rd<4>;\n";
  text += "ld.param.u64 %rd1, [multiply_0];\nmov.u32 %t, %tid.x;\n";
  text += "mul.wide.u32 %rd2, %t, " + std::to_string(4 * all) + ";\nadd.s64 %rd3, %rd1, %rd2;\n";
  auto word = [](size_t i) { return "%w" + std::to_string(i); };
  auto list = [&](size_t first, size_t count) {
    std::string names;
    for (size_t i = first; i < first + count; ++i) names += (i == first ? "" : ", ") + word(i);
    return "{" + names + "}";
  };
  auto at = [](size_t i) { return "[%rd3+" + std::to_string(4 * i) + "]"; };
  for (size_t i = 0; i < all; ++i) text += "ld.global.u32 " + word(i) + ", " + at(i) + ";\n";
  text += "mma.sync.aligned." + layout.shape + ".row.col." + layout.types + "\n" + list(a + b, c) + ",\n" + list(0, a) +
          ",\n" + list(a, b) + ",\n" + list(a + b, c) + ";\n";
  for (size_t i = a + b; i < all; ++i) text += "st.global.u32 " + at(i) + ", " + word(i) + ";\n";
  return text + "ret;\n}\n";
}

// Matrices, row by row.
struct Factors {
  std::vector<int> a, b, c;
};

Factors RandomFactors(const Layout& layout) {
  std::mt19937 random(7);
  auto fill = [&](MmaType type, size_t count) {
    std::vector<int> values(count);
    for (int& value : values) {
      value = type == MmaType::kUnsigned8 ? static_cast<int>(random() % 256) : static_cast<int>(random() % 201) - 100;
    }
    return values;
  };
  return {fill(layout.a_type, layout.rows * layout.depth), fill(layout.b_type, layout.depth * 8),
          fill(MmaType::kTf32, layout.rows * 8)};
}

size_t SumRow(size_t lane, size_t i) { return lane / 4 + (i < 2 ? 0 : 8); }
size_t SumColumn(size_t lane, size_t i) { return lane % 4 * 2 + (i & 1); }

// Returns the bytes that each lane loads.
std::vector<uint8_t> Lanes(const Layout& layout, const Factors& factors) {
  std::vector<uint8_t> bytes;
  auto put = [&](MmaType type, int value) {
    uint32_t bits = Encode(type, value);
    for (size_t i = 0; i < Bytes(type); ++i) bytes.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  };
  for (size_t lane = 0; lane < 32; ++lane) {
    size_t g = lane / 4, t = lane % 4;
    for (size_t i = 0; i < layout.a_count; ++i) {
      put(layout.a_type, factors.a[layout.a_row(g, i) * layout.depth + layout.a_column(t, i)]);
    }
    for (size_t i = 0; i < layout.b_count; ++i) put(layout.b_type, factors.b[layout.b_row(t, i) * 8 + g]);
    for (size_t i = 0; i < layout.rows / 4; ++i) {
      int value = factors.c[SumRow(lane, i) * 8 + SumColumn(lane, i)];
      bool is_float = layout.types[0] == 'f';
      uint32_t bits = is_float ? Encode(MmaType::kTf32, value) : static_cast<uint32_t>(value);
      for (size_t j = 0; j < 4; ++j) bytes.push_back(static_cast<uint8_t>(bits >> (8 * j)));
    }
  }
  return bytes;
}

// "" or what is wrong; `lanes` then has what they stored.
std::string RunMma(const std::string& text, std::vector<uint8_t>& lanes, uint32_t threads = 32) {
  Module module;
  if (std::string problem = Parse(text, module); !problem.empty()) return problem;
  Memory memory;
  uint64_t address = memory.Allocate(lanes.size());
  std::string problem;
  uint8_t* data = memory.At(address, lanes.size(), problem);
  std::memcpy(data, lanes.data(), lanes.size());
  std::string fault = Run(module.entries.begin()->second, {1, threads}, {address}, 3, memory);
  std::memcpy(lanes.data(), data, lanes.size());
  return fault;
}

// Returns a maximum or a minimum of two float16, given as bits; what the instruction leaves in the lower half of the
// result.
Outcome Extreme(const std::string& instruction, const std::string& target, uint32_t x, uint32_t y) {
  std::string text = std::string(target == "sm_75" ? ".version 6.5" : ".version 7.0") + "\n.target " + target + R"(
.address_size 64
.visible .entry extreme(
.param .u64 extreme_0
)
{
.reg .b16 %rs<4>;
.reg .b32 %r<2>;
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [extreme_0];
mov.b16 %rs1, )" + std::to_string(x) +
                     ";\nmov.b16 %rs2, " + std::to_string(y) + ";\n" + instruction + R"( %rs3, %rs1, %rs2;
cvt.u32.u16 %r1, %rs3;
st.global.u32 [%rd1], %r1;
ret;
}
)";
  Module module;
  if (std::string problem = Parse(text, module); !problem.empty()) return {problem};
  return RunText(text, 1, 0);
}

TEST(PtxTest, ComparesHalves) {
  constexpr uint32_t kOne = 0x3c00, kTwo = 0x4000, kZero = 0, kMinusZero = 0x8000, kNan = 0x7e00;
  for (auto [x, y] : {std::pair(kOne, kTwo), std::pair(kTwo, kOne)}) {
    EXPECT_EQ(Extreme("max.f16", "sm_80", x, y).value, kTwo);
    EXPECT_EQ(Extreme("min.NaN.f16", "sm_80", x, y).value, kOne);
  }
  for (auto [x, y] : {std::pair(kZero, kMinusZero), std::pair(kMinusZero, kZero)}) {
    EXPECT_EQ(Extreme("max.NaN.f16", "sm_80", x, y).value, kZero);
    EXPECT_EQ(Extreme("min.f16", "sm_80", x, y).value, kMinusZero);
  }
  for (auto [x, y] : {std::pair(kOne, kNan), std::pair(kNan, kOne)}) {
    EXPECT_EQ(Extreme("max.f16", "sm_80", x, y).value, kOne);
    EXPECT_GT(Extreme("max.NaN.f16", "sm_80", x, y).value & 0x7fff, 0x7c00u) << "a NaN";
    EXPECT_GT(Extreme("min.NaN.f16", "sm_80", x, y).value & 0x7fff, 0x7c00u) << "a NaN";
  }
  // Compute capability 7.5 has none of them.
  for (const char* instruction : {"max.f16", "max.NaN.f16", "min.NaN.f32"}) {
    EXPECT_NE(Extreme(instruction, "sm_75", kOne, kTwo).fault, "") << instruction;
  }
}

TEST(PtxTest, MultipliesMatrices) {
  for (const Layout& layout : Layouts()) {
    SCOPED_TRACE(layout.shape + " " + layout.types);
    Factors factors = RandomFactors(layout);
    std::vector<uint8_t> lanes = Lanes(layout, factors);
    ASSERT_EQ(RunMma(MmaText(layout), lanes), "");
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t i = 0; i < layout.rows / 4; ++i) {
        size_t row = SumRow(lane, i), column = SumColumn(lane, i);
        int expected = factors.c[row * 8 + column];
        for (size_t k = 0; k < layout.depth; ++k) {
          expected += factors.a[row * layout.depth + k] * factors.b[k * 8 + column];
        }
        uint32_t bits = 0;
        std::memcpy(&bits, &lanes[(lane + 1) * lanes.size() / 32 - layout.rows + 4 * i], 4);
        int sum = layout.types[0] == 'f' ? static_cast<int>(std::bit_cast<float>(bits)) : static_cast<int>(bits);
        EXPECT_EQ(sum, expected) << "lane " << lane << ", sum " << i;
      }
    }
  }
}

void ExpectFaultOfMma(const std::string& text, const std::string& says, uint32_t threads = 32) {
  std::vector<uint8_t> lanes(size_t{32} * 4 * 16, 0xcd);
  std::string fault = RunMma(text, lanes, threads);
  EXPECT_NE(fault.find(says), std::string::npos) << fault;
}

TEST(PtxTest, FindsLanesThatDoNotMultiply) {
  std::string text = MmaText(Layouts()[0]), without = "multiply matrices without the others";
  ExpectFaultOfMma(text, without, 16);
  ExpectFaultOfMma(
      With(With(text, "mma.sync", "setp.eq.u32 %p1, %t, 5;\n@%p1 bra $done;\nmma.sync"), "ret;", "$done:\nret;"),
      without);
}

TEST(PtxTest, FindsWrongMma) {
  std::string of_80 = MmaText(Layouts()[1]), tf32 = MmaText(Layouts()[3]);
  ExpectFaultOfMma(With(of_80, ".version 7.0\n.target sm_80", ".version 6.5\n.target sm_75"), "of a later GPU");
  ExpectFaultOfMma(With(of_80, "m16n8k16", "m16n8k8"), "expected 2 registers");
  ExpectFaultOfMma(With(of_80, "row.col", "row.row"), "unknown instruction");
  ExpectFaultOfMma(tf32, "not rounded to TF32");
}

}  // namespace
}  // namespace ptx
