// Runs testdata/*.rvmasm: programs in assembly that say in comments what they give.
//
//   ; run: add(1, 2) => 3              the entry `add` on these values, and its value
//   ; fails: get(Nil) => part of the message
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/codegen/kernel_compiler.h"
#include "native/control_compiler.h"
#include "serialization/assembler.h"
#include "serialization/isa/isa.h"
#include "vm/machine.h"
#include "vm/profiler/profiler.h"
#include "vm/values/value_text.h"

namespace rvm::vm {
namespace {

// Returns the kernels that programs here may name.
int32_t Add(const float* a, const float* b, float* sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
  return kRvmOk;
}
int32_t AddFour(void* const* buffers, const int64_t*, RvmKernelContext*) {
  return Add(static_cast<const float*>(buffers[0]), static_cast<const float*>(buffers[1]),
             static_cast<float*>(buffers[2]), 4);
}
int32_t AddAndCount(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  *static_cast<int32_t*>(buffers[3]) = static_cast<int32_t>(dims[0]);
  return Add(static_cast<const float*>(buffers[0]), static_cast<const float*>(buffers[1]),
             static_cast<float*>(buffers[2]), dims[0]);
}

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("vm/testdata")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// `1, (2, 3), [4]` at the commas that are in no bracket.
std::vector<std::string> SplitArguments(const std::string& text) {
  std::vector<std::string> parts;
  int depth = 0;
  bool is_new = true;
  for (char c : text) {
    if (c == ',' && depth == 0) {
      is_new = true;
      continue;
    }
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (is_new) parts.emplace_back();
    is_new = false;
    parts.back() += c;
  }
  return parts;
}

class AssemblyTest : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  void Load(const std::string& text) {
    auto executable = Assemble(text);
    ASSERT_TRUE(executable.ok()) << executable.status();
    auto verified = Verify(*std::move(executable));
    ASSERT_TRUE(verified.ok()) << verified.status();
    std::vector<RvmKernel> kernels;
    for (const KernelDesc& desc : (**verified)->kernels)
      kernels.push_back(desc.symbol == "add4" ? AddFour : AddAndCount);
    auto control = native::CompileControl(**verified, *codegen::ParseHostTarget("host"), {});
    ASSERT_TRUE(control.ok()) << control.status();
    program_ = *Program::LinkWithKernels(*verified, kernels, nullptr, nullptr, &control->code);
    machine_ = *Machine::Create(program_, {.runs_bytecode = true});
    native_ = *Machine::Create(program_, {});
    watched_ = *Machine::Create(program_, {.profiler = &profiler_});
  }

  // Returns the value of `entry(arguments)` as text, or the error.
  absl::StatusOr<std::string> Run(const std::string& call) {
    size_t open = call.find('(');
    const Entry* entry = program_->executable().FindEntry(call.substr(0, open));
    if (entry == nullptr) return absl::NotFoundError(call);
    const FunctionDesc& function = program_->executable().functions[entry->function.value];
    std::vector<Value> values;
    for (const std::string& part : SplitArguments(call.substr(open + 1, call.rfind(')') - open - 1))) {
      auto value = ParseValueText(program_->executable(), function.registers[values.size()].type, part);
      if (!value.ok()) return value.status();
      values.push_back(*std::move(value));
    }
    auto result = machine_->Invoke(entry->name, values);
    EXPECT_EQ(machine_->stats().leaked_objects, 0) << call;
    auto watched = watched_->Invoke(entry->name, values);
    EXPECT_EQ(watched.status(), result.status()) << call;
    EXPECT_EQ(watched_->stats().allocations, machine_->stats().allocations) << call;
    auto native = native_->Invoke(entry->name, values);
    EXPECT_EQ(native_->stats().leaked_objects, 0) << call;
    EXPECT_EQ(native.status(), result.status()) << call;
    EXPECT_EQ(native_->stats().allocations, machine_->stats().allocations) << call;
    EXPECT_EQ(native_->stats().peak_bytes, machine_->stats().peak_bytes) << call;
    auto limited_bytecode = *Machine::Create(program_, {.runs_bytecode = true});
    auto limited_native = *Machine::Create(program_, {});
    for (int64_t fuel = 0; fuel < 100; ++fuel) {
      auto with_bytecode = limited_bytecode->Invoke(entry->name, values, {.fuel = fuel});
      auto with_native = limited_native->Invoke(entry->name, values, {.fuel = fuel});
      EXPECT_EQ(with_native.status(), with_bytecode.status()) << call << " with fuel " << fuel;
      if (with_bytecode.ok()) break;
    }
    if (!result.ok()) return result.status();
    EXPECT_EQ(watched->ToString(), result->ToString()) << call;
    EXPECT_EQ(native->ToString(), result->ToString()) << call;
    return result->ToString();
  }

  std::shared_ptr<const Program> program_;
  std::unique_ptr<Machine> machine_;
  // Runs everything as machine code, too: results, errors with their places, fuel and counts are the same.
  std::unique_ptr<Machine> native_;
  // Runs everything, too: a profiler changes nothing.
  Profiler profiler_;
  std::unique_ptr<Machine> watched_;
};

TEST_P(AssemblyTest, GivesWhatItSays) {
  std::string text = ReadFile(GetParam());
  ASSERT_NO_FATAL_FAILURE(Load(text));
  std::istringstream lines(text);
  int cases = 0;
  for (std::string line; std::getline(lines, line);) {
    bool fails = line.starts_with("; fails: ");
    if (!fails && !line.starts_with("; run: ")) continue;
    ++cases;
    size_t start = line.find(": ") + 2;
    size_t arrow = line.find(" => ");
    ASSERT_NE(arrow, std::string::npos) << line;
    auto result = Run(line.substr(start, arrow - start));
    std::string expected = line.substr(arrow + 4);
    if (fails) {
      EXPECT_NE(std::string(result.status().message()).find(expected), std::string::npos) << line << "\n"
                                                                                          << result.status();
    } else {
      EXPECT_TRUE(result.ok() && *result == expected) << line << "\n"
                                                      << (result.ok() ? *result : result.status().ToString());
    }
  }
  EXPECT_GT(cases, 0);
}

INSTANTIATE_TEST_SUITE_P(Files, AssemblyTest, ::testing::ValuesIn(Files()),
                         [](const auto& info) { return info.param.stem().string(); });

TEST(AssemblyCoverageTest, EveryOpcodeIsRun) {
  std::string all;
  for (const auto& path : Files()) all += ReadFile(path);
  std::string missing;
  for (const OpcodeSpec& spec : kIsa) {
    std::string mnemonic(spec.mnemonic);
    if (all.find("\n    " + mnemonic + " ") == std::string::npos) missing += " " + mnemonic;
  }
  EXPECT_EQ(missing, "") << "no program in vm/testdata contains these";
}

}  // namespace
}  // namespace rvm::vm
