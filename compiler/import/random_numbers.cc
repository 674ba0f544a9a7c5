#include "compiler/import/random_numbers.h"

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/literal.h"

namespace rvm::importing {

Operand KeyOfSeed(Steps& c, Operand seed) {
  const uint64_t rest[] = {0, 0, 0, 0, 0, 0, 0, uint64_t{1} << 63, 0};
  Operand behind = c.emit().Constant(Literal::FromValues<uint64_t>(kUInt64, {9}, rest));
  Operand parts = c.emit().Tuple({c.Reshape(c.Cast(seed, kUInt64), {1}), behind});
  return c.Op("concatenate", {parts}, {{"axis", 0}});
}

Operand NextKey(Steps& c, Operand& key) {
  Operand both = c.Op("random.threefry_split", {key});
  key = c.emit().Field(both, 0);
  return c.emit().Field(both, 1);
}

Operand DrawNumbers(Steps& c, Operand key, std::string_view op, double first, double second, const Dims& dims,
                    DataType dtype) {
  if (!dtype.is_float()) return c.Unsupported(absl::StrCat("random numbers of dtype ", dtype.ToString()));
  Operands args = {key, c.emit().Number(first, dtype), c.emit().Number(second, dtype)};
  ir::Attrs attrs{{"out_dtype", dtype.ToString()}};
  if (std::optional<Shape> shape = StaticShape(dims)) {
    attrs.Set("out_shape", ir::IntList(*shape));
    return c.emit().Field(c.Op(op, args, attrs), 1);
  }
  args.push_back(c.emit().FromDims(dims));
  Operand numbers = c.emit().Field(c.Op(absl::StrCat("dyn.", Abseil(op)), args, attrs), 1);
  return c.emit().Retyped(numbers, c.emit().TensorType(dims, dtype));
}

}  // namespace rvm::importing
