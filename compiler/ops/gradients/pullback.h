// Pullback: what the gradient rule of an operator is written in.
//
// A rule (OpDef::gradient) takes a call y = op(x0, x1, ...) and the adjoint d of y, and gives each argument its share
// of the adjoint, as expressions of operators. `d` has the type of y. A rule names the tensors that it reads; what it
// does not read is not kept.
#ifndef RVM_COMPILER_OPS_GRADIENTS_PULLBACK_H_
#define RVM_COMPILER_OPS_GRADIENTS_PULLBACK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/build.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {

class Pullback;

// A tensor in the reversed code: a variable, or a constant. Operators on terms append calls to the reversed code.
class Term {
 public:
  Term(Pullback* code, ir::Var* var) : code_(code), var_(var) {}
  ir::Var* var() const { return var_; }
  Pullback& code() const { return *code_; }
  const ir::TensorType& type() const { return *ir::DynCast<ir::TensorType>(var_->type); }
  int64_t rank() const { return static_cast<int64_t>(type().shape.dims.size()); }

 private:
  Pullback* code_;
  ir::Var* var_;
};

// A tensor of a call that is being reversed: a variable, or a literal of the program.
struct Operand {
  ir::Var* var = nullptr;
  const ir::Constant* constant = nullptr;
};

class Pullback {
 public:
  // `arguments[i]`: the tensors of argument i, one unless it is a tuple. `results`: those of the result; `adjoints`: of
  // each result, null where nothing flows. New code is appended to `chain`.
  Pullback(const ir::Builder& at, std::string_view op, const ir::Attrs& attrs,
           std::vector<std::vector<Operand>> arguments, std::vector<ir::Var*> results, std::vector<ir::Var*> adjoints,
           std::vector<ir::Binding>& chain)
      : at_(at),
        op_(op),
        attrs_(attrs),
        arguments_(std::move(arguments)),
        results_(std::move(results)),
        adjoints_(std::move(adjoints)),
        chain_(chain) {
    for (const auto& argument : arguments_) shares_.emplace_back(argument.size(), nullptr);
  }
  Pullback(const Pullback&) = delete;
  Pullback& operator=(const Pullback&) = delete;

  std::string_view op() const { return op_; }
  const ir::Attrs& attrs() const { return attrs_; }
  size_t num_args() const { return arguments_.size(); }
  size_t num_fields(size_t arg) const { return arguments_[arg].size(); }
  size_t num_results() const { return results_.size(); }
  Term x(size_t arg = 0, size_t field = 0);
  // REQUIRES for d: something flows.
  Term y(size_t result = 0) { return {this, results_[result]}; }
  Term d(size_t result = 0) { return {this, adjoints_[result]}; }
  bool has_d(size_t result) const { return adjoints_[result] != nullptr; }
  const ir::TensorType& type(size_t arg, size_t field = 0);
  int64_t rank(size_t arg) { return static_cast<int64_t>(type(arg).shape.dims.size()); }

  // Adds to the adjoint of an argument. A share of a larger shape, of an operand that was broadcast, is summed to the
  // operand's; one of another dtype is cast.
  void Give(size_t arg, Term share) { Give(arg, 0, share); }
  void Give(size_t arg, size_t field, Term share);
  // Gives the shares that the rules of other operators give for `write`, which makes the result of the call, a tensor,
  // of its arguments. No argument is a tuple. What `write` makes has the dtype of the result.
  void GiveThrough(const std::function<Term(const std::vector<Term>& x)>& write);
  // Null: none.
  ir::Var* share(size_t arg, size_t field) const { return shares_[arg][field]; }

  // Returns a call of an operator.
  Term Call(std::string_view op, std::vector<Term> args, ir::Attrs attrs = {});
  // ... of one that takes a tuple.
  Term CallOnTuple(std::string_view op, std::vector<Term> fields, ir::Attrs attrs = {});
  // ... of one that gives a tuple.
  std::vector<Term> CallForTuple(std::string_view op, std::vector<Term> args, ir::Attrs attrs = {});
  // Returns a scalar of the dtype of `like`; a scalar and a vector of int64.
  Term Scalar(double value, Term like);
  Term Int(int64_t value);
  Term Ints(const std::vector<int64_t>& values);
  // Says that the rule does not cover these attributes or types, and why. Nothing is given.
  void Refuse(std::string why) { refusal_ = std::move(why); }
  const std::string& refusal() const { return refusal_; }

 private:
  class Through;
  std::vector<ir::Expr*> Uses(const std::vector<Term>& terms);
  ir::Var* Bind(ir::Expr* value);

  const ir::Builder& at_;
  std::string_view op_;
  const ir::Attrs& attrs_;
  std::vector<std::vector<Operand>> arguments_;
  std::vector<ir::Var*> results_, adjoints_;
  std::vector<std::vector<ir::Var*>> shares_;
  std::vector<ir::Binding>& chain_;
  std::string refusal_;
};

inline Term operator+(Term a, Term b) { return a.code().Call("add", {a, b}); }
inline Term operator-(Term a, Term b) { return a.code().Call("subtract", {a, b}); }
inline Term operator*(Term a, Term b) { return a.code().Call("multiply", {a, b}); }
inline Term operator/(Term a, Term b) { return a.code().Call("divide", {a, b}); }
inline Term operator-(Term a) { return a.code().Call("negative", {a}); }
inline Term operator+(Term a, double b) { return a + a.code().Scalar(b, a); }
inline Term operator-(Term a, double b) { return a - a.code().Scalar(b, a); }
inline Term operator*(Term a, double b) { return a * a.code().Scalar(b, a); }
inline Term operator/(Term a, double b) { return a / a.code().Scalar(b, a); }
inline Term operator-(double a, Term b) { return b.code().Scalar(a, b) - b; }
inline Term operator/(double a, Term b) { return b.code().Scalar(a, b) / b; }

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_GRADIENTS_PULLBACK_H_
