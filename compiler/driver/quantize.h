// Quantised programs: annotate, calibrate and realize (docs/quantization.md).
#ifndef RVM_COMPILER_DRIVER_QUANTIZE_H_
#define RVM_COMPILER_DRIVER_QUANTIZE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "base/value.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/result_error.h"
#include "compiler/quantize/observations.h"
#include "compiler/quantize/scheme.h"
#include "serialization/executable.h"
#include "serialization/verifier.h"

namespace rvm::driver {

using Calls = std::vector<std::vector<Value>>;  // the arguments of each call of an entry

// Measured calls of one entry of several programs.
struct TimedCalls {
  std::string entry;
  // Bytes of other weights that are read before the calls of each program, as in the program that an operator is from.
  std::vector<int64_t> others;
  const Calls& calls;
};

// Services of a runtime for the quantiser: the compiler is not linked with one.
struct QuantizeRuntime {
  using Programs = std::span<const std::shared_ptr<const VerifiedExecutable>>;
  // The least time of all the calls, one after the other, in each program, in nanoseconds. The programs alternate.
  std::function<absl::StatusOr<std::vector<double>>(Programs programs, const TimedCalls& calls)> time;
  // The result of each call.
  std::function<absl::StatusOr<std::vector<Value>>(const std::shared_ptr<const VerifiedExecutable>& program,
                                                   const std::string& entry, const Calls& calls)>
      run;
  // Calls of the entry with data like those that the program is for. Null: there are none.
  std::function<absl::StatusOr<Calls>(const Executable& program, const std::string& entry)> data;
};

struct QuantizeRequest {
  quantize::Scheme scheme = quantize::Scheme::kW8;
  int64_t group = 32;                   // weights of kW4 that share a scale
  std::vector<std::string> kept;        // names of sites that stay in floats
  std::map<std::string, int64_t> dims;  // values of named extents, for measurements
  bool force = false;                   // also quantise what is slower for it
  // With data:
  std::string entry = "main";            // that the data are for
  quantize::ObserverRule observer;       // kW8A8
  std::optional<double> greatest_error;  // of the results; sites are raised until it holds
  ResultMetric metric = ResultMetric::kNorm;
};

// One site, and what became of it.
struct SiteReport {
  std::string function, name, kind;
  Shape weight;
  quantize::Scheme scheme;  // kFloat: it stays as it is
  std::string reason;       // for another scheme than the requested one; "" otherwise
  double weight_error = 0;  // norm of the rounding of the weight, divided by the norm of the weight
  int64_t bytes_before = 0, bytes_after = 0;
  std::optional<double> ns_before, ns_after;  // of one call of the operator, if measured
  // Calls of the operator for the data, and its activations, where a scheme needs their range.
  std::optional<quantize::Observations> activations;
  double range = 0;             // the magnitude that becomes the greatest code
  std::optional<double> error;  // of the results if this site alone is quantised; measured by a search
};

// The whole program, with the data.
struct WholeReport {
  double error = 0;
  double ns_before = 0, ns_after = 0;  // of all calls
  int64_t calls = 0;
};

struct QuantizedProgram {
  PreparedProgram program;
  std::vector<SiteReport> sites;
  int64_t bytes_before = 0, bytes_after = 0;  // of the weights of all sites, shared ones counted once
  BoundWeights weights;
  std::optional<WholeReport> whole;
};

// Quantises the sites of an untyped module. Products and convolutions that would be slower in the scheme stay in floats
// unless the request says otherwise. With data and a greatest error, sites are raised in the order of the errors that
// they cause alone, from kW4 to kW8, then to floats. kFailedPrecondition if no site would be quantised, or if the whole
// program is slower, with the reasons.
absl::StatusOr<QuantizedProgram> QuantizeModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                                const CompileOptions& options, const QuantizeRequest& request,
                                                const QuantizeRuntime& runtime);

// The executable of a quantised program.
absl::StatusOr<CompiledProgram> CompileQuantized(QuantizedProgram program, diagnostics::Diagnostics& diagnostics,
                                                 const CompileOptions& options);

// A program as text, and its larger constants, which are free variables of it.
struct ProgramText {
  std::string text;
  std::map<std::string, Literal, std::less<>> weights;
};
ProgramText TextOf(const PreparedProgram& program);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_QUANTIZE_H_
