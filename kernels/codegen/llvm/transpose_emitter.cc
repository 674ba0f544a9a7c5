#include "kernels/codegen/llvm/transpose_emitter.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/transpose_vectors.h"
#include "llvm/IR/Function.h"

namespace rvm::codegen {

using llvm::Value;

namespace {

class TransposeEmitter {
 public:
  explicit TransposeEmitter(const TransposeSite& site)
      : site_(site), b_(site.b), e_(site.e), tensor_(site.nest.tensors[0].tensor) {
    side_ = std::clamp<int64_t>(site.target.vector_bits / 8 / tensor_.dtype().bytes(), 4, 16);
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    block_ = at_entry.CreateAlloca(e_.MemoryType(tensor_.dtype()), Number(side_ * side_));
    block_->setAlignment(llvm::Align(64));
  }

  void Run() { EmitOuter(0); }

 private:
  llvm::ConstantInt* Number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  size_t reads() const { return *site_.nest.transposed; }       // the axis that reads run along
  size_t stores() const { return site_.nest.axes.size() - 1; }  // the axis that stores run along
  Value* Begin(size_t axis) { return axis == 0 ? site_.begin : Number(0); }
  Value* End(size_t axis) { return axis == 0 ? site_.end : e_.EmitExtent(site_.nest.axes[axis].extent); }
  const te::Expr& value() const { return site_.nest.tensors[0].value; }

  template <typename Body>
  void Loop(size_t axis, Value* begin, Value* end, int64_t step, int64_t cost, const Body& body) {
    EmitStoppableLoop(b_, {begin, end, site_.nest.axes[axis].extent, step}, site_.cancel, cost, {},
                      [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
                        e_.OpenScope();
                        e_.Bind(site_.nest.axes[axis], at);
                        body(at);
                        e_.CloseScope();
                        return {};
                      });
  }

  template <typename Body>
  void Turns(int64_t turns, const Body& body) {
    EmitLoop(b_, Number(0), Number(turns), 1, {}, [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
      e_.OpenScope();
      body(at);
      e_.CloseScope();
      return {};
    });
  }

  // All other axes are outside.
  void EmitOuter(size_t axis) {
    if (axis == stores()) return EmitBlocks();
    if (axis == reads()) return EmitOuter(axis + 1);
    Loop(axis, Begin(axis), End(axis), 1, kUnknownCost, [&](Value*) { EmitOuter(axis + 1); });
  }

  Value* WholeBlocks(Value* begin, Value* end) {
    Value* whole = b_.CreateAnd(b_.CreateSub(end, begin), Number(-side_));
    return b_.CreateAdd(begin, whole);
  }

  void EmitBlocks() {
    Value *begin = Begin(reads()), *end = End(reads()), *columns = End(stores());
    Value *whole = WholeBlocks(begin, end), *whole_columns = WholeBlocks(Number(0), columns);
    Loop(reads(), begin, whole, side_, kUnknownCost, [&](Value* i) {
      Loop(stores(), Number(0), whole_columns, side_, 4 * side_ * side_, [&](Value* j) { EmitBlock(i, j); });
      EmitSingly(i, b_.CreateNSWAdd(i, Number(side_)), whole_columns, columns);
    });
    EmitSingly(whole, end, Number(0), columns);
  }

  void EmitSingly(Value* begin, Value* end, Value* first, Value* last) {
    Loop(reads(), begin, end, 1, kUnknownCost, [&](Value*) {
      Loop(stores(), first, last, 1, 8,
           [&](Value*) { e_.Store(tensor_.dtype(), e_.Emit(value()), Pointer(), e_.Emit(site_.nest.store_offset)); });
    });
  }

  Value* Pointer() { return e_.pointers.at(tensor_.get()); }

  void EmitBlock(Value* i, Value* j) {
    Turns(side_, [&](Value* column) {
      e_.Bind(site_.nest.axes[stores()], b_.CreateNSWAdd(j, column));
      Value* row = b_.CreateNSWMul(column, Number(side_));
      Turns(side_, [&](Value* lane) {
        e_.Bind(site_.nest.axes[reads()], b_.CreateNSWAdd(i, lane));
        e_.Store(tensor_.dtype(), e_.Emit(value()), block_, b_.CreateNSWAdd(row, lane));
      });
    });
    llvm::Type* memory = e_.MemoryType(tensor_.dtype());
    auto* type = llvm::FixedVectorType::get(memory, static_cast<unsigned>(side_));
    std::vector<Value*> vectors;
    for (int64_t k = 0; k < side_; ++k) {
      Value* address = b_.CreateConstInBoundsGEP1_64(memory, block_, static_cast<uint64_t>(k * side_));
      vectors.push_back(b_.CreateAlignedLoad(type, address, llvm::Align(4)));
    }
    vectors = TransposedVectors(b_, std::move(vectors));
    for (int64_t k = 0; k < side_; ++k) {
      e_.OpenScope();
      e_.Bind(site_.nest.axes[reads()], b_.CreateNSWAdd(i, Number(k)));
      e_.Bind(site_.nest.axes[stores()], j);
      Value* address = e_.Address(tensor_.dtype(), Pointer(), e_.Emit(site_.nest.store_offset));
      auto bytes = static_cast<uint64_t>(tensor_.dtype().bytes());
      b_.CreateAlignedStore(vectors[static_cast<size_t>(k)], address, llvm::Align(bytes));
      e_.CloseScope();
    }
  }

  const TransposeSite& site_;
  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const te::Tensor& tensor_;
  int64_t side_ = 0;
  llvm::AllocaInst* block_ = nullptr;
};

}  // namespace

void EmitTransposed(const TransposeSite& site) { TransposeEmitter(site).Run(); }

}  // namespace rvm::codegen
