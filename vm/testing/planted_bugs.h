// Bugs in sources that plant_bugs has written. The environment of a process says which one is planted in it.
#ifndef RVM_VM_TESTING_PLANTED_BUGS_H_
#define RVM_VM_TESTING_PLANTED_BUGS_H_

#include <cstdlib>
#include <string>
#include <vector>

namespace rvm::vm::testing {

inline constexpr char kPlantedBug[] = "RELAYVM_PLANTED_BUG";

inline bool IsPlanted(int bug) {
  static const char* const planted = std::getenv(kPlantedBug);
  static const int number = planted == nullptr ? -1 : std::atoi(planted);
  return bug == number;
}

// Returns the names of all bugs, by number.
const std::vector<std::string>& BugNames();

}  // namespace rvm::vm::testing

#endif  // RVM_VM_TESTING_PLANTED_BUGS_H_
