#include "serialization/assembler.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/assembly_lexer.h"
#include "serialization/format.h"
#include "serialization/isa/isa.h"
#include "serialization/limits.h"

namespace rvm {
namespace {

using Kind = AssemblyToken::Kind;

// Maximum nesting of types written in place. The nesting of types in a table of T numbers is not limited.
constexpr int kMaxTypeDepth = 200;

// Like ByteReader, the first error sticks: after it the text is at its end.
class Assembler {
 public:
  explicit Assembler(std::string_view text) : lexer_(text) { Advance(); }

  absl::StatusOr<Executable> Run() {
    while (token_.kind != Kind::kEnd) Definition();
    RVM_RETURN_IF_ERROR(status_);
    return std::move(executable_);
  }

 private:
  // ---- tokens ---------------------------------------------------------------

  void Advance() {
    token_ = lexer_.Next();
    if (token_.kind == Kind::kBad) Fail("a token");
  }
  void Fail(const std::string& expected) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("line ", token_.line, ": saw `", token_.text, "`, expected ", expected));
    }
    token_ = {Kind::kEnd, "", token_.line};
    lexer_ = AssemblyLexer("");
  }
  bool Is(std::string_view text) const {
    return (token_.kind == Kind::kWord || token_.kind == Kind::kSymbol) && token_.text == text;
  }
  bool Accept(std::string_view text) {
    if (!Is(text)) return false;
    Advance();
    return true;
  }
  void Expect(const char* text) {
    if (!Accept(text)) Fail(absl::StrCat("`", text, "`"));
  }
  std::string Take(Kind kind, const char* what) {
    if (token_.kind != kind) {
      Fail(what);
      return "";
    }
    std::string text = std::move(token_.text);
    Advance();
    return text;
  }
  std::string String() { return Take(Kind::kString, "a string"); }

  // Decimal, negative, or 0x hexadecimal; the bits of an int64 or uint64 between the bounds.
  int64_t Integer(int64_t low, uint64_t high) {
    std::string expected = absl::StrCat("an integer from ", low, " to ", high);
    if (token_.kind != Kind::kNumber) {
      Fail(expected);
      return 0;
    }
    const std::string& text = token_.text;
    char* end = nullptr;
    errno = 0;
    bool negative = text[0] == '-';
    bool hex = text.size() > 2 && text[1] == 'x';
    uint64_t bits = negative ? static_cast<uint64_t>(std::strtoll(text.c_str(), &end, 10))
                             : std::strtoull(text.c_str(), &end, hex ? 16 : 10);
    bool in_range = negative ? static_cast<int64_t>(bits) >= low : bits <= high;
    if (errno != 0 || *end != '\0' || !in_range) {
      Fail(expected);
      return 0;
    }
    Advance();
    return static_cast<int64_t>(bits);
  }
  uint32_t U32() { return static_cast<uint32_t>(Integer(0, UINT32_MAX)); }

  // `<prefix><number>`, as in r5, K0.
  uint32_t Index(char prefix, uint32_t max = UINT32_MAX) {
    std::optional<uint32_t> index = token_.kind == Kind::kWord ? ParseIndex(prefix, token_.text) : std::nullopt;
    if (!index || *index > max) {
      Fail(absl::StrCat("`", std::string(1, prefix), "` and a number"));
      return 0;
    }
    Advance();
    return *index;
  }
  static std::optional<uint32_t> ParseIndex(char prefix, const std::string& text) {
    if (text.size() < 2 || text.size() > 11 || text[0] != prefix) return std::nullopt;
    uint64_t value = 0;
    for (char c : text.substr(1)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + static_cast<uint64_t>(c - '0');
    }
    return value <= UINT32_MAX ? std::optional<uint32_t>(static_cast<uint32_t>(value)) : std::nullopt;
  }
  // The number of a definition, which must be the next.
  void Number(char prefix, size_t next) {
    if (token_.kind != Kind::kWord || ParseIndex(prefix, token_.text) != next)
      return Fail(absl::StrCat("`", std::string(1, prefix), next, "`"));
    Advance();
  }

  // `open item, item close`; a comma may follow the last.
  template <typename F>
  void List(const char* open, const char* close, F&& item) {
    Expect(open);
    while (status_.ok() && !Is(close)) {
      item();
      if (!Is(close)) Expect(",");
    }
    Expect(close);
  }

  // ---- types ----------------------------------------------------------------

  DataType DType() {
    std::optional<DataType> dtype = token_.kind == Kind::kWord ? ParseDataType(token_.text) : std::nullopt;
    if (!dtype || !IsStorable(*dtype)) {
      Fail("a dtype");
      return kInt32;
    }
    Advance();
    return *dtype;
  }

  TypeId Type(int depth = 0) {
    if (token_.kind == Kind::kWord) {
      if (std::optional<uint32_t> index = ParseIndex('T', token_.text)) {
        Advance();
        return TypeId(*index);
      }
    }
    TypeDesc desc = Description(depth);
    for (uint32_t i = 0; i < executable_.types.size(); ++i) {
      if (executable_.types[i] == desc) return TypeId(i);
    }
    executable_.types.push_back(std::move(desc));
    return TypeId(static_cast<uint32_t>(executable_.types.size() - 1));
  }

  std::vector<TypeId> Types(int depth) {
    std::vector<TypeId> types;
    List("(", ")", [&] { types.push_back(Type(depth + 1)); });
    return types;
  }

  TypeDesc Description(int depth) {
    TypeDesc desc;
    if (depth > kMaxTypeDepth) Fail("a type that is not nested so deep");
    if (Accept("Tensor")) {
      desc.kind = TypeDescKind::kTensor;
      Expect("[");
      List("(", ")", [&] { desc.dims.push_back(Accept("?") ? TypeDesc::kUnknownDim : Integer(INT64_MIN, INT64_MAX)); });
      Expect(",");
      desc.dtype = DType();
      Expect("]");
    } else if (Is("(")) {
      desc.kind = TypeDescKind::kTuple;
      desc.fields = Types(depth);
    } else if (Accept("adt")) {
      desc.kind = TypeDescKind::kAdt;
      desc.adt = AdtId(Index('A'));
    } else if (Accept("fn")) {
      desc.kind = TypeDescKind::kClosure;
      desc.fields = Types(depth);
      Expect("->");
      desc.result = Type(depth + 1);
    } else if (Accept("ref")) {
      desc.kind = TypeDescKind::kRef;
      desc.fields = Types(depth);
    } else if (Accept("shell")) {
      desc.kind = TypeDescKind::kShell;
      Expect("(");
      desc.dims.push_back(Integer(0, UINT16_MAX));
      Expect(")");
    } else {
      desc.dtype = DType();
    }
    return desc;
  }

  // ---- definitions ----------------------------------------------------------

  void Definition() {
    if (Accept("class")) {
      bool is_portable = Accept("portable");
      if (!is_portable) Expect("native");
      executable_.executable_class = is_portable ? ExecutableClass::kPortable : ExecutableClass::kNative;
    } else if (Accept("file")) {
      executable_.files.push_back(String());
    } else if (Accept("metadata")) {
      std::string key = String();
      executable_.metadata.emplace_back(std::move(key), String());
    } else if (Accept("type")) {
      Number('T', executable_.types.size());
      Expect("=");
      size_t before = executable_.types.size();
      TypeDesc desc = Description(0);
      if (executable_.types.size() != before) Fail("a type whose parts are defined before");
      executable_.types.push_back(std::move(desc));
    } else if (Accept("adt")) {
      Adt();
    } else if (Accept("cell")) {
      Cell();
    } else if (Accept("constant")) {
      Constant();
    } else if (Accept("kernel")) {
      Kernel();
    } else if (Accept("entry")) {
      Entry& entry = executable_.entries.emplace_back();
      entry.name = String();
      Expect("=");
      entry.function = FunctionId(Index('F'));
      List("(", ")", [&] { entry.param_names.push_back(String()); });
    } else if (Accept("recipe")) {
      Recipe();
    } else if (Accept("target")) {
      Target();
    } else if (Accept("control")) {
      Control();
    } else if (Accept("batch")) {
      BatchVariant& batch = executable_.batch_variants.emplace_back();
      batch.kernel = KernelId(Index('N'));
      batch.variant = KernelId(Index('N'));
      List("(", ")", [&] { batch.shared.push_back(U32()); });
      batch.has_same_bits = !Accept("other_sums");
      if (Accept("adds_to")) batch.accumulator = U32();
      auto arranged = [&] {
        uint32_t param = U32();
        batch.arranged.push_back({param, KernelId(Index('N'))});
      };
      if (Accept("arranged")) List("(", ")", arranged);
    } else if (Accept("device")) {
      Device();
    } else if (Accept("section")) {
      ExtraSection();
    } else if (Accept("function")) {
      Function();
    } else {
      Fail("a definition");
    }
  }

  void Adt() {
    Number('A', executable_.adts.size());
    AdtDesc adt;
    adt.name = String();
    Expect("{");
    while (status_.ok() && !Is("}")) {
      AdtDesc::Constructor& constructor = adt.constructors.emplace_back();
      constructor.name = String();
      if (Is("(")) constructor.fields = Types(0);
      if (token_.kind == Kind::kWord) constructor.layout = LayoutId(Index('C'));
    }
    Expect("}");
    executable_.adts.push_back(std::move(adt));
  }

  void Cell() {
    Number('C', executable_.layouts.size());
    Expect("=");
    CellLayout layout;
    if (Accept("constructor")) {
      layout.kind = CellKind::kAdt;
    } else if (Accept("closure")) {
      layout.kind = CellKind::kClosure;
    } else if (Accept("ref")) {
      layout.kind = CellKind::kRef;
    } else {
      Expect("tuple");
    }
    layout.type = Type();
    if (Accept("tag")) layout.tag = static_cast<uint16_t>(Integer(0, UINT16_MAX));
    if (layout.kind == CellKind::kClosure) layout.function = FunctionId(Index('F'));
    layout.fields = Types(0);
    executable_.layouts.push_back(std::move(layout));
  }

  void Constant() {
    Number('K', executable_.constants.size());
    Expect("=");
    DataType dtype = DType();
    Shape shape;
    List("(", ")", [&] { shape.push_back(Integer(0, INT64_MAX)); });
    std::optional<int64_t> elements = NumElements(shape);
    if (!elements || *elements > (int64_t{1} << 40)) return Fail("a shape of fewer elements");
    if (token_.kind == Kind::kBytes) {
      std::string bytes = std::move(token_.text);
      if (static_cast<int64_t>(bytes.size()) != *elements * dtype.bytes())
        return Fail(absl::StrCat(*elements * dtype.bytes(), " bytes"));
      Advance();
      executable_.constants.push_back(
          Literal::FromBytes(dtype, std::move(shape), std::as_bytes(std::span<const char>(bytes))));
      return;
    }
    std::vector<std::byte> bytes;
    List("[", "]", [&] { Element(dtype, bytes); });
    if (static_cast<int64_t>(bytes.size()) != *elements * dtype.bytes())
      return Fail(absl::StrCat(*elements, " elements before"));
    executable_.constants.push_back(Literal::FromBytes(dtype, std::move(shape), bytes));
  }

  void Element(DataType dtype, std::vector<std::byte>& bytes) {
    size_t at = bytes.size();
    bytes.resize(at + static_cast<size_t>(dtype.bytes()));
    if (!dtype.is_float()) return StoreInt(dtype, &bytes[at], Integer(INT64_MIN, UINT64_MAX));
    StoreDouble(dtype, &bytes[at], Float());
  }

  double Float() {
    char* end = nullptr;
    double value = std::strtod(token_.text.c_str(), &end);
    bool is_number = token_.kind == Kind::kNumber || Is("inf");
    if (!is_number || *end != '\0') {
      Fail("a number");
      return 0;
    }
    Advance();
    return value;
  }

  Dim DimExpr(int depth = 0) {
    if (depth > limits::kMaxDimDepth) Fail("a dim that is not nested so deep");
    if (!status_.ok()) return Dim();
    if (token_.kind == Kind::kNumber) return Dim(Integer(INT64_MIN, INT64_MAX));
    if (token_.kind == Kind::kWord && token_.text[0] == '$') {
      uint32_t id = Index('$');
      return Dim::Var(id, id < symbols_.size() ? symbols_[id] : "");
    }
    for (auto [name, kind] : {std::pair("min", DimKind::kMin), std::pair("max", DimKind::kMax),
                              std::pair("broadcast", DimKind::kBroadcast)}) {
      if (!Accept(name)) continue;
      Expect("(");
      Dim a = DimExpr(depth + 1);
      Expect(",");
      Dim b = DimExpr(depth + 1);
      Expect(")");
      return MakeBinaryDim(kind, a, b);
    }
    Expect("(");
    Dim dim = DimExpr(depth + 1);
    if (!Is(")")) dim = Operation(std::move(dim), depth);
    Expect(")");
    return dim;
  }

  Dim Operation(Dim lhs, int depth) {
    static constexpr std::pair<const char*, DimKind> kOperators[] = {{"+", DimKind::kAdd},
                                                                     {"-", DimKind::kSub},
                                                                     {"*", DimKind::kMul},
                                                                     {"/", DimKind::kFloorDiv},
                                                                     {"%", DimKind::kFloorMod}};
    for (auto [symbol, kind] : kOperators) {
      if (Accept(symbol)) return MakeBinaryDim(kind, lhs, DimExpr(depth + 1));
    }
    Fail("one of + - * / %");
    return lhs;
  }

  KernelTensor Tensor() {
    KernelTensor tensor;
    tensor.dtype = DType();
    List("(", ")", [&] { tensor.dims.push_back(DimExpr()); });
    return tensor;
  }

  void Kernel() {
    Number('N', executable_.kernels.size());
    KernelDesc kernel;
    kernel.name = String();
    kernel.symbol = String();
    symbols_.clear();
    List("(", ")", [&] { symbols_.push_back(String()); });
    kernel.num_symbols = static_cast<uint32_t>(symbols_.size());
    Expect("{");
    while (status_.ok() && !Is("}")) {
      if (Accept("param")) {
        kernel.params.push_back(Tensor());
      } else if (Accept("result")) {
        kernel.results.push_back(Tensor());
      } else if (Accept("workspace")) {
        kernel.workspace = DimExpr();
      } else if (Accept("value")) {
        KernelDesc::ValueSymbol value;
        value.symbol = U32();
        value.param = U32();
        value.element = U32();
        kernel.values.push_back(value);
      } else if (Is("reuse") || Is("update")) {
        std::vector<KernelDesc::Reuse>& list = Is("reuse") ? kernel.reuses : kernel.updates;
        Expect(Is("reuse") ? "reuse" : "update");
        KernelDesc::Reuse& pair = list.emplace_back();
        pair.result = U32();
        pair.param = U32();
      } else {
        KernelDesc::Check check;
        if (Accept("check_broadcast")) {
          check.relation = DimRelation::kBroadcast;
        } else if (Accept("check_at_least")) {
          check.relation = DimRelation::kAtLeast;
        } else {
          Expect("check_equal");
        }
        check.a = DimExpr();
        Expect(",");
        check.b = DimExpr();
        check.what = String();
        kernel.checks.push_back(std::move(check));
      }
    }
    Expect("}");
    executable_.kernels.push_back(std::move(kernel));
    kernel_symbols_.push_back(symbols_);
  }

  Dims DimList() {
    Dims dims;
    List("(", ")", [&] { dims.push_back(DimExpr()); });
    return dims;
  }

  template <typename Names, typename Project>
  size_t OneOf(const Names& names, const std::string& name, const char* what, Project project) {
    for (size_t i = 0; i < std::size(names); ++i) {
      if (project(names[i]) == name) return i;
    }
    Fail(what);
    return 0;
  }

  RecipeStep Step(size_t number) {
    Number('v', number);
    Expect("=");
    RecipeStep step;
    auto name_of = [](const RecipeOpInfo& info) { return info.name; };
    step.op = static_cast<RecipeOp>(OneOf(kRecipeOps, token_.text, "a recipe step", name_of));
    Advance();
    uint8_t fields = kRecipeOps[static_cast<size_t>(step.op)].fields;
    if (fields & kFunctionField) {
      auto same = [](std::string_view name) { return name; };
      step.function = static_cast<uint8_t>(OneOf(FunctionNames(step.op), token_.text, "the name of a function", same));
      Advance();
    }
    step.dtype = DType();
    if (fields & kNumberField) step.a = U32();
    if (fields & kAField) step.a = Index('v');
    if (fields & kBField) step.b = Index('v');
    if (fields & kCField) step.c = Index('v');
    if (fields & kBufferField) step.buffer = Index('B');
    if (fields & kBitsField) step.bits = Integer(INT64_MIN, UINT64_MAX);
    return step;
  }

  // Its symbols have the names that the kernel gave.
  void Recipe() {
    size_t index = executable_.recipes.size();
    Number('N', index);
    symbols_ = index < kernel_symbols_.size() ? kernel_symbols_[index] : std::vector<std::string>();
    KernelRecipe recipe;
    Expect("{");
    while (status_.ok() && !Is("}")) {
      if (Accept("workspace")) {
        RecipeWorkspace& workspace = recipe.workspaces.emplace_back();
        workspace.dtype = DType();
        workspace.offset = DimExpr();
        workspace.elements = DimExpr();
        continue;
      }
      Expect("nest");
      RecipeNest& nest = recipe.nests.emplace_back();
      nest.axes = DimList();
      nest.reduce_axes = DimList();
      nest.extents = DimList();
      Expect("{");
      while (status_.ok() && !Is("}")) nest.steps.push_back(Step(nest.steps.size()));
      Expect("}");
    }
    Expect("}");
    executable_.recipes.push_back(std::move(recipe));
  }

  void Target() {
    CodeObject& object = executable_.code_objects.emplace_back();
    object.target = String();
    object.triple = String();
    object.features = String();
    object.abi_version = U32();
    object.bytes = Bytes();
  }

  void Control() {
    ControlCode& code = executable_.control_codes.emplace_back();
    code.target = String();
    code.triple = String();
    code.features = String();
    code.abi_version = U32();
    Expect("{");
    while (status_.ok() && !Is("}")) {
      Index('F');
      ControlCode::Function& function = code.functions.emplace_back();
      function.size = U32();
      Expect("(");
      while (status_.ok() && !Is(")")) {
        if (!function.places.empty()) Expect(",");
        ControlCode::Place& place = function.places.emplace_back();
        place.offset = U32();
        place.line = U32();
      }
      Expect(")");
    }
    Expect("}");
    code.bytes = Bytes();
  }

  // Its symbols have the names that the kernels gave.
  void Device() {
    DeviceCode& code = executable_.device_codes.emplace_back();
    code.target = String();
    code.features = String();
    code.is_required = Accept("required");
    Expect("{");
    while (status_.ok() && !Is("}")) {
      DeviceCode::Kernel& kernel = code.kernels.emplace_back();
      kernel.kernel = KernelId(Index('N'));
      size_t index = kernel.kernel.value;
      symbols_ = index < kernel_symbols_.size() ? kernel_symbols_[index] : std::vector<std::string>();
      Expect("workspace");
      kernel.workspace = DimExpr();
      Expect("launches");
      kernel.launches = DimList();
      while (Accept("product")) kernel.products.push_back(Product());
      while (Accept("call")) kernel.calls.push_back(DeviceCallOf());
    }
    Expect("}");
    code.bytes = Bytes();
  }

  DeviceProduct::Matrix Matrix() {
    DeviceProduct::Matrix matrix;
    matrix.argument = Index('A');
    matrix.dtype = DType();
    matrix.offset = DimExpr();
    Dims strides = DimList();
    if (strides.size() != 3) Fail("three strides before");
    if (!status_.ok()) return matrix;
    matrix.batch_stride = strides[0];
    matrix.row_stride = strides[1];
    matrix.column_stride = strides[2];
    return matrix;
  }

  DeviceProduct Product() {
    DeviceProduct product;
    product.launch = U32();
    Dims extents = DimList();
    if (extents.size() != 4) Fail("four extents before");
    if (!status_.ok()) return product;
    product.batches = extents[0];
    product.rows = extents[1];
    product.columns = extents[2];
    product.depth = extents[3];
    for (DeviceProduct::Matrix* matrix : {&product.a, &product.b, &product.d}) *matrix = Matrix();
    while (Accept("plus")) product.addends.push_back(Matrix());
    if (Accept("scale")) product.scale = Float();
    product.allows_tf32 = Accept("tf32");
    product.has_tail = Accept("tail");
    return product;
  }

  DeviceCall DeviceCallOf() {
    DeviceCall call;
    call.kernel = KernelId(Index('N'));
    call.launch = U32();
    List("(", ")", [&] {
      DeviceCall::Argument& argument = call.arguments.emplace_back();
      argument.argument = Index('A');
      argument.offset = Is(",") || Is(")") ? Dim(0) : DimExpr();
    });
    return call;
  }

  void ExtraSection() {
    auto id = static_cast<uint16_t>(Integer(1, UINT16_MAX));
    std::vector<rvm::ExtraSection>& sections = executable_.extra_sections;
    if (format::FindSection(id) != nullptr || (!sections.empty() && id <= sections.back().id)) {
      return Fail("a section that the format does not know, by ascending number");
    }
    std::string name = String();
    sections.push_back({id, std::move(name), Bytes()});
  }

  std::vector<uint8_t> Bytes() {
    std::string bytes = Take(Kind::kBytes, "bytes, as in x\"7f45\"");
    return {bytes.begin(), bytes.end()};
  }

  // ---- functions ------------------------------------------------------------

  void Function() {
    Number('F', executable_.functions.size());
    FunctionDesc function;
    function.name = String();
    Expect("params");
    function.num_params = static_cast<uint16_t>(Integer(0, UINT16_MAX));
    Expect("result");
    function.returns_fields = Accept("fields");
    function.result = Type();
    if (Accept("arena")) function.arena_bytes = U32();
    Expect("{");
    while (status_.ok() && !Accept("code")) Registers(function);
    labels_.clear();
    references_.clear();
    while (status_.ok() && !Is("}")) Statement(function);
    Expect("}");
    for (const auto& [at, reference] : references_) {
      auto label = labels_.find(reference.text);
      if (label == labels_.end()) {
        token_ = reference;
        return Fail("a label of this function");
      }
      function.code[at] = static_cast<uint16_t>(label->second);
      function.code[at + 1] = static_cast<uint16_t>(label->second >> 16);
    }
    executable_.functions.push_back(std::move(function));
  }

  void Registers(FunctionDesc& function) {
    size_t first = function.registers.size();
    do {
      Number('r', function.registers.size());
      function.registers.emplace_back();
    } while (status_.ok() && Accept(","));
    Expect(":");
    RegisterDesc desc{Type(), false};
    desc.planned = Accept("planned");
    for (size_t r = first; r < function.registers.size(); ++r) function.registers[r] = desc;
  }

  void Statement(FunctionDesc& function) {
    auto pc = static_cast<uint32_t>(function.code.size());
    if (Accept("at")) {
      SourceLine line{pc, U32(), 0, 0, ""};
      Expect(":");
      line.line = U32();
      Expect(":");
      line.column = U32();
      if (token_.kind == Kind::kString) line.what = String();
      function.lines.push_back(line);
      return;
    }
    if (token_.kind != Kind::kWord) return Fail("an instruction or a label");
    if (const OpcodeSpec* spec = FindSpec(token_.text)) {
      Advance();
      return OneInstruction(*spec, function.code);
    }
    if (!ParseIndex('L', token_.text)) return Fail("an instruction or a label");
    if (!labels_.try_emplace(token_.text, pc).second) return Fail("each label once");
    Advance();
    Expect(":");
  }

  void OneInstruction(const OpcodeSpec& spec, std::vector<uint16_t>& code) {
    code.push_back(static_cast<uint16_t>(spec.opcode));
    bool first = true;
    for (const OperandSpec& operand : spec.operands()) {
      if (!first) Expect(",");
      first = false;
      if (!IsList(operand.kind)) {
        Element(operand.kind, code);
        continue;
      }
      size_t at = code.size();
      uint32_t count = 0;
      code.push_back(0);
      List("[", "]", [&] {
        Element(operand.kind, code);
        if (++count > UINT16_MAX) Fail("at most 65535 elements");
      });
      code[at] = static_cast<uint16_t>(count);
    }
  }

  void Element(OperandKind kind, std::vector<uint16_t>& code) {
    if ((kind == OperandKind::kLabel || kind == OperandKind::kLabels) && token_.kind == Kind::kWord) {
      references_.emplace_back(code.size(), token_);
      Index('L');
      code.insert(code.end(), 2, 0);  // patched when the function is complete
      return;
    }
    uint64_t bits = ElementBits(kind);
    for (uint32_t unit = 0; unit < UnitsPerElement(kind); ++unit)
      code.push_back(static_cast<uint16_t>(bits >> (16 * unit)));
  }

  uint64_t ElementBits(OperandKind kind) {
    switch (kind) {
      case OperandKind::kOut:
      case OperandKind::kIn:
      case OperandKind::kMove:
      case OperandKind::kOuts:
      case OperandKind::kMoves: return Index('r', UINT16_MAX);
      case OperandKind::kArgs: {
        bool constant = token_.kind == Kind::kWord && token_.text[0] == 'K';
        if (constant) return Index('K', kConstantArg - 1) | kConstantArg;
        uint64_t reg = Index('r', kMovedArg - 1);
        return Accept("!") ? reg | kMovedArg : reg;
      }
      case OperandKind::kLabel:
      case OperandKind::kLabels: return U32();
      case OperandKind::kImm16: return static_cast<uint64_t>(Integer(INT16_MIN, INT16_MAX));
      case OperandKind::kImm32: return static_cast<uint64_t>(Integer(INT32_MIN, INT32_MAX));
      case OperandKind::kImm64: return static_cast<uint64_t>(Integer(INT64_MIN, UINT64_MAX));
      case OperandKind::kOffsets: return Accept("new") ? kNoOffset : U32();
      case OperandKind::kConstant: return Index('K');
      case OperandKind::kFunction: return Index('F');
      case OperandKind::kKernel: return Index('N');
      case OperandKind::kType: return Type().value;
      case OperandKind::kLayout: return Index('C', UINT16_MAX);
      case OperandKind::kTag:
      case OperandKind::kField: return static_cast<uint64_t>(Integer(0, UINT16_MAX));
      case OperandKind::kDType:
        return token_.kind == Kind::kNumber ? static_cast<uint64_t>(Integer(0, UINT16_MAX)) : PackDataType(DType());
    }
    return 0;
  }

  AssemblyLexer lexer_;
  AssemblyToken token_;
  absl::Status status_;
  Executable executable_;
  std::vector<std::string> symbols_;                          // of the kernel
  std::vector<std::vector<std::string>> kernel_symbols_;      // of all kernels
  std::map<std::string, uint32_t> labels_;                    // of the function
  std::vector<std::pair<size_t, AssemblyToken>> references_;  // to labels: units to patch
};

}  // namespace

absl::StatusOr<Executable> Assemble(std::string_view text) { return Assembler(text).Run(); }

}  // namespace rvm
