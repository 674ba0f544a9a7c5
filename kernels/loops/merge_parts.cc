#include "kernels/loops/merge_parts.h"

#include <algorithm>

#include "kernels/schedule/block.h"

namespace rvm::loops {
namespace {

// Maximum number of reductions that are merged at once, which bounds the shared memory.
constexpr size_t kMaxAtOnce = 4;
// Maximum number of parts that a thread merges between two barriers.
constexpr int64_t kMaxFan = 4;

}  // namespace

std::vector<Reduction::Memory> PartMerger::TakeMemory(std::span<Pending> reductions) {
  absl::flat_hash_map<DataType, size_t> taken;
  std::vector<Reduction::Memory> memory;
  for (Pending& pending : reductions) {
    Reduction::Memory& arrays = memory.emplace_back();
    for (DataType type : pending.reduction.types()) {
      std::vector<BufferId>& known = arrays_[RegisterType(type)];
      size_t next = taken[RegisterType(type)]++;
      if (next == known.size()) known.push_back(b_.NewShared(type, schedule::kBlockThreads));
      arrays.push_back(known[next]);
    }
  }
  return memory;
}

void PartMerger::MergeSome(std::span<Pending> reductions, const Parts& parts, bool to_all) {
  if (is_in_use_) b_.Barrier();
  is_in_use_ = true;
  std::vector<Reduction::Memory> memory = TakeMemory(reductions);
  auto each = [&](absl::FunctionRef<void(Pending&, const Reduction::Memory&)> emit) {
    for (size_t i = 0; i < reductions.size(); ++i) emit(reductions[i], memory[i]);
  };
  Value place = b_.thread();
  each([&](Pending& p, const Reduction::Memory& at) { p.reduction.Store(at, place, p.partial); });
  for (int64_t width = parts.threads; width > 1;) {
    int64_t fan = std::min(kMaxFan, width);
    width /= fan;
    b_.Barrier();
    b_.If(b_.IsBelow(parts.part, b_.Number(width)), [&] {
      each([&](Pending& p, const Reduction::Memory& at) {
        Reduction::Partial merged = p.reduction.Load(at, place);
        for (int64_t i = 1; i < fan; ++i) {
          Value other = b_.Plus(place, b_.Number(i * width * parts.apart));
          merged = p.reduction.Merge(merged, p.reduction.Load(at, other));
        }
        p.reduction.Store(at, place, merged);
      });
    });
  }
  if (to_all) {
    b_.Barrier();
    place = b_.Minus(place, b_.Times(parts.part, b_.Number(parts.apart)));
  }
  // The other parts read what they stored last.
  each([&](Pending& p, const Reduction::Memory& at) { p.partial = p.reduction.Load(at, place); });
}

void PartMerger::Merge(std::span<Pending> reductions, const Parts& parts, bool to_all) {
  for (size_t i = 0; i < reductions.size(); i += kMaxAtOnce) {
    MergeSome(reductions.subspan(i, std::min(kMaxAtOnce, reductions.size() - i)), parts, to_all);
  }
}

}  // namespace rvm::loops
