// Errors of the C interface.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/version.h"
#include "capi/handles.h"
#include "serialization/format.h"
#include "vm/limits/limit.h"

namespace rvm::capi {
namespace {

// Beginning of the lines of a backtrace (vm/interpreter/backtrace.h).
constexpr std::string_view kFrame = "\n  in `";

rvm_code CodeOf(absl::StatusCode code, rvm_code invalid) {
  switch (code) {
    case absl::StatusCode::kOk: return RVM_OK;
    case absl::StatusCode::kNotFound: return invalid == RVM_INVALID_FILE ? RVM_IO : RVM_INVALID_ARGUMENT;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange: return invalid;
    case absl::StatusCode::kUnimplemented: return RVM_UNSUPPORTED_VERSION;
    case absl::StatusCode::kFailedPrecondition: return RVM_UNSUPPORTED_TARGET;
    case absl::StatusCode::kUnauthenticated: return RVM_UNTRUSTED_CODE;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAlreadyExists: return RVM_IO;
    case absl::StatusCode::kResourceExhausted: return RVM_RESOURCE_EXHAUSTED;
    case absl::StatusCode::kDeadlineExceeded: return RVM_DEADLINE_EXCEEDED;
    case absl::StatusCode::kCancelled: return RVM_CANCELLED;
    case absl::StatusCode::kAborted: return RVM_HOST_FAILED;
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kDoNotUseReservedForFutureExpansionUseDefaultInSwitchInstead_: break;
  }
  return RVM_INTERNAL;
}

std::string_view LimitName(vm::Limit limit) {
  switch (limit) {
    case vm::Limit::kMemory: return "memory";
    case vm::Limit::kStack: return "stack";
    case vm::Limit::kFuel: return "fuel";
    case vm::Limit::kTime: return "time";
  }
  RVM_UNREACHABLE("no such limit");
}

// "a" or "an". The names of the interface's types are spelled out: an r-v-m value.
const char* Article(std::string_view noun) {
  bool is_an = noun.starts_with("rvm_") || std::string_view("aeiou").find(noun[0]) != std::string_view::npos;
  return is_an ? "an" : "a";
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kError: return "rvm_error";
    case Kind::kProgram: return "rvm_program";
    case Kind::kMachine: return "rvm_machine";
    case Kind::kValue: return "rvm_value";
    case Kind::kBatch: return "rvm_batch";
    case Kind::kReleased: return "a released object";
  }
  return "something else";  // foreign memory
}

rvm_error* NewError(rvm_code code, std::string_view message) {
  auto* error = new rvm_error();
  error->code = code;
  error->message = message;
  return error;
}

rvm_error* ErrorOf(const absl::Status& status, rvm_code invalid) {
  std::string message(status.message());
  size_t frames = message.find(kFrame);
  // Errors of the program have a backtrace; errors of the caller have none.
  if (frames != std::string::npos && invalid == RVM_INVALID_ARGUMENT) invalid = RVM_PROGRAM_FAILED;
  rvm_code code = vm::IsDeviceFailure(status) ? RVM_DEVICE_FAILED : CodeOf(status.code(), invalid);
  rvm_error* error = NewError(code, message.substr(0, frames));
  if (frames != std::string::npos) error->backtrace = message.substr(frames + 1) + "\n";
  if (std::optional<vm::Limit> limit = vm::ReachedLimit(status)) error->limit = LimitName(*limit);
  return error;
}

rvm_error* WrongArgument(std::string_view name, std::string_view saw, std::string_view expected) {
  return NewError(RVM_INVALID_ARGUMENT, absl::StrCat("argument `", Abseil(name), "`: saw ", Abseil(saw), "; expected ",
                                                     Article(expected), " ", Abseil(expected)));
}

}  // namespace rvm::capi

rvm_code rvm_error_code(const rvm_error* error) {
  if (error == nullptr) return RVM_OK;
  return rvm_error::Is(error) ? error->code : RVM_INVALID_ARGUMENT;
}

const char* rvm_code_name(rvm_code code) {
  switch (code) {
    case RVM_OK: return "ok";
    case RVM_INVALID_ARGUMENT: return "invalid-argument";
    case RVM_INVALID_FILE: return "invalid-file";
    case RVM_UNSUPPORTED_VERSION: return "unsupported-version";
    case RVM_UNSUPPORTED_TARGET: return "unsupported-target";
    case RVM_UNTRUSTED_CODE: return "untrusted-code";
    case RVM_IO: return "io";
    case RVM_PROGRAM_FAILED: return "program-failed";
    case RVM_RESOURCE_EXHAUSTED: return "resource-exhausted";
    case RVM_DEADLINE_EXCEEDED: return "deadline-exceeded";
    case RVM_CANCELLED: return "cancelled";
    case RVM_INTERNAL: return "internal";
    case RVM_DEVICE_FAILED: return "device-failed";
    case RVM_HOST_FAILED: return "host-failed";
  }
  return "unknown";  // a number that is no code
}

const char* rvm_error_message(const rvm_error* error) { return rvm_error::Is(error) ? error->message.c_str() : ""; }
const char* rvm_error_backtrace(const rvm_error* error) { return rvm_error::Is(error) ? error->backtrace.c_str() : ""; }
const char* rvm_error_limit(const rvm_error* error) { return rvm_error::Is(error) ? error->limit.c_str() : ""; }
void rvm_error_free(rvm_error* error) { rvm_error::Release(error); }
rvm_error* rvm_error_create(const char* message) {
  return rvm::capi::NewError(RVM_HOST_FAILED, message == nullptr ? "" : message);
}

uint32_t rvm_version(void) { return rvm::kVersionMajor << 16 | rvm::kVersionMinor << 8 | rvm::kVersionPatch; }
uint32_t rvm_file_version(void) { return uint32_t{rvm::format::kMajor} << 16 | rvm::format::kMinor; }
void rvm_string_free(char* string) { std::free(string); }
