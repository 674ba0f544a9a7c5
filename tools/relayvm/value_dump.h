// ValueDump: writes the tensors that a run computes to a folder: `relayvm run --dump-values`.
#ifndef RVM_TOOLS_RELAYVM_VALUE_DUMP_H_
#define RVM_TOOLS_RELAYVM_VALUE_DUMP_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json_writer.h"
#include "serialization/executable.h"
#include "vm/profiler/result_sink.h"

namespace rvm::tools {

// Writes 0.npy, 1.npy, ... in the order of the run, and index.json, which says where each comes from.
class ValueDump : public vm::ResultSink {
 public:
  // Makes the folder. kAlreadyExists if it has files. `executable` outlives the result; `limit` is the number of
  // tensors that are written.
  static absl::StatusOr<ValueDump> Create(const std::string& folder, const Executable& executable, int64_t limit);

  absl::Status Take(vm::SeenResult result) override;
  // Writes the index, also after a run that failed. Returns what was written, for people.
  absl::StatusOr<std::string> Finish();

 private:
  ValueDump(std::string folder, const Executable& executable, int64_t limit);

  std::string folder_;
  const Executable* executable_;
  int64_t limit_;
  int64_t seen_ = 0;
  JsonWriter index_;
  // Number of times that each result of each instruction was seen, by function, pc and result.
  std::map<std::array<uint32_t, 3>, int64_t> times_;
};

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_VALUE_DUMP_H_
