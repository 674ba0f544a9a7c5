// Batches of the C interface.
#include "vm/batch.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "capi/handles.h"
#include "capi/run_options.h"
#include "capi/sized_struct.h"

using rvm::capi::NullArgument;

rvm_error* rvm_batch_create(rvm_program* program, const rvm_batch_options* given, rvm_batch** out) {
  if (rvm_error* error = rvm_program::Check(program, "program")) return error;
  if (out == nullptr) return NullArgument("out", "rvm_batch*");
  rvm_batch_options read;
  absl::Status status = rvm::capi::ReadStruct(given, "rvm_batch_options", read);
  if (!status.ok()) return rvm::capi::ErrorOf(status, RVM_INVALID_ARGUMENT);
  rvm_machine_options machine;
  rvm::vm::BatchOptions options;
  if (rvm_error* error = rvm::capi::ReadMachineOptions(read.machine, machine, options.machine)) return error;
  if (machine.profile != 0 || machine.trace_events > 0) {
    return rvm::capi::NewError(RVM_INVALID_ARGUMENT, "a batch does not profile; profile one request in a machine");
  }
  if (read.lanes > 1024) {
    return rvm::capi::NewError(RVM_INVALID_ARGUMENT,
                               absl::StrCat("`lanes` is ", read.lanes, "; expected 1024 at most"));
  }
  if (read.lanes > 0) options.lanes = static_cast<int>(read.lanes);
  auto batch = rvm::vm::Batch::Create(program->program, options);
  if (!batch.ok()) return rvm::capi::ErrorOf(batch.status(), RVM_INVALID_ARGUMENT);
  auto* result = new rvm_batch();
  result->state = std::make_shared<rvm::capi::BatchState>();
  result->state->counts = program->counts;
  result->state->batch = *std::move(batch);
  *out = result;
  return nullptr;
}

void rvm_batch_free(rvm_batch* batch) {
  if (rvm_batch::Is(batch)) rvm_batch::Release(batch);
}

rvm_error* rvm_batch_submit(rvm_batch* batch, const char* entry, rvm_value* const* args, size_t count,
                            const rvm_run_options* given, rvm_batch_done done, void* context, uint64_t* ticket) {
  if (rvm_error* error = rvm_batch::Check(batch, "batch")) return error;
  if (entry == nullptr) return NullArgument("entry", "name of an entry");
  if (done == nullptr) return NullArgument("done", "function");
  rvm::vm::RunOptions options;
  if (rvm_error* error = rvm::capi::ReadRunOptions(given, options)) return error;
  if (options.poll != nullptr) {
    return rvm::capi::NewError(RVM_INVALID_ARGUMENT,
                               "a request of a batch has no `poll` function; end it by rvm_batch_cancel");
  }
  std::vector<rvm::Value> values;
  if (rvm_error* error = rvm::capi::ReadArguments(args, count, values)) return error;
  auto end = [counts = batch->state->counts, done, context](absl::StatusOr<rvm::Value> result) {
    rvm_error* error = result.ok() ? nullptr : rvm::capi::ErrorOf(result.status(), RVM_INVALID_ARGUMENT);
    counts->Add(rvm_error_code(error), 0, 0);
    done(context, error, error != nullptr ? nullptr : new rvm_value(*std::move(result)));
  };
  uint64_t number = batch->state->batch->Submit(entry, std::move(values), options, end);
  if (ticket != nullptr) *ticket = number;
  return nullptr;
}

void rvm_batch_cancel(rvm_batch* batch, uint64_t ticket) {
  if (rvm_batch::Is(batch)) batch->state->batch->Cancel(ticket);
}

rvm_error* rvm_batch_drive(rvm_batch* batch, double wait_ms) {
  if (rvm_error* error = rvm_batch::Check(batch, "batch")) return error;
  if (!(wait_ms >= 0)) {
    return rvm::capi::NewError(RVM_INVALID_ARGUMENT, absl::StrCat("`wait_ms` is ", wait_ms, "; expected 0 or more"));
  }
  std::shared_ptr<rvm::capi::BatchState> state = batch->state;
  rvm::capi::Turn turn(state->is_busy);
  if (!turn.is_mine()) {
    return rvm::capi::NewError(RVM_INVALID_ARGUMENT,
                               "another thread drives the batch, or a callback of it; expected one at a time");
  }
  if (!state->batch->WaitForRequest(wait_ms)) return nullptr;
  auto began = std::chrono::steady_clock::now();
  state->batch->Drive();
  std::chrono::nanoseconds time = std::chrono::steady_clock::now() - began;
  state->counts->nanoseconds.fetch_add(time.count(), std::memory_order_relaxed);
  return nullptr;
}

rvm_error* rvm_batch_get_stats(rvm_batch* batch, rvm_batch_stats* out) {
  if (rvm_error* error = rvm_batch::Check(batch, "batch")) return error;
  if (out == nullptr) return NullArgument("out", "rvm_batch_stats");
  absl::Status status = rvm::capi::CheckStructSize(out->struct_size, "rvm_batch_stats");
  if (!status.ok()) return rvm::capi::ErrorOf(status, RVM_INVALID_ARGUMENT);
  rvm::vm::BatchStats stats = batch->state->batch->stats();
  rvm_batch_stats all = {.struct_size = sizeof(all),
                         .reserved = 0,
                         .requests = stats.requests,
                         .calls = stats.calls,
                         .groups = stats.groups};
  rvm::capi::WriteStruct(all, out);
  return nullptr;
}
