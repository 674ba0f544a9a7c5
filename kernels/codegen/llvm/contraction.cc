#include "kernels/codegen/llvm/contraction.h"

#include <algorithm>
#include <vector>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/nest_emitter.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Intrinsics.h"

namespace rvm::codegen {
namespace {

using llvm::Value;
using te::Expr;

int64_t Lanes(const TargetFacts& target, DataType dtype) { return target.vector_bits / dtype.bits; }

class ContractionEmitter {
 public:
  ContractionEmitter(const ContractionSite& site, llvm::function_ref<void(Value*)> finish)
      : b_(site.b), e_(site.e), s_(site), c_(*site.nest.contraction), finish_(finish) {
    reduce_ = site.nest.tensors[0].value.get();
    dtype_ = reduce_->operands[0].dtype();
    lanes_ = Lanes(site.target, dtype_);
    panel_ = PanelColumns(site.target, dtype_, c_);
    vectors_ = panel_ / lanes_;
    one_row_ = c_.rows == Dim(1);
    // Accumulators, a panel's vectors and one broadcast must fit the registers.
    int64_t rows = (site.target.registers - vectors_ - 1) / vectors_;
    rows_ = one_row_ ? 1 : std::min<int64_t>(rows, 8);
    if (c_.rows.is_const()) rows_ = std::min(rows_, std::max<int64_t>(c_.rows.constant(), 1));
    vector_ = llvm::FixedVectorType::get(e_.RegisterType(dtype_), static_cast<unsigned>(lanes_));
  }

  Dim Run();

 private:
  void EmitSums(Value* row, int64_t height, Value* panel);
  void EmitRows(Value* panel);
  std::vector<Value*> EmitStep(Value* row, int64_t height, Value* weights, Value* k, int64_t ahead,
                               std::vector<Value*> sums);
  void EmitEpilogue(Value* row, Value* height, Value* panel);
  int64_t CostOfTile(int64_t depth) const;
  int64_t SumsPerElement(int64_t height) const;
  Value* I64(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const ContractionSite& s_;
  const te::Contraction& c_;
  llvm::function_ref<void(Value*)> finish_;
  const te::ExprNode* reduce_;
  DataType dtype_;
  int64_t lanes_, panel_, vectors_, rows_;
  bool one_row_;
  llvm::FixedVectorType* vector_;
  llvm::AllocaInst* tile_ = nullptr;
  const te::TensorNode* weight_ = nullptr;
};

// Few sums in flight would wait for each other: then the depth is summed in strands.
int64_t ContractionEmitter::SumsPerElement(int64_t height) const {
  int64_t sums = height * vectors_;
  int64_t strands = sums >= 8 ? 1 : sums >= 4 ? 2 : 4;
  return std::min<int64_t>(strands, std::max<int64_t>(c_.depth.constant(), 1));
}

std::vector<Value*> ContractionEmitter::EmitStep(Value* row, int64_t height, Value* weights, Value* k, int64_t ahead,
                                                 std::vector<Value*> sums) {
  llvm::Type* element = vector_->getElementType();
  Value* at = b_.CreateNSWAdd(k, I64(ahead));
  llvm::SmallVector<Value*, 8> w;
  for (int64_t v = 0; v < vectors_; ++v) {
    Value* offset = b_.CreateNSWAdd(b_.CreateNSWMul(at, I64(panel_)), I64(v * lanes_));
    w.push_back(b_.CreateAlignedLoad(vector_, b_.CreateInBoundsGEP(element, weights, offset), llvm::Align(4)));
  }
  e_.OpenScope();
  e_.Bind(reduce_->axes[0], at);
  for (int64_t r = 0; r < height; ++r) {
    e_.OpenScope();
    if (!one_row_ && s_.nest.axes.size() == 2) e_.Bind(s_.nest.axes[0], b_.CreateNSWAdd(row, I64(r)));
    Value* a = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), e_.Emit(c_.a));
    e_.CloseScope();
    for (int64_t v = 0; v < vectors_; ++v) {
      Value*& sum = sums[static_cast<size_t>(r * vectors_ + v)];
      sum = b_.CreateIntrinsic(llvm::Intrinsic::fmuladd, {vector_}, {a, w[static_cast<size_t>(v)], sum});
    }
  }
  e_.CloseScope();
  return sums;
}

// Of so much depth, as loops count: sums of vectors, many of them at once.
int64_t ContractionEmitter::CostOfTile(int64_t depth) const {
  return CostOfTurns(std::max<int64_t>(rows_ * vectors_ / 8, 1), depth);
}

// Into the tile buffer.
void ContractionEmitter::EmitSums(Value* row, int64_t height, Value* panel) {
  int64_t depth = c_.depth.constant();
  Value* first = b_.CreateNSWMul(panel, I64(depth * panel_));
  Value* weights = b_.CreateInBoundsGEP(vector_->getElementType(), e_.pointers.at(weight_), first);
  int64_t strands = SumsPerElement(height);
  auto per_strand = static_cast<size_t>(height * vectors_);
  std::vector<Value*> zero(per_strand * static_cast<size_t>(strands), llvm::Constant::getNullValue(vector_));
  auto step = [&](Value* k, int64_t count, const std::vector<Value*>& sums) {
    std::vector<Value*> next = sums;
    for (int64_t s = 0; s < count; ++s) {
      auto from = next.begin() + static_cast<std::ptrdiff_t>(per_strand) * (s % strands);
      std::vector<Value*> strand =
          EmitStep(row, height, weights, k, s, {from, from + static_cast<std::ptrdiff_t>(per_strand)});
      std::copy(strand.begin(), strand.end(), from);
    }
    return next;
  };
  // Tiles of left-over rows run once for each panel: small code counts more there.
  int64_t wished = height < rows_ ? strands : height * vectors_ >= 16 ? 2 : 4;
  int64_t unroll = std::min<int64_t>(depth, std::max<int64_t>(strands, wished));
  int64_t whole = depth / unroll * unroll;
  std::vector<Value*> sums =
      EmitStoppableLoop(b_, {I64(0), I64(whole), whole, unroll}, s_.cancel, CostOfTile(unroll), zero,
                        [&](Value* k, const std::vector<Value*>& carried) { return step(k, unroll, carried); });
  if (whole < depth) sums = step(I64(whole), depth - whole, sums);
  for (int64_t s = 1; s < strands; ++s) {
    for (size_t i = 0; i < per_strand; ++i)
      sums[i] = b_.CreateFAdd(sums[i], sums[i + per_strand * static_cast<size_t>(s)]);
  }
  for (size_t i = 0; i < per_strand; ++i) {
    Value* to = b_.CreateInBoundsGEP(vector_->getElementType(), tile_, I64(static_cast<int64_t>(i) * lanes_));
    b_.CreateAlignedStore(sums[i], to, llvm::Align(16));
  }
}

void ContractionEmitter::EmitEpilogue(Value* row, Value* height, Value* panel) {
  llvm::Type* element = vector_->getElementType();
  Value* column = b_.CreateNSWMul(panel, I64(panel_));
  int64_t columns = c_.columns.constant();
  Value* width = I64(panel_);
  if (columns % panel_ != 0)
    width = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateNSWSub(I64(columns), column), width);
  auto row_of_tile = [&](Value* r) {
    e_.OpenScope();
    if (s_.nest.axes.size() == 2) e_.Bind(s_.nest.axes[0], b_.CreateNSWAdd(row, r));
    EmitLoop(
        b_, I64(0), width, 1, {},
        [&](Value* i, const std::vector<Value*>&) -> std::vector<Value*> {
          e_.OpenScope();
          e_.Bind(s_.nest.axes.back(), b_.CreateNSWAdd(column, i));
          Value* at = b_.CreateNSWAdd(b_.CreateNSWMul(r, I64(panel_)), i);
          finish_(b_.CreateLoad(element, b_.CreateInBoundsGEP(element, tile_, at)));
          e_.CloseScope();
          return {};
        },
        s_.independent);
    e_.CloseScope();
  };
  if (one_row_) return row_of_tile(I64(0));
  EmitLoop(b_, I64(0), height, 1, {}, [&](Value* r, const std::vector<Value*>&) -> std::vector<Value*> {
    row_of_tile(r);
    return {};
  });
}

void ContractionEmitter::EmitRows(Value* panel) {
  if (one_row_) {
    EmitSums(I64(0), 1, panel);
    return EmitEpilogue(I64(0), I64(1), panel);
  }
  std::vector<int64_t> heights;  // of tiles that may occur
  for (int64_t height = 1; height <= rows_; ++height) {
    bool occurs =
        !c_.rows.is_const() || height == c_.rows.constant() % rows_ || (height == rows_ && c_.rows.constant() >= rows_);
    if (occurs) heights.push_back(height);
  }
  Value* rows = e_.EmitExtent(c_.rows);
  LoopRange range{I64(0), rows, c_.rows, rows_};
  EmitStoppableLoop(b_, range, s_.cancel, CostOfTile(c_.depth.constant()), {},
                    [&](Value* row, const std::vector<Value*>&) -> std::vector<Value*> {
                      Value* height =
                          b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateNSWSub(rows, row), I64(rows_));
                      llvm::Function* function = b_.GetInsertBlock()->getParent();
                      llvm::BasicBlock* never = llvm::BasicBlock::Create(b_.getContext(), "never", function);
                      llvm::BasicBlock* done = llvm::BasicBlock::Create(b_.getContext(), "summed", function);
                      llvm::SwitchInst* choice = b_.CreateSwitch(height, never, static_cast<unsigned>(heights.size()));
                      b_.SetInsertPoint(never);
                      b_.CreateUnreachable();
                      for (int64_t h : heights) {
                        llvm::BasicBlock* block = llvm::BasicBlock::Create(b_.getContext(), "rows", function);
                        choice->addCase(b_.getInt64(static_cast<uint64_t>(h)), block);
                        b_.SetInsertPoint(block);
                        EmitSums(row, h, panel);
                        b_.CreateBr(done);
                      }
                      b_.SetInsertPoint(done);
                      EmitEpilogue(row, height, panel);
                      return {};
                    });
}

Dim ContractionEmitter::Run() {
  for (const te::ExprNode* node : te::Postorder({s_.nest.tensors[0].value})) {
    bool constant = node->kind == te::ExprKind::kRead && node->tensor->kind == te::TensorKind::kInput &&
                    node->tensor->input_index == c_.input;
    if (constant) weight_ = node->tensor.get();
  }
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  tile_ = at_entry.CreateAlloca(vector_->getElementType(), at_entry.getInt64(static_cast<uint64_t>(rows_ * panel_)));
  tile_->setAlignment(llvm::Align(64));
  int64_t cost = CostOfTurns(CostOfTile(c_.depth.constant()), FloorDiv(c_.rows + (rows_ - 1), rows_));
  Dim panels = FloorDiv(c_.columns + (panel_ - 1), panel_);
  LoopRange range{s_.begin, s_.end, panels};
  EmitStoppableLoop(b_, range, s_.cancel, cost, {},
                    [&](Value* panel, const std::vector<Value*>&) -> std::vector<Value*> {
                      e_.OpenScope();
                      EmitRows(panel);
                      e_.CloseScope();
                      return {};
                    });
  return panels;
}

}  // namespace

int64_t PanelColumns(const TargetFacts& target, DataType dtype, const te::Contraction& contraction) {
  int64_t lanes = Lanes(target, dtype);
  int64_t vectors = target.registers >= 32 ? 4 : 2;
  // Narrow matrices are not padded to more than the next vector.
  int64_t needed = (contraction.columns.constant() + lanes - 1) / lanes;
  return lanes * std::clamp<int64_t>(needed, 1, vectors);
}

Dim EmitContraction(const ContractionSite& site, llvm::function_ref<void(Value*)> finish) {
  return ContractionEmitter(site, finish).Run();
}

}  // namespace rvm::codegen
