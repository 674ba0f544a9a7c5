// Frame: the parts of an import that do not depend on the format of the model. An importer derives from it and adds the
// reading of inputs and nodes.
#ifndef RVM_COMPILER_IMPORT_FRAME_FRAME_H_
#define RVM_COMPILER_IMPORT_FRAME_FRAME_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "compiler/import/import_options.h"
#include "compiler/import/refusals.h"
#include "compiler/import/steps.h"

namespace rvm::importing {

class Frame {
 public:
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 protected:
  // `nodes` is the number of nodes of the model, those of bodies and functions once.
  Frame(const ImportOptions& options, int64_t nodes);
  ~Frame() = default;

  // ---- the program
  void AddParam(std::string_view name, const ir::Type* type);
  // Adds the last parameter, the seed of random numbers. Finish removes it if nothing draws any.
  void AddSeed();
  // Defines @main, whose results `body` computes from the parameters before the seed.
  void DefineMain(absl::FunctionRef<Operands(const Operands& params)> body);
  // Returns the operands as the result of a function: one alone, or a tuple of several.
  builder::Value Result(const Operands& operands);
  // Stores the module and its weights, or returns an error that lists all refusals.
  absl::Status Finish(ImportedModel& result);
  // After that: the results of `@main` have the names of the model's outputs.
  static void NameResults(ImportedModel& result);

  // ---- nodes
  // Counts one conversion of a node. Returns false, and refuses the node once, if there were too many.
  bool Spend(absl::FunctionRef<void(const absl::Status&)> refuse, std::string_view what);
  // Gives the steps made from now on the origin `text`. Returns the one that they had before.
  ir::Span EnterOrigin(absl::FunctionRef<std::string()> text);
  void LeaveOrigin(ir::Span outer);
  // Returns a key for the random numbers of one node alone, split off that of the seed.
  Operand SplitKey(Steps& steps);

  const ImportOptions& options_;
  builder::ProgramBuilder builder_;
  Emitter emit_;
  Refusals refusals_;

 private:
  std::vector<builder::Param> params_;
  std::vector<const ir::Type*> param_types_;
  absl::flat_hash_map<std::string, ir::Span> origins_;  // by their text: bodies are converted more than once
  ir::Span origin_;
  int64_t budget_;          // bodies of loops and functions are converted more than once; this bounds the product
  Operand seed_ = nullptr;  // the last parameter, an int64 scalar
  Operand key_ = nullptr;   // for the next node that draws; null: made of the seed
};

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_FRAME_FRAME_H_
