// Describes the parameters and results of the entries of an executable for bindings.
#ifndef RVM_CAPI_SIGNATURE_JSON_H_
#define RVM_CAPI_SIGNATURE_JSON_H_

#include <string>

#include "capi/interface.h"
#include "serialization/executable.h"

namespace rvm::capi {

// Returns the JSON that relayvm.h documents at rvm_program_signature.
std::string SignatureJson(const Executable& executable, const Interface& interface);

}  // namespace rvm::capi

#endif  // RVM_CAPI_SIGNATURE_JSON_H_
