// ScriptRunner: runs the code of a TorchScript module on names of tensors, and writes the nodes of a program. Internal;
// script.h is for others.
#ifndef RVM_COMPILER_IMPORT_TORCH_SCRIPT_RUNNER_H_
#define RVM_COMPILER_IMPORT_TORCH_SCRIPT_RUNNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/import/torch/script.h"
#include "compiler/import/torch/script_schemas.h"
#include "compiler/import/torch/script_syntax.h"

namespace rvm::torch {

struct ScriptList;

enum class ScriptKind : uint8_t {
  kArgument,  // a tensor, a number, a text, None
  kList,
  kTuple,     // `text` is its class, if that has named fields
  kDict,      // `list`: keys and values in turn
  kSizes,     // the extents of the tensor `argument`, how many nobody knows here
  kDTypeOf,   // the dtype of the tensor `argument`
  kObject,    // `object`, whose path in the model is `text`
  kFunction,  // `text` is its path
  kUnset,     // without a value; `text` says why
};

enum class NumberKind : uint8_t { kInt, kFloat, kBool };

struct ScriptValue {
  ScriptKind kind = ScriptKind::kArgument;
  Argument argument;
  NumberKind number = NumberKind::kInt;  // of a symbol
  std::shared_ptr<ScriptList> list;      // shared as Python's lists are
  const PickleValue* object = nullptr;
  std::string text;

  bool IsTensor() const { return kind == ScriptKind::kArgument && argument.kind == ArgumentKind::kTensor; }
  bool IsNone() const { return kind == ScriptKind::kArgument && argument.kind == ArgumentKind::kNone; }
  bool IsText() const { return kind == ScriptKind::kArgument && argument.kind == ArgumentKind::kString; }
  bool IsList() const { return kind == ScriptKind::kList || kind == ScriptKind::kTuple; }
  // Returns true for a number, known or not.
  bool IsNumber() const;
  std::optional<NumberKind> ToNumberKind() const;
  // Returns the number if it is known now.
  std::optional<double> Known() const;
};

using ScriptValues = std::vector<ScriptValue>;

struct ScriptList {
  ScriptValues items;
  int depth = 0;  // of the graph that it was made in
  // A list of tensors that a node gives, of a length that only the running model knows: elements are added as they are
  // asked for.
  Graph* graph = nullptr;
  size_t node = 0;
  bool is_open = false;
};

// The code and the values of an archive.
class ScriptSource {
 public:
  virtual ~ScriptSource() = default;
  // Returns a file of code: "__torch__/torch/nn/functional"; null if there is none.
  virtual const SourceFile* File(const std::string& path, absl::Status& status) = 0;
};

class ScriptRunner {
 public:
  using Env = std::map<std::string, ScriptValue, std::less<>>;
  using Keywords = std::vector<std::pair<std::string, ScriptValue>>;

  ScriptRunner(ScriptSource& source, const PickleValue& module, const PickleValue* constants,
               const importing::ImportOptions& options)
      : source_(source), module_(module), constants_(constants), options_(options) {}
  absl::StatusOr<ScriptModel> Run();

 private:
  static constexpr int kMaxLevels = 32;  // of lists in each other

  // ---- the program: script_runner.cc
  void Fail(int line, std::string_view message);
  bool failed() const { return !status_.ok(); }
  // Takes steps of the budget; false, with an error, if it is used up.
  bool Spend(size_t steps);
  // Returns true if both are the same value, known now.
  bool SameKnown(const ScriptValue& a, const ScriptValue& b);
  // Returns true if the value may be an element of that list, which may be null: it holds neither that list nor too
  // many levels of others.
  bool IsElementFor(const ScriptList* list, const ScriptValue& value, int levels = kMaxLevels);
  ScriptValue NewList(ScriptValues items, ScriptKind kind, int line);
  ScriptValue AddInputs(const std::string& name, const Expr& type);
  ScriptValue AddInput(const std::string& name, bool is_tensor);
  void AddOutputs(const ScriptValue& value);
  void AddStates();
  void GuessDTypes();
  ScriptValue FromPickle(const PickleValue& value, const std::string& path, std::string_view folder);
  ScriptValue FromPickleOf(const PickleValue& value, const std::string& path, std::string_view folder);
  ScriptValue Weight(const PickleValue& value, const std::string& path, std::string_view folder);
  std::string NewName(std::string_view stem);

  // ---- nodes: script_runner.cc
  struct Building {
    Graph* graph = nullptr;
    std::set<std::string> defined;
    int depth = 0;
  };
  Node& Emit(std::string target, std::vector<std::pair<std::string, Argument>> inputs, Argument output);
  ScriptValue EmitNumber(std::string target, ScriptValues inputs, NumberKind kind);
  std::vector<std::string> Captured(const Building& building) const;
  Building Begin();
  void End(Building outer) { building_ = std::move(outer); }

  // ---- statements: script_control.cc
  std::optional<ScriptValue> Block(const std::vector<Statement>& body, Env& env);
  std::optional<ScriptValue> One(const Statement& statement, Env& env);
  void Assign(const Statement& statement, const ScriptValue& value, Env& env);
  void SetAttribute(const Expr& target, const ScriptValue& value, Env& env);
  std::optional<ScriptValue> If(const Statement& statement, Env& env);
  void Branches(const Statement& statement, const ScriptValue& condition, Env& env);
  bool Merge(const ScriptValue& a, const ScriptValue& b, std::vector<Argument>& from_a, std::vector<Argument>& from_b,
             std::vector<Argument>& outputs, ScriptValue& merged);
  std::optional<ScriptValue> For(const Statement& statement, Env& env);
  std::optional<ScriptValue> While(const Statement& statement, Env& env);
  struct Counter {
    std::string name;
    ScriptValue limit;
    int64_t start = 0;
  };
  void Loop(const Statement& statement, const Counter* counter, Env& env);
  // Replaces the numbers and tensors of a value by symbols and tensors with new names.
  ScriptValue Renamed(const ScriptValue& value, std::vector<Argument>& old_leaves, std::vector<Argument>& new_leaves);
  bool Leaves(const ScriptValue& value, const ScriptValue& like, std::vector<Argument>& leaves);

  // ---- expressions: script_calls.cc
  ScriptValue Evaluate(const Expr& expr, Env& env);
  ScriptValue EvaluateAttribute(const Expr& expr, Env& env);
  ScriptValue AttributeOf(const ScriptValue& base, const std::string& name, int line);
  ScriptValue Extent(const std::string& tensor, int64_t axis);
  ScriptValue Subscript(const ScriptValue& base, const ScriptValue& index, int line);
  ScriptValue Element(const ScriptValue& list, size_t index, int line);
  ScriptValue EvaluateCall(const Expr& expr, Env& env);
  std::optional<ScriptValue> Builtin(const std::string& name, const Expr& expr, Env& env);
  ScriptValue Convert(const ScriptValue& value, NumberKind kind, int line);
  ScriptValue CallPath(const std::string& path, ScriptValues args, Keywords keywords, int line);
  ScriptValue CallMethod(const ScriptValue& object, const std::string& name, ScriptValues args, Keywords keywords,
                         int line);
  ScriptValue Invoke(const Function& function, ScriptValues args, Keywords keywords, int line);
  const Class* FindClass(std::string_view path);
  std::optional<ScriptValue> OnLists(const std::string& name, ScriptValues& args, int line);
  std::optional<ScriptValue> OnNumbers(const std::string& name, const ScriptValues& args, int line);
  std::optional<ScriptValue> OnKnown(const std::string& name, const ScriptValues& args);
  ScriptValue OnTruths(const std::string& name, const ScriptValues& args, int line);
  ScriptValue Primitive(const std::string& name, ScriptValues args, Keywords keywords, int line);
  ScriptValue Operator(const std::string& name, ScriptValues args, Keywords keywords, int line);
  ScriptValue EmitOperator(const std::string& name, const Schema& schema,
                           std::vector<std::pair<std::string, Argument>> inputs, const Keywords& given, int line);
  std::optional<Argument> ToArgument(const ScriptValue& value, const SchemaArgument& schema);
  ScriptValue Unknown(const std::string& name, const ScriptValues& args, const Keywords& keywords);

  ScriptSource& source_;
  const PickleValue& module_;
  const PickleValue* constants_;
  const importing::ImportOptions& options_;
  ScriptModel model_;
  Graph* main_ = nullptr;  // of `forward`
  absl::Status status_;
  Building building_;
  std::vector<std::string> modules_;  // whose methods run, innermost last
  std::map<const PickleValue*, ScriptValue> weights_;
  std::map<std::pair<const PickleValue*, std::string>, ScriptValue> attributes_;  // that were assigned
  std::vector<std::string> shapeless_;                                            // inputs without a shape
  std::map<std::string, int> names_;
  std::set<std::string> unknown_;  // operators that are not supported
  std::set<std::string> guessed_;  // inputs whose dtype nobody gave
  size_t budget_ = 2'000'000;      // of statements, and of elements of lists that are copied or compared
  int calls_ = 0;
};

// Values without and with a number.
ScriptValue ScriptNone();
ScriptValue ScriptInt(int64_t value);
ScriptValue ScriptFloat(double value);
ScriptValue ScriptBool(bool value);
ScriptValue ScriptText(std::string text);
ScriptValue ScriptTensorNamed(std::string name);
ScriptValue ScriptSymbol(std::string name, NumberKind kind);
ScriptValue ScriptListOf(ScriptValues items, ScriptKind kind, int depth);
ScriptValue ScriptUnset(std::string why);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_SCRIPT_RUNNER_H_
