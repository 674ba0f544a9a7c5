#include "kernels/loops/verify.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace rvm::loops {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program), values_(program.values.size()) {}

  absl::Status Run() {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      bool is_known = buffer.elements.is_const() && buffer.elements.constant() > 0;
      if (!buffer.is_global() && !is_known)
        return absl::InternalError(absl::StrCat("B", i, ": memory of a block or a thread has a known size"));
    }
    if (program_.shared_bytes() > kMaxSharedBytes) {
      return absl::InternalError(
          absl::StrCat("a block shares ", program_.shared_bytes(), " bytes; there are ", kMaxSharedBytes));
    }
    return CheckBody(program_.body, /*is_uniform=*/true);
  }

 private:
  struct State {
    bool is_defined = false, is_in_scope = false;
    bool is_uniform = false;  // the same for all threads of a block
  };

  static absl::Status Fail(const Statement& s, std::string_view what) {
    return absl::InternalError(absl::StrCat("`", ToString(s), "`: ", std::string(what)));
  }

  State& of(Value value) { return values_[value.value]; }
  bool IsUsable(Value value) const { return value.value < values_.size() && values_[value.value].is_in_scope; }
  bool Is(Value value, DataType dtype) const {
    return IsUsable(value) && RegisterType(program_.type(value)) == RegisterType(dtype);
  }

  // `is_uniform`: all threads of a block run the body for sure.
  absl::Status CheckBody(const std::vector<Statement>& body, bool is_uniform) {
    std::vector<Value> defined;
    for (const Statement& s : body) {
      RVM_RETURN_IF_ERROR(CheckOperands(s));
      RVM_RETURN_IF_ERROR(CheckBuffer(s));
      if (Defines(s.op)) {
        RVM_RETURN_IF_ERROR(Define(s, IsUniform(s)));
        defined.push_back(s.result);
      }
      if (s.op == Op::kBarrier && !is_uniform)
        return Fail(s, "it is not certain that all threads of the block come here");
      if (s.op == Op::kIf) RVM_RETURN_IF_ERROR(CheckBody(s.body, /*is_uniform=*/false));
      if (s.op == Op::kFor) {
        bool is_same = of(s.a).is_uniform && of(s.b).is_uniform && of(s.c).is_uniform;
        RVM_RETURN_IF_ERROR(Define(s, is_same));
        RVM_RETURN_IF_ERROR(CheckBody(s.body, is_uniform && is_same));
        of(s.result).is_in_scope = false;
      }
    }
    for (Value value : defined) of(value).is_in_scope = false;
    return absl::OkStatus();
  }

  absl::Status Define(const Statement& s, bool is_uniform) {
    if (s.result.value >= values_.size() || of(s.result).is_defined) return Fail(s, "the value is defined once");
    if (program_.type(s.result) != s.dtype) return Fail(s, "the value has another dtype");
    of(s.result) = {true, true, is_uniform};
    return absl::OkStatus();
  }

  bool IsUniform(const Statement& s) {
    switch (s.op) {
      case Op::kThread: return false;
      case Op::kLoad:
      case Op::kLoadOrZero: return program_.buffer(s.buffer).is_read_only() && of(s.a).is_uniform;
      case Op::kConstant:
      case Op::kDim:
      case Op::kBlock:
      case Op::kUnary:
      case Op::kBinary:
      case Op::kSelect:
      case Op::kCast:
      case Op::kBitcast:
      case Op::kStore:
      case Op::kBarrier:
      case Op::kFor:
      case Op::kIf: break;
    }
    for (Value operand : {s.a, s.b, s.c}) {
      if (operand.valid() && !of(operand).is_uniform) return false;
    }
    return true;
  }

  absl::Status CheckOperands(const Statement& s) const {
    for (Value operand : {s.a, s.b, s.c}) {
      if (operand.valid() && !IsUsable(operand)) return Fail(s, "an operand is not defined here");
    }
    auto expect = [&](bool fits, const char* what) { return fits ? absl::OkStatus() : Fail(s, what); };
    switch (s.op) {
      case Op::kConstant:
      case Op::kBarrier: return absl::OkStatus();
      case Op::kDim:
      case Op::kBlock:
      case Op::kThread: return expect(s.dtype == kInt64, "it is an int64");
      case Op::kUnary:
      case Op::kCast:
      case Op::kBitcast: return expect(s.a.valid(), "it has an operand");
      case Op::kBinary: return expect(IsUsable(s.a) && Is(s.b, program_.type(s.a)), "it has two operands of one dtype");
      case Op::kSelect:
        return expect(Is(s.a, kBool) && Is(s.b, s.dtype) && Is(s.c, s.dtype),
                      "it has a bool, and two operands of its dtype");
      case Op::kLoad:
      case Op::kLoadOrZero: return expect(Is(s.a, kInt64), "elements have a number of int64");
      case Op::kStore: return expect(Is(s.a, kInt64) && Is(s.b, s.dtype), "it stores a value of its dtype at an int64");
      case Op::kFor:
        return expect(Is(s.a, kInt64) && Is(s.b, kInt64) && Is(s.c, kInt64) && s.dtype == kInt64, "it counts by int64");
      case Op::kIf: return expect(Is(s.a, kBool), "a condition is a bool");
    }
  }

  absl::Status CheckBuffer(const Statement& s) const {
    if (s.op != Op::kLoad && s.op != Op::kLoadOrZero && s.op != Op::kStore) return absl::OkStatus();
    if (s.buffer.value >= program_.buffers.size()) return Fail(s, "there is no such buffer");
    const Buffer& buffer = program_.buffer(s.buffer);
    if (RegisterType(buffer.dtype) != RegisterType(s.dtype)) return Fail(s, "the buffer has another dtype");
    if (s.op == Op::kStore && buffer.is_read_only()) return Fail(s, "an input is only read");
    return absl::OkStatus();
  }

  const Program& program_;
  std::vector<State> values_;
};

}  // namespace

absl::Status Verify(const Program& program) { return Verifier(program).Run(); }

}  // namespace rvm::loops
