// Runs what tests/programs/*.relay say, as machine code of functions and as bytecode.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/long_tests.h"
#include "compiler/driver/compile.h"
#include "tests/random/check_program.h"
#include "vm/link/link_info.h"
#include "vm/machine.h"
#include "vm/values/value_text.h"

namespace rvm::random_programs {
namespace {

struct CallLine {
  std::string entry, arguments;
};

// `// run: entry(ARG, ...) => VALUE` and `// fails: ...`.
std::vector<CallLine> CallsIn(const std::string& text) {
  std::vector<CallLine> calls;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("// run: ") && !line.starts_with("// fails: ")) continue;
    size_t begin = line.find(": ") + 2, open = line.find('(', begin), close = line.rfind(')', line.find(" => "));
    calls.push_back({line.substr(begin, open - begin), line.substr(open + 1, close - open - 1)});
  }
  return calls;
}

// Compares all calls of a file; returns how many there are.
size_t CheckFile(const std::filesystem::path& path, int opt_level) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::vector<CallLine> lines = CallsIn(text.str());
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics{&sources};
  driver::CompileOptions options = {.opt_level = opt_level, .native_control = true};
  for (const CallLine& line : lines) {
    bool is_new = std::find(options.entries.begin(), options.entries.end(), line.entry) == options.entries.end();
    if (is_new) options.entries.push_back(line.entry);
  }
  auto compiled = driver::Compile(sources.Add("program.relay", text.str()), diagnostics, options);
  EXPECT_TRUE(compiled.ok()) << path << diagnostics.Render();
  if (!compiled.ok()) return 0;
  auto linked = vm::Program::Link(compiled->executable, {.allow_native = true});
  EXPECT_TRUE(linked.ok()) << path << linked.status();
  if (!linked.ok()) return 0;
  EXPECT_NE((*linked)->link_info().native, nullptr) << path;
  const Executable& executable = (*linked)->executable();
  std::vector<EntryCall> calls;
  for (const CallLine& line : lines) {
    const Entry* entry = executable.FindEntry(line.entry);
    EXPECT_NE(entry, nullptr) << path << ": " << line.entry;
    if (entry == nullptr) continue;
    const FunctionDesc& function = executable.functions[entry->function.value];
    std::vector<TypeId> types;
    bool has_functions = false;  // which cannot be written as values
    for (unsigned i = 0; i < function.num_params; ++i) {
      types.push_back(function.registers[i].type);
      has_functions |= TypeToString(executable, types.back()).find("fn (") != std::string::npos;
    }
    if (has_functions) continue;
    auto args = vm::ParseValueTexts(executable, types, line.arguments);
    EXPECT_TRUE(args.ok()) << path << ": " << line.arguments << ": " << args.status();
    if (args.ok()) calls.push_back({line.entry, *std::move(args)});
  }
  Verdict verdict = CompareControl("program", calls, *linked);
  EXPECT_EQ(verdict.failure, "") << path << " at -O" << opt_level << ": " << verdict.detail;
  return calls.size();
}

TEST(ProgramFiles, MachineCodeAndBytecodeAgree) {
  size_t calls = 0;
  Sample sample(3);
  for (const auto& entry : std::filesystem::directory_iterator("tests/programs")) {
    if (entry.path().extension() != ".relay") continue;
    for (int level : {0, 3})
      if (sample.Takes()) calls += CheckFile(entry.path(), level);
  }
  EXPECT_GT(calls, LongOr(1000u, 200u));
}

}  // namespace
}  // namespace rvm::random_programs
