#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/ptx.h"

namespace ptx {
namespace {

std::string Trim(const std::string& text) {
  size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (char c : text) {
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c == at && depth == 0) {
      parts.push_back(Trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!Trim(part).empty()) parts.push_back(Trim(part));
  return parts;
}

bool StartsWith(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

bool ParseType(const std::string& text, Type& type) {
  if (text == "pred") {
    type = {Kind::kPredicate, 1};
    return true;
  }
  static const std::map<char, Kind> kinds = {
      {'b', Kind::kBits}, {'u', Kind::kUnsigned}, {'s', Kind::kSigned}, {'f', Kind::kFloat}};
  static const std::map<std::string, uint8_t> bytes = {{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}};
  if (text.size() < 2) return false;
  auto kind = kinds.find(text[0]);
  auto size = bytes.find(text.substr(1));
  if (kind == kinds.end() || size == bytes.end()) return false;
  type = {kind->second, size->second};
  return true;
}

struct OpName {
  const char* name;
  Op op;
  size_t operands;  // beside the result
};
constexpr OpName kOps[] = {
    {"abs", Op::kAbs, 1},    {"add", Op::kAdd, 2},     {"and", Op::kAnd, 2},           {"bfe", Op::kExtract, 3},
    {"bfi", Op::kInsert, 4}, {"clz", Op::kClz, 1},     {"cvt", Op::kConvert, 1},       {"cvta", Op::kMove, 1},
    {"div", Op::kDiv, 2},    {"fma", Op::kFma, 3},     {"mad", Op::kMad, 3},           {"max", Op::kMax, 2},
    {"min", Op::kMin, 2},    {"mov", Op::kMove, 1},    {"mul", Op::kMul, 2},           {"neg", Op::kNeg, 1},
    {"not", Op::kNot, 1},    {"or", Op::kOr, 2},       {"popc", Op::kPopCount, 1},     {"rcp", Op::kRcp, 1},
    {"rem", Op::kRem, 2},    {"selp", Op::kSelect, 3}, {"setp", Op::kSetPredicate, 2}, {"shl", Op::kShl, 2},
    {"shr", Op::kShr, 2},    {"sqrt", Op::kSqrt, 1},   {"sub", Op::kSub, 2},           {"xor", Op::kXor, 2},
};

class Parser {
 public:
  Parser(const std::string& text, Module& module) : text_(text), module_(module) {}

  std::string Run() {
    size_t at = 0;
    while (problem_.empty() && at < text_.size()) {
      size_t end = std::min(text_.find('\n', at), text_.size());
      ++line_;
      std::string line = text_.substr(at, end - at);
      at = end + 1;
      if (!statement_.empty()) statement_ += ' ';
      statement_ += Trim(line.substr(0, line.find("//")));
      if (StartsWith(statement_, "mma.") && statement_.back() != ';') continue;  // it has several lines
      Line(std::exchange(statement_, ""));
    }
    if (problem_.empty() && entry_ != nullptr) Fail("the text ends within a function");
    return problem_;
  }

 private:
  void Fail(const std::string& what) {
    if (problem_.empty()) problem_ = "line " + std::to_string(line_) + ": " + what;
  }

  void Line(const std::string& line) {
    if (line.empty()) return;
    if (entry_ == nullptr) return Header(line);
    if (line == ")") in_params_ = false;
    if (line == ")") return;
    if (StartsWith(line, ".reqntid ")) {
      std::vector<std::string> extents = Split(line.substr(9), ',');
      if (!scopes_.empty() || extents.size() != 3 || extents[1] != "1" || extents[2] != "1")
        return Fail("unknown directive: " + line);
      entry_->threads = static_cast<uint32_t>(std::strtoul(extents[0].c_str(), nullptr, 10));
      return;
    }
    if (line == ".minnctapersm 1" && scopes_.empty()) return;
    if (line == "{") {
      scopes_.emplace_back();
      return;
    }
    if (line == "}") return EndScope();
    if (StartsWith(line, "{ ") && line.back() == '}') return Block(line.substr(1, line.size() - 2));
    if (in_params_) return Param(line);
    if (line.back() == ':') {
      labels_[line.substr(0, line.size() - 1)] = entry_->code.size();
      return;
    }
    if (line.back() != ';') return Fail("expected `;`: " + line);
    std::string statement = line.substr(0, line.size() - 1);
    if (StartsWith(statement, ".reg")) return Registers(statement);
    if (StartsWith(statement, ".pragma")) return;
    if (StartsWith(statement, ".shared ")) return Shared(statement);
    if (statement[0] == '.') return Fail("unknown directive: " + statement);
    Statement(statement);
  }

  // `{ .reg .b16 low; mov.b32 {low, %rs1}, %r1; }`, a block on one line.
  void Block(const std::string& content) {
    scopes_.emplace_back();
    for (const std::string& statement : Split(content, ';')) {
      if (std::string line = Trim(statement); !line.empty()) Line(line + ";");
    }
    EndScope();
  }

  void Header(const std::string& line) {
    if (line == ".address_size 64") return;
    if (StartsWith(line, ".version ")) {
      version_ = line;
      return;
    }
    if (StartsWith(line, ".target ")) {
      module_.capability = line == ".target sm_75" ? 75 : line == ".target sm_80" ? 80 : 0;
      const char* version = module_.capability == 80 ? ".version 7.0" : ".version 6.5";
      if (module_.capability == 0 || version_ != version) {
        Fail("expected PTX 6.5 for sm_75 or 7.0 for sm_80: " + version_ + ", " + line);
      }
      return;
    }
    constexpr char kEntry[] = ".visible .entry ";
    if (!StartsWith(line, kEntry) || line.back() != '(') return Fail("unknown directive: " + line);
    std::string name = line.substr(sizeof kEntry - 1, line.size() - sizeof kEntry);
    if (module_.entries.count(name) != 0) return Fail("`" + name + "` is defined twice");
    entry_ = &module_.entries[name];
    entry_->name = name;
    in_params_ = true;
    registers_.clear();
    labels_.clear();
  }

  // .shared .align 16 .b8 name[512]
  void Shared(const std::string& statement) {
    std::vector<std::string> words = Split(statement, ' ');
    if (words.size() != 5 || words[1] != ".align" || words[3] != ".b8" || words[4].find('[') == std::string::npos)
      return Fail("unknown declaration: " + statement);
    size_t align = std::strtoul(words[2].c_str(), nullptr, 10), bracket = words[4].find('[');
    size_t bytes = std::strtoul(words[4].c_str() + bracket + 1, nullptr, 10);
    if (align == 0 || (align & (align - 1)) != 0 || bytes == 0) return Fail("unknown declaration: " + statement);
    // Apart, so that an access beyond the end shows.
    size_t offset = (entry_->shared_bytes + align - 1) / align * align;
    entry_->shared_bytes = offset + bytes + 256;
    if (!entry_->shared.emplace(words[4].substr(0, bracket), offset).second)
      Fail("`" + words[4] + "` is declared twice");
  }

  void Param(const std::string& line) {
    std::vector<std::string> words = Split(line, ' ');
    std::string name = words.back();
    if (name.back() == ',') name.pop_back();
    if (words.size() != 3 || words[0] != ".param" || (words[1] != ".u64" && words[1] != ".b64"))
      return Fail("unknown parameter: " + line);
    entry_->params[name] = entry_->param_bytes;
    entry_->param_bytes += 8;
  }

  void Registers(const std::string& statement) {
    // .reg .b32 %r<5>, .reg .b32 %low, or .reg .b16 low
    size_t dot = statement.find('.', 4), name = statement.find_last_of(" \t") + 1, less = statement.find('<');
    Type type;
    if (scopes_.empty() || dot == std::string::npos || name <= dot ||
        !ParseType(Trim(statement.substr(dot + 1, name - dot - 1)), type))
      return Fail("unknown declaration: " + statement);
    if (less == std::string::npos) return Declare(statement.substr(name), type);
    std::string prefix = statement.substr(name, less - name);
    unsigned long count = std::strtoul(statement.c_str() + less + 1, nullptr, 10);
    for (unsigned long i = 0; i < count; ++i) Declare(prefix + std::to_string(i), type);
  }

  void Declare(const std::string& name, Type type) {
    if (!registers_.emplace(name, std::pair(entry_->num_registers++, type)).second)
      return Fail("`" + name + "` is declared twice");
    scopes_.back().push_back(name);
  }

  uint32_t Register(const std::string& name, size_t bytes, bool may_be_wider) {
    auto found = registers_.find(name);
    if (found == registers_.end()) {
      Fail("no register is named `" + name + "`");
      return 0;
    }
    size_t size = found->second.second.bytes;
    if (size != bytes && !(may_be_wider && size > bytes)) {
      Fail("`" + name + "` has " + std::to_string(size) + " bytes; expected " + std::to_string(bytes));
    }
    return found->second.first;
  }

  Operand Source(const std::string& text, size_t bytes, bool may_be_wider = false) {
    static const std::map<std::string, Special> specials = {{"%tid.x", Special::kThread},
                                                            {"%ntid.x", Special::kThreads},
                                                            {"%ctaid.x", Special::kBlock},
                                                            {"%nctaid.x", Special::kBlocks}};
    if (auto special = specials.find(text); special != specials.end())
      return {Operand::From::kSpecial, static_cast<uint64_t>(special->second)};
    if (auto shared = entry_->shared.find(text); shared != entry_->shared.end())
      return {Operand::From::kNumber, shared->second};
    if (text.empty() || text[0] == '%') return {Operand::From::kRegister, Register(text, bytes, may_be_wider)};
    char* end = nullptr;
    uint64_t value = 0;
    if (StartsWith(text, "0f") || StartsWith(text, "0d")) {
      value = std::strtoull(text.c_str() + 2, &end, 16);
      if (text.size() != 2 + 2 * bytes) Fail("a constant of the wrong width: " + text);
    } else if (text[0] == '-') {
      value = static_cast<uint64_t>(std::strtoll(text.c_str(), &end, 10));
    } else {
      value = std::strtoull(text.c_str(), &end, 0);
    }
    if (end == nullptr || *end != '\0') Fail("unknown operand: " + text);
    return {Operand::From::kNumber, value};
  }

  // Parses the part of an instruction's name behind the operation: types and modifiers.
  bool Modifiers(const std::vector<std::string>& words, Instruction& made) {
    static const std::map<std::string, Rounding> roundings = {
        {"rn", Rounding::kNearest},  {"rz", Rounding::kZero},        {"rm", Rounding::kDown},
        {"rp", Rounding::kUp},       {"rni", Rounding::kNearestInt}, {"rzi", Rounding::kZeroInt},
        {"rmi", Rounding::kDownInt}, {"rpi", Rounding::kUpInt}};
    static const std::map<std::string, Compare> compares = {
        {"eq", Compare::kEq},   {"ne", Compare::kNe},   {"lt", Compare::kLt},   {"le", Compare::kLe},
        {"gt", Compare::kGt},   {"ge", Compare::kGe},   {"equ", Compare::kEqu}, {"neu", Compare::kNeu},
        {"ltu", Compare::kLtu}, {"leu", Compare::kLeu}, {"gtu", Compare::kGtu}, {"geu", Compare::kGeu},
        {"num", Compare::kNum}, {"nan", Compare::kNan}, {"lo", Compare::kLt},   {"ls", Compare::kLe},
        {"hi", Compare::kGt},   {"hs", Compare::kGe}};
    size_t types = 0;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      Type type;
      bool is_mul = made.op == Op::kMul || made.op == Op::kMad;
      if (ParseType(word, type)) {
        if (++types == 2 && made.op != Op::kConvert) return false;
        (types == 1 ? made.type : made.source) = type;
      } else if (made.op == Op::kSetPredicate && i == 1 && compares.count(word) != 0) {
        made.compare = compares.at(word);
      } else if (roundings.count(word) != 0) {
        made.rounding = roundings.at(word);
      } else if (is_mul && word == "wide") {
        made.op = made.op == Op::kMul ? Op::kMulWide : Op::kMadWide;
      } else if ((made.op == Op::kMax || made.op == Op::kMin) && word == "NaN" && module_.capability >= 80) {
        made.keeps_nan = true;
      } else if (made.op == Op::kMul && word == "hi") {
        made.op = Op::kMulHigh;
      } else if (!(is_mul && word == "lo") && !(words[0] == "cvta" && (word == "to" || word == "global"))) {
        return false;
      }
    }
    bool is_extreme = made.op == Op::kMax || made.op == Op::kMin;
    bool is_half = made.type.kind == Kind::kFloat && made.type.bytes == 2;
    if (is_extreme && is_half && module_.capability < 80) return false;
    return types == (made.op == Op::kConvert ? 2u : 1u);
  }

  void Statement(std::string statement) {
    Instruction made{};
    made.line = line_;
    if (statement[0] == '@') {
      size_t space = statement.find_first_of(" \t");
      made.is_guard_negated = statement[1] == '!';
      made.guard = static_cast<int>(
          Register(statement.substr(made.is_guard_negated ? 2 : 1, space - (made.is_guard_negated ? 2 : 1)), 1, false));
      statement = Trim(statement.substr(space));
    }
    size_t space = std::min(statement.find_first_of(" \t"), statement.size());
    std::string name = statement.substr(0, space);
    std::vector<std::string> words = Split(name, '.'), args = Split(statement.substr(space), ',');
    if (words[0] == "ret" || words[0] == "exit") {
      made.op = Op::kReturn;
    } else if (words[0] == "bra") {
      made.op = Op::kBranch;
      if (args.size() != 1) return Fail("expected a label: " + statement);
      made.label = args[0];
    } else if (name == "bar.sync") {
      made.op = Op::kBarrier;
      if (args.size() != 1 || args[0] != "0") return Fail("expected barrier 0: " + statement);
    } else if (name == "shfl.sync.bfly.b32") {
      Exchange(args, made, statement);
    } else if (words[0] == "mma") {
      Multiply(name, args, made, statement);
    } else if (name == "cvt.rna.tf32.f32" && args.size() == 2 && module_.capability >= 80) {
      made.op = Op::kToTf32;
      made.to.push_back(Register(args[0], 4, false));
      made.from.push_back(Source(args[1], 4));
    } else if (words[0] == "ld" || words[0] == "st") {
      Access(words, args, made, statement);
    } else if ((name == "mov.b32" || name == "mov.b64") && args.size() == 2 && args[0][0] == '{') {
      Unpack(name, args, made, statement);
    } else if ((name == "mov.b32" || name == "mov.b64") && args.size() == 2 && args[1][0] == '{') {
      Pack(name, args, made, statement);
    } else {
      Arithmetic(words, args, made, statement);
    }
    entry_->code.push_back(made);
  }

  // Returns the list inside `{%r1, %r2}`.
  static std::vector<std::string> Inside(const std::string& text) {
    return Split(text.substr(1, text.size() - 2), ',');
  }

  // shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1, among all lanes
  void Exchange(const std::vector<std::string>& args, Instruction& made, const std::string& statement) {
    bool is_whole = args.size() == 5 && args[3] == "31" && args[4] == "-1";
    if (!is_whole) return Fail("expected an exchange within a whole warp: " + statement);
    std::string result = args[0].substr(0, args[0].find('|'));
    if (result.size() != args[0].size()) Register(args[0].substr(result.size() + 1), 1, false);
    made.op = Op::kShuffle;
    made.type = {Kind::kBits, 4};
    made.to.push_back(Register(result, 4, false));
    made.from = {Source(args[1], 4), Source(args[2], 4)};
  }

  // mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {4 sums}, {2 words of a}, {1 word of b}, {4 sums}
  void Multiply(const std::string& name, const std::vector<std::string>& args, Instruction& made,
                const std::string& statement) {
    struct Variant {
      std::string shape, types;  // of d, a, b and c
      MmaShape mma;
      int capability;
    };
    constexpr MmaType kF16 = MmaType::kFloat16, kBf16 = MmaType::kBFloat16, kTf32 = MmaType::kTf32;
    static const std::vector<Variant> variants = [&] {
      std::vector<Variant> all = {{"m16n8k8", "f32.f16.f16.f32", {16, 8, kF16, kF16}, 75},
                                  {"m16n8k16", "f32.f16.f16.f32", {16, 16, kF16, kF16}, 80},
                                  {"m16n8k16", "f32.bf16.bf16.f32", {16, 16, kBf16, kBf16}, 80},
                                  {"m16n8k8", "f32.tf32.tf32.f32", {16, 8, kTf32, kTf32}, 80}};
      constexpr std::pair<const char*, MmaType> kBytes[] = {{"s8", MmaType::kSigned8}, {"u8", MmaType::kUnsigned8}};
      for (const auto& [a_name, a] : kBytes) {
        for (const auto& [b_name, b] : kBytes) {
          std::string types = std::string("s32.") + a_name + "." + b_name + ".s32";
          all.push_back({"m8n8k16", types, {8, 16, a, b}, 75});
          all.push_back({"m16n8k32", types, {16, 32, a, b}, 80});
        }
      }
      return all;
    }();
    auto found = std::find_if(variants.begin(), variants.end(), [&](const Variant& variant) {
      return name == "mma.sync.aligned." + variant.shape + ".row.col." + variant.types;
    });
    if (found == variants.end() || args.size() != 4) return Fail("unknown instruction: " + statement);
    if (found->capability > module_.capability) return Fail("an instruction of a later GPU: " + statement);
    made.op = Op::kMma;
    made.mma = found->mma;
    made.type = {found->types[0] == 'f' ? Kind::kFloat : Kind::kSigned, 4};
    size_t element = made.mma.a == kTf32 ? 4 : made.type.kind == Kind::kFloat ? 2 : 1;
    size_t sums = made.mma.rows / 4, a = made.mma.rows * made.mma.depth * element / 128;
    const size_t counts[] = {sums, a, made.mma.depth * element / 16, sums};
    for (size_t i = 0; i < 4; ++i) {
      std::vector<std::string> names = Inside(args[i]);
      if (names.size() != counts[i]) {
        return Fail("expected " + std::to_string(counts[i]) + " registers in `" + args[i] + "`: " + statement);
      }
      for (const std::string& one : names) {
        if (i == 0) made.to.push_back(Register(one, 4, false));
        if (i > 0) made.from.push_back(Source(one, 4));
      }
    }
  }

  void Access(const std::vector<std::string>& words, const std::vector<std::string>& args, Instruction& made,
              const std::string& statement) {
    bool loads = words[0] == "ld";
    size_t lanes = 1;
    bool in_param = false, in_global = false;
    for (size_t i = 1; i + 1 < words.size(); ++i) {
      if (words[i] == "v2" || words[i] == "v4") {
        lanes = static_cast<size_t>(words[i][1] - '0');
      } else if (words[i] == "param" && loads) {
        in_param = true;
      } else if (words[i] == "global") {
        in_global = true;
      } else if (words[i] == "shared") {
        made.is_shared = true;
      } else if (words[i] != "nc" && !(loads && words[i] == "volatile")) {
        return Fail("unknown instruction: " + statement);
      }
    }
    if (in_param + in_global + made.is_shared != 1 || args.size() != 2 || !ParseType(words.back(), made.type))
      return Fail("unknown instruction: " + statement);
    made.op = !loads ? Op::kStore : in_param ? Op::kLoadParam : Op::kLoad;
    std::string address = args[loads ? 1 : 0], value = args[loads ? 0 : 1];
    if (address.size() < 3 || address[0] != '[' || address.back() != ']')
      return Fail("expected an address: " + statement);
    address = address.substr(1, address.size() - 2);
    size_t sign = address.find_first_of("+");
    std::string base = Trim(address.substr(0, sign));
    if (sign != std::string::npos) made.offset = std::strtoll(address.c_str() + sign + 1, nullptr, 10);
    if (in_param) {
      auto param = entry_->params.find(base);
      if (param == entry_->params.end()) return Fail("no parameter is named `" + base + "`");
      made.offset += static_cast<int64_t>(param->second);
    } else {
      made.from.push_back(Source(base, 8));
    }
    if (value[0] == '{') value = value.substr(1, value.size() - 2);
    std::vector<std::string> values = Split(value, ',');
    if (values.size() != lanes) return Fail("expected a register for each lane: " + statement);
    for (const std::string& lane : values) {
      if (loads) {
        made.to.push_back(Register(lane, made.type.bytes, true));
      } else {
        made.from.push_back(Source(lane, made.type.bytes, true));
      }
    }
  }

  // mov.b32 {%rs1, %rs2}, %r1 in two instructions; or mov.b64.
  void Unpack(const std::string& name, const std::vector<std::string>& args, Instruction& made,
              const std::string& statement) {
    std::vector<std::string> halves = Inside(args[0]);
    if (halves.size() != 2) return Fail("expected two halves: " + statement);
    uint8_t bytes = name == "mov.b32" ? 4 : 8, half = bytes / 2;
    Instruction low = made;
    low.op = Op::kMove;
    low.type = {Kind::kBits, half};
    low.to.push_back(Register(halves[0], half, false));
    low.from.push_back(Source(args[1], bytes));
    entry_->code.push_back(low);
    made.op = Op::kShr;
    made.type = {Kind::kUnsigned, bytes};
    made.to.push_back(Register(halves[1], half, false));
    made.from = {Source(args[1], bytes), {Operand::From::kNumber, 8u * half}};
  }

  // mov.b64 %rd1, {%r1, %r2} in three: high * 2^16, shifted by 16, and low added; or mov.b32.
  void Pack(const std::string& name, const std::vector<std::string>& args, Instruction& made,
            const std::string& statement) {
    std::vector<std::string> halves = Inside(args[1]);
    if (halves.size() != 2) return Fail("expected two halves: " + statement);
    uint8_t bytes = name == "mov.b32" ? 4 : 8, half = bytes / 2;
    uint64_t shift = 4u * half;
    Operand whole{Operand::From::kRegister, Register(args[0], bytes, false)};
    made.to = {static_cast<uint32_t>(whole.value)};
    Instruction high = made;
    high.op = Op::kMulWide;
    high.type = {Kind::kUnsigned, half};
    high.from = {Source(halves[1], half), {Operand::From::kNumber, uint64_t{1} << shift}};
    Instruction shifted = made;
    shifted.op = Op::kShl;
    shifted.type = {Kind::kBits, bytes};
    shifted.from = {whole, {Operand::From::kNumber, shift}};
    entry_->code.push_back(high);
    entry_->code.push_back(shifted);
    made.op = Op::kMadWide;
    made.type = {Kind::kUnsigned, half};
    made.from = {Source(halves[0], half), {Operand::From::kNumber, 1}, whole};
  }

  void Arithmetic(const std::vector<std::string>& words, const std::vector<std::string>& args, Instruction& made,
                  const std::string& statement) {
    auto op = std::find_if(std::begin(kOps), std::end(kOps), [&](const OpName& o) { return words[0] == o.name; });
    if (op == std::end(kOps)) return Fail("unknown instruction: " + statement);
    made.op = op->op;
    if (!Modifiers(words, made) || args.size() != op->operands + 1) return Fail("unknown instruction: " + statement);
    size_t bytes = made.type.bytes;
    bool is_wide = made.op == Op::kMulWide || made.op == Op::kMadWide;
    bool counts = made.op == Op::kClz || made.op == Op::kPopCount;
    size_t result = made.op == Op::kSetPredicate ? 1 : counts ? 4 : is_wide ? 2 * bytes : bytes;
    // Registers have at least 16 bits.
    made.to.push_back(Register(args[0], result, made.op == Op::kConvert));
    for (size_t i = 1; i < args.size(); ++i) {
      size_t expected = bytes;
      if (made.op == Op::kConvert) expected = made.source.bytes;
      if (made.op == Op::kSelect && i == 3) expected = 1;
      if (made.op == Op::kMadWide && i == 3) expected = 2 * bytes;
      if ((made.op == Op::kShl || made.op == Op::kShr || made.op == Op::kExtract) && i >= 2) expected = 4;
      if (made.op == Op::kInsert && i >= 3) expected = 4;
      made.from.push_back(Source(args[i], expected, made.op == Op::kConvert));
    }
  }

  void EndScope() {
    if (scopes_.empty()) return Fail("`}` without `{`");
    for (const std::string& name : scopes_.back()) registers_.erase(name);
    scopes_.pop_back();
    if (scopes_.empty()) EndEntry();
  }

  void EndEntry() {
    for (Instruction& instruction : entry_->code) {
      if (instruction.op != Op::kBranch) continue;
      auto label = labels_.find(instruction.label);
      if (label == labels_.end()) {
        line_ = instruction.line;
        return Fail("no label is named `" + instruction.label + "`");
      }
      instruction.target = label->second;
    }
    Instruction end{};
    end.op = Op::kReturn;
    entry_->code.push_back(end);
    entry_ = nullptr;
  }

  const std::string& text_;
  Module& module_;
  int line_ = 0;
  std::string statement_, version_;
  std::string problem_;
  Entry* entry_ = nullptr;
  bool in_params_ = false;
  std::map<std::string, std::pair<uint32_t, Type>> registers_;
  std::vector<std::vector<std::string>> scopes_;  // what each block of the function declares, outermost first
  std::map<std::string, size_t> labels_;
};

}  // namespace

std::string Parse(const std::string& text, Module& module) { return Parser(text, module).Run(); }

}  // namespace ptx
