// Random Relay programs: well typed, always ending, from a seed.
//
// Floats are either exact or approximate in a whole program. Exact: only operations whose result is
// defined to the bit, so that they may decide branches and become integers. Approximate:
// also exp and sums and matmuls, whose values stay small and never decide anything.
#ifndef RVM_TESTS_RANDOM_GENERATOR_H_
#define RVM_TESTS_RANDOM_GENERATOR_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/value.h"
#include "tests/random/random_types.h"

namespace rvm::random_programs {

struct EntryCall {
  std::string entry;
  std::vector<Value> args;
};

struct Program {
  std::string text;
  std::vector<EntryCall> calls;
  double tolerance = 0;   // of floats in results, relative and absolute
  size_t num_active = 0;  // of a differentiable program: the arguments that derivatives are by
};

Program Generate(uint64_t seed);
// Programs whose entries have work for a device, and marks that place some of it: of tensors of any kind, or products
// of bytes with int32 sums.
Program GenerateTensorWork(uint64_t seed);
Program GenerateProducts(uint64_t seed);
// Returns a program with a smooth function @value of float64 and other data; @gradient, its value and its gradient by
// those arguments that hold float64, which come first; and @tangent, its value and its derivative along directions of
// those, which come last. The calls are one of @gradient and one of @value, with the same arguments.
Program GenerateDifferentiable(uint64_t seed);

class Generator {
 public:
  enum class Flavor : uint8_t { kAny, kDifferentiable, kTensorWork, kProducts };
  explicit Generator(uint64_t seed, Flavor flavor = Flavor::kAny);
  Program Run();

 private:
  struct Variable {
    std::string name;  // with its `%`
    TypeRef type;
  };
  struct Signature {
    std::string name;  // with its `@` or `%`
    std::vector<std::string> type_params;
    std::vector<TypeRef> params;
    TypeRef result;
    // Texts of which the first argument is one; empty: anything of its type. This is how
    // recursion ends: each text is less than the caller's own first argument.
    std::vector<std::string> first_args;
    // Parameters of a function that calls itself, which recursive calls may pass on as they are.
    std::vector<std::string> own_params = {};
    bool has_invariant = false;
  };
  struct Typed {
    std::string text;
    TypeRef type;
  };
  // A value that is the same in each turn of a recursion. No variable: none.
  struct Invariant {
    Variable variable;
    std::string text;
  };
  // Work of an entry beside its result: a call of a function with an invariant, and layers. No type: none.
  struct GraphWork {
    Signature loop;
    TypeRef layers;
  };
  // A pattern while it is split: a constructor or a tuple with fields, or a leaf.
  struct Pattern {
    TypeRef type;
    const Adt::Constructor* constructor = nullptr;
    bool is_leaf = true;
    std::vector<Pattern> fields;
    std::string literal = {};  // a bool
  };

  // ---- generate_types.cc
  void MakeAdts();
  TypeRef Larger(const TypeRef& type);
  TypeRef RandomScalar();
  TypeRef RandomTensor();
  TypeRef RandomType(int depth);
  TypeRef RandomDataType(int depth);
  TypeRef RandomAdtType(int depth);
  TypeRef FieldType(const Adt& adt, bool may_recurse);
  Value RandomValue(const TypeRef& type, int depth, std::map<std::string, int64_t>& dims);
  Literal RandomLiteral(DataType dtype, Shape shape);

  // ---- generate_module.cc
  void MakeFunction();
  void MakeMutualPair();
  Signature RandomSignature(const std::string& name, bool is_entry);
  std::string Header(const Signature& signature);
  std::string Body(const Signature& signature, int depth);
  std::vector<std::string> ParamNames(const Signature& signature) const;
  std::string CountedBody(Signature& signature, const std::vector<Signature>& recursive);
  std::string StructuralBody(const Signature& signature);
  std::string OpenHelper(const TypeRef& type);
  Program MakeProgram();
  Program MakeDifferentiableProgram();

  // ---- generate_expr.cc
  std::string Expr(const TypeRef& type, int depth);
  std::string Leaf(const TypeRef& type);
  std::string OwnForm(const TypeRef& type, int depth);
  std::string Let(const TypeRef& type, int depth);
  std::string LocalFunction(const TypeRef& type, int depth);
  std::string Effect(const TypeRef& type, int depth);
  std::string FunctionLiteral(const TypeRef& type, int depth);
  std::string FunctionValue(const TypeRef& type, int depth);
  std::string CallClosure(const TypeRef& type, int depth);
  std::string CallGlobal(const TypeRef& type, int depth);
  std::string CallRecursive(const TypeRef& type, int depth);
  std::string CallWith(const Signature& signature, Bindings bindings, int depth);
  std::string Project(const TypeRef& type, int depth);
  std::string Construct(const TypeRef& type, const Adt::Constructor& constructor, int depth);
  std::vector<std::string> VariablesOf(const TypeRef& type) const;
  std::string NewName(const char* stem);
  TypeRef UsefulType(int depth);

  // ---- generate_match.cc
  std::string Match(const TypeRef& type, int depth);
  std::string MatchOn(const std::string& value, const TypeRef& value_type, const TypeRef& type, int depth);
  std::vector<Pattern> SplitPatterns(const TypeRef& type);
  bool SplitOnce(const Pattern& pattern, std::vector<Pattern>& out);
  bool SplitInside(const Pattern& pattern, std::vector<Pattern>& out);
  // `need_not_fit`: leaves that are integers may become literals.
  std::string PatternText(const Pattern& pattern, bool need_not_fit = false);

  // ---- generate_operator.cc
  std::string Operator(const TypeRef& type, int depth);
  std::string PlainOperator(const TypeRef& type, int depth);
  std::string Number(DataType dtype);
  std::string TensorConstant(const TypeRef& type);
  std::string Elementwise(const TypeRef& type, int depth);
  std::string BoolOperator(const TypeRef& type, int depth);
  std::string IntOperator(const TypeRef& type, int depth);
  std::string ExactFloatOperator(const TypeRef& type, int depth);
  std::string SmoothFloatOperator(const TypeRef& type, int depth);
  std::string Cast(const TypeRef& type, int depth);
  std::string Reduction(const TypeRef& type, int depth);
  std::string Movement(const TypeRef& type, int depth);
  std::string Join(const TypeRef& type, int depth);
  std::string Select(const TypeRef& type, int depth);
  std::string OpenOperator(const TypeRef& type, int depth);
  std::string Operand(const TypeRef& type, int depth);  // of a shape that broadcasts to `type`
  TypeRef WithDims(const TypeRef& type, const std::vector<int64_t>& shape) const;
  DataType NumericDType();

  // ---- generate_product.cc
  TypeRef RandomFactor();
  std::string Bytes(DataType dtype, const std::vector<std::string>& dims);
  std::string Weight(const std::vector<std::string>& dims);
  std::string ZeroPoints(const TypeRef& data);
  Typed DenseProduct(const Typed& data);
  Typed BatchProduct(const Typed& data);
  Typed Convolution(const Typed& data);
  Typed ByteLayers(Typed data);
  std::string Fitted(Typed from, const TypeRef& type);
  std::string ByteProduct(const TypeRef& type);
  TypeRef AddDeviceWork(Signature& signature);
  std::string DeviceBody(const Signature& signature, const TypeRef& work, int depth);
  std::string Marked(const std::string& text);

  // ---- generate_graph.cc
  std::string Scaled(const std::string& text, const TypeRef& type);
  std::string Layer(const std::string& data, const TypeRef& from, const TypeRef& type);
  std::string Layers(const TypeRef& type, int depth);
  Invariant MakeInvariant(const Signature& signature);
  GraphWork AddGraphWork(Signature& signature);
  std::string WithGraphWork(const GraphWork& work, std::string body);
  std::string WithInvariant(const Invariant& invariant, const std::string& step, const std::string& end,
                            const TypeRef& result);

  // ---- generate_polymorphic.cc
  TypeRef RandomPolymorphic();
  TypeRef NewPolymorphic();
  TypeRef ValueType(const Signature& signature);
  Signature ConstructorSignature(const Adt& adt, const Adt::Constructor& constructor);
  Signature FreshSignature(const TypeRef& type);
  std::vector<std::string> NamesOf(const TypeRef& type);
  bool MayInstantiate(const Bindings& bindings) const;
  TypeRef TypeArgument(const std::string& param);
  std::string CallPolymorphic(const TypeRef& type, int depth);
  std::string AnyTensorOperator(const TypeRef& type, int depth);
  std::string Annotated(const std::string& text, const TypeRef& type);

  // ---- generate_transform.cc
  std::string GenericHelper(int number);
  std::string CallGeneric(const TypeRef& type, int depth);
  std::string Transform(const TypeRef& type, int depth);
  std::string PartialUpdate(const TypeRef& type, int depth);

  bool for_device() const { return flavor_ == Flavor::kTensorWork || flavor_ == Flavor::kProducts; }

  Dice dice_;
  Flavor flavor_;
  bool smooth_ = false;              // floats are approximate
  bool differentiable_ = false;      // and have no kinks
  bool polymorphic_values_ = false;  // functions with type parameters are values
  bool grows_ = false;               // types hold themselves, and functions call themselves, at larger types
  std::vector<DataType> dtypes_;
  std::deque<Adt> adts_;
  std::vector<Signature> functions_;
  std::vector<Signature> recursive_;  // what the body in hand may call of itself
  std::vector<Variable> scope_;
  std::vector<std::string> definitions_;
  std::map<std::string, std::string> open_helpers_;  // by type: a function that forgets extents
  std::map<int, std::string> generic_helpers_;
  std::vector<TypeRef> polymorphic_types_;
  int budget_ = 0;
  int names_ = 0;
};

}  // namespace rvm::random_programs

#endif  // RVM_TESTS_RANDOM_GENERATOR_H_
