// Machine code of functions beside their bytecode: results, fuel, limits, errors. vm/assembly_test.cc runs every
// instruction in both ways.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/codegen/kernel_compiler.h"
#include "native/control_compiler.h"
#include "serialization/assembler.h"
#include "vm/limits/limit.h"
#include "vm/link/link_info.h"
#include "vm/machine.h"

namespace rvm::native {
namespace {

using vm::Machine;
using vm::Program;

std::shared_ptr<const VerifiedExecutable> Executable(const std::string& text) {
  auto executable = Assemble(text);
  EXPECT_TRUE(executable.ok()) << executable.status();
  auto verified = Verify(*std::move(executable));
  EXPECT_TRUE(verified.ok()) << verified.status();
  return *verified;
}

std::shared_ptr<const Program> WithControl(const std::string& text, int opt_level = 2) {
  auto executable = Executable(text);
  auto control = CompileControl(*executable, *codegen::ParseHostTarget("host"), {.opt_level = opt_level});
  EXPECT_TRUE(control.ok()) << control.status();
  auto program = Program::LinkWithKernels(executable, {}, nullptr, nullptr, &control->code);
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

Value Int(int64_t value) { return Value::Tensor(Literal::ScalarInt(kInt64, value)); }

std::vector<Value> Args(std::initializer_list<Value> values) { return values; }

// Counts down by tail calls of two functions in turn, directly or through closures; builds lists; nests calls.
constexpr const char* kCalls = R"(
class portable
file "calls.relay"
adt A0 "List[int64]" { "Nil" "Cons" (int64, adt A0) C0 }
cell C0 = constructor adt A0 tag 1 (int64, adt A0)
cell C1 = closure fn (int64, int64) -> int64 F3 (int64,)

entry "even" = F0 ("n", "sum")
entry "closures" = F2 ("n", "sum")
entry "build" = F4 ("n",)
entry "spin" = F5 ("n",)
entry "deep" = F6 ("n",)

function F0 "even" params 2 result int64 {
  r0, r1, r2: int64
code
    load_int r2, 0
    branch_eq_int r0, r2, L0
    add_imm_int r0, r0, -1
    add_imm_int r1, r1, 2
    tail_call F1, [r0, r1]
  L0:
    return r1
}

function F1 "odd" params 2 result int64 {
  r0, r1, r2: int64
code
    load_int r2, 0
    branch_eq_int r0, r2, L0
    add_imm_int r0, r0, -1
    add_imm_int r1, r1, 3
    tail_call F0, [r0, r1]
  L0:
    return r1
}

function F2 "closures" params 2 result int64 {
  r0, r1: int64
  r2: fn (int64, int64) -> int64
code
    make_cell r2, C1, [r0]
    tail_call_closure r2, [r0, r1]
}

function F3 "closure" params 3 result int64 {
  r0: fn (int64, int64) -> int64
  r1, r2, r3: int64
code
    drop r0
    load_int r3, 0
    branch_eq_int r1, r3, L0
    add_imm_int r1, r1, -1
    add_imm_int r2, r2, 1
    tail_call F2, [r1, r2]
  L0:
    return r2
}

function F4 "build" params 1 result adt A0 {
  r0, r1: int64
  r2: adt A0
code
    load_int r1, 0
    branch_eq_int r0, r1, L0
    add_imm_int r1, r0, -1
    call r2, F4, [r1]
    make_cell r2, C0, [r0, r2]
    return r2
  L0:
    load_tag r2, 0
    return r2
}

function F5 "spin" params 1 result int64 {
  r0, r1: int64
code
    load_int r1, 0
  L0:
    add_imm_int r1, r1, 1
    branch_lt_int r1, r0, L0
    return r1
}

function F6 "deep" params 1 result int64 {
  r0: int64
  r1: adt A0
code
    call r1, F4, [r0]
    get_field r0, r1, C0, 0
    drop r1
    return r0
}
)";

// Loops that know how often they run: tested first, tested last, with another exit, one in the other, downward in
// steps, with cells.
constexpr const char* kLoops = R"(
class portable
file "loops.relay"
adt A0 "List[int64]" { "Nil" "Cons" (int64, adt A0) C0 }
cell C0 = constructor adt A0 tag 1 (int64, adt A0)

entry "squares" = F0 ("n",)
entry "first" = F1 ("n", "k")
entry "nested" = F2 ("n", "m")
entry "down" = F3 ("n",)
entry "list" = F4 ("n",)
entry "spin" = F5 ("n",)
entry "large" = F6 ("n",)

function F0 "squares" params 1 result int64 {
  r0, r1, r2, r3: int64
code
    load_int r1, 0
    load_int r2, 0
  L0:
    branch_ne_int r1, r0, L1
    return r2
  L1:
    mul_int r3, r1, r1
    add_imm_int r1, r1, 1
    add_int r2, r2, r3
    jump L0
}

function F1 "first" params 2 result int64 {
  r0, r1, r2, r3: int64
code
    load_int r2, 0
  L0:
    branch_ne_int r2, r0, L1
    call r3, F0, [r2]
    return r3
  L1:
    mul_int r3, r2, r2
    branch_lt_int r1, r3, L2
    add_imm_int r2, r2, 1
    jump L0
  L2:
    call r2, F0, [r2]
    add_int r3, r3, r2
    return r3
}

function F2 "nested" params 2 result int64 {
  r0, r1, r2, r3, r4, r5: int64
code
    load_int r2, 0
    load_int r4, 0
  L0:
    load_int r3, 0
  L1:
    mul_int r5, r2, r3
    add_int r4, r4, r5
    add_imm_int r3, r3, 1
    branch_lt_int r3, r1, L1
    add_imm_int r2, r2, 1
    branch_lt_int r2, r0, L0
    return r4
}

function F3 "down" params 1 result int64 {
  r0, r1, r2: int64
code
    load_int r1, 0
    load_int r2, 0
  L0:
    add_int r1, r1, r0
    add_imm_int r0, r0, -3
    branch_lt_int r2, r0, L0
    return r1
}

function F4 "list" params 1 result adt A0 {
  r0, r1: int64
  r2: adt A0
code
    load_int r1, 0
    load_tag r2, 0
  L0:
    branch_ne_int r1, r0, L1
    return r2
  L1:
    make_cell r2, C0, [r1, r2]
    add_imm_int r1, r1, 1
    jump L0
}

function F5 "spin" params 1 result int64 {
  r0, r1: int64
code
    load_int r1, 0
  L0:
    add_imm_int r1, r1, 1
    branch_lt_int r1, r0, L0
    return r1
}

function F6 "large" params 1 result int64 {
  r0, r1, r2: int64
code
    load_int r1, 0
    load_int r2, 1
  L0:
    add_imm_int r1, r1, 1
    add_int r2, r2, r0
    mul_int r2, r2, r1
    add_int r2, r2, r1
    mul_int r2, r2, r0
    add_int r2, r2, r1
    mul_int r2, r2, r1
    add_int r2, r2, r0
    mul_int r2, r2, r1
    add_int r2, r2, r1
    mul_int r2, r2, r0
    add_int r2, r2, r1
    mul_int r2, r2, r1
    add_int r2, r2, r0
    mul_int r2, r2, r1
    add_int r2, r2, r1
    mul_int r2, r2, r0
    add_int r2, r2, r1
    mul_int r2, r2, r1
    add_int r2, r2, r0
    mul_int r2, r2, r1
    branch_lt_int r1, r0, L0
    return r2
}
)";

class ControlTest : public ::testing::Test {
 protected:
  void Load(const std::string& text) {
    program_ = WithControl(text);
    ASSERT_NE(program_, nullptr);
    bytecode_ = *Machine::Create(program_, {.runs_bytecode = true});
    native_ = *Machine::Create(program_, {});
  }
  // Returns the result or the error, as text, after a comparison of both.
  std::string Both(const std::string& entry, const std::vector<Value>& args, int64_t fuel = -1) {
    auto text = [&](Machine& machine) {
      auto result = machine.Invoke(entry, args, {.fuel = fuel});
      return result.ok() ? result->ToString() : result.status().ToString();
    };
    std::string expected = text(*bytecode_), seen = text(*native_);
    EXPECT_EQ(seen, expected) << entry << " with fuel " << fuel;
    EXPECT_EQ(native_->stats().live_objects, 0);
    return seen;
  }

  std::shared_ptr<const Program> program_;
  std::unique_ptr<Machine> bytecode_, native_;
};

TEST_F(ControlTest, TailCallsNeedNoStack) {
  Load(kCalls);
  auto small = *Machine::Create(program_, {.stack_limit_bytes = 64 << 10});
  EXPECT_EQ(small->Invoke("even", Args({Int(100'000'000), Int(0)}))->ToString(), "250000000i64");
  EXPECT_EQ(small->Invoke("closures", Args({Int(100'000'000), Int(0)}))->ToString(), "100000000i64");
}

TEST_F(ControlTest, DeepCallsEndAtTheLimit) {
  Load(kCalls);
  EXPECT_TRUE(native_->Invoke("build", Args({Int(3'000'000)})).ok());
  auto small = *Machine::Create(program_, {.stack_limit_bytes = 1 << 20});
  auto result = small->Invoke("build", Args({Int(3'000'000)}));
  EXPECT_EQ(vm::ReachedLimit(result.status()), vm::Limit::kStack) << result.status();
  std::string message(result.status().message());
  EXPECT_NE(message.find("calls are nested too deeply: the stack limit is 1 MiB"), std::string::npos) << message;
  EXPECT_NE(message.find("more frames of `build`"), std::string::npos) << message;
  EXPECT_EQ(small->stats().live_objects, 0);
  // The machine is as good as new.
  EXPECT_EQ(small->Invoke("build", Args({Int(2)}))->ToString(), "Cons(2i64, Cons(1i64, Nil))");
  auto least = *Machine::Create(program_, {.stack_limit_bytes = 0});
  EXPECT_EQ(least->Invoke("spin", Args({Int(5)}))->ToString(), "5i64");
  EXPECT_EQ(vm::ReachedLimit(least->Invoke("build", Args({Int(1'000'000)})).status()), vm::Limit::kStack);
}

// A list of ten million cells, each made behind the call that makes the rest.
TEST_F(ControlTest, TenMillionCallsNest) {
  Load(kCalls);
  EXPECT_EQ(Both("deep", {Int(10'000'000)}), "10000000i64");
}

TEST_F(ControlTest, FuelIsTheSame) {
  Load(kCalls);
  for (int64_t fuel = 0; fuel < 210; ++fuel) {
    Both("even", {Int(200), Int(0)}, fuel);
    Both("closures", {Int(100), Int(0)}, fuel);
    Both("build", {Int(200)}, fuel);
    Both("spin", {Int(200)}, fuel);
  }
  // Beyond one budget.
  for (int64_t fuel : {1024, 1025, 5120, 16384, 49'999, 50'000, 50'001}) {
    Both("spin", {Int(50'001)}, fuel);
    Both("even", {Int(50'000), Int(0)}, fuel);
  }
  EXPECT_EQ(Both("spin", {Int(50'001)}, 50'000), "50001i64");
  EXPECT_NE(Both("spin", {Int(50'001)}, 49'999).find("out of fuel"), std::string::npos);
}

TEST_F(ControlTest, LoopsPayForWhatTheyRun) {
  Load(kLoops);
  for (int64_t n : {0, 1, 2, 3, 4, 5, 8}) {
    for (int64_t fuel = 0; fuel < 5 * n + 3; ++fuel) {
      Both("squares", {Int(n)}, fuel);
      Both("list", {Int(n)}, fuel);
      Both("down", {Int(n)}, fuel);
      Both("spin", {Int(n)}, fuel);
      Both("large", {Int(n)}, fuel);
      Both("first", {Int(n), Int(30)}, fuel);
      Both("nested", {Int(n), Int(4)}, fuel);
    }
  }
  // The first poll of a run comes after so many payments; later ones come by time.
  constexpr int64_t kBudget = 1024;
  for (int64_t n : {kBudget - 1, kBudget, kBudget + 1, 2 * kBudget, 5 * kBudget, 5 * kBudget + 1, 21 * kBudget}) {
    for (int64_t more = -2; more <= 2; ++more) {
      for (const char* entry : {"squares", "spin", "large"}) Both(entry, {Int(n)}, n + more);
      Both("first", {Int(n + 1), Int((n - 1) * (n - 1))}, 2 * n + more);
      Both("nested", {Int(2), Int(n)}, 2 * n + more);
      Both("down", {Int(3 * n)}, n + more);
    }
  }
  Both("list", {Int(kBudget)}, kBudget);
  Both("list", {Int(kBudget)}, kBudget + 1);
  EXPECT_EQ(Both("squares", {Int(100'000)}), "333328333350000i64");
  EXPECT_NE(Both("squares", {Int(-1)}, 1'000'000).find("out of fuel"), std::string::npos);
}

// A loop that runs in strips polls where one ends, and, if its last iteration pays, behind the loop.
TEST(ControlCodeTest, CountedLoopsRunInStrips) {
  auto control = CompileControl(*Executable(kLoops), *codegen::ParseHostTarget("x86-64"), {.keep_ir = true});
  ASSERT_TRUE(control.ok()) << control.status();
  auto polls_of = [&](int function) {
    const std::string& text = control->assembly;
    size_t begin = text.find(absl::StrCat("\nrvm_f", function, ":"));
    EXPECT_NE(begin, std::string::npos);
    int polls = 0;
    for (size_t end = text.find(absl::StrCat("size\trvm_f", function)), at = begin;
         (at = text.find("rvm_poll", at + 1)) < end;) {
      ++polls;
    }
    return polls;
  };
  EXPECT_EQ(polls_of(0), 2);  // squares
  EXPECT_EQ(polls_of(4), 2);  // list
  EXPECT_EQ(polls_of(5), 2);  // spin
}

TEST_F(ControlTest, EveryAllocationMayFail) {
  Load(kCalls);
  for (int64_t n = 1; n <= 210; ++n) {
    auto bytecode = *Machine::Create(program_, {.runs_bytecode = true, .fail_allocation = n});
    auto native = *Machine::Create(program_, {.fail_allocation = n});
    for (const char* entry : {"build", "closures"}) {
      std::vector<Value> args = {Int(100)};
      if (entry == std::string("closures")) args.push_back(Int(0));
      auto expected = bytecode->Invoke(entry, args);
      auto seen = native->Invoke(entry, args);
      EXPECT_EQ(seen.status(), expected.status()) << entry << " " << n;
      EXPECT_EQ(native->stats().live_objects, 0);
      EXPECT_EQ(native->stats().allocations, bytecode->stats().allocations) << entry << " " << n;
    }
  }
}

TEST_F(ControlTest, PollsMayCancel) {
  Load(kCalls);
  struct Hook {
    int calls = 0;
  } hook;
  auto poll = [](void* context) { return ++static_cast<Hook*>(context)->calls == 2 ? 1 : 0; };
  auto result = native_->Invoke("spin", Args({Int(int64_t{1} << 62)}), {.poll = poll, .poll_context = &hook});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << result.status();
  EXPECT_EQ(hook.calls, 2);
  EXPECT_NE(std::string(result.status().message()).find("in `spin`"), std::string::npos) << result.status();
  auto limited = native_->Invoke("spin", Args({Int(int64_t{1} << 62)}), {.time_limit_ms = 20});
  EXPECT_EQ(vm::ReachedLimit(limited.status()), vm::Limit::kTime) << limited.status();
  EXPECT_EQ(native_->Invoke("spin", Args({Int(7)}))->ToString(), "7i64");
}

TEST_F(ControlTest, TrimGivesTheStackBack) {
  Load(kCalls);
  EXPECT_TRUE(native_->Invoke("build", Args({Int(100'000)})).ok());
  native_->Trim();
  EXPECT_TRUE(native_->Invoke("build", Args({Int(100'000)})).ok());
}

TEST_F(ControlTest, EveryPollMayCancel) {
  Load(kCalls);
  struct Hook {
    int calls, last;
  };
  auto poll = [](void* context) {
    auto* hook = static_cast<Hook*>(context);
    return ++hook->calls == hook->last ? 1 : 0;
  };
  for (Machine* machine : {native_.get(), bytecode_.get()}) {
    for (int last = 1; last <= 4; ++last) {
      Hook hook = {0, last};
      auto result =
          machine->Invoke("closures", Args({Int(int64_t{1} << 62), Int(0)}), {.poll = poll, .poll_context = &hook});
      EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << last << ": " << result.status();
      EXPECT_EQ(hook.calls, last);
      EXPECT_EQ(machine->stats().live_objects, 0) << last;
    }
    EXPECT_EQ(machine->Invoke("build", Args({Int(2)}))->ToString(), "Cons(2i64, Cons(1i64, Nil))");
  }
}

// Functions of `count` parameters of every kind that return up to six fields, called and tail-called.
std::string Signatures(int count) {
  constexpr const char* kTypes[] = {"int64", "float32", "float64", "bool", "int32"};
  std::string params, loads, names, pass, fields, sum = "    load_int r200, 0\n";
  auto type = [&](int i) { return std::string(kTypes[i % 5]); };
  int returned = std::min(count, 6);
  std::string tuple = "(";
  for (int i = 0; i < returned; ++i) absl::StrAppend(&tuple, i > 0 ? ", " : "", type(i));
  tuple += returned == 1 ? ",)" : ")";
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&params, "  r", i, ": ", type(i), "\n");
    absl::StrAppend(&names, i > 0 ? ", " : "", "\"p", i, "\"");
    absl::StrAppend(&pass, i > 0 ? ", " : "", "r", i);
    if (i < returned) absl::StrAppend(&fields, i > 0 ? ", " : "", "r", i);
  }
  std::string trailing = count == 1 ? "," : "";
  return absl::StrCat("class portable\ncell C0 = tuple ", tuple, " ", tuple, "\n", "entry \"main\" = F0 (", names,
                      trailing, ")\n\nfunction F0 \"main\" params ", count, " result ", tuple, " {\n", params, "  r",
                      count, ": ", tuple, "\ncode\n    call_fields [", fields, "], F1, [", pass, "]\n    make_cell r",
                      count, ", C0, [", fields, "]\n    return r", count, "\n}\n\nfunction F1 \"middle\" params ",
                      count, " result fields ", tuple, " {\n", params, "code\n    tail_call F2, [", pass,
                      "]\n}\n\nfunction F2 \"last\" params ", count, " result fields ", tuple, " {\n", params,
                      "code\n    return_fields [", fields, "]\n}\n");
}

TEST_F(ControlTest, SignaturesOfAllSizes) {
  for (int count = 1; count <= 20; ++count) {
    Load(Signatures(count));
    std::vector<Value> args;
    for (int i = 0; i < count; ++i) {
      switch (i % 5) {
        case 0: args.push_back(Int(int64_t{i} + 1000)); break;
        case 1: args.push_back(Value::Tensor(Literal::Scalar(kFloat32, i + 0.5))); break;
        case 2: args.push_back(Value::Tensor(Literal::Scalar(kFloat64, i + 0.25))); break;
        case 3: args.push_back(Value::Tensor(Literal::ScalarInt(kBool, i % 2))); break;
        default: args.push_back(Value::Tensor(Literal::ScalarInt(kInt32, -i)));
      }
    }
    EXPECT_EQ(Both("main", args).find("error"), std::string::npos) << count;
  }
}

TEST(ControlCodeTest, OtherAbisAndFilesWithoutCodeRunAsBytecode) {
  auto executable = Executable(kCalls);
  auto control = *CompileControl(*executable, *codegen::ParseHostTarget("host"), {});
  std::vector<ControlCode> same = {control.code}, other_abi = same;
  ++other_abi[0].abi_version;
  for (const std::vector<ControlCode>& codes : {same, other_abi, {}}) {
    rvm::Executable with_code = **executable;
    with_code.control_codes = codes;
    auto verified = Verify(std::move(with_code));
    ASSERT_TRUE(verified.ok()) << verified.status();
    auto trusted = *Program::Link(*verified, {.allow_native = true});
    auto untrusted = *Program::Link(*verified, {});
    EXPECT_EQ(trusted->link_info().native != nullptr, codes == same);
    EXPECT_EQ(untrusted->link_info().native, nullptr);
    for (const auto& program : {trusted, untrusted}) {
      auto machine = *Machine::Create(program, {});
      EXPECT_EQ(machine->Invoke("spin", Args({Int(9)}))->ToString(), "9i64");
    }
  }
}

TEST(ControlCodeTest, SameBytecodeSameBytes) {
  auto executable = Executable(kCalls);
  for (const char* target : {"x86-64", "x86-64-v3", "aarch64"}) {
    auto first = CompileControl(*executable, *codegen::ParseHostTarget(target), {});
    auto second = CompileControl(*executable, *codegen::ParseHostTarget(target), {});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(first->code, second->code) << target;
    EXPECT_FALSE(first->code.functions[4].places.empty()) << target;
  }
}

TEST(ControlCodeTest, AllLevels) {
  for (int level = 0; level <= 3; ++level) {
    auto machine = *Machine::Create(WithControl(kCalls, level), {});
    EXPECT_EQ(machine->Invoke("even", Args({Int(100'001), Int(0)}))->ToString(), "250002i64") << level;
    EXPECT_TRUE(machine->Invoke("build", Args({Int(1000)})).ok()) << level;
  }
}

}  // namespace
}  // namespace rvm::native
