#include "serialization/decoder.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/byte_reader.h"
#include "serialization/file_frame.h"
#include "serialization/format.h"
#include "serialization/isa/isa.h"
#include "serialization/limits.h"

namespace rvm {
namespace {

using format::DimCode;
using format::Section;

std::string HexText(uint64_t value) { return absl::StrCat("0x", absl::Hex(value)); }

class Decoder {
 public:
  Decoder(std::span<const uint8_t> bytes, const DecodeOptions& options) : bytes_(bytes), options_(options) {}

  absl::StatusOr<Executable> Run() {
    RVM_ASSIGN_OR_RETURN(frame_, ReadFrame(bytes_, options_.check_constants));
    executable_.executable_class = frame_.executable_class;
    executable_.format_minor = frame_.minor;
    absl::Status status = ReadSections();
    if (!status.ok()) return MentionNewerFormat(status, frame_.minor);
    return std::move(executable_);
  }

 private:
  // In the order of the file: strings are numbered by first use.
  absl::Status ReadSections() {
    for (const SectionEntry& entry : frame_.sections) RVM_RETURN_IF_ERROR(ReadSection(entry));
    if (code_objects_read_ != executable_.code_objects.size()) {
      return FormatError(format::kHeaderBytes, "section table", absl::StrCat(code_objects_read_, " code objects"),
                         absl::StrCat("one for each of ", executable_.code_objects.size(), " targets"));
    }
    if (strings_used_ == strings_.size()) return absl::OkStatus();
    return FormatError(frame_.Find(Section::kStrings)->offset, "strings", absl::StrCat(strings_.size(), " strings"),
                       absl::StrCat(strings_used_, ", as many as are used"));
  }

  absl::Status ReadSection(const SectionEntry& entry) {
    ByteReader in = ReaderOf(bytes_, entry);
    if (format::FindSection(entry.id) == nullptr) {
      ReadExtraSection(in, entry.id);
      return in.Finish();
    }
    switch (static_cast<Section>(entry.id)) {
      case Section::kStrings: ReadStrings(in); break;
      case Section::kTypes: ReadTypes(in); break;
      case Section::kAdts: ReadAdts(in); break;
      case Section::kLayouts: ReadLayouts(in); break;
      case Section::kKernels: ReadKernels(in); break;
      case Section::kFunctions: ReadFunctions(in); break;
      case Section::kConstants: ReadConstants(in); break;
      case Section::kConstantData: return absl::OkStatus();  // read by ReadConstants
      case Section::kEntries: ReadEntries(in); break;
      case Section::kFiles: ReadFiles(in); break;
      case Section::kLines: ReadLines(in); break;
      case Section::kMetadata: ReadMetadata(in); break;
      case Section::kRecipes: ReadRecipes(in); break;
      case Section::kTargets: ReadTargets(in); break;
      case Section::kCodeObject: ReadCodeObject(in); break;
      case Section::kDeviceCode: ReadDeviceCode(in); break;
      case Section::kDeviceProducts: ReadDeviceProducts(in); break;
      case Section::kUpdates: ReadUpdates(in); break;
      case Section::kDeviceCalls: ReadDeviceCalls(in); break;
      case Section::kControl: ReadControl(in); break;
      case Section::kBatch: ReadBatch(in); break;
      case Section::kSignature: return absl::OkStatus();  // signature.h
    }
    return in.Finish();
  }

  // ---- pieces ---------------------------------------------------------------

  void ReadStrings(ByteReader& in) {
    uint32_t count = in.Count(4);
    absl::flat_hash_set<std::string_view> seen;
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      uint64_t at = in.offset();
      std::span<const uint8_t> text = in.Bytes(in.Count(1));
      std::string_view view(reinterpret_cast<const char*>(text.data()), text.size());
      if (in.ok() && !seen.insert(view).second) in.Fail(at, "a string for the second time", "each string once");
      strings_.push_back(view);
    }
  }

  std::string Str(ByteReader& in) {
    uint64_t at = in.offset();
    uint32_t index = in.U32();
    if (!in.ok()) return "";
    if (index >= strings_.size() || index > strings_used_) {
      in.Fail(at, absl::StrCat("string ", index),
              absl::StrCat("one of the ", strings_.size(), " strings, numbered by first use"));
      return "";
    }
    strings_used_ = std::max(strings_used_, index + 1);
    return std::string(strings_[index]);
  }

  template <typename Id>
  std::vector<Id> Ids(ByteReader& in) {
    uint32_t count = in.Count(4);
    std::vector<Id> ids;
    ids.reserve(count);
    for (uint32_t i = 0; i < count; ++i) ids.push_back(Id(in.U32()));
    return ids;
  }

  DataType DType(ByteReader& in) {
    uint64_t at = in.offset();
    uint16_t packed = in.U16();
    std::optional<DataType> dtype = UnpackDataType(packed);
    if (in.ok() && !dtype) in.Fail(at, absl::StrCat("dtype ", HexText(packed)), "a storable dtype (code << 8 | bits)");
    return dtype.value_or(kInt32);
  }

  // ---- sections -------------------------------------------------------------

  void ReadTypes(ByteReader& in) {
    uint32_t count = in.Count(3);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      TypeDesc& type = executable_.types.emplace_back();
      uint64_t at = in.offset();
      type.kind = static_cast<TypeDescKind>(
          in.AtMost(static_cast<uint64_t>(TypeDescKind::kShell), in.U8(), at, "kind of type"));
      switch (type.kind) {
        case TypeDescKind::kScalar: type.dtype = DType(in); break;
        case TypeDescKind::kTensor: {
          type.dtype = DType(in);
          uint32_t rank = in.Count(8);
          for (uint32_t d = 0; d < rank; ++d) type.dims.push_back(in.I64());
          break;
        }
        case TypeDescKind::kTuple: type.fields = Ids<TypeId>(in); break;
        case TypeDescKind::kAdt: type.adt = AdtId(in.U32()); break;
        case TypeDescKind::kClosure:
          type.fields = Ids<TypeId>(in);
          type.result = TypeId(in.U32());
          break;
        case TypeDescKind::kRef: type.fields = {TypeId(in.U32())}; break;
        case TypeDescKind::kShell: type.dims = {in.U16()}; break;
      }
    }
  }

  void ReadAdts(ByteReader& in) {
    uint32_t count = in.Count(8);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      AdtDesc& adt = executable_.adts.emplace_back();
      adt.name = Str(in);
      uint32_t constructors = in.Count(12);
      for (uint32_t c = 0; c < constructors && in.ok(); ++c) {
        AdtDesc::Constructor& constructor = adt.constructors.emplace_back();
        constructor.name = Str(in);
        constructor.fields = Ids<TypeId>(in);
        constructor.layout = LayoutId(in.U32());
      }
    }
  }

  void ReadLayouts(ByteReader& in) {
    uint32_t count = in.Count(15);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      CellLayout& layout = executable_.layouts.emplace_back();
      uint64_t at = in.offset();
      layout.kind =
          static_cast<CellKind>(in.AtMost(static_cast<uint64_t>(CellKind::kRef), in.U8(), at, "kind of cell"));
      layout.type = TypeId(in.U32());
      layout.tag = in.U16();
      layout.function = FunctionId(in.U32());
      layout.fields = Ids<TypeId>(in);
    }
  }

  // Dims stay as they are written, so that they encode to the same bytes again.
  Dim ReadDim(ByteReader& in, int depth, int& nodes) {
    uint64_t at = in.offset();
    if (depth > limits::kMaxDimDepth || ++nodes > limits::kMaxDimNodes) {
      in.Fail(at, "a larger dim",
              absl::StrCat("at most ", limits::kMaxDimNodes, " nodes, nested ", limits::kMaxDimDepth, " deep"));
    }
    auto code = static_cast<DimCode>(in.AtMost(static_cast<uint64_t>(DimCode::kBroadcast), in.U8(), at, "kind of dim"));
    if (!in.ok()) return Dim();
    if (code == DimCode::kConst) return Dim(in.I64());
    if (code == DimCode::kVar) {
      uint32_t id = in.U32();
      return Dim::Var(id, Str(in));
    }
    static constexpr DimKind kKinds[] = {DimKind::kAdd,      DimKind::kSub, DimKind::kMul, DimKind::kFloorDiv,
                                         DimKind::kFloorMod, DimKind::kMin, DimKind::kMax, DimKind::kBroadcast};
    DimKind kind = kKinds[static_cast<size_t>(code) - static_cast<size_t>(DimCode::kAdd)];
    Dim lhs = ReadDim(in, depth + 1, nodes);
    Dim rhs = ReadDim(in, depth + 1, nodes);
    return in.ok() ? BinaryDimAsIs(kind, lhs, rhs) : Dim();
  }
  Dim ReadDim(ByteReader& in) {
    int nodes = 0;
    return ReadDim(in, 0, nodes);
  }

  void ReadKernelTensors(ByteReader& in, std::vector<KernelTensor>& tensors) {
    uint32_t count = in.Count(6);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      KernelTensor& tensor = tensors.emplace_back();
      tensor.dtype = DType(in);
      uint32_t rank = in.Count(9);
      for (uint32_t d = 0; d < rank && in.ok(); ++d) tensor.dims.push_back(ReadDim(in));
    }
  }

  void ReadKernels(ByteReader& in) {
    uint32_t count = in.Count(37);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      KernelDesc& kernel = executable_.kernels.emplace_back();
      kernel.name = Str(in);
      kernel.symbol = Str(in);
      uint64_t at = in.offset();
      // Each is bound by a dim or a value of a parameter, which has yet to come.
      kernel.num_symbols = static_cast<uint32_t>(in.AtMost(in.left(), in.U32(), at, "number of symbols"));
      ReadKernelTensors(in, kernel.params);
      ReadKernelTensors(in, kernel.results);
      uint32_t values = in.Count(12);
      for (uint32_t v = 0; v < values && in.ok(); ++v) {
        KernelDesc::ValueSymbol& value = kernel.values.emplace_back();
        value.symbol = in.U32();
        value.param = in.U32();
        value.element = in.U32();
      }
      uint32_t checks = in.Count(23);
      for (uint32_t c = 0; c < checks && in.ok(); ++c) {
        KernelDesc::Check& check = kernel.checks.emplace_back();
        check.a = ReadDim(in);
        check.b = ReadDim(in);
        uint64_t place = in.offset();
        check.relation = static_cast<DimRelation>(
            in.AtMost(static_cast<uint64_t>(DimRelation::kAtLeast), in.U8(), place, "relation of dims"));
        check.what = Str(in);
      }
      kernel.workspace = ReadDim(in);
      kernel.reuses.resize(in.Count(8));
      for (KernelDesc::Reuse& reuse : kernel.reuses) {
        reuse.result = in.U32();
        reuse.param = in.U32();
      }
    }
  }

  void ReadFunctions(ByteReader& in) {
    uint32_t count = in.Count(23);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      FunctionDesc& function = executable_.functions.emplace_back();
      function.name = Str(in);
      function.num_params = in.U16();
      function.result = TypeId(in.U32());
      function.returns_fields = in.Bool("fields flag");
      function.arena_bytes = in.U32();
      function.registers.resize(in.Count(5));
      for (RegisterDesc& reg : function.registers) {
        reg.type = TypeId(in.U32());
        reg.planned = in.Bool("planned flag");
      }
      uint32_t units = in.Count(2);
      std::span<const uint8_t> code = in.Bytes(uint64_t{units} * 2);
      function.code.resize(code.size() / 2);
      for (size_t u = 0; u < function.code.size(); ++u) {
        function.code[u] = static_cast<uint16_t>(code[2 * u] | code[2 * u + 1] << 8);
      }
    }
  }

  void ReadConstants(ByteReader& in) {
    const SectionEntry& data = *frame_.Find(Section::kConstantData);
    bool borrow =
        options_.owner != nullptr && reinterpret_cast<uintptr_t>(bytes_.data()) % format::kTensorAlignment == 0;
    uint64_t end = 0;  // of the tensors so far, in the section of their elements
    uint32_t count = in.Count(6);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      uint64_t at = in.offset();
      DataType dtype = DType(in);
      Shape shape;
      uint32_t rank = in.Count(8);
      bool negative = false;
      for (uint32_t d = 0; d < rank; ++d) {
        shape.push_back(in.I64());
        negative = negative || shape.back() < 0;
      }
      if (!in.ok()) return;
      uint64_t begin = format::AlignUp(end, format::kTensorAlignment);
      uint64_t room = begin <= data.size ? data.size - begin : 0;
      std::optional<int64_t> elements = negative ? std::nullopt : NumElements(shape);
      if (!elements || static_cast<uint64_t>(*elements) > room / static_cast<uint64_t>(dtype.bytes())) {
        return in.Fail(at, absl::StrCat("constant ", i, " of shape ", ShapeToString(shape)),
                       absl::StrCat("one that fits into the ", room, " bytes of elements left"));
      }
      int64_t bytes = *elements * dtype.bytes();
      if (begin > data.size) return in.Fail(at, "a constant after the end of the elements", "one inside");
      if (options_.check_constants && !CheckZeros(bytes_, data.offset + end, data.offset + begin, "").ok()) {
        return in.Fail(data.offset + end, "padding that is not zero", "zeros");
      }
      end = begin + static_cast<uint64_t>(bytes);
      const uint8_t* address = bytes_.data() + data.offset + begin;
      if (borrow) {
        executable_.constants.emplace_back(dtype, std::move(shape), Buffer::Borrow(address, bytes, options_.owner));
      } else {
        std::span<const std::byte> elements_bytes(reinterpret_cast<const std::byte*>(address),
                                                  static_cast<size_t>(bytes));
        executable_.constants.push_back(Literal::FromBytes(dtype, std::move(shape), elements_bytes));
      }
    }
    if (in.ok() && end != data.size)
      in.Fail(data.offset + end, absl::StrCat(data.size - end, " more bytes of constants"), "the end of the section");
  }

  void ReadEntries(ByteReader& in) {
    uint32_t count = in.Count(12);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      Entry& entry = executable_.entries.emplace_back();
      entry.name = Str(in);
      entry.function = FunctionId(in.U32());
      uint32_t params = in.Count(4);
      for (uint32_t p = 0; p < params && in.ok(); ++p) entry.param_names.push_back(Str(in));
    }
  }

  void ReadFiles(ByteReader& in) {
    uint32_t count = in.Count(4);
    for (uint32_t i = 0; i < count && in.ok(); ++i) executable_.files.push_back(Str(in));
  }

  void ReadLines(ByteReader& in) {
    for (FunctionDesc& function : executable_.functions) {
      uint32_t count = in.Count(20);
      function.lines.resize(count);
      for (uint32_t i = 0; i < count && in.ok(); ++i) {
        function.lines[i] = {in.U32(), in.U32(), in.U32(), in.U32(), Str(in)};
      }
    }
  }

  void ReadMetadata(ByteReader& in) {
    uint32_t count = in.Count(8);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      std::string key = Str(in);
      std::string value = Str(in);
      executable_.metadata.emplace_back(std::move(key), std::move(value));
    }
  }

  void ReadDims(ByteReader& in, Dims& dims) {
    uint32_t count = in.Count(5);
    for (uint32_t i = 0; i < count && in.ok(); ++i) dims.push_back(ReadDim(in));
  }

  RecipeStep ReadRecipeStep(ByteReader& in) {
    RecipeStep step;
    uint64_t at = in.offset();
    step.op = static_cast<RecipeOp>(in.AtMost(std::size(kRecipeOps) - 1, in.U8(), at, "recipe step"));
    uint8_t fields = kRecipeOps[static_cast<size_t>(step.op)].fields;
    step.dtype = DType(in);
    if (fields & kFunctionField) {
      at = in.offset();
      step.function = static_cast<uint8_t>(in.AtMost(FunctionNames(step.op).size() - 1, in.U8(), at, "function"));
    }
    if (fields & (kAField | kNumberField)) step.a = in.U32();
    if (fields & kBField) step.b = in.U32();
    if (fields & kCField) step.c = in.U32();
    if (fields & kBufferField) step.buffer = in.U32();
    if (fields & kBitsField) step.bits = in.I64();
    return step;
  }

  void ReadRecipes(ByteReader& in) {
    uint32_t count = in.Count(8);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      KernelRecipe& recipe = executable_.recipes.emplace_back();
      uint32_t workspaces = in.Count(12);
      for (uint32_t w = 0; w < workspaces && in.ok(); ++w) {
        RecipeWorkspace& workspace = recipe.workspaces.emplace_back();
        workspace.dtype = DType(in);
        workspace.offset = ReadDim(in);
        workspace.elements = ReadDim(in);
      }
      uint32_t nests = in.Count(16);
      for (uint32_t n = 0; n < nests && in.ok(); ++n) {
        RecipeNest& nest = recipe.nests.emplace_back();
        ReadDims(in, nest.axes);
        ReadDims(in, nest.reduce_axes);
        ReadDims(in, nest.extents);
        uint32_t steps = in.Count(7);
        for (uint32_t s = 0; s < steps && in.ok(); ++s) nest.steps.push_back(ReadRecipeStep(in));
      }
    }
  }

  void ReadTargets(ByteReader& in) {
    uint32_t count = in.Count(16);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      CodeObject& object = executable_.code_objects.emplace_back();
      object.target = Str(in);
      object.triple = Str(in);
      object.features = Str(in);
      object.abi_version = in.U32();
    }
  }

  // Reads the code object of the first target without one.
  void ReadCodeObject(ByteReader& in) {
    std::span<const uint8_t> code = in.Bytes(in.left());
    if (code_objects_read_ < executable_.code_objects.size()) {
      executable_.code_objects[code_objects_read_].bytes.assign(code.begin(), code.end());
    }
    ++code_objects_read_;
  }

  void ReadDeviceCode(ByteReader& in) {
    DeviceCode& code = executable_.device_codes.emplace_back();
    code.target = Str(in);
    code.features = Str(in);
    code.is_required = in.Bool("required flag");
    uint32_t count = in.Count(13);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      DeviceCode::Kernel& kernel = code.kernels.emplace_back();
      kernel.kernel = KernelId(in.U32());
      kernel.workspace = ReadDim(in);
      ReadDims(in, kernel.launches);
    }
    std::span<const uint8_t> bytes = in.Bytes(in.left());
    code.bytes.assign(bytes.begin(), bytes.end());
  }

  DeviceProduct::Matrix ReadMatrix(ByteReader& in) {
    DeviceProduct::Matrix matrix;
    matrix.argument = in.U32();
    matrix.dtype = DType(in);
    for (Dim* dim : {&matrix.offset, &matrix.batch_stride, &matrix.row_stride, &matrix.column_stride}) {
      *dim = ReadDim(in);
    }
    return matrix;
  }

  DeviceProduct ReadDeviceProduct(ByteReader& in) {
    DeviceProduct product;
    product.launch = in.U32();
    for (Dim* dim : {&product.batches, &product.rows, &product.columns, &product.depth}) *dim = ReadDim(in);
    for (DeviceProduct::Matrix* matrix : {&product.a, &product.b, &product.d}) *matrix = ReadMatrix(in);
    uint32_t addends = in.Count(26);
    for (uint32_t i = 0; i < addends && in.ok(); ++i) product.addends.push_back(ReadMatrix(in));
    product.scale = std::bit_cast<double>(in.U64());
    uint64_t at = in.offset();
    uint8_t flags = in.U8();
    if (in.ok() && (flags & ~(format::kTf32Flag | format::kTailFlag)) != 0) {
      in.Fail(at, absl::StrCat("the flags ", flags, " of a product"), "1 (TF32), 2 (a tail) or both");
    }
    product.allows_tf32 = (flags & format::kTf32Flag) != 0;
    product.has_tail = (flags & format::kTailFlag) != 0;
    return product;
  }

  // The name with which a section begins that came after the first version.
  void ReadSectionName(ByteReader& in, Section section) {
    uint64_t begin = in.offset();
    const std::string expected(format::FindSection(static_cast<uint16_t>(section))->name);
    std::string name = ReadExtraName(in);
    if (in.ok() && name != expected)
      in.Fail(begin, absl::StrCat("the name `", name, "`"), absl::StrCat("`", expected, "`"));
  }

  // The verifier checks what the numbers stand for.
  void ReadUpdates(ByteReader& in) {
    std::vector<KernelDesc>& kernels = executable_.kernels;
    ReadSectionName(in, Section::kUpdates);
    uint32_t count = in.Count(12), last = 0;
    if (in.ok() && count == 0) in.Fail(in.offset(), "no updates", "no section, if it holds nothing");
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      uint64_t at = in.offset();
      uint32_t kernel = in.U32();
      KernelDesc::Update update;
      update.result = in.U32();
      update.param = in.U32();
      if (in.ok() && (kernel >= kernels.size() || kernel < last)) {
        in.Fail(at, absl::StrCat("an update of kernel ", kernel), "kernels that there are, in ascending order");
      }
      if (in.ok()) kernels[kernel].updates.push_back(update);
      last = kernel;
    }
  }

  void ReadDeviceProducts(ByteReader& in) {
    std::vector<DeviceCode>& codes = executable_.device_codes;
    ReadSectionName(in, Section::kDeviceProducts);
    uint32_t count = in.Count(123);
    if (in.ok() && count == 0) in.Fail(in.offset(), "no products", "no section, if it holds nothing");
    std::tuple<uint32_t, uint32_t, uint32_t> last;
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      uint64_t at = in.offset();
      uint32_t code = in.U32(), kernel = in.U32();
      DeviceProduct product = ReadDeviceProduct(in);
      bool is_there = code < codes.size() && kernel < codes[code].kernels.size();
      std::tuple<uint32_t, uint32_t, uint32_t> place(code, kernel, product.launch);
      if (in.ok() && (!is_there || (i > 0 && place <= last))) {
        in.Fail(at,
                absl::StrCat("a product of launch ", product.launch, " of kernel ", kernel, " of device code ", code),
                "products of kernels that the codes have, in ascending order");
      }
      if (in.ok()) codes[code].kernels[kernel].products.push_back(std::move(product));
      last = place;
    }
  }

  DeviceCall ReadDeviceCall(ByteReader& in) {
    DeviceCall call;
    call.kernel = KernelId(in.U32());
    call.launch = in.U32();
    uint32_t arguments = in.Count(13);
    for (uint32_t i = 0; i < arguments && in.ok(); ++i) {
      DeviceCall::Argument& argument = call.arguments.emplace_back();
      argument.argument = in.U32();
      argument.offset = ReadDim(in);
    }
    return call;
  }

  void ReadDeviceCalls(ByteReader& in) {
    std::vector<DeviceCode>& codes = executable_.device_codes;
    ReadSectionName(in, Section::kDeviceCalls);
    uint32_t count = in.Count(20);
    if (in.ok() && count == 0) in.Fail(in.offset(), "no calls", "no section, if it holds nothing");
    std::pair<uint32_t, uint32_t> last;
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      uint64_t at = in.offset();
      std::pair<uint32_t, uint32_t> place;
      place.first = in.U32();
      place.second = in.U32();
      auto [code, kernel] = place;
      DeviceCall call = ReadDeviceCall(in);
      bool is_there = code < codes.size() && kernel < codes[code].kernels.size();
      if (in.ok() && (!is_there || place < last)) {
        in.Fail(at, absl::StrCat("a call of kernel ", kernel, " of device code ", code),
                "calls of kernels that the codes have, in ascending order");
      }
      if (in.ok()) codes[code].kernels[kernel].calls.push_back(std::move(call));
      last = place;
    }
  }

  void ReadControl(ByteReader& in) {
    ReadSectionName(in, Section::kControl);
    uint32_t count = in.Count(24);
    if (in.ok() && count == 0) in.Fail(in.offset(), "no code", "no section, if it holds nothing");
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      ControlCode& code = executable_.control_codes.emplace_back();
      for (std::string* text : {&code.target, &code.triple, &code.features}) {
        std::span<const uint8_t> bytes = in.Bytes(in.Count(1));
        text->assign(bytes.begin(), bytes.end());
      }
      code.abi_version = in.U32();
      uint32_t functions = in.Count(2);
      for (uint32_t f = 0; f < functions && in.ok(); ++f) ReadControlFunction(in, code.functions.emplace_back());
      std::span<const uint8_t> bytes = in.Bytes(in.Count(1));
      code.bytes.assign(bytes.begin(), bytes.end());
    }
  }

  void ReadBatch(ByteReader& in) {
    ReadSectionName(in, Section::kBatch);
    uint32_t count = in.Count(21);
    if (in.ok() && count == 0) in.Fail(in.offset(), "no variant", "no section, if it holds nothing");
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      BatchVariant& batch = executable_.batch_variants.emplace_back();
      batch.kernel = KernelId(in.U32());
      batch.variant = KernelId(in.U32());
      uint32_t shared = in.Count(4);
      for (uint32_t p = 0; p < shared && in.ok(); ++p) batch.shared.push_back(in.U32());
      size_t at = in.offset();
      batch.has_same_bits = in.AtMost(1, in.U8(), at, "whether bits are the same") != 0;
      if (uint32_t accumulator = in.U32(); accumulator != 0) batch.accumulator = accumulator - 1;
      uint32_t arranged = in.Count(8);
      for (uint32_t a = 0; a < arranged && in.ok(); ++a) {
        uint32_t param = in.U32();
        batch.arranged.push_back({param, KernelId(in.U32())});
      }
    }
  }
  static void ReadControlFunction(ByteReader& in, ControlCode::Function& function) {
    function.size = in.Varint();
    uint64_t at = in.offset();
    auto places = static_cast<uint32_t>(in.AtMost(in.left() / 2, in.Varint(), at, "a count of"));
    uint64_t offset = 0;
    for (uint32_t i = 0; i < places && in.ok(); ++i) {
      at = in.offset();
      offset += in.Varint();
      offset = in.AtMost(function.size, offset, at, "an offset of");
      function.places.push_back({static_cast<uint32_t>(offset), in.Varint()});
    }
  }

  void ReadExtraSection(ByteReader& in, uint16_t id) {
    ExtraSection& extra = executable_.extra_sections.emplace_back();
    extra.id = id;
    extra.name = ReadExtraName(in);
    std::span<const uint8_t> contents = in.Bytes(in.left());
    extra.bytes.assign(contents.begin(), contents.end());
  }

  std::span<const uint8_t> bytes_;
  const DecodeOptions& options_;
  FileFrame frame_;
  std::vector<std::string_view> strings_;
  uint32_t strings_used_ = 0;  // those below are used
  size_t code_objects_read_ = 0;
  Executable executable_;
};

}  // namespace

absl::StatusOr<Executable> Decode(std::span<const uint8_t> bytes, const DecodeOptions& options) {
  return Decoder(bytes, options).Run();
}

std::vector<SectionInfo> ListSections(std::span<const uint8_t> bytes) {
  std::vector<SectionInfo> list;
  FileFrame frame = *ReadFrame(bytes, /*check_constants=*/false);
  for (const SectionEntry& entry : frame.sections) {
    const format::SectionSpec* spec = format::FindSection(entry.id);
    ByteReader in = ReaderOf(bytes, entry);
    std::string name = spec == nullptr ? ReadExtraName(in) : std::string(spec->name);
    list.push_back({std::move(name), entry.size, spec != nullptr});
  }
  return list;
}

}  // namespace rvm
