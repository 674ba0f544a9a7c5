// Runs executables in turn for a long time, with random arguments, and sees that memory stays as it was.
//
//   soak --runs N [--seed S] FILE.rvm...
//
// Trusts the files: their machine code runs. Machines are made anew now and then, and programs loaded
// again. Fails where a run says that RelayVM is at fault, leaves an object behind, or where the process
// has grown since the first tenth of the runs.
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/value.h"
#include "tests/fuzz/dice.h"
#include "tests/fuzz/random_arguments.h"
#include "vm/machine.h"

namespace rvm {
namespace {

// How many runs a machine serves, and how many machines a program.
constexpr int64_t kRunsOfMachine = 500;
constexpr int64_t kMachinesOfProgram = 8;
// Each machine keeps a few blocks of the largest sizes it has seen.
constexpr int64_t kAllowedGrowthBytes = 2 << 20;
constexpr int64_t kAllowedGrowthOfMachine = 128 << 10;

struct Subject {
  std::string path;
  std::shared_ptr<const vm::Program> program;
  std::unique_ptr<vm::Machine> machine;
  int64_t runs = 0;
};

struct Tally {
  int64_t values = 0;
  int64_t errors = 0;  // of the program, or a limit
  int64_t loads = 0;
};

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

absl::Status Renew(Subject& subject, Tally& tally) {
  if (subject.runs % (kRunsOfMachine * kMachinesOfProgram) == 0) {
    subject.machine.reset();
    auto program = vm::Program::LoadFile(subject.path, {.allow_native = true});
    if (!program.ok()) return program.status();
    subject.program = *std::move(program);
    ++tally.loads;
  }
  if (subject.runs % kRunsOfMachine == 0) {
    vm::MachineOptions limits{.memory_limit_bytes = 4 << 20, .stack_limit_bytes = 4 << 20, .fuel = 2'000};
    auto machine = vm::Machine::Create(subject.program, limits);
    if (!machine.ok()) return machine.status();
    subject.machine = *std::move(machine);
  }
  ++subject.runs;
  return absl::OkStatus();
}

absl::Status RunOnce(Subject& subject, fuzz::Dice& dice, Tally& tally) {
  if (absl::Status status = Renew(subject, tally); !status.ok()) return status;
  const Executable& executable = subject.program->executable();
  const Entry& entry = executable.entries[dice.Pick(executable.entries.size())];
  std::optional<std::vector<Value>> args = fuzz::RandomArguments(executable, entry, dice);
  if (!args) return absl::OkStatus();
  absl::StatusOr<Value> result = subject.machine->Invoke(entry.name, *args);
  if (result.status().code() == absl::StatusCode::kInternal) return result.status();
  ++(result.ok() ? tally.values : tally.errors);
  if (subject.machine->stats().leaked_objects != 0) return absl::InternalError("objects are left behind");
  return absl::OkStatus();
}

int Soak(std::vector<Subject> subjects, int64_t runs, uint64_t seed) {
  fuzz::Dice dice(seed);
  Tally tally;
  int64_t before = 0;
  for (int64_t run = 0; run < runs; ++run) {
    if (run == runs / 10) before = ResidentBytes();
    Subject& subject = subjects[static_cast<size_t>(run) % subjects.size()];
    if (absl::Status status = RunOnce(subject, dice, tally); !status.ok()) {
      std::printf("soak: error: %s, run %" PRId64 ": %s\n", subject.path.c_str(), run, status.ToString().c_str());
      return 1;
    }
  }
  int64_t after = ResidentBytes();
  std::printf("%" PRId64 " runs of %zu programs: %" PRId64 " values, %" PRId64 " errors, %" PRId64
              " loads; resident %.1f MB after the first tenth, %.1f MB at the end\n",
              runs, subjects.size(), tally.values, tally.errors, tally.loads, static_cast<double>(before) / 1e6,
              static_cast<double>(after) / 1e6);
  int64_t allowed = kAllowedGrowthBytes + static_cast<int64_t>(subjects.size()) * kAllowedGrowthOfMachine;
  if (after - before <= allowed) return 0;
  std::printf("soak: error: the process has grown\n");
  return 1;
}

int Main(int argc, char** argv) {
  int64_t runs = 10'000;
  uint64_t seed = 1;
  std::vector<Subject> subjects;
  for (int i = 1; i < argc; ++i) {
    bool has_value = i + 1 < argc;
    if (has_value && std::strcmp(argv[i], "--runs") == 0) {
      runs = std::strtoll(argv[++i], nullptr, 10);
    } else if (has_value && std::strcmp(argv[i], "--seed") == 0) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (argv[i][0] == '-') {
      std::fprintf(stderr, "soak: error: unknown flag `%s`; expected --runs N or --seed S\n", argv[i]);
      return 2;
    } else {
      subjects.push_back({argv[i], nullptr, nullptr});
    }
  }
  if (subjects.empty()) {
    std::fprintf(stderr, "soak: error: no executable; expected --runs N FILE.rvm...\n");
    return 2;
  }
  return Soak(std::move(subjects), runs, seed);
}

}  // namespace
}  // namespace rvm

int main(int argc, char** argv) { return rvm::Main(argc, argv); }
