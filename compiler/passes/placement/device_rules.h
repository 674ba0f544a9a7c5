// Rules that say which operators run on a device: `--device opencl:nn.*,host`.
#ifndef RVM_COMPILER_PASSES_PLACEMENT_DEVICE_RULES_H_
#define RVM_COMPILER_PASSES_PLACEMENT_DEVICE_RULES_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/expr.h"
#include "compiler/ops/virtual_device.h"
#include "devices/device_kinds.h"

namespace rvm::passes {

// The first rule whose pattern is that of an operator, and whose device computes the call, places it; without one it
// runs on the host.
class DeviceRules {
 public:
  // Each text is a list `KIND[:OPERATORS],...`: a kind of device, or `host`, and a pattern of names of operators, in
  // which `*` stands for any characters; all operators without one. `opencl:1`, the name of one device, is its kind.
  // kInvalidArgument for other texts and operators that do not exist.
  static absl::StatusOr<DeviceRules> Parse(std::span<const std::string> texts);

  // Returns the devices that the program uses beside the host, as they are named first.
  std::span<const target::DeviceKind* const> kinds() const { return kinds_; }
  // A device that may run a call, if it computes that.
  struct Candidate {
    const target::DeviceKind* kind;
    size_t number;
    bool operator==(const Candidate&) const = default;
  };
  // Returns the candidates for a call of an operator, the preferred one first: those of the rules that fit, up to the
  // host. `virtual_device`: the name of the one that the program marks the call for, or null. The candidates are then
  // those of the kind of this name, or, if the program is compiled for none of this name, of all kinds; with its
  // number.
  std::vector<Candidate> CandidatesOf(const ir::Call& call, const std::string* virtual_device) const;

 private:
  struct Rule {
    const target::DeviceKind* kind;  // null: the host
    std::string pattern;
  };
  std::vector<Rule> rules_;
  std::vector<const target::DeviceKind*> kinds_;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PLACEMENT_DEVICE_RULES_H_
