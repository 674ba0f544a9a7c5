// Measures the steps of loading an executable, in microseconds: the minimum of many repetitions.
//
//   load_benchmark FILE.rvm
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "serialization/decoder.h"
#include "serialization/verifier.h"
#include "vm/machine.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kSteps[] = {"decode", "verify", "link", "machine"};
using Times = std::array<double, std::size(kSteps)>;

absl::StatusOr<Times> LoadOnce(const char* path) {
  Times times = {};
  size_t step = 0;
  Clock::time_point began = Clock::now();
  auto ended = [&] {
    Clock::time_point now = Clock::now();
    times[step++] = std::chrono::duration<double, std::micro>(now - began).count();
    began = Clock::now();
  };
  RVM_ASSIGN_OR_RETURN(rvm::Executable executable, rvm::DecodeFile(path));
  ended();
  RVM_ASSIGN_OR_RETURN(auto verified, rvm::Verify(std::move(executable)));
  ended();
  RVM_ASSIGN_OR_RETURN(auto program, rvm::vm::Program::Link(std::move(verified), {.allow_native = true}));
  ended();
  RVM_ASSIGN_OR_RETURN(auto machine, rvm::vm::Machine::Create(std::move(program), {}));
  ended();
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: load_benchmark FILE.rvm\n", stderr);
    return 1;
  }
  Times least;
  least.fill(std::numeric_limits<double>::infinity());
  for (int i = 0; i < 200; ++i) {
    absl::StatusOr<Times> times = LoadOnce(argv[1]);
    if (!times.ok()) {
      std::fprintf(stderr, "%s\n", times.status().ToString().c_str());
      return 1;
    }
    for (size_t s = 0; s < least.size(); ++s) least[s] = std::min(least[s], (*times)[s]);
  }
  for (size_t s = 0; s < least.size(); ++s) std::printf("%s %.1f\n", kSteps[s], least[s]);
  return 0;
}
