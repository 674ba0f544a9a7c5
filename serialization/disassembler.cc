#include "serialization/disassembler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "serialization/isa/isa.h"

namespace rvm {
namespace {

constexpr int64_t kShortConstant = 8;  // elements shown of a constant that is cut

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Names may contain anything; a comment ends with its line.
std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string HexBytes(const void* data, size_t size) {
  std::string out = "x\"";
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < size; ++i) absl::StrAppendFormat(&out, "%02x", bytes[i]);
  return out + "\"";
}

// Gives the same bits when it is read back.
std::string ElementText(const Literal& literal, int64_t index) {
  if (!literal.dtype().is_float()) return absl::StrCat(literal.IntAt(index));
  double value = literal.DoubleAt(index);
  return literal.dtype() == kFloat64 ? absl::StrFormat("%.17g", value) : absl::StrFormat("%.9g", value);
}

bool HasNaN(const Literal& literal) {
  if (!literal.dtype().is_float()) return false;
  for (int64_t i = 0; i < literal.num_elements(); ++i) {
    if (std::isnan(literal.DoubleAt(i))) return true;
  }
  return false;
}

template <typename Id>
std::string IdList(const char* prefix, const std::vector<Id>& ids) {
  std::string out = "(";
  for (size_t i = 0; i < ids.size(); ++i) absl::StrAppend(&out, i == 0 ? "" : ", ", prefix, ids[i].value);
  return out + (ids.size() == 1 ? ",)" : ")");
}

class Disassembler {
 public:
  Disassembler(const Executable& executable, const DisassembleOptions& options)
      : executable_(executable), options_(options) {
    for (const std::string& source : options.sources) sources_.push_back(absl::StrSplit(source, '\n'));
  }

  std::string Run() {
    absl::StrAppend(&out_, "class ", executable_.is_native() ? "native" : "portable", "\n");
    for (const std::string& file : executable_.files) absl::StrAppend(&out_, "file ", Quoted(file), "\n");
    for (const auto& [key, value] : executable_.metadata)
      absl::StrAppend(&out_, "metadata ", Quoted(key), " ", Quoted(value), "\n");
    for (uint32_t i = 0; i < executable_.types.size(); ++i) PrintType(i);
    for (uint32_t i = 0; i < executable_.adts.size(); ++i) PrintAdt(i);
    for (uint32_t i = 0; i < executable_.layouts.size(); ++i) PrintLayout(i);
    for (uint32_t i = 0; i < executable_.constants.size(); ++i) PrintConstant(i);
    for (uint32_t i = 0; i < executable_.kernels.size(); ++i) PrintKernel(i);
    for (const Entry& entry : executable_.entries) PrintEntry(entry);
    for (uint32_t i = 0; i < executable_.functions.size(); ++i) PrintFunction(i);
    for (uint32_t i = 0; i < executable_.recipes.size(); ++i) PrintRecipe(i);
    for (const CodeObject& object : executable_.code_objects) PrintCodeObject(object);
    for (const DeviceCode& code : executable_.device_codes) PrintDeviceCode(code);
    for (const ControlCode& code : executable_.control_codes) PrintControlCode(code);
    for (const BatchVariant& batch : executable_.batch_variants) {
      absl::StrAppend(&out_, "batch N", batch.kernel.value, " N", batch.variant.value, " (",
                      absl::StrJoin(batch.shared, ", "), ")", batch.has_same_bits ? "" : " other_sums");
      if (batch.accumulator) absl::StrAppend(&out_, " adds_to ", *batch.accumulator);
      auto arranged = [](std::string* out, const BatchVariant::Arranged& a) {
        absl::StrAppend(out, a.param, " N", a.kernel.value);
      };
      if (!batch.arranged.empty())
        absl::StrAppend(&out_, " arranged (", absl::StrJoin(batch.arranged, ", ", arranged), ")");
      absl::StrAppend(&out_, "\n");
    }
    for (const ExtraSection& extra : executable_.extra_sections) PrintExtraSection(extra);
    return std::move(out_);
  }

 private:
  void PrintType(uint32_t index) {
    const TypeDesc& type = executable_.types[index];
    absl::StrAppend(&out_, "type T", index, " = ");
    switch (type.kind) {
      case TypeDescKind::kAdt: absl::StrAppend(&out_, "adt A", type.adt.value); break;
      case TypeDescKind::kTuple: absl::StrAppend(&out_, IdList("T", type.fields)); break;
      case TypeDescKind::kClosure:
        absl::StrAppend(&out_, "fn ", IdList("T", type.fields), " -> T", type.result.value);
        break;
      case TypeDescKind::kRef:
        absl::StrAppend(&out_, "ref(T", type.fields.empty() ? 0 : type.fields[0].value, ")");
        break;
      case TypeDescKind::kScalar:
      case TypeDescKind::kTensor:
      case TypeDescKind::kShell: absl::StrAppend(&out_, TypeToString(executable_, TypeId(index))); break;
    }
    if (type.kind >= TypeDescKind::kTuple && type.kind != TypeDescKind::kShell)
      absl::StrAppend(&out_, "  ; ", OneLine(TypeToString(executable_, TypeId(index))));
    out_ += "\n";
  }

  void PrintAdt(uint32_t index) {
    const AdtDesc& adt = executable_.adts[index];
    absl::StrAppend(&out_, "adt A", index, " ", Quoted(adt.name), " {\n");
    for (const AdtDesc::Constructor& constructor : adt.constructors) {
      absl::StrAppend(&out_, "  ", Quoted(constructor.name));
      if (!constructor.fields.empty()) absl::StrAppend(&out_, " ", IdList("T", constructor.fields));
      if (constructor.layout.valid()) absl::StrAppend(&out_, " C", constructor.layout.value);
      out_ += "\n";
    }
    out_ += "}\n";
  }

  void PrintLayout(uint32_t index) {
    const CellLayout& layout = executable_.layouts[index];
    constexpr const char* kNames[] = {"tuple", "constructor", "closure", "ref"};
    absl::StrAppend(&out_, "cell C", index, " = ", kNames[static_cast<size_t>(layout.kind)], " T", layout.type.value);
    if (layout.kind == CellKind::kAdt) absl::StrAppend(&out_, " tag ", layout.tag);
    if (layout.kind == CellKind::kClosure) absl::StrAppend(&out_, " F", layout.function.value);
    absl::StrAppend(&out_, " ", IdList("T", layout.fields), "\n");
  }

  void PrintConstant(uint32_t index) {
    const Literal& literal = executable_.constants[index];
    absl::StrAppend(&out_, "constant K", index, " = ", literal.dtype().ToString(), " ", ShapeToString(literal.shape()),
                    " ");
    int64_t shown = literal.num_elements();
    if (!options_.full && shown > kShortConstant) shown = kShortConstant;
    if (options_.full && HasNaN(literal)) {
      absl::StrAppend(&out_, HexBytes(literal.data(), static_cast<size_t>(literal.bytes())), "\n");
      return;
    }
    out_ += "[";
    for (int64_t i = 0; i < shown; ++i) absl::StrAppend(&out_, i == 0 ? "" : ", ", ElementText(literal, i));
    absl::StrAppend(&out_, shown < literal.num_elements() ? ", ...]\n" : "]\n");
  }

  // Symbols are `$0`, `$1`; their names are listed once for the kernel.
  std::string DimText(const Dim& dim) {
    switch (dim.kind()) {
      case DimKind::kConst: return absl::StrCat(dim.constant());
      case DimKind::kVar: names_.try_emplace(dim.id(), dim.name()); return absl::StrCat("$", dim.id());
      case DimKind::kAny: return "?";
      case DimKind::kHole: return "_";
      case DimKind::kMin: return CallText("min", dim);
      case DimKind::kMax: return CallText("max", dim);
      case DimKind::kBroadcast: return CallText("broadcast", dim);
      case DimKind::kAdd:
      case DimKind::kSub:
      case DimKind::kMul:
      case DimKind::kFloorDiv:
      case DimKind::kFloorMod: break;
    }
    constexpr const char* kSymbols[] = {" + ", " - ", " * ", " / ", " % "};
    const char* symbol = kSymbols[static_cast<size_t>(dim.kind()) - static_cast<size_t>(DimKind::kAdd)];
    std::string lhs = DimText(dim.lhs());
    return absl::StrCat("(", lhs, symbol, DimText(dim.rhs()), ")");
  }
  std::string CallText(const char* name, const Dim& dim) {
    std::string lhs = DimText(dim.lhs());
    return absl::StrCat(name, "(", lhs, ", ", DimText(dim.rhs()), ")");
  }
  std::string KernelTensorText(const KernelTensor& tensor) {
    std::string out = absl::StrCat(tensor.dtype.ToString(), " (");
    for (size_t i = 0; i < tensor.dims.size(); ++i) absl::StrAppend(&out, i == 0 ? "" : ", ", DimText(tensor.dims[i]));
    return out + ")";
  }

  void PrintKernel(uint32_t index) {
    const KernelDesc& kernel = executable_.kernels[index];
    names_.clear();
    std::string body;
    for (const KernelTensor& param : kernel.params) absl::StrAppend(&body, "  param ", KernelTensorText(param), "\n");
    for (const KernelTensor& result : kernel.results)
      absl::StrAppend(&body, "  result ", KernelTensorText(result), "\n");
    for (const KernelDesc::ValueSymbol& value : kernel.values)
      absl::StrAppend(&body, "  value ", value.symbol, " ", value.param, " ", value.element, "\n");
    for (const KernelDesc::Check& check : kernel.checks) {
      constexpr const char* kRelations[] = {"  check_equal ", "  check_broadcast ", "  check_at_least "};
      std::string a = DimText(check.a);
      absl::StrAppend(&body, kRelations[static_cast<size_t>(check.relation)], a, ", ", DimText(check.b), " ",
                      Quoted(check.what), "\n");
    }
    absl::StrAppend(&body, "  workspace ", DimText(kernel.workspace), "\n");
    for (const KernelDesc::Reuse& reuse : kernel.reuses)
      absl::StrAppend(&body, "  reuse ", reuse.result, " ", reuse.param, "\n");
    for (const KernelDesc::Update& update : kernel.updates)
      absl::StrAppend(&body, "  update ", update.result, " ", update.param, "\n");
    body += "}\n";
    absl::StrAppend(&out_, "kernel N", index, " ", Quoted(kernel.name), " ", Quoted(kernel.symbol), " (");
    for (uint32_t s = 0; s < kernel.num_symbols; ++s) {
      auto name = names_.find(s);
      absl::StrAppend(&out_, s == 0 ? "" : ", ", Quoted(name == names_.end() ? "" : name->second));
    }
    absl::StrAppend(&out_, ") {\n", body);
  }

  void PrintEntry(const Entry& entry) {
    absl::StrAppend(&out_, "entry ", Quoted(entry.name), " = F", entry.function.value, " (");
    for (size_t i = 0; i < entry.param_names.size(); ++i)
      absl::StrAppend(&out_, i == 0 ? "" : ", ", Quoted(entry.param_names[i]));
    out_ += ")\n";
  }

  std::string DimListText(const Dims& dims) {
    std::string out = "(";
    for (size_t i = 0; i < dims.size(); ++i) absl::StrAppend(&out, i == 0 ? "" : ", ", DimText(dims[i]));
    return out + ")";
  }

  void PrintRecipeStep(size_t number, const RecipeStep& step) {
    const RecipeOpInfo& op = kRecipeOps[static_cast<size_t>(step.op)];
    absl::StrAppend(&out_, "    v", number, " = ", std::string(op.name), " ");
    if (op.fields & kFunctionField)
      absl::StrAppend(&out_, Quoted(std::string(FunctionNames(step.op)[step.function])), " ");
    out_ += step.dtype.ToString();
    if (op.fields & kNumberField) absl::StrAppend(&out_, " ", step.a);
    if (op.fields & kAField) absl::StrAppend(&out_, " v", step.a);
    if (op.fields & kBField) absl::StrAppend(&out_, " v", step.b);
    if (op.fields & kCField) absl::StrAppend(&out_, " v", step.c);
    if (op.fields & kBufferField) absl::StrAppend(&out_, " B", step.buffer);
    if (op.fields & kBitsField) absl::StrAppend(&out_, " ", step.bits);
    if (step.op == RecipeOp::kConstant && step.dtype.is_float())
      absl::StrAppend(&out_, "  ; ", std::bit_cast<double>(step.bits));
    out_ += "\n";
  }

  void PrintRecipe(uint32_t index) {
    const KernelRecipe& recipe = executable_.recipes[index];
    absl::StrAppend(&out_, "recipe N", index, " {");
    if (index < executable_.kernels.size()) absl::StrAppend(&out_, "  ; ", OneLine(executable_.kernels[index].name));
    out_ += "\n";
    for (const RecipeWorkspace& workspace : recipe.workspaces) {
      std::string offset = DimText(workspace.offset);
      absl::StrAppend(&out_, "  workspace ", workspace.dtype.ToString(), " ", offset, " ", DimText(workspace.elements),
                      "\n");
    }
    for (const RecipeNest& nest : recipe.nests) {
      std::string axes = DimListText(nest.axes), reduced = DimListText(nest.reduce_axes);
      absl::StrAppend(&out_, "  nest ", axes, " ", reduced, " ", DimListText(nest.extents), " {\n");
      for (size_t i = 0; i < nest.steps.size(); ++i) PrintRecipeStep(i, nest.steps[i]);
      out_ += "  }\n";
    }
    out_ += "}\n";
  }

  void PrintCodeObject(const CodeObject& object) {
    absl::StrAppend(&out_, "target ", Quoted(object.target), " ", Quoted(object.triple), " ", Quoted(object.features),
                    " ", object.abi_version, " ");
    PrintBytes(object.bytes);
  }

  void PrintControlCode(const ControlCode& code) {
    absl::StrAppend(&out_, "control ", Quoted(code.target), " ", Quoted(code.triple), " ", Quoted(code.features), " ",
                    code.abi_version, " {\n");
    for (size_t f = 0; f < code.functions.size(); ++f) {
      absl::StrAppend(&out_, "  F", f, " ", code.functions[f].size, " (");
      for (size_t i = 0; i < code.functions[f].places.size(); ++i) {
        const ControlCode::Place& place = code.functions[f].places[i];
        absl::StrAppend(&out_, i == 0 ? "" : ", ", place.offset, " ", place.line);
      }
      out_ += ")\n";
    }
    out_ += "} ";
    PrintBytes(code.bytes);
  }

  void PrintDeviceCode(const DeviceCode& code) {
    absl::StrAppend(&out_, "device ", Quoted(code.target), " ", Quoted(code.features),
                    code.is_required ? " required" : "", " {\n");
    for (const DeviceCode::Kernel& kernel : code.kernels) {
      absl::StrAppend(&out_, "  N", kernel.kernel.value, " workspace ", DimText(kernel.workspace), " launches ",
                      DimListText(kernel.launches), "\n");
      for (const DeviceProduct& product : kernel.products) PrintProduct(product);
      for (const DeviceCall& call : kernel.calls) PrintCall(call);
    }
    out_ += "} ";
    PrintBytes(code.bytes);
  }

  std::string MatrixText(const DeviceProduct::Matrix& matrix) {
    return absl::StrCat("A", matrix.argument, " ", matrix.dtype.ToString(), " ", DimText(matrix.offset), " ",
                        DimListText({matrix.batch_stride, matrix.row_stride, matrix.column_stride}));
  }

  void PrintProduct(const DeviceProduct& product) {
    absl::StrAppend(&out_, "    product ", product.launch, " ",
                    DimListText({product.batches, product.rows, product.columns, product.depth}));
    for (const DeviceProduct::Matrix* matrix : {&product.a, &product.b, &product.d}) {
      absl::StrAppend(&out_, " ", MatrixText(*matrix));
    }
    for (const DeviceProduct::Matrix& matrix : product.addends) absl::StrAppend(&out_, " plus ", MatrixText(matrix));
    if (product.scale != 1) absl::StrAppendFormat(&out_, " scale %.17g", product.scale);
    absl::StrAppend(&out_, product.allows_tf32 ? " tf32" : "", product.has_tail ? " tail" : "", "\n");
  }

  void PrintCall(const DeviceCall& call) {
    absl::StrAppend(&out_, "    call N", call.kernel.value, " ", call.launch, " (");
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const DeviceCall::Argument& argument = call.arguments[i];
      absl::StrAppend(&out_, i == 0 ? "" : ", ", "A", argument.argument);
      if (argument.offset != Dim(0)) absl::StrAppend(&out_, " ", DimText(argument.offset));
    }
    out_ += ")\n";
  }

  void PrintExtraSection(const ExtraSection& extra) {
    absl::StrAppend(&out_, "section ", extra.id, " ", Quoted(extra.name), " ");
    PrintBytes(extra.bytes);
  }

  void PrintBytes(const std::vector<uint8_t>& bytes) {
    if (options_.full) {
      absl::StrAppend(&out_, HexBytes(bytes.data(), bytes.size()), "\n");
    } else {
      absl::StrAppend(&out_, "...  ; ", bytes.size(), " bytes\n");
    }
  }

  void PrintFunction(uint32_t index) {
    const FunctionDesc& function = executable_.functions[index];
    absl::StrAppend(&out_, "\nfunction F", index, " ", Quoted(function.name), " params ", function.num_params,
                    function.returns_fields ? " result fields T" : " result T", function.result.value);
    if (function.arena_bytes != 0) absl::StrAppend(&out_, " arena ", function.arena_bytes);
    out_ += " {\n";
    for (size_t r = 0; r < function.registers.size(); ++r) {
      TypeId type = function.registers[r].type;
      absl::StrAppend(&out_, "  r", r, ": T", type.value, function.registers[r].planned ? " planned" : "", "  ; ",
                      OneLine(TypeToString(executable_, type)), "\n");
    }
    out_ += "code\n";
    PrintCode(function);
    out_ += "}\n";
  }

  void PrintCode(const FunctionDesc& function) {
    FindLabels(function.code);
    size_t next_line = 0;
    for (uint32_t pc = 0; pc < function.code.size();) {
      std::optional<Instruction> instruction = ReadInstruction(function.code, pc);
      if (!instruction) {
        absl::StrAppend(&out_, "  ; not an instruction: unit 0x", absl::Hex(function.code[pc], absl::kZeroPad4),
                        " at +0x", absl::Hex(pc), "\n");
        return;
      }
      if (auto label = labels_.find(pc); label != labels_.end()) absl::StrAppend(&out_, "L", label->second, ":\n");
      for (; next_line < function.lines.size() && function.lines[next_line].pc <= pc; ++next_line)
        PrintLine(function.lines[next_line]);
      PrintInstruction(*instruction);
      pc += instruction->length;
    }
  }

  void FindLabels(const std::vector<uint16_t>& code) {
    labels_.clear();
    std::set<uint32_t> starts;
    std::set<uint32_t> targets;
    for (uint32_t pc = 0; pc < code.size();) {
      std::optional<Instruction> instruction = ReadInstruction(code, pc);
      if (!instruction) break;
      starts.insert(pc);
      for (const Operand& operand : instruction->operands()) {
        if (operand.kind() != OperandKind::kLabel && operand.kind() != OperandKind::kLabels) continue;
        for (uint32_t i = 0; i < operand.count; ++i) targets.insert(operand.u32(i));
      }
      pc += instruction->length;
    }
    uint32_t number = 1;
    for (uint32_t target : targets) {
      if (starts.contains(target)) labels_[target] = number++;
    }
  }

  void PrintLine(const SourceLine& line) {
    absl::StrAppend(&out_, "  at ", line.file, ":", line.line, ":", line.column);
    if (!line.what.empty()) absl::StrAppend(&out_, " ", Quoted(line.what));
    if (line.file < sources_.size() && line.line >= 1 && line.line <= sources_[line.file].size()) {
      absl::StrAppend(&out_, "  ; ", sources_[line.file][line.line - 1]);
    }
    out_ += "\n";
  }

  void PrintInstruction(const Instruction& instruction) {
    absl::StrAppend(&out_, "    ",
                    absl::string_view(instruction.spec->mnemonic.data(), instruction.spec->mnemonic.size()));
    comment_.clear();
    const char* separator = " ";
    for (const Operand& operand : instruction.operands()) {
      out_ += separator;
      separator = ", ";
      if (!IsList(operand.kind())) {
        out_ += OperandText(operand, 0);
        continue;
      }
      out_ += "[";
      for (uint32_t i = 0; i < operand.count; ++i) absl::StrAppend(&out_, i == 0 ? "" : ", ", OperandText(operand, i));
      out_ += "]";
    }
    if (!comment_.empty()) absl::StrAppend(&out_, "  ; ", OneLine(comment_));
    out_ += "\n";
  }

  template <typename T>
  void Comment(const std::vector<T>& table, uint32_t index) {
    if (index < table.size()) comment_ = table[index].name;
  }

  std::string OperandText(const Operand& operand, uint32_t i) {
    uint64_t value = operand.value(i);
    switch (operand.kind()) {
      case OperandKind::kOut:
      case OperandKind::kIn:
      case OperandKind::kMove:
      case OperandKind::kOuts:
      case OperandKind::kMoves: return absl::StrCat("r", value);
      case OperandKind::kArgs:
        return (value & kConstantArg) != 0
                   ? absl::StrCat("K", value & ~uint64_t{kConstantArg})
                   : absl::StrCat("r", value & ~uint64_t{kMovedArg}, (value & kMovedArg) != 0 ? "!" : "");
      case OperandKind::kLabel:
      case OperandKind::kLabels: {
        auto label = labels_.find(operand.u32(i));
        return label == labels_.end() ? absl::StrCat(value) : absl::StrCat("L", label->second);
      }
      case OperandKind::kImm16: return absl::StrCat(static_cast<int16_t>(value));
      case OperandKind::kImm32: return absl::StrCat(static_cast<int32_t>(value));
      case OperandKind::kImm64: return absl::StrCat("0x", absl::Hex(value));
      case OperandKind::kOffsets: return value == kNoOffset ? "new" : absl::StrCat(value);
      case OperandKind::kConstant: return absl::StrCat("K", value);
      case OperandKind::kFunction: Comment(executable_.functions, operand.u32(i)); return absl::StrCat("F", value);
      case OperandKind::kKernel: Comment(executable_.kernels, operand.u32(i)); return absl::StrCat("N", value);
      case OperandKind::kType:
        comment_ = TypeToString(executable_, TypeId(operand.u32(i)));
        return absl::StrCat("T", value);
      case OperandKind::kLayout: return absl::StrCat("C", value);
      case OperandKind::kTag:
      case OperandKind::kField: return absl::StrCat(value);
      case OperandKind::kDType: {
        std::optional<DataType> dtype = UnpackDataType(operand.u16(i));
        return dtype ? dtype->ToString() : absl::StrCat(value);
      }
    }
    return "";
  }

  const Executable& executable_;
  const DisassembleOptions& options_;
  std::vector<std::vector<std::string>> sources_;
  std::string out_;
  std::map<int64_t, std::string> names_;  // of the kernel's symbols
  std::map<uint32_t, uint32_t> labels_;   // of the function: number by unit
  std::string comment_;                   // on the instruction
};

}  // namespace

std::string Disassemble(const Executable& executable, const DisassembleOptions& options) {
  return Disassembler(executable, options).Run();
}

}  // namespace rvm
