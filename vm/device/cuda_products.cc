#include "vm/device/cuda_products.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/device_contract.h"

namespace rvm::device::cuda {
namespace {

namespace lt = cublaslt;

constexpr size_t kMaxPlans = 512;
constexpr uint64_t kMaxAlignment = 256;  // bytes; the library does not look further

int32_t TypeOf(DataType dtype) {
  return dtype == kFloat64    ? lt::kReal64
         : dtype == kFloat16  ? lt::kReal16
         : dtype == kBFloat16 ? lt::kRealB16
                              : lt::kReal32;
}

// Owns an object of the library.
template <typename T>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (object_ != nullptr) destroy_(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T get() const { return object_; }
  // Returns the address for the function that makes the object. REQUIRES: it is called once.
  T* Made(lt::Status (*destroy)(T)) {
    destroy_ = destroy;
    return &object_;
  }

 private:
  T object_ = nullptr;
  lt::Status (*destroy_)(T) = nullptr;
};

// A matrix stored by columns.
struct ByColumns {
  int64_t rows, columns, stride;
  bool is_transposed;  // what is wanted is its transpose
};

// Returns the transpose of a matrix of `rows` x `columns`; nullopt if its elements are not contiguous along either.
std::optional<ByColumns> Transposed(const Matrix& matrix, int64_t rows, int64_t columns) {
  if (matrix.column_stride == 1 && matrix.row_stride >= columns)
    return ByColumns{columns, rows, matrix.row_stride, false};
  if (matrix.row_stride == 1 && matrix.column_stride >= rows)
    return ByColumns{rows, columns, matrix.column_stride, true};
  return std::nullopt;
}

Address FirstOf(const Matrix& matrix) { return AddressOf(*matrix.block) + static_cast<Address>(matrix.offset); }
void* PointerTo(const Matrix& matrix) { return reinterpret_cast<void*>(FirstOf(matrix)); }
uint32_t AlignmentOf(const Matrix& matrix) {
  Address first = FirstOf(matrix);
  return static_cast<uint32_t>(std::min(first & -first, kMaxAlignment));
}

const Matrix* FindAddend(const Product& product, bool is_bias) {
  for (const Matrix& addend : product.addends) {
    if (device_contract::IsBias(addend) == is_bias) return &addend;
  }
  return nullptr;
}

// Returns the library's c: what is added to the sums; d, which is not read, if there is nothing.
const Matrix& MatrixC(const Product& product) {
  const Matrix* addend = FindAddend(product, false);
  return addend == nullptr ? product.d : *addend;
}

bool IsWithin(const Matrix& matrix, int64_t batches, int64_t rows, int64_t columns) {
  int64_t last = 0, bytes = 0;
  for (auto [stride, extent] : {std::pair(matrix.batch_stride, batches), std::pair(matrix.row_stride, rows),
                                std::pair(matrix.column_stride, columns)}) {
    int64_t step = 0;
    if (__builtin_mul_overflow(stride, extent - 1, &step) || __builtin_add_overflow(last, step, &last)) return false;
  }
  return !__builtin_mul_overflow(last + 1, matrix.dtype.bytes(), &bytes) &&
         !__builtin_add_overflow(bytes, matrix.offset, &bytes) &&
         bytes <= static_cast<const CudaBlock&>(*matrix.block).bytes();
}

bool IsWithinBlocks(const Product& p) {
  bool is_within = IsWithin(p.a, p.batches, p.rows, p.depth) && IsWithin(p.b, p.batches, p.depth, p.columns) &&
                   IsWithin(p.d, p.batches, p.rows, p.columns);
  for (const Matrix& addend : p.addends) is_within &= IsWithin(addend, p.batches, p.rows, p.columns);
  return is_within;
}

}  // namespace

std::string LibraryText() {
  absl::StatusOr<const lt::Api*> api = lt::Load();
  return api.ok() ? lt::Describe(**api) : std::string(api.status().message());
}

struct ProductPlan {
  Owned<lt::MatmulDesc> desc;
  Owned<lt::Layout> a, b, c, d;  // as the library has them: its a is our b
  lt::Algorithm algorithm;
  size_t workspace_bytes;
  bool is_double, adds_matrix;
  Address bias = 0;  // that `desc` has; 0: none is added
  bool is_refused = false;
};

namespace {

// Values of a product as work: addresses of the library's matrices, of biases and workspace, or 0; bits of the scale.
enum Value : size_t { kA, kB, kC, kD, kBias, kWorkspace, kScale, kNumValues };

}  // namespace

LibraryProducts::LibraryProducts(const Core& core, Stream stream) : core_(core), stream_(stream) {}
LibraryProducts::~LibraryProducts() {
  plans_.clear();
  if (handle_ != nullptr) lt_->Destroy(handle_);
}

bool LibraryProducts::IsThere() {
  if (!was_opened_) {
    was_opened_ = true;
    description_ = LibraryText();
    absl::StatusOr<const lt::Api*> api = lt::Load();
    if (!api.ok()) return false;
    lt_ = *api;
    // Fails if the library is for a later driver, or needs more memory than there is.
    if (lt::Status status = lt_->Create(&handle_); status != 0) {
      handle_ = nullptr;
      absl::StrAppend(&description_, ", which is not used: cublasLtCreate gives status ", status);
    }
  }
  return handle_ != nullptr;
}

LibraryProducts::Key LibraryProducts::KeyOf(const Product& product, int64_t workspace_bytes) {
  Key key = {product.batches, product.rows, product.columns, product.depth, workspace_bytes, product.allows_tf32};
  size_t at = 6;
  const Matrix none = {nullptr, product.d.dtype, 0, 0, 0, 0};
  const Matrix *addend = FindAddend(product, false), *bias = FindAddend(product, true);
  for (const Matrix* matrix : {&product.a, &product.b, &product.d, addend == nullptr ? &none : addend}) {
    int64_t alignment = matrix->block == nullptr ? 0 : AlignmentOf(*matrix);
    for (int64_t part :
         {matrix->batch_stride, matrix->row_stride, matrix->column_stride, alignment, int64_t{TypeOf(matrix->dtype)}}) {
      key[at++] = part;
    }
  }
  key[at++] = static_cast<int64_t>(product.addends.size());
  key[at++] = bias == nullptr ? 0 : AlignmentOf(*bias);
  return key;
}

void LibraryProducts::Forget() { plans_.clear(); }
bool LibraryProducts::IsFull() const { return plans_.size() >= kMaxPlans; }

absl::StatusOr<const ProductWork*> LibraryProducts::Prepare(const Product& product, const Block* workspace) {
  if (!IsWithinBlocks(product)) {
    return absl::InvalidArgumentError(
        "the executable has a product of matrices that do not lie in the memory of their tensors");
  }
  int64_t workspace_bytes = workspace == nullptr ? 0 : static_cast<const CudaBlock&>(*workspace).bytes();
  auto [found, is_new] = plans_.try_emplace(KeyOf(product, workspace_bytes));
  if (is_new) found->second = MakePlan(product, static_cast<uint64_t>(workspace_bytes));
  ProductPlan* plan = found->second.get();
  if (plan == nullptr || plan->is_refused) return nullptr;
  const Matrix* bias = FindAddend(product, true);
  work_.plan = plan;
  work_.values.resize(kNumValues);
  work_.values[kA] = FirstOf(product.b);
  work_.values[kB] = FirstOf(product.a);
  work_.values[kC] = FirstOf(MatrixC(product));
  work_.values[kD] = FirstOf(product.d);
  work_.values[kBias] = bias == nullptr ? 0 : FirstOf(*bias);
  work_.values[kWorkspace] = plan->workspace_bytes == 0 ? 0 : AddressOf(*workspace);
  work_.values[kScale] = std::bit_cast<uint64_t>(product.scale);
  return &work_;
}

std::unique_ptr<ProductPlan> LibraryProducts::MakePlan(const Product& product, uint64_t workspace_bytes) {
  auto plan = std::make_unique<ProductPlan>();
  bool is_found = Describe(product, *plan) && ChooseAlgorithm(product, workspace_bytes, *plan);
  return is_found ? std::move(plan) : nullptr;
}

bool LibraryProducts::Describe(const Product& product, ProductPlan& plan) const {
  const Matrix *addend = FindAddend(product, false), *bias = FindAddend(product, true);
  const Matrix& c = MatrixC(product);
  std::optional<ByColumns> of_a = Transposed(product.b, product.depth, product.columns),
                           of_b = Transposed(product.a, product.rows, product.depth),
                           of_c = Transposed(c, product.rows, product.columns),
                           of_d = Transposed(product.d, product.rows, product.columns);
  size_t known_addends = (addend != nullptr ? 1 : 0) + (bias != nullptr ? 1 : 0);
  bool fits = of_a && of_b && of_c && of_d && !of_c->is_transposed && !of_d->is_transposed &&
              known_addends == product.addends.size();
  if (!fits || std::max({product.batches, product.rows, product.columns, product.depth}) > INT32_MAX) return false;

  bool is_double = product.a.dtype == kFloat64, rounds = product.allows_tf32 && product.a.dtype == kFloat32;
  plan.is_double = is_double;
  plan.adds_matrix = addend != nullptr;
  plan.bias = bias == nullptr ? 0 : FirstOf(*bias);
  int32_t sums = is_double ? lt::kCompute64 : rounds ? lt::kCompute32Tf32 : lt::kCompute32;
  lt::MatmulDesc* desc = plan.desc.Made(lt_->MatmulDescDestroy);
  if (lt_->MatmulDescCreate(desc, sums, is_double ? lt::kReal64 : lt::kReal32) != 0) return false;
  auto set = [&](int32_t attribute, auto value) {
    return lt_->MatmulDescSetAttribute(*desc, attribute, &value, sizeof(value)) == 0;
  };
  auto make_layout = [&](const Matrix& matrix, const ByColumns& of, Owned<lt::Layout>& made) {
    auto batches = static_cast<int32_t>(product.batches);
    return lt_->LayoutCreate(made.Made(lt_->LayoutDestroy), TypeOf(matrix.dtype), static_cast<uint64_t>(of.rows),
                             static_cast<uint64_t>(of.columns), of.stride) == 0 &&
           lt_->LayoutSetAttribute(made.get(), lt::kBatchCount, &batches, sizeof(batches)) == 0 &&
           lt_->LayoutSetAttribute(made.get(), lt::kBatchStride, &matrix.batch_stride, sizeof(int64_t)) == 0;
  };
  return (!of_a->is_transposed || set(lt::kTransposeA, lt::kTransposed)) &&
         (!of_b->is_transposed || set(lt::kTransposeB, lt::kTransposed)) &&
         (bias == nullptr || (set(lt::kEpilogue, lt::kAddBias) && set(lt::kBiasPointer, PointerTo(*bias)))) &&
         make_layout(product.b, *of_a, plan.a) && make_layout(product.a, *of_b, plan.b) &&
         make_layout(c, *of_c, plan.c) && make_layout(product.d, *of_d, plan.d);
}

// Sums keep their type and their order, so that results are the same each time.
bool LibraryProducts::ChooseAlgorithm(const Product& product, uint64_t workspace_bytes, ProductPlan& plan) const {
  Owned<lt::Preference> preference;
  if (lt_->PreferenceCreate(preference.Made(lt_->PreferenceDestroy)) != 0) return false;
  auto prefer = [&](int32_t attribute, auto value) {
    return lt_->PreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)) == 0;
  };
  bool is_asked = prefer(lt::kMaxWorkspace, workspace_bytes) && prefer(lt::kReductionSchemes, lt::kSumsInWorkspace) &&
                  prefer(lt::kAlignmentA, AlignmentOf(product.b)) && prefer(lt::kAlignmentB, AlignmentOf(product.a)) &&
                  prefer(lt::kAlignmentC, AlignmentOf(MatrixC(product))) &&
                  prefer(lt::kAlignmentD, AlignmentOf(product.d));
  lt::Heuristic best = {};
  int32_t count = 0;
  if (!is_asked || lt_->GetHeuristic(handle_, plan.desc.get(), plan.a.get(), plan.b.get(), plan.c.get(), plan.d.get(),
                                     preference.get(), 1, &best, &count) != 0) {
    return false;
  }
  plan.algorithm = best.algorithm;
  plan.workspace_bytes = best.workspace_bytes;
  return count == 1 && best.status == 0 && best.workspace_bytes <= workspace_bytes;
}

int32_t LibraryProducts::Queue(ProductPlan* plan, std::span<const uint64_t> values, Stream stream) {
  auto pointer = [&](Value value) { return reinterpret_cast<void*>(values[value]); };
  double scale = std::bit_cast<double>(values[kScale]), scale_of_c = plan->adds_matrix ? 1 : 0;
  auto scale32 = static_cast<float>(scale), scale_of_c32 = static_cast<float>(scale_of_c);
  const void *alpha = plan->is_double ? static_cast<void*>(&scale) : &scale32,
             *beta = plan->is_double ? static_cast<void*>(&scale_of_c) : &scale_of_c32;
  if (plan->bias != values[kBias]) {
    void* biases = pointer(kBias);
    lt::Status status = lt_->MatmulDescSetAttribute(plan->desc.get(), lt::kBiasPointer, &biases, sizeof(biases));
    if (status != 0) return status;
    plan->bias = values[kBias];
  }
  return lt_->Matmul(handle_, plan->desc.get(), alpha, pointer(kA), plan->a.get(), pointer(kB), plan->b.get(), beta,
                     pointer(kC), plan->c.get(), pointer(kD), plan->d.get(), &plan->algorithm, pointer(kWorkspace),
                     plan->workspace_bytes, stream);
}

absl::StatusOr<bool> LibraryProducts::Outcome(ProductPlan* plan, int32_t status) {
  if (status == 0) return true;
  if (status == lt::kNotSupported || status == lt::kInvalidValue) {
    plan->is_refused = true;
    return false;
  }
  // The driver knows if the device is lost.
  Result result = core_.cu->StreamQuery(stream_);
  if (result != kNotReady) RVM_RETURN_IF_ERROR(core_.Check(result, "StreamQuery"));
  return absl::InternalError(
      absl::StrCat("device ", core_.info.id, " (", core_.info.name, "): cublasLtMatmul gives status ", status));
}

}  // namespace rvm::device::cuda
