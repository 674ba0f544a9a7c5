// Executable: a compiled program in memory. The compiler makes it, the codec reads and
// writes it, and the VM runs it after verification.
//
// Tables refer to each other by index, never by pointer. Programs are monomorphic: there
// are no type parameters, but dims may be unknown.
#ifndef RVM_SERIALIZATION_EXECUTABLE_H_
#define RVM_SERIALIZATION_EXECUTABLE_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/dim.h"
#include "base/literal.h"
#include "base/strong_id.h"
#include "serialization/format.h"
#include "serialization/recipe.h"

namespace rvm {

using TypeId = StrongId<struct TypeIdTag>;
using AdtId = StrongId<struct AdtIdTag>;
using LayoutId = StrongId<struct LayoutIdTag>;
using FunctionId = StrongId<struct FunctionIdTag>;
using KernelId = StrongId<struct KernelIdTag>;
using ConstantId = StrongId<struct ConstantIdTag>;
using Reg = StrongId<struct RegTag, uint16_t>;

// ---- types ---------------------------------------------------------------------

enum class TypeDescKind : uint8_t {
  kScalar,  // rank-0 tensor: unboxed in a register
  kTensor,  // rank >= 1
  kTuple,
  kAdt,
  kClosure,
  kRef,
  kShell,  // the memory of a cell whose fields were moved out, or nothing; only in local registers
};

// One entry of the type table. Entries are unique: equal types have equal ids.
struct TypeDesc {
  static constexpr int64_t kUnknownDim = -1;
  TypeDescKind kind = TypeDescKind::kScalar;
  DataType dtype;              // kScalar, kTensor
  std::vector<int64_t> dims;   // kTensor: kUnknownDim where `?` or symbolic; kShell: {number of fields}
  std::vector<TypeId> fields;  // kTuple: fields; kClosure: parameters; kRef: {contents}
  TypeId result;               // kClosure
  AdtId adt;                   // kAdt
  bool operator==(const TypeDesc&) const = default;
};

// Maximum bytes of a tensor, enforced by the verifier: no size computed from a static shape can overflow.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 48;
// Returns whether the known `dims` alone make a tensor larger than that (kUnknownDim: not known).
bool IsTooLarge(DataType dtype, std::span<const int64_t> dims);

// A monomorphic instance of an ADT.
struct AdtDesc {
  std::string name;  // "List[int32]"
  struct Constructor {
    std::string name;  // "Cons"
    std::vector<TypeId> fields;
    LayoutId layout;  // invalid for a constructor without fields
    bool operator==(const Constructor&) const = default;
  };
  std::vector<Constructor> constructors;  // by tag
  bool operator==(const AdtDesc&) const = default;
};

// Kind of value that a heap cell holds.
enum class CellKind : uint8_t { kTuple, kAdt, kClosure, kRef };
struct CellLayout {
  CellKind kind = CellKind::kTuple;
  TypeId type;                 // of the whole cell
  uint16_t tag = 0;            // kAdt
  FunctionId function;         // kClosure: its code; parameter 0 is the closure itself
  std::vector<TypeId> fields;  // kClosure: the captured values; kRef: one
  bool operator==(const CellLayout&) const = default;
};

// ---- kernels -------------------------------------------------------------------

// Maximum rank of a tensor, enforced by the verifier.
inline constexpr size_t kMaxRank = 64;

// Parameter or result of a kernel. Dims are expressions (Dim) over the kernel's symbols,
// which are Dim::Var with ids 0, 1, ...
struct KernelTensor {
  DataType dtype;
  Dims dims;  // empty: a scalar register, passed as a pointer to it
  bool operator==(const KernelTensor&) const = default;
};

struct KernelDesc {
  std::string name;    // "fused_dense_add_tanh": for people
  std::string symbol;  // in the native object
  uint32_t num_symbols = 0;
  std::vector<KernelTensor> params;
  std::vector<KernelTensor> results;
  // A symbol that is a value: element `element`, in row-major order, of an integer parameter whose dims are constants.
  // It may be negative. Every other symbol is a dim of a parameter.
  struct ValueSymbol {
    uint32_t symbol = 0;
    uint32_t param = 0;
    uint32_t element = 0;
    bool operator==(const ValueSymbol&) const = default;
  };
  std::vector<ValueSymbol> values;
  // Checked at each dynamic call; `what` is for the message.
  struct Check {
    Dim a, b;
    DimRelation relation = DimRelation::kEqual;
    std::string what;
    bool operator==(const Check&) const = default;
  };
  std::vector<Check> checks;
  Dim workspace;  // bytes
  // Result `result` may reuse the memory of parameter `param`: same dims and bytes per element. Sorted; none in
  // portable executables, since recipes clear their results first.
  struct Reuse {
    uint32_t result = 0, param = 0;
    std::strong_ordering operator<=>(const Reuse&) const = default;
  };
  std::vector<Reuse> reuses;
  // Result `result` has the elements of parameter `param` when the kernel begins, which then writes only some of them:
  // same dims and dtype, but for the outermost axis that is not 1, on which the result may be longer: it then begins
  // with them. A call copies them, unless it consumes the parameter, nobody else has it, and its memory has room; then
  // the result takes its memory. Sorted; one for a result, which has no reuse.
  using Update = Reuse;
  std::vector<Update> updates;
  // Returns whether the result may have the memory of the parameter, which is as large.
  bool MayReuse(size_t result, size_t param) const;
  bool operator==(const KernelDesc&) const = default;
};

// A machine that kernels are compiled for, and the code of all kernels for it.
struct CodeObject {
  std::string target;          // "x86-64-v3", "znver3"
  std::string triple;          // "x86_64-unknown-linux-gnu"
  std::string features;        // "+avx2,+fma": all must be there to load it
  uint32_t abi_version = 0;    // RVM_KERNEL_ABI_VERSION
  std::vector<uint8_t> bytes;  // relocatable ELF
  bool operator==(const CodeObject&) const = default;
};

// Machine code of all functions for one target, beside their bytecode: a runtime may run it instead, with the same
// results. It is machine code in a portable executable, too, where it is used only if the loader trusts it.
struct ControlCode {
  std::string target, triple, features;  // as in CodeObject
  uint32_t abi_version = 0;              // RVM_MACHINE_ABI_VERSION
  std::vector<uint8_t> bytes;            // relocatable ELF
  // Calls in the code from `offset` on, up to the next place, are of the instruction at unit `line` - 1 of the
  // bytecode; 0: there are none.
  struct Place {
    uint32_t offset = 0;
    uint32_t line = 0;
    bool operator==(const Place&) const = default;
  };
  struct Function {
    uint32_t size = 0;          // bytes of code
    std::vector<Place> places;  // by ascending offset
    bool operator==(const Function&) const = default;
  };
  std::vector<Function> functions;  // one for each
  bool operator==(const ControlCode&) const = default;
};

// A launch that multiplies matrices, which a library of the device may do in place of the function:
//   d[n, i, j] = scale * sum over k of a[n, i, k] * b[n, k, j] + sum over x in addends of x[n, i, j]
// Sums are float64 for float64, else float32, and then rounded to the type of d.
struct DeviceProduct {
  // Element [n, i, j] is n * batch_stride + i * row_stride + j * column_stride elements behind the first.
  struct Matrix {
    uint32_t argument = 0;  // of the function: the kernel's parameters, then its results, then the workspace
    DataType dtype;
    Dim offset;  // of the first element, in bytes
    Dim batch_stride, row_stride, column_stride;
    bool operator==(const Matrix&) const = default;
  };
  static constexpr size_t kMaxAddends = 2;

  uint32_t launch = 0;
  Dim batches, rows, columns, depth;
  Matrix a, b, d;
  std::vector<Matrix> addends;
  double scale = 1;
  bool allows_tf32 = false;  // elements of a and b may be rounded to TF32
  bool has_tail = false;     // the next launch finishes d in place; it runs only if a library computed the product
  bool operator==(const DeviceProduct&) const = default;

  // a, b, d and the addends.
  std::vector<const Matrix*> matrices() const;
  // All of its extents, offsets and strides.
  Dims dims() const;
};

// A launch that shares its function with others: the function that it runs, and what it passes to it.
struct DeviceCall {
  // An argument of the kernel; of an address, what lies `offset` bytes behind it; or a number.
  struct Argument {
    // The kernel's parameters, then its results, the workspace, its symbols, and behind them the number 0.
    uint32_t argument = 0;
    Dim offset;  // added to the address, or to that 0
    bool operator==(const Argument&) const = default;
  };
  KernelId kernel;  // the function is "k<kernel>_<launch>"
  uint32_t launch = 0;
  std::vector<Argument> arguments;
  bool operator==(const DeviceCall&) const = default;

  Dims dims() const;  // all offsets
};

// The code of some kernels for a kind of device (OpenCL device, GPU), beside their machine code for the host. A runtime
// that has such a device runs them there. Codes with equal targets belong to device ordinals 0, 1, ..., except that
// codes with equal kernels are alternatives for one device, distinguished by features. A kernel may have several codes:
// it runs on the first for which there is a device.
struct DeviceCode {
  // A kernel is a sequence of launches of functions of the code. Without calls, launch i of kernel k runs the function
  // "k<k>_<i>", and passes all arguments to it.
  struct Kernel {
    KernelId kernel;
    Dim workspace;                             // bytes
    Dims launches;                             // for each, its number of work items
    std::vector<DeviceProduct> products = {};  // by ascending launch
    std::vector<DeviceCall> calls = {};        // none, or one for each launch
    bool operator==(const Kernel&) const = default;
  };
  std::string target;           // "opencl-c-1.2"
  std::string features;         // "+fp64": all must be there to load it
  bool is_required = false;     // false: without such a device the kernels run on the host
  std::vector<Kernel> kernels;  // by ascending id
  std::vector<uint8_t> bytes;   // for "opencl-c-1.2": the text of a program
  bool operator==(const DeviceCode&) const = default;
};

// A kernel that makes many calls of another one at once: their rows, which have nothing to do with each other, or a
// chain of them, each of which adds to the result of the one before.
struct BatchVariant {
  KernelId kernel;
  // Has the parameters and results of `kernel`, each with an outermost axis more, whose extent is the same symbol: the
  // number of calls. It has no symbols that are values, no updates, and no reuses but that of the accumulator.
  KernelId variant;
  std::vector<uint32_t> shared;  // ascending: parameters without that axis, of which all the calls have the same tensor
  bool has_same_bits = true;     // for each call as `kernel`; false: sums may be added up in another order
  // In a chain: the parameter without that axis that is the result of the call before. The only result has no such axis
  // either; it may have the memory of this parameter, in both kernels.
  std::optional<uint32_t> accumulator = std::nullopt;
  // A shared parameter that the variant has as the only result of another kernel, of which it is the only parameter: a
  // matrix in panels. That kernel has no symbols and no updates.
  struct Arranged {
    uint32_t param;
    KernelId kernel;
    bool operator==(const Arranged&) const = default;
  };
  std::vector<Arranged> arranged = {};  // by ascending parameter
  bool IsShared(uint32_t param) const;
  // Returns what the variant has instead of a parameter; null: the parameter.
  const Arranged* FindArranged(uint32_t param) const;
  bool operator==(const BatchVariant&) const = default;
};

// ---- functions -----------------------------------------------------------------

struct RegisterDesc {
  TypeId type;
  bool planned = false;  // a tensor in the activation's arena, for kernel arguments, get_dim and get_element only
  bool operator==(const RegisterDesc&) const = default;
};

struct SourceLine {
  uint32_t pc = 0;      // unit index; covers up to the next entry
  uint32_t file = 0;    // index in Executable::files
  uint32_t line = 0;    // from 1; 0 unknown
  uint32_t column = 0;  // from 1; 0: `file` is the origin of a node that an importer made, not a text
  std::string what;     // if the instruction at `pc` is a check: what it compares; otherwise ""
  bool operator==(const SourceLine&) const = default;
};

struct FunctionDesc {
  std::string name;         // "main", "main.fn1"
  uint16_t num_params = 0;  // registers 0..num_params-1
  TypeId result;
  // The result is a tuple whose fields go to registers of the caller; no cell is made for it.
  bool returns_fields = false;
  std::vector<RegisterDesc> registers;
  uint32_t arena_bytes = 0;       // of planned tensors; a multiple of 64
  std::vector<uint16_t> code;     // isa/isa.def
  std::vector<SourceLine> lines;  // sorted by pc
  bool operator==(const FunctionDesc&) const = default;
};

// A function callers may invoke by name.
struct Entry {
  std::string name;  // "main"
  FunctionId function;
  std::vector<std::string> param_names;
  bool operator==(const Entry&) const = default;
};

// Says whether an executable may hold machine code.
enum class ExecutableClass : uint8_t {
  kPortable = 0,  // no machine code: one recipe for each kernel
  kNative = 1,    // no recipes: machine code for one target or more
};

// A section of the file that this version does not know and may ignore. Kept, so that encoding gives the same file.
struct ExtraSection {
  uint16_t id = 0;
  std::string name;
  std::vector<uint8_t> bytes;
  bool operator==(const ExtraSection&) const = default;
};

struct Executable {
  ExecutableClass executable_class = ExecutableClass::kNative;
  uint16_t format_minor = format::kMinor;  // of the version of the file format that it was written in
  std::vector<TypeDesc> types;
  std::vector<AdtDesc> adts;
  std::vector<CellLayout> layouts;
  std::vector<Literal> constants;
  std::vector<KernelDesc> kernels;
  std::vector<KernelRecipe> recipes;         // kPortable: one for each kernel
  std::vector<CodeObject> code_objects;      // kNative: one for each target
  std::vector<DeviceCode> device_codes;      // kNative: for each kind of device; then no function plans tensors
  std::vector<ControlCode> control_codes;    // for each target that has some
  std::vector<BatchVariant> batch_variants;  // by ascending kernel; if there are some, no function plans tensors
  std::vector<FunctionDesc> functions;
  std::vector<Entry> entries;
  std::vector<std::string> files;                             // names of the sources
  std::vector<std::pair<std::string, std::string>> metadata;  // free text; sorted by key
  std::vector<ExtraSection> extra_sections;                   // by ascending id

  bool is_native() const { return executable_class == ExecutableClass::kNative; }
  const Entry* FindEntry(std::string_view name) const;
  // Returns the metadata with that key, or "".
  std::string_view FindMetadata(std::string_view key) const;
};

// Returns the extents of a parameter as the program names them: "n", "3", "n + 1". The types of an executable have no
// names; the compiler notes them as metadata "shape.ENTRY.PARAMETER": "(n, 3, n + 1)". Empty where it noted none.
std::vector<std::string> NamedExtents(const Executable& executable, const Entry& entry, size_t param);

// `status`, an error in an executable of format `minor`; says so if that is newer than this program.
absl::Status MentionNewerFormat(const absl::Status& status, uint16_t minor);

// Relay text of a type: "List[int32]", "Tensor[(?, 3), float32]".
std::string TypeToString(const Executable& executable, TypeId type);

// Returns whether a value of type `from` may be used as one of type `to` without a check: the types are equal, or
// tensors whose known dims in `to` are the same in `from`. (The memory layout is always the same.)
bool IsAssignable(const Executable& executable, TypeId from, TypeId to);

inline bool IsScalarType(const TypeDesc& type) { return type.kind == TypeDescKind::kScalar; }

}  // namespace rvm

#endif  // RVM_SERIALIZATION_EXECUTABLE_H_
