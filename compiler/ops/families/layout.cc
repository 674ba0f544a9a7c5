// Axes rearranged, and split into blocks.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kData[] = {{"data", "a tensor"}};
constexpr AttrSpec kLayoutAttrs[] = {
    {"src_layout", AttrType::kString, "", "the axes of data: \"NCHW\", or \"NCHW4c\" with channels in blocks of 4"},
    {"dst_layout", AttrType::kString, "", "the same axes in the order wanted"}};

// The axes of a layout. A capital letter is an axis; a number and a small letter are blocks of the axis of that letter.
// In "NCHW4c", axis 1 is the index of a block of 4 channels, and axis 4 is the index in the block.
struct LayoutAxis {
  char letter;
  int64_t block;  // 0: the axis itself
};
using BlockedLayout = std::vector<LayoutAxis>;

// Parses a layout; nullopt if `text` is not one.
std::optional<BlockedLayout> ParseLayout(const std::string& text) {
  constexpr int64_t kMaxInBlock = 1 << 20;
  BlockedLayout axes;
  int64_t number = 0;
  auto has = [&](char letter, bool is_block) {
    return std::any_of(axes.begin(), axes.end(),
                       [&](const LayoutAxis& axis) { return axis.letter == letter && (axis.block > 0) == is_block; });
  };
  for (char c : text) {
    bool is_block = c >= 'a' && c <= 'z';
    char letter = is_block ? static_cast<char>(c - 'a' + 'A') : c;
    if (c >= '0' && c <= '9' && number < kMaxInBlock) {
      number = 10 * number + (c - '0');
    } else if (letter >= 'A' && letter <= 'Z' && (number > 0) == is_block && !has(letter, is_block)) {
      axes.push_back({letter, number});
      number = 0;
    } else {
      return std::nullopt;
    }
  }
  for (const LayoutAxis& axis : axes) {
    if (!has(axis.letter, false)) return std::nullopt;
  }
  return number == 0 ? std::optional(axes) : std::nullopt;
}

// Returns the index of the axis of a letter, or of its block; layout.size() if there is none.
size_t PlaceOf(const BlockedLayout& layout, char letter, bool is_block) {
  auto found = std::find_if(layout.begin(), layout.end(), [&](const LayoutAxis& axis) {
    return axis.letter == letter && (axis.block > 0) == is_block;
  });
  return static_cast<size_t>(found - layout.begin());
}

// Returns the number of elements in a block of the letter; 1 if it has no blocks.
int64_t BlockOf(const BlockedLayout& layout, char letter) {
  size_t place = PlaceOf(layout, letter, true);
  return place < layout.size() ? layout[place].block : 1;
}

Solve LayoutTransformRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& data = args[0]->shape.dims;
  const std::string &source = context.attrs().GetString("src_layout"),
                    &target = context.attrs().GetString("dst_layout");
  std::optional<BlockedLayout> from = ParseLayout(source), to = ParseLayout(target);
  bool have_same_axes = from && to;
  for (const auto* layout : {&from, &to}) {
    for (size_t i = 0; have_same_axes && i < (*layout)->size(); ++i) {
      char letter = (**layout)[i].letter;
      have_same_axes = PlaceOf(*from, letter, false) < from->size() && PlaceOf(*to, letter, false) < to->size();
    }
  }
  if (!have_same_axes) {
    return context.Fail(DiagnosticKind::kLayoutMismatch,
                        absl::StrCat("`dst_layout` \"", target, "\" does not rearrange the axes of \"", source,
                                     "\"; expected the same capital letters, each once, and blocks like `4c` of them"));
  }
  if (from->size() != data.size()) {
    return FailRank(context, 0, data.size(),
                    absl::StrCat("one axis for each of the ", from->size(), " of \"", source, "\""));
  }
  Dims out;
  for (const LayoutAxis& axis : *to) {
    size_t block_place = PlaceOf(*from, axis.letter, true);
    int64_t old_block = BlockOf(*from, axis.letter), new_block = BlockOf(*to, axis.letter);
    if (block_place < from->size() &&
        !context.RequireEqual(data[block_place], old_block, "`layout_transform`: extent of a block and its number"))
      return Solve::kFailed;
    Dim extent = data[PlaceOf(*from, axis.letter, false)] * old_block;
    if (new_block != 1 && !context.RequireEqual(FloorMod(extent, new_block), 0,
                                                "`layout_transform`: remainder of an extent by its new blocks"))
      return Solve::kFailed;
    out.push_back(axis.block > 0 ? Dim(axis.block) : FloorDiv(extent, new_block));
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeLayoutTransform(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  BlockedLayout from = *ParseLayout(context.attrs().GetString("src_layout"));
  BlockedLayout to = *ParseLayout(context.attrs().GetString("dst_layout"));
  return {te::ComputeTensor("layout_transform", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    for (const LayoutAxis& axis : from) {
      int64_t old_block = BlockOf(from, axis.letter), new_block = BlockOf(to, axis.letter);
      Expr index = i[PlaceOf(to, axis.letter, false)];
      if (axis.block == 1) {  // `to` may have none
        at.push_back(te::Index(0));
        continue;
      }
      if (old_block == new_block) {
        at.push_back(axis.block > 0 ? i[PlaceOf(to, axis.letter, true)] : index);
        continue;
      }
      if (new_block != 1) index = index * te::Index(new_block) + i[PlaceOf(to, axis.letter, true)];
      BinaryOp part = axis.block > 0 ? BinaryOp::kFloorMod : BinaryOp::kFloorDivide;
      at.push_back(old_block == 1 ? index : te::Binary(part, index, te::Index(old_block)));
    }
    return data(at);
  })};
}

constexpr OpDef kOps[] = {
    WithGradient(Op("layout_transform", "axes rearranged from one layout to another", kData, kLayoutAttrs,
                    LayoutTransformRelation, FusionClass::kInjective, ComputeLayoutTransform),
                 LayoutTransformGradient),
};

}  // namespace

std::span<const OpDef> LayoutOps() { return kOps; }

}  // namespace rvm::ops
