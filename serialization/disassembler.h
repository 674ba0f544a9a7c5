// Executable -> text (`.rvmasm`), which the assembler reads back; grammar in assembler.h.
#ifndef RVM_SERIALIZATION_DISASSEMBLER_H_
#define RVM_SERIALIZATION_DISASSEMBLER_H_

#include <string>
#include <vector>

#include "serialization/executable.h"

namespace rvm {

struct DisassembleOptions {
  // All elements of constants and all bytes of native objects. Off, long ones are cut with `...`, which
  // people like better and the assembler refuses.
  bool full = true;
  // Texts of Executable::files, by index (fewer are fine): their lines become comments.
  std::vector<std::string> sources;
};

// Never fails: what is malformed is shown as it is, as far as that goes.
std::string Disassemble(const Executable& executable, const DisassembleOptions& options = {});

}  // namespace rvm

#endif  // RVM_SERIALIZATION_DISASSEMBLER_H_
