#include "devices/sim/tile_program.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "devices/sim/tile_target.h"

namespace rvm::device {
namespace {

constexpr size_t kMaxTerms = 8;  // of an extent

struct TypeName {
  absl::string_view name;
  TileType type;
};
constexpr TypeName kTypes[] = {{"int8", TileType::kInt8},
                               {"uint8", TileType::kUint8},
                               {"int32", TileType::kInt32},
                               {"float32", TileType::kFloat32}};

class TileParser {
 public:
  explicit TileParser(absl::string_view text)
      : words_(absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {}

  absl::StatusOr<std::vector<TileProduct>> Run() {
    std::vector<TileProduct> products;
    while (next_ < words_.size()) {
      RVM_ASSIGN_OR_RETURN(TileProduct product, Product());
      products.push_back(std::move(product));
    }
    return products;
  }

 private:
  absl::Status Wrong(absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat("the code is malformed at word ", next_, ": saw ",
                     next_ < words_.size() ? absl::StrCat("`", words_[next_].substr(0, 40), "`") : "its end",
                     "; expected ", expected));
  }

  absl::Status Word(absl::string_view word) {
    if (next_ >= words_.size() || words_[next_] != word) return Wrong(absl::StrCat("`", word, "`"));
    ++next_;
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Number(int64_t least, int64_t most) {
    int64_t number = 0;
    if (next_ >= words_.size() || !absl::SimpleAtoi(words_[next_], &number) || number < least || number > most) {
      return Wrong(absl::StrCat("a number from ", least, " to ", most));
    }
    ++next_;
    return number;
  }

  // Returns true, and reads on, if the next word is this one.
  bool Takes(absl::string_view word) {
    bool is_next = next_ < words_.size() && words_[next_] == word;
    next_ += is_next ? 1 : 0;
    return is_next;
  }

  absl::StatusOr<TileExtent> Extent() {
    TileExtent extent;
    std::vector<absl::string_view> terms;
    if (next_ < words_.size()) terms = absl::StrSplit(words_[next_], '|');
    for (absl::string_view term : terms) {
      bool is_argument = absl::ConsumePrefix(&term, "a");
      int64_t value = 0;
      bool fits = absl::SimpleAtoi(term, &value) && value >= 0 && value <= kMaxTileExtent;
      if (fits) extent.terms.push_back({is_argument, value});
    }
    if (terms.empty() || extent.terms.size() != terms.size() || terms.size() > kMaxTerms) {
      return Wrong(absl::StrCat("a number from 0 to ", kMaxTileExtent, ", or `a` and that of an argument"));
    }
    ++next_;
    return extent;
  }

  absl::StatusOr<size_t> Loop(size_t first, size_t end) {
    if (first == end) return Wrong("a loop of that kind");
    RVM_ASSIGN_OR_RETURN(int64_t loop, Number(static_cast<int64_t>(first), static_cast<int64_t>(end) - 1));
    return static_cast<size_t>(loop);
  }

  absl::StatusOr<TileProduct> Product() {
    TileProduct product;
    RVM_RETURN_IF_ERROR(Word("product"));
    if (next_ >= words_.size()) return Wrong("a name");
    product.name = std::string(words_[next_++]);
    RVM_RETURN_IF_ERROR(Word("loops"));
    RVM_ASSIGN_OR_RETURN(int64_t count, Number(3, kMaxTileLoops));
    RVM_ASSIGN_OR_RETURN(int64_t outer, Number(2, count - 1));
    product.num_outer = static_cast<size_t>(outer);
    RVM_ASSIGN_OR_RETURN(product.rows, Loop(0, product.num_outer));
    RVM_ASSIGN_OR_RETURN(product.columns, Loop(0, product.num_outer));
    if (product.rows == product.columns) return Wrong("columns that are not the rows");
    RVM_ASSIGN_OR_RETURN(product.depth, Loop(product.num_outer, static_cast<size_t>(count)));
    RVM_RETURN_IF_ERROR(Word("extents"));
    for (int64_t i = 0; i < count; ++i) {
      RVM_ASSIGN_OR_RETURN(TileExtent extent, Extent());
      product.loops.push_back(extent);
    }
    RVM_RETURN_IF_ERROR(Tensor(product, Use::kFirstFactor));
    product.has_ones = Takes("ones");
    if (!product.has_ones) RVM_RETURN_IF_ERROR(Tensor(product, Use::kSecondFactor));
    while (!Takes("store")) RVM_RETURN_IF_ERROR(Step(product));
    RVM_RETURN_IF_ERROR(Tensor(product, Use::kResult));
    bool is_scaled = !product.steps.empty() && product.steps.back().kind == TileStep::Kind::kScale;
    if (is_scaled != (product.tensors.back().type == TileType::kFloat32)) {
      return Wrong("`scale` as the last step of a product of float32, and of no other");
    }
    return product;
  }

  enum class Use : uint8_t { kFirstFactor, kSecondFactor, kAddend, kResult };

  // Returns how many of kTypes, from the first on, a tensor of this use may have.
  static size_t NumTypes(Use use) {
    switch (use) {
      case Use::kFirstFactor:
      case Use::kSecondFactor: return 2;
      case Use::kAddend: return 3;
      case Use::kResult: return 4;
    }
    return 0;
  }

  absl::StatusOr<TileType> Type(size_t count) {
    std::string names;
    for (const TypeName& row : absl::MakeConstSpan(kTypes, count)) {
      if (Takes(row.name)) return row.type;
      absl::StrAppend(&names, names.empty() ? "" : ", ", "`", row.name, "`");
    }
    return Wrong(absl::StrCat("one of ", names));
  }

  absl::Status Tensor(TileProduct& product, Use use) {
    TileTensor& tensor = product.tensors.emplace_back();
    RVM_RETURN_IF_ERROR(Word("tensor"));
    RVM_ASSIGN_OR_RETURN(int64_t argument, Number(0, kMaxTileExtent));
    tensor.argument = static_cast<size_t>(argument);
    RVM_ASSIGN_OR_RETURN(tensor.type, Type(NumTypes(use)));
    bool is_result = use == Use::kResult;
    RVM_ASSIGN_OR_RETURN(tensor.zero, Number(is_result ? 0 : -128, is_result ? 0 : 255));
    RVM_ASSIGN_OR_RETURN(int64_t rank, Number(1, kMaxTileRank));
    for (int64_t i = 0; i < rank; ++i) {
      TileAxis& axis = tensor.axes.emplace_back();
      axis.is_broadcast = !is_result && Takes("broadcast");
      if (!axis.is_broadcast) RVM_RETURN_IF_ERROR(Word("axis"));
      RVM_ASSIGN_OR_RETURN(axis.extent, Extent());
      RVM_ASSIGN_OR_RETURN(axis.constant, Number(-kMaxTileExtent, kMaxTileExtent));
      for (size_t loop = 0; loop < product.loops.size(); ++loop) {
        // Coefficients that must be 0: a tile does not vary along these loops, and what is done to sums does not see
        // those that add up.
        bool must_be_0 = use == Use::kFirstFactor    ? loop == product.columns
                         : use == Use::kSecondFactor ? loop == product.rows
                                                     : loop >= product.num_outer;
        int64_t most = must_be_0 ? 0 : kMaxTileCoefficient;
        RVM_ASSIGN_OR_RETURN(int64_t coefficient, Number(-most, most));
        axis.coefficients.push_back(coefficient);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Step(TileProduct& product) {
    constexpr int64_t kMaxAddend = int64_t{1} << 33, kMaxSignificand = int64_t{1} << 31, kMaxShift = 62;
    using Kind = TileStep::Kind;
    if (product.steps.size() == kMaxTileSteps) return Wrong(absl::StrCat("at most ", kMaxTileSteps, " steps"));
    TileStep step;
    if (Takes("plus")) {
      step.kind = Kind::kPlus;
      RVM_ASSIGN_OR_RETURN(step.a, Number(-kMaxAddend, kMaxAddend));
    } else if (Takes("multiply")) {
      step.kind = Kind::kMultiply;
      RVM_ASSIGN_OR_RETURN(step.a, Number(0, kMaxSignificand));
      RVM_ASSIGN_OR_RETURN(step.b, Number(1, kMaxShift));
      step.rounds_nearest = Takes("nearest");
      if (!step.rounds_nearest) RVM_RETURN_IF_ERROR(Word("up"));
    } else if (Takes("divide")) {
      step.kind = Kind::kDivide;
      RVM_ASSIGN_OR_RETURN(step.a, Number(1, kMaxTileExtent));
    } else if (Takes("clamp")) {
      step.kind = Kind::kClamp;
      RVM_ASSIGN_OR_RETURN(step.a, Number(std::numeric_limits<int32_t>::min(), kMaxTileExtent));
      RVM_ASSIGN_OR_RETURN(step.b, Number(step.a, kMaxTileExtent));
    } else if (Takes("wrap")) {
      step.kind = Kind::kWrap;
      RVM_ASSIGN_OR_RETURN(step.type, Type(3));
    } else if (Takes("add")) {
      step.kind = Kind::kAdd;
      RVM_ASSIGN_OR_RETURN(step.a, Number(0, kMaxSignificand));
      RVM_ASSIGN_OR_RETURN(step.b, Number(0, kMaxShift));
      step.tensor = product.tensors.size();
      RVM_RETURN_IF_ERROR(Tensor(product, Use::kAddend));
    } else if (Takes("scale")) {
      step.kind = Kind::kScale;
      RVM_ASSIGN_OR_RETURN(step.a, Number(0, std::numeric_limits<uint32_t>::max()));
    } else {
      return Wrong("a step or `store`");
    }
    bool is_behind_scale = !product.steps.empty() && product.steps.back().kind == Kind::kScale;
    if (is_behind_scale) return Wrong("`store` behind `scale`");
    product.steps.push_back(step);
    return absl::OkStatus();
  }

  std::vector<absl::string_view> words_;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<TileProduct>> ParseTileProgram(absl::string_view text) { return TileParser(text).Run(); }

absl::StatusOr<BoundTileProduct> BindTileProduct(const TileProduct& product, std::span<const int64_t> arguments) {
  BoundTileProduct bound{&product, {}, {}};
  auto value = [&](const TileExtent& extent) -> absl::StatusOr<int64_t> {
    int64_t found = 1;
    for (const TileExtent::Term& term : extent.terms) {
      auto number = static_cast<size_t>(term.value);
      if (term.is_argument && number >= arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("`", product.name, "` reads argument ", number, " of ", arguments.size()));
      }
      found = term.is_argument ? arguments[number] : term.value;
      if (found != 1) break;
    }
    if (found < 0 || found > kMaxTileExtent) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", product.name, "` has the extent ", found, "; expected 0 to ", kMaxTileExtent));
    }
    return found;
  };
  for (const TileExtent& loop : product.loops) {
    RVM_ASSIGN_OR_RETURN(int64_t extent, value(loop));
    bound.loops.push_back(extent);
  }
  for (const TileTensor& tensor : product.tensors) {
    std::vector<int64_t>& extents = bound.extents.emplace_back();
    int64_t bytes = BytesOf(tensor.type);
    bool is_empty = false;
    for (const TileAxis& axis : tensor.axes) {
      RVM_ASSIGN_OR_RETURN(int64_t extent, value(axis.extent));
      extents.push_back(extent);
      is_empty |= extent == 0;
      bytes = std::min(bytes * std::max<int64_t>(extent, 1), kMaxTileExtent + 1);
    }
    if (bytes > kMaxTileExtent && !is_empty) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", product.name, "` has a tensor of more than ", kMaxTileExtent, " bytes"));
    }
  }
  return bound;
}

int64_t BytesOfTensor(const BoundTileProduct& bound, size_t t) {
  int64_t bytes = BytesOf(bound.product->tensors[t].type);
  for (int64_t extent : bound.extents[t]) {
    if (extent == 0) return 0;
  }
  for (int64_t extent : bound.extents[t]) bytes *= extent;
  return bytes;
}

int64_t NumTiles(const BoundTileProduct& bound) {
  const TileProduct& product = *bound.product;
  int64_t tiles = 1;
  for (size_t loop = 0; loop < bound.loops.size(); ++loop) {
    int64_t steps = product.IsTiled(loop) ? (bound.loops[loop] + kTile - 1) / kTile : bound.loops[loop];
    // The loops outside of one that has no steps run, too.
    if (__builtin_mul_overflow(tiles, std::max<int64_t>(steps, 1), &tiles)) return std::numeric_limits<int64_t>::max();
  }
  return tiles;
}

}  // namespace rvm::device
