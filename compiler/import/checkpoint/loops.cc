#include "compiler/import/checkpoint/loops.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "base/abseil.h"
#include "compiler/import/checkpoint/expressions.h"

namespace rvm::checkpoint {

std::string StepText(std::string_view cache, int64_t vocabulary) {
  const std::string logits = FloatTensor(absl::StrCat(vocabulary)), rows = FloatTensor(absl::StrCat("t, ", vocabulary));
  return absl::Substitute(R"(def @score(%cache: $0, %tokens: Tensor[(t), int32]) -> ($0, $2) {
  let (%next, %x) = @forward(%cache, %tokens);
  (%next, @head(%x))
}
def @read(%cache: $0, %tokens: Tensor[(t), int32]) -> ($0, $1) {
  let (%next, %x) = @forward(%cache, %tokens);
  (%next, reshape(@head(@last_token(%x)), newshape=[-1]))
}
def @step(%cache: $0, %token: int32) -> ($0, $1) {
  let (%next, %x) = @forward(%cache, expand_dims(%token, axis=0));
  (%next, reshape(@head(%x), newshape=[-1]))
}
)",
                          Abseil(cache), logits, rows);
}

std::string LoopText(const Loops& loops) {
  const std::string stops = absl::StrCat("[", absl::StrJoin(loops.stops, ", "), "]");
  return absl::Substitute(R"(def @complete($0, %limit: int32) -> List[int32] {
  let (%cache, %logits) = $1;
  @greedy($2, %cache, %logits, $3, %limit)
}
def @beams($0, %width: int32, %limit: int32, %penalty: float32, %early: bool) -> List[(float32, List[int32])] {
  let (%cache, %logits) = $1;
  @beam_search($2, %cache, %logits, %width, $3, %limit, %penalty, %early)
}
def @stream(
    %emit: fn (int32) -> (), $0, %limit: int32, %seed: uint64,
    %temperature: float32, %k: int32, %p: float32, %min_p: float32) -> () {
  let (%cache, %logits) = $1;
  @sampled_to(%emit, $2, %cache, %logits, $3, %limit, %seed, %temperature, %k, %p, %min_p);
  ()
}
)",
                          loops.parameters, loops.begin, Abseil(loops.step), stops);
}

}  // namespace rvm::checkpoint
