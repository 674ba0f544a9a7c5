// Sections of a configuration of DarkNet: the network, then a layer each.
#ifndef RVM_COMPILER_IMPORT_DARKNET_CONFIG_H_
#define RVM_COMPILER_IMPORT_DARKNET_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/file_bytes.h"

namespace rvm::darknet {

struct Section {
  std::string kind;  // "convolutional"
  int64_t line = 0;  // from 1
  // In the order written, without spaces and comments. The first one of a name counts.
  std::vector<std::pair<std::string, std::string>> options;

  // Returns null if the section has no option of that name.
  const std::string* Find(std::string_view name) const;
};

// Returns at least one section; the first is the network's.
absl::StatusOr<std::vector<Section>> ReadConfig(importing::Bytes bytes);

}  // namespace rvm::darknet

#endif  // RVM_COMPILER_IMPORT_DARKNET_CONFIG_H_
