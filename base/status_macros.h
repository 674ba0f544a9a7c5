// Propagation of absl::Status and absl::StatusOr.
#ifndef RVM_BASE_STATUS_MACROS_H_
#define RVM_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RVM_STATUS_CONCAT_INNER(a, b) a##b
#define RVM_STATUS_CONCAT(a, b) RVM_STATUS_CONCAT_INNER(a, b)

// Returns the status of `expression` to the caller unless it is OK.
#define RVM_RETURN_IF_ERROR(expression)                                              \
  do {                                                                               \
    if (absl::Status rvm_status = (expression); !rvm_status.ok()) return rvm_status; \
  } while (false)

// Evaluates a StatusOr; assigns its value to `lhs` or returns its status.
#define RVM_ASSIGN_OR_RETURN(lhs, expression) \
  RVM_ASSIGN_OR_RETURN_INNER(RVM_STATUS_CONCAT(rvm_statusor_, __LINE__), lhs, expression)
#define RVM_ASSIGN_OR_RETURN_INNER(temporary, lhs, expression) \
  auto temporary = (expression);                               \
  if (!temporary.ok()) return std::move(temporary).status();   \
  lhs = *std::move(temporary)

#endif  // RVM_BASE_STATUS_MACROS_H_
