// Contents of an exported program of PyTorch, uninterpreted: graphs, nodes, arguments.
//
// The source is the JSON that torch.export.save writes (schema 8, which the module torch._export.serde.schema of
// PyTorch describes).
#ifndef RVM_COMPILER_IMPORT_TORCH_PROGRAM_H_
#define RVM_COMPILER_IMPORT_TORCH_PROGRAM_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/json.h"

namespace rvm::torch {

struct Graph;

enum class ArgumentKind : uint8_t {
  kNone,
  kTensor,  // `text` names it
  kSymbol,  // an integer, number or truth that only the running program knows; `text` names it
  kInt,
  kFloat,
  kComplex,  // `number` and `imaginary`
  kBool,
  kString,
  kDType,  // `integer` is a ScalarType
  kList,
  kGraph,
  kOther,  // `text` is its tag: a device, a memory format, a custom object
};

struct Argument {
  ArgumentKind kind = ArgumentKind::kNone;
  int64_t integer = 0;
  double number = 0, imaginary = 0;
  std::string text;
  std::vector<Argument> list;
  const Graph* graph = nullptr;

  bool IsValue() const { return kind == ArgumentKind::kTensor || kind == ArgumentKind::kSymbol; }
};

struct Node {
  std::string target;  // "torch.ops.aten.add.Tensor"
  std::string name;
  std::string module;  // the path of the module that it is from, "encoder.layers.0"; "" if nobody knows
  std::vector<std::pair<std::string, Argument>> inputs;
  std::vector<Argument> outputs;

  const Argument* Find(std::string_view input) const;
};

struct TensorMeta {
  int32_t scalar_type = 0;
  // Extents: numbers, or expressions ("Mul(Integer(2), Symbol('s0', ...))").
  struct Extent {
    std::optional<int64_t> number;
    std::string expression;
  };
  std::vector<Extent> sizes, strides;
  Extent offset;

  // Returns whether the elements lie one behind another, in order; false if only the running model knows.
  bool IsContiguous() const;
};

struct Graph {
  std::string name;
  std::vector<Argument> inputs, outputs;
  std::vector<Node> nodes;
  absl::flat_hash_map<std::string, TensorMeta> tensors;
  absl::flat_hash_map<std::string, std::string> symbols;  // the expressions of symbols
};

enum class InputRole : uint8_t { kUser, kParameter, kBuffer, kConstant, kFixed, kOther };
struct InputSpec {
  InputRole role = InputRole::kOther;
  Argument arg;
  std::string target;  // the name of the parameter, buffer or constant
};

enum class OutputRole : uint8_t { kUser, kBufferMutation, kInputMutation, kOther };
struct OutputSpec {
  OutputRole role = OutputRole::kOther;
  Argument arg;
  std::string target;  // of a mutation: what has this value from then on
};

struct Range {
  std::optional<int64_t> min, max;
};

struct Program {
  std::string torch_version;
  const Graph* graph = nullptr;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::map<std::string, Range> ranges;  // of symbols
  std::vector<std::string> guards;      // Python
  bool is_traced = false;               // not decomposed into core operators
  std::deque<Graph> graphs;             // all of them
};

// kInvalidArgument where the JSON is no exported program, or of a schema that is not known.
absl::StatusOr<Program> ReadProgram(const JsonValue& json);
absl::StatusOr<TensorMeta> ReadTensorMeta(const JsonValue& json);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_PROGRAM_H_
