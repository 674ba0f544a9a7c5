#include "tests/fuzz/executable_mutator.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/element.h"
#include "tests/fuzz/code_mutator.h"

namespace rvm::fuzz {
namespace {

class Mutator {
 public:
  Mutator(Executable& executable, uint64_t seed) : executable_(executable), dice_(seed) {}

  void Run() {
    for (size_t i = 1 + dice_.Pick(4); i > 0; --i) Once();
  }

 private:
  void Once() {
    size_t choice = dice_.Pick(100);
    if (choice < 50) {
      if (auto* function = Of(executable_.functions)) MutateCode(executable_, *function, dice_);
    } else if (choice < 60) {
      if (auto* function = Of(executable_.functions)) ChangeFunction(*function);
    } else if (choice < 66) {
      if (auto* type = Of(executable_.types)) ChangeType(*type);
    } else if (choice < 70) {
      if (auto* layout = Of(executable_.layouts)) ChangeLayout(*layout);
    } else if (choice < 73) {
      if (auto* adt = Of(executable_.adts)) ChangeAdt(*adt);
    } else if (choice < 78) {
      if (auto* constant = Of(executable_.constants)) ChangeConstant(*constant);
    } else if (choice < 86) {
      if (auto* kernel = Of(executable_.kernels)) ChangeKernel(*kernel);
    } else if (choice < 98) {
      if (auto* recipe = Of(executable_.recipes)) ChangeRecipe(*recipe);
    } else if (auto* entry = Of(executable_.entries)) {
      entry->function = FunctionId(Index(executable_.functions));
    }
  }

  template <typename T>
  T* Of(std::vector<T>& items) {
    return items.empty() ? nullptr : &items[dice_.Pick(items.size())];
  }
  template <typename T>
  uint32_t Index(const std::vector<T>& items) {
    return static_cast<uint32_t>(dice_.Chance(3) ? dice_.Bits() : dice_.Pick(items.size()));
  }
  TypeId Type() { return TypeId(Index(executable_.types)); }
  DataType DType() { return DataTypeTable()[dice_.Pick(DataTypeTable().size())].dtype; }

  // Items put in, taken out or changed.
  template <typename Items, typename Make>
  void ChangeList(Items& items, Make make) {
    size_t choice = dice_.Pick(3);
    size_t at = dice_.Pick(items.size());
    if (choice == 0 || items.empty()) {
      items.insert(items.begin() + static_cast<ptrdiff_t>(at), make());
    } else if (choice == 1) {
      items.erase(items.begin() + static_cast<ptrdiff_t>(at));
    } else {
      items[at] = make();
    }
  }

  void ChangeFunction(FunctionDesc& function) {
    switch (dice_.Pick(7)) {
      case 0: function.num_params = static_cast<uint16_t>(dice_.Pick(function.registers.size() + 1)); break;
      case 1: function.result = Type(); break;
      case 2: function.arena_bytes = static_cast<uint32_t>(64 * dice_.Pick(64)); break;
      case 3: function.registers.push_back({Type(), dice_.Chance(20)}); break;
      case 4: function.returns_fields = !function.returns_fields; break;
      default:
        if (auto* reg = Of(function.registers)) {
          reg->type = dice_.Chance(80) ? Type() : reg->type;
          reg->planned = dice_.Chance(20) ? !reg->planned : reg->planned;
        }
    }
  }

  void ChangeType(TypeDesc& type) {
    switch (dice_.Pick(6)) {
      case 0: type.kind = static_cast<TypeDescKind>(dice_.Pick(7)); break;
      case 1: type.dtype = DType(); break;
      case 2: ChangeList(type.dims, [&] { return dice_.Chance(30) ? TypeDesc::kUnknownDim : dice_.Number(); }); break;
      case 3: ChangeList(type.fields, [&] { return Type(); }); break;
      case 4: type.result = Type(); break;
      default: type.adt = AdtId(Index(executable_.adts)); break;
    }
    // Fields that each kind must have, or the type could not be written.
    if (type.kind == TypeDescKind::kRef && type.fields.empty()) type.fields.push_back(Type());
    if (type.kind == TypeDescKind::kShell && type.dims.empty()) type.dims.push_back(1);
  }

  void ChangeLayout(CellLayout& layout) {
    switch (dice_.Pick(5)) {
      case 0: layout.kind = static_cast<CellKind>(dice_.Pick(4)); break;
      case 1: layout.type = Type(); break;
      case 2: layout.tag = static_cast<uint16_t>(dice_.Pick(4)); break;
      case 3: layout.function = FunctionId(Index(executable_.functions)); break;
      default: ChangeList(layout.fields, [&] { return Type(); }); break;
    }
  }

  void ChangeAdt(AdtDesc& adt) {
    auto* constructor = Of(adt.constructors);
    if (constructor == nullptr) return;
    switch (dice_.Pick(3)) {
      case 0: constructor->layout = LayoutId(Index(executable_.layouts)); break;
      case 1: std::swap(*constructor, adt.constructors[dice_.Pick(adt.constructors.size())]); break;
      default: ChangeList(constructor->fields, [&] { return Type(); }); break;
    }
  }

  void ChangeConstant(Literal& constant) {
    Shape shape = constant.shape();
    DataType dtype = dice_.Chance(20) ? DType() : constant.dtype();
    if (dice_.Chance(20)) ChangeList(shape, [&] { return static_cast<int64_t>(dice_.Pick(5)); });
    int64_t elements = 1;
    for (int64_t extent : shape) elements *= extent;
    if (elements > 4096) return;
    double number = static_cast<double>(dice_.Pick(9)) - 4;
    constant = Literal::Full(dtype, std::move(shape), number);
  }

  Dim RandomDim(uint32_t num_symbols) {
    switch (dice_.Pick(6)) {
      case 0: return Dim(dice_.Number());
      case 1:
      case 2: return Dim(static_cast<int64_t>(dice_.Pick(5)));
      default: break;
    }
    int64_t symbol = static_cast<int64_t>(dice_.Pick(num_symbols));
    Dim var = num_symbols == 0 ? Dim(1) : Dim::Var(symbol, "");
    return dice_.Chance(60) ? var : dice_.Chance(50) ? var * Dim(dice_.Number()) : var + Dim(dice_.Number());
  }

  void ChangeKernel(KernelDesc& kernel) {
    auto tensor = [&] {
      KernelTensor made{DType(), {}};
      for (size_t i = dice_.Pick(3); i > 0; --i) made.dims.push_back(RandomDim(kernel.num_symbols));
      return made;
    };
    switch (dice_.Pick(9)) {
      case 0: kernel.num_symbols = static_cast<uint32_t>(dice_.Pick(5)); break;
      case 1: ChangeList(kernel.params, tensor); break;
      case 2: ChangeList(kernel.results, tensor); break;
      case 3: kernel.workspace = RandomDim(kernel.num_symbols); break;
      case 5:
        ChangeList(kernel.values, [&] {
          return KernelDesc::ValueSymbol{static_cast<uint32_t>(dice_.Pick(4)), static_cast<uint32_t>(dice_.Pick(4)),
                                         static_cast<uint32_t>(dice_.Pick(4))};
        });
        break;
      case 4:
        ChangeList(kernel.checks, [&] {
          return KernelDesc::Check{RandomDim(kernel.num_symbols), RandomDim(kernel.num_symbols),
                                   static_cast<DimRelation>(dice_.Pick(3)), ""};
        });
        break;
      case 6:
        ChangeList(kernel.reuses, [&] {
          return KernelDesc::Reuse{static_cast<uint32_t>(dice_.Pick(2)), static_cast<uint32_t>(dice_.Pick(3))};
        });
        break;
      case 7:
        ChangeList(kernel.updates, [&] {
          return KernelDesc::Update{static_cast<uint32_t>(dice_.Pick(2)), static_cast<uint32_t>(dice_.Pick(3))};
        });
        break;
      default: {
        std::vector<KernelTensor>& tensors = dice_.Chance(50) ? kernel.params : kernel.results;
        auto* changed = Of(tensors);
        if (changed == nullptr) return;
        if (dice_.Chance(30)) changed->dtype = DType();
        ChangeList(changed->dims, [&] { return RandomDim(kernel.num_symbols); });
      }
    }
  }

  void ChangeRecipe(KernelRecipe& recipe) {
    auto* nest = Of(recipe.nests);
    if (nest == nullptr) return;
    auto dim = [&] { return RandomDim(3); };
    switch (dice_.Pick(10)) {
      case 0: ChangeList(nest->axes, dim); break;
      case 1: ChangeList(nest->reduce_axes, dim); break;
      case 2: ChangeList(nest->extents, dim); break;
      case 3:
        ChangeList(recipe.workspaces,
                   [&] { return RecipeWorkspace{DType(), Dim(static_cast<int64_t>(64 * dice_.Pick(4))), dim()}; });
        break;
      case 4: recipe.nests.insert(recipe.nests.begin(), RecipeNest(*nest)); break;
      case 5:
        if (!nest->steps.empty()) {
          ChangeList(nest->steps, [&] { return RecipeStep(nest->steps[dice_.Pick(nest->steps.size())]); });
        }
        break;
      default:
        if (auto* step = Of(nest->steps)) ChangeStep(*step, nest->steps.size());
    }
  }

  void ChangeStep(RecipeStep& step, size_t num_steps) {
    auto value = [&] { return static_cast<uint32_t>(dice_.Chance(3) ? dice_.Bits() : dice_.Pick(num_steps)); };
    switch (dice_.Pick(8)) {
      case 0: step.op = static_cast<RecipeOp>(dice_.Pick(std::size(kRecipeOps))); break;
      case 1: step.function = static_cast<uint8_t>(dice_.Pick(40)); break;
      case 2: step.dtype = DType(); break;
      case 3: step.a = value(); break;
      case 4: step.b = value(); break;
      case 5: step.c = value(); break;
      case 6: step.buffer = static_cast<uint32_t>(dice_.Pick(5)); break;
      default: step.bits = dice_.Number(); break;
    }
  }

  Executable& executable_;
  Dice dice_;
};

}  // namespace

void MutateExecutable(Executable& executable, uint64_t seed) { Mutator(executable, seed).Run(); }

}  // namespace rvm::fuzz
