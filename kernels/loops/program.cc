#include "kernels/loops/program.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rvm::loops {
namespace {

std::string Name(Value value) { return absl::StrCat("%", value.value); }
std::string Element(const Statement& s) { return absl::StrCat("B", s.buffer.value, "[", Name(s.a), "]"); }

const char* KindName(BufferKind kind) {
  switch (kind) {
    case BufferKind::kInput: return "input";
    case BufferKind::kScalar: return "scalar";
    case BufferKind::kOutput: return "output";
    case BufferKind::kWorkspace: return "workspace";
    case BufferKind::kShared: return "shared";
    case BufferKind::kPrivate: return "private";
  }
}

std::string BufferText(const Buffer& buffer) {
  std::string text =
      absl::StrCat(buffer.dtype.ToString(), "[", buffer.elements.ToString(), "] ", KindName(buffer.kind));
  if (buffer.kind == BufferKind::kWorkspace) return absl::StrCat(text, " at ", buffer.offset.ToString());
  return buffer.is_global() ? absl::StrCat(text, " ", buffer.number) : text;
}

// Returns the right-hand side of a definition.
std::string Definition(const Statement& s) {
  switch (s.op) {
    case Op::kConstant: return s.dtype.is_float() ? absl::StrCat(std::bit_cast<double>(s.bits)) : absl::StrCat(s.bits);
    case Op::kDim: return s.dim.ToString();
    case Op::kBlock: return "block";
    case Op::kThread: return "thread";
    case Op::kUnary: return absl::StrCat(std::string(kUnaryOpNames[s.function]), " ", Name(s.a));
    case Op::kBinary: return absl::StrCat(Name(s.a), " ", std::string(kBinaryOpNames[s.function]), " ", Name(s.b));
    case Op::kSelect: return absl::StrCat(Name(s.a), " ? ", Name(s.b), " : ", Name(s.c));
    case Op::kCast: return absl::StrCat("cast ", Name(s.a));
    case Op::kBitcast: return absl::StrCat("bits of ", Name(s.a));
    case Op::kLoad: return Element(s);
    case Op::kLoadOrZero: return absl::StrCat(Element(s), " or 0");
    case Op::kStore:
    case Op::kBarrier:
    case Op::kFor:
    case Op::kIf: break;
  }
  return "";
}

void Append(const std::vector<Statement>& body, size_t indent, std::string& text) {
  for (const Statement& s : body) {
    absl::StrAppend(&text, std::string(indent, ' '), ToString(s), "\n");
    Append(s.body, indent + 2, text);
  }
}

}  // namespace

bool HasBarrier(const std::vector<Statement>& body) {
  return std::any_of(body.begin(), body.end(),
                     [](const Statement& s) { return s.op == Op::kBarrier || HasBarrier(s.body); });
}

bool Defines(Op op) { return op <= Op::kLoadOrZero; }

int64_t Program::shared_bytes() const {
  int64_t bytes = 0;
  for (const Buffer& buffer : buffers) {
    if (buffer.kind == BufferKind::kShared) bytes += buffer.elements.constant() * buffer.dtype.bytes();
  }
  return bytes;
}

std::string ToString(const Statement& s) {
  if (Defines(s.op)) return absl::StrCat(Name(s.result), ": ", s.dtype.ToString(), " = ", Definition(s));
  switch (s.op) {
    case Op::kStore: return absl::StrCat(Element(s), " = ", Name(s.b));
    case Op::kBarrier: return "barrier";
    case Op::kFor:
      return absl::StrCat("for ", Name(s.result), " from ", Name(s.a), " below ", Name(s.b), " by ", Name(s.c),
                          s.is_unrolled ? ", unrolled" : "");
    case Op::kIf: return absl::StrCat("if ", Name(s.a));
    case Op::kConstant:
    case Op::kDim:
    case Op::kBlock:
    case Op::kThread:
    case Op::kUnary:
    case Op::kBinary:
    case Op::kSelect:
    case Op::kCast:
    case Op::kBitcast:
    case Op::kLoad:
    case Op::kLoadOrZero: break;
  }
  return "";
}

std::string ToString(const Program& program) {
  std::string text = absl::StrCat("blocks ", program.blocks.ToString(), "\n");
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    absl::StrAppend(&text, "B", i, ": ", BufferText(program.buffers[i]), "\n");
  }
  Append(program.body, 0, text);
  return text;
}

}  // namespace rvm::loops
