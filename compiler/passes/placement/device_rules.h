// Rules that say which operators run on a device: `--device opencl:nn.*,host`.
#ifndef RVM_COMPILER_PASSES_PLACEMENT_DEVICE_RULES_H_
#define RVM_COMPILER_PASSES_PLACEMENT_DEVICE_RULES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lowering/device_kind.h"

namespace rvm::passes {

// The first rule whose pattern is that of an operator, and whose device accepts the call, places it; without one it
// runs on the host.
class DeviceRules {
 public:
  // Each text is a list `KIND[:OPERATORS],...`: a kind of device, or `host`, and a pattern of names of operators, in
  // which `*` stands for any characters; all operators without one. `opencl:1`, the name of one device, is its kind.
  // kInvalidArgument for other texts, operators that do not exist, and more than one kind of device.
  static absl::StatusOr<DeviceRules> Parse(std::span<const std::string> texts);

  // The device that the program uses beside the host; null for none.
  const lowering::DeviceKind* kind() const { return kind_; }
  // Where a typed call of an operator runs; null: on the host.
  const lowering::DeviceKind* PlaceOf(const ir::Call& call) const;

 private:
  struct Rule {
    const lowering::DeviceKind* kind;  // null: the host
    std::string pattern;
  };
  std::vector<Rule> rules_;
  const lowering::DeviceKind* kind_ = nullptr;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PLACEMENT_DEVICE_RULES_H_
