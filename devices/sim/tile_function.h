// A function of the simulated accelerator (sim_device.h), as the compiler builds it.
#ifndef RVM_DEVICES_SIM_TILE_FUNCTION_H_
#define RVM_DEVICES_SIM_TILE_FUNCTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/dim.h"

namespace rvm::target {

// A coordinate: a constant and multiples of loops.
struct Place {
  struct Term {
    size_t loop;
    int64_t step = 1;
  };
  std::vector<Term> terms;
  int64_t constant = 0;
  // An axis of extent 1 has its one element at each position: it may be broadcast.
  bool may_broadcast = false;
};

struct TileTensor {
  size_t argument = 0;
  DataType dtype;
  int64_t zero = 0;
  Dims dims;
  std::vector<Place> places;  // by axis
};

// A step of the vector unit, with the tensor that it reads.
struct TileStep {
  std::string text;
  std::optional<TileTensor> tensor;
};

struct TileFunction {
  Dims loops;
  size_t num_outer = 0;
  size_t rows = 0, columns = 0, depth = 0;
  std::vector<TileTensor> factors;  // two, or one whose elements are added up
  std::vector<TileStep> steps;
  TileTensor result;

  size_t Loop(const Dim& extent) {
    loops.push_back(extent);
    return loops.size() - 1;
  }
};

// Returns true if the accelerator's bounds hold for all numbers of the code.
bool FitsBounds(const TileFunction& function);

// Returns the text of the function. `first_symbol`: the number of the argument that is symbol 0. kUnimplemented if an
// extent is more than a constant, a symbol, or a broadcast of those.
absl::StatusOr<std::string> WriteTileFunction(const TileFunction& function, const std::string& name,
                                              size_t first_symbol);

}  // namespace rvm::target

#endif  // RVM_DEVICES_SIM_TILE_FUNCTION_H_
