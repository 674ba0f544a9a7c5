// Emitter: adds typed steps to the program that an import makes.
//
// An Operand is a value whose type is known while the program is built: Op runs the operator's own type rule forward
// (ops::DeriveResult) on the types of its arguments. Extents are expressions of named dims, of numbers, and of dims of
// the importer's own: one for each extent that only the running program knows. What can be computed now is: constants
// through the operators' own computations, and small integer tensors made of extents element by element, so that
// chains of Shape, Gather, Concat and Reshape leave no steps. A value becomes a step when a step needs it.
//
// The first mistake sticks: from then on operands are placeholders until TakeStatus.
#ifndef RVM_COMPILER_IMPORT_EMITTER_H_
#define RVM_COMPILER_IMPORT_EMITTER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/literal.h"
#include "compiler/builder/program_builder.h"
#include "compiler/ops/op_def.h"

namespace rvm::importing {

struct OperandNode;
// Owned by the emitter. Null: an optional input that was left out.
using Operand = OperandNode*;
using Operands = std::vector<Operand>;

// A tensor as a model stores it in integers: (values - zero_point) * scale. A scale and a zero point that are vectors
// have an element for each position along `axis`. zero_point is null if it is 0.
struct QuantisedForm {
  Operand values, scale, zero_point;
  int64_t axis;
};

// A tensor of integers of fewer than 8 bits, as bytes that hold them, the lowest bits first. Its rows fill whole bytes.
// Signed ones have their upper bit flipped, which adds half of their range.
struct PackedForm {
  DataType dtype;  // of the integers, one in each byte
  int64_t bits;
  bool is_signed() const { return dtype.is_int(); }
};

struct OperandNode {
  const ir::Type* type = nullptr;
  std::optional<Literal> constant;
  std::optional<std::vector<Dim>> elements;  // of an integer tensor, in row-major order, where it is no constant
  std::vector<Operand> fields;               // of a tuple
  std::optional<QuantisedForm> quantised;    // what this float tensor was dequantised from
  Operand viewed = nullptr;                  // what this has the elements of, under another shape
  Operand whole = nullptr;                   // what this is a field of
  uint32_t index = 0;
  Operand reversed = nullptr;  // the list that has the elements of this one, last one first; see Backwards
  Operand counted = nullptr;   // the list whose length this is
  int64_t number = 0;          // greater than those of operands made before
  std::optional<builder::Value> step;
  std::optional<PackedForm> packed;  // of a constant of bytes: what it stands for
  int64_t stored_bits = 0;           // of elements that the model stores in fewer bits than the dtype has; else 0
  std::string name;                  // of a weight, or of an input of the model
  bool is_placeholder = false;       // stands for what could not be imported
};

// Returns whether `dim` is a long expression: such an extent is read from the tensor that has it.
bool IsLongDim(const Dim& dim);

class Emitter {
 public:
  explicit Emitter(builder::ProgramBuilder& builder);
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  // ---- leaves
  Operand Constant(Literal literal, std::string name = "");
  Operand Number(double value, DataType dtype);  // a scalar
  Operand Integer(int64_t value, DataType dtype = kInt64);
  Operand Vector(std::span<const int64_t> values);
  Operand FromDim(const Dim& dim);              // an int64 scalar
  Operand FromDims(std::span<const Dim> dims);  // an int64 vector
  Operand Tuple(std::vector<Operand> fields);
  Operand Field(Operand tuple, uint32_t index);
  Operand Placeholder();
  // Returns a step, parameter or global that was made elsewhere. Unknown extents of `type` get dims of their own.
  Operand Bound(builder::Value value, const ir::Type* type);

  // ---- types
  // Of a tensor; else a mistake, and an empty shape.
  const Dims& DimsOf(Operand operand);
  DataType DTypeOf(Operand operand);
  int64_t RankOf(Operand operand) { return static_cast<int64_t>(DimsOf(operand).size()); }
  // Returns the extent of an axis, counted from the end where negative; a mistake if there is none.
  Dim ExtentOf(Operand operand, int64_t axis);
  const ir::Type* TensorType(Dims dims, DataType dtype) { return ir::MakeTensorType(arena_, std::move(dims), dtype); }
  // For an annotation: extents that the program has no name for are `?`.
  builder::Type Annotation(const ir::Type* type);
  // Both, where they have the same form: extents that differ become `?`. Null if they differ in more.
  const ir::Type* Join(const ir::Type* a, const ir::Type* b);
  // Extents that were named behind `watermark`, by values of an inner block, are unknown outside.
  const ir::Type* Escape(const ir::Type* type, int64_t watermark);
  int64_t Watermark() const { return next_dim_; }
  // Changes only the importer's type of `operand`.
  Operand Retyped(Operand operand, const ir::Type* type);
  // Changes the type and emits an annotation, so that the program has exactly this type: elements of one list share it.
  Operand Widened(Operand operand, const ir::Type* type);
  const ir::Type* ListOf(const ir::Type* element);
  // The list that has the elements of `reversed`, last one first. They are reversed only where a step needs the list.
  Operand Backwards(Operand reversed);
  const ir::Type* OptionOf(const ir::Type* element);
  const ir::Type* TupleOf(std::vector<const ir::Type*> fields);
  // Returns the element type of a list or an option; null for other types.
  const ir::Type* ElementType(const ir::Type* type, std::string_view adt) const;
  // Returns a dim that the program knows by name. PlaceNames says which parameters have such extents.
  Dim NameDim(std::string_view name);
  // Returns a dim of the same name as one of a function that is complete, for the next function.
  Dim NameAgain(const Dim& dim);
  void PlaceNames(Operand parameter);
  bool IsNamed(const Dim& dim) const { return named_.contains(dim.id()); }

  // ---- steps
  Operand Op(std::string_view name, std::vector<Operand> args, ir::Attrs attrs = {});
  // Returns the same where the importer knows more of the result's shape than the type rule can say.
  Operand OpAs(Dims dims, std::string_view name, std::vector<Operand> args, ir::Attrs attrs = {});
  Operand Call(const builder::Value& callee, const std::vector<Operand>& args, const ir::Type* result);
  builder::Value Use(Operand operand);
  // Runs `body` as a block or a function's body of its own: what it makes lazily is gone behind it.
  builder::Value InBlock(absl::FunctionRef<builder::Value()> body);
  // Nothing is added to the program meanwhile: only types are derived.
  bool is_dry() const { return dry_ > 0; }
  void BeginDry() { ++dry_; }
  void EndDry() { --dry_; }

  // ---- loops whose bodies are being made
  struct LoopReads {
    Operand index = nullptr;  // 0, 1, ...
    int64_t first_inner = 0;  // number of the first operand that the body makes
    Operands lists;           // made outside of the loop and read at `index`
    Operands rests;           // what is left of each at `index`; empty while types are derived
  };
  std::vector<LoopReads>& loop_reads() { return loop_reads_; }
  // Returns the rest of `list` at `index` if that is the index of a loop around this, whose steps then hand the rest
  // on. While types are derived, notes that the loop reads `list` and returns it. Null if the list must be searched.
  Operand ReadInStep(Operand list, Operand index);
  // Operands of Backwards that steps used while only types were derived.
  const Operands& needed_lists() const { return needed_lists_; }
  int64_t next_number() const { return static_cast<int64_t>(operands_.size()); }

  // ---- mistakes
  void Fail(absl::Status status);
  bool failed() const { return !status_.ok(); }
  absl::Status TakeStatus() { return std::exchange(status_, absl::OkStatus()); }

  builder::ProgramBuilder& builder() { return builder_; }
  // Tensors too large to stand in the text, by the names of the program's free variables.
  std::map<std::string, Literal, std::less<>>& weights() { return weights_; }
  // `name` with letters, digits and underscores alone, different from all that were given before.
  std::string UniqueName(std::string_view name);

 private:
  Operand New(const ir::Type* type);
  Operand NewStep(const ir::Type* type, builder::Value step);
  // Results of operators that can be computed now; null for others.
  Operand Fold(const ops::OpDef& op, const ir::Attrs& attrs, std::span<const Operand> args, const ir::Type* result);
  Operand FoldElements(const ops::OpDef& op, const ir::Attrs& attrs, std::span<const Operand> args,
                       const ir::Type* result);
  const ir::Type* Derive(const ops::OpDef& op, const ir::Attrs& attrs, std::span<const Operand> args);
  Operand Emit(const Dims* dims, std::string_view name, std::vector<Operand> args, ir::Attrs attrs);
  // Gives each unknown extent of the operand's type a dim of its own.
  void NameExtents(Operand operand);
  builder::Value Scalar(const Dim& dim);
  builder::Value Spell(Operand operand);
  builder::Value SpellReversed(Operand operand);

  builder::ProgramBuilder& builder_;
  ir::Arena arena_;  // of the importer's types
  std::deque<OperandNode> operands_;
  // Location from which an extent that only the running program knows is read.
  struct Place {
    Operand operand;
    size_t axis;
  };
  absl::flat_hash_map<int64_t, Place> places_;
  absl::flat_hash_set<int64_t> named_;
  int64_t next_dim_;
  // Steps of values that were made when a step needed them, by block.
  std::vector<absl::flat_hash_map<const OperandNode*, builder::Value>> blocks_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::string, int> name_counts_;  // how often one was asked for
  std::map<std::string, Literal, std::less<>> weights_;
  std::optional<builder::DataTypeBuilder> list_, option_;
  std::vector<LoopReads> loop_reads_;  // outermost first
  Operands needed_lists_;
  int dry_ = 0;
  absl::Status status_;
};

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_EMITTER_H_
