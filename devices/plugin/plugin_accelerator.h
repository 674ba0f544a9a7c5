// The compiler's half of an accelerator library.
#ifndef RVM_DEVICES_PLUGIN_PLUGIN_ACCELERATOR_H_
#define RVM_DEVICES_PLUGIN_PLUGIN_ACCELERATOR_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/target/accelerator.h"
#include "include/relayvm/accelerator.h"

namespace rvm::target {

class PluginAccelerator : public Accelerator {
 public:
  explicit PluginAccelerator(const rvm_accelerator& table);
  std::span<const Pattern> patterns() const override { return patterns_; }
  bool Accepts(const Composite& composite) const override;
  std::unique_ptr<AcceleratorCode> NewCode() const override;

 private:
  const rvm_accelerator& table_;
  // Arrays that the patterns refer to, by pattern, and by pattern and step.
  std::vector<std::vector<std::vector<std::string_view>>> operators_;
  std::vector<std::vector<PatternStep>> steps_;
  std::vector<Pattern> patterns_;
};

}  // namespace rvm::target

#endif  // RVM_DEVICES_PLUGIN_PLUGIN_ACCELERATOR_H_
