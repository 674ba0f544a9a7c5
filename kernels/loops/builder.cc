#include "kernels/loops/builder.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/te/expr_pool.h"

namespace rvm::loops {

using te::ExprKind;
using te::ExprNode;

Builder::Builder(const schedule::Schedule& schedule) : schedule_(schedule), scopes_(1) {
  block_ = DefineHere({.op = Op::kBlock});
  thread_ = DefineHere({.op = Op::kThread});
}

Value Builder::NewValue(DataType dtype) {
  program_.values.push_back(dtype);
  return Value(static_cast<uint32_t>(program_.values.size() - 1));
}

Value Builder::Define(Statement statement, size_t level) {
  statement.result = NewValue(statement.dtype);
  scopes_[level].body.push_back(std::move(statement));
  return Value(static_cast<uint32_t>(program_.values.size() - 1));
}

Value Builder::Constant(DataType dtype, int64_t bits) {
  auto [it, added] = constants_.try_emplace(std::pair(dtype, bits));
  if (!added) return it->second;
  it->second = Define({.op = Op::kConstant, .dtype = dtype, .bits = bits}, 0);
  if (dtype == kInt64) numbers_.emplace(it->second.value, bits);
  return it->second;
}

Value Builder::Extent(const Dim& dim) {
  if (dim.is_const()) return Number(dim.constant());
  auto [it, added] = extents_.try_emplace(dim);
  if (added) it->second = Define({.op = Op::kDim, .dim = dim}, 0);
  return it->second;
}

// Returns the simpler value of index arithmetic; nullopt if there is none.
std::optional<Value> Builder::Folded(BinaryOp op, Value x, Value y) {
  auto number = [&](Value value) {
    auto known = numbers_.find(value.value);
    return known == numbers_.end() ? std::optional<int64_t>() : known->second;
  };
  std::optional<int64_t> a = number(x), b = number(y);
  bool adds = op == BinaryOp::kAdd, subtracts = op == BinaryOp::kSubtract, multiplies = op == BinaryOp::kMultiply;
  bool divides = op == BinaryOp::kTruncDivide || op == BinaryOp::kFloorDivide;
  if (a && b) {
    if (adds) return Number(EvaluateBinaryDim(DimKind::kAdd, *a, *b));
    if (subtracts) return Number(EvaluateBinaryDim(DimKind::kSub, *a, *b));
    if (multiplies) return Number(EvaluateBinaryDim(DimKind::kMul, *a, *b));
    if (*a >= 0 && *b > 0 && op == BinaryOp::kTruncDivide) return Number(*a / *b);
    if (*a >= 0 && *b > 0 && op == BinaryOp::kTruncMod) return Number(*a % *b);
  }
  if ((adds && a == 0) || (multiplies && a == 1)) return y;
  if (((adds || subtracts) && b == 0) || ((multiplies || divides) && b == 1)) return x;
  if (multiplies && (a == 0 || b == 0)) return Number(0);
  return std::nullopt;
}

Value Builder::Binary(BinaryOp op, DataType dtype, Value x, Value y) {
  if (dtype == kInt64) {
    if (std::optional<Value> folded = Folded(op, x, y)) return *folded;
  }
  DataType result = IsComparison(op) ? kBool : dtype;
  return DefineHere({.op = Op::kBinary, .dtype = result, .a = x, .b = y, .function = static_cast<uint8_t>(op)});
}

Value Builder::Unary(UnaryOp op, DataType dtype, Value x) {
  DataType result = IsTest(op) ? kBool : dtype;
  return DefineHere({.op = Op::kUnary, .dtype = result, .a = x, .function = static_cast<uint8_t>(op)});
}

Value Builder::Select(DataType dtype, Value condition, Value x, Value y) {
  return DefineHere({.op = Op::kSelect, .dtype = dtype, .a = condition, .b = x, .c = y});
}

Value Builder::Rounded(DataType dtype, Value x) {
  return dtype.is_small_float() ? DefineHere({.op = Op::kCast, .dtype = dtype, .a = x}) : x;
}

BufferId Builder::NewBuffer(BufferKind kind, DataType dtype, int64_t elements) {
  program_.buffers.push_back({.kind = kind, .dtype = RegisterType(dtype), .elements = elements});
  return BufferId(static_cast<uint32_t>(program_.buffers.size() - 1));
}

BufferId Builder::BufferOf(const te::Tensor& tensor) {
  auto [it, added] = buffers_.try_emplace(tensor.get());
  if (!added) return it->second;
  Buffer buffer{.dtype = tensor.dtype(), .elements = NumElements(tensor.dims())};
  if (tensor->kind == te::TensorKind::kInput) {
    if (tensor.rank() == 0) buffer.kind = BufferKind::kScalar;
    buffer.number = static_cast<size_t>(tensor->input_index);
  } else {
    const schedule::TensorBuffer& place = schedule_.buffers.at(tensor.get());
    buffer.kind = place.is_output ? BufferKind::kOutput : BufferKind::kWorkspace;
    buffer.number = static_cast<size_t>(place.output);
    buffer.offset = place.offset;
  }
  it->second = BufferId(static_cast<uint32_t>(program_.buffers.size()));
  program_.buffers.push_back(std::move(buffer));
  return it->second;
}

Value Builder::Load(DataType dtype, BufferId buffer, Value at) {
  return DefineHere({.op = Op::kLoad, .dtype = dtype, .a = at, .buffer = buffer});
}

void Builder::Store(BufferId buffer, Value at, Value value) {
  Append({.op = Op::kStore, .dtype = program_.buffer(buffer).dtype, .a = at, .b = value, .buffer = buffer});
}

void Builder::StoreTensor(const te::Tensor& tensor, Value at, Value value) { Store(BufferOf(tensor), at, value); }

void Builder::For(Value begin, Value end, Value step, absl::FunctionRef<void(Value at)> body, bool is_unrolled) {
  Statement loop{.op = Op::kFor, .a = begin, .b = end, .c = step, .is_unrolled = is_unrolled};
  loop.result = NewValue(kInt64);
  scopes_.emplace_back();
  body(loop.result);
  loop.body = std::move(scopes_.back().body);
  scopes_.pop_back();
  Append(std::move(loop));
}

void Builder::If(Value condition, absl::FunctionRef<void()> body) {
  Statement choice{.op = Op::kIf, .a = condition};
  scopes_.emplace_back();
  body();
  choice.body = std::move(scopes_.back().body);
  scopes_.pop_back();
  Append(std::move(choice));
}

void Builder::Scoped(absl::FunctionRef<void()> body) {
  scopes_.emplace_back();
  body();
  std::vector<Statement> statements = std::move(scopes_.back().body);
  scopes_.pop_back();
  for (Statement& statement : statements) Append(std::move(statement));
}

void Builder::Bind(const te::IndexVar& variable, Value value) { scopes_.back().variables[variable.id] = value; }

void Builder::BindFlat(std::span<const te::IndexVar> axes, Value number) {
  for (size_t i = axes.size(); i-- > 0;) {
    if (i == 0) return Bind(axes[i], number);
    Value extent = Extent(axes[i].extent);
    Bind(axes[i], Remainder(number, extent));
    number = Quotient(number, extent);
  }
}

void Builder::BindNode(const ExprNode* node, Value value) {
  scopes_.back().nodes.insert_or_assign(node, Known{value, scopes_.size() - 1});
}

void Builder::BindTensor(const te::Tensor& tensor, Value value) { scopes_.back().tensors[tensor.get()] = value; }

// Returns the value that the node has; of a variable or a tensor that is bound, it belongs to the scope that binds it.
std::optional<Builder::Known> Builder::Find(const ExprNode& node) const {
  for (size_t level = scopes_.size(); level-- > 0;) {
    const Scope& scope = scopes_[level];
    if (auto known = scope.nodes.find(&node); known != scope.nodes.end()) return known->second;
    if (node.kind == ExprKind::kIndex) {
      if (auto known = scope.variables.find(node.index.id); known != scope.variables.end())
        return Known{known->second, level};
    }
    if (node.kind == ExprKind::kRead) {
      if (auto known = scope.tensors.find(node.tensor.get()); known != scope.tensors.end())
        return Known{known->second, level};
    }
  }
  return std::nullopt;
}

// REQUIRES: the operands have values.
Builder::Known Builder::EmitNode(const ExprNode& node) {
  Statement s{.dtype = node.dtype};
  size_t level = 0;
  Value* operands[] = {&s.a, &s.b, &s.c};
  for (size_t i = 0; i < node.operands.size(); ++i) {
    Known operand = *Find(*node.operands[i]);
    *operands[i] = operand.value;
    level = std::max(level, operand.level);
  }
  switch (node.kind) {
    case ExprKind::kIntConst: return {Constant(node.dtype, node.int_value), 0};
    case ExprKind::kFloatConst: return {Constant(node.dtype, std::bit_cast<int64_t>(node.float_value)), 0};
    case ExprKind::kDim: return {Extent(node.dim), 0};
    case ExprKind::kRead:
      s.op = node.int_value == te::kReadIsSafe ? Op::kLoad : Op::kLoadOrZero;
      s.buffer = BufferOf(node.tensor);
      level = scopes_.size() - 1;
      break;
    case ExprKind::kUnary:
      s.op = Op::kUnary;
      s.function = static_cast<uint8_t>(node.unary);
      break;
    case ExprKind::kBinary:
      if (node.dtype == kInt64) {
        if (std::optional<Value> folded = Folded(node.binary, s.a, s.b)) return {*folded, level};
      }
      s.op = Op::kBinary;
      s.function = static_cast<uint8_t>(node.binary);
      break;
    case ExprKind::kSelect: s.op = Op::kSelect; break;
    case ExprKind::kCast: s.op = Op::kCast; break;
    case ExprKind::kBitcast: s.op = Op::kBitcast; break;
    case ExprKind::kIndex: RVM_UNREACHABLE("an axis of a nest without a position");
    case ExprKind::kReduce: RVM_UNREACHABLE("a reduction is not at the root of a nest's first tensor");
  }
  return {Define(std::move(s), level), level};
}

Value Builder::Emit(const ExprNode& root) {
  if (std::optional<Known> known = Find(root)) return known->value;
  // Operands of nodes that have a value need none.
  std::vector<std::pair<const ExprNode*, bool>> path = {{&root, false}};
  while (!path.empty()) {
    auto [node, has_operands] = path.back();
    path.pop_back();
    if (Find(*node)) continue;
    if (!has_operands) {
      path.emplace_back(node, true);
      for (size_t i = node->operands.size(); i-- > 0;) path.emplace_back(node->operands[i].get(), false);
      continue;
    }
    Known made = EmitNode(*node);
    scopes_[made.level].nodes.emplace(node, made);
  }
  return Find(root)->value;
}

Program Builder::Take(const Dim& blocks) {
  program_.blocks = blocks;
  program_.body = std::move(scopes_[0].body);
  return std::move(program_);
}

}  // namespace rvm::loops
