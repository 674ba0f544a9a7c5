// The bytes that a call of an entry reads from memory: `relayvm inspect --traffic`.
#ifndef RVM_TOOLS_RELAYVM_TRAFFIC_TEXT_H_
#define RVM_TOOLS_RELAYVM_TRAFFIC_TEXT_H_

#include <cstdint>
#include <string>

#include "serialization/executable.h"

namespace rvm::tools {

struct Traffic {
  int64_t weight_bytes = 0;  // constants of which all elements are read; each counts once, in loops too
  int64_t token_bytes = 0;   // of parameters, for each unit of their only open extent: a row of each cache
};

// Returns what a call of the entry reads. Kernels that compute less than an operation for each element of a constant
// read some of its rows, as embeddings do: these count nothing.
Traffic TrafficOf(const Executable& executable, const Entry& entry);

// Returns the traffic of each entry, and the time that it takes at a bandwidth in bytes a second.
std::string TrafficText(const Executable& executable, double bandwidth);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_TRAFFIC_TEXT_H_
