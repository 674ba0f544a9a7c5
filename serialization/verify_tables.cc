#include "serialization/verify_tables.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "serialization/limits.h"
#include "serialization/verify_recipe.h"

namespace rvm {
namespace {

constexpr uint32_t kArenaAlignment = 64;

struct TypeKey {
  const TypeDesc* type;
  bool operator==(const TypeKey& other) const { return *type == *other.type; }
  template <typename H>
  friend H AbslHashValue(H h, const TypeKey& key) {
    const TypeDesc& t = *key.type;
    return H::combine(std::move(h), static_cast<int>(t.kind), t.dtype, t.dims, t.fields, t.result, t.adt);
  }
};

class TableVerifier {
 public:
  explicit TableVerifier(const Executable& executable) : executable_(executable) {}

  absl::Status Run() {
    if (absl::Status status = CheckLimits(executable_); !status.ok()) {
      return absl::InvalidArgumentError(status.message());
    }
    for (uint32_t i = 0; i < executable_.types.size(); ++i) RVM_RETURN_IF_ERROR(CheckType(i));
    for (uint32_t i = 0; i < executable_.adts.size(); ++i) RVM_RETURN_IF_ERROR(CheckAdt(i));
    RVM_RETURN_IF_ERROR(CheckFunctions());
    for (uint32_t i = 0; i < executable_.layouts.size(); ++i) RVM_RETURN_IF_ERROR(CheckLayout(i));
    for (uint32_t i = 0; i < executable_.kernels.size(); ++i) RVM_RETURN_IF_ERROR(CheckKernel(i));
    RVM_RETURN_IF_ERROR(CheckClass());
    RVM_RETURN_IF_ERROR(CheckControlCodes());
    RVM_RETURN_IF_ERROR(CheckBatchVariants());
    RVM_RETURN_IF_ERROR(CheckArenas());
    for (uint32_t i = 0; i < executable_.constants.size(); ++i) RVM_RETURN_IF_ERROR(CheckConstant(i));
    RVM_RETURN_IF_ERROR(CheckEntries());
    for (size_t i = 1; i < executable_.metadata.size(); ++i) {
      if (executable_.metadata[i - 1].first >= executable_.metadata[i].first) {
        return Error("metadata", i, "keys are not sorted and unique");
      }
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Error(std::string_view table, size_t index, std::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("in the table of ", Abseil(table), " at ", index, ": ", Abseil(what)));
  }
  static absl::Status Error(std::string_view table, size_t index, std::string_view name, std::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("in the table of ", Abseil(table), " at ", index, " (`", Abseil(name), "`): ", Abseil(what)));
  }
  std::string Text(TypeId type) const { return absl::StrCat("`", TypeToString(executable_, type), "`"); }
  bool IsType(TypeId type) const { return type.value < executable_.types.size(); }
  // Returns whether fields, arguments and results may have the type.
  bool IsValue(TypeId type) const { return IsType(type) && executable_.types[type.value].kind != TypeDescKind::kShell; }
  bool AreValues(const std::vector<TypeId>& types) const {
    return std::all_of(types.begin(), types.end(), [this](TypeId t) { return IsValue(t); });
  }

  // The parts of a type precede it, so types are acyclic except through the ADT table.
  absl::Status CheckType(uint32_t index) {
    const TypeDesc& type = executable_.types[index];
    auto error = [&](std::string_view what) { return Error("types", index, what); };
    if (type.kind > TypeDescKind::kShell) return error("unknown kind of type");
    bool has_dtype = type.kind == TypeDescKind::kScalar || type.kind == TypeDescKind::kTensor;
    if (has_dtype && !IsStorable(type.dtype))
      return error(absl::StrCat("dtype `", type.dtype.ToString(), "` is not storable"));
    for (TypeId field : type.fields) {
      if (field.value >= index)
        return error(absl::StrCat("refers to type ", field.value, ", which does not come before it"));
      if (!IsValue(field)) return error("has a part that is a shell");
    }
    switch (type.kind) {
      case TypeDescKind::kScalar: break;
      case TypeDescKind::kTensor:
        if (type.dims.empty() || type.dims.size() > kMaxRank)
          return error(absl::StrCat("a tensor of rank ", type.dims.size()));
        for (int64_t dim : type.dims) {
          if (dim < TypeDesc::kUnknownDim) return error(absl::StrCat("a tensor with the dim ", dim));
        }
        if (IsTooLarge(type.dtype, type.dims)) return error("a tensor of more than 2^48 bytes");
        break;
      case TypeDescKind::kTuple: break;
      case TypeDescKind::kAdt:
        if (type.adt.value >= executable_.adts.size())
          return error(absl::StrCat("adt ", type.adt.value, " out of range"));
        break;
      case TypeDescKind::kClosure:
        if (type.result.value >= index)
          return error(absl::StrCat("refers to type ", type.result.value, ", which does not come before it"));
        if (!IsValue(type.result)) return error("has a part that is a shell");
        break;
      case TypeDescKind::kRef:
        if (type.fields.size() != 1) return error(absl::StrCat("a reference to ", type.fields.size(), " contents"));
        break;
      case TypeDescKind::kShell:
        if (type.dims.size() != 1 || type.dims[0] < 0 || type.dims[0] > static_cast<int64_t>(limits::kMaxFields))
          return error("a shell without a number of fields");
        break;
    }
    if (!unique_types_.insert(TypeKey{&type}).second) return error("equals an earlier type");
    return absl::OkStatus();
  }

  absl::Status CheckAdt(uint32_t index) {
    const AdtDesc& adt = executable_.adts[index];
    auto error = [&](std::string_view what) { return Error("adts", index, adt.name, what); };
    for (size_t tag = 0; tag < adt.constructors.size(); ++tag) {
      const AdtDesc::Constructor& constructor = adt.constructors[tag];
      std::string who = absl::StrCat("constructor `", constructor.name, "` ");
      if (!AreValues(constructor.fields)) return error(who + "has a field whose type is out of range");
      if (constructor.fields.empty()) {
        if (constructor.layout.valid()) return error(who + "has a layout but no fields");
        continue;
      }
      if (constructor.layout.value >= executable_.layouts.size())
        return error(who + "has fields but no layout in range");
      const CellLayout& layout = executable_.layouts[constructor.layout.value];
      bool is_its = layout.kind == CellKind::kAdt && layout.tag == tag && IsType(layout.type) &&
                    executable_.types[layout.type.value].kind == TypeDescKind::kAdt &&
                    executable_.types[layout.type.value].adt == AdtId(index) && layout.fields == constructor.fields;
      if (!is_its) return error(absl::StrCat(who, "disagrees with its layout ", constructor.layout.value));
    }
    return absl::OkStatus();
  }

  absl::Status CheckLayout(uint32_t index) {
    const CellLayout& layout = executable_.layouts[index];
    auto error = [&](std::string_view what) { return Error("layouts", index, what); };
    if (layout.kind > CellKind::kRef) return error("unknown kind of cell");
    if (!IsType(layout.type)) return error(absl::StrCat("type ", layout.type.value, " out of range"));
    if (!AreValues(layout.fields)) return error("a field's type is out of range");
    if (layout.kind != CellKind::kAdt && layout.tag != 0) return error("a tag, but not a constructor");
    if (layout.kind != CellKind::kClosure && layout.function.valid()) return error("a function, but not a closure");
    const TypeDesc& type = executable_.types[layout.type.value];
    constexpr TypeDescKind kKinds[] = {TypeDescKind::kTuple, TypeDescKind::kAdt, TypeDescKind::kClosure,
                                       TypeDescKind::kRef};
    if (type.kind != kKinds[static_cast<size_t>(layout.kind)])
      return error(absl::StrCat("its kind does not fit its type ", Text(layout.type)));
    switch (layout.kind) {
      case CellKind::kTuple:
      case CellKind::kRef:
        if (layout.fields != type.fields) return error(absl::StrCat("its fields are not those of ", Text(layout.type)));
        return absl::OkStatus();
      case CellKind::kAdt: {
        const AdtDesc& adt = executable_.adts[type.adt.value];
        if (layout.tag >= adt.constructors.size() || adt.constructors[layout.tag].layout != LayoutId(index)) {
          return error(absl::StrCat("is not the layout of constructor ", layout.tag, " of `", adt.name, "`"));
        }
        return absl::OkStatus();
      }
      case CellKind::kClosure: return CheckClosureLayout(index, layout, type);
    }
    return absl::OkStatus();
  }

  // The caller of a closure knows only its type, but the code of the closure relies on its layout. So the code belongs
  // to one layout, and accepts at least the parameters that the type states.
  absl::Status CheckClosureLayout(uint32_t index, const CellLayout& layout, const TypeDesc& type) {
    auto error = [&](std::string_view what) { return Error("layouts", index, what); };
    if (layout.function.value >= executable_.functions.size())
      return error(absl::StrCat("function ", layout.function.value, " out of range"));
    const FunctionDesc& function = executable_.functions[layout.function.value];
    if (function.num_params != type.fields.size() + 1) {
      return error(absl::StrCat("`", function.name, "` takes ", function.num_params, " parameters; a closure of type ",
                                Text(layout.type), " needs ", type.fields.size() + 1));
    }
    if (function.registers[0].type != layout.type) {
      return error(
          absl::StrCat("parameter 0 of `", function.name, "` is not the closure, of type ", Text(layout.type)));
    }
    for (size_t i = 0; i < type.fields.size(); ++i) {
      if (!IsAssignable(executable_, type.fields[i], function.registers[i + 1].type)) {
        return error(absl::StrCat("parameter ", i + 1, " of `", function.name, "` is ",
                                  Text(function.registers[i + 1].type), "; expected ", Text(type.fields[i])));
      }
    }
    if (!IsAssignable(executable_, function.result, type.result)) {
      return error(
          absl::StrCat("`", function.name, "` gives ", Text(function.result), "; expected ", Text(type.result)));
    }
    if (function.returns_fields) return error(absl::StrCat("`", function.name, "` returns fields; expected a value"));
    if (!closure_functions_.insert(layout.function).second) {
      return error(absl::StrCat("`", function.name, "` is the code of another layout already"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckKernelTensor(const KernelTensor& tensor, const KernelDesc& kernel) {
    if (!IsStorable(tensor.dtype)) return absl::InvalidArgumentError("a dtype that is not storable");
    if (tensor.dims.size() > kMaxRank)
      return absl::InvalidArgumentError(absl::StrCat("a tensor of rank ", tensor.dims.size()));
    std::vector<int64_t> known;
    for (const Dim& dim : tensor.dims) {
      RVM_RETURN_IF_ERROR(VerifyDim(dim, kernel));
      known.push_back(dim.AsConst().value_or(TypeDesc::kUnknownDim));
      if (dim.is_const() && dim.constant() < 0)
        return absl::InvalidArgumentError(absl::StrCat("the dim ", dim.constant()));
    }
    if (IsTooLarge(tensor.dtype, known)) return absl::InvalidArgumentError("a tensor of more than 2^48 bytes");
    return absl::OkStatus();
  }

  static absl::Status CheckValueSymbol(const KernelDesc& kernel, const KernelDesc::ValueSymbol& value) {
    auto error = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
    if (value.symbol >= kernel.num_symbols) return error("symbol ", value.symbol, " out of range");
    if (value.param >= kernel.params.size())
      return error("a value of parameter ", value.param, ", which is out of range");
    const KernelTensor& param = kernel.params[value.param];
    if (!param.dtype.is_integral() || param.dtype.is_bool())
      return error("a symbol is a value of dtype ", param.dtype.ToString());
    std::optional<Shape> shape = StaticShape(param.dims);
    std::optional<int64_t> size = shape ? NumElements(*shape) : std::nullopt;
    if (!size || int64_t{value.element} >= *size)
      return error("a value at ", value.element, " of a parameter of shape ", DimsToString(param.dims));
    return absl::OkStatus();
  }

  // Every symbol is one value, or stands alone in the shape of a parameter, from which a call binds it.
  static absl::Status CheckSymbols(const KernelDesc& kernel) {
    absl::flat_hash_set<int64_t> bound;
    for (const KernelDesc::ValueSymbol& value : kernel.values) {
      RVM_RETURN_IF_ERROR(CheckValueSymbol(kernel, value));
      if (!bound.insert(value.symbol).second)
        return absl::InvalidArgumentError(absl::StrCat("symbol ", value.symbol, " is two values"));
    }
    for (const KernelTensor& param : kernel.params) {
      for (const Dim& dim : param.dims) {
        if (dim.kind() == DimKind::kVar) bound.insert(dim.id());
      }
    }
    if (bound.size() == kernel.num_symbols) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("has ", kernel.num_symbols, " symbols, of which the parameters bind ", bound.size()));
  }

  // A result may reuse a parameter's memory only if it fits whatever the shapes of the call.
  absl::Status CheckReuses(const KernelDesc& kernel) {
    const KernelDesc::Reuse* before = nullptr;
    for (const KernelDesc::Reuse& reuse : kernel.reuses) {
      auto error = [&](std::string_view what) {
        return absl::InvalidArgumentError(
            absl::StrCat("result ", reuse.result, " in place of parameter ", reuse.param, Abseil(what)));
      };
      if (reuse.result >= kernel.results.size() || reuse.param >= kernel.params.size()) return error(": out of range");
      const KernelTensor &result = kernel.results[reuse.result], &param = kernel.params[reuse.param];
      if (result.dims.empty() || result.dims != param.dims || result.dtype.bytes() != param.dtype.bytes())
        return error(", which has another size");
      if (before != nullptr && !(*before < reuse)) return error(" is out of order");
      before = &reuse;
    }
    if (kernel.reuses.empty() || executable_.is_native()) return absl::OkStatus();
    return absl::InvalidArgumentError("results in place of parameters; a recipe fills its results first");
  }

  // Returns whether the elements of the parameter are those of the result, or the first of them, in row-major order: no
  // extents differ but those of the outermost axis that is not 1.
  static bool BeginsAs(const Dims& result, const Dims& param) {
    if (result.empty() || result.size() != param.size()) return false;
    size_t outer = 0;
    while (outer + 1 < result.size() && result[outer] == Dim(1) && param[outer] == Dim(1)) ++outer;
    return std::equal(result.begin() + static_cast<std::ptrdiff_t>(outer) + 1, result.end(),
                      param.begin() + static_cast<std::ptrdiff_t>(outer) + 1);
  }

  // A result begins as a parameter whatever the shapes of the call.
  static absl::Status CheckUpdates(const KernelDesc& kernel) {
    const KernelDesc::Update* before = nullptr;
    for (const KernelDesc::Update& update : kernel.updates) {
      auto error = [&](std::string_view what) {
        return absl::InvalidArgumentError(
            absl::StrCat("result ", update.result, " as an update of parameter ", update.param, Abseil(what)));
      };
      if (update.result >= kernel.results.size() || update.param >= kernel.params.size())
        return error(": out of range");
      const KernelTensor &result = kernel.results[update.result], &param = kernel.params[update.param];
      if (result.dtype != param.dtype || !BeginsAs(result.dims, param.dims))
        return error(absl::StrCat(", which is ", param.dtype.ToString(), " of shape ", DimsToString(param.dims),
                                  "; the result is ", result.dtype.ToString(), " of shape ",
                                  DimsToString(result.dims)));
      if (before != nullptr && before->result >= update.result) return error(" is out of order");
      bool reuses = std::any_of(kernel.reuses.begin(), kernel.reuses.end(),
                                [&](const KernelDesc::Reuse& reuse) { return reuse.result == update.result; });
      if (reuses) return error(", which may also lie in place of a parameter");
      before = &update;
    }
    return absl::OkStatus();
  }

  absl::Status CheckKernelParts(const KernelDesc& kernel) {
    for (const KernelTensor& param : kernel.params) RVM_RETURN_IF_ERROR(CheckKernelTensor(param, kernel));
    for (const KernelTensor& result : kernel.results) RVM_RETURN_IF_ERROR(CheckKernelTensor(result, kernel));
    for (const KernelDesc::Check& check : kernel.checks) {
      RVM_RETURN_IF_ERROR(VerifyDim(check.a, kernel));
      RVM_RETURN_IF_ERROR(VerifyDim(check.b, kernel));
      if (check.relation > DimRelation::kAtLeast) return absl::InvalidArgumentError("an unknown relation of dims");
    }
    RVM_RETURN_IF_ERROR(VerifyDim(kernel.workspace, kernel));
    if (kernel.workspace.is_const() &&
        (kernel.workspace.constant() < 0 || kernel.workspace.constant() > kMaxTensorBytes)) {
      return absl::InvalidArgumentError(absl::StrCat("a workspace of ", kernel.workspace.constant(), " bytes"));
    }
    RVM_RETURN_IF_ERROR(CheckReuses(kernel));
    RVM_RETURN_IF_ERROR(CheckUpdates(kernel));
    return CheckSymbols(kernel);
  }

  absl::Status CheckKernel(uint32_t index) {
    const KernelDesc& kernel = executable_.kernels[index];
    absl::Status status = CheckKernelParts(kernel);
    if (status.ok()) return status;
    return Error("kernels", index, kernel.name, std::string(status.message()));
  }

  absl::Status CheckClass() {
    size_t recipes = executable_.recipes.size(), kernels = executable_.kernels.size();
    if (executable_.is_native()) {
      if (recipes != 0) return Error("recipes", 0, "the executable is native; recipes are portable");
      return CheckDeviceCodes();
    }
    if (!executable_.device_codes.empty())
      return Error("device code", 0, "the executable is portable; code for devices is not");
    if (!executable_.code_objects.empty())
      return Error("targets", 0, "the executable is portable; machine code is not");
    if (recipes != kernels) return Error("recipes", 0, absl::StrCat(recipes, " recipes for ", kernels, " kernels"));
    for (size_t i = 0; i < recipes; ++i) {
      absl::Status status = VerifyRecipe(executable_.kernels[i], executable_.recipes[i]);
      if (!status.ok()) return Error("recipes", i, executable_.kernels[i].name, std::string(status.message()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckControlCodes() {
    for (size_t c = 0; c < executable_.control_codes.size(); ++c) {
      const ControlCode& code = executable_.control_codes[c];
      auto error = [&](std::string_view what) { return Error("control", c, code.target, what); };
      if (code.functions.size() != executable_.functions.size()) {
        return error(absl::StrCat("code of ", code.functions.size(), " functions; the executable has ",
                                  executable_.functions.size()));
      }
      for (size_t f = 0; f < code.functions.size(); ++f) {
        const ControlCode::Function& function = code.functions[f];
        for (size_t i = 0; i < function.places.size(); ++i) {
          const ControlCode::Place& place = function.places[i];
          bool ascends = i == 0 || function.places[i - 1].offset < place.offset;
          if (!ascends || place.offset >= function.size)
            return error(absl::StrCat("place ", i, " of function ", f, " is not behind the one before in its code"));
          if (place.line > executable_.functions[f].code.size())
            return error(absl::StrCat("place ", i, " of function ", f, " is in no instruction"));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckDeviceKernel(const DeviceCode::Kernel& kernel) {
    if (kernel.kernel.value >= executable_.kernels.size())
      return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel.kernel.value, " out of range"));
    const KernelDesc& desc = executable_.kernels[kernel.kernel.value];
    RVM_RETURN_IF_ERROR(VerifyDim(kernel.workspace, desc));
    for (const Dim& items : kernel.launches) RVM_RETURN_IF_ERROR(VerifyDim(items, desc));
    uint32_t next = 0;  // the first launch that may be a product
    for (size_t i = 0; i < kernel.products.size(); ++i) {
      const DeviceProduct& product = kernel.products[i];
      absl::Status status = CheckProduct(product, desc);
      if (status.ok() && (product.launch >= kernel.launches.size() || product.launch < next))
        status = absl::InvalidArgumentError("launches of products are not ascending ones of the kernel");
      next = product.launch + (product.has_tail ? 2 : 1);
      if (status.ok() && next > kernel.launches.size())
        status = absl::InvalidArgumentError("the launch of its tail is not there");
      if (!status.ok())
        return absl::InvalidArgumentError(
            absl::StrCat("kernel ", kernel.kernel.value, ", product ", i, ": ", status.message()));
    }
    return absl::OkStatus();
  }

  // Checks the calls of a kernel of the code, which are of functions that the code should have.
  absl::Status CheckCalls(const DeviceCode& code, const DeviceCode::Kernel& kernel) {
    auto error = [&](auto... parts) {
      return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel.kernel.value, ", call ", parts...));
    };
    const KernelDesc& desc = executable_.kernels[kernel.kernel.value];
    size_t workspace = desc.params.size() + desc.results.size();
    for (size_t i = 0; i < kernel.calls.size(); ++i) {
      const DeviceCall& call = kernel.calls[i];
      auto callee = std::find_if(code.kernels.begin(), code.kernels.end(),
                                 [&](const DeviceCode::Kernel& other) { return other.kernel == call.kernel; });
      if (callee == code.kernels.end() || call.launch >= callee->launches.size()) {
        return error(i, ": no function of launch ", call.launch, " of kernel ", call.kernel.value);
      }
      for (const DeviceCall::Argument& argument : call.arguments) {
        size_t number = argument.argument;
        size_t zero = workspace + desc.num_symbols + 1;
        if (number > zero) return error(i, ": argument ", number, " out of range");
        bool is_number =
            (number > workspace && number < zero) || (number < desc.params.size() && desc.params[number].dims.empty());
        if (is_number && argument.offset != Dim(0)) return error(i, ": an offset of argument ", number, ", a number");
        RVM_RETURN_IF_ERROR(VerifyDim(argument.offset, desc));
      }
    }
    if (kernel.calls.empty() || kernel.calls.size() == kernel.launches.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel.kernel.value, ": ", kernel.calls.size(),
                                                   " calls for ", kernel.launches.size(), " launches"));
  }

  // Checks the tables only. The memory of the matrices is checked when the product is computed.
  absl::Status CheckProduct(const DeviceProduct& product, const KernelDesc& kernel) {
    auto error = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
    size_t results = kernel.params.size(), workspace = results + kernel.results.size();
    for (const DeviceProduct::Matrix* matrix : product.matrices()) {
      size_t argument = matrix->argument;
      if (argument > workspace) return error("argument ", argument, " out of range");
      if (argument == workspace) continue;
      const KernelTensor& tensor = argument < results ? kernel.params[argument] : kernel.results[argument - results];
      if (argument < results && tensor.dims.empty()) return error("argument ", argument, " is a scalar");
      if (tensor.dtype != matrix->dtype) {
        return error("argument ", argument, " has elements of ", tensor.dtype.ToString(), ", not of ",
                     matrix->dtype.ToString());
      }
    }
    if (product.d.argument < results) return error("stores to a parameter");
    DataType factors = product.a.dtype, sums = factors == kFloat64 ? kFloat64 : kFloat32;
    if (!factors.is_float()) return error("multiplies ", factors.ToString());
    if (product.b.dtype != factors || (product.d.dtype != factors && product.d.dtype != sums)) {
      return error("factors of ", factors.ToString(), " and ", product.b.dtype.ToString(), " give ",
                   product.d.dtype.ToString());
    }
    if (product.addends.size() > DeviceProduct::kMaxAddends) return error(product.addends.size(), " addends");
    for (const DeviceProduct::Matrix& addend : product.addends) {
      if (addend.dtype != product.d.dtype) return error("adds ", addend.dtype.ToString());
    }
    if (!std::isfinite(product.scale)) return error("a scale that is not finite");
    for (const Dim& dim : product.dims()) RVM_RETURN_IF_ERROR(VerifyDim(dim, kernel));
    return absl::OkStatus();
  }

  // Tensors on devices have no place in an arena, so with device code no function has one.
  absl::Status CheckDeviceCodes() {
    for (size_t i = 0; i < executable_.device_codes.size(); ++i) {
      const DeviceCode& code = executable_.device_codes[i];
      auto error = [&](std::string_view what) { return Error("device code", i, code.target, what); };
      for (size_t k = 0; k < code.kernels.size(); ++k) {
        if (k > 0 && code.kernels[k].kernel.value <= code.kernels[k - 1].kernel.value)
          return error("kernels are not in the order of their ids");
        absl::Status status = CheckDeviceKernel(code.kernels[k]);
        if (status.ok()) status = CheckCalls(code, code.kernels[k]);
        if (!status.ok()) return error(std::string(status.message()));
      }
    }
    return absl::OkStatus();
  }

  // That a chain of calls is one tensor, to which each adds in place.
  static absl::Status CheckAccumulator(const BatchVariant& batch, const KernelDesc& kernel, const KernelDesc& variant) {
    uint32_t param = *batch.accumulator;
    auto error = [](const char* what) { return absl::InvalidArgumentError(what); };
    if (batch.has_same_bits) return error("a variant of a chain gives the same bits as its kernel");
    if (!batch.IsShared(param)) return error("the accumulator is not a shared parameter");
    if (kernel.results.size() != 1 || kernel.params.size() <= param)
      return error("the accumulator is not the only result");
    const KernelTensor &sum = kernel.results[0], &from = kernel.params[param];
    if (sum.dtype != from.dtype || sum.dims != from.dims || sum.dims.empty())
      return error("the accumulator has another type than the result, or is a number");
    auto is_in_place = [&](const KernelDesc& desc) {
      return std::ranges::find(desc.reuses, KernelDesc::Reuse{0, param}) != desc.reuses.end();
    };
    return is_in_place(kernel) && is_in_place(variant) ? absl::OkStatus()
                                                       : error("the result may not have the memory of the accumulator");
  }

  // That a kernel makes what the variant has instead of a shared parameter.
  absl::Status CheckArranged(const BatchVariant& batch, const KernelDesc& kernel, const KernelDesc& variant) const {
    auto is_static = [](const KernelTensor& tensor) {
      return !tensor.dims.empty() && std::ranges::all_of(tensor.dims, [](const Dim& dim) { return dim.is_const(); });
    };
    for (size_t a = 0; a < batch.arranged.size(); ++a) {
      const auto [param, id] = batch.arranged[a];
      auto error = [p = param](const char* what) {
        return absl::InvalidArgumentError(absl::StrCat("arranged parameter ", p, what));
      };
      if (a > 0 && batch.arranged[a - 1].param >= param) return error(" is not in the order of parameters");
      if (param >= kernel.params.size() || !batch.IsShared(param) || param == batch.accumulator)
        return error(" is not one that calls share");
      if (batch.has_same_bits) return error(" is for variants of other sums");
      if (id.value >= executable_.kernels.size()) return error(": its kernel is out of range");
      const KernelDesc& maker = executable_.kernels[id.value];
      if (maker.params.size() != 1 || maker.results.size() != 1 || maker.num_symbols != 0 || !maker.updates.empty())
        return error(": its kernel has symbols, updates, or not one parameter and one result");
      if (!(maker.params[0] == kernel.params[param]) || !(maker.results[0] == variant.params[param]) ||
          !is_static(maker.params[0]) || !is_static(maker.results[0]))
        return error(": its kernel has other types");
    }
    return absl::OkStatus();
  }

  // That the tensors of `variant` are those of `kernel` with an axis for the calls. The extents of the other axes may
  // be given in other ways: a call checks them.
  absl::Status CheckBatchVariant(const BatchVariant& batch) {
    auto error = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
    size_t kernels = executable_.kernels.size();
    if (batch.kernel.value >= kernels || batch.variant.value >= kernels) return error("a kernel that is out of range");
    const KernelDesc& kernel = executable_.kernels[batch.kernel.value];
    const KernelDesc& variant = executable_.kernels[batch.variant.value];
    size_t max_reuses = batch.accumulator ? 1 : 0;
    if (!variant.values.empty() || variant.reuses.size() > max_reuses || !variant.updates.empty())
      return error("the variant has symbols that are values, reuses or updates");
    if (!kernel.updates.empty()) return error("the kernel updates a parameter");
    if (batch.accumulator) RVM_RETURN_IF_ERROR(CheckAccumulator(batch, kernel, variant));
    if (variant.params.size() != kernel.params.size() || variant.results.size() != kernel.results.size())
      return error("the variant has another number of parameters or results");
    std::optional<Dim> calls;
    auto check = [&](const KernelTensor& one, const KernelTensor& many, bool is_shared) {
      if (one.dtype != many.dtype || many.dims.size() != one.dims.size() + (is_shared ? 0 : 1)) return false;
      if (is_shared) return true;
      if (!calls) calls = many.dims[0];
      return many.dims[0].kind() == DimKind::kVar && many.dims[0].id() == calls->id();
    };
    for (uint32_t p = 0; p < kernel.params.size(); ++p) {
      if (batch.FindArranged(p) == nullptr && !check(kernel.params[p], variant.params[p], batch.IsShared(p)))
        return error("parameter ", p, " of the variant does not fit");
    }
    for (size_t i = 0; i < kernel.results.size(); ++i) {
      if (!check(kernel.results[i], variant.results[i], batch.accumulator.has_value()))
        return error("result ", i, " of the variant does not fit");
    }
    RVM_RETURN_IF_ERROR(CheckArranged(batch, kernel, variant));
    if (!calls) return error("the variant has no axis for the calls");
    for (size_t s = 0; s < batch.shared.size(); ++s) {
      bool ascends = s == 0 || batch.shared[s - 1] < batch.shared[s];
      if (!ascends || batch.shared[s] >= kernel.params.size())
        return error("shared parameters are not ascending, or out of range");
    }
    return absl::OkStatus();
  }

  absl::Status CheckBatchVariants() {
    for (size_t i = 0; i < executable_.batch_variants.size(); ++i) {
      const BatchVariant& batch = executable_.batch_variants[i];
      absl::Status status = CheckBatchVariant(batch);
      if (!status.ok()) return Error("batch", i, std::string(status.message()));
      if (i > 0 && executable_.batch_variants[i - 1].kernel.value >= batch.kernel.value)
        return Error("batch", i, "kernels are not in the order of their ids");
    }
    return absl::OkStatus();
  }

  // Elements of a tensor in an arena would have to be there when the function returns.
  absl::Status CheckArenas() {
    if (executable_.device_codes.empty() && executable_.batch_variants.empty()) return absl::OkStatus();
    for (size_t i = 0; i < executable_.functions.size(); ++i) {
      const FunctionDesc& function = executable_.functions[i];
      if (function.arena_bytes != 0) {
        return Error("functions", i, function.name,
                     executable_.device_codes.empty()
                         ? "plans tensors in an arena; the executable has variants for batches"
                         : "plans tensors in an arena; the executable has code for devices");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckConstant(uint32_t index) {
    const Literal& literal = executable_.constants[index];
    if (literal.shape().size() > kMaxRank)
      return Error("constants", index, absl::StrCat("a tensor of rank ", literal.shape().size()));
    if (!literal.dtype().is_bool()) return absl::OkStatus();
    std::span<const uint8_t> values = literal.values<uint8_t>();
    if (std::all_of(values.begin(), values.end(), [](uint8_t v) { return v <= 1; })) return absl::OkStatus();
    return Error("constants", index, "a bool that is neither 0 nor 1");
  }

  absl::Status CheckFunctions() {
    for (uint32_t i = 0; i < executable_.functions.size(); ++i) {
      const FunctionDesc& function = executable_.functions[i];
      auto error = [&](std::string_view what) { return Error("functions", i, function.name, what); };
      if (function.num_params > function.registers.size()) {
        return error(
            absl::StrCat(function.num_params, " parameters; frame has ", function.registers.size(), " registers"));
      }
      if (!IsValue(function.result)) return error(absl::StrCat("result type ", function.result.value, " out of range"));
      if (function.returns_fields && executable_.types[function.result.value].kind != TypeDescKind::kTuple)
        return error(absl::StrCat("returns fields; the result is ", Text(function.result)));
      if (function.arena_bytes % kArenaAlignment != 0)
        return error(absl::StrCat("an arena of ", function.arena_bytes, " bytes, not a multiple of 64"));
      for (size_t r = 0; r < function.registers.size(); ++r) {
        const RegisterDesc& reg = function.registers[r];
        if (!IsType(reg.type))
          return error(absl::StrCat("type ", reg.type.value, " of register r", r, " out of range"));
        if (r < function.num_params && !IsValue(reg.type)) return error(absl::StrCat("parameter r", r, " is a shell"));
        if (!reg.planned) continue;
        const TypeDesc& type = executable_.types[reg.type.value];
        bool is_static = type.kind == TypeDescKind::kTensor &&
                         std::count(type.dims.begin(), type.dims.end(), TypeDesc::kUnknownDim) == 0;
        if (r < function.num_params || !is_static)
          return error(absl::StrCat("planned register r", r, " is not a local tensor of static shape"));
      }
      for (size_t l = 0; l < function.lines.size(); ++l) {
        const SourceLine& line = function.lines[l];
        if (l > 0 && function.lines[l - 1].pc >= line.pc) return error("lines are not sorted by pc");
        if (line.line != 0 && line.file >= executable_.files.size())
          return error(absl::StrCat("file ", line.file, " of a line out of range"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckEntries() {
    absl::flat_hash_set<std::string> names;
    for (size_t i = 0; i < executable_.entries.size(); ++i) {
      const Entry& entry = executable_.entries[i];
      auto error = [&](std::string_view what) { return Error("entries", i, entry.name, what); };
      if (!names.insert(entry.name).second) return error("an entry of this name exists already");
      if (entry.function.value >= executable_.functions.size())
        return error(absl::StrCat("function ", entry.function.value, " out of range"));
      if (closure_functions_.contains(entry.function)) return error("is the code of a closure");
      if (executable_.functions[entry.function.value].returns_fields) return error("returns fields; expected a value");
      size_t params = executable_.functions[entry.function.value].num_params;
      if (entry.param_names.size() != params)
        return error(absl::StrCat(entry.param_names.size(), " parameter names; expected ", params));
    }
    return absl::OkStatus();
  }

  const Executable& executable_;
  absl::flat_hash_set<TypeKey> unique_types_;
  absl::flat_hash_set<FunctionId> closure_functions_;
};

}  // namespace

absl::Status VerifyDim(const Dim& dim, const KernelDesc& kernel) {
  if (dim.is_binary()) {
    RVM_RETURN_IF_ERROR(VerifyDim(dim.lhs(), kernel));
    return VerifyDim(dim.rhs(), kernel);
  }
  if (dim.is_const()) return absl::OkStatus();
  if (dim.kind() != DimKind::kVar) return absl::InvalidArgumentError("a dim without a value");
  if (dim.id() < 0 || dim.id() >= kernel.num_symbols)
    return absl::InvalidArgumentError(absl::StrCat("symbol ", dim.id(), " out of range"));
  return absl::OkStatus();
}

absl::Status VerifyTables(const Executable& executable) { return TableVerifier(executable).Run(); }

std::vector<LayoutId> ClosureLayouts(const Executable& executable) {
  std::vector<LayoutId> layouts(executable.functions.size());
  for (uint32_t i = 0; i < executable.layouts.size(); ++i) {
    const CellLayout& layout = executable.layouts[i];
    if (layout.kind == CellKind::kClosure) layouts[layout.function.value] = LayoutId(i);
  }
  return layouts;
}

}  // namespace rvm
