// For programs that run on a device: arguments that it works on, products of bytes, and marks of places.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/element.h"
#include "tests/random/generator.h"

namespace rvm::random_programs {

namespace {

std::string ListText(const std::vector<int64_t>& items) { return absl::StrCat("[", absl::StrJoin(items, ", "), "]"); }

// Returns the extent, which the generator knows.
int64_t Extent(const TypeRef& type, size_t axis) { return std::stoll(type->dims[axis]); }

}  // namespace

// Returns the type of a factor of a product: only the first extent may be unknown, and none is a multiple of a tile's.
TypeRef Generator::RandomFactor() {
  std::vector<std::string> dims;
  int rank = 2 + dice_.Pick(3);
  for (int axis = 0; axis < rank; ++axis) {
    int most = rank == 2 ? 40 : rank == 3 ? (axis == 0 ? 3 : 20) : (axis < 2 ? 5 : 8);
    dims.push_back(absl::StrCat(1 + dice_.Pick(most)));
  }
  if (dice_.Chance(25)) dims[0] = "?";
  return Tensor(dice_.Chance(80) ? kInt8 : kUInt8, std::move(dims));
}

std::string Generator::Bytes(DataType dtype, const std::vector<std::string>& dims) {
  std::string suffix(FindDataType(dtype)->suffix);
  int64_t count = 1;
  for (const std::string& dim : dims) count *= std::stoll(dim);
  std::vector<std::string> numbers;
  for (; count > 0; --count) numbers.push_back(absl::StrCat(dice_.Pick(256) - (dtype.is_uint() ? 0 : 128), suffix));
  return absl::StrCat("Constant([", absl::StrJoin(numbers, ", "), "], (", absl::StrJoin(dims, ", "), "), ",
                      dtype.ToString(), ")");
}

std::string Generator::Weight(const std::vector<std::string>& dims) {
  TypeRef type = Tensor(dice_.Chance(80) ? kInt8 : kUInt8, dims);
  std::vector<std::string> variables = VariablesOf(type);
  return !variables.empty() && dice_.Chance(50) ? dice_.Of(variables) : Bytes(type->dtype, dims);
}

std::string Generator::ZeroPoints(const TypeRef& data) {
  int zero = dice_.Pick(256) - (data->dtype.is_uint() ? 0 : 128);
  return absl::StrCat(", ", dice_.Chance(30) ? 0 : zero, ", ", dice_.Pick(256) - 128, ", 1f, 1f");
}

Generator::Typed Generator::DenseProduct(const Typed& data) {
  std::vector<std::string> dims = data.type->dims;
  std::string depth = dims.back();
  dims.back() = absl::StrCat(1 + dice_.Pick(40));
  std::string weight = Weight({dims.back(), depth});
  bool is_quantized = dims.size() == 2 && dice_.Chance(50);
  std::string call = is_quantized ? absl::StrCat("qnn.dense(", data.text, ", ", weight, ZeroPoints(data.type), ")")
                                  : absl::StrCat("nn.dense(", data.text, ", ", weight, ", out_dtype=\"int32\")");
  return {call, Tensor(kInt32, std::move(dims))};
}

// REQUIRES: rank 3.
Generator::Typed Generator::BatchProduct(const Typed& data) {
  bool transposes = dice_.Chance(70);
  const std::vector<std::string>& dims = data.type->dims;
  std::string columns = absl::StrCat(1 + dice_.Pick(20));
  std::string batch = dims[0] == "?" || dice_.Chance(40) ? "1" : dims[0];
  std::string weight = Weight(transposes ? std::vector{batch, columns, dims[2]} : std::vector{batch, dims[2], columns});
  std::string flag = absl::StrCat(", transpose_b=", transposes ? "True" : "False");
  std::string call =
      transposes && dice_.Chance(50)
          ? absl::StrCat("qnn.batch_matmul(", data.text, ", ", weight, ZeroPoints(data.type), flag, ")")
          : absl::StrCat("nn.batch_matmul(", data.text, ", ", weight, ", out_dtype=\"int32\"", flag, ")");
  return {call, Tensor(kInt32, {dims[0], dims[1], columns})};
}

// Channels are the second axis. REQUIRES: rank 3 or 4.
Generator::Typed Generator::Convolution(const Typed& data) {
  size_t rank = data.type->dims.size();
  int64_t channels = Extent(data.type, 1), groups = dice_.Chance(25) ? channels : 1;
  int64_t filters = groups * (1 + dice_.Pick(groups == 1 ? 20 : 2));
  std::vector<std::string> weight = {absl::StrCat(filters), absl::StrCat(channels / groups)};
  std::vector<std::string> result = {data.type->dims[0], weight[0]};
  std::vector<int64_t> before, after, strides, dilations, taps;
  for (size_t axis = 2; axis < rank; ++axis) {
    int64_t extent = Extent(data.type, axis);
    taps.push_back(1 + dice_.Pick(3));
    dilations.push_back(1 + dice_.Pick(2));
    strides.push_back(1 + dice_.Pick(3));
    int64_t span = (taps.back() - 1) * dilations.back() + 1;
    before.push_back(dice_.Pick(3));
    after.push_back(std::max<int64_t>(dice_.Pick(3), span - extent - before.back()));
    weight.push_back(absl::StrCat(taps.back()));
    result.push_back(absl::StrCat((extent + before.back() + after.back() - span) / strides.back() + 1));
  }
  before.insert(before.end(), after.begin(), after.end());
  bool is_quantized = rank == 4 && groups == 1 && dice_.Chance(50);
  std::string attrs = absl::StrCat(", padding=", ListText(before), ", strides=", ListText(strides),
                                   ", dilation=", ListText(dilations), ", groups=", groups);
  const char* op = is_quantized ? "qnn.conv2d(" : rank == 4 ? "nn.conv2d(" : "nn.conv1d(";
  std::string rest = is_quantized ? absl::StrCat(ZeroPoints(data.type), attrs, ", channels=", filters,
                                                 ", kernel_size=", ListText(taps), ")")
                                  : absl::StrCat(attrs, ", out_dtype=\"int32\")");
  return {absl::StrCat(op, data.text, ", ", Weight(weight), rest), Tensor(kInt32, std::move(result))};
}

// Returns a layer of a quantised network, or two.
Generator::Typed Generator::ByteLayers(Typed data) {
  for (bool is_last = dice_.Chance(65);; is_last = true) {
    size_t rank = data.type->dims.size();
    int form = dice_.Pick(3);
    Typed made = rank == 2 || (rank == 3 && form == 0) ? DenseProduct(data)
                 : rank == 3 && form == 1              ? BatchProduct(data)
                                                       : Convolution(data);
    if (dice_.Chance(30)) made.text = absl::StrCat("nn.relu(", made.text, ")");
    if (is_last) return made;
    made.text = absl::StrCat("cast(clip(right_shift(", made.text, ", 4), a_min=-128f, a_max=127f), dtype=\"int8\")");
    data = {made.text, Tensor(kInt8, made.type->dims)};
  }
}

// Returns a tensor of the extents of `type` from one of any. REQUIRES: `type` is static.
std::string Generator::Fitted(Typed from, const TypeRef& type) {
  std::vector<std::string> dims = from.type->dims;
  auto sum = [&](size_t axis) {
    from.text = absl::StrCat("sum(", from.text, ", axis=[", axis, "])");
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  };
  if (dims[0] == "?") sum(0);
  while (dims.size() > type->dims.size()) sum(static_cast<size_t>(dice_.Pick(static_cast<int>(dims.size()))));
  while (dims.size() < type->dims.size()) {
    from.text = absl::StrCat("expand_dims(", from.text, ", axis=0)");
    dims.insert(dims.begin(), "1");
  }
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    int64_t has = std::stoll(dims[axis]), wanted = Extent(type, axis);
    if (has == wanted || has == 1) continue;
    int64_t kept = has > wanted ? wanted : 1, begin = dice_.Pick(static_cast<int>(has - kept) + 1);
    from.text = absl::StrCat("strided_slice(", from.text, ", begin=[", begin, "], end=[", begin + kept,
                             "], strides=[1], axes=[", axis, "])");
    dims[axis] = absl::StrCat(kept);
  }
  if (dims == type->dims) return from.text;
  return absl::StrCat("broadcast_to(", from.text, ", shape=", ListText(StaticShape(type)), ")");
}

// Returns a product of bytes that an accelerator can compute, in the shape of `type`. REQUIRES: `type` is static,
// int32.
std::string Generator::ByteProduct(const TypeRef& type) {
  std::vector<Typed> inputs;
  for (const Variable& variable : scope_) {
    const TypeRef& data = variable.type;
    bool fits = data->form == TypeForm::kTensor && data->dtype.bits == 8 && data->dtype.is_integral() &&
                !data->dtype.is_bool() && data->dims.size() >= 2 && data->dims.size() <= 4;
    for (size_t axis = 0; fits && axis < data->dims.size(); ++axis) {
      char first = data->dims[axis][0];
      fits = (first >= '0' && first <= '9') || (axis == 0 && first == '?');
    }
    if (fits) inputs.push_back({variable.name, data});
  }
  Typed data;
  if (!inputs.empty() && dice_.Chance(90)) {
    data = dice_.Of(inputs);
  } else {
    do {
      data.type = RandomFactor();
    } while (!IsStaticTensor(data.type));
    data.text = Bytes(data.type->dtype, data.type->dims);
  }
  return Fitted(ByteLayers(std::move(data)), type);
}

// Parameters that a device can work on, and a result to compute from them, whose type is returned.
TypeRef Generator::AddDeviceWork(Signature& signature) {
  TypeRef work;
  if (flavor_ == Flavor::kProducts) {
    for (int i = 1 + dice_.Pick(2); i > 0; --i) signature.params.push_back(RandomFactor());
    work = Tensor(kInt32, {absl::StrCat(1 + dice_.Pick(3)), absl::StrCat(1 + dice_.Pick(20))});
  } else {
    work = RandomTensor();
    for (int i = 1 + dice_.Pick(2); i > 0; --i) signature.params.push_back(work);
    signature.params.push_back(RandomTensor());
  }
  signature.result = TupleOf({work, signature.result});
  return work;
}

std::string Generator::DeviceBody(const Signature& signature, const TypeRef& work, int depth) {
  budget_ = 40;
  std::string made = flavor_ == Flavor::kProducts ? ByteProduct(work) : Operator(work, depth);
  return absl::StrCat("(", made, ", ", Body(Signature{.result = signature.result->parts[1]}, depth), ")");
}

// `text`, a tensor, with a place that the program asks for, or without one.
std::string Generator::Marked(const std::string& text) {
  int choice = dice_.Pick(100);
  if (choice < 3) return absl::StrCat("on_device(", text, ", virtual_device=\"cpu\")");
  if (choice < 8) return absl::StrCat("on_device(", text, ", virtual_device=\"gpu\")");
  if (choice > 8) return text;
  return absl::StrCat("device_copy(", text, ", src_virtual_device=\"gpu\", dst_virtual_device=\"cpu\")");
}

}  // namespace rvm::random_programs
