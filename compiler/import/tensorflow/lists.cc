// TensorLists and TensorArrays.
//
// A list whose length is known when it is made is a tensor: its elements along a new first axis, which a loop updates
// in place. While nobody has said what shape the elements have, it is reserved (blocks/reserved_lists.h). A list that
// grows is a List of Relay, whose elements have a first axis of extent 1 more, along which they are joined.
#include "compiler/import/lists.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/reserved_lists.h"
#include "compiler/import/checks.h"
#include "compiler/import/loops.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

using importing::IsReserved;
using importing::IsTensor;
using importing::Zeros;

// Returns the extents of elements that a vector of them says, with -1 for unknown ones; nullopt if one is unknown.
std::optional<Dims> ElementShape(NodeContext& c, Operand shape) {
  std::optional<Dims> dims = c.RankOf(shape) == 1 ? c.Symbols(shape) : std::nullopt;
  for (size_t i = 0; dims && i < dims->size(); ++i) {
    if ((*dims)[i].is_const() && (*dims)[i].constant() < 0) return std::nullopt;
  }
  return dims;
}

Operand Reserve(NodeContext& c, Operand count, DataType dtype, std::optional<Dims> element, bool grows) {
  if (c.failed()) return count;
  count = c.Cast(c.Scalar(count), kInt64);
  const bool is_empty = count->constant && count->constant->IntAt(0) <= 0;
  if (grows || is_empty) return importing::EmptyList(c);
  Operand reserved = c.emit().Tuple({count, c.emit().Number(0, dtype)});
  return element ? Zeros(c, reserved, *std::move(element)) : reserved;
}

Operand Length(NodeContext& c, Operand list) {
  if (IsReserved(list)) return c.emit().Field(list, 0);
  return IsTensor(list) ? c.Scalar(c.emit().FromDims({{c.ExtentOf(list, 0)}})) : importing::Length(c, list);
}

Operand ElementOf(NodeContext& c, Operand list, Operand index) {
  if (c.failed()) return list;
  index = c.Cast(c.Scalar(index), kInt64);
  if (IsReserved(list)) return c.Unsupported("an element of a list that nothing was written to");
  if (IsTensor(list)) return c.Op("take", {list, index}, {{"axis", 0}});
  Operand element = importing::ElementAt(c, list, index);
  if (c.failed() || element->is_placeholder) return element;
  Dims dims = c.DimsOf(element);
  dims[0] = 1;
  return c.Squeeze(c.emit().Retyped(element, c.emit().TensorType(dims, c.DTypeOf(element))), {0});
}

// Returns a list that grows with an element behind its last one.
Operand Appended(NodeContext& c, Operand list, Operand value) {
  return importing::Append(c, list, importing::WithFirstAxis(c, {value})[0]);
}

Operand Written(NodeContext& c, Operand list, Operand index, Operand value) {
  if (c.failed()) return list;
  index = c.Cast(c.Scalar(index), kInt64);
  if (IsReserved(list)) list = Zeros(c, list, c.DimsOf(value));
  if (!IsTensor(list)) {
    // Elements are written in their order.
    Operand length = importing::IsEmptyList(c, list) ? c.Integer(0) : importing::Length(c, list);
    value = importing::CheckRange(c, value, index, length, length, "the index of a list that grows");
    return Appended(c, list, value);
  }
  const Dims element = c.DimsOf(value);
  Operand begin = c.Reshape(index, {1}), end = c.Add(begin, c.Integer(1));
  if (!element.empty()) {
    const std::vector<int64_t> zeros(element.size(), 0);
    begin = c.Concatenate({begin, c.emit().Vector(zeros)}, 0);
    end = c.Concatenate({end, c.emit().FromDims(element)}, 0);
  }
  const std::vector<int64_t> ones(element.size() + 1, 1);
  return c.Op("strided_set", {list, c.Unsqueeze(value, {0}), begin, end, c.emit().Vector(ones)});
}

Operand Stacked(NodeContext& c, Operand list, const std::optional<Dims>& element) {
  if (c.failed() || IsTensor(list)) return list;
  if (IsReserved(list)) {
    return element ? Zeros(c, list, *element) : c.Unsupported("a list whose elements have no known shape");
  }
  if (importing::IsEmptyList(c, list)) return c.Unsupported("an empty list as a tensor");
  return importing::Join(c, list, 0, false, true);
}

// Returns a list with rows of a tensor at these indices.
Operand Scattered(NodeContext& c, Operand list, Operand indices, Operand rows) {
  if (c.failed()) return list;
  const Dims dims = c.DimsOf(rows);
  if (dims.empty()) return c.Fail("its rows are a scalar");
  if (!IsTensor(list) && !IsReserved(list)) {
    return c.Unsupported("elements of a list that grows, all at once");
  }
  // All elements in their order are the list.
  const std::optional<Dims> length = c.Symbols(Length(c, list));
  bool is_all = length && indices->constant && (*length)[0] == Dim(indices->constant->num_elements());
  for (int64_t i = 0; is_all && i < indices->constant->num_elements(); ++i) is_all = indices->constant->IntAt(i) == i;
  if (is_all) return rows;
  if (IsReserved(list)) list = Zeros(c, list, Dims(dims.begin() + 1, dims.end()));
  return c.Op("scatter_nd", {list, c.Unsqueeze(c.Cast(indices, kInt64), {0}), rows});
}

// Returns the elements of a list joined along their first axis.
Operand Joined(NodeContext& c, Operand list) {
  if (c.failed()) return list;
  list = Stacked(c, list, std::nullopt);
  if (c.failed()) return list;
  Dims dims = c.DimsOf(list);
  if (dims.size() < 2) return c.Fail("its elements are scalars");
  dims[1] = dims[0] * dims[1];
  dims.erase(dims.begin());
  return c.Reshape(list, dims);
}

// ---- TensorLists

std::optional<Dims> ElementShapeAt(NodeContext& c, size_t input) {
  Operand shape = c.In(input);
  return c.failed() ? std::nullopt : ElementShape(c, shape);
}

Operands ListReserve(NodeContext& c) {
  const std::optional<Dims> element = ElementShapeAt(c, 0);
  const DataType dtype = c.TypeAttr("element_dtype");
  return {Reserve(c, c.In(1), dtype, element, false)};
}
Operands ListEmpty(NodeContext& c) { return {importing::EmptyList(c)}; }
Operands ListGet(NodeContext& c) {
  Operand list = c.In(0);
  const std::optional<Dims> element = ElementShapeAt(c, 2);
  if (!c.failed() && IsReserved(list) && element) list = Zeros(c, list, *element);
  return {ElementOf(c, list, c.In(1))};
}
Operands ListSet(NodeContext& c) { return {Written(c, c.In(0), c.In(1), c.In(2))}; }
Operands ListStack(NodeContext& c) {
  const std::optional<Dims> element = ElementShapeAt(c, 1);
  Operand list = c.In(0);
  return {Stacked(c, list, element)};
}
Operands ListLength(NodeContext& c) {
  Operand list = c.In(0);
  return {c.failed() ? nullptr : c.Cast(Length(c, list), kInt32)};
}
Operands ListPush(NodeContext& c) {
  Operand list = c.In(0), value = c.In(1);
  if (c.failed()) return {};
  if (IsTensor(list) || IsReserved(list)) {
    return {c.Unsupported("an element behind the last one of a list of fixed length")};
  }
  return {Appended(c, list, value)};
}
Operands ListPop(NodeContext& c) {
  Operand list = c.In(0);
  if (c.failed()) return {};
  if (IsReserved(list)) return {c.Unsupported("an element of a list that nothing was written to")};
  Operand last = c.Sub(Length(c, list), c.Integer(1));
  Operand value = ElementOf(c, list, last);
  if (!IsTensor(list)) return {importing::EraseLast(c, list), value};
  return {c.Op("dyn.strided_slice", {list, c.emit().Vector({{0}}), c.Reshape(last, {1}), c.emit().Vector({{1}})},
               {{"axes", ir::IntList({{0}})}}),
          value};
}
Operands ListGather(NodeContext& c) {
  Operand list = Stacked(c, c.In(0), ElementShapeAt(c, 2));
  return {c.Op("take", {list, c.In(1)}, {{"axis", 0}})};
}
Operands ListConcat(NodeContext& c) { return {Joined(c, c.In(0))}; }
Operands ListScatter(NodeContext& c) {
  Operand rows = c.In(0), indices = c.In(1);
  Operand list = Reserve(c, c.In(3), c.TypeAttr("element_dtype"), std::nullopt, false);
  return {Scattered(c, list, indices, rows)};
}
Operands ListScatterInto(NodeContext& c) { return {Scattered(c, c.In(0), c.In(2), c.In(1))}; }

// ---- TensorArrays: a handle, which is nothing, and a flow, which is the list

Operands ArrayNew(NodeContext& c) {
  const DataType dtype = c.TypeAttr("dtype");
  std::optional<Dims> element;
  if (const std::optional<Bytes> shape = c.node().attr("element_shape").Shape()) {
    const std::optional<std::vector<int64_t>> extents = ReadShape(*shape);
    bool is_known = extents.has_value();
    for (int64_t extent : extents.value_or(std::vector<int64_t>())) is_known = is_known && extent >= 0;
    if (is_known) element.emplace(extents->begin(), extents->end());
  }
  return {c.Integer(0), Reserve(c, c.In(0), dtype, element, c.BoolAttr("dynamic_size"))};
}
Operands ArrayWrite(NodeContext& c) { return {Written(c, c.In(3), c.In(1), c.In(2))}; }
Operands ArrayRead(NodeContext& c) { return {ElementOf(c, c.In(2), c.In(1))}; }
Operands ArrayGather(NodeContext& c) {
  Operand list = c.In(2), indices = c.In(1);
  if (c.failed()) return {};
  return {c.Op("take", {Stacked(c, list, std::nullopt), indices}, {{"axis", 0}})};
}
Operands ArrayScatter(NodeContext& c) { return {Scattered(c, c.In(3), c.In(1), c.In(2))}; }
Operands ArraySize(NodeContext& c) {
  Operand list = c.In(1);
  return {c.failed() ? nullptr : c.Cast(Length(c, list), kInt32)};
}
Operands ArrayConcat(NodeContext& c) { return {Joined(c, c.In(1))}; }
Operands ArrayClose(NodeContext& c) { return {c.Integer(0)}; }

constexpr OperatorRow kRows[] = {
    {"EmptyTensorList", ListEmpty},
    {"TensorArrayCloseV3", ArrayClose},
    {"TensorArrayConcatV3", ArrayConcat, "", "value lengths"},
    {"TensorArrayGatherV3", ArrayGather},
    {"TensorArrayReadV3", ArrayRead},
    {"TensorArrayScatterV3", ArrayScatter},
    {"TensorArraySizeV3", ArraySize},
    {"TensorArrayV3", ArrayNew, "", "handle flow"},
    {"TensorArrayWriteV3", ArrayWrite},
    {"TensorListConcatV2", ListConcat, "", "tensor lengths"},
    {"TensorListFromTensor", [](NodeContext& c) -> Operands { return {c.In(0)}; }},
    {"TensorListGather", ListGather},
    {"TensorListGetItem", ListGet},
    {"TensorListLength", ListLength},
    {"TensorListPopBack", ListPop, "", "output_handle tensor"},
    {"TensorListPushBack", ListPush},
    {"TensorListReserve", ListReserve},
    {"TensorListScatterIntoExistingList", ListScatterInto},
    {"TensorListScatterV2", ListScatter},
    {"TensorListSetItem", ListSet},
    {"TensorListStack", ListStack},
};

}  // namespace

std::span<const OperatorRow> ListOperators() { return kRows; }

}  // namespace rvm::tensorflow
