// Cursor: reads numbers, texts and sections of MLIR bytecode in place.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_BYTECODE_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_BYTECODE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/import/file_bytes.h"

namespace rvm::stablehlo {

using importing::Bytes;

// The first mistake of a file: those behind it follow from it.
struct Mistake {
  uint64_t offset = 0;
  std::string message;  // empty: there is none

  void Note(uint64_t at, std::string what) {
    if (!message.empty()) return;
    offset = at;
    message = std::move(what);
  }
};

// A part of a file. Reads beyond its end give zeros and are noted as the mistake; loops that end with AtEnd, or that
// count by Count, therefore end.
class Cursor {
 public:
  // REQUIRES: begin <= end <= file.size(). `mistake` must outlive the cursor.
  Cursor(Bytes file, uint64_t begin, uint64_t end, Mistake* mistake)
      : file_(file), at_(begin), end_(end), mistake_(mistake) {}

  bool AtEnd() const { return at_ >= end_ || failed(); }
  bool failed() const { return !mistake_->message.empty(); }
  uint64_t offset() const { return at_; }
  uint64_t rest() const { return end_ - at_; }
  void Fail(std::string message) { mistake_->Note(at_, std::move(message)); }

  uint8_t Byte();
  Bytes Take(uint64_t count);
  // Returns an integer of variable length: the zeros at the end of its first byte are the number of bytes behind that.
  uint64_t Number();
  // Returns the same for signed ones, whose lowest bit is the sign.
  int64_t Signed();
  struct Flagged {
    uint64_t number;
    bool flag;
  };
  // Returns a number, and a flag in its lowest bit.
  Flagged WithFlag();
  // Returns a number of elements of a byte or more each, which follow.
  uint64_t Count();
  // Returns a number below `size`: an index of a list. `what` names the list: "string".
  uint64_t Index(uint64_t size, std::string_view what);
  // Returns the bytes up to a zero.
  std::string_view Text();
  // Returns the contents of a section, whose number becomes `id`.
  Cursor Section(uint8_t& id);

 private:
  Bytes file_;
  uint64_t at_, end_;
  Mistake* mistake_;
};

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_BYTECODE_H_
