#include "vm/forecast/memory_forecast.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/isa/isa.h"
#include "vm/forecast/path.h"
#include "vm/forecast/waiting_calls.h"
#include "vm/interpreter/pending_calls.h"
#include "vm/link/link_info.h"

namespace rvm::vm {
namespace {

using forecast::Path;
using forecast::Shadow;

constexpr int64_t kMaxSteps = 1'000'000;
// Registers and objects copied at the cost of a step.
constexpr size_t kCopiedPerStep = 32;
// Different amounts of memory at one place in a program; more of them mean that it grows with each iteration.
constexpr size_t kMaxAmounts = 64;

class Arguments {
 public:
  using Extent = std::function<std::optional<int64_t>(size_t param, size_t axis)>;
  Arguments(const Executable& executable, const LinkInfo& link, const Entry& entry, const Extent& extent, Path& path)
      : executable_(executable), link_(link), entry_(entry), extent_(extent), path_(path) {}

  absl::StatusOr<Shadow> Make(size_t param) {
    return Make(param, executable_.functions[entry_.function.value].registers[param].type);
  }

 private:
  absl::StatusOr<Shadow> Make(size_t param, TypeId id) {
    const TypeDesc& type = executable_.types[id.value];
    if (type.kind == TypeDescKind::kClosure && link_.host_layout_of_type[id.value] != 0) {
      return path_.NewCell(link_.host_layout_of_type[id.value], {Shadow()});
    }
    bool is_cell = type.kind == TypeDescKind::kTuple || type.kind == TypeDescKind::kRef;
    if (type.kind != TypeDescKind::kTensor && !is_cell) return Shadow();
    if (type.kind == TypeDescKind::kTensor) {
      Shape shape;
      for (size_t axis = 0; axis < type.dims.size(); ++axis) {
        std::optional<int64_t> extent =
            type.dims[axis] == TypeDesc::kUnknownDim ? extent_(param, axis) : std::optional(type.dims[axis]);
        if (!extent) {
          std::string name = param < entry_.param_names.size() ? entry_.param_names[param] : absl::StrCat(param);
          return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of `%", name, "` of `", entry_.name,
                                                         "` is not known; give --dims ", name, ".", axis, "=EXTENT"));
        }
        shape.push_back(*extent);
      }
      return path_.NewArgument(shape, forecast::ElementBytes(shape, type.dtype));
    }
    std::vector<Shadow> fields;
    for (TypeId field : type.fields) {
      RVM_ASSIGN_OR_RETURN(Shadow shadow, Make(param, field));
      fields.push_back(shadow);
    }
    return path_.NewCell(link_.layout_of_type[id.value], std::move(fields));
  }

  const Executable& executable_;
  const LinkInfo& link_;
  const Entry& entry_;
  const Extent& extent_;
  Path& path_;
};

// Follows all paths from `first` on. Gives the reason if there is no bound.
std::string FollowAll(Path first) {
  size_t waiting = first.size();  // of `paths`
  std::vector<Path> paths;
  paths.push_back(std::move(first));
  absl::flat_hash_map<std::string, std::set<std::vector<int64_t>>> seen;  // amounts held, by place
  for (int64_t steps = 0; !paths.empty();) {
    Path path = std::move(paths.back());
    paths.pop_back();
    waiting -= path.size();
    for (;;) {
      if (++steps > kMaxSteps) return absl::StrCat("more than ", kMaxSteps, " instructions to follow");
      std::vector<Path> others;
      bool goes_on = path.Step(others);
      if (!path.unbounded().empty()) return path.unbounded();
      if (!goes_on) break;
      if (!path.just_forked()) continue;
      std::set<std::vector<int64_t>>& amounts = seen[path.Place()];
      if (!amounts.insert(path.Amounts()).second) break;
      if (amounts.size() > kMaxAmounts) return path.GrowsHere();
      for (Path& other : others) {
        waiting += other.size();
        steps += static_cast<int64_t>(other.size() / kCopiedPerStep);
        paths.push_back(std::move(other));
      }
      if (waiting > 4 * Path::kMaxSize) return "data decides too often to follow all ways";
    }
  }
  return "";
}

// Counts the calls that may wait whose sizes the program says. Returns whether it says all.
bool CountStaticWaiting(forecast::Survey& survey) {
  if (!survey.link.has_batches) return true;
  survey.forecast.waiting_calls = PendingCalls::kMaxCalls;
  bool are_all = true;
  for (const FunctionDesc& function : survey.executable.functions) {
    uint32_t pc = 0;
    while (std::optional<Instruction> i = ReadInstruction(function.code, pc)) {
      pc += i->length;
      // No function of a program with variants plans tensors.
      if (!IsKernelCall(i->opcode()) || i->opcode() == Opcode::kCallKernelPlanned) continue;
      const KernelInfo& kernel = survey.link.kernels[(*i)[1].u32()];
      std::vector<int64_t> symbols(kernel.desc->num_symbols);
      if (kernel.is_static) {
        survey.CountWaiting(kernel, (*i)[2], symbols);
      } else {
        are_all &= forecast::ForecastWaiting(survey.link, kernel, (*i)[2], symbols).bytes == 0;
      }
    }
  }
  return are_all;
}

}  // namespace

absl::StatusOr<MemoryForecast> ForecastMemory(const VerifiedExecutable& executable, const Entry& entry,
                                              const Arguments::Extent& extent, const DeviceProgram* device) {
  std::vector<RvmKernel> no_code((*executable).kernels.size());
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<const LinkInfo> link, MakeLinkInfo(*executable, no_code, device));
  forecast::Survey survey{*executable, *link, {}};
  if (device != nullptr) {
    for (const LoadedCode& part : device->parts) survey.forecast.devices.push_back({part.device->info().id, 0, 0});
  }
  bool are_static = CountStaticWaiting(survey);
  Path path(survey);
  Arguments arguments(*executable, *link, entry, extent, path);
  std::vector<Shadow> args;
  for (size_t p = 0; p < (*executable).functions[entry.function.value].num_params; ++p) {
    RVM_ASSIGN_OR_RETURN(Shadow arg, arguments.Make(p));
    args.push_back(arg);
  }
  path.Enter(entry.function, std::move(args));
  std::string unbounded = FollowAll(std::move(path));
  survey.forecast.is_waiting_bound = unbounded.empty() || are_static;
  survey.forecast.unbounded = std::move(unbounded);
  return survey.forecast;
}

}  // namespace rvm::vm
