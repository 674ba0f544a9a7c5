#include "compiler/driver/constant_packing.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "serialization/isa/isa.h"

namespace rvm::driver {
namespace {

template <typename F>  // F: void(const Instruction&)
void ForEachInstruction(const FunctionDesc& function, const F& visit) {
  for (uint32_t pc = 0; pc < function.code.size();) {
    std::optional<Instruction> instruction = ReadInstruction(function.code, pc);
    RVM_CHECK(instruction.has_value(), "the emitter made code that cannot be read");
    visit(*instruction);
    pc += instruction->length;
  }
}

// A mention of a constant in code: where its index stands, and in how many units.
struct Mention {
  size_t unit;
  bool is_argument;
};

template <typename F>  // F: uint32_t(uint32_t constant), its new index
void RenumberConstants(FunctionDesc& function, const F& renumber) {
  std::vector<Mention> mentions;
  ForEachInstruction(function, [&](const Instruction& instruction) {
    for (const Operand& operand : instruction.operands()) {
      size_t unit = static_cast<size_t>(operand.units - function.code.data());
      if (operand.kind() == OperandKind::kConstant) mentions.push_back({unit, false});
      for (uint32_t i = 0; operand.kind() == OperandKind::kArgs && i < operand.count; ++i) {
        if ((operand.u16(i) & kConstantArg) != 0) mentions.push_back({unit + i, true});
      }
    }
  });
  for (const Mention& mention : mentions) {
    uint16_t* units = function.code.data() + mention.unit;
    if (mention.is_argument) {
      units[0] = static_cast<uint16_t>(kConstantArg | renumber(units[0] & ~kConstantArg));
    } else {
      uint32_t index = renumber(units[0] | uint32_t{units[1]} << 16);
      units[0] = static_cast<uint16_t>(index);
      units[1] = static_cast<uint16_t>(index >> 16);
    }
  }
}

class Packer {
 public:
  Packer(std::span<const schedule::Schedule> kernels, Executable& executable, std::vector<std::string>& names)
      : kernels_(kernels), executable_(executable), names_(names) {}

  absl::Status Run() {
    CountMentions();
    for (FunctionDesc& function : executable_.functions) {
      std::vector<std::pair<uint32_t, Operand>> calls;
      ForEachInstruction(function, [&](const Instruction& instruction) {
        uint32_t kernel = 0;
        for (const Operand& operand : instruction.operands()) {
          if (operand.kind() == OperandKind::kKernel) kernel = operand.u32();
          if (operand.kind() == OperandKind::kArgs) calls.emplace_back(kernel, operand);
        }
      });
      for (const auto& [kernel, args] : calls) RVM_RETURN_IF_ERROR(PackCall(kernel, args, function));
    }
    for (const BatchVariant& batch : executable_.batch_variants) {
      for (uint32_t i : batch.shared) {
        if (kernels_[batch.variant.value].Layout(i) == nullptr || batch.FindArranged(i) != nullptr) continue;
        executable_.kernels[batch.variant.value].params[i].dims =
            executable_.kernels[batch.kernel.value].params[i].dims;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status PackCall(uint32_t kernel, const Operand& args, FunctionDesc& function) {
    const schedule::Schedule& schedule = kernels_[kernel];
    for (uint32_t i = 0; i < args.count && i < schedule.computation.inputs.size(); ++i) {
      const schedule::PackedLayout* layout = schedule.Layout(i);
      if (layout == nullptr) continue;
      uint16_t arg = args.u16(i);
      RVM_CHECK((arg & kConstantArg) != 0, "a kernel with a packed input is called with a variable");
      uint32_t constant = arg & ~kConstantArg;
      uint32_t packed = Packed(constant, *layout);
      // Large constants are not held in two layouts for longer than it takes.
      if (--mentions_[constant] == 0) executable_.constants[constant] = Literal();
      if (packed >= kConstantArg) {
        return absl::ResourceExhaustedError(
            "the program has more than 32768 constants after packing them for its kernels");
      }
      function.code[static_cast<size_t>(args.units - function.code.data()) + i] =
          static_cast<uint16_t>(kConstantArg | packed);
      executable_.kernels[kernel].params[i].dims = ToDims(executable_.constants[packed].shape());
    }
    return absl::OkStatus();
  }

  void CountMentions() {
    mentions_.resize(executable_.constants.size());
    for (FunctionDesc& function : executable_.functions) {
      RenumberConstants(function, [&](uint32_t constant) {
        ++mentions_[constant];
        return constant;
      });
    }
  }

  uint32_t Packed(uint32_t constant, const schedule::PackedLayout& layout) {
    auto [it, is_new] = packed_.try_emplace({constant, layout}, static_cast<uint32_t>(executable_.constants.size()));
    if (is_new) {
      executable_.constants.push_back(schedule::Pack(layout, executable_.constants[constant]));
      names_.push_back(std::string(names_[constant]));
    }
    return it->second;
  }

  std::span<const schedule::Schedule> kernels_;
  Executable& executable_;
  std::vector<std::string>& names_;  // of the constants
  std::vector<int64_t> mentions_;    // in code, of each constant that is not packed
  absl::flat_hash_map<std::pair<uint32_t, schedule::PackedLayout>, uint32_t> packed_;
};

}  // namespace

absl::Status PackConstants(std::span<const schedule::Schedule> kernels, Executable& executable,
                           std::vector<std::string>& names) {
  return Packer(kernels, executable, names).Run();
}

void DropUnusedConstants(Executable& executable, std::vector<std::string>& names) {
  std::vector<bool> used(executable.constants.size());
  for (FunctionDesc& function : executable.functions) {
    RenumberConstants(function, [&](uint32_t constant) {
      used[constant] = true;
      return constant;
    });
  }
  std::vector<uint32_t> new_index(used.size());
  std::vector<Literal> kept;
  std::vector<std::string> kept_names;
  for (size_t i = 0; i < used.size(); ++i) {
    new_index[i] = static_cast<uint32_t>(kept.size());
    if (!used[i]) continue;
    kept.push_back(std::move(executable.constants[i]));
    kept_names.push_back(std::move(names[i]));
  }
  executable.constants = std::move(kept);
  names = std::move(kept_names);
  for (FunctionDesc& function : executable.functions) {
    RenumberConstants(function, [&](uint32_t constant) { return new_index[constant]; });
  }
}

}  // namespace rvm::driver
