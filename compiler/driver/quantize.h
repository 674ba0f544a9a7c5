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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/compile.h"
#include "compiler/quantize/observations.h"
#include "compiler/quantize/scheme.h"
#include "serialization/verifier.h"

namespace rvm::driver {

// Services of a runtime for the quantiser: the compiler is not linked with one.
struct QuantizeRuntime {
  using Program = std::shared_ptr<const VerifiedExecutable>;
  // The least time of a call in each program, in nanoseconds: of `main` with `operand`, or if that is null of all calls
  // of the data. Programs alternate. `others`: the bytes of other weights that are read before the call of each, as in
  // the program that an operator is from. kFailedPrecondition if this machine cannot run the programs' target:
  // operators then stay unmeasured.
  std::function<absl::StatusOr<std::vector<double>>(std::span<const Program> programs,
                                                    const std::vector<int64_t>& others, const Literal* operand)>
      time;

  // Calls of the request's entry with data like those that the program is for. Null: there are no data.
  // Runs the program in floats; `error` compares with its results. Returns the number of calls.
  std::function<absl::StatusOr<int64_t>(const Program& program)> begin;
  // The error of the results of a program.
  std::function<absl::StatusOr<double>(const Program& program)> error;
  // Runs a program whose entry has one more parameter, a function, which is to pass on its arguments to `see`.
  using See = std::function<void(int64_t site, std::span<const float> activations)>;
  std::function<absl::Status(const Program& program, const See& see)> observe;

  bool has_data() const { return begin != nullptr; }
};

struct QuantizeRequest {
  quantize::Scheme scheme = quantize::Scheme::kW8;
  int64_t group = 32;                   // weights of 4 bits that share a scale
  std::vector<std::string> kept;        // names of sites that stay in floats
  std::map<std::string, int64_t> dims;  // values of named extents, for measurements
  bool force = false;                   // also quantise what is slower for it
  // With data:
  std::string entry = "main";            // that the data are for
  quantize::ObserverRule observer;       // kW8A8
  std::optional<double> greatest_error;  // of the results; sites are raised until it holds
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
// they cause alone, from 4 bits to 8, then to floats. kFailedPrecondition if no site would be quantised, or if the
// whole program is slower, with the reasons.
absl::StatusOr<QuantizedProgram> QuantizeModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                                const CompileOptions& options, const QuantizeRequest& request,
                                                const QuantizeRuntime& runtime);

// Returns the executable of a quantised program.
absl::StatusOr<CompiledProgram> CompileQuantized(QuantizedProgram program, diagnostics::Diagnostics& diagnostics,
                                                 const CompileOptions& options);

// A program as text, and its larger constants, which are free variables of it.
struct ProgramText {
  std::string text;
  std::map<std::string, Literal, std::less<>> weights;
};
ProgramText TextOf(const PreparedProgram& program);

// The report of each site, and of the whole program, as docs/quantization.md has it.
std::string QuantizeJson(const QuantizedProgram& program, const QuantizeRequest& request);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_QUANTIZE_H_
