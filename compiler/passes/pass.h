// Pass: one step from a typed module towards bytecode.
#ifndef RVM_COMPILER_PASSES_PASS_H_
#define RVM_COMPILER_PASSES_PASS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

class DeviceRules;  // placement/device_rules.h

struct PassContext {
  std::vector<std::string> entries;  // the functions that can be called from outside
  int opt_level;
  diagnostics::Diagnostics& diagnostics;
  const DeviceRules* devices = nullptr;  // null: everything runs on the host
  bool batch = false;                    // independent kernel calls run together (docs/batching.md)
};

// Form that a specialised module may have, on top of the rules that always hold (verify/verify_module.h). Passes keep
// the forms that they find.
enum class Form : uint8_t {
  kANormal = 1,         // A-normal form (to_anf.cc)
  kCountedResults = 2,  // operators whose number of results depends on the data take that number (count_results.cc)
  kKernels = 4,         // operators stand in kernels, unless they need none (fuse_ops.cc)
};

class Forms {
 public:
  constexpr Forms() = default;
  constexpr Forms(Form form) : bits_(static_cast<uint8_t>(form)) {}  // NOLINT: a form is a set of one
  constexpr Forms operator|(Forms other) const { return Forms(static_cast<uint8_t>(bits_ | other.bits_)); }
  constexpr bool Has(Forms other) const { return (bits_ & other.bits_) == other.bits_; }

 private:
  constexpr explicit Forms(uint8_t bits) : bits_(bits) {}
  uint8_t bits_ = 0;
};

// `run` never changes a node of its input: it returns a new module, which may share nodes with the old one. Mistakes
// in the program are reported to the diagnostics; a status that is not OK says that there is no module to return.
struct Pass {
  std::string_view name;
  std::string_view summary;  // one line
  absl::StatusOr<ir::Module> (*run)(const ir::Module&, PassContext&);
  Forms needs = {};
  Forms gives = {};
  bool keeps_effect_order = false;  // VerifyEffectOrder holds (verify/verify_module.h)
};

// Each pass of the pipeline, `k<Name>`, defined in its own .cc file.
#define RVM_PASS(Name, min_opt_level) extern const Pass k##Name;
#include "compiler/passes/pipeline.def"
#undef RVM_PASS

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PASS_H_
