// Describes the parameters and results of the entries of an executable, for people and for bindings.
#ifndef RVM_CAPI_SIGNATURE_JSON_H_
#define RVM_CAPI_SIGNATURE_JSON_H_

#include <string>

#include "serialization/executable.h"

namespace rvm::capi {

// Returns the JSON that relayvm.h documents at rvm_program_signature.
std::string SignatureJson(const Executable& executable);
// "fn (%x: Tensor[(n, 3), float32]) -> int32"; extents have the names that the program gave them.
std::string EntryType(const Executable& executable, const Entry& entry);

}  // namespace rvm::capi

#endif  // RVM_CAPI_SIGNATURE_JSON_H_
