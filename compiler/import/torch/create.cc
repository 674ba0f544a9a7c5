// Tensors made from a shape or from numbers.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/import/blocks/windows.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Term;

Operand Filled(NodeContext& c, Operand value, const char* shape) {
  std::optional<Dims> dims = c.Extents(shape);
  if (!dims) return c.Op("dyn.full", {value, c.Vector(shape)});
  if (std::optional<Shape> numbers = StaticShape(*dims)) {
    return c.Op("full", {value}, {{"shape", ir::IntList(*numbers)}});
  }
  return c.emit().OpAs(*dims, "dyn.full", {value, c.emit().FromDims(*dims)});
}

// full, zeros, ones and empty, and the `new_` ones, whose dtype is that of another tensor.
Operands Full(NodeContext& c) {
  DataType dtype = c.OutputDType(0).value_or(kFloat32);
  Operand value = c.Has("fill_value") ? c.Cast(c.Scalar(c.In("fill_value")), dtype)
                                      : c.emit().Number(c.row().variant == "ones" ? 1 : 0, dtype);
  return {Filled(c, value, "size")};
}

Operands FullLike(NodeContext& c) {
  Operand x = c.In("self");
  DataType dtype = c.OutputDType(0).value_or(c.DTypeOf(x));
  Operand value = c.Has("fill_value") ? c.Cast(c.Scalar(c.In("fill_value")), dtype)
                                      : c.emit().Number(c.row().variant == "ones" ? 1 : 0, dtype);
  return {c.BroadcastTo(value, c.DimsOf(x))};
}

Operands Arange(NodeContext& c) {
  DataType dtype = c.OutputDType(0).value_or(kInt64);
  // Integers are counted as such, and rounded then.
  bool is_integral = true;
  Operands parts;
  for (const char* name : {"start", "end", "step"}) {
    Operand part = c.Has(name) ? c.Scalar(c.In(name)) : c.Integer(std::string(name) == "step" ? 1 : 0);
    is_integral = is_integral && c.DTypeOf(part).is_integral();
    parts.push_back(part);
  }
  DataType counted = is_integral ? kInt64 : dtype;
  for (Operand& part : parts) part = c.Cast(part, counted);
  bool counts_up = parts[0]->constant && parts[2]->constant && is_integral && parts[0]->constant->IntAt(0) == 0 &&
                   parts[2]->constant->IntAt(0) == 1;
  std::optional<Dims> end = counts_up ? c.Symbols(parts[1]) : std::nullopt;
  Operand result = end ? c.emit().OpAs({(*end)[0]}, "arange", parts) : c.Op("arange", parts);
  return {c.Cast(result, dtype)};
}

Operands Eye(NodeContext& c) {
  DataType dtype = c.OutputDType(0).value_or(kFloat32);
  std::optional<Dim> rows = c.Has("n") ? c.Extent(*c.Find("n")) : std::nullopt;
  std::optional<Dim> columns = c.Has("m") ? c.Extent(*c.Find("m")) : rows;
  if (!rows || !columns) return {c.Unsupported("extents that only the running model knows")};
  return {c.Cast(c.Op("equal", {c.Unsqueeze(c.Iota(*rows), {1}), c.Iota(*columns)}), dtype)};
}

Operands ScalarTensor(NodeContext& c) { return {c.Cast(c.Scalar(c.In("s")), c.OutputDType(0).value_or(kFloat32))}; }

Operands OneHot(NodeContext& c) {
  int64_t classes = c.Int("num_classes", -1);
  if (classes < 1) return {c.Unsupported("a number of classes that only the running model knows")};
  return {c.Op("one_hot", {c.In("self"), c.Integer(1), c.Integer(0)},
               {{"depth", classes}, {"axis", -1}, {"dtype", "int64"}})};
}

// linspace and logspace: the second half is counted from the end, so that both ends are met.
Operands Linspace(NodeContext& c) {
  DataType dtype = c.OutputDType(0).value_or(kFloat32);
  std::optional<Dim> count = c.Has("steps") ? c.Extent(*c.Find("steps")) : std::nullopt;
  if (!count) return {c.Unsupported("a number of steps that only the running model knows")};
  auto end_of = [&](const char* name) {
    Operand end = c.Scalar(c.In(name));
    return Term(c, c.Cast(dtype.is_float() ? end : c.Cast(end, dtype), kFloat64));
  };
  Term begin = end_of("start"), end = end_of("end");
  Term steps(c, c.Cast(c.emit().FromDim(*count), kFloat64)), i(c, c.Cast(c.Iota(*count), kFloat64));
  Term intervals = Max(steps - 1, steps.Like(1)), step = (end - begin) / intervals;
  Term x = Select(i < Floor(steps / 2), begin + step * i, end - step * (intervals - i));
  if (*count == Dim(1)) x = Broadcast(begin, i);
  if (c.row().variant == "power") x = x.Like(c.Float("base", 10)).Apply("power", x);
  return {c.Cast(x, dtype)};
}

constexpr OperatorRow kRows[] = {
    {"empty", Full},
    {"empty_permuted", Full},
    {"empty_strided", Full},
    {"full", Full},
    {"new_empty", Full},
    {"new_empty_strided", Full},
    {"new_full", Full},
    {"new_ones", Full, "ones"},
    {"new_zeros", Full},
    {"ones", Full, "ones"},
    {"zeros", Full},
    {"empty_like", FullLike},
    {"full_like", FullLike},
    {"ones_like", FullLike, "ones"},
    {"zeros_like", FullLike},
    {"arange", Arange},
    {"eye", Eye},
    {"linspace", Linspace},
    {"logspace", Linspace, "power"},
    {"one_hot", OneHot},
    {"scalar_tensor", ScalarTensor},
};

}  // namespace

std::span<const OperatorRow> CreateOperators() { return kRows; }

}  // namespace rvm::torch::convert
