#include "serialization/encoder.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "serialization/checksum.h"
#include "serialization/file_frame.h"
#include "serialization/format.h"
#include "serialization/isa/isa.h"

namespace rvm {
namespace {

using format::DimCode;
using format::Section;

using Bytes = std::span<const uint8_t>;

// Bytes, some of which belong to others, who leave them as they are.
class ByteWriter {
 public:
  void U8(uint8_t v) { bytes_.push_back(v); }
  void U16(uint16_t v) { Little(v, 2); }
  void U32(uint32_t v) { Little(v, 4); }
  void U64(uint64_t v) { Little(v, 8); }
  // Seven bits per byte, the lowest first; the high bit says that more follow.
  void Varint(uint32_t v) {
    for (; v >= 0x80; v >>= 7) U8(static_cast<uint8_t>(v | 0x80));
    U8(static_cast<uint8_t>(v));
  }
  void Count(size_t n) {
    RVM_CHECK(n <= std::numeric_limits<uint32_t>::max(), "a table of an executable has 2^32 entries or more");
    U32(static_cast<uint32_t>(n));
  }
  void Copy(const void* data, size_t size) {
    const auto* begin = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  void Borrow(Bytes data) {
    borrowed_.push_back({bytes_.size(), data});
    borrowed_bytes_ += data.size();
  }
  void PadTo(size_t size) { bytes_.resize(size - borrowed_bytes_, 0); }

  size_t size() const { return bytes_.size() + borrowed_bytes_; }
  bool is_zero() const {
    return borrowed_.empty() && std::ranges::all_of(bytes_, [](uint8_t b) { return b == 0; });
  }
  uint32_t Checksum() const {
    uint32_t crc = 0;
    ForEachPart([&](Bytes part) { crc = ExtendCrc32c(crc, part); });
    return crc;
  }
  template <typename F>  // F: void(Bytes)
  void ForEachPart(const F& visit) const {
    size_t done = 0;
    for (const Borrowed& borrowed : borrowed_) {
      visit(Bytes(bytes_).subspan(done, borrowed.at - done));
      visit(borrowed.data);
      done = borrowed.at;
    }
    visit(Bytes(bytes_).subspan(done));
  }

 private:
  struct Borrowed {
    size_t at;  // in bytes_
    Bytes data;
  };
  void Little(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<uint8_t>(v >> (8 * i)));
  }
  std::vector<uint8_t> bytes_;
  std::vector<Borrowed> borrowed_;
  size_t borrowed_bytes_ = 0;
};

DimCode CodeOf(DimKind kind) {
  switch (kind) {
    case DimKind::kConst: return DimCode::kConst;
    case DimKind::kVar: return DimCode::kVar;
    case DimKind::kAdd: return DimCode::kAdd;
    case DimKind::kSub: return DimCode::kSub;
    case DimKind::kMul: return DimCode::kMul;
    case DimKind::kFloorDiv: return DimCode::kFloorDiv;
    case DimKind::kFloorMod: return DimCode::kFloorMod;
    case DimKind::kMin: return DimCode::kMin;
    case DimKind::kMax: return DimCode::kMax;
    case DimKind::kBroadcast: return DimCode::kBroadcast;
    case DimKind::kAny:
    case DimKind::kHole: break;
  }
  RVM_UNREACHABLE("a kernel has a dim without a value");
}

class Encoder {
 public:
  explicit Encoder(const Executable& executable) : executable_(executable) {}

  uint64_t file_size() const { return file_size_; }
  // The bytes of the file, in order.
  template <typename F>  // F: void(Bytes)
  void ForEachPart(const F& visit) const {
    size_t written = 0;
    auto pad_and_visit = [&](const ByteWriter& piece, uint32_t alignment) {
      static constexpr uint8_t kZeros[format::kTensorAlignment] = {};
      size_t padding = format::AlignUp(written, alignment) - written;
      visit(Bytes(kZeros, padding));
      piece.ForEachPart(visit);
      written += padding + piece.size();
    };
    pad_and_visit(head_, 1);
    for (const Piece& piece : pieces_) pad_and_visit(piece.contents, format::SectionAlignment(piece.id));
  }

  void Run() {
    EncodeTypes();
    EncodeAdts();
    EncodeLayouts();
    EncodeKernels();
    EncodeFunctions();
    EncodeConstants();
    EncodeEntries();
    EncodeFiles();
    EncodeLines();
    EncodeMetadata();
    EncodeRecipes();
    EncodeCodeObjects();
    for (const DeviceCode& code : executable_.device_codes) EncodeDeviceCode(code);
    EncodeOfKernels(Section::kDeviceProducts, &DeviceCode::Kernel::products, &Encoder::EncodeDeviceProduct);
    EncodeUpdates();
    EncodeOfKernels(Section::kDeviceCalls, &DeviceCode::Kernel::calls, &Encoder::EncodeDeviceCall);
    EncodeControl();
    EncodeBatch();
    EncodeExtraSections();
    EncodeStrings();  // all are known now
    Begin(Section::kSignature);
    MakeHead();
  }

 private:
  struct Piece {
    uint16_t id;
    ByteWriter contents;
  };
  ByteWriter& Begin(uint16_t id) {
    out_ = &pieces_.emplace_back(id).contents;
    return *out_;
  }
  ByteWriter& Begin(Section section) { return Begin(static_cast<uint16_t>(section)); }

  // Strings are numbered by their first use.
  void Str(const std::string& text) {
    auto [it, added] = string_ids_.try_emplace(text, static_cast<uint32_t>(strings_.size()));
    if (added) strings_.push_back(text);
    out_->U32(it->second);
  }
  template <typename Id>
  void Ids(const std::vector<Id>& ids) {
    out_->Count(ids.size());
    for (Id id : ids) out_->U32(id.value);
  }

  void EncodeStrings() {
    ByteWriter& out = Begin(Section::kStrings);
    out.Count(strings_.size());
    for (const std::string& text : strings_) {
      out.Count(text.size());
      out.Copy(text.data(), text.size());
    }
  }

  void EncodeTypes() {
    ByteWriter& out = Begin(Section::kTypes);
    out.Count(executable_.types.size());
    for (const TypeDesc& type : executable_.types) {
      out.U8(static_cast<uint8_t>(type.kind));
      switch (type.kind) {
        case TypeDescKind::kScalar: out.U16(PackDataType(type.dtype)); break;
        case TypeDescKind::kTensor:
          out.U16(PackDataType(type.dtype));
          out.Count(type.dims.size());
          for (int64_t dim : type.dims) out.U64(static_cast<uint64_t>(dim));
          break;
        case TypeDescKind::kTuple: Ids(type.fields); break;
        case TypeDescKind::kAdt: out.U32(type.adt.value); break;
        case TypeDescKind::kClosure:
          Ids(type.fields);
          out.U32(type.result.value);
          break;
        case TypeDescKind::kRef: out.U32(type.fields.at(0).value); break;
        case TypeDescKind::kShell: out.U16(static_cast<uint16_t>(type.dims.at(0))); break;
      }
    }
  }

  void EncodeAdts() {
    ByteWriter& out = Begin(Section::kAdts);
    out.Count(executable_.adts.size());
    for (const AdtDesc& adt : executable_.adts) {
      Str(adt.name);
      out.Count(adt.constructors.size());
      for (const AdtDesc::Constructor& constructor : adt.constructors) {
        Str(constructor.name);
        Ids(constructor.fields);
        out.U32(constructor.layout.value);
      }
    }
  }

  void EncodeLayouts() {
    ByteWriter& out = Begin(Section::kLayouts);
    out.Count(executable_.layouts.size());
    for (const CellLayout& layout : executable_.layouts) {
      out.U8(static_cast<uint8_t>(layout.kind));
      out.U32(layout.type.value);
      out.U16(layout.tag);
      out.U32(layout.function.value);
      Ids(layout.fields);
    }
  }

  void EncodeDim(const Dim& dim) {
    out_->U8(static_cast<uint8_t>(CodeOf(dim.kind())));
    if (dim.is_const()) {
      out_->U64(static_cast<uint64_t>(dim.constant()));
    } else if (dim.kind() == DimKind::kVar) {
      out_->U32(static_cast<uint32_t>(dim.id()));
      Str(dim.name());
    } else {
      EncodeDim(dim.lhs());
      EncodeDim(dim.rhs());
    }
  }

  void EncodeKernelTensors(const std::vector<KernelTensor>& tensors) {
    out_->Count(tensors.size());
    for (const KernelTensor& tensor : tensors) {
      out_->U16(PackDataType(tensor.dtype));
      out_->Count(tensor.dims.size());
      for (const Dim& dim : tensor.dims) EncodeDim(dim);
    }
  }

  void EncodeKernels() {
    ByteWriter& out = Begin(Section::kKernels);
    out.Count(executable_.kernels.size());
    for (const KernelDesc& kernel : executable_.kernels) {
      Str(kernel.name);
      Str(kernel.symbol);
      out.U32(kernel.num_symbols);
      EncodeKernelTensors(kernel.params);
      EncodeKernelTensors(kernel.results);
      out.Count(kernel.values.size());
      for (const KernelDesc::ValueSymbol& value : kernel.values) {
        out.U32(value.symbol);
        out.U32(value.param);
        out.U32(value.element);
      }
      out.Count(kernel.checks.size());
      for (const KernelDesc::Check& check : kernel.checks) {
        EncodeDim(check.a);
        EncodeDim(check.b);
        out.U8(static_cast<uint8_t>(check.relation));
        Str(check.what);
      }
      EncodeDim(kernel.workspace);
      out.Count(kernel.reuses.size());
      for (const KernelDesc::Reuse& reuse : kernel.reuses) {
        out.U32(reuse.result);
        out.U32(reuse.param);
      }
    }
  }

  void EncodeFunctions() {
    ByteWriter& out = Begin(Section::kFunctions);
    out.Count(executable_.functions.size());
    for (const FunctionDesc& function : executable_.functions) {
      Str(function.name);
      out.U16(function.num_params);
      out.U32(function.result.value);
      out.U8(function.returns_fields ? 1 : 0);
      out.U32(function.arena_bytes);
      out.Count(function.registers.size());
      for (const RegisterDesc& reg : function.registers) {
        out.U32(reg.type.value);
        out.U8(reg.planned ? 1 : 0);
      }
      out.Count(function.code.size());
      for (uint16_t unit : function.code) out.U16(unit);
    }
  }

  // The elements go to a section of their own, each tensor on its own 64-byte boundary.
  void EncodeConstants() {
    ByteWriter& data = Begin(Section::kConstantData);
    ByteWriter& out = Begin(Section::kConstants);
    out.Count(executable_.constants.size());
    for (const Literal& literal : executable_.constants) {
      out.U16(PackDataType(literal.dtype()));
      out.Count(literal.shape().size());
      for (int64_t extent : literal.shape()) out.U64(static_cast<uint64_t>(extent));
      data.PadTo(format::AlignUp(data.size(), format::kTensorAlignment));
      data.Borrow({reinterpret_cast<const uint8_t*>(literal.data()), static_cast<size_t>(literal.bytes())});
    }
  }

  void EncodeEntries() {
    ByteWriter& out = Begin(Section::kEntries);
    out.Count(executable_.entries.size());
    for (const Entry& entry : executable_.entries) {
      Str(entry.name);
      out.U32(entry.function.value);
      out.Count(entry.param_names.size());
      for (const std::string& name : entry.param_names) Str(name);
    }
  }

  void EncodeFiles() {
    ByteWriter& out = Begin(Section::kFiles);
    out.Count(executable_.files.size());
    for (const std::string& file : executable_.files) Str(file);
  }

  void EncodeLines() {
    ByteWriter& out = Begin(Section::kLines);
    for (const FunctionDesc& function : executable_.functions) {
      out.Count(function.lines.size());
      for (const SourceLine& line : function.lines) {
        out.U32(line.pc);
        out.U32(line.file);
        out.U32(line.line);
        out.U32(line.column);
        Str(line.what);
      }
    }
  }

  void EncodeMetadata() {
    ByteWriter& out = Begin(Section::kMetadata);
    out.Count(executable_.metadata.size());
    for (const auto& [key, value] : executable_.metadata) {
      Str(key);
      Str(value);
    }
  }

  void EncodeDims(const Dims& dims) {
    out_->Count(dims.size());
    for (const Dim& dim : dims) EncodeDim(dim);
  }

  void EncodeRecipeStep(const RecipeStep& step) {
    uint8_t fields = kRecipeOps[static_cast<size_t>(step.op)].fields;
    out_->U8(static_cast<uint8_t>(step.op));
    out_->U16(PackDataType(step.dtype));
    if (fields & kFunctionField) out_->U8(step.function);
    if (fields & (kAField | kNumberField)) out_->U32(step.a);
    if (fields & kBField) out_->U32(step.b);
    if (fields & kCField) out_->U32(step.c);
    if (fields & kBufferField) out_->U32(step.buffer);
    if (fields & kBitsField) out_->U64(static_cast<uint64_t>(step.bits));
  }

  void EncodeRecipes() {
    ByteWriter& out = Begin(Section::kRecipes);
    out.Count(executable_.recipes.size());
    for (const KernelRecipe& recipe : executable_.recipes) {
      out.Count(recipe.workspaces.size());
      for (const RecipeWorkspace& workspace : recipe.workspaces) {
        out.U16(PackDataType(workspace.dtype));
        EncodeDim(workspace.offset);
        EncodeDim(workspace.elements);
      }
      out.Count(recipe.nests.size());
      for (const RecipeNest& nest : recipe.nests) {
        EncodeDims(nest.axes);
        EncodeDims(nest.reduce_axes);
        EncodeDims(nest.extents);
        out.Count(nest.steps.size());
        for (const RecipeStep& step : nest.steps) EncodeRecipeStep(step);
      }
    }
  }

  void EncodeCodeObjects() {
    ByteWriter& out = Begin(Section::kTargets);
    out.Count(executable_.code_objects.size());
    for (const CodeObject& object : executable_.code_objects) {
      Str(object.target);
      Str(object.triple);
      Str(object.features);
      out.U32(object.abi_version);
    }
    for (const CodeObject& object : executable_.code_objects) {
      Begin(Section::kCodeObject).Borrow(object.bytes);
    }
  }

  void EncodeDeviceCode(const DeviceCode& code) {
    ByteWriter& out = Begin(Section::kDeviceCode);
    Str(code.target);
    Str(code.features);
    out.U8(code.is_required ? 1 : 0);
    out.Count(code.kernels.size());
    for (const DeviceCode::Kernel& kernel : code.kernels) {
      out.U32(kernel.kernel.value);
      EncodeDim(kernel.workspace);
      EncodeDims(kernel.launches);
    }
    out.Borrow(code.bytes);
  }

  void EncodeMatrix(const DeviceProduct::Matrix& matrix) {
    out_->U32(matrix.argument);
    out_->U16(PackDataType(matrix.dtype));
    for (const Dim* dim : {&matrix.offset, &matrix.batch_stride, &matrix.row_stride, &matrix.column_stride}) {
      EncodeDim(*dim);
    }
  }

  void EncodeDeviceProduct(const DeviceProduct& product) {
    ByteWriter& out = *out_;
    out.U32(product.launch);
    for (const Dim* dim : {&product.batches, &product.rows, &product.columns, &product.depth}) EncodeDim(*dim);
    for (const DeviceProduct::Matrix* matrix : {&product.a, &product.b, &product.d}) EncodeMatrix(*matrix);
    out.Count(product.addends.size());
    for (const DeviceProduct::Matrix& matrix : product.addends) EncodeMatrix(matrix);
    out.U64(std::bit_cast<uint64_t>(product.scale));
    out.U8(static_cast<uint8_t>((product.allows_tf32 ? format::kTf32Flag : 0) |
                                (product.has_tail ? format::kTailFlag : 0)));
  }

  // Encodes what some kernels of the codes have, `items`, each behind the numbers of the code and of the kernel.
  template <typename Item>
  void EncodeOfKernels(Section section, std::vector<Item> DeviceCode::Kernel::* items,
                       void (Encoder::*encode)(const Item&)) {
    size_t count = 0;
    for (const DeviceCode& code : executable_.device_codes) {
      for (const DeviceCode::Kernel& kernel : code.kernels) count += (kernel.*items).size();
    }
    if (count == 0) return;
    ByteWriter& out = Begin(section);
    SectionName(format::FindSection(static_cast<uint16_t>(section))->name);
    out.Count(count);
    for (size_t i = 0; i < executable_.device_codes.size(); ++i) {
      const std::vector<DeviceCode::Kernel>& kernels = executable_.device_codes[i].kernels;
      for (size_t k = 0; k < kernels.size(); ++k) {
        for (const Item& item : kernels[k].*items) {
          out.U32(static_cast<uint32_t>(i));
          out.U32(static_cast<uint32_t>(k));
          (this->*encode)(item);
        }
      }
    }
  }

  void EncodeDeviceCall(const DeviceCall& call) {
    out_->U32(call.kernel.value);
    out_->U32(call.launch);
    out_->Count(call.arguments.size());
    for (const DeviceCall::Argument& argument : call.arguments) {
      out_->U32(argument.argument);
      EncodeDim(argument.offset);
    }
  }

  void EncodeUpdates() {
    size_t count = 0;
    for (const KernelDesc& kernel : executable_.kernels) count += kernel.updates.size();
    if (count == 0) return;
    ByteWriter& out = Begin(Section::kUpdates);
    SectionName(format::FindSection(static_cast<uint16_t>(Section::kUpdates))->name);
    out.Count(count);
    for (size_t k = 0; k < executable_.kernels.size(); ++k) {
      for (const KernelDesc::Update& update : executable_.kernels[k].updates) {
        out.U32(static_cast<uint32_t>(k));
        out.U32(update.result);
        out.U32(update.param);
      }
    }
  }

  // For those who do not know the section.
  void SectionName(std::string_view name) {
    out_->U8(static_cast<uint8_t>(name.size()));
    out_->Copy(name.data(), name.size());
  }

  void EncodeControl() {
    if (executable_.control_codes.empty()) return;
    ByteWriter& out = Begin(Section::kControl);
    SectionName(format::FindSection(static_cast<uint16_t>(Section::kControl))->name);
    out.Count(executable_.control_codes.size());
    for (const ControlCode& code : executable_.control_codes) {
      for (const std::string* text : {&code.target, &code.triple, &code.features}) {
        out.Count(text->size());
        out.Copy(text->data(), text->size());
      }
      out.U32(code.abi_version);
      out.Count(code.functions.size());
      for (const ControlCode::Function& function : code.functions) {
        out.Varint(function.size);
        out.Varint(static_cast<uint32_t>(function.places.size()));
        uint32_t offset = 0;
        for (const ControlCode::Place& place : function.places) {
          out.Varint(place.offset - std::exchange(offset, place.offset));
          out.Varint(place.line);
        }
      }
      out.Count(code.bytes.size());
      out.Borrow(code.bytes);
    }
  }

  void EncodeBatch() {
    if (executable_.batch_variants.empty()) return;
    ByteWriter& out = Begin(Section::kBatch);
    SectionName(format::FindSection(static_cast<uint16_t>(Section::kBatch))->name);
    out.Count(executable_.batch_variants.size());
    for (const BatchVariant& batch : executable_.batch_variants) {
      out.U32(batch.kernel.value);
      out.U32(batch.variant.value);
      out.Count(batch.shared.size());
      for (uint32_t param : batch.shared) out.U32(param);
      out.U8(batch.has_same_bits ? 1 : 0);
      out.U32(batch.accumulator ? *batch.accumulator + 1 : 0);
      out.Count(batch.arranged.size());
      for (const BatchVariant::Arranged& arranged : batch.arranged) {
        out.U32(arranged.param);
        out.U32(arranged.kernel.value);
      }
    }
  }

  void EncodeExtraSections() {
    for (const ExtraSection& extra : executable_.extra_sections) {
      ByteWriter& out = Begin(extra.id);
      SectionName(extra.name);
      out.Borrow(extra.bytes);
    }
  }

  // The header and the table of sections.
  void MakeHead() {
    std::erase_if(pieces_, [](const Piece& piece) {
      const format::SectionSpec* spec = format::FindSection(piece.id);
      return spec != nullptr && IsLeftOutIfZero(*spec) && piece.contents.is_zero();
    });
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.id < b.id; });
    uint64_t end = format::kHeaderBytes + pieces_.size() * format::kSectionEntryBytes;
    ByteWriter table;
    for (const Piece& piece : pieces_) {
      const format::SectionSpec* spec = format::FindSection(piece.id);
      uint64_t offset = format::AlignUp(end, format::SectionAlignment(piece.id));
      table.U16(piece.id);
      table.U16(spec != nullptr && spec->is_needed ? format::kNeededFlag : 0);
      table.U32(piece.contents.Checksum());
      table.U64(offset);
      table.U64(piece.contents.size());
      end = offset + piece.contents.size();
    }
    head_.Copy(format::kMagic.data(), format::kMagic.size());
    head_.U16(format::kMajor);
    head_.U16(executable_.format_minor);
    head_.U32(static_cast<uint32_t>(executable_.executable_class));
    head_.U64(file_size_ = end);
    head_.Count(pieces_.size());
    uint32_t crc = head_.Checksum();
    table.ForEachPart([&](Bytes part) { crc = ExtendCrc32c(crc, part); });
    head_.U32(crc);
    table.ForEachPart([&](Bytes part) { head_.Copy(part.data(), part.size()); });
  }

  const Executable& executable_;
  ByteWriter head_;
  uint64_t file_size_ = 0;
  std::deque<Piece> pieces_;  // whose addresses do not change
  ByteWriter* out_ = nullptr;
  absl::flat_hash_map<std::string, uint32_t> string_ids_;
  std::vector<std::string> strings_;
};

}  // namespace

std::vector<uint8_t> Encode(const Executable& executable) {
  Encoder encoder(executable);
  encoder.Run();
  std::vector<uint8_t> bytes;
  bytes.reserve(encoder.file_size());
  encoder.ForEachPart([&](Bytes part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

absl::StatusOr<uint64_t> EncodeFile(const Executable& executable, const std::string& path) {
  Encoder encoder(executable);
  encoder.Run();
  RVM_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Open(path));
  encoder.ForEachPart([&](Bytes part) { file.Write(part); });
  RVM_RETURN_IF_ERROR(std::move(file).Finish());
  return encoder.file_size();
}

}  // namespace rvm
