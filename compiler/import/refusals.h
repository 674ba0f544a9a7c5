// Refusals: why nodes of a model could not be imported, all of them, an operator and reason a line.
#ifndef RVM_COMPILER_IMPORT_REFUSALS_H_
#define RVM_COMPILER_IMPORT_REFUSALS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compiler/import/import_options.h"

namespace rvm::importing {

// The status with a message that any terminal shows: names of a model may have any bytes.
absl::Status Readable(const absl::Status& status);

class Refusals {
 public:
  // `status` is not ok.
  void Add(std::string_view op, std::string node, const absl::Status& status);
  // OK if there are none. kUnimplemented if nothing but support is missing, else kInvalidArgument.
  absl::Status ToStatus() const;
  // Adds them to the uses of their operators.
  void AddTo(Coverage& coverage) const;

 private:
  struct Refusal {
    int64_t count = 0;
    std::vector<std::string> nodes;  // the first few
    bool is_unsupported = false;
  };
  // By operator and reason.
  std::map<std::pair<std::string, std::string>, Refusal> refusals_;
};

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_REFUSALS_H_
