// The forms of nests as loops, a file for each.
#ifndef RVM_KERNELS_LOOPS_LOWER_FORMS_H_
#define RVM_KERNELS_LOOPS_LOWER_FORMS_H_

#include "kernels/loops/builder.h"
#include "kernels/loops/merge_parts.h"
#include "kernels/schedule/schedule.h"

namespace rvm::loops {

// Stores and binds the tensors of the nest at the position that is bound. `first`: the value of the first one.
void FinishNest(Builder& b, const schedule::LoopNest& nest, Value first);

// Each emits what the threads of a block do for block number `block` of schedule::Blocks(nest). If `is_chosen` is valid
// and false, they come to the same barriers and do nothing else.
void LowerTeam(Builder& b, PartMerger& merger, const schedule::LoopNest& nest, Value block, Value is_chosen = {});
void LowerTransposed(Builder& b, const schedule::LoopNest& nest, Value block);
void LowerBlockTile(Builder& b, const schedule::LoopNest& nest, Value block, Value is_chosen = {});

// Emits what the threads of the builder's block do for its rows.
void LowerRowTeam(Builder& b, const schedule::Schedule& schedule, const schedule::NestGroup& group);

}  // namespace rvm::loops

#endif  // RVM_KERNELS_LOOPS_LOWER_FORMS_H_
