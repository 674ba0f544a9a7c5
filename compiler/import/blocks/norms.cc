#include "compiler/import/blocks/norms.h"

#include <vector>

namespace rvm::importing {

ir::AttrValue::List AxesFrom(int64_t first, int64_t rank) {
  ir::AttrValue::List axes;
  for (int64_t i = first; i < rank; ++i) axes.emplace_back(i);
  return axes;
}

Operand Average(Steps& c, Operand x, const ir::AttrValue::List& axes) {
  return c.Op("mean", {x}, {{"axis", axes}, {"keepdims", true}});
}

Operand AlongChannels(Steps& c, Operand vector, Operand x) {
  std::vector<int64_t> axes;
  for (int64_t i = 1; i < c.RankOf(x) - 1; ++i) axes.push_back(i);
  return c.Unsqueeze(vector, axes);
}

Operand InverseRoot(Steps& c, Operand x, const ir::AttrValue::List& axes, double epsilon) {
  return c.Op("rsqrt", {c.Add(Average(c, c.Mul(x, x), axes), c.Number(epsilon, x))});
}

Normalised Normalise(Steps& c, Operand x, const ir::AttrValue::List& axes, double epsilon) {
  Operand mean = Average(c, x, axes), centred = c.Sub(x, mean);
  Operand inverse = InverseRoot(c, centred, axes, epsilon);
  return {c.Mul(centred, inverse), mean, inverse};
}

}  // namespace rvm::importing
