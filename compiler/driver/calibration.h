// Runs of a program and of its quantised forms on data.
#ifndef RVM_COMPILER_DRIVER_CALIBRATION_H_
#define RVM_COMPILER_DRIVER_CALIBRATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/quantize.h"
#include "compiler/quantize/observations.h"
#include "compiler/quantize/sites.h"
#include "serialization/verifier.h"

namespace rvm::driver {

class Calibration {
 public:
  // Compiles the program in floats and runs it on the data. `before`: the pass that it is prepared for. All arguments
  // outlive the calibration.
  static absl::StatusOr<std::unique_ptr<Calibration>> Create(const PreparedProgram& program, std::string_view before,
                                                             const CompileOptions& options,
                                                             const QuantizeRequest& request,
                                                             const QuantizeRuntime& runtime,
                                                             diagnostics::Diagnostics& diagnostics);

  // Returns the activations of each site. Results are those of the program: its control flow is the same.
  absl::StatusOr<std::vector<quantize::Observations>> Observe(const std::vector<quantize::Site>& sites) const;
  // Compiles another form of the program. Returns the error of its results.
  absl::StatusOr<double> ErrorOf(const ir::Module& module) const;
  // Returns the same with its time beside that in floats.
  absl::StatusOr<WholeReport> Whole(const ir::Module& module) const;

 private:
  Calibration(const PreparedProgram& program, std::string_view before, const CompileOptions& options,
              const QuantizeRequest& request, const QuantizeRuntime& runtime, diagnostics::Diagnostics& diagnostics)
      : program_(program),
        before_(before),
        options_(options),
        request_(request),
        runtime_(runtime),
        diagnostics_(diagnostics) {}

  absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> Compiled(const ir::Module& module) const;

  const PreparedProgram& program_;
  std::string_view before_;
  const CompileOptions& options_;
  const QuantizeRequest& request_;
  const QuantizeRuntime& runtime_;
  diagnostics::Diagnostics& diagnostics_;
  std::shared_ptr<const VerifiedExecutable> floats_;
  int64_t calls_ = 0;
};

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_CALIBRATION_H_
