// Frame: the parts of an import that do not depend on the format of the model. An importer derives from it and adds the
// reading of inputs and nodes.
#ifndef RVM_COMPILER_IMPORT_FRAME_FRAME_H_
#define RVM_COMPILER_IMPORT_FRAME_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/abseil.h"
#include "compiler/import/import_options.h"
#include "compiler/import/refusals.h"
#include "compiler/import/steps.h"

namespace rvm::importing {

class Frame {
 public:
  // An input of the model that the user may freeze or give a shape. Without a rank it takes a shape of any.
  struct Input {
    std::string_view name;
    std::optional<size_t> rank;
  };

  // Imports the model. Reports the coverage, also of a model that cannot be imported, and only errors whose names any
  // terminal shows.
  absl::StatusOr<ImportedModel> Import();

  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 protected:
  explicit Frame(const ImportOptions& options);
  ~Frame() = default;
  // Counts a node of the model, those of bodies and functions once, for the coverage and the budget of conversions.
  void CountNode(std::string_view op);
  virtual absl::StatusOr<ImportedModel> ImportModel() = 0;

  // ---- inputs: inputs.cc
  // Returns an error if the options freeze or shape an input that is not one of `inputs`, or give it another rank.
  absl::Status CheckGivenInputs(std::span<const Input> inputs) const;
  // Returns the value that the options give to an input as a constant of that type; null if it is not frozen. Without
  // `dims` any value fits.
  absl::StatusOr<Operand> FrozenInput(std::string_view name, std::optional<DataType> dtype,
                                      const std::optional<Dims>& dims);
  // Returns the extent that the options give to an axis of an input; null if they give none.
  const std::string* GivenExtent(std::string_view input, size_t axis) const;
  // Returns the extent of an axis as the options give it, else as the model writes it: a number, a name or an
  // expression of names; "" and "?" if it is unknown.
  Dim InputExtent(std::string_view input, size_t axis, std::string_view text);
  // Lets expressions refer to `names`, the extents of an input, or to those that the options give it.
  void NoteExtentNames(std::string_view input, std::span<const std::string_view> names);
  bool IsExtentName(std::string_view name) const { return extent_names_.contains(Abseil(name)); }
  // Makes `text` the extent `name` of all inputs if it is a number.
  void FixExtent(std::string_view name, std::string_view text);
  // Returns the extent `name`, which is one dim wherever it stands.
  Dim NamedExtent(std::string_view name);
  // Returns the extent that `text` is as an expression of names that were noted; nullopt if it is none.
  std::optional<Dim> ExtentOfExpression(std::string_view text);

  // ---- the program
  static constexpr std::string_view kMain = "main", kInitialState = "initial_state";
  // Adds a parameter of the entry that is defined next. The same name of several entries stays the same.
  void AddParam(std::string_view name, const ir::Type* type);
  // Adds its last parameter, the seed of random numbers. Finish removes it if nothing draws any.
  void AddSeed();
  // Returns the functions that signatures become: `@main`, and others of their names.
  std::vector<std::string> NamesOfEntries(std::span<const std::string_view> signatures);
  // Defines a function with these parameters, whose results `body` computes from those before the seed.
  void DefineEntry(std::string_view name, absl::FunctionRef<Operands(const Operands& params)> body);
  void DefineMain(absl::FunctionRef<Operands(const Operands& params)> body) { DefineEntry(kMain, body); }
  // Defines @initial_state, which gives the first values of the model's state: of parameters of entries behind their
  // inputs.
  void DefineInitialState(absl::FunctionRef<Operands()> values);
  // Returns the operands as the result of a function: one alone, or a tuple of several.
  builder::Value Result(const Operands& operands);
  // Stores the module and its weights, or returns an error that lists all refusals.
  absl::Status Finish(ImportedModel& result);
  // After that: the results of `@main`, or of another entry, have the names of the model's outputs.
  static void NameResults(ImportedModel& result) { NameResults(result, kMain, result.outputs); }
  static void NameResults(ImportedModel& result, std::string_view entry, std::span<const std::string> outputs);

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
  absl::flat_hash_map<std::string, Dim> extents_;          // by their names
  absl::flat_hash_map<std::string, Dim> earlier_extents_;  // of entries that are defined
  absl::flat_hash_set<std::string> extent_names_;          // that inputs have as extents: others have no value in a run
  std::vector<builder::Param> params_;                     // of the entry that is defined next
  std::vector<const ir::Type*> param_types_;
  absl::flat_hash_map<std::string, std::string> param_names_;  // in the program, by those in the model
  struct DefinedEntry {
    std::string name;
    bool draws;  // random numbers: it keeps its seed
  };
  std::vector<DefinedEntry> defined_;
  absl::flat_hash_map<std::string, ir::Span> origins_;  // by their text: bodies are converted more than once
  ir::Span origin_;
  int64_t budget_ =
      20000;  // of conversions: bodies of loops and functions are converted more than once; this bounds the product
  Operand seed_ = nullptr;  // the last parameter, an int64 scalar
  Operand key_ = nullptr;   // for the next node that draws; null: made of the seed
};

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_FRAME_FRAME_H_
