// Importer: layers of a configuration as Relay, one by one. Internal to this folder; import.h is for others.
#ifndef RVM_COMPILER_IMPORT_DARKNET_IMPORTER_H_
#define RVM_COMPILER_IMPORT_DARKNET_IMPORTER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/darknet/config.h"
#include "compiler/import/darknet/import.h"
#include "compiler/import/darknet/weights.h"
#include "compiler/import/frame/frame.h"

namespace rvm::darknet {

using importing::Emitter;
using importing::Operand;
using importing::Operands;
using importing::Steps;

class LayerContext;

struct LayerRow {
  std::string_view kind;  // "convolutional"
  Operand (*convert)(LayerContext&);
};
// Returns the layers that can be imported, by family: one file each, with a table at its end.
std::span<const LayerRow> WeightedLayers();
std::span<const LayerRow> RecurrentLayers();
std::span<const LayerRow> ShapeLayers();

// Greatest extent and count that options may give.
inline constexpr int64_t kMaxNumber = int64_t{1} << 24;
// Maximum size, stride and padding of windows.
inline constexpr int64_t kMaxWindow = 4096;

// Filters of a layer, with its batch normalisation multiplied into them.
struct Filters {
  Operand weights, bias;
};

// One layer while it is converted, and the steps that it becomes. Values are images (batch, channels, height, width)
// or rows (batch, numbers).
class LayerContext : public Steps {
 public:
  // `layers` are the results of the layers before, of which the last is the input; none for the first one. Layers that
  // are read are marked in `is_read`.
  LayerContext(Emitter& emit, const Section& section, Operand input, const Operands& layers, std::vector<bool>& is_read,
               Weights& weights)
      : Steps(emit), section_(section), input_(input), layers_(layers), is_read_(is_read), weights_(weights) {}

  // ---- options; a mistake where one is malformed or out of range
  int64_t Int(std::string_view name, int64_t otherwise, int64_t least = 0, int64_t greatest = kMaxNumber);
  bool Bool(std::string_view name) { return Int(name, 0, std::numeric_limits<int32_t>::min()) != 0; }
  bool Has(std::string_view name) const { return section_.Find(name) != nullptr; }
  double Float(std::string_view name, double otherwise);
  std::string_view Text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> Ints(std::string_view name);
  // Refuses options that change the result, where they are given and not 0.
  void Refuse(std::initializer_list<std::string_view> names);

  // ---- values
  // The result of the layer before, as it is, as an image, or as rows.
  Operand Input();
  Operand Image() { return AsImage(Input()); }
  Operand Rows() { return AsRows(Input()); }
  Operand AsImage(Operand x);
  Operand AsRows(Operand x);
  // Returns channels, height and width of an image; nullopt, and a mistake, where one is unknown or above kMaxNumber.
  std::optional<std::array<int64_t, 3>> ImageExtents(Operand x);
  // Returns the result of the layer `number`, counted from 0, or from this one where negative.
  Operand Layer(int64_t number);
  // Results of the layers that an option lists.
  Operands Layers(std::string_view name);

  // ---- weights
  // The next numbers of the file.
  Operand TakeWeights(const Shape& shape);
  // Filters of a convolution, in which the batch normalisation stands before the filters, and of a connected layer.
  // `shape` begins with the outputs.
  Filters TakeConvolution(const Shape& shape, bool is_normalised);
  Filters TakeConnected(int64_t outputs, int64_t inputs, bool is_normalised);

  // ---- steps
  // Returns `x` after the activation of that name, or of the section.
  Operand Activated(Operand x, std::string_view name);
  Operand Activated(Operand x) { return Activated(x, Text("activation", "logistic")); }
  Operand Connected(Operand x, const Filters& filters);

 private:
  std::optional<Literal> Take(const Shape& shape);
  struct Normalisation {
    Literal scales, means, variances;
  };
  std::optional<Normalisation> TakeNormalisation(int64_t outputs);
  Filters Joined(const Literal& weights, const Literal& bias, const std::optional<Normalisation>& normalisation);

  const Section& section_;
  Operand input_;
  const Operands& layers_;
  std::vector<bool>& is_read_;
  Weights& weights_;
};

class Importer final : public importing::Frame {
 public:
  Importer(const std::vector<Section>& sections, Weights weights, const ImportOptions& options);

 private:
  absl::StatusOr<ImportedModel> ImportModel() override;
  absl::StatusOr<Dims> NetExtents();
  absl::StatusOr<Operand> ReadInput();
  void ImportLayer(size_t number);
  Operand Convert(const Section& section);

  const std::vector<Section>& sections_;
  Weights weights_;
  Operand input_ = nullptr;
  Operands layers_;            // results
  std::vector<bool> is_read_;  // by another layer
};

}  // namespace rvm::darknet

#endif  // RVM_COMPILER_IMPORT_DARKNET_IMPORTER_H_
