#include "tests/fuzz/device_mutator.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rvm::fuzz {
namespace {

class DeviceMutator {
 public:
  DeviceMutator(Executable& executable, Dice& dice) : executable_(executable), dice_(dice) {}

  void Once() {
    std::vector<DeviceCode>& codes = executable_.device_codes;
    if (codes.empty()) return;
    DeviceCode& code = codes[dice_.Pick(codes.size())];
    size_t choice = dice_.Pick(100);
    if (choice < 15) {
      if (!code.kernels.empty()) ChangeProducts(code.kernels[dice_.Pick(code.kernels.size())]);
    } else if (choice < 25) {
      if (!code.kernels.empty()) ChangeCalls(code, code.kernels[dice_.Pick(code.kernels.size())]);
    } else if (choice < 35) {
      ChangeKernels(code);
    } else if (choice < 65) {
      ChangeWord(code.bytes);
    } else if (choice < 82) {
      MutateSomeBytes(code.bytes, dice_);
    } else if (choice < 86) {
      std::swap(code.bytes, codes[dice_.Pick(codes.size())].bytes);
    } else if (choice < 90) {
      std::swap(code.target, codes[dice_.Pick(codes.size())].target);
    } else if (choice < 93) {
      code.features = dice_.Chance(50) ? "" : absl::StrCat(code.features, ",+fp64");
    } else if (choice < 95) {
      code.is_required = !code.is_required;
    } else if (choice < 97 && codes.size() < 6) {
      codes.push_back(DeviceCode(code));
    } else {
      codes.erase(codes.begin() + static_cast<ptrdiff_t>(dice_.Pick(codes.size())));
    }
  }

 private:
  Dim RandomDim(uint32_t kernel) {
    uint32_t symbols = kernel < executable_.kernels.size() ? executable_.kernels[kernel].num_symbols : 2;
    if (symbols == 0 || dice_.Chance(40)) return Dim(dice_.Chance(50) ? dice_.Number() : int64_t(dice_.Pick(300)));
    Dim symbol = Dim::Var(static_cast<int64_t>(dice_.Pick(symbols + dice_.Chance(3))), "");
    if (dice_.Chance(40)) return symbol;
    return dice_.Chance(50) ? symbol * Dim(dice_.Number()) : symbol + Dim(dice_.Number());
  }

  void ChangeKernels(DeviceCode& code) {
    std::vector<DeviceCode::Kernel>& kernels = code.kernels;
    auto any = static_cast<uint32_t>(dice_.Pick(executable_.kernels.size() + dice_.Chance(5)));
    if (kernels.empty() || dice_.Chance(8)) {
      auto place = std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) { return any <= k.kernel.value; });
      bool is_there = place != kernels.end() && place->kernel.value == any;
      if (!is_there || dice_.Chance(5)) kernels.insert(place, {KernelId(any), RandomDim(any), {RandomDim(any)}});
      return;
    }
    size_t at = dice_.Pick(kernels.size());
    DeviceCode::Kernel& kernel = kernels[at];
    Dim dim = RandomDim(kernel.kernel.value);
    size_t launch = dice_.Pick(kernel.launches.size());
    switch (dice_.Pick(7)) {
      case 0: kernels.erase(kernels.begin() + static_cast<ptrdiff_t>(at)); break;
      case 1: kernel.kernel = KernelId(any); break;
      case 2:
      case 3: kernel.workspace = dim; break;
      case 4: kernel.launches.push_back(dim); break;
      default:
        if (kernel.launches.empty()) break;
        if (dice_.Chance(20)) {
          kernel.launches.erase(kernel.launches.begin() + static_cast<ptrdiff_t>(launch));
        } else {
          kernel.launches[launch] = dim;
        }
    }
  }

  void ChangeCalls(const DeviceCode& code, DeviceCode::Kernel& kernel) {
    uint32_t number = kernel.kernel.value;
    std::vector<DeviceCall>& calls = kernel.calls;
    if (calls.empty() || dice_.Chance(10)) calls.resize(kernel.launches.size() + dice_.Chance(5));
    if (dice_.Chance(10)) calls.clear();
    if (calls.empty()) return;
    DeviceCall& call = calls[dice_.Pick(calls.size())];
    const DeviceCode::Kernel& callee = code.kernels[dice_.Pick(code.kernels.size())];
    if (dice_.Chance(50)) {
      call.kernel = callee.kernel;
      call.launch = static_cast<uint32_t>(dice_.Pick(callee.launches.size() + dice_.Chance(5)));
    }
    size_t arguments = 3;
    if (number < executable_.kernels.size()) {
      const KernelDesc& desc = executable_.kernels[number];
      arguments = desc.params.size() + desc.results.size() + 1 + desc.num_symbols + dice_.Chance(3);
    }
    DeviceCall::Argument argument{static_cast<uint32_t>(dice_.Pick(arguments)), {}};
    if (dice_.Chance(20)) argument.offset = RandomDim(number);
    if (call.arguments.empty() || dice_.Chance(50)) {
      call.arguments.push_back(std::move(argument));
    } else {
      call.arguments[dice_.Pick(call.arguments.size())] = std::move(argument);
    }
  }

  DeviceProduct::Matrix RandomMatrix(uint32_t kernel, DataType dtype) {
    size_t arguments = 3;
    if (kernel < executable_.kernels.size()) {
      const KernelDesc& desc = executable_.kernels[kernel];
      arguments = desc.params.size() + desc.results.size() + 1 + dice_.Chance(3);
    }
    auto small = [&] { return dice_.Chance(80) ? Dim(static_cast<int64_t>(dice_.Pick(6))) : RandomDim(kernel); };
    return {static_cast<uint32_t>(dice_.Pick(arguments)), dtype, small(), small(), small(), small()};
  }

  void ChangeProducts(DeviceCode::Kernel& kernel) {
    uint32_t number = kernel.kernel.value;
    std::vector<DeviceProduct>& products = kernel.products;
    if (products.empty() || dice_.Chance(15)) {
      DataType dtype = dice_.Chance(80) ? kFloat32 : kFloat16;
      DeviceProduct made = {.launch = static_cast<uint32_t>(dice_.Pick(kernel.launches.size() + dice_.Chance(5))),
                            .batches = RandomDim(number),
                            .rows = RandomDim(number),
                            .columns = RandomDim(number),
                            .depth = RandomDim(number),
                            .a = RandomMatrix(number, dtype),
                            .b = RandomMatrix(number, dtype),
                            .d = RandomMatrix(number, dtype),
                            .addends = {}};
      if (dice_.Chance(30)) made.addends.push_back(RandomMatrix(number, dtype));
      auto place = std::ranges::find_if(products, [&](const DeviceProduct& p) { return p.launch >= made.launch; });
      bool is_there = place != products.end() && place->launch == made.launch;
      if (!is_there || dice_.Chance(5)) products.insert(place, std::move(made));
      return;
    }
    size_t at = dice_.Pick(products.size());
    DeviceProduct& product = products[at];
    DeviceProduct::Matrix* matrices[] = {&product.a, &product.b, &product.d};
    DeviceProduct::Matrix& matrix = *matrices[dice_.Pick(3)];
    Dim* dims[] = {&product.batches, &product.rows,        &product.columns,   &product.depth,
                   &matrix.offset,   &matrix.batch_stride, &matrix.row_stride, &matrix.column_stride};
    switch (dice_.Pick(9)) {
      case 0: products.erase(products.begin() + static_cast<ptrdiff_t>(at)); break;
      case 1: product.launch = static_cast<uint32_t>(dice_.Pick(kernel.launches.size() + 1)); break;
      case 2: matrix = RandomMatrix(number, matrix.dtype); break;
      case 3: matrix.dtype = dice_.Chance(50) ? kFloat16 : kInt32; break;
      case 4: product.scale = static_cast<double>(dice_.Number()); break;
      case 5: product.has_tail = !product.has_tail; break;
      default: *dims[dice_.Pick(std::size(dims))] = RandomDim(number);
    }
  }

  // A word of the text becomes a number, or one that stands elsewhere.
  void ChangeWord(std::vector<uint8_t>& bytes) {
    std::vector<std::pair<size_t, size_t>> words;  // where it begins and ends
    for (size_t at = 0; at < bytes.size() && words.size() < 20'000; ++at) {
      if (std::isspace(bytes[at]) != 0) continue;
      size_t begin = at;
      while (at < bytes.size() && std::isspace(bytes[at]) == 0) ++at;
      words.emplace_back(begin, at);
    }
    if (words.empty()) return;
    auto [begin, end] = words[dice_.Pick(words.size())];
    auto [from, to] = words[dice_.Pick(words.size())];
    std::string word(bytes.begin() + static_cast<ptrdiff_t>(from), bytes.begin() + static_cast<ptrdiff_t>(to));
    if (dice_.Chance(70)) word = absl::StrCat(dice_.Chance(60) ? static_cast<int64_t>(dice_.Pick(40)) : dice_.Number());
    if (dice_.Chance(20)) word = absl::StrCat("a", dice_.Pick(8));
    auto place =
        bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(begin), bytes.begin() + static_cast<ptrdiff_t>(end));
    bytes.insert(place, word.begin(), word.end());
  }

  Executable& executable_;
  Dice& dice_;
};

}  // namespace

void MutateDeviceCodes(Executable& executable, Dice& dice) {
  DeviceMutator mutator(executable, dice);
  for (size_t i = 1 + dice.Pick(4); i > 0; --i) mutator.Once();
}

void MutateSomeBytes(std::vector<uint8_t>& bytes, Dice& dice) {
  size_t at = dice.Pick(bytes.size()), other = dice.Pick(bytes.size());
  auto place = [&](size_t index) { return bytes.begin() + static_cast<ptrdiff_t>(index); };
  size_t length = std::min(bytes.size() - at, 1 + dice.Pick(dice.Chance(50) ? 8 : bytes.size()));
  size_t choice = bytes.empty() ? 4 : dice.Pick(6);
  switch (choice) {
    case 0: bytes[at] ^= static_cast<uint8_t>(1U << dice.Pick(8)); break;
    case 1: bytes[at] = dice.Chance(50) ? static_cast<uint8_t>(dice.Bits()) : uint8_t{0xff}; break;
    case 2: bytes.erase(place(at), place(at + length)); break;
    case 3: bytes.resize(at); break;
    case 4: bytes.insert(place(at), 1 + dice.Pick(9), static_cast<uint8_t>(dice.Bits())); break;
    default: std::swap(bytes[at], bytes[other]);
  }
}

}  // namespace rvm::fuzz
