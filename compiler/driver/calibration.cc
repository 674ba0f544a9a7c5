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
#include "compiler/driver/result_error.h"
#include "compiler/quantize/observe.h"

namespace rvm::driver {
namespace {

// The function of the host that an observed program calls.
class SiteObserver : public FunctionObject {
 public:
  explicit SiteObserver(std::vector<quantize::Observations>& sites) : sites_(sites) {}
  absl::StatusOr<Value> Call(std::span<const Value> args) override {
    sites_[static_cast<size_t>(args[0].tensor().IntAt(0))].Add(args[1].tensor().values<float>());
    return Value::Tuple({});
  }

 private:
  std::vector<quantize::Observations>& sites_;
};

}  // namespace

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
  RVM_ASSIGN_OR_RETURN(calibration->calls_, runtime.data(**calibration->floats_, request.entry));
  if (calibration->calls_.empty()) return absl::InvalidArgumentError("the data have no sample; expected one or more");
  RVM_ASSIGN_OR_RETURN(calibration->expected_, runtime.run(calibration->floats_, request.entry, calibration->calls_));
  return calibration;
}

absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> Calibration::Compiled(const ir::Module& module) const {
  PreparedProgram program = program_;
  program.module = module;
  program.entries = {request_.entry};
  CompileOptions options;
  options.opt_level = options_.opt_level;
  options.target = options_.target;
  options.must_stop = options_.must_stop;
  RVM_ASSIGN_OR_RETURN(CompiledProgram compiled, CompilePrepared(std::move(program), before_, diagnostics_, options));
  return compiled.executable;
}

absl::StatusOr<std::vector<quantize::Observations>> Calibration::Observe(
    const std::vector<quantize::Site>& sites) const {
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const VerifiedExecutable> executable,
                       Compiled(quantize::Observe(program_.module, sites)));
  std::vector<quantize::Observations> observations(sites.size());
  Value observe = Value::Function("observe", std::make_shared<SiteObserver>(observations));
  Calls calls = calls_;
  for (std::vector<Value>& args : calls) args.push_back(observe);
  RVM_RETURN_IF_ERROR(runtime_.run(executable, request_.entry, calls).status());
  return observations;
}

absl::StatusOr<double> Calibration::ErrorOfRuns(const std::shared_ptr<const VerifiedExecutable>& executable) const {
  RVM_ASSIGN_OR_RETURN(std::vector<Value> results, runtime_.run(executable, request_.entry, calls_));
  return ResultError(expected_, results, request_.metric);
}

absl::StatusOr<double> Calibration::ErrorOf(const ir::Module& module) const {
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const VerifiedExecutable> executable, Compiled(module));
  return ErrorOfRuns(executable);
}

absl::StatusOr<WholeReport> Calibration::Whole(const ir::Module& module) const {
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const VerifiedExecutable> executable, Compiled(module));
  WholeReport report;
  RVM_ASSIGN_OR_RETURN(report.error, ErrorOfRuns(executable));
  const std::shared_ptr<const VerifiedExecutable> programs[] = {floats_, executable};
  RVM_ASSIGN_OR_RETURN(std::vector<double> times,
                       runtime_.time(programs, {.entry = request_.entry, .others = {0, 0}, .calls = calls_}));
  report.ns_before = times[0];
  report.ns_after = times[1];
  report.calls = static_cast<int64_t>(calls_.size());
  return report;
}

}  // namespace rvm::driver
