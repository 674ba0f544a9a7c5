#include "compiler/import/torch/pickle.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/import/little_endian_reader.h"

namespace rvm::torch {

const PickleValue* PickleValue::Find(std::string_view key) const {
  if (kind != PickleKind::kDict) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i]->kind == PickleKind::kString && items[i]->text == key) return items[i + 1];
  }
  return nullptr;
}

std::string_view PickleValue::maker() const {
  bool is_made = kind == PickleKind::kObject && !items.empty() && items[0]->kind == PickleKind::kGlobal;
  return is_made ? std::string_view(items[0]->text) : "";
}

// Runs the small machine of a pickle: a stack of values, marks on it, and a memo.
class PickleReader {
 public:
  explicit PickleReader(importing::Bytes bytes) : reader_(bytes) {}

  absl::StatusOr<Pickle> Read() {
    while (!is_done_ && reader_.ok()) Step();
    if (!reader_.ok() || stack_.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("a pickle in it is damaged at byte ", reader_.position()));
    }
    result_.root_ = stack_[0];
    return std::move(result_);
  }

 private:
  PickleValue* New(PickleKind kind) {
    PickleValue& value = result_.values_.emplace_back();
    value.kind = kind;
    return &value;
  }
  void Fail() { reader_.Fail(); }

  uint64_t Number(size_t size) { return reader_.Unsigned(size); }
  std::string Text(uint64_t size) { return std::string(reader_.Text(size)); }
  std::string Line() {
    importing::Bytes rest = reader_.rest();
    std::string line = Text(static_cast<uint64_t>(std::ranges::find(rest, '\n') - rest.begin()));
    Number(1);
    return line;
  }

  PickleValue* Pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) {
      Fail();
      return New(PickleKind::kNone);
    }
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue*> PopToMark() {
    if (marks_.empty()) {
      Fail();
      return {};
    }
    auto begin = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<PickleValue*> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }
  void Push(PickleValue* value) { stack_.push_back(value); }
  void PushInt(int64_t integer, PickleKind kind = PickleKind::kInt) {
    Push(New(kind));
    stack_.back()->integer = integer;
  }
  void PushText(std::string text, PickleKind kind = PickleKind::kString) {
    Push(New(kind));
    stack_.back()->text = std::move(text);
  }
  void PushItems(PickleKind kind, std::vector<PickleValue*> items) {
    Push(New(kind));
    stack_.back()->items = std::move(items);
  }
  void PushLast(PickleKind kind, size_t count) {
    std::vector<PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = Pop();
    PushItems(kind, std::move(items));
  }
  // Adds values to the list or dict below them.
  void AddTo(PickleKind kind, const std::vector<PickleValue*>& values) {
    PickleValue* target = Pop();
    if (target->kind == PickleKind::kObject && target->maker() == "collections.OrderedDict") {
      target->kind = PickleKind::kDict;
      target->items.clear();
    }
    if (target->kind != kind || (kind == PickleKind::kDict && values.size() % 2 != 0)) return Fail();
    target->items.insert(target->items.end(), values.begin(), values.end());
    Push(target);
  }
  void Recall(uint64_t index) {
    auto found = memo_.find(index);
    if (found == memo_.end()) return Fail();
    Push(found->second);
  }
  void Remember(uint64_t index) {
    if (stack_.empty()) return Fail();
    memo_[index] = stack_.back();
  }

  void Step() {
    uint8_t op = static_cast<uint8_t>(Number(1));
    if (!reader_.ok() || StepOfLeaf(op) || StepOfGroup(op)) return;
    switch (op) {
      case 0x80: Number(1); break;
      case '.': is_done_ = true; break;
      case '(': marks_.push_back(stack_.size()); break;
      case '0': Pop(); break;
      case 'q': Remember(Number(1)); break;
      case 'r': Remember(Number(4)); break;
      case 0x94: Remember(memo_.size()); break;
      case 'h': Recall(Number(1)); break;
      case 'j': Recall(Number(4)); break;
      default: Fail();
    }
  }

  bool StepOfLeaf(uint8_t op) {
    switch (op) {
      case 'N': Push(New(PickleKind::kNone)); return true;
      case 0x88: PushInt(1, PickleKind::kBool); return true;
      case 0x89: PushInt(0, PickleKind::kBool); return true;
      case 'J': PushInt(static_cast<int32_t>(Number(4))); return true;
      case 'K': PushInt(static_cast<int64_t>(Number(1))); return true;
      case 'M': PushInt(static_cast<int64_t>(Number(2))); return true;
      case 0x8a: {
        uint64_t size = Number(1);
        if (size > 8) Fail();
        uint64_t value = size > 8 ? 0 : Number(static_cast<size_t>(size));
        bool is_negative = size > 0 && size < 8 && (value >> (8 * size - 1)) != 0;
        if (is_negative) value |= ~uint64_t{0} << (8 * size);
        PushInt(static_cast<int64_t>(value));
        return true;
      }
      case 'G': {
        Push(New(PickleKind::kFloat));
        stack_.back()->number = std::bit_cast<double>(__builtin_bswap64(Number(8)));  // big-endian
        return true;
      }
      case 'X': PushText(Text(Number(4))); return true;
      case 'T': PushText(Text(Number(4))); return true;
      case 0x8c: PushText(Text(Number(1))); return true;
      case 'U': PushText(Text(Number(1))); return true;
      case 'c': {
        std::string module = Line();
        PushText(absl::StrCat(module, ".", Line()), PickleKind::kGlobal);
        return true;
      }
      default: return false;
    }
  }

  bool StepOfGroup(uint8_t op) {
    switch (op) {
      case ')': PushItems(PickleKind::kTuple, {}); return true;
      case 't': PushItems(PickleKind::kTuple, PopToMark()); return true;
      case 0x85: PushLast(PickleKind::kTuple, 1); return true;
      case 0x86: PushLast(PickleKind::kTuple, 2); return true;
      case 0x87: PushLast(PickleKind::kTuple, 3); return true;
      case ']': PushItems(PickleKind::kList, {}); return true;
      case 'l': PushItems(PickleKind::kList, PopToMark()); return true;
      case '}': PushItems(PickleKind::kDict, {}); return true;
      case 'a': AddTo(PickleKind::kList, {Pop()}); return true;
      case 'e': AddTo(PickleKind::kList, PopToMark()); return true;
      case 's': {
        PickleValue *value = Pop(), *key = Pop();
        AddTo(PickleKind::kDict, {key, value});
        return true;
      }
      case 'u': AddTo(PickleKind::kDict, PopToMark()); return true;
      case 'Q': PushLast(PickleKind::kPersistent, 1); return true;
      case 0x81:
      case 'R': PushLast(PickleKind::kObject, 2); return true;
      case 'b': {
        PickleValue *state = Pop(), *object = Pop();
        object->state = state;
        Push(object);
        return true;
      }
      default: return false;
    }
  }

  importing::LittleEndianReader reader_;
  bool is_done_ = false;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, PickleValue*> memo_;
  Pickle result_;
};

absl::StatusOr<Pickle> Pickle::Read(importing::Bytes bytes) { return PickleReader(bytes).Read(); }

}  // namespace rvm::torch
