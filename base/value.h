// Value: a Relay value independent of any evaluator. Arguments and results of the VM and of the reference evaluator are
// Values; tests print and compare them.
//
// Immutable; copies share their data. Freeing and comparing do not recurse. Safe to share between threads.
#ifndef RVM_BASE_VALUE_H_
#define RVM_BASE_VALUE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/literal.h"

namespace rvm {

class FunctionObject;

enum class ValueKind : uint8_t {
  kTensor,  // any rank; rank 0 is a scalar
  kTuple,
  kAdt,      // a constructor applied to fields
  kRef,      // a reference cell's contents at the time it left the evaluator
  kClosure,  // a function; prints as `<closure @name>`, equal to none
};

class Value {
 public:
  Value() : Value(Tuple({})) {}
  static Value Tensor(Literal literal);
  static Value Tuple(std::vector<Value> fields);
  static Value Adt(std::string constructor, std::vector<Value> fields);
  static Value Ref(Value contents);
  // One that cannot be called, and one that can.
  static Value Closure(std::string name);
  static Value Function(std::string name, std::shared_ptr<FunctionObject> function);

  ValueKind kind() const;
  const Literal& tensor() const;                            // REQUIRES: kTensor
  const std::vector<Value>& fields() const;                 // kTuple, kAdt, kRef (one field)
  const std::string& name() const;                          // constructor of kAdt, name of kClosure
  const std::shared_ptr<FunctionObject>& function() const;  // of kClosure; null: it cannot be called

  // Relay syntax: `Cons(1, Cons(2, Nil))`, `(True, 1.5f)`, `[[1f, 2f], [3f, 4f]]`, `ref(3)`.
  // Tensors of rank > 0 print as nested lists whose scalars carry the literal suffix
  // of the dtype (int32 and bool: none). Shapes with a zero dim print as
  // `zeros((0, 3), float32)`-like `Constant([], (0, 3), float32)`.
  std::string ToString() const;

  ~Value();
  Value(const Value&) = default;
  Value(Value&&) noexcept = default;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;

  struct Node;

 private:
  explicit Value(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

// A function that crosses the border of a program: one of the host that programs call, or a closure that a run gave to
// the host.
class FunctionObject {
 public:
  FunctionObject() = default;
  FunctionObject(const FunctionObject&) = delete;
  FunctionObject& operator=(const FunctionObject&) = delete;
  virtual ~FunctionObject() = default;

  // Called on the thread of the run that calls the function. The last share of the object may be dropped by any thread.
  virtual absl::StatusOr<Value> Call(std::span<const Value> args) = 0;
  // Index of the closure's type in the program of its machine; -1 for a function of the host.
  virtual int64_t type_index() const { return -1; }
  // Identifies the machine whose heap has the closure; null for a function of the host.
  virtual const void* owner() const { return nullptr; }
};

// One scalar as Relay writes it: `1`, `1i64`, `2u8`, `1.5f`, `nanf`, `-inff64`, `True`.
std::string ScalarToString(const Literal& tensor, int64_t index);

// Returns the first difference between two values, "at .fields[1][3]: 1f vs 2f", or "" if they agree. Floats
// agree when |a-b| <= atol + rtol*|b| or both are NaN or the same infinity; everything
// else must be equal.
std::string DiffValues(const Value& a, const Value& b, double rtol = 0, double atol = 0);

}  // namespace rvm

#endif  // RVM_BASE_VALUE_H_
