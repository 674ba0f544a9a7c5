// The long test: random programs by the thousand.
//
//   random_programs [--each-pass | --gradients | --device cuda|opencl|sim|sim,opencl] [--count N] [--seed S] [--reports
//   N]
//   [--print] [--write FOLDER]
//
// --each-pass checks each pass of the compiler by itself (CheckEachPass); --gradients checks differentiable programs
// (CheckGradient); --device checks programs with work for a device on it; else whole pipelines are checked.
// --write checks nothing: it writes each program to FOLDER/SEED.relay, and its calls to FOLDER/SEED.calls, one a line:
// the entry and the arguments, separated by tabs.
// Says of the first N programs that fail in one way what is wrong, and their smallest forms that
// still fail so.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/random/check_program.h"
#include "tests/random/generator.h"
#include "tests/random/shrink.h"

namespace rvm::random_programs {
namespace {

void Report(uint64_t seed, const Program& program, const Verdict& verdict, Check check) {
  std::printf("---- seed %llu: %s\n%s\n", static_cast<unsigned long long>(seed), verdict.failure.c_str(),
              verdict.detail.c_str());
  // Most candidates do not type; what fails later needs no process to see that.
  bool accepted = verdict.failure[0] == 'O' || verdict.failure[0] == 'P';
  Program small = Shrink(program, [&](const Program& candidate) {
    return (!accepted || IsAccepted(candidate)) && CheckInChild(candidate, check).failure == verdict.failure;
  });
  std::printf("---- shrunk:\n%s\n%s\n", small.text.c_str(), CheckInChild(small, check).detail.c_str());
  std::fflush(stdout);
}

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  if (!file) std::fprintf(stderr, "random_programs: error: cannot write %s\n", path.c_str());
  return file.good();
}

bool Write(const Program& program, const std::string& path) {
  std::string calls;
  for (const EntryCall& call : program.calls) {
    calls += call.entry;
    for (const Value& arg : call.args) calls += "\t" + arg.ToString();
    calls += "\n";
  }
  return WriteFile(path + ".relay", program.text) && WriteFile(path + ".calls", calls);
}

int Main(int argc, char** argv) {
  uint64_t count = 1000, seed = 1;
  bool print = false;
  std::string folder;
  Check check = CheckProgram;
  Program (*generate)(uint64_t) = Generate;
  int max_reports = 3;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--print") == 0) {
      print = true;
    } else if (std::strcmp(argv[i], "--each-pass") == 0) {
      check = CheckEachPass;
    } else if (std::strcmp(argv[i], "--gradients") == 0) {
      check = CheckGradient;
      generate = GenerateDifferentiable;
    } else if (i + 1 < argc && std::strcmp(argv[i], "--device") == 0) {
      std::string kind = argv[++i];
      check = kind == "sim"          ? CheckOnSim
              : kind == "cuda"       ? CheckOnCuda
              : kind == "sim,opencl" ? CheckOnSimAndOpenCl
                                     : CheckOnOpenCl;
      generate = kind.starts_with("sim") ? GenerateProducts : GenerateTensorWork;
    } else if (i + 1 < argc && std::strcmp(argv[i], "--count") == 0) {
      count = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && std::strcmp(argv[i], "--seed") == 0) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && std::strcmp(argv[i], "--reports") == 0) {
      max_reports = std::atoi(argv[++i]);
    } else if (i + 1 < argc && std::strcmp(argv[i], "--write") == 0) {
      folder = argv[++i];
    } else {
      std::fprintf(stderr,
                   "random_programs: error: unknown flag `%s`; expected --each-pass, --gradients, --device "
                   "cuda|opencl|sim|sim,opencl, "
                   "--count N, --seed S, --reports N, --print or --write FOLDER\n",
                   argv[i]);
      return 2;
    }
  }
  for (uint64_t i = 0; !folder.empty() && i < count; ++i) {
    if (!Write(generate(seed + i), folder + "/" + std::to_string(seed + i))) return 2;
  }
  if (!folder.empty()) return 0;
  std::map<std::string, int> failures;
  uint64_t skipped = 0;
  constexpr uint64_t kBatch = 50;
  for (uint64_t begin = 0; begin < count; begin += kBatch) {
    std::vector<Program> programs;
    for (uint64_t i = begin; i < begin + kBatch && i < count; ++i) {
      programs.push_back(generate(seed + i));
      if (print) std::printf("%s\n", programs.back().text.c_str());
    }
    std::vector<Verdict> verdicts = CheckInChild(programs, check);
    for (size_t i = 0; i < programs.size(); ++i) {
      skipped += verdicts[i].skipped ? 1 : 0;
      if (verdicts[i].failure.empty()) continue;
      // The first few of a kind show it.
      if (++failures[verdicts[i].failure] <= max_reports) Report(seed + begin + i, programs[i], verdicts[i], check);
    }
  }
  int failed = 0;
  for (const auto& [failure, times] : failures) {
    std::printf("%6d x %s\n", times, failure.c_str());
    failed += times;
  }
  std::printf("%llu programs, %llu skipped, %d failed\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(skipped), failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rvm::random_programs

int main(int argc, char** argv) { return rvm::random_programs::Main(argc, argv); }
