#include "compiler/import/darknet/importer.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/checks.h"
#include "compiler/import/shapes.h"
#include "compiler/import/weights_beside.h"

namespace rvm::darknet {
namespace {

constexpr std::string_view kInput = "data";
constexpr double kEpsilon = 1e-6;  // added to the deviation of a batch normalisation

const LayerRow* FindRow(std::string_view kind) {
  for (std::span<const LayerRow> family : {WeightedLayers(), RecurrentLayers(), ShapeLayers()}) {
    for (const LayerRow& row : family) {
      if (row.kind == kind) return &row;
    }
  }
  return nullptr;
}

// Parses an integer of an option; nullopt if it is none from `least` to `greatest`.
std::optional<int64_t> ToInt(std::string_view text, int64_t least, int64_t greatest) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(Abseil(text), &value) || value < least || value > greatest) return std::nullopt;
  return value;
}

std::string WrongOption(std::string_view name, std::string_view saw, std::string_view expected) {
  return absl::StrCat("`", Abseil(name), "`: saw `", ReadableText(saw.substr(0, 40)), "`; expected ", Abseil(expected));
}

std::string FromTo(int64_t least, int64_t greatest) {
  return absl::StrCat("an integer from ", least, " to ", greatest);
}

}  // namespace

// ---- options

int64_t LayerContext::Int(std::string_view name, int64_t otherwise, int64_t least, int64_t greatest) {
  const std::string* text = section_.Find(name);
  if (text == nullptr) return otherwise;
  if (std::optional<int64_t> value = ToInt(*text, least, greatest)) return *value;
  Fail(WrongOption(name, *text, FromTo(least, greatest)));
  return otherwise;
}

double LayerContext::Float(std::string_view name, double otherwise) {
  const std::string* text = section_.Find(name);
  double value = otherwise;
  if (text == nullptr || (absl::SimpleAtod(*text, &value) && std::isfinite(value))) return value;
  Fail(WrongOption(name, *text, "a number"));
  return otherwise;
}

std::string_view LayerContext::Text(std::string_view name, std::string_view otherwise) const {
  const std::string* text = section_.Find(name);
  return text == nullptr ? otherwise : *text;
}

std::vector<int64_t> LayerContext::Ints(std::string_view name) {
  const std::string* text = section_.Find(name);
  std::vector<int64_t> values;
  if (text == nullptr) return values;
  for (absl::string_view part : absl::StrSplit(*text, ',', absl::SkipEmpty())) {
    if (std::optional<int64_t> value = ToInt({part.data(), part.size()}, -kMaxNumber, kMaxNumber)) {
      values.push_back(*value);
    } else {
      Fail(WrongOption(name, {part.data(), part.size()}, FromTo(-kMaxNumber, kMaxNumber)));
      return {};
    }
  }
  return values;
}

void LayerContext::Refuse(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) {
    const std::string* text = section_.Find(name);
    if (text != nullptr && *text != "0") Unsupported(absl::StrCat("the option `", Abseil(name), "`"));
  }
}

// ---- values

Operand LayerContext::Input() {
  if (!layers_.empty()) is_read_.back() = true;
  return input_;
}

Operand LayerContext::AsImage(Operand x) {
  Dims dims = DimsOf(x);
  if (dims.size() != 2) return x;
  dims.resize(4, Dim(1));
  return Reshape(x, dims);
}

Operand LayerContext::AsRows(Operand x) {
  const Dims dims = DimsOf(x);
  if (dims.size() < 3) return x;
  return Reshape(x, {dims[0], importing::Product(std::span(dims).subspan(1))});
}

std::optional<std::array<int64_t, 3>> LayerContext::ImageExtents(Operand x) {
  std::array<int64_t, 3> extents;
  for (size_t i = 0; i < extents.size(); ++i) {
    const std::optional<int64_t> extent = importing::KnownExtent(*this, x, static_cast<int64_t>(i) + 1, "input");
    if (!extent) return std::nullopt;
    if (*extent > kMaxNumber) {
      Fail(absl::StrCat("its input has an extent of ", *extent, "; expected at most ", kMaxNumber));
      return std::nullopt;
    }
    extents[i] = *extent;
  }
  return extents;
}

Operand LayerContext::Layer(int64_t number) {
  const auto count = static_cast<int64_t>(layers_.size());
  const int64_t place = number < 0 ? number + count : number;
  if (place < 0 || place >= count) {
    return Fail(absl::StrCat("it reads layer ", number, "; there are ", count, " layers before it"));
  }
  is_read_[static_cast<size_t>(place)] = true;
  return layers_[static_cast<size_t>(place)];
}

Operands LayerContext::Layers(std::string_view name) {
  Operands layers;
  for (int64_t number : Ints(name)) layers.push_back(Layer(number));
  if (layers.empty())
    layers.push_back(Fail(absl::StrCat("`", Abseil(name), "` is missing; expected numbers of layers")));
  return layers;
}

// ---- weights

std::optional<Literal> LayerContext::Take(const Shape& shape) {
  if (failed()) return std::nullopt;
  std::optional<Literal> weights = weights_.Take(shape);
  if (!weights) {
    Fail(absl::StrCat("its weights ", ShapeToString(shape), " go beyond the end of the file, where ", weights_.rest(),
                      " numbers are left"));
  }
  return weights;
}

Operand LayerContext::TakeWeights(const Shape& shape) {
  std::optional<Literal> weights = Take(shape);
  return weights ? emit().Constant(*std::move(weights)) : emit().Placeholder();
}

std::optional<LayerContext::Normalisation> LayerContext::TakeNormalisation(int64_t outputs) {
  std::optional<Literal> scales = Take({outputs}), means = Take({outputs}), variances = Take({outputs});
  if (!scales || !means || !variances) return std::nullopt;
  return Normalisation{*std::move(scales), *std::move(means), *std::move(variances)};
}

Filters LayerContext::Joined(const Literal& weights, const Literal& bias,
                             const std::optional<Normalisation>& normalisation) {
  if (!normalisation) return {emit().Constant(weights), emit().Constant(bias)};
  const std::span<const float> from = weights.values<float>();
  std::vector<float> filters(from.begin(), from.end()), shifts;
  const size_t outputs = bias.values<float>().size(), size = outputs == 0 ? 0 : filters.size() / outputs;
  for (size_t i = 0; i < outputs; ++i) {
    const double deviation = std::sqrt(static_cast<double>(normalisation->variances.values<float>()[i])) + kEpsilon;
    const double factor = normalisation->scales.values<float>()[i] / deviation;
    for (float& weight : std::span(filters).subspan(i * size, size)) weight = static_cast<float>(weight * factor);
    shifts.push_back(static_cast<float>(bias.values<float>()[i] - normalisation->means.values<float>()[i] * factor));
  }
  return {emit().Constant(Literal::FromValues<float>(kFloat32, weights.shape(), filters)),
          emit().Constant(Literal::FromValues<float>(kFloat32, bias.shape(), shifts))};
}

Filters LayerContext::TakeConvolution(const Shape& shape, bool is_normalised) {
  std::optional<Literal> bias = Take({shape[0]});
  std::optional<Normalisation> normalisation;
  if (is_normalised) normalisation = TakeNormalisation(shape[0]);
  std::optional<Literal> weights = Take(shape);
  if (!weights) return {emit().Placeholder(), emit().Placeholder()};
  return Joined(*weights, *bias, normalisation);
}

Filters LayerContext::TakeConnected(int64_t outputs, int64_t inputs, bool is_normalised) {
  std::optional<Literal> bias = Take({outputs}), weights = Take({outputs, inputs});
  std::optional<Normalisation> normalisation;
  if (is_normalised) normalisation = TakeNormalisation(outputs);
  if (failed() || !weights) return {emit().Placeholder(), emit().Placeholder()};
  if (weights_.is_transposed()) {
    const std::span<const float> from = weights->values<float>();
    std::vector<float> to;
    to.reserve(from.size());
    const auto rows = static_cast<size_t>(outputs), columns = static_cast<size_t>(inputs);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < columns; ++column) to.push_back(from[column * rows + row]);
    }
    weights = Literal::FromValues<float>(kFloat32, weights->shape(), to);
  }
  return Joined(*weights, *bias, normalisation);
}

Operand LayerContext::Connected(Operand x, const Filters& filters) {
  return Add(Op("nn.dense", {x, filters.weights}), filters.bias);
}

// ---- layers

Importer::Importer(const std::vector<Section>& sections, Weights weights, const ImportOptions& options)
    : Frame(options), sections_(sections), weights_(std::move(weights)) {
  for (const Section& section : std::span(sections).subspan(1)) CountNode(section.kind);
}

Operand Importer::Convert(const Section& section) {
  const LayerRow* row = FindRow(section.kind);
  if (row == nullptr) {
    emit_.Fail(absl::UnimplementedError("this layer is not supported"));
    return nullptr;
  }
  Operand input = layers_.empty() ? input_ : layers_.back();
  if (input->is_placeholder) return nullptr;
  LayerContext context(emit_, section, input, layers_, is_read_, weights_);
  return row->convert(context);
}

void Importer::ImportLayer(size_t number) {
  const Section& section = sections_[number + 1];
  const std::string label = absl::StrCat("layer ", number, ", line ", section.line);
  ir::Span outer =
      EnterOrigin([&] { return absl::StrCat(ReadableText(section.kind), " ", label, " of ", options_.name); });
  Operand result = WithStack([&] { return Convert(section); });
  LeaveOrigin(outer);
  const absl::Status status = emit_.TakeStatus();
  if (!status.ok()) refusals_.Add(section.kind, label, status);
  layers_.push_back(status.ok() && result != nullptr ? result : emit_.Placeholder());
  is_read_.push_back(false);
}

// ---- inputs

// Returns the extents of the input: an image, or `inputs` numbers.
absl::StatusOr<Dims> Importer::NetExtents() {
  const Section& net = sections_[0];
  bool is_recurrent = false;
  for (const Section& section : sections_) {
    for (const LayerRow& row : RecurrentLayers()) is_recurrent = is_recurrent || row.kind == section.kind;
  }
  std::vector<std::string> extents = {is_recurrent ? "steps" : "batch"};
  const bool is_image = net.Find("height") != nullptr && net.Find("width") != nullptr;
  for (std::string_view name : is_image ? std::vector<std::string_view>{"channels", "height", "width"}
                                        : std::vector<std::string_view>{"inputs"}) {
    const std::string* text = net.Find(name);
    if (text == nullptr && name == "inputs") {
      return absl::InvalidArgumentError("`[net]` has neither `height` and `width` nor `inputs`");
    }
    const std::string value = text == nullptr ? "3" : *text;
    const std::optional<int64_t> extent = ToInt(value, 1, kMaxNumber);
    if (!extent) return absl::InvalidArgumentError(WrongOption(name, value, FromTo(1, kMaxNumber)));
    extents.push_back(absl::StrCat(*extent));
  }
  RVM_RETURN_IF_ERROR(CheckGivenInputs({{{kInput, extents.size()}}}));
  if (options_.frozen.contains(kInput)) extents[0] = "?";
  NoteExtentNames(kInput, {{std::string_view(extents[0])}});
  Dims dims;
  for (size_t i = 0; i < extents.size(); ++i) dims.push_back(InputExtent(kInput, i, extents[i]));
  return dims;
}

// Returns the value of the input if it is frozen; else it becomes a parameter, and the result is null.
absl::StatusOr<Operand> Importer::ReadInput() {
  RVM_ASSIGN_OR_RETURN(Dims dims, NetExtents());
  RVM_ASSIGN_OR_RETURN(Operand frozen, FrozenInput(kInput, kFloat32, dims));
  if (frozen == nullptr) AddParam(kInput, emit_.TensorType(std::move(dims), kFloat32));
  AddSeed();
  return frozen;
}

// ---- the program

absl::StatusOr<ImportedModel> Importer::ImportModel() {
  RVM_ASSIGN_OR_RETURN(input_, ReadInput());
  if (sections_.size() == 1) return absl::InvalidArgumentError("it has no layers");
  EnterOrigin([&] { return options_.name; });
  ImportedModel result;
  DefineMain([&](const Operands& params) {
    if (!params.empty()) {
      input_ = params[0];
      input_->name = std::string(kInput);
      result.inputs.emplace_back(kInput);
    }
    for (size_t i = 0; i + 1 < sections_.size(); ++i) ImportLayer(i);
    Operands outputs;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (is_read_[i]) continue;
      outputs.push_back(layers_[i]);
      result.outputs.push_back(absl::StrCat(sections_[i + 1].kind, "_", i));
    }
    return outputs;
  });
  RVM_RETURN_IF_ERROR(Finish(result));
  NameResults(result);
  if (weights_.rest() > 0) {
    result.warnings.push_back(
        absl::StrCat("the file of weights has ", weights_.rest(), " more numbers than the layers read"));
  }
  return result;
}

absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(std::vector<Section> sections, ReadConfig(bytes));
  RVM_ASSIGN_OR_RETURN(importing::FileBytes file, importing::WeightsBeside(options, ".cfg", ".weights"));
  if (file.bytes.empty()) {
    return absl::InvalidArgumentError(
        "its weights are missing; expected a .weights file beside it, or `--params FILE`");
  }
  RVM_ASSIGN_OR_RETURN(Weights weights, Weights::Open(std::move(file)));
  return Importer(sections, std::move(weights), options).Import();
}

}  // namespace rvm::darknet
