#include "kernels/codegen/llvm/byte_tables.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/codegen/llvm/lane_functions.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace rvm::codegen {
namespace {

using llvm::Value;

constexpr int64_t kTable = 256;
constexpr unsigned kVector = 64;  // bytes
constexpr const char* kName = "rvm.byte";
// The numbers of lanes of vectors that may look up bytes.
constexpr unsigned kLanes[] = {2, 4, 8, 16, 32, kVector};

std::string VectorName(unsigned lanes) { return absl::StrCat(kName, ".", lanes); }

llvm::Function* Declare(llvm::Module& module, const std::string& name, llvm::Type* type) {
  llvm::Type* parameters[] = {llvm::PointerType::getUnqual(module.getContext()), type};
  return DeclareLaneFunction(module, name, llvm::FunctionType::get(type, parameters, false));
}

bool HasPermutations(const llvm::Function& function) {
  llvm::SmallVector<llvm::StringRef, 64> features;
  function.getFnAttribute("target-features").getValueAsString().split(features, ',');
  return llvm::is_contained(features, "+avx512vbmi");
}

Value* LoadByte(llvm::IRBuilder<>& b, Value* table, Value* index) {
  return b.CreateLoad(b.getInt8Ty(), b.CreateInBoundsGEP(b.getInt8Ty(), table, b.CreateZExt(index, b.getInt64Ty())));
}

// Looks up bytes by two permutations of halves of the table.
Value* Permuted(llvm::IRBuilder<>& b, Value* table, Value* indices) {
  auto* vector = llvm::FixedVectorType::get(b.getInt8Ty(), kVector);
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(indices->getType())->getNumElements();
  std::vector<int> widened(kVector, -1), narrowed(lanes);
  std::iota(widened.begin(), widened.begin() + lanes, 0);
  std::iota(narrowed.begin(), narrowed.end(), 0);
  Value* wide = b.CreateShuffleVector(indices, widened);
  auto half = [&](int64_t first) {
    auto load = [&](int64_t at) {
      return b.CreateAlignedLoad(vector, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), table, static_cast<uint64_t>(at)),
                                 llvm::Align(1));
    };
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_qi_512, {},
                             {load(first), wide, load(first + kVector)});
  };
  Value* is_upper = b.CreateICmpSLT(wide, llvm::Constant::getNullValue(vector));
  return b.CreateShuffleVector(b.CreateSelect(is_upper, half(kTable / 2), half(0)), narrowed);
}

void Expand(llvm::CallInst& call) {
  llvm::IRBuilder<> b(&call);
  Value *table = call.getArgOperand(0), *index = call.getArgOperand(1);
  Value* found;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(index->getType());
  if (vector == nullptr) {
    found = LoadByte(b, table, index);
  } else if (HasPermutations(*call.getFunction())) {
    found = Permuted(b, table, index);
  } else {
    found = llvm::PoisonValue::get(vector);
    for (uint64_t lane = 0; lane < vector->getNumElements(); ++lane) {
      found = b.CreateInsertElement(found, LoadByte(b, table, b.CreateExtractElement(index, lane)), lane);
    }
  }
  call.replaceAllUsesWith(found);
  call.eraseFromParent();
}

}  // namespace

bool IsByteLookup(const te::ExprNode& read) {
  const te::ExprNode& offset = *read.operands[0];
  return read.dtype.bits == 8 && !read.dtype.is_bool() && NumElements(read.tensor.dims()) == Dim(kTable) &&
         read.tensor->kind == te::TensorKind::kInput && offset.kind == te::ExprKind::kCast &&
         offset.operands[0].dtype() == kUInt8;
}

Value* CallByteLookup(llvm::IRBuilder<>& b, Value* table, Value* index) {
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  std::vector<std::string> variants;
  for (unsigned lanes : kLanes) {
    Declare(module, VectorName(lanes), llvm::FixedVectorType::get(b.getInt8Ty(), lanes));
    variants.push_back(absl::StrCat("_ZGV_LLVM_N", lanes, "uv_", kName, "(", VectorName(lanes), ")"));
  }
  llvm::CallInst* call = b.CreateCall(Declare(module, kName, b.getInt8Ty()), {table, index});
  call->addFnAttr(llvm::Attribute::get(b.getContext(), "vector-function-abi-variant", absl::StrJoin(variants, ",")));
  return call;
}

bool ExpandByteLookups(llvm::Module& module) {
  std::vector<std::string> names = {kName};
  for (unsigned lanes : kLanes) names.push_back(VectorName(lanes));
  std::vector<llvm::CallInst*> calls;
  for (const std::string& name : names) {
    llvm::Function* declared = module.getFunction(name);
    if (declared == nullptr) continue;
    for (llvm::User* user : declared->users()) calls.push_back(llvm::cast<llvm::CallInst>(user));
  }
  for (llvm::CallInst* call : calls) Expand(*call);
  return !calls.empty();
}

}  // namespace rvm::codegen
