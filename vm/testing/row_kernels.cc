#include "vm/testing/row_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialization/assembler.h"

namespace rvm::vm::testing {

std::vector<std::string>& Ran() {
  static std::vector<std::string> ran;
  return ran;
}

std::string Calls() { return absl::StrJoin(Ran(), ", "); }

namespace {

// Results of kernels that update, by first use.
std::vector<const void*>& Places() {
  static std::vector<const void*> places;
  return places;
}

void LogUpdate(const char* kernel, const void* result) {
  std::vector<const void*>& places = Places();
  const auto found = std::ranges::find(places, result);
  Ran().push_back(absl::StrCat(kernel, " at ", found - places.begin()));
  if (found == places.end()) places.push_back(result);
}

void Log(const char* kernel, int64_t rows) { Ran().push_back(absl::StrCat(kernel, " ", rows)); }

// Kernels that make one call, or as many as the first dim says, of a function of the number of rows.
template <void (*kRows)(void* const* buffers, int64_t rows)>
int32_t One(void* const* buffers, const int64_t*, RvmKernelContext*) {
  kRows(buffers, 1);
  return kRvmOk;
}
template <void (*kRows)(void* const* buffers, int64_t rows)>
int32_t Many(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  kRows(buffers, dims[0]);
  return kRvmOk;
}

// h + x w, for rows of 2.
void MixRows(void* const* buffers, int64_t rows) {
  const auto* x = static_cast<const float*>(buffers[0]);
  const auto* h = static_cast<const float*>(buffers[1]);
  const auto* w = static_cast<const float*>(buffers[2]);
  auto* out = static_cast<float*>(buffers[3]);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < 2; ++j) out[2 * i + j] = h[2 * i + j] + x[2 * i] * w[j] + x[2 * i + 1] * w[2 + j];
  }
  Log("mix", rows);
}

// Row `i` of a table of `size` rows of 2.
int32_t TakeRows(void* const* buffers, int64_t size, int64_t rows) {
  const auto* table = static_cast<const float*>(buffers[0]);
  const auto* indices = static_cast<const int32_t*>(buffers[1]);
  auto* out = static_cast<float*>(buffers[2]);
  Log("row", rows);
  for (int64_t i = 0; i < rows; ++i) {
    if (indices[i] < 0 || indices[i] >= size) return kRvmIndexOutOfRange;
    for (int64_t j = 0; j < 2; ++j) out[2 * i + j] = table[2 * indices[i] + j];
  }
  return kRvmOk;
}
int32_t Row(void* const* buffers, const int64_t* dims, RvmKernelContext*) { return TakeRows(buffers, dims[0], 1); }
int32_t RowBatch(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  return TakeRows(buffers, dims[0], dims[1]);
}

int32_t Total(void* const* buffers, const int64_t*, RvmKernelContext*) {
  const auto* x = static_cast<const float*>(buffers[0]);
  *static_cast<float*>(buffers[1]) = x[0] + x[1];
  Log("total", 1);
  return kRvmOk;
}

int32_t Round(void* const* buffers, const int64_t*, RvmKernelContext*) {
  for (int64_t i = 0; i < 2; ++i) {
    static_cast<int32_t*>(buffers[1])[i] = static_cast<int32_t>(static_cast<const float*>(buffers[0])[i]);
  }
  Log("round", 1);
  return kRvmOk;
}

// Has no variant; of any length.
int32_t Twice(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  for (int64_t i = 0; i < dims[0]; ++i) {
    static_cast<float*>(buffers[1])[i] = 2 * static_cast<const float*>(buffers[0])[i];
  }
  Log("twice", 1);
  return kRvmOk;
}

// Has no variant; a vector of any length gives a number.
int32_t Sum(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  float sum = 0;
  for (int64_t i = 0; i < dims[0]; ++i) sum += static_cast<const float*>(buffers[0])[i];
  *static_cast<float*>(buffers[1]) = sum;
  Log("sum", 1);
  return kRvmOk;
}

// x + w[0], for rows of any length.
void ShiftRows(void* const* buffers, int64_t rows, int64_t length) {
  float by = *static_cast<const float*>(buffers[1]);
  for (int64_t i = 0; i < rows * length; ++i) {
    static_cast<float*>(buffers[2])[i] = static_cast<const float*>(buffers[0])[i] + by;
  }
  Log("shift", rows);
}
int32_t Shift(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  ShiftRows(buffers, 1, dims[0]);
  return kRvmOk;
}
int32_t ShiftBatch(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  ShiftRows(buffers, dims[0], dims[1]);
  return kRvmOk;
}

// The product with w, a number that control reads at once.
void ScoreRows(void* const* buffers, int64_t rows) {
  const auto* x = static_cast<const float*>(buffers[0]);
  const auto* w = static_cast<const float*>(buffers[1]);
  for (int64_t i = 0; i < rows; ++i) static_cast<float*>(buffers[2])[i] = x[2 * i] * w[0] + x[2 * i + 1] * w[1];
  Log("score", rows);
}

// sum + x y, for rows that are added to one.
void AddRows(void* const* buffers, int64_t rows) {
  const auto* sum = static_cast<const float*>(buffers[0]);
  const auto* x = static_cast<const float*>(buffers[1]);
  const auto* y = static_cast<const float*>(buffers[2]);
  auto* out = static_cast<float*>(buffers[3]);
  for (int64_t j = 0; j < 2; ++j) {
    float total = sum[j];
    for (int64_t i = 0; i < rows; ++i) total += x[2 * i + j] * y[2 * i + j];
    out[j] = total;
  }
  Log("add", rows);
}

int32_t Turn(void* const* buffers, const int64_t*, RvmKernelContext*) {
  const auto* w = static_cast<const float*>(buffers[0]);
  auto* out = static_cast<float*>(buffers[1]);
  Log("turn", 1);
  if (w[0] == 13) return kRvmIndexOutOfRange;
  for (int64_t i = 0; i < 4; ++i) out[i] = w[i / 2 + i % 2 * 2];
  return kRvmOk;
}

// x w, for rows of 2. `kTurned`: w is transposed.
template <bool kTurned>
void BlendRows(void* const* buffers, int64_t rows) {
  const auto* x = static_cast<const float*>(buffers[0]);
  const auto* w = static_cast<const float*>(buffers[1]);
  auto* out = static_cast<float*>(buffers[2]);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < 2; ++j)
      out[2 * i + j] = x[2 * i] * w[kTurned ? 2 * j : j] + x[2 * i + 1] * w[kTurned ? 2 * j + 1 : 2 + j];
  }
  Log("blend", rows);
}

int32_t Double(void* const* buffers, const int64_t*, RvmKernelContext*) {
  for (int64_t i = 0; i < 4; ++i) static_cast<float*>(buffers[1])[i] = 2 * static_cast<const float*>(buffers[0])[i];
  Log(buffers[0] == buffers[1] ? "double in place" : "double", 1);
  return kRvmOk;
}

int32_t Append(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  std::copy_n(static_cast<const float*>(buffers[1]), 2, static_cast<float*>(buffers[2]) + 2 * dims[0]);
  LogUpdate("append", buffers[2]);
  return kRvmOk;
}

// Adds x to a row of a matrix.
void AddToRow(const void* matrix, const float* x, void* result, int64_t row) {
  for (int64_t j = 2 * row; j < 2 * row + 2; ++j)
    static_cast<float*>(result)[j] = static_cast<const float*>(matrix)[j] + x[j - 2 * row];
}

int32_t Put(void* const* buffers, const int64_t*, RvmKernelContext*) {
  AddToRow(buffers[0], static_cast<const float*>(buffers[1]), buffers[2], 0);
  LogUpdate("put", buffers[2]);
  return kRvmOk;
}

int32_t Puts(void* const* buffers, const int64_t*, RvmKernelContext*) {
  for (int64_t row : {0, 1}) {
    AddToRow(buffers[0], static_cast<const float*>(buffers[1]), buffers[2 + row], row);
    LogUpdate("puts", buffers[2 + row]);
  }
  return kRvmOk;
}

constexpr char kKernels[] = R"(
  file "p.relay"
  type T0 = Tensor[(2), float32]
  type T1 = Tensor[(?), float32]
  type T2 = Tensor[(1, 2), float32]
  constant K0 = float32 (2, 2) [1, 0, 0, 1]
  constant K1 = float32 (3, 2) [10, 11, 20, 21, 30, 31]
  constant K2 = float32 (1) [5]
  constant K3 = float32 (2, 2) [2, 0, 0, 2]
  constant K4 = float32 (2) [1, 2]
  kernel N0 "mix" "mix" () {
    param float32 (2) param float32 (2) param float32 (2, 2) result float32 (2) workspace 0 }
  kernel N1 "mix_batch" "mix_batch" ("b") {
    param float32 ($0, 2) param float32 ($0, 2) param float32 (2, 2) result float32 ($0, 2) workspace 0 }
  kernel N2 "row" "row" ("n") { param float32 ($0, 2) param int32 () result float32 (2) workspace 0 }
  kernel N3 "row_batch" "row_batch" ("n", "b") {
    param float32 ($0, 2) param int32 ($1) result float32 ($1, 2) workspace 64 }
  kernel N4 "total" "total" () { param float32 (2) result float32 () workspace 0 }
  kernel N5 "twice" "twice" ("n") { param float32 ($0) result float32 ($0) workspace 0 }
  kernel N6 "shift" "shift" ("n") { param float32 ($0) param float32 (1) result float32 ($0) workspace 0 }
  kernel N7 "shift_batch" "shift_batch" ("b", "n") {
    param float32 ($0, $1) param float32 (1) result float32 ($0, $1) workspace 0 }
  kernel N8 "score" "score" () { param float32 (2) param float32 (2) result float32 () workspace 0 }
  kernel N9 "score_batch" "score_batch" ("b") {
    param float32 ($0, 2) param float32 (2) result float32 ($0) workspace 0 }
  kernel N10 "round" "round" () { param float32 (2) result int32 (2) workspace 0 }
  kernel N11 "sum" "sum" ("n") { param float32 ($0) result float32 () workspace 0 }
  kernel N12 "wrong" "wrong" ("n") { param float32 ($0) result float32 ($0) workspace (0 - $0) }
  kernel N13 "add" "add" () {
    param float32 (2) param float32 (2) param float32 (2) result float32 (2) workspace 0 reuse 0 0 }
  kernel N14 "add_batch" "add_batch" ("b") {
    param float32 (2) param float32 ($0, 2) param float32 ($0, 2) result float32 (2) workspace 0 reuse 0 0 }
  kernel N15 "turn" "turn" () { param float32 (2, 2) result float32 (2, 2) workspace 0 }
  kernel N16 "blend" "blend" () { param float32 (2) param float32 (2, 2) result float32 (2) workspace 0 }
  kernel N17 "blend_batch" "blend_batch" ("b") {
    param float32 ($0, 2) param float32 (2, 2) result float32 ($0, 2) workspace 0 }
  kernel N18 "double" "double" () { param float32 (2, 2) result float32 (2, 2) workspace 0 reuse 0 0 }
  kernel N19 "append" "append" ("n") {
    param float32 ($0, 2) param float32 (2) result float32 (($0 + 1), 2) workspace 0 update 0 0 }
  kernel N20 "put" "put" () {
    param float32 (2, 2) param float32 (2) result float32 (2, 2) workspace 0 update 0 0 }
  kernel N21 "puts" "puts" () {
    param float32 (2, 2) param float32 (2) result float32 (2, 2) result float32 (2, 2) workspace 0
    update 0 0 update 1 0 }
  batch N0 N1 (2)
  batch N2 N3 (0)
  batch N6 N7 (1)
  batch N8 N9 (1)
  batch N13 N14 (0) other_sums adds_to 0
  batch N16 N17 (1) other_sums arranged (1 N15)
)";

}  // namespace

std::shared_ptr<const Program> LinkRowKernels(const std::string& functions) {
  auto executable = Assemble(kKernels + functions);
  EXPECT_TRUE(executable.ok()) << executable.status();
  auto verified = Verify(*std::move(executable));
  EXPECT_TRUE(verified.ok()) << verified.status();
  auto program = Program::LinkWithKernels(
      *verified,
      {One<MixRows>,          Many<MixRows>,         Row,    RowBatch, Total, Twice,        Shift,         ShiftBatch,
       One<ScoreRows>,        Many<ScoreRows>,       Round,  Sum,      Twice, One<AddRows>, Many<AddRows>, Turn,
       One<BlendRows<false>>, Many<BlendRows<true>>, Double, Append,   Put,   Puts});
  EXPECT_TRUE(program.ok()) << program.status();
  Ran().clear();
  Places().clear();
  return *program;
}

}  // namespace rvm::vm::testing
