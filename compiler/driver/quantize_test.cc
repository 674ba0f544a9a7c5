// Random quantised programs: what Realize gives computes what Simulate gives, within a step of a code.
#include "compiler/driver/quantize.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/passes/pass.h"
#include "compiler/quantize/realize.h"
#include "compiler/quantize/sites.h"
#include "compiler/quantize/weights.h"
#include "gtest/gtest.h"
#include "vm/machine.h"

namespace rvm::driver {
namespace {

using quantize::Scheme;

// A random network: layers one behind the other, some in a recursive function, in a branch or in a closure.
class RandomNetwork {
 public:
  explicit RandomNetwork(uint32_t seed) : random_(seed) {
    inputs_ = 8 * Pick(1, 6);
    int64_t width = inputs_;
    const int64_t layers = Pick(1, 4);
    for (int64_t layer = 0; layer < layers; ++layer) {
      const int64_t taken = width;
      std::string value = Layer(Variable(layer), width);
      layers_.push_back({std::move(value), taken});
    }
  }

  size_t num_layers() const { return layers_.size(); }
  // Returns a program of `count` layers from `first` on.
  std::string Text(size_t first, size_t count) const {
    const auto begin = static_cast<int64_t>(first), end = static_cast<int64_t>(first + count);
    std::string text = absl::StrCat(functions_, "def @main(", Variable(begin), ": Tensor[(n, ", layers_[first].inputs,
                                    "), float32]) {\n");
    for (int64_t layer = begin; layer < end; ++layer) {
      absl::StrAppend(&text, "  let ", Variable(layer + 1), " = ", layers_[static_cast<size_t>(layer)].text, ";\n");
    }
    return absl::StrCat(text, "  ", Variable(end), "\n}\n");
  }
  Literal Data() {
    const int64_t rows = Pick(1, 5);
    std::vector<float> values;
    for (int64_t i = 0; i < rows * inputs_; ++i) values.push_back(Normal());
    return Literal::FromValues<float>(kFloat32, {rows, inputs_}, values);
  }
  const std::map<std::string, Literal, std::less<>>& weights() const { return weights_; }

 private:
  // An expression for what a layer gives of rows of `inputs` elements.
  struct Step {
    std::string text;
    int64_t inputs = 0;
  };

  // Returns the variable that layer `layer` takes.
  static std::string Variable(int64_t layer) { return absl::StrCat("%y", layer); }
  int64_t Pick(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  float Normal() { return std::normal_distribution<float>()(random_); }

  std::string Weight(Shape shape) {
    std::vector<float> values;
    const float spread = std::exp(Normal());
    for (int64_t i = 0; i < *NumElements(shape); ++i) values.push_back(0.3f * spread * Normal());
    const std::string name = absl::StrCat("w", weights_.size());
    functions_.insert(0, absl::StrCat("free_var %", name, ": Tensor[", ShapeToString(shape), ", float32];\n"));
    weights_.emplace(name, Literal::FromValues<float>(kFloat32, shape, values));
    return absl::StrCat("%", name);
  }

  // Returns a layer of `x`, which has rows of `width` elements and whose result has as many as `width` is then.
  std::string Layer(const std::string& x, int64_t& width) {
    // Wide weights are too large to be folded to floats.
    const int64_t next = 8 * (Pick(0, 5) == 0 ? Pick(17, 36) : Pick(1, 6));
    switch (Pick(0, 5)) {
      case 0: {
        std::string w = Weight({next, width});
        width = next;
        return absl::StrCat("tanh(nn.dense(", x, ", ", w, "))");
      }
      case 1: {
        std::string w = Weight({width, next});
        width = next;
        return absl::StrCat("nn.relu(nn.matmul(", x, ", ", w, "))");
      }
      case 2: {
        std::string w = Weight({next, 1, 3});
        return absl::StrCat("max(nn.conv1d(expand_dims(", x, ", axis=1), ", w, ", padding=[1], channels=", next,
                            ", kernel_size=[3]), axis=[1])");
      }
      case 3: {  // a recursion
        const std::string name = absl::StrCat("loop", weights_.size()), w = Weight({width, width});
        const std::string type = absl::StrCat("Tensor[(k, ", width, "), float32]");
        absl::StrAppend(&functions_, "def @", name, "(%i: int32, %h: ", type, ") -> ", type,
                        " {\n  if (%i == 0) { %h } else { @", name, "(%i - 1, tanh(nn.dense(%h, ", w, "))) }\n}\n");
        return absl::StrCat("@", name, "(", Pick(1, 3), ", ", x, ")");
      }
      case 4: {  // a closure, called twice
        const std::string w = Weight({width, width});
        return absl::StrCat("{ let %f = fn (%v: Tensor[(m, ", width, "), float32]) { sigmoid(nn.dense(%v, ", w,
                            ")) }; %f(", x, ") + %f(", x, " * 0.5f) }");
      }
      default: {
        const std::string w = Weight({40, width});
        return absl::StrCat(x, " + sum(take(", w, ", cast(clip(", x,
                            " * 3f, a_min=0, a_max=39), dtype=\"int32\"), axis=0), axis=[1])");
      }
    }
  }

  std::mt19937 random_;
  std::string functions_;
  std::map<std::string, Literal, std::less<>> weights_;
  std::vector<Step> layers_;
  int64_t inputs_ = 0;
};

struct QuantizedNetworks {
  PreparedProgram realized, simulated;
  size_t sites = 0;
};

// Quantises every site that fits the scheme.
absl::StatusOr<QuantizedNetworks> Quantise(const RandomNetwork& network, std::string text, Scheme scheme,
                                           diagnostics::Diagnostics& diagnostics, diagnostics::SourceMap& sources) {
  const uint32_t source = sources.Add("random.relay", std::move(text));
  RVM_ASSIGN_OR_RETURN(ir::Module module, Parse(source, diagnostics));
  CompileOptions options;
  options.weights.push_back({.path = "weights", .tensors = network.weights(), .unreadable = {}});
  BoundWeights bound;
  RVM_ASSIGN_OR_RETURN(PreparedProgram prepared,
                       PrepareModule(std::move(module), diagnostics, options, "lambda_lift", bound));
  passes::PassContext context{prepared.entries, 2, diagnostics};
  RVM_ASSIGN_OR_RETURN(prepared.module, passes::kToAnf.run(prepared.module, context));
  quantize::WeightStore weights;
  std::vector<quantize::Site> sites = quantize::FindSites(prepared.module);
  std::vector<quantize::SitePlan> plans;
  for (const quantize::Site& site : sites) {
    quantize::SitePlan plan = {.scheme = scheme, .group = 8, .greatest = 2.5};
    if (!quantize::CanRealize(site, scheme, plan.group, weights)) plan.scheme = Scheme::kFloat;
    plans.push_back(plan);
  }
  QuantizedNetworks networks = {prepared, prepared, sites.size()};
  networks.realized.module = quantize::Realize(prepared.module, sites, plans, weights);
  networks.simulated.module = quantize::Simulate(prepared.module, sites, plans, weights);
  return networks;
}

absl::StatusOr<Literal> ResultOf(PreparedProgram program, const CompileOptions& options, const Literal& data,
                                 diagnostics::Diagnostics& diagnostics) {
  RVM_ASSIGN_OR_RETURN(CompiledProgram compiled,
                       CompilePrepared(std::move(program), "lambda_lift", diagnostics, options));
  RVM_ASSIGN_OR_RETURN(auto linked, vm::Program::Link(compiled.executable, {.allow_native = true}));
  RVM_ASSIGN_OR_RETURN(auto machine, vm::Machine::Create(linked, {}));
  const Value argument = Value::Tensor(data);
  RVM_ASSIGN_OR_RETURN(Value value, machine->Invoke("main", std::span(&argument, 1)));
  return value.tensor();
}

// Returns the norm of the difference divided by that of `b`.
double Difference(const Literal& a, const Literal& b) {
  double difference = 0, all = 0;
  for (int64_t i = 0; i < b.num_elements(); ++i) {
    difference += std::pow(a.DoubleAt(i) - b.DoubleAt(i), 2);
    all += std::pow(b.DoubleAt(i), 2);
  }
  return all == 0 ? std::sqrt(difference) : std::sqrt(difference / all);
}

// Returns the scheme of network `seed`.
Scheme SchemeOf(int64_t seed) {
  const std::span<const quantize::SchemeRow> quantized = quantize::Schemes().subspan(1);  // all but float
  return quantized[static_cast<size_t>(seed) % quantized.size()].scheme;
}

int64_t RandomNetworks() {
  const char* given = std::getenv("RELAYVM_QUANTIZED_NETWORKS");
  return given == nullptr ? 48 : std::atoll(given);
}

struct Results {
  Literal realized, simulated;
  size_t sites = 0;
};

// Returns the results of some layers of network `seed`, from `first` on.
absl::StatusOr<Results> ResultsOf(const RandomNetwork& network, int64_t seed, size_t first, size_t count,
                                  const Literal& data, diagnostics::Diagnostics& diagnostics,
                                  diagnostics::SourceMap& sources) {
  RVM_ASSIGN_OR_RETURN(QuantizedNetworks networks,
                       Quantise(network, network.Text(first, count), SchemeOf(seed), diagnostics, sources));
  CompileOptions options = {.opt_level = static_cast<int>(seed % 4)};
  if (seed % 5 == 4) options.target = "portable";
  if (seed % 5 == 3) options.target = "x86-64-v3";
  Results results = {.sites = networks.sites};
  RVM_ASSIGN_OR_RETURN(results.realized, ResultOf(std::move(networks.realized), options, data, diagnostics));
  RVM_ASSIGN_OR_RETURN(results.simulated, ResultOf(std::move(networks.simulated), options, data, diagnostics));
  return results;
}

// Checks network `seed`, and returns how many sites it has.
size_t CheckNetwork(int64_t seed) {
  RandomNetwork network(static_cast<uint32_t>(seed));
  const Literal data = network.Data();
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  auto results = [&](size_t first, size_t count, const Literal& input) {
    absl::StatusOr<Results> found = ResultsOf(network, seed, first, count, input, diagnostics, sources);
    RVM_CHECK(found.ok(), absl::StrCat("network ", seed, ": ", found.status().ToString(), diagnostics.Render()));
    return *std::move(found);
  };
  const Scheme scheme = SchemeOf(seed);
  // A sum that is rounded otherwise may move the code of an activation by a step.
  const double step = quantize::RowOf(scheme).multiplies_bytes() ? 1.0 / quantize::kMaxCode
                      : scheme == Scheme::kW16A16                ? 1.0 / 256
                                                                 : 1e-4;
  Results whole = results(0, network.num_layers(), data);
  if (Difference(whole.realized, whole.simulated) <= step) return whole.sites;
  // An index that is cast from a float is that of the next row of a table if the float is rounded across an integer,
  // and later layers enlarge a difference. So where the results differ, each layer must compute what it simulates from
  // the same input, within a step, and the layers in turn must give the result.
  Literal input = data;
  for (size_t layer = 0; layer < network.num_layers(); ++layer) {
    Results one = results(layer, 1, input);
    EXPECT_LE(Difference(one.realized, one.simulated), step)
        << "layer " << layer << " of network " << seed << " as " << quantize::RowOf(scheme).name << ":\n"
        << network.Text(layer, 1);
    input = std::move(one.realized);
  }
  EXPECT_LE(Difference(input, whole.realized), step) << "network " << seed << " differs from its layers in turn";
  return whole.sites;
}

TEST(Quantize, RealizedIsSimulated) {
  size_t sites = 0;
  for (int64_t seed = 0; seed < RandomNetworks(); ++seed) sites += CheckNetwork(seed);
  EXPECT_GT(sites, static_cast<size_t>(RandomNetworks()));
}

// Networks in which a float that becomes an index lies at an integer: the results differ by up to 0.05.
TEST(Quantize, LayersOfAmbiguousNetworksAreSimulated) {
  for (int64_t seed : {2442, 4468}) EXPECT_GT(CheckNetwork(seed), 0u);
}

// Quantises one product, whose measurement fails with `error`.
absl::StatusOr<QuantizedProgram> QuantizeUnmeasured(const absl::Status& error) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  const uint32_t source = sources.Add("product.relay",
                                      "free_var %w: Tensor[(256, 256), float32];"
                                      "def @main(%x: Tensor[(n, 256), float32]) { nn.dense(%x, %w) }");
  RVM_ASSIGN_OR_RETURN(ir::Module module, Parse(source, diagnostics));
  CompileOptions options;
  options.weights.push_back({.path = "weights", .tensors = {{"w", Literal::Full(kFloat32, {256, 256}, 1)}}});
  QuantizeRuntime runtime;
  runtime.time = [&](auto&&...) -> absl::StatusOr<std::vector<double>> { return error; };
  return QuantizeModule(std::move(module), diagnostics, options, {}, runtime);
}

TEST(Quantize, OnlyTargetsOfOtherMachinesStayUnmeasured) {
  absl::StatusOr<QuantizedProgram> program = QuantizeUnmeasured(absl::FailedPreconditionError("another machine"));
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(program->sites.size(), 1u);
  EXPECT_EQ(program->sites[0].scheme, Scheme::kW8);
  EXPECT_FALSE(program->sites[0].ns_before.has_value());
  for (const absl::Status& error : {absl::ResourceExhaustedError("no memory"), absl::InternalError("a bug")}) {
    EXPECT_EQ(QuantizeUnmeasured(error).status(), error);
  }
}

}  // namespace
}  // namespace rvm::driver
