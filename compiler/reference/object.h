// The evaluator's objects: reference-counted, freed without recursion.
#ifndef RVM_COMPILER_REFERENCE_OBJECT_H_
#define RVM_COMPILER_REFERENCE_OBJECT_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/literal.h"
#include "base/value.h"
#include "compiler/ir/expr.h"

namespace rvm::reference {

enum class ObjectKind : uint8_t { kTensor, kTuple, kAdt, kRef, kClosure, kOp, kConstructor, kHost };

struct Object;

// Facts about a function that its calls need.
struct FunctionFacts {
  uint32_t frame_slots = 0;        // of an activation
  std::vector<ir::Var*> captured;  // by a closure of it
  bool check_result = false;
};

// A counted reference to an object, or null.
class Handle {
 public:
  Handle() = default;
  explicit Handle(Object* object) : object_(object) {}  // takes ownership of one count
  Handle(const Handle& other);
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) Release(object_);
  }
  Object* operator->() const { return object_; }
  Object* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  friend struct Object;
  static void Release(Object* object);
  Object* object_ = nullptr;
};

struct Object {
  explicit Object(ObjectKind k) : kind(k) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object();

  ObjectKind kind;
  int64_t count = 1;
  Literal tensor;                                // kTensor
  std::vector<Handle> fields;                    // kTuple, kAdt; kRef: one; kClosure: captured values
  const ir::Constructor* constructor = nullptr;  // kAdt, kConstructor
  const ir::Function* function = nullptr;        // kClosure
  const FunctionFacts* facts = nullptr;          // kClosure: `fields` are the values of `facts->captured`
  const ir::Var* self = nullptr;                 // kClosure: the let variable it is bound to, if any
  std::string_view name;                         // kClosure
  const ops::OpDef* op = nullptr;                // kOp
  std::shared_ptr<FunctionObject> host;          // kHost: a function of the host
  const ir::FuncType* host_type = nullptr;       // kHost
  // kRef: neighbours in the list of all reference cells, through which cycles are cut.
  Object* next = nullptr;
  Object* previous = nullptr;
};

// Tracks all live reference cells without owning them. Its destructor empties them, which breaks every cycle: cycles
// always go through a reference, since a recursive closure does not capture itself.
class RefCells {
 public:
  RefCells() : head_(ObjectKind::kRef) { head_.next = head_.previous = &head_; }
  ~RefCells();
  Handle New(Handle contents);

 private:
  Object head_;
};

}  // namespace rvm::reference

#endif  // RVM_COMPILER_REFERENCE_OBJECT_H_
