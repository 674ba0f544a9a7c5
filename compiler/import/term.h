// Term: operands with the operators of arithmetic, for formulas of many steps.
#ifndef RVM_COMPILER_IMPORT_TERM_H_
#define RVM_COMPILER_IMPORT_TERM_H_

#include <span>
#include <string_view>

#include "base/literal.h"
#include "compiler/import/steps.h"

namespace rvm::importing {

class Term {
 public:
  Term(Steps& steps, Operand operand) : steps_(&steps), operand_(operand) {}
  // Converts to the operand, so that converters return terms.
  operator Operand() const { return operand_; }  // NOLINT: implicit on purpose
  Operand operand() const { return operand_; }
  Steps& steps() const { return *steps_; }

  Term Apply(std::string_view op) const { return {*steps_, steps_->Op(op, {operand_})}; }
  Term Apply(std::string_view op, const Term& other) const { return {*steps_, steps_->Op(op, {operand_, other})}; }
  // Returns a scalar constant of this term's dtype.
  Term Like(double value) const { return {*steps_, steps_->Number(value, operand_)}; }

 private:
  Steps* steps_;
  Operand operand_;
};

#define RVM_TERM_OPERATOR(symbol, op)                                                     \
  inline Term operator symbol(const Term& a, const Term& b) { return a.Apply(op, b); }    \
  inline Term operator symbol(const Term& a, double b) { return a.Apply(op, a.Like(b)); } \
  inline Term operator symbol(double a, const Term& b) { return b.Like(a).Apply(op, b); }
RVM_TERM_OPERATOR(+, "add")
RVM_TERM_OPERATOR(-, "subtract")
RVM_TERM_OPERATOR(*, "multiply")
RVM_TERM_OPERATOR(/, "divide")
RVM_TERM_OPERATOR(<, "less")
RVM_TERM_OPERATOR(<=, "less_equal")
RVM_TERM_OPERATOR(>, "greater")
RVM_TERM_OPERATOR(>=, "greater_equal")
RVM_TERM_OPERATOR(==, "equal")
RVM_TERM_OPERATOR(!=, "not_equal")
#undef RVM_TERM_OPERATOR

inline Term operator-(const Term& x) { return x.Apply("negative"); }
inline Term And(const Term& a, const Term& b) { return a.Apply("logical_and", b); }
inline Term Or(const Term& a, const Term& b) { return a.Apply("logical_or", b); }
inline Term Not(const Term& a) { return a.Apply("logical_not"); }
inline Term Exp(const Term& x) { return x.Apply("exp"); }
inline Term Log(const Term& x) { return x.Apply("log"); }
inline Term Sqrt(const Term& x) { return x.Apply("sqrt"); }
inline Term Abs(const Term& x) { return x.Apply("abs"); }
inline Term Sin(const Term& x) { return x.Apply("sin"); }
inline Term Cos(const Term& x) { return x.Apply("cos"); }
inline Term Floor(const Term& x) { return x.Apply("floor"); }
inline Term RoundHalfEven(const Term& x) { return x.Apply("round_half_even"); }
inline Term IsNan(const Term& x) { return x != x; }
inline Term Max(const Term& a, const Term& b) { return a.Apply("maximum", b); }
inline Term Min(const Term& a, const Term& b) { return a.Apply("minimum", b); }
inline Term Select(const Term& condition, const Term& a, const Term& b) {
  return {a.steps(), a.steps().Where(condition, a, b)};
}
inline Term Select(const Term& condition, double a, const Term& b) { return Select(condition, b.Like(a), b); }
inline Term Select(const Term& condition, const Term& a, double b) { return Select(condition, a, a.Like(b)); }

inline Term Cast(const Term& x, DataType dtype) { return {x.steps(), x.steps().Cast(x, dtype)}; }
// Returns `x` in the shape that it and `other` broadcast to.
inline Term Broadcast(const Term& x, const Term& other) {
  Steps& c = x.steps();
  return {c, c.Where(c.emit().Constant(Literal::ScalarInt(kBool, 1)), x, other)};
}
// Returns a scalar: whether any element of `condition` is true.
inline Term Any(const Term& condition) {
  return condition.steps().RankOf(condition) == 0 ? condition : condition.Apply("any");
}

// Returns the polynomial with these coefficients, that of the highest power first.
inline Term Horner(const Term& x, std::span<const double> coefficients) {
  Term sum = x.Like(coefficients[0]);
  for (double coefficient : coefficients.subspan(1)) sum = sum * x + coefficient;
  return sum;
}

// Returns the series of Chebyshev polynomials with these coefficients, by Clenshaw's recurrence.
inline Term Chebyshev(const Term& y, std::span<const double> coefficients) {
  Term twice = y * 2, newer = y.Like(0), older = y.Like(0);
  for (size_t i = coefficients.size(); i-- > 1;) {
    Term next = twice * newer - older + coefficients[i];
    older = newer;
    newer = next;
  }
  return y * newer - older + coefficients[0];
}

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_TERM_H_
