// Conversions of values between the forms that a type can have, for FitValues.
//
// Two things have more than one form. What stands for a type parameter with endless instances is of the universal type
// (uniform_types.h): a box around a tensor, around a tuple whose fields are boxes, around a `List[any type]`, around a
// function from boxes to a box; there is one box for each value of each type. And a polymorphic function is the tuple
// of its instances, or one of them (polymorphic_values.h).
//
// Each conversion is a global function, made once; functions are wrapped, data is rebuilt.
#ifndef RVM_COMPILER_PASSES_SPECIALIZE_CONVERT_VALUES_H_
#define RVM_COMPILER_PASSES_SPECIALIZE_CONVERT_VALUES_H_

#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/module.h"
#include "compiler/passes/rewriter.h"
#include "compiler/passes/specialize/polymorphic_values.h"

namespace rvm::passes {

class ValueConverter {
 public:
  ValueConverter(ir::Arena& arena, PolymorphicTypes& types, ir::AdtDef* universal)
      : arena_(arena), types_(types), universal_(universal) {}

  // Returns the value in the form of `to`; itself if it has that. Refuses, then or when the functions are made, what
  // cannot be converted: a reference, since others may hold it.
  ir::Expr* Convert(ir::Expr* value, const ir::Type* to);
  // Returns the pattern for values of the form `type`. Appends the variables that it cannot bind itself, with what they
  // are.
  ir::Pattern* ConvertPattern(const ir::Pattern& pattern, const ir::Type* type, std::vector<Binding>& converted);
  bool SameValues(const ir::Type* a, const ir::Type* b) { return types_.SameValues(a, b); }
  // Returns the type with `?` for dims that are not constant.
  const ir::Type* Closed(const ir::Type* type);
  // Returns the functions that the conversions so far call.
  std::vector<ir::GlobalFunction> MakeFunctions();

 private:
  // A conversion whose function is still to be made, and where it was first asked for.
  struct Conversion {
    std::string name;
    const ir::Type* from;
    const ir::Type* to;
    ir::Span place;
  };
  bool IsUniversal(const ir::Type* type) const;
  const ir::AdtType* UniversalType();
  std::vector<const ir::Type*> Universals(size_t count);
  const ir::Type* BoxedForm(const ir::Type* type);
  const ir::Constructor* BoxOf(const ir::Type* type);
  ir::Builder At(ir::Span span) const { return {arena_, span}; }
  ir::Expr* Field(const ir::Expr* value, size_t index);
  ir::Expr* Body(ir::Expr* value, const ir::Type* to);
  ir::Expr* ConvertPart(ir::Expr* value, const ir::Type* to);
  ir::Expr* CallConversion(ir::Expr* value, const ir::Type* to);
  ir::Expr* PutIn(ir::Expr* value);
  ir::Expr* TakeOut(ir::Expr* value, const ir::Type* to);
  ir::Expr* ConvertAdt(ir::Expr* value, const ir::AdtType& from, const ir::AdtType& to);
  ir::Expr* ConvertFunction(ir::Expr* value, const ir::FuncType& from, const ir::FuncType& to);
  ir::Expr* InstanceOf(ir::Expr* value, const ir::FuncType& origin, const ir::Type* to);
  ir::Expr* Construct(const ir::Constructor* constructor, const ir::AdtType* type, std::vector<ir::Expr*> fields);
  ir::Expr* Refuse(ir::Expr* value);

  ir::Arena& arena_;
  PolymorphicTypes& types_;
  ir::AdtDef* universal_;
  ir::Span place_;
  absl::flat_hash_map<std::string, std::string> names_;  // of the functions, by both types
  absl::flat_hash_map<std::string, const ir::Constructor*> boxes_;
  std::deque<Conversion> pending_;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPECIALIZE_CONVERT_VALUES_H_
