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
#include "compiler/quantize/scheme.h"
#include "serialization/verifier.h"

namespace rvm::driver {

// Services of a runtime for the quantiser: the compiler is not linked with one.
struct QuantizeRuntime {
  using Programs = std::span<const std::shared_ptr<const VerifiedExecutable>>;
  // The least time of a call of `main` in each program, in nanoseconds. Calls of the programs alternate. `others`: the
  // bytes of other weights that are read between two calls of each, as in the program that the operator is from.
  std::function<absl::StatusOr<std::vector<double>>(Programs programs, std::span<const int64_t> others,
                                                    std::span<const Value> args)>
      time;
};

struct QuantizeRequest {
  quantize::Scheme scheme = quantize::Scheme::kW8;
  int64_t group = 32;                   // weights of kW4 that share a scale
  std::vector<std::string> kept;        // names of sites that stay in floats
  std::map<std::string, int64_t> dims;  // values of named extents, for measurements
  bool force = false;                   // also quantise what is slower for it
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
};

struct QuantizedProgram {
  PreparedProgram program;
  std::vector<SiteReport> sites;
  int64_t bytes_before = 0, bytes_after = 0;  // of the weights of all sites, shared ones counted once
  BoundWeights weights;
};

// Quantises the sites of an untyped module. Products and convolutions that would be slower in the scheme stay in floats
// unless the request says otherwise. kFailedPrecondition if no site would be quantised, with the reasons.
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
