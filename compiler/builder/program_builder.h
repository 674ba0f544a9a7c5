// ProgramBuilder: a Relay program made in C++, without text.
//
//   ProgramBuilder b;
//   Type matrix = b.Tensor({Dim::Any(), 4}, kFloat32);
//   Value w = b.Weight("w", b.Tensor({3, 4}, kFloat32));
//   b.Define("main", {{"x", matrix}}, nullptr, [&](Values x) { return b.Op("nn.relu", {b.Op("nn.dense", {x[0], w})});
//   }); absl::StatusOr<ir::Module> module = std::move(b).Finish();
//
// A Value names the result of one step. Making it adds the step to the block being built
// (`let %t1 = ...`), so steps run in the order in which they are made, and a Value may be used
// any number of times where it is in scope. docs/builder.md has a longer example.
//
// Mistakes that only the builder can see (an operator or constructor that does not exist) are
// collected and returned by Finish; types are checked as for text (typing::InferTypes), with the origins of nodes in
// place of lines and columns. driver::CompileModule compiles what Finish gives.
//
// A constant is a Literal, which may borrow its bytes (Buffer::Borrow): they are never copied.
// Not thread-safe. Values and Types belong to their builder's module.
#ifndef RVM_COMPILER_BUILDER_PROGRAM_BUILDER_H_
#define RVM_COMPILER_BUILDER_PROGRAM_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/builder/value_types.h"
#include "compiler/ir/module.h"

namespace rvm::builder {

class ProgramBuilder;

// A variable, constant, function, operator or constructor. Cheap to copy.
class Value {
 public:
  // Scalars of the same C++ type: 1 is int32, 1.5f float32, 1.5 float64.
  Value(bool value);     // NOLINT: constants convert
  Value(int value);      // NOLINT
  Value(int64_t value);  // NOLINT
  Value(float value);    // NOLINT
  Value(double value);   // NOLINT
  Value(Literal value);  // NOLINT

  // Calls it. REQUIRES: it or an argument comes from a builder.
  template <typename... Args>
  Value operator()(const Args&... args) const {
    return Call({Value(args)...});
  }
  // Field `index` of a tuple.
  Value Field(uint32_t index) const;
  // The same, named `name` in the program's text. REQUIRES: the result of a step.
  Value Named(std::string name) const;

 private:
  friend class ProgramBuilder;
  friend Value Infix(std::string_view op, const Value& a, const Value& b);
  Value(ProgramBuilder* builder, const ir::Expr* leaf, Type type) : builder_(builder), leaf_(leaf), type_(type) {}
  Value Call(std::vector<Value> args) const;

  ProgramBuilder* builder_ = nullptr;  // null: a constant
  const ir::Expr* leaf_ = nullptr;
  Type type_ = nullptr;
  Literal literal_;  // where leaf_ is null
};

using Values = std::span<const Value>;

// `a op b`, of the operator written `op`: "+". REQUIRES: one of the two comes from a builder.
Value Infix(std::string_view op, const Value& a, const Value& b);
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator<(const Value& a, const Value& b);
Value operator<=(const Value& a, const Value& b);
Value operator>(const Value& a, const Value& b);
Value operator>=(const Value& a, const Value& b);
Value operator==(const Value& a, const Value& b);
Value operator!=(const Value& a, const Value& b);

struct Param {
  std::string name;
  Type type = nullptr;
};

// Pattern of a clause of Match.
struct Pattern {
  static Pattern Any() { return {}; }
  static Pattern Var(std::string name) { return {ir::PatternKind::kVar, std::move(name), {}}; }
  static Pattern Of(std::string constructor, std::vector<Pattern> fields = {}) {
    return {ir::PatternKind::kConstructor, std::move(constructor), std::move(fields)};
  }
  static Pattern Tuple(std::vector<Pattern> fields) { return {ir::PatternKind::kTuple, "", std::move(fields)}; }

  ir::PatternKind kind = ir::PatternKind::kWildcard;
  std::string name;
  std::vector<Pattern> fields;
};

// An algebraic data type being defined.
class DataTypeBuilder {
 public:
  // Adds a constructor. Fields may mention Param(i) and Self().
  DataTypeBuilder& Constructor(std::string name, std::vector<Type> fields = {});
  Type Param(size_t i) const;
  Type Self() const;                           // applied to its own parameters
  Type Of(std::vector<Type> arguments) const;  // REQUIRES: as many as parameters

 private:
  friend class ProgramBuilder;
  DataTypeBuilder(ProgramBuilder* builder, ir::AdtDef* adt) : builder_(builder), adt_(adt) {}
  ProgramBuilder* builder_;
  ir::AdtDef* adt_;
};

class ProgramBuilder {
 public:
  using Body = absl::FunctionRef<Value(Values params)>;
  using Block = absl::FunctionRef<Value()>;

  // Extends `base`, whose functions and types can be used by name: a text with helper functions, say.
  explicit ProgramBuilder(ir::Module base = {});
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  // ---- types
  Type Tensor(Dims dims, DataType dtype) { return ir::MakeTensorType(arena(), std::move(dims), dtype); }
  Type Scalar(DataType dtype) { return ir::MakeScalarType(arena(), dtype); }
  Type Tuple(std::vector<Type> fields) { return arena().New<ir::TupleType>(std::move(fields)); }
  Type Function(std::vector<Type> params, Type result);
  Type Ref(Type contents) { return arena().New<ir::RefType>(contents); }
  // A dim that a function is generic in. Used in the parameter types of one Define; of the same name it is the same.
  Dim NamedDim(std::string name);
  // A type that a function is generic in; the same.
  Type TypeParameter(std::string name);
  DataTypeBuilder NewType(std::string name, std::vector<std::string> params = {});
  // A type that is there already: `DataType("List").Of({element})`.
  DataTypeBuilder DataType(std::string_view name);
  // Returns the type of a value as far as it is known while building: each step has the type that its operator's rule,
  // the function that it calls or its branches give it. Extents that are not known yet are `?`. Null if only inference
  // can determine it.
  Type TypeOf(const Value& value);

  // ---- origins
  // What is made from now on comes from there (diagnostics::SourceMap::AddOrigin): messages and backtraces say so.
  void SetOrigin(ir::Span origin) { origin_ = origin; }

  // ---- functions and weights
  // Defines `@name`. Type parameters and named dims of the parameters' types are quantified here.
  Value Define(std::string name, std::vector<Param> params, Type result, Body body);
  // Returns a function that may be defined later.
  Value Global(std::string name);
  // Returns a free variable, bound by a file of weights when the program is compiled.
  Value Weight(std::string name, Type type);

  // ---- steps
  Value Op(std::string_view name, std::vector<Value> args, ir::Attrs attrs = {});
  Value OpValue(std::string_view name);  // the operator itself, to pass on
  Value Constructor(std::string_view name);
  Value Call(const Value& callee, const std::vector<Value>& args);
  Value TupleOf(const std::vector<Value>& fields);
  Value If(const Value& condition, Block then_block, Block else_block);
  struct Clause {
    Pattern pattern;
    Body body;  // gets the pattern's variables, in its order
  };
  // The clauses must cover every value, or `partial` is set: then it may fail when it runs.
  Value Match(const Value& value, std::initializer_list<Clause> clauses, bool partial = false);
  // Returns a function value; `name`, if given, is bound in its own body: `b.Lambda("loop", ...)`.
  Value Lambda(std::string name, std::vector<Param> params, Type result,
               absl::FunctionRef<Value(const Value& self, Values params)> body);
  Value NewRef(const Value& contents);
  Value Read(const Value& ref);
  void Write(const Value& ref, const Value& value);

  // Returns the program, or all mistakes. The builder is spent.
  absl::StatusOr<ir::Module> Finish() &&;

 private:
  friend class Value;
  friend class DataTypeBuilder;
  struct Binding {
    ir::Var* var;
    ir::Expr* value;
  };

  ir::Arena& arena() { return *module_.arena; }
  void Mistake(std::string message) { mistakes_.push_back(std::move(message)); }
  ir::Expr* Use(const Value& value);  // a node of its own per use
  std::vector<ir::Expr*> UseAll(const std::vector<Value>& values);
  Value Bind(ir::Expr* step, Type type);
  Value Leaf(const ir::Expr* leaf, Type type) { return Value(this, leaf, type); }
  Value NoValue();  // stands for a mistake
  struct Built {
    ir::Expr* expr;
    Type type;
  };
  Built Build(Block block);
  struct BuiltFunction {
    ir::Function* function;
    Type type;  // null if the result is not known
  };
  BuiltFunction BuildFunction(const std::vector<Param>& params, Type result, Body body);
  ir::Pattern* BuildPattern(const Pattern& pattern, Type type, std::vector<Value>& vars);
  std::vector<Type> TypesOf(const std::vector<Value>& values);

  ir::Module module_;
  std::vector<std::vector<Binding>> blocks_;
  ir::Span origin_;
  std::vector<const ir::TypeParam*> open_params_;          // not yet quantified
  absl::flat_hash_map<std::string, Type> function_types_;  // of functions with a known result
  std::vector<std::string> mentioned_;                     // functions
  std::vector<std::string> mistakes_;
  int next_name_ = 0;
};

}  // namespace rvm::builder

#endif  // RVM_COMPILER_BUILDER_PROGRAM_BUILDER_H_
