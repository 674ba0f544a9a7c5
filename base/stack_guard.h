// Recursion whose depth is bounded by memory, not by the host stack.
//
// Programs nest as deeply as people and tools write them: 100,000 lets are
// normal. A recursive function over the program wraps its body:
//
//   Type* Check(const Expr* e) {
//     return WithStack([&] { return CheckOnThisStack(e); });
//   }
//
// WithStack calls directly while the current stack has room (a compare), and
// otherwise continues on a fresh segment from the heap, freed on return. The
// reason it is not one big stack: threads that embed the compiler choose their
// own stack sizes, often small. See docs/decisions/0002-deep-recursion.md.
#ifndef RVM_BASE_STACK_GUARD_H_
#define RVM_BASE_STACK_GUARD_H_

#include <optional>
#include <type_traits>
#include <utility>

namespace rvm {

// True while at least 128 KiB are left on the stack of this thread or segment.
bool StackHasRoom();
// Runs `body(argument)` on a fresh stack segment and returns when it has returned.
void RunOnNewSegment(void (*body)(void*), void* argument);

template <typename F>
auto WithStack(F&& f) -> std::invoke_result_t<F&> {
  using Result = std::invoke_result_t<F&>;
  if (StackHasRoom()) [[likely]]
    return f();
  if constexpr (std::is_void_v<Result>) {
    RunOnNewSegment([](void* g) { (*static_cast<std::remove_reference_t<F>*>(g))(); }, &f);
  } else {
    struct Call {
      std::remove_reference_t<F>* f;
      std::optional<Result> result;
    } call{&f, std::nullopt};
    RunOnNewSegment(
        [](void* g) {
          Call* c = static_cast<Call*>(g);
          c->result.emplace((*c->f)());
        },
        &call);
    return *std::move(call.result);
  }
}

}  // namespace rvm

#endif  // RVM_BASE_STACK_GUARD_H_
