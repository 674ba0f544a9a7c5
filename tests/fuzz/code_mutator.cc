#include "tests/fuzz/code_mutator.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/element.h"
#include "serialization/isa/isa.h"

namespace rvm::fuzz {
namespace {

struct Item {
  const OpcodeSpec* spec;
  std::vector<std::vector<uint64_t>> operands;
};

bool IsLabel(OperandKind kind) { return kind == OperandKind::kLabel || kind == OperandKind::kLabels; }
bool IsRegister(OperandKind kind) {
  return kind == OperandKind::kOut || kind == OperandKind::kIn || kind == OperandKind::kMove ||
         kind == OperandKind::kOuts || kind == OperandKind::kMoves || kind == OperandKind::kArgs;
}

// Up to the first unit that is no instruction.
std::vector<Item> ReadItems(const std::vector<uint16_t>& code) {
  std::vector<Item> items;
  absl::flat_hash_map<uint64_t, uint64_t> numbers;
  for (uint32_t pc = 0; pc < code.size();) {
    std::optional<Instruction> instruction = ReadInstruction(code, pc);
    if (!instruction) break;
    numbers[pc] = items.size();
    Item item{instruction->spec, {}};
    for (const Operand& operand : instruction->operands()) {
      item.operands.emplace_back();
      for (uint32_t i = 0; i < operand.count; ++i) item.operands.back().push_back(operand.value(i));
    }
    items.push_back(std::move(item));
    pc += instruction->length;
  }
  for (Item& item : items) {
    for (size_t i = 0; i < item.operands.size(); ++i) {
      if (!IsLabel(item.spec->operands()[i].kind)) continue;
      for (uint64_t& label : item.operands[i]) label = numbers.contains(label) ? numbers[label] : 0;
    }
  }
  return items;
}

uint32_t Length(const Item& item) {
  uint32_t length = 1;
  for (size_t i = 0; i < item.operands.size(); ++i) {
    OperandKind kind = item.spec->operands()[i].kind;
    length += (IsList(kind) ? 1 : 0) + static_cast<uint32_t>(item.operands[i].size()) * UnitsPerElement(kind);
  }
  return length;
}

std::vector<uint16_t> WriteItems(const std::vector<Item>& items) {
  std::vector<uint64_t> starts = {0};
  for (const Item& item : items) starts.push_back(starts.back() + Length(item));
  std::vector<uint16_t> code;
  for (const Item& item : items) {
    code.push_back(static_cast<uint16_t>(item.spec->opcode));
    for (size_t i = 0; i < item.operands.size(); ++i) {
      OperandKind kind = item.spec->operands()[i].kind;
      if (IsList(kind)) code.push_back(static_cast<uint16_t>(item.operands[i].size()));
      for (uint64_t value : item.operands[i]) {
        if (IsLabel(kind)) value = starts[std::min<size_t>(value, items.size())];
        for (uint32_t unit = 0; unit < UnitsPerElement(kind); ++unit) {
          code.push_back(static_cast<uint16_t>(value >> (16 * unit)));
        }
      }
    }
  }
  return code;
}

class CodeMutator {
 public:
  CodeMutator(const Executable& executable, FunctionDesc& function, Dice& dice)
      : executable_(executable), function_(function), dice_(dice), items_(ReadItems(function.code)) {}

  void Run() {
    size_t before = items_.size();
    if (items_.empty()) items_.push_back(RandomItem());
    switch (dice_.Pick(8)) {
      case 0: Insert(dice_.Pick(items_.size() + 1), RandomItem()); break;
      case 1: Insert(dice_.Pick(items_.size() + 1), Item(items_[dice_.Pick(items_.size())])); break;
      case 2: Erase(dice_.Pick(items_.size())); break;
      case 3: std::swap(items_[dice_.Pick(items_.size())], items_[dice_.Pick(items_.size())]); break;
      case 4: ChangeOpcode(items_[dice_.Pick(items_.size())]); break;
      case 5: ChangeCount(items_[dice_.Pick(items_.size())]); break;
      default: ChangeOperand(items_[dice_.Pick(items_.size())]); break;
    }
    function_.code = WriteItems(items_);
    if (items_.size() != before || dice_.Chance(50)) function_.lines.clear();
  }

 private:
  void Insert(size_t at, Item item) {
    for (Item& other : items_) MoveLabels(other, at, 1);
    items_.insert(items_.begin() + static_cast<ptrdiff_t>(at), std::move(item));
  }

  void Erase(size_t at) {
    items_.erase(items_.begin() + static_cast<ptrdiff_t>(at));
    for (Item& other : items_) MoveLabels(other, at + 1, -1);
  }

  static void MoveLabels(Item& item, size_t from, int64_t by) {
    for (size_t i = 0; i < item.operands.size(); ++i) {
      if (!IsLabel(item.spec->operands()[i].kind)) continue;
      for (uint64_t& label : item.operands[i]) label += label >= from ? static_cast<uint64_t>(by) : 0;
    }
  }

  Item RandomItem() {
    Item item{&kIsa[dice_.Pick(std::size(kIsa))], {}};
    for (const OperandSpec& operand : item.spec->operands()) {
      item.operands.emplace_back();
      size_t count = IsList(operand.kind) ? dice_.Pick(4) : 1;
      for (size_t i = 0; i < count; ++i) item.operands.back().push_back(RandomOperand(operand.kind));
    }
    return item;
  }

  // Another opcode with operands of the same kinds, of which there are families.
  void ChangeOpcode(Item& item) {
    std::vector<const OpcodeSpec*> alike;
    for (const OpcodeSpec& spec : kIsa) {
      bool same = std::equal(spec.operands().begin(), spec.operands().end(), item.spec->operands().begin(),
                             item.spec->operands().end(),
                             [](const OperandSpec& a, const OperandSpec& b) { return a.kind == b.kind; });
      if (same) alike.push_back(&spec);
    }
    item.spec = alike[dice_.Pick(alike.size())];
  }

  void ChangeCount(Item& item) {
    for (size_t i = 0; i < item.operands.size(); ++i) {
      OperandKind kind = item.spec->operands()[i].kind;
      if (!IsList(kind)) continue;
      if (!item.operands[i].empty() && dice_.Chance(50)) {
        item.operands[i].pop_back();
      } else {
        item.operands[i].push_back(RandomOperand(kind));
      }
      return;
    }
    ChangeOperand(item);
  }

  void ChangeOperand(Item& item) {
    if (item.operands.empty()) return;
    size_t i = dice_.Pick(item.operands.size());
    if (item.operands[i].empty()) return;
    item.operands[i][dice_.Pick(item.operands[i].size())] = RandomOperand(item.spec->operands()[i].kind);
  }

  uint64_t RandomOperand(OperandKind kind) {
    if (dice_.Chance(3)) return dice_.Bits();
    if (kind == OperandKind::kArgs && dice_.Chance(20)) return kConstantArg | dice_.Pick(executable_.constants.size());
    if (kind == OperandKind::kArgs && dice_.Chance(30)) return kMovedArg | dice_.Pick(function_.registers.size());
    if (IsRegister(kind)) return dice_.Pick(function_.registers.size());
    switch (kind) {
      case OperandKind::kLabel:
      case OperandKind::kLabels: return dice_.Pick(items_.size());
      case OperandKind::kOffsets: return dice_.Chance(20) ? kNoOffset : 64 * dice_.Pick(8);
      case OperandKind::kConstant: return dice_.Pick(executable_.constants.size());
      case OperandKind::kFunction: return dice_.Pick(executable_.functions.size());
      case OperandKind::kKernel: return dice_.Pick(executable_.kernels.size());
      case OperandKind::kType: return dice_.Pick(executable_.types.size());
      case OperandKind::kLayout: return dice_.Pick(executable_.layouts.size());
      case OperandKind::kTag:
      case OperandKind::kField: return dice_.Pick(4);
      case OperandKind::kDType: {
        return PackDataType(DataTypeTable()[dice_.Pick(DataTypeTable().size())].dtype);
      }
      case OperandKind::kOut:
      case OperandKind::kIn:
      case OperandKind::kMove:
      case OperandKind::kOuts:
      case OperandKind::kMoves:
      case OperandKind::kArgs:
      case OperandKind::kImm16:
      case OperandKind::kImm32:
      case OperandKind::kImm64: return static_cast<uint64_t>(dice_.Number());
    }
  }

  const Executable& executable_;
  FunctionDesc& function_;
  Dice& dice_;
  std::vector<Item> items_;
};

}  // namespace

void MutateCode(Executable& executable, FunctionDesc& function, Dice& dice) {
  CodeMutator(executable, function, dice).Run();
}

}  // namespace rvm::fuzz
