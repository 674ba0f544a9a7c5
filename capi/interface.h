// The interface of an executable as the C interface shows it: entries with names and types, and the types themselves.
#ifndef RVM_CAPI_INTERFACE_H_
#define RVM_CAPI_INTERFACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "serialization/executable.h"

namespace rvm::capi {

// A parameter or a result of an entry.
struct NamedType {
  std::string name;
  TypeId type;
  std::string text;  // of parameters with the program's names of extents: "Tensor[(n, 3), float32]"
};

struct EntryInterface {
  std::vector<NamedType> parameters;
  std::vector<NamedType> results;  // the fields of a tuple, or the one value that is none
};

// By ids of the executable's tables.
struct Interface {
  struct Type {
    std::string text;
    std::vector<uint32_t> fields;  // types: of tuples and references, of the parameters of a function
  };
  std::vector<Type> types;
  std::vector<std::vector<std::vector<uint32_t>>> constructors;  // of each ADT: types of their fields
  std::vector<EntryInterface> entries;
};

Interface InterfaceOf(const Executable& executable);

// "fn (%x: Tensor[(n, 3), float32]) -> List[int32]"
std::string EntryType(const Executable& executable, const Entry& entry, const EntryInterface& interface);

}  // namespace rvm::capi

#endif  // RVM_CAPI_INTERFACE_H_
