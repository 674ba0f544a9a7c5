// Runs cases of the ONNX backend suite: imports, compiles and runs each model in one process, and compares.
//
//   run_onnx_cases [--target CPU] [--unknown] < FOLDERS
//
// A folder holds model.onnx and test_data_set_0/{input,output}_N.pb. Prints a line for each: its name, what came of it
// (equal, frozen, unsupported, invalid, uncompiled, failed, different), and why. `frozen`: equal once the small integer
// inputs, which are parameters, have become constants. With --unknown every extent of every input is `?`.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/value.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/compile.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/model.h"
#include "compiler/import/onnx/tensor_data.h"
#include "compiler/text/printer.h"
#include "vm/machine.h"

namespace rvm {
namespace {

struct Settings {
  std::string target = "portable";
  bool all_extents_unknown = false;
  bool prints_program = false;
};

onnx::Bytes AsBytes(const std::string& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

// Returns a TensorProto, SequenceProto or OptionalProto, as `type` says.
absl::StatusOr<Value> ReadValue(onnx::Bytes bytes, const onnx::TypeInfo& type, size_t wrapper) {
  if (wrapper == type.wrappers.size()) {
    RVM_ASSIGN_OR_RETURN(onnx::Tensor tensor, onnx::ReadTensor(bytes));
    RVM_ASSIGN_OR_RETURN(Literal literal, onnx::ReadElements(tensor, nullptr));
    return Value::Tensor(std::move(literal));
  }
  bool is_list = type.wrappers[wrapper] == onnx::TypeForm::kSequence;
  std::vector<Value> elements;
  importing::WireReader reader(bytes);
  importing::Field field;
  while (reader.Next(field)) {
    // The fields of elements: tensors, and whatever else may be in there.
    if (field.type != importing::WireType::kBytes || field.number < 3) continue;
    RVM_ASSIGN_OR_RETURN(Value element, ReadValue(field.bytes, type, wrapper + 1));
    elements.push_back(std::move(element));
  }
  if (!is_list) return elements.empty() ? Value::Adt("None", {}) : Value::Adt("Some", {elements[0]});
  Value list = Value::Adt("Nil", {});
  for (size_t i = elements.size(); i-- > 0;) list = Value::Adt("Cons", {elements[i], list});
  return list;
}

absl::StatusOr<Value> LoadValue(const std::filesystem::path& path, const onnx::TypeInfo& type) {
  RVM_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path.string()));
  return ReadValue(AsBytes(bytes), type, 0);
}

struct Outcome {
  std::string word, why;
};

// Scalars, small integers, and the vectors that Resize takes are what a model is made with, not what it computes on.
bool IsParameter(const std::string& name, const Value& value) {
  if (value.kind() != ValueKind::kTensor) return false;
  const Literal& tensor = value.tensor();
  bool is_scale = name == "roi" || name == "scales";
  return tensor.rank() == 0 ||
         ((tensor.dtype().is_integral() || is_scale) && tensor.rank() <= 1 && tensor.num_elements() <= 16);
}

double Tolerance(DataType dtype) { return dtype == kBFloat16 ? 1e-2 : 1e-3; }

std::string Compare(const Value& got, const Value& expected) {
  if (got.kind() == ValueKind::kTensor && expected.kind() == ValueKind::kTensor) {
    const Literal &a = got.tensor(), &b = expected.tensor();
    if (a.dtype() != b.dtype()) return absl::StrCat(a.dtype().ToString(), " for ", b.dtype().ToString());
    return DiffValues(got, expected, Tolerance(b.dtype()), b.dtype().is_small_float() ? 1e-3 : 1e-5);
  }
  return DiffValues(got, expected, 1e-3, 1e-5);
}

class Case {
 public:
  Case(std::filesystem::path folder, const Settings& settings) : folder_(std::move(folder)), settings_(settings) {}

  Outcome Run() {
    absl::Status status = Load();
    if (absl::IsUnimplemented(status)) return {"unsupported", std::string(status.message())};
    if (!status.ok()) return {"invalid", std::string(status.message())};
    Outcome outcome = RunWith(false);
    if (outcome.word == "equal") return outcome;
    Outcome frozen = RunWith(true);
    return frozen.word == "equal" ? Outcome{"frozen", outcome.why} : frozen;
  }

 private:
  absl::Status Load() {
    RVM_ASSIGN_OR_RETURN(bytes_, ReadFile((folder_ / "model.onnx").string()));
    RVM_ASSIGN_OR_RETURN(model_, onnx::ReadModel(AsBytes(bytes_)));
    std::filesystem::path data = folder_ / "test_data_set_0";
    size_t next = 0;
    for (const onnx::ValueInfo& input : model_.graph->inputs) {
      bool is_given = std::any_of(model_.graph->initializers.begin(), model_.graph->initializers.end(),
                                  [&](const onnx::Tensor& tensor) { return tensor.name == input.name; });
      std::filesystem::path file = data / absl::StrCat("input_", next, ".pb");
      if (is_given || !std::filesystem::exists(file)) continue;
      ++next;
      RVM_ASSIGN_OR_RETURN(Value value, LoadValue(file, input.type));
      names_.emplace_back(input.name);
      inputs_.push_back(std::move(value));
    }
    for (size_t i = 0; i < model_.graph->outputs.size(); ++i) {
      RVM_ASSIGN_OR_RETURN(Value value,
                           LoadValue(data / absl::StrCat("output_", i, ".pb"), model_.graph->outputs[i].type));
      outputs_.push_back(std::move(value));
    }
    return absl::OkStatus();
  }

  Outcome RunWith(bool freezes) const {
    diagnostics::SourceMap sources;
    diagnostics::Diagnostics diagnostics(&sources);
    onnx::ImportOptions options{.sources = &sources, .all_extents_unknown = settings_.all_extents_unknown};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (freezes && IsParameter(names_[i], inputs_[i])) options.frozen.emplace(names_[i], inputs_[i].tensor());
    }
    for (const onnx::ValueInfo& input : model_.graph->inputs) {
      auto at = std::find(names_.begin(), names_.end(), input.name);
      if (input.type.has_shape || at == names_.end()) continue;
      // The suite leaves out the shape of some sequences; their rank is that of their elements.
      const Value* value = &inputs_[static_cast<size_t>(at - names_.begin())];
      while (value->kind() != ValueKind::kTensor && !value->fields().empty()) value = &value->fields()[0];
      if (value->kind() != ValueKind::kTensor) continue;
      options.shapes.emplace(*at, std::vector<std::string>(static_cast<size_t>(value->tensor().rank()), "?"));
    }
    absl::StatusOr<onnx::ImportedModel> imported = onnx::Import(AsBytes(bytes_), options);
    if (!imported.ok()) {
      bool is_unsupported = absl::IsUnimplemented(imported.status());
      return {is_unsupported ? "unsupported" : "invalid", std::string(imported.status().message())};
    }
    std::vector<Value> args;
    for (const std::string& name : imported->inputs) {
      auto at = std::find(names_.begin(), names_.end(), name);
      if (at == names_.end()) return {"invalid", absl::StrCat("no data for input ", name)};
      args.push_back(inputs_[static_cast<size_t>(at - names_.begin())]);
    }
    if (settings_.prints_program) std::cerr << text::PrintModule(imported->module);
    driver::CompileOptions compile{
        .opt_level = settings_.target == "portable" ? 1 : 2, .target = settings_.target, .entries = {"main"}};
    compile.weights.push_back({.path = "model.onnx", .tensors = std::move(imported->weights)});
    absl::StatusOr<driver::CompiledProgram> program =
        driver::CompileModule(std::move(imported->module), diagnostics, std::move(compile));
    if (!program.ok()) {
      return {"uncompiled", diagnostics.ok() ? std::string(program.status().message()) : diagnostics.Render(2)};
    }
    auto linked = vm::Program::Link(program->executable, {.allow_native = true});
    if (!linked.ok()) return {"failed", std::string(linked.status().message())};
    auto machine = vm::Machine::Create(*linked, {});
    if (!machine.ok()) return {"failed", std::string(machine.status().message())};
    absl::StatusOr<Value> result = (*machine)->Invoke("main", args);
    if (!result.ok()) return {"failed", std::string(result.status().message())};
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Value& got = outputs_.size() == 1 ? *result : result->fields()[i];
      std::string difference = Compare(got, outputs_[i]);
      if (!difference.empty()) return {"different", absl::StrCat("output ", i, ": ", difference)};
    }
    return {"equal", ""};
  }

  std::filesystem::path folder_;
  const Settings& settings_;
  std::string bytes_;
  onnx::Model model_;
  std::vector<std::string> names_;
  std::vector<Value> inputs_, outputs_;
};

int Main(std::vector<std::string> args) {
  Settings settings;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--unknown") settings.all_extents_unknown = true;
    if (args[i] == "--print") settings.prints_program = true;
    if (args[i] == "--target" && i + 1 < args.size()) settings.target = args[++i];
  }
  std::string folder;
  while (std::getline(std::cin, folder)) {
    std::filesystem::path path(folder);
    Outcome outcome = Case(path, settings).Run();
    std::string why = absl::StrReplaceAll(outcome.why.substr(0, 600), {{"\n", " | "}, {"\t", " "}});
    std::cout << path.filename().string() << '\t' << outcome.word << '\t' << why << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace rvm

int main(int argc, char** argv) { return rvm::Main(std::vector<std::string>(argv + 1, argv + argc)); }
