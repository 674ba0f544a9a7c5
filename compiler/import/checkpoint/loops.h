// Functions around the step of a decoder, which all programs with one have.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_LOOPS_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_LOOPS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rvm::checkpoint {

// Returns the definitions of @score, @read and @step, of a program that has @forward(%cache, %tokens), which gives the
// next cache and states, and @head(%states), which gives logits. `cache` is the type of caches.
std::string StepText(std::string_view cache, int64_t vocabulary);

struct Loops {
  std::string parameters;      // "%tokens: Tensor[(t), int32]"
  std::string begin;           // an expression of the parameters: the cache and the logits behind the prompt
  std::string_view step;       // the function that reads one token
  std::vector<int64_t> stops;  // tokens that end a text
};

// Returns the definitions of @complete, @beams and @stream.
std::string LoopText(const Loops& loops);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_LOOPS_H_
