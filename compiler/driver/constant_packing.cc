#include "compiler/driver/constant_packing.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
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

// Calls visit(kernel, arguments) for each call of a kernel. It may change arguments of the function.
template <typename F>  // F: void(uint32_t, const Operand&)
void ForEachCall(const FunctionDesc& function, const F& visit) {
  ForEachInstruction(function, [&](const Instruction& instruction) {
    uint32_t kernel = 0;
    for (const Operand& operand : instruction.operands()) {
      if (operand.kind() == OperandKind::kKernel) kernel = operand.u32();
      if (operand.kind() == OperandKind::kArgs) visit(kernel, operand);
    }
  });
}

// Kernels that read the same constant as packed vectors agree on the columns of a panel, so that it is stored once:
// that of the kernel with the most rows decides, since it computes the most with a panel. Kernels of batches have
// agreed.
class Agreement {
 public:
  Agreement(std::span<schedule::Schedule> kernels, Executable& executable)
      : kernels_(kernels), executable_(executable), is_fixed_(kernels.size(), false) {}

  absl::Status Run() {
    for (const BatchVariant& batch : executable_.batch_variants)
      is_fixed_[batch.kernel.value] = is_fixed_[batch.variant.value] = true;
    vectors_.reserve(kernels_.size());
    for (const schedule::Schedule& kernel : kernels_) vectors_.push_back(schedule::PackedVectorsOf(kernel));
    FindReaders();
    for (const auto& [key, readers] : readers_) Decide(readers);
    for (const auto& [kernel, panels] : panels_) {
      if (!is_fixed_[kernel]) RVM_RETURN_IF_ERROR(Adopt(kernel, panels));
    }
    return absl::OkStatus();
  }

 private:
  // An input of a kernel.
  struct Reader {
    uint32_t kernel;
    int64_t input;
    bool operator==(const Reader&) const = default;
  };
  using Panels = absl::btree_map<int64_t, int64_t>;  // columns of a panel, by input

  void FindReaders() {
    for (const FunctionDesc& function : executable_.functions) {
      ForEachCall(function, [&](uint32_t kernel, const Operand& args) {
        for (const auto& [input, vectors] : vectors_[kernel]) {
          const auto i = static_cast<uint32_t>(input);
          const schedule::PackedLayout* layout = i < args.count ? kernels_[kernel].Layout(i) : nullptr;
          if (layout == nullptr || (args.u16(i) & kConstantArg) == 0) continue;
          schedule::PackedLayout key = *layout;
          key.panel = 0;
          std::vector<Reader>& readers = readers_[{args.u16(i) & ~uint32_t{kConstantArg}, std::move(key)}];
          if (std::ranges::find(readers, Reader{kernel, input}) == readers.end()) readers.push_back({kernel, input});
        }
      });
    }
  }

  const schedule::PackedVectors& VectorsOf(const Reader& reader) const {
    return vectors_[reader.kernel].at(reader.input);
  }

  void Decide(const std::vector<Reader>& readers) {
    if (readers.size() == 1) return;
    auto rank = [&](const Reader& reader) {
      const schedule::PackedVectors& vectors = VectorsOf(reader);
      return std::tuple(is_fixed_[reader.kernel], vectors.rows.AsConst().value_or(INT64_MAX), vectors.panel);
    };
    const Reader first = *std::ranges::max_element(readers, {}, rank);
    const int64_t panel = VectorsOf(first).panel;
    for (const Reader& reader : readers) {
      // A kernel that is called with constants whose other readers disagree keeps what it has.
      auto [wanted, is_first] = panels_[reader.kernel].try_emplace(reader.input, panel);
      if (!is_first && wanted->second != panel) wanted->second = VectorsOf(reader).panel;
    }
  }

  // Makes the schedule of a kernel anew with panels of so many columns, and keeps it if nothing else becomes different.
  absl::Status Adopt(uint32_t kernel, const Panels& panels) {
    schedule::Schedule& old = kernels_[kernel];
    schedule::SumOrder order = old.sum_order;
    bool differs = false;
    for (const auto& [input, panel] : panels) {
      order.vectors[input].panel = panel;
      differs = differs || vectors_[kernel].at(input).panel != panel;
    }
    if (!differs) return absl::OkStatus();
    RVM_ASSIGN_OR_RETURN(schedule::Schedule made,
                         schedule::MakeSchedule(old.source, old.constant_inputs, old.target, order));
    for (size_t i = 0; i < old.constant_inputs.size(); ++i) {
      const schedule::PackedLayout *before = old.Layout(i), *after = made.Layout(i);
      if ((before == nullptr) != (after == nullptr)) return absl::OkStatus();
      if (before == nullptr) continue;
      schedule::PackedLayout expected = *before;
      if (auto panel = panels.find(static_cast<int64_t>(i)); panel != panels.end()) expected.panel = panel->second;
      if (*after != expected) return absl::OkStatus();
    }
    if (made.reuses != old.reuses || made.updates != old.updates) return absl::OkStatus();
    executable_.kernels[kernel].workspace = made.workspace;
    old = std::move(made);
    return absl::OkStatus();
  }

  std::span<schedule::Schedule> kernels_;
  Executable& executable_;
  std::vector<bool> is_fixed_;                                                  // by kernel
  std::vector<absl::flat_hash_map<int64_t, schedule::PackedVectors>> vectors_;  // likewise
  // By constant, and by layout without the columns of a panel.
  absl::flat_hash_map<std::pair<uint32_t, schedule::PackedLayout>, std::vector<Reader>> readers_;
  absl::btree_map<uint32_t, Panels> panels_;  // by kernel
};

class Packer {
 public:
  Packer(std::span<const schedule::Schedule> kernels, Executable& executable, std::vector<std::string>& names)
      : kernels_(kernels), executable_(executable), names_(names) {}

  absl::Status Run() {
    CountMentions();
    for (FunctionDesc& function : executable_.functions) {
      std::vector<std::pair<uint32_t, Operand>> calls;
      ForEachCall(function, [&](uint32_t kernel, const Operand& args) { calls.emplace_back(kernel, args); });
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

absl::Status PackConstants(std::span<schedule::Schedule> kernels, Executable& executable,
                           std::vector<std::string>& names) {
  RVM_RETURN_IF_ERROR(Agreement(kernels, executable).Run());
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
