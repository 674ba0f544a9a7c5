#include "vm/forecast/waiting_calls.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/dim.h"
#include "vm/forecast/path.h"
#include "vm/interpreter/pending_calls.h"
#include "vm/memory/heap.h"
#include "vm/memory/object.h"

namespace rvm::vm::forecast {
namespace {

using Symbols = std::span<const int64_t>;

// Larger numbers are not told apart; sums of them do not overflow.
constexpr int64_t kMaxBytes = int64_t{1} << 50;

int64_t Plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMaxBytes : std::min(sum, kMaxBytes);
}

int64_t Times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMaxBytes : std::min(product, kMaxBytes);
}

int64_t ElementBytes(const KernelInfo::TensorInfo& tensor, Symbols symbols) {
  int64_t bytes = tensor.dtype.bytes();
  for (const DimProgram& dim : tensor.programs) {
    bytes = Times(bytes, std::max<int64_t>(dim.Evaluate(symbols).value_or(0), 0));
  }
  return bytes;
}

int64_t HeaderBytes(const KernelInfo::TensorInfo& tensor) {
  return RoundUp64(static_cast<int64_t>(sizeof(Tensor) + tensor.programs.size() * sizeof(int64_t)));
}

// Returns whether calls of the kernel may wait: KernelCaller::Waits.
bool MayWait(const KernelInfo& kernel) {
  return kernel.batch != nullptr ||
         std::ranges::none_of(kernel.results, [](const KernelInfo::TensorInfo& result) { return result.scalar; });
}

// Returns the size of a result, with its part of blocks.
int64_t ResultBytes(const KernelInfo& kernel, const KernelInfo::TensorInfo& result, Symbols symbols) {
  int64_t header = HeaderBytes(result), bytes = ElementBytes(result, symbols);
  bool has_block = kernel.batch != nullptr && kernel.is_static;
  // The header of a block is that of a tensor of one axis; each block has more than one row.
  if (has_block) return Plus(2 * header, Plus(Times(PendingCalls::kBlockGrowth, bytes), 64));
  return Plus(header, RoundUp64(result.grows ? GrownCapacity(bytes) : bytes));
}

// Returns the workspace of the variant, for as many calls as it makes at once.
int64_t VariantWorkspace(const LinkInfo& link, const KernelInfo& kernel, Symbols symbols) {
  const BatchVariant& batch = *kernel.batch;
  const KernelInfo& variant = link.kernels[batch.variant.value];
  int64_t row = 0, shared = 0;
  for (uint32_t p = 0; p < kernel.params.size(); ++p) {
    int64_t& sum = batch.IsShared(p) ? shared : row;
    sum = Plus(sum, ElementBytes(kernel.params[p], symbols));
  }
  for (const KernelInfo::TensorInfo& result : kernel.results) {
    if (!batch.accumulator) row = Plus(row, ElementBytes(result, symbols));
  }
  size_t fit = PendingCalls::RowsThatFit(batch, {.bytes = static_cast<size_t>(row),
                                                 .shared = static_cast<size_t>(shared),
                                                 .tensors = kernel.params.size() + kernel.results.size()});
  auto count = static_cast<int64_t>(std::min<size_t>(fit, PendingCalls::kMaxCalls));
  std::vector<int64_t> values(variant.desc->num_symbols);
  for (const KernelInfo::Bind& bind : variant.binds) {
    if (bind.symbol < 0) continue;
    bool is_shared = batch.IsShared(bind.param);
    int64_t& value = values[static_cast<size_t>(bind.symbol)];
    if (!is_shared && bind.axis == 0) {
      value = count;
    } else {
      value = kernel.params[bind.param].programs[bind.axis - (is_shared ? 0 : 1)].Evaluate(symbols).value_or(0);
    }
  }
  int64_t bytes = count < 2 ? 0 : WorkspaceBytes(variant.workspace, values);
  return bytes == Heap::kUncountable ? 0 : bytes;  // it runs its calls one by one
}

// Returns the most that matrices take which kernels have arranged for variants.
int64_t PanelBytes(const LinkInfo& link) {
  absl::flat_hash_set<uint32_t> kernels;
  for (const KernelInfo& kernel : link.kernels) {
    if (kernel.batch == nullptr) continue;
    for (const BatchVariant::Arranged& arranged : kernel.batch->arranged) kernels.insert(arranged.kernel.value);
  }
  int64_t bytes = 0;
  for (uint32_t kernel : kernels) {
    const KernelInfo::TensorInfo& panels = link.kernels[kernel].results[0];
    bytes = Plus(bytes, Times(PendingCalls::kMaxPanels, Plus(HeaderBytes(panels), RoundUp64(panels.bytes))));
  }
  return bytes;
}

}  // namespace

WaitingCall ForecastWaiting(const LinkInfo& link, const KernelInfo& kernel, const Operand& args, Symbols symbols) {
  WaitingCall call;
  if (!MayWait(kernel)) return call;
  for (uint32_t p = 0; p < kernel.params.size(); ++p) {
    const KernelInfo::TensorInfo& param = kernel.params[p];
    if (param.scalar || (args.u16(p) & kConstantArg) != 0) continue;
    call.bytes = Plus(call.bytes, Plus(HeaderBytes(param), RoundUp64(ElementBytes(param, symbols))));
  }
  for (const KernelInfo::TensorInfo& result : kernel.results) {
    if (!result.scalar) call.bytes = Plus(call.bytes, ResultBytes(kernel, result, symbols));
  }
  if (kernel.batch != nullptr) call.workspace_bytes = Plus(VariantWorkspace(link, kernel, symbols), PanelBytes(link));
  return call;
}

}  // namespace rvm::vm::forecast
