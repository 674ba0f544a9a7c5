#include "compiler/driver/calibration.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compiler/quantize/observe.h"

namespace rvm::driver {
absl::StatusOr<std::unique_ptr<Calibration>> Calibration::Create(const PreparedProgram& program,
                                                                 std::string_view before, const CompileOptions& options,
                                                                 const QuantizeRequest& request,
                                                                 const QuantizeRuntime& runtime,
                                                                 diagnostics::Diagnostics& diagnostics) {
  const std::vector<std::string>& entries = program.entries;
  if (std::find(entries.begin(), entries.end(), request.entry) == entries.end()) {
    return absl::InvalidArgumentError(absl::StrCat("the data are for `", request.entry,
                                                   "`, which is no entry of the program; it has ",
                                                   absl::StrJoin(entries, ", ")));
  }
  std::unique_ptr<Calibration> calibration(new Calibration(program, before, options, request, runtime, diagnostics));
  RVM_ASSIGN_OR_RETURN(calibration->floats_, calibration->Compiled(program.module));
  RVM_ASSIGN_OR_RETURN(calibration->calls_, runtime.begin(calibration->floats_));
  if (calibration->calls_ == 0) return absl::InvalidArgumentError("the data have no call; expected one or more");
  return calibration;
}

absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> Calibration::Compiled(const ir::Module& module) const {
  PreparedProgram program = program_;
  program.module = module;
  program.entries = {request_.entry};
  RVM_ASSIGN_OR_RETURN(CompiledProgram compiled, CompilePrepared(std::move(program), before_, diagnostics_, options_));
  return compiled.executable;
}

absl::StatusOr<std::vector<quantize::Observations>> Calibration::Observe(
    const std::vector<quantize::Site>& sites) const {
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const VerifiedExecutable> executable,
                       Compiled(quantize::Observe(program_.module, sites)));
  std::vector<quantize::Observations> observations(sites.size());
  RVM_RETURN_IF_ERROR(runtime_.observe(executable, [&](int64_t site, std::span<const float> activations) {
    if (site >= 0 && static_cast<size_t>(site) < observations.size()) {
      observations[static_cast<size_t>(site)].Add(activations);
    }
  }));
  return observations;
}

absl::StatusOr<double> Calibration::ErrorOf(const ir::Module& module) const {
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const VerifiedExecutable> executable, Compiled(module));
  return runtime_.error(executable);
}

absl::StatusOr<WholeReport> Calibration::Whole(const ir::Module& module) const {
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const VerifiedExecutable> executable, Compiled(module));
  WholeReport report;
  RVM_ASSIGN_OR_RETURN(report.error, runtime_.error(executable));
  const std::shared_ptr<const VerifiedExecutable> programs[] = {floats_, executable};
  RVM_ASSIGN_OR_RETURN(std::vector<double> times, runtime_.time(programs, {0, 0}, nullptr));
  report.ns_before = times[0];
  report.ns_after = times[1];
  report.calls = calls_;
  return report;
}

}  // namespace rvm::driver
