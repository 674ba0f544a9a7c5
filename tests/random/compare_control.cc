// Functions as machine code beside their bytecode.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/random/check_program.h"
#include "vm/limits/limit.h"
#include "vm/link/link_info.h"
#include "vm/machine.h"

namespace rvm::random_programs {
namespace {

constexpr int64_t kFuel = 100'000;
// Payments and allocations that fail in turn.
constexpr int64_t kPayments = 30;
constexpr int64_t kAllocations = 10;

std::string Text(const absl::StatusOr<Value>& result) {
  return result.ok() ? result->ToString() : result.status().ToString();
}

// A machine that runs machine code, and one that runs bytecode.
class Pair {
 public:
  static absl::StatusOr<Pair> Create(std::shared_ptr<const vm::Program> program, vm::MachineOptions options) {
    Pair pair;
    absl::StatusOr<std::unique_ptr<vm::Machine>> native = vm::Machine::Create(program, options);
    if (!native.ok()) return native.status();
    options.runs_bytecode = true;
    absl::StatusOr<std::unique_ptr<vm::Machine>> bytecode = vm::Machine::Create(program, options);
    if (!bytecode.ok()) return bytecode.status();
    pair.native_ = *std::move(native);
    pair.bytecode_ = *std::move(bytecode);
    return pair;
  }

  // Runs a call on both. False: they differ, as difference() says.
  bool Agree(const EntryCall& call, int64_t fuel) {
    absl::StatusOr<Value> expected = bytecode_->Invoke(call.entry, call.args, {.fuel = fuel});
    absl::StatusOr<Value> seen = native_->Invoke(call.entry, call.args, {.fuel = fuel});
    limit_ = vm::ReachedLimit(expected.status());
    std::string on_bytecode = Describe(expected, *bytecode_), on_native = Describe(seen, *native_);
    bool leaks = native_->stats().leaked_objects != 0;
    if (on_bytecode == on_native && !leaks) return true;
    difference_ = absl::StrCat(" with fuel ", fuel, "\nbytecode: ", on_bytecode, "\nmachine code: ", on_native);
    return false;
  }

  // Limit that ended the last call, if one did.
  std::optional<vm::Limit> limit() const { return limit_; }
  const std::string& difference() const { return difference_; }
  const vm::Machine& bytecode() const { return *bytecode_; }

 private:
  static std::string Describe(const absl::StatusOr<Value>& result, const vm::Machine& machine) {
    vm::MachineStats stats = machine.stats();
    return absl::StrCat(Text(result), "; ", stats.allocations, " allocations, ", stats.leaked_objects, " leaked, peak ",
                        stats.peak_bytes);
  }

  std::unique_ptr<vm::Machine> native_, bytecode_;
  std::optional<vm::Limit> limit_;
  std::string difference_;
};

// Every payment up to kPayments fails, and the last one. The call does not end for want of fuel before kFuel.
bool AgreeOnFuel(Pair& pair, const EntryCall& call) {
  for (int64_t fuel = 0; fuel < kPayments; ++fuel) {
    if (!pair.Agree(call, fuel)) return false;
    if (pair.limit() != vm::Limit::kFuel) return true;
  }
  int64_t too_little = kPayments - 1, enough = kFuel;
  while (too_little + 1 < enough) {
    // Most calls need little.
    int64_t fuel = enough == kFuel ? std::min(4 * too_little, kFuel - 1) : too_little + (enough - too_little) / 2;
    if (!pair.Agree(call, fuel)) return false;
    (pair.limit() == vm::Limit::kFuel ? too_little : enough) = fuel;
  }
  return true;
}

}  // namespace

Verdict CompareControl(const std::string& name, std::span<const EntryCall> calls,
                       std::shared_ptr<const vm::Program> linked) {
  if (linked->link_info().native == nullptr) return {};
  absl::StatusOr<Pair> pair = Pair::Create(linked, {});
  if (!pair.ok()) return {absl::StrCat(name, " machine"), pair.status().ToString()};
  for (const EntryCall& call : calls) {
    auto differ = [&](const Pair& machines, const std::string& how) -> Verdict {
      return {absl::StrCat(name, " control"), absl::StrCat(CallText(call), how, machines.difference())};
    };
    int64_t before = pair->bytecode().stats().allocations;
    if (!pair->Agree(call, kFuel)) return differ(*pair, "");
    int64_t allocations = pair->bytecode().stats().allocations - before;
    if (pair->limit() != vm::Limit::kFuel && !AgreeOnFuel(*pair, call)) return differ(*pair, "");
    for (int64_t n = 1; n <= std::min(allocations, kAllocations); ++n) {
      absl::StatusOr<Pair> failing = Pair::Create(linked, {.fail_allocation = n});
      if (!failing.ok()) return {absl::StrCat(name, " machine"), failing.status().ToString()};
      if (!failing->Agree(call, kFuel)) return differ(*failing, absl::StrCat(", allocation ", n, " fails,"));
    }
  }
  return {};
}

}  // namespace rvm::random_programs
