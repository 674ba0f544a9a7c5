#include "kernels/codegen/llvm/transpose_emitter.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/transpose_vectors.h"
#include "kernels/schedule/nest_cost.h"
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
    auto block = [&](DataType dtype) {
      llvm::AllocaInst* memory = at_entry.CreateAlloca(e_.MemoryType(dtype), Number(side_ * side_));
      memory->setAlignment(llvm::Align(64));
      return memory;
    };
    block_ = block(tensor_.dtype());
    for (const te::ExprNode* node : te::Postorder({value()})) {
      if (node->kind != te::ExprKind::kRead) continue;
      auto runs_along = [&](size_t axis) {
        return te::Stride(node->operands[0], site.nest.axes[axis].id) == int64_t{1};
      };
      if (runs_along(reads()) && te::DependsOn(node->operands[0], site.nest.axes[stores()].id)) {
        moved_.push_back({node, block(node->dtype)});
      }
      mixed_ |= runs_along(stores());
    }
  }

  void Run() { EmitOuter(0); }

 private:
  // A read along `reads()`, and the block that is transposed in its place.
  struct Moved {
    const te::ExprNode* read;
    llvm::AllocaInst* block;
  };

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
  void Repeat(Value* count, const Body& body, const LoopHints& hints = {}) {
    EmitLoop(
        b_, Number(0), count, 1, {},
        [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
          e_.OpenScope();
          body(at);
          e_.CloseScope();
          return {};
        },
        hints);
  }

  // All other axes are outside.
  void EmitOuter(size_t axis) {
    if (axis == stores()) return EmitBlocks();
    if (axis == reads()) return EmitOuter(axis + 1);
    Loop(axis, Begin(axis), End(axis), 1, schedule::kUnknownCost, [&](Value*) { EmitOuter(axis + 1); });
  }

  Value* WholeBlocks(Value* begin, Value* end) {
    Value* whole = b_.CreateAnd(b_.CreateSub(end, begin), Number(-side_));
    return b_.CreateAdd(begin, whole);
  }

  void EmitBlocks() {
    Value *begin = Begin(reads()), *end = End(reads()), *columns = End(stores());
    Value *whole = WholeBlocks(begin, end), *whole_columns = WholeBlocks(Number(0), columns);
    Loop(reads(), begin, whole, side_, schedule::kUnknownCost, [&](Value* i) {
      Loop(stores(), Number(0), whole_columns, side_, 4 * side_ * side_,
           [&](Value* j) { mixed_ ? EmitMixedBlock(i, j, Number(side_)) : EmitBlock(i, j); });
      Loop(stores(), whole_columns, columns, side_, 4 * side_ * side_,
           [&](Value* j) { EmitMixedBlock(i, j, b_.CreateNSWSub(columns, j)); });
    });
    EmitSingly(whole, end, Number(0), columns);
  }

  void EmitSingly(Value* begin, Value* end, Value* first, Value* last) {
    Loop(reads(), begin, end, 1, schedule::kUnknownCost, [&](Value*) {
      Loop(stores(), first, last, 1, 8,
           [&](Value*) { e_.Store(tensor_.dtype(), e_.Emit(value()), Pointer(), e_.Emit(site_.nest.store_offset)); });
    });
  }

  Value* Pointer() { return e_.pointers.at(tensor_.get()); }

  // Fills the block with `columns` columns of elements along `reads()`, from positions i and j on, and gives its rows.
  template <typename Element>  // Value*()
  std::vector<Value*> TransposedBlock(Value* i, Value* j, Value* columns, DataType dtype, llvm::AllocaInst* block,
                                      const Element& element) {
    Repeat(columns, [&](Value* column) {
      e_.Bind(site_.nest.axes[stores()], b_.CreateNSWAdd(j, column));
      Value* row = b_.CreateNSWMul(column, Number(side_));
      Repeat(Number(side_), [&](Value* lane) {
        e_.Bind(site_.nest.axes[reads()], b_.CreateNSWAdd(i, lane));
        e_.Store(dtype, element(), block, b_.CreateNSWAdd(row, lane));
      });
    });
    llvm::Type* memory = e_.MemoryType(dtype);
    auto* type = llvm::FixedVectorType::get(memory, static_cast<unsigned>(side_));
    std::vector<Value*> vectors;
    for (int64_t k = 0; k < side_; ++k) {
      vectors.push_back(b_.CreateAlignedLoad(type, RowOf(block, memory, k), AlignmentOf(dtype)));
    }
    return TransposedVectors(b_, std::move(vectors));
  }

  static llvm::Align AlignmentOf(DataType dtype) { return llvm::Align(static_cast<uint64_t>(dtype.bytes())); }
  Value* RowOf(llvm::AllocaInst* block, llvm::Type* memory, int64_t row) {
    return b_.CreateConstInBoundsGEP1_64(memory, block, static_cast<uint64_t>(row * side_));
  }

  // Everything is read along one axis: values are computed along it.
  void EmitBlock(Value* i, Value* j) {
    DataType dtype = tensor_.dtype();
    std::vector<Value*> rows = TransposedBlock(i, j, Number(side_), dtype, block_, [&] { return e_.Emit(value()); });
    for (int64_t k = 0; k < side_; ++k) {
      e_.OpenScope();
      e_.Bind(site_.nest.axes[reads()], b_.CreateNSWAdd(i, Number(k)));
      e_.Bind(site_.nest.axes[stores()], j);
      Value* address = e_.Address(dtype, Pointer(), e_.Emit(site_.nest.store_offset));
      b_.CreateAlignedStore(rows[static_cast<size_t>(k)], address, AlignmentOf(dtype));
      e_.CloseScope();
    }
  }

  // Transposes values that are read along the other axis first, then computes along the axis of the stores, which may
  // have fewer columns than a block.
  void EmitMixedBlock(Value* i, Value* j, Value* columns) {
    for (const Moved& moved : moved_) {
      DataType dtype = moved.read->dtype;
      const te::Tensor& from = moved.read->tensor;
      std::vector<Value*> rows = TransposedBlock(i, j, columns, dtype, moved.block, [&] {
        return e_.Load(dtype, e_.pointers.at(from.get()), e_.Emit(moved.read->operands[0]));
      });
      llvm::Type* memory = e_.MemoryType(dtype);
      for (int64_t k = 0; k < side_; ++k) {
        b_.CreateAlignedStore(rows[static_cast<size_t>(k)], RowOf(moved.block, memory, k), AlignmentOf(dtype));
      }
    }
    LoopHints hints{.independent = site_.independent};
    // Masked stores are slow on many CPUs: only blocks at the end have them.
    if (site_.target.has_masks && columns != Number(side_)) hints.fold_tail = side_;
    Repeat(Number(side_), [&](Value* row) {
      e_.Bind(site_.nest.axes[reads()], b_.CreateNSWAdd(i, row));
      Value* first = b_.CreateNSWMul(row, Number(side_));
      Repeat(
          columns,
          [&](Value* column) {
            e_.Bind(site_.nest.axes[stores()], b_.CreateNSWAdd(j, column));
            for (const Moved& moved : moved_) {
              e_.BindValue(moved.read, e_.Load(moved.read->dtype, moved.block, b_.CreateNSWAdd(first, column)));
            }
            e_.Store(tensor_.dtype(), e_.Emit(value()), Pointer(), e_.Emit(site_.nest.store_offset));
          },
          hints);
    });
  }

  const TransposeSite& site_;
  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const te::Tensor& tensor_;
  int64_t side_ = 0;
  llvm::AllocaInst* block_ = nullptr;
  std::vector<Moved> moved_;
  bool mixed_ = false;  // some reads run along the axis of the stores
};

}  // namespace

void EmitTransposed(const TransposeSite& site) { TransposeEmitter(site).Run(); }

}  // namespace rvm::codegen
