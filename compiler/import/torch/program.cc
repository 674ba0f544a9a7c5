#include "compiler/import/torch/program.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace rvm::torch {
namespace {

constexpr int64_t kSchema = 8;
constexpr int kMaxDepth = 32;  // of graphs in graphs

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("its program has no valid ", std::string(what)));
}

std::string TextOf(const JsonValue* json) {
  const std::string* text = json == nullptr ? nullptr : json->AsString();
  return text == nullptr ? "" : *text;
}

std::string TextAt(const JsonValue& json, std::string_view key) { return TextOf(json.Find(key)); }

const JsonValue::Array& ArrayAt(const JsonValue& json, std::string_view key) {
  static const auto* const kEmpty = new JsonValue::Array();
  const JsonValue* found = json.Find(key);
  const JsonValue::Array* array = found == nullptr ? nullptr : found->AsArray();
  return array == nullptr ? *kEmpty : *array;
}

const JsonValue::Object& ObjectAt(const JsonValue& json, std::string_view key) {
  static const auto* const kEmpty = new JsonValue::Object();
  const JsonValue* found = json.Find(key);
  const JsonValue::Object* object = found == nullptr ? nullptr : found->AsObject();
  return object == nullptr ? *kEmpty : *object;
}

std::optional<int64_t> IntOf(const JsonValue* json) {
  const int64_t* value = json == nullptr ? nullptr : json->AsInt();
  return value == nullptr ? std::nullopt : std::optional(*value);
}

// A union is an object of one member: its tag.
struct Tagged {
  std::string_view tag;
  const JsonValue* value = nullptr;
};
Tagged TaggedOf(const JsonValue& json) {
  const JsonValue::Object* object = json.AsObject();
  if (object == nullptr || object->keys.size() != 1) return {};
  return {object->keys[0], &object->values[0]};
}

constexpr std::string_view kTokenTag = "token";  // of inputs and outputs that order effects and have no value

// Numbers that JSON has no words for stand as texts.
std::optional<double> NumberOf(const JsonValue& json) {
  if (const int64_t* integer = json.AsInt()) return static_cast<double>(*integer);
  if (const double* number = json.AsDouble()) return *number;
  const std::string* text = json.AsString();
  if (text == nullptr) return std::nullopt;
  if (*text == "Infinity") return std::numeric_limits<double>::infinity();
  if (*text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (*text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

std::optional<TensorMeta::Extent> ExtentOf(const JsonValue& json) {
  Tagged tagged = TaggedOf(json);
  if (tagged.tag == "as_int") {
    if (std::optional<int64_t> number = IntOf(tagged.value)) return TensorMeta::Extent{number, ""};
  } else if (tagged.tag == "as_expr") {
    return TensorMeta::Extent{std::nullopt, TextAt(*tagged.value, "expr_str")};
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(Program& program) : program_(program) {}

  absl::StatusOr<const Graph*> ReadGraph(const JsonValue& json, std::string name) {
    if (++depth_ > kMaxDepth) return absl::InvalidArgumentError("its graphs are nested too deep");
    Graph graph;
    graph.name = std::move(name);
    RVM_ASSIGN_OR_RETURN(graph.inputs, ReadAll(ArrayAt(json, "inputs")));
    RVM_ASSIGN_OR_RETURN(graph.outputs, ReadAll(ArrayAt(json, "outputs")));
    for (const JsonValue& node : ArrayAt(json, "nodes")) {
      RVM_ASSIGN_OR_RETURN(Node read, ReadNode(node));
      graph.nodes.push_back(std::move(read));
    }
    const JsonValue::Object& tensors = ObjectAt(json, "tensor_values");
    for (size_t i = 0; i < tensors.keys.size(); ++i) {
      RVM_ASSIGN_OR_RETURN(graph.tensors[tensors.keys[i]], ReadTensorMeta(tensors.values[i]));
    }
    for (std::string_view kind : {"sym_int_values", "sym_bool_values", "sym_float_values"}) {
      const JsonValue::Object& symbols = ObjectAt(json, kind);
      for (size_t i = 0; i < symbols.keys.size(); ++i) {
        Tagged tagged = TaggedOf(symbols.values[i]);
        if (tagged.tag == "as_expr") graph.symbols[symbols.keys[i]] = TextAt(*tagged.value, "expr_str");
      }
    }
    --depth_;
    return &program_.graphs.emplace_back(std::move(graph));
  }

  absl::StatusOr<Argument> ReadArgument(const JsonValue& json) {
    Tagged tagged = TaggedOf(json);
    if (tagged.value == nullptr) return Malformed("argument");
    const JsonValue& value = *tagged.value;
    std::string_view tag = tagged.tag;
    Argument result;
    if (tag == "as_none") return result;
    if (tag == "as_tensor" || tag == "as_optional_tensor") {
      if (tag == "as_optional_tensor") return ReadArgument(value);
      return Named(ArgumentKind::kTensor, TextAt(value, "name"));
    }
    if (tag == "as_name") return Named(ArgumentKind::kSymbol, TextOf(&value));
    if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") return ReadArgument(value);
    if (tag == "as_graph") {
      const JsonValue* graph = value.Find("graph");
      if (graph == nullptr) return Malformed("graph of an argument");
      result.kind = ArgumentKind::kGraph;
      RVM_ASSIGN_OR_RETURN(result.graph, ReadGraph(*graph, TextAt(value, "name")));
      return result;
    }
    if (const JsonValue::Array* array = value.AsArray()) return ReadList(tag, *array);
    return ReadLeaf(tag, value);
  }

 private:
  static Argument Named(ArgumentKind kind, std::string name) {
    Argument result;
    result.kind = kind;
    result.text = std::move(name);
    return result;
  }

  static absl::StatusOr<Argument> ReadLeaf(std::string_view tag, const JsonValue& value) {
    Argument result;
    if (tag == "as_int" || tag == "as_scalar_type") {
      std::optional<int64_t> number = IntOf(&value);
      if (!number) return Malformed("integer");
      result.kind = tag == "as_int" ? ArgumentKind::kInt : ArgumentKind::kDType;
      result.integer = *number;
    } else if (tag == "as_float") {
      std::optional<double> number = NumberOf(value);
      if (!number) return Malformed("number");
      result.kind = ArgumentKind::kFloat;
      result.number = *number;
    } else if (tag == "as_complex") {
      const JsonValue *real = value.Find("real"), *imaginary = value.Find("imag");
      std::optional<double> parts[] = {real == nullptr ? std::nullopt : NumberOf(*real),
                                       imaginary == nullptr ? std::nullopt : NumberOf(*imaginary)};
      if (!parts[0] || !parts[1]) return Malformed("complex number");
      result.kind = ArgumentKind::kComplex;
      result.number = *parts[0];
      result.imaginary = *parts[1];
    } else if (tag == "as_bool") {
      if (value.AsBool() == nullptr) return Malformed("truth");
      result.kind = ArgumentKind::kBool;
      result.integer = *value.AsBool() ? 1 : 0;
    } else if (tag == "as_string" || tag == "as_operator") {
      result = Named(ArgumentKind::kString, TextOf(&value));
    } else {
      result = Named(ArgumentKind::kOther, std::string(tag));
    }
    return result;
  }

  // "as_ints" has bare integers, "as_tensors" bare names, "as_sym_ints" unions.
  absl::StatusOr<Argument> ReadList(std::string_view tag, const JsonValue::Array& array) {
    Argument result;
    result.kind = ArgumentKind::kList;
    for (const JsonValue& value : array) {
      absl::StatusOr<Argument> element;
      if (tag == "as_tensors") {
        element = Named(ArgumentKind::kTensor, TextAt(value, "name"));
      } else if (tag == "as_ints" || tag == "as_floats" || tag == "as_bools" || tag == "as_strings") {
        element = ReadLeaf(tag.substr(0, tag.size() - 1), value);
      } else if (const JsonValue::Array* inner = value.AsArray()) {
        element = ReadList(tag == "as_nested_tensors" ? "as_tensors"
                           : tag == "as_int_lists"    ? "as_ints"
                                                      : "as_floats",
                           *inner);
      } else {
        element = ReadArgument(value);
      }
      RVM_RETURN_IF_ERROR(element.status());
      result.list.push_back(*std::move(element));
    }
    return result;
  }

  absl::StatusOr<std::vector<Argument>> ReadAll(const JsonValue::Array& array) {
    std::vector<Argument> arguments;
    for (const JsonValue& value : array) {
      RVM_ASSIGN_OR_RETURN(Argument argument, ReadArgument(value));
      arguments.push_back(std::move(argument));
    }
    return arguments;
  }

  // An operator with an effect, such as a check, is an argument of `with_effects`, which orders such operators by
  // tokens. Nodes stay in order here, so the operator stands for itself.
  static void DropToken(Node& node) {
    if (node.target != "torch.ops.higher_order.with_effects" || node.inputs.size() < 2 || node.outputs.empty()) return;
    node.target = node.inputs[1].second.text;
    node.inputs.erase(node.inputs.begin(), node.inputs.begin() + 2);
    node.outputs.erase(node.outputs.begin());
  }

  absl::StatusOr<Node> ReadNode(const JsonValue& json) {
    Node node;
    node.target = TextAt(json, "target");
    node.name = TextAt(json, "name");
    if (node.target.empty()) return Malformed("target of a node");
    for (const JsonValue& input : ArrayAt(json, "inputs")) {
      const JsonValue* argument = input.Find("arg");
      if (argument == nullptr) return Malformed("argument of a node");
      RVM_ASSIGN_OR_RETURN(Argument read, ReadArgument(*argument));
      node.inputs.emplace_back(TextAt(input, "name"), std::move(read));
    }
    RVM_ASSIGN_OR_RETURN(node.outputs, ReadAll(ArrayAt(json, "outputs")));
    if (const JsonValue* metadata = json.Find("metadata")) {
      // "key,path,class;key,path,class", outermost first.
      std::vector<std::string> modules = absl::StrSplit(TextAt(*metadata, "nn_module_stack"), ';');
      std::vector<std::string> innermost = absl::StrSplit(modules.back(), ',');
      if (innermost.size() >= 3) node.module = innermost[1];
    }
    DropToken(node);
    return node;
  }

  Program& program_;
  int depth_ = 0;
};

absl::StatusOr<InputSpec> ReadInput(Reader& reader, const JsonValue& json) {
  Tagged tagged = TaggedOf(json);
  if (tagged.value == nullptr) return Malformed("input");
  InputSpec input;
  const JsonValue* argument = tagged.value->Find("arg");
  if (tagged.tag == "user_input") {
    if (argument == nullptr) return Malformed("input");
    RVM_ASSIGN_OR_RETURN(input.arg, reader.ReadArgument(*argument));
    input.role = input.arg.IsValue() ? InputRole::kUser : InputRole::kFixed;
    return input;
  }
  if (tagged.tag == "constant_input") {
    input.role = InputRole::kFixed;
    input.arg.text = TextAt(*tagged.value, "name");
    return input;
  }
  if (argument == nullptr) return Malformed("input");
  input.arg.kind = ArgumentKind::kTensor;
  input.arg.text = TextAt(*argument, "name");
  if (tagged.tag == kTokenTag) {
    input.role = InputRole::kFixed;
    return input;
  }
  if (tagged.tag == "parameter") {
    input.role = InputRole::kParameter;
    input.target = TextAt(*tagged.value, "parameter_name");
  } else if (tagged.tag == "buffer") {
    input.role = InputRole::kBuffer;
    input.target = TextAt(*tagged.value, "buffer_name");
  } else if (tagged.tag == "tensor_constant") {
    input.role = InputRole::kConstant;
    input.target = TextAt(*tagged.value, "tensor_constant_name");
  } else {
    input.target = std::string(tagged.tag);
  }
  return input;
}

absl::StatusOr<OutputSpec> ReadOutput(Reader& reader, const JsonValue& json) {
  Tagged tagged = TaggedOf(json);
  const JsonValue* argument = tagged.value == nullptr ? nullptr : tagged.value->Find("arg");
  if (argument == nullptr) return Malformed("output");
  OutputSpec output;
  if (tagged.tag == "user_output") {
    output.role = OutputRole::kUser;
    RVM_ASSIGN_OR_RETURN(output.arg, reader.ReadArgument(*argument));
    return output;
  }
  output.arg.kind = ArgumentKind::kTensor;
  output.arg.text = TextAt(*argument, "name");
  if (tagged.tag == "buffer_mutation") {
    output.role = OutputRole::kBufferMutation;
    output.target = TextAt(*tagged.value, "buffer_name");
  } else if (tagged.tag == "user_input_mutation") {
    output.role = OutputRole::kInputMutation;
    output.target = TextAt(*tagged.value, "user_input_name");
  } else {
    output.target = std::string(tagged.tag);
  }
  return output;
}

}  // namespace

bool TensorMeta::IsContiguous() const {
  if (strides.size() != sizes.size()) return false;
  uint64_t stride = 1;  // unsigned: a malformed file may have any numbers
  for (size_t axis = sizes.size(); axis-- > 0;) {
    const std::optional<int64_t> size = sizes[axis].number, own = strides[axis].number;
    if (!size || (*size > 1 && (!own || static_cast<uint64_t>(*own) != stride))) return false;
    stride *= static_cast<uint64_t>(std::max<int64_t>(*size, 1));
  }
  return true;
}

const Argument* Node::Find(std::string_view input) const {
  for (const auto& [name, argument] : inputs) {
    if (name == input) return argument.kind == ArgumentKind::kNone ? nullptr : &argument;
  }
  return nullptr;
}

absl::StatusOr<TensorMeta> ReadTensorMeta(const JsonValue& json) {
  TensorMeta meta;
  std::optional<int64_t> dtype = IntOf(json.Find("dtype"));
  if (!dtype) return Malformed("dtype of a tensor");
  meta.scalar_type = static_cast<int32_t>(*dtype);
  auto read = [&](std::string_view key, std::vector<TensorMeta::Extent>& extents) {
    for (const JsonValue& size : ArrayAt(json, key)) {
      std::optional<TensorMeta::Extent> extent = ExtentOf(size);
      if (!extent) return false;
      extents.push_back(*std::move(extent));
    }
    return true;
  };
  if (!read("sizes", meta.sizes) || !read("strides", meta.strides)) return Malformed("shape of a tensor");
  if (const JsonValue* offset = json.Find("storage_offset")) {
    meta.offset = ExtentOf(*offset).value_or(TensorMeta::Extent{});
  }
  return meta;
}

absl::StatusOr<Program> ReadProgram(const JsonValue& json) {
  const JsonValue* module = json.Find("graph_module");
  const JsonValue* graph = module == nullptr ? nullptr : module->Find("graph");
  const JsonValue* signature = module == nullptr ? nullptr : module->Find("signature");
  const JsonValue* schema = json.Find("schema_version");
  if (graph == nullptr || signature == nullptr || schema == nullptr) return Malformed("graph, signature or version");
  std::optional<int64_t> major = IntOf(schema->Find("major"));
  Program program;
  program.torch_version = TextAt(json, "torch_version");
  if (major != kSchema) {
    return absl::UnimplementedError(absl::StrCat("it is of schema ", major.value_or(0), ", by PyTorch ",
                                                 program.torch_version, "; expected schema ", kSchema,
                                                 ", of PyTorch 2.5 and newer"));
  }
  Reader reader(program);
  RVM_ASSIGN_OR_RETURN(program.graph, reader.ReadGraph(*graph, ""));
  for (const JsonValue& input : ArrayAt(*signature, "input_specs")) {
    RVM_ASSIGN_OR_RETURN(InputSpec read, ReadInput(reader, input));
    program.inputs.push_back(std::move(read));
  }
  for (const JsonValue& output : ArrayAt(*signature, "output_specs")) {
    if (TaggedOf(output).tag == kTokenTag) continue;
    RVM_ASSIGN_OR_RETURN(OutputSpec read, ReadOutput(reader, output));
    program.outputs.push_back(std::move(read));
  }
  const JsonValue::Object& ranges = ObjectAt(json, "range_constraints");
  for (size_t i = 0; i < ranges.keys.size(); ++i) {
    program.ranges[ranges.keys[i]] = {IntOf(ranges.values[i].Find("min_val")), IntOf(ranges.values[i].Find("max_val"))};
  }
  for (const JsonValue& verifier : ArrayAt(json, "verifiers")) {
    program.is_traced = program.is_traced || TextOf(&verifier) == "TRAINING";
  }
  for (const JsonValue& guard : ArrayAt(json, "guards_code")) program.guards.push_back(TextOf(&guard));
  return program;
}

}  // namespace rvm::torch
