// Rules that say which operators run on a device: `--device opencl:nn.*,host`.
#ifndef RVM_COMPILER_PASSES_PLACEMENT_DEVICE_RULES_H_
#define RVM_COMPILER_PASSES_PLACEMENT_DEVICE_RULES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ops/virtual_device.h"
#include "compiler/target/device_kind.h"

namespace rvm::passes {

// The first rule whose pattern is that of an operator, and whose device accepts the call, places it; without one it
// runs on the host.
class DeviceRules {
 public:
  // Each text is a list `KIND[:OPERATORS],...`: a kind of device, or `host`, and a pattern of names of operators, in
  // which `*` stands for any characters; all operators without one. `opencl:1`, the name of one device, is its kind.
  // kInvalidArgument for other texts and operators that do not exist.
  static absl::StatusOr<DeviceRules> Parse(std::span<const std::string> texts);

  // Returns the devices that the program uses beside the host, as they are named first.
  std::span<const target::DeviceKind* const> kinds() const { return kinds_; }
  // Returns the place of a typed call of an operator (target::PlaceName); "" on the host.
  std::string PlaceOf(const ir::Call& call) const;
  // Likewise for a call that the program marks for the virtual device of this name: the kind of this name, or, if the
  // program is compiled for none of this name, the first that accepts the call; and the device with its number.
  std::string PlaceOf(const ir::Call& call, std::string_view virtual_device) const;

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
