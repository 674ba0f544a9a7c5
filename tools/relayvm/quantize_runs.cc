#include "tools/relayvm/quantize_runs.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "compiler/driver/params.h"
#include "tools/arguments.h"
#include "vm/machine.h"

namespace rvm::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Rounds of calls: at least so many, and more up to this time.
constexpr int kMinRounds = 7, kMaxRounds = 400;
constexpr std::chrono::milliseconds kTime{80};
// More other weights leave no cache as it was.
constexpr int64_t kMaxOtherBytes = int64_t{64} << 20;
constexpr size_t kCacheLine = 64;

double NsOf(Clock::duration time) { return std::chrono::duration<double, std::nano>(time).count(); }

// Reads as much memory as other operators of a program do between two calls of one.
class OtherWeights {
 public:
  explicit OtherWeights(std::span<const int64_t> bytes) {
    for (int64_t count : bytes) sizes_.push_back(static_cast<size_t>(std::min(count, kMaxOtherBytes)));
    memory_.resize(*std::max_element(sizes_.begin(), sizes_.end()), 1);
  }
  void Read(size_t program) {
    for (size_t at = 0; at < sizes_[program]; at += kCacheLine) sum_ = sum_ + memory_[at];
  }

 private:
  std::vector<size_t> sizes_;
  std::vector<uint8_t> memory_;
  volatile uint64_t sum_ = 0;
};

using Calls = std::vector<std::vector<Value>>;  // the arguments of each
using Program = driver::QuantizeRuntime::Program;

absl::StatusOr<std::unique_ptr<vm::Machine>> MachineOf(const Program& executable) {
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const vm::Program> program,
                       vm::Program::Link(executable, {.allow_native = true}));
  return vm::Machine::Create(program, {});
}

absl::StatusOr<std::vector<double>> LeastTimes(std::span<const Program> programs, const std::vector<int64_t>& others,
                                               const std::string& entry, const Calls& calls) {
  std::vector<std::unique_ptr<vm::Machine>> machines;
  for (const Program& executable : programs) {
    RVM_ASSIGN_OR_RETURN(machines.emplace_back(), MachineOf(executable));
  }
  // The least time of each call, so that other work of the machine disturbs few of them.
  std::vector<std::vector<double>> least(machines.size());
  for (std::vector<double>& times : least) times.resize(calls.size(), std::numeric_limits<double>::max());
  OtherWeights weights(others);
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < kMaxRounds && (round < kMinRounds || Clock::now() - begin < kTime); ++round) {
    for (size_t i = 0; i < machines.size(); ++i) {
      weights.Read(i);
      for (size_t call = 0; call < calls.size(); ++call) {
        const Clock::time_point before = Clock::now();
        RVM_RETURN_IF_ERROR(machines[i]->Invoke(entry, calls[call]).status());
        least[i][call] = std::min(least[i][call], NsOf(Clock::now() - before));
      }
    }
  }
  std::vector<double> sums;
  for (const std::vector<double>& times : least) sums.push_back(std::accumulate(times.begin(), times.end(), 0.0));
  return sums;
}

absl::StatusOr<std::vector<Value>> ResultsOf(const Program& executable, const std::string& entry, const Calls& calls) {
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, MachineOf(executable));
  std::vector<Value> results;
  for (const std::vector<Value>& args : calls) {
    RVM_ASSIGN_OR_RETURN(results.emplace_back(), machine->Invoke(entry, args));
  }
  return results;
}

// The function of the host that an observed program calls.
class SiteObserver : public FunctionObject {
 public:
  explicit SiteObserver(const driver::QuantizeRuntime::See& see) : see_(see) {}
  absl::StatusOr<Value> Call(std::span<const Value> args) override {
    see_(args[0].tensor().IntAt(0), args[1].tensor().values<float>());
    return Value::Tuple({});
  }

 private:
  const driver::QuantizeRuntime::See& see_;
};

// Files that end with `.npz`, in the order of their names.
absl::StatusOr<std::vector<std::string>> NpzFiles(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".npz") paths.push_back(at->path().string());
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  if (paths.empty())
    return absl::InvalidArgumentError(absl::StrCat(folder, " has no .npz file; expected one a sample"));
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Element `index` of the first axis.
Literal SampleOf(const Literal& all, int64_t index) {
  Shape shape(all.shape().begin() + 1, all.shape().end());
  const int64_t bytes = all.bytes() / all.shape()[0];
  return Literal::FromBytes(all.dtype(), std::move(shape),
                            std::span(all.data() + index * bytes, static_cast<size_t>(bytes)));
}

absl::StatusOr<const Literal*> TensorNamed(const driver::ParamFile& file, const std::string& name) {
  auto found = file.tensors.find(name);
  if (found != file.tensors.end()) return &found->second;
  std::vector<std::string_view> names;
  for (const auto& [other, tensor] : file.tensors) names.push_back(other);
  return absl::InvalidArgumentError(
      absl::StrCat(file.path, " has no array `", name, "`, a parameter of the program", DidYouMean(name, names)));
}

absl::Status AddSamples(const std::string& path, const Entry& entry, bool is_one, Calls& calls) {
  RVM_ASSIGN_OR_RETURN(driver::ParamFile file, driver::LoadParams(path));
  std::vector<const Literal*> tensors;
  for (const std::string& name : entry.param_names) {
    RVM_ASSIGN_OR_RETURN(tensors.emplace_back(), TensorNamed(file, name));
    const Literal& tensor = *tensors.back();
    if (is_one || (tensor.rank() > 0 && tensor.shape()[0] == tensors[0]->shape()[0])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": `", name, "` has shape ", ShapeToString(tensor.shape()), " and `", entry.param_names[0],
                     "` ", ShapeToString(tensors[0]->shape()), "; expected samples along the first axis of both"));
  }
  const int64_t count = is_one || tensors.empty() ? 1 : tensors[0]->shape()[0];
  for (int64_t i = 0; i < count; ++i) {
    std::vector<Value>& args = calls.emplace_back();
    for (const Literal* tensor : tensors) args.push_back(Value::Tensor(is_one ? *tensor : SampleOf(*tensor, i)));
  }
  return absl::OkStatus();
}

// The calls that `path` has for an entry: see docs/quantization.md.
absl::StatusOr<Calls> ReadData(const std::string& path, const Executable& executable, const std::string& entry_name) {
  std::error_code error;  // of a path that is no folder; reading the file reports it
  const bool is_folder = std::filesystem::is_directory(path, error);
  if (!is_folder && !path.ends_with(".npz")) return ReadArgumentLines(executable, entry_name, path);
  const Entry* entry = executable.FindEntry(entry_name);
  if (entry == nullptr) return absl::NotFoundError(absl::StrCat("no entry `", entry_name, "`"));
  Calls calls;
  std::vector<std::string> files = {path};
  if (is_folder) {
    RVM_ASSIGN_OR_RETURN(files, NpzFiles(path));
  }
  for (const std::string& file : files) RVM_RETURN_IF_ERROR(AddSamples(file, *entry, is_folder, calls));
  return calls;
}

// Data of one entry, and its results in floats.
struct DataRuns {
  std::string path, entry;
  driver::ResultMetric metric;
  Calls calls;
  std::vector<Value> expected;
};

}  // namespace

driver::QuantizeRuntime RuntimeForQuantizing(const std::string& path, const std::string& entry,
                                             driver::ResultMetric metric) {
  auto data = std::make_shared<DataRuns>(DataRuns{path, entry, metric, {}, {}});
  driver::QuantizeRuntime runtime;
  runtime.time = [data](std::span<const Program> programs, const std::vector<int64_t>& others, const Literal* operand) {
    if (operand == nullptr) return LeastTimes(programs, others, data->entry, data->calls);
    return LeastTimes(programs, others, "main", {{Value::Tensor(*operand)}});
  };
  if (path.empty()) return runtime;
  runtime.begin = [data](const Program& program) -> absl::StatusOr<int64_t> {
    RVM_ASSIGN_OR_RETURN(data->calls, ReadData(data->path, **program, data->entry));
    RVM_ASSIGN_OR_RETURN(data->expected, ResultsOf(program, data->entry, data->calls));
    return static_cast<int64_t>(data->calls.size());
  };
  runtime.error = [data](const Program& program) -> absl::StatusOr<double> {
    RVM_ASSIGN_OR_RETURN(std::vector<Value> results, ResultsOf(program, data->entry, data->calls));
    return driver::ResultError(data->expected, results, data->metric);
  };
  runtime.observe = [data](const Program& program, const driver::QuantizeRuntime::See& see) {
    Calls calls = data->calls;
    const Value observe = Value::Function("observe", std::make_shared<SiteObserver>(see));
    for (std::vector<Value>& args : calls) args.push_back(observe);
    return ResultsOf(program, data->entry, calls).status();
  };
  return runtime;
}

}  // namespace rvm::tools
