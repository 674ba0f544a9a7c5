// Typed access to the operands of an instruction in verified code, by the names that serialization/isa/isa.def gives
// them.
#ifndef RVM_VM_INTERPRETER_OPERANDS_H_
#define RVM_VM_INTERPRETER_OPERANDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>

#include "serialization/isa/isa.h"

namespace rvm::vm {

inline uint32_t Read32(const uint16_t* units) {
  uint32_t value;
  std::memcpy(&value, units, sizeof(value));
  return value;
}
inline uint64_t Read64(const uint16_t* units) {
  uint64_t value;
  std::memcpy(&value, units, sizeof(value));
  return value;
}

// Name of an operand as a template argument.
template <size_t kSize>
struct OperandName {
  // NOLINTNEXTLINE(google-explicit-constructor): of a string literal
  consteval OperandName(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  consteval std::string_view view() const { return {text, kSize - 1}; }

  char text[kSize];
};

// The operands of an instruction with this opcode, or of one with operands of the same names and kinds. Positions are
// constants, up to the counts of the lists in front of an operand.
template <Opcode kOpcode>
class Operands {
 public:
  [[gnu::always_inline]] explicit Operands(const uint16_t* pc) : pc_(pc) {}

  // Returns the register, index, number or bits of a single operand.
  template <OperandName kName>
  [[gnu::always_inline]] auto Get() const {
    constexpr size_t kIndex = IndexOf(kName.view());
    constexpr OperandKind kKind = Spec().operand_array[kIndex].kind;
    static_assert(!IsList(kKind), "a list has Count and Elements");
    const uint16_t* units = Begin<kIndex>();
    if constexpr (UnitsPerElement(kKind) == 4) {
      return Read64(units);
    } else if constexpr (UnitsPerElement(kKind) == 2) {
      return Read32(units);
    } else {
      return *units;
    }
  }

  // Returns the number of elements of a list.
  template <OperandName kName>
  [[gnu::always_inline]] uint32_t Count() const {
    return *Begin<ListIndexOf(kName.view())>();
  }
  // Returns the first unit of the first element of a list.
  template <OperandName kName>
  [[gnu::always_inline]] const uint16_t* Elements() const {
    return Begin<ListIndexOf(kName.view())>() + 1;
  }

  // Returns the instruction behind this one.
  [[gnu::always_inline]] const uint16_t* End() const { return Begin<Spec().num_operands>(); }

 private:
  static consteval const OpcodeSpec& Spec() {
    return *std::find_if(std::begin(kIsa), std::end(kIsa),
                         [](const OpcodeSpec& spec) { return spec.opcode == kOpcode; });
  }
  // A name that the opcode does not have is an error of the compilation.
  static consteval size_t IndexOf(std::string_view name) {
    size_t index = 0;
    while (Spec().operands()[index].name != name) ++index;
    return index;
  }
  static consteval size_t ListIndexOf(std::string_view name) {
    size_t index = IndexOf(name);
    return IsList(Spec().operands()[index].kind) ? index : kMaxOperands + 1;
  }

  // Units in front of an operand, without the elements of lists.
  static consteval size_t FixedUnits(size_t index) {
    size_t units = 1;  // the opcode
    for (size_t i = 0; i < index; ++i) {
      OperandKind kind = Spec().operand_array[i].kind;
      units += IsList(kind) ? 1 : UnitsPerElement(kind);
    }
    return units;
  }
  // Units of the elements of all lists in front of an operand.
  template <size_t kIndex>
  [[gnu::always_inline]] size_t ListUnits() const {
    if constexpr (kIndex == 0) {
      return 0;
    } else {
      constexpr OperandKind kKind = Spec().operand_array[kIndex - 1].kind;
      if constexpr (IsList(kKind)) {
        return ListUnits<kIndex - 1>() + UnitsPerElement(kKind) * size_t{*Begin<kIndex - 1>()};
      } else {
        return ListUnits<kIndex - 1>();
      }
    }
  }
  template <size_t kIndex>
  [[gnu::always_inline]] const uint16_t* Begin() const {
    static_assert(kIndex <= Spec().num_operands, "not a list");
    return pc_ + FixedUnits(kIndex) + ListUnits<kIndex>();
  }

  const uint16_t* pc_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_OPERANDS_H_
