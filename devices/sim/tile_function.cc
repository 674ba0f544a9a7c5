#include "devices/sim/tile_function.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "devices/sim/tile_target.h"

namespace rvm::target {
namespace {

using device::kMaxTileCoefficient;
using device::kMaxTileExtent;
using device::kMaxTileLoops;

bool Fits(int64_t number, int64_t most) { return number >= -most && number <= most; }

bool Fits(const TileTensor& tensor) {
  return std::all_of(tensor.places.begin(), tensor.places.end(), [](const Place& place) {
    return Fits(place.constant, kMaxTileExtent) &&
           std::all_of(place.terms.begin(), place.terms.end(),
                       [](const Place::Term& term) { return Fits(term.step, kMaxTileCoefficient); });
  });
}

class Writer {
 public:
  Writer(const TileFunction& function, size_t first_symbol) : function_(function), first_symbol_(first_symbol) {}

  absl::StatusOr<std::string> Write(const std::string& name) {
    out_ = absl::StrCat("product ", name, "\nloops ", function_.loops.size(), " ", function_.num_outer, " ",
                        function_.rows, " ", function_.columns, " ", function_.depth, "\nextents");
    for (const Dim& loop : function_.loops) RVM_RETURN_IF_ERROR(AddExtent(loop));
    for (const TileTensor& factor : function_.factors) RVM_RETURN_IF_ERROR(AddTensor(factor));
    if (function_.factors.size() == 1) out_ += "\nones";
    for (const TileStep& step : function_.steps) {
      absl::StrAppend(&out_, "\n", step.text);
      if (step.tensor) RVM_RETURN_IF_ERROR(AddTensor(*step.tensor));
    }
    out_ += "\nstore";
    RVM_RETURN_IF_ERROR(AddTensor(function_.result));
    return out_ + "\n";
  }

 private:
  absl::Status AddTensor(const TileTensor& tensor) {
    absl::StrAppend(&out_, "\ntensor ", tensor.argument, " ", tensor.dtype.ToString(), " ", tensor.zero, " ",
                    tensor.dims.size());
    for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
      const Place& place = tensor.places[axis];
      bool is_broadcast = place.may_broadcast && tensor.dims[axis] != function_.loops[place.terms[0].loop];
      out_ += is_broadcast ? "\nbroadcast" : "\naxis";
      RVM_RETURN_IF_ERROR(AddExtent(tensor.dims[axis]));
      AddPlace(place);
    }
    return absl::OkStatus();
  }

  absl::Status AddExtent(const Dim& dim) {
    out_ += " ";
    return AddTerms(dim);
  }

  absl::Status AddTerms(const Dim& dim) {
    if (dim.is_const()) {
      absl::StrAppend(&out_, dim.constant());
    } else if (dim.kind() == DimKind::kVar) {
      absl::StrAppend(&out_, "a", first_symbol_ + static_cast<size_t>(dim.id()));
    } else if (dim.kind() == DimKind::kBroadcast) {
      RVM_RETURN_IF_ERROR(AddTerms(dim.lhs()));
      out_ += "|";
      return AddTerms(dim.rhs());
    } else {
      return absl::UnimplementedError(absl::StrCat("the extent ", dim.ToString(), " is computed"));
    }
    return absl::OkStatus();
  }

  void AddPlace(const Place& place) {
    absl::StrAppend(&out_, " ", place.constant);
    for (size_t loop = 0; loop < function_.loops.size(); ++loop) {
      int64_t step = 0;
      for (const Place::Term& term : place.terms) step += term.loop == loop ? term.step : 0;
      absl::StrAppend(&out_, " ", step);
    }
  }

  const TileFunction& function_;
  size_t first_symbol_;
  std::string out_;
};

}  // namespace

bool FitsBounds(const TileFunction& function) {
  bool all_fit = std::cmp_less_equal(function.loops.size(), kMaxTileLoops) && Fits(function.result) &&
                 std::all_of(function.factors.begin(), function.factors.end(),
                             [](const TileTensor& factor) { return Fits(factor); });
  for (const TileStep& step : function.steps) all_fit = all_fit && (!step.tensor || Fits(*step.tensor));
  return all_fit && std::all_of(function.loops.begin(), function.loops.end(), [](const Dim& loop) {
           return !loop.is_const() || Fits(loop.constant(), kMaxTileExtent);
         });
}

absl::StatusOr<std::string> WriteTileFunction(const TileFunction& function, const std::string& name,
                                              size_t first_symbol) {
  return Writer(function, first_symbol).Write(name);
}

}  // namespace rvm::target
