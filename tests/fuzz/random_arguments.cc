#include "tests/fuzz/random_arguments.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace rvm::fuzz {
namespace {

class ArgumentMaker {
 public:
  ArgumentMaker(const Executable& executable, Dice& dice)
      : executable_(executable), dice_(dice), extent_(static_cast<int64_t>(dice.Pick(9))) {}

  // Makes a value; below `depth` levels of ADTs, one of the constructors with fewest fields.
  std::optional<Value> Make(TypeId id, int depth) {
    const TypeDesc& type = executable_.types[id.value];
    switch (type.kind) {
      case TypeDescKind::kScalar:
        return Value::Tensor(Literal::ScalarInt(type.dtype, static_cast<int64_t>(dice_.Pick(7)) - 2));
      case TypeDescKind::kTensor: return MakeTensor(type);
      case TypeDescKind::kClosure:
      case TypeDescKind::kShell: return std::nullopt;
      case TypeDescKind::kAdt: return MakeAdt(executable_.adts[type.adt.value], depth);
      case TypeDescKind::kTuple:
      case TypeDescKind::kRef: break;
    }
    std::optional<std::vector<Value>> fields = MakeAll(type.fields, depth);
    if (!fields) return std::nullopt;
    return type.kind == TypeDescKind::kRef ? Value::Ref(std::move((*fields)[0])) : Value::Tuple(*std::move(fields));
  }

 private:
  std::optional<Value> MakeTensor(const TypeDesc& type) {
    Shape shape;
    int64_t elements = 1;
    for (int64_t dim : type.dims) {
      bool open = dim == TypeDesc::kUnknownDim;
      shape.push_back(!open ? dim : dice_.Chance(90) ? extent_ : static_cast<int64_t>(dice_.Pick(4)));
      if (__builtin_mul_overflow(elements, shape.back(), &elements) || elements > 4096) return std::nullopt;
    }
    return Value::Tensor(Literal::Full(type.dtype, std::move(shape), static_cast<double>(dice_.Pick(7)) / 2 - 1));
  }

  std::optional<Value> MakeAdt(const AdtDesc& adt, int depth) {
    if (adt.constructors.empty()) return std::nullopt;
    auto fewer_fields = [](const auto& a, const auto& b) { return a.fields.size() < b.fields.size(); };
    const AdtDesc::Constructor& constructor =
        depth <= 0 ? *std::min_element(adt.constructors.begin(), adt.constructors.end(), fewer_fields)
                   : adt.constructors[dice_.Pick(adt.constructors.size())];
    std::optional<std::vector<Value>> fields = MakeAll(constructor.fields, depth);
    if (!fields) return std::nullopt;
    return Value::Adt(constructor.name, *std::move(fields));
  }

  std::optional<std::vector<Value>> MakeAll(const std::vector<TypeId>& types, int depth) {
    constexpr int kTooDeep = -8;
    if (depth < kTooDeep) return std::nullopt;
    std::vector<Value> values;
    for (TypeId type : types) {
      std::optional<Value> value = Make(type, depth - 1);
      if (!value) return std::nullopt;
      values.push_back(*std::move(value));
    }
    return values;
  }

  const Executable& executable_;
  Dice& dice_;
  const int64_t extent_;
};

}  // namespace

std::optional<std::vector<Value>> RandomArguments(const Executable& executable, const Entry& entry, Dice& dice) {
  ArgumentMaker maker(executable, dice);
  const FunctionDesc& function = executable.functions[entry.function.value];
  std::vector<Value> args;
  for (uint16_t i = 0; i < function.num_params; ++i) {
    std::optional<Value> arg = maker.Make(function.registers[i].type, 3);
    if (!arg) return std::nullopt;
    args.push_back(*std::move(arg));
  }
  return args;
}

}  // namespace rvm::fuzz
