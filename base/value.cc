#include "base/value.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/element.h"

namespace rvm {

struct Value::Node {
  ValueKind kind;
  Literal tensor;
  std::string name;
  std::vector<Value> fields;
  std::shared_ptr<FunctionObject> function = nullptr;
};

namespace {

// Shortest decimal text that reads back to the same number.
template <typename T>
std::string Shortest(T value) {
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

std::string FloatText(DataType dtype, double value) {
  std::string suffix(dtype == kFloat32 ? "f" : FindDataType(dtype)->suffix);
  if (std::isnan(value)) return absl::StrCat("nan", suffix);
  if (std::isinf(value)) return absl::StrCat(value < 0 ? "-inf" : "inf", suffix);
  return absl::StrCat(dtype.bits == 64 ? Shortest(value) : Shortest(static_cast<float>(value)), suffix);
}

void AppendTensor(const Literal& tensor, std::string& out) {
  if (tensor.rank() == 0) {
    out += ScalarToString(tensor, 0);
    return;
  }
  if (tensor.num_elements() == 0) {
    absl::StrAppend(&out, "Constant([], ", ShapeToString(tensor.shape()), ", ", tensor.dtype().ToString(), ")");
    return;
  }
  const Shape& shape = tensor.shape();
  size_t rank = shape.size();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    // Brackets open where the indices of the trailing axes are all zero.
    int64_t block = 1;
    size_t starts = 0, ends = 0;
    for (size_t axis = rank; axis-- > 0;) {
      block *= shape[axis];
      if (i % block == 0) ++starts;
      if (i % block == block - 1) ++ends;
    }
    if (i > 0) out += ", ";
    out.append(starts, '[');
    out += ScalarToString(tensor, i);
    out.append(ends, ']');
  }
}

bool NumbersAgree(const Literal& a, const Literal& b, int64_t i, double rtol, double atol) {
  if (!a.dtype().is_float()) return a.IntAt(i) == b.IntAt(i);
  double x = a.DoubleAt(i), y = b.DoubleAt(i);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return true;
  if (std::isinf(x) || std::isinf(y)) return false;
  return std::abs(x - y) <= atol + rtol * std::abs(y);
}

std::string DiffTensors(const Literal& a, const Literal& b, double rtol, double atol) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
    return absl::StrCat("Tensor[", ShapeToString(a.shape()), ", ", a.dtype().ToString(), "] vs Tensor[",
                        ShapeToString(b.shape()), ", ", b.dtype().ToString(), "]");
  }
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (!NumbersAgree(a, b, i, rtol, atol)) {
      return absl::StrCat("element ", i, ": ", ScalarToString(a, i), " vs ", ScalarToString(b, i));
    }
  }
  return "";
}

}  // namespace

Value Value::Tensor(Literal literal) {
  return Value(std::make_shared<Node>(Node{ValueKind::kTensor, std::move(literal), "", {}}));
}
Value Value::Tuple(std::vector<Value> fields) {
  return Value(std::make_shared<Node>(Node{ValueKind::kTuple, Literal(), "", std::move(fields)}));
}
Value Value::Adt(std::string constructor, std::vector<Value> fields) {
  return Value(std::make_shared<Node>(Node{ValueKind::kAdt, Literal(), std::move(constructor), std::move(fields)}));
}
Value Value::Ref(Value contents) {
  return Value(std::make_shared<Node>(Node{ValueKind::kRef, Literal(), "", {std::move(contents)}}));
}
Value Value::Closure(std::string name) { return Function(std::move(name), nullptr); }
Value Value::Function(std::string name, std::shared_ptr<FunctionObject> function) {
  return Value(std::make_shared<Node>(Node{ValueKind::kClosure, Literal(), std::move(name), {}, std::move(function)}));
}

// Freeing a long list must not recurse: fields of dying nodes move to a worklist.
Value::~Value() {
  if (node_ == nullptr || node_.use_count() > 1 || node_->fields.empty()) return;
  std::vector<std::shared_ptr<const Node>> dying;
  dying.push_back(std::move(node_));
  while (!dying.empty()) {
    std::shared_ptr<const Node> node = std::move(dying.back());
    dying.pop_back();
    if (node.use_count() > 1) continue;
    // The node is ours alone and about to die.
    for (Value& field : const_cast<Node&>(*node).fields) {
      if (field.node_ != nullptr) dying.push_back(std::move(field.node_));
    }
  }
}

Value& Value::operator=(const Value& other) {
  Value copy(other);
  std::swap(node_, copy.node_);
  return *this;
}
Value& Value::operator=(Value&& other) noexcept {
  std::swap(node_, other.node_);
  return *this;
}

ValueKind Value::kind() const { return node_->kind; }
const Literal& Value::tensor() const { return node_->tensor; }
const std::vector<Value>& Value::fields() const { return node_->fields; }
const std::string& Value::name() const { return node_->name; }
const std::shared_ptr<FunctionObject>& Value::function() const { return node_->function; }

std::string ScalarToString(const Literal& tensor, int64_t index) {
  DataType dtype = tensor.dtype();
  if (dtype.is_bool()) return tensor.IntAt(index) != 0 ? "True" : "False";
  if (dtype.is_float()) return FloatText(dtype, tensor.DoubleAt(index));
  if (dtype == kInt32) return absl::StrCat(tensor.IntAt(index));
  std::string suffix(FindDataType(dtype)->suffix);
  if (dtype.is_uint()) return absl::StrCat(static_cast<uint64_t>(tensor.IntAt(index)), suffix);
  return absl::StrCat(tensor.IntAt(index), suffix);
}

std::string Value::ToString() const {
  // A stack of texts and values still to print, last first.
  struct Item {
    const Value* value;
    std::string_view text;
  };
  std::string out;
  std::vector<Item> stack = {{this, {}}};
  while (!stack.empty()) {
    Item item = stack.back();
    stack.pop_back();
    if (item.value == nullptr) {
      out += item.text;
      continue;
    }
    const Node& node = *item.value->node_;
    switch (node.kind) {
      case ValueKind::kTensor: AppendTensor(node.tensor, out); continue;
      case ValueKind::kClosure: absl::StrAppend(&out, "<closure @", node.name, ">"); continue;
      case ValueKind::kAdt:
        out += node.name;
        if (node.fields.empty()) continue;
        break;
      case ValueKind::kRef: out += "ref"; break;
      case ValueKind::kTuple: break;
    }
    out += "(";
    bool one_tuple = node.kind == ValueKind::kTuple && node.fields.size() == 1;
    stack.push_back({nullptr, one_tuple ? ",)" : ")"});
    for (size_t i = node.fields.size(); i-- > 0;) {
      stack.push_back({&node.fields[i], {}});
      if (i > 0) stack.push_back({nullptr, ", "});
    }
  }
  return out;
}

std::string DiffValues(const Value& a, const Value& b, double rtol, double atol) {
  struct Pair {
    const Value* a;
    const Value* b;
    std::string path;
  };
  std::vector<Pair> stack = {{&a, &b, "value"}};
  while (!stack.empty()) {
    Pair pair = std::move(stack.back());
    stack.pop_back();
    const Value& x = *pair.a;
    const Value& y = *pair.b;
    if (x.kind() != y.kind() || x.name() != y.name() || x.fields().size() != y.fields().size() ||
        x.kind() == ValueKind::kClosure) {
      return absl::StrCat("at ", pair.path, ": ", x.ToString(), " vs ", y.ToString());
    }
    if (x.kind() == ValueKind::kTensor) {
      std::string diff = DiffTensors(x.tensor(), y.tensor(), rtol, atol);
      if (!diff.empty()) return absl::StrCat("at ", pair.path, ": ", diff);
      continue;
    }
    for (size_t i = x.fields().size(); i-- > 0;) {
      // Long lists keep their paths short.
      std::string path = pair.path.size() < 200 ? absl::StrCat(pair.path, ".", i) : pair.path;
      stack.push_back({&x.fields()[i], &y.fields()[i], std::move(path)});
    }
  }
  return "";
}

}  // namespace rvm
