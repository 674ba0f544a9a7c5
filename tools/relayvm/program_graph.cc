#include "tools/relayvm/program_graph.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "serialization/isa/isa.h"
#include "tools/relayvm/executable_text.h"

namespace rvm::tools {
namespace {

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

struct Step {
  uint32_t pc;
  Instruction instruction;
};

// A basic block: steps [begin, end) and the blocks that follow.
struct Block {
  size_t begin = 0, end = 0;
  struct Edge {
    size_t block;
    std::string label;
  };
  std::vector<Edge> next;
};

// The nodes whose results a register may hold.
using Origins = std::set<std::string>;
using Registers = std::map<uint16_t, Origins>;

bool IsHidden(Opcode opcode) {
  auto is_one_of = [opcode](auto... opcodes) { return ((opcode == opcodes) || ...); };
  return is_one_of(Opcode::kDrop, Opcode::kDropShell, Opcode::kJump);
}

bool IsCopy(Opcode opcode) { return opcode == Opcode::kMove || opcode == Opcode::kRetain; }

class FunctionGraph {
 public:
  FunctionGraph(const Executable& executable, uint32_t id, std::map<uint32_t, int64_t>& constant_uses)
      : executable_(executable),
        function_(executable.functions[id]),
        prefix_(absl::StrCat("f", id, "_")),
        constant_uses_(constant_uses) {}

  // Returns the box and, outside of it, the edges.
  std::string Box() {
    ReadSteps();
    SplitBlocks();
    FindOrigins();
    std::string text = absl::StrCat("  subgraph cluster_", prefix_,
                                    " {\n    style=filled; fillcolor=\"#f7f7f9\"; label=", Quoted(Title()), ";\n");
    for (uint16_t i = 0; i < function_.num_params; ++i) {
      Node(text, ParamName(i), absl::StrCat(ParamLabel(i), ": ", TypeOf(i)), "shape=ellipse, fillcolor=white");
    }
    for (size_t b = 0; b < blocks_.size(); ++b) BlockBox(text, b);
    return absl::StrCat(text, "  }\n", edges_);
  }
  size_t num_nodes() const { return num_nodes_; }
  std::map<std::string, ProgramGraph::Node>& nodes() { return nodes_; }

 private:
  std::string TypeOf(uint16_t reg) const { return TypeToString(executable_, function_.registers[reg].type); }
  std::string ParamName(uint16_t i) const { return absl::StrCat(prefix_, "p", i); }
  std::string StepName(const Step& step) const { return absl::StrCat(prefix_, step.pc); }
  std::string AnchorName(size_t block) const { return absl::StrCat(prefix_, "b", block); }

  const Entry* EntryOfThis() const {
    for (const Entry& entry : executable_.entries) {
      if (&executable_.functions[entry.function.value] == &function_) return &entry;
    }
    return nullptr;
  }
  std::string ParamLabel(uint16_t i) const {
    const Entry* entry = EntryOfThis();
    bool is_named = entry != nullptr && i < entry->param_names.size();
    return is_named ? absl::StrCat("%", entry->param_names[i]) : absl::StrCat("parameter ", i);
  }
  std::string Title() const {
    return absl::StrCat(EntryOfThis() != nullptr ? "entry @" : "@", function_.name, " -> ",
                        TypeToString(executable_, function_.result));
  }

  void ReadSteps() {
    for (uint32_t pc = 0; pc < function_.code.size();) {
      std::optional<Instruction> instruction = ReadInstruction(function_.code, pc);
      if (!instruction.has_value()) break;  // not after verification
      steps_.push_back({pc, *instruction});
      pc += instruction->length;
    }
  }

  size_t StepAt(uint32_t pc) const {
    auto found =
        std::lower_bound(steps_.begin(), steps_.end(), pc, [](const Step& step, uint32_t at) { return step.pc < at; });
    return static_cast<size_t>(found - steps_.begin());
  }

  // Labels of an instruction and what leads there: "Cons", "yes".
  std::vector<std::pair<size_t, std::string>> Targets(const Instruction& instruction) const {
    std::vector<std::pair<size_t, std::string>> targets;
    for (const Operand& operand : instruction.operands()) {
      if (operand.kind() == OperandKind::kLabel) {
        std::string label = instruction.spec->flow == Flow::kBranch ? "yes" : "";
        if (instruction.opcode() == Opcode::kBranchTag) label = TagName(instruction[0].u16(), instruction[1].u16());
        targets.emplace_back(StepAt(operand.u32()), std::move(label));
      } else if (operand.kind() == OperandKind::kLabels) {
        for (uint32_t i = 0; i < operand.count; ++i) {
          targets.emplace_back(StepAt(operand.u32(i)), TagName(instruction[0].u16(), static_cast<uint16_t>(i)));
        }
      }
    }
    return targets;
  }

  std::string TagName(uint16_t reg, uint16_t tag) const {
    const TypeDesc& type = executable_.types[function_.registers[reg].type.value];
    if (type.kind != TypeDescKind::kAdt) return "";
    return executable_.adts[type.adt.value].constructors[tag].name;
  }

  void SplitBlocks() {
    std::set<size_t> begins = {0};
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Instruction& instruction = steps_[i].instruction;
      for (const auto& [target, label] : Targets(instruction)) begins.insert(target);
      Flow flow = instruction.spec->flow;
      if (flow != Flow::kNext && flow != Flow::kCall && i + 1 < steps_.size()) begins.insert(i + 1);
    }
    std::map<size_t, size_t> block_at;
    for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
      auto after = std::next(begin);
      block_at[*begin] = blocks_.size();
      blocks_.push_back({*begin, after == begins.end() ? steps_.size() : *after, {}});
    }
    for (Block& block : blocks_) {
      const Instruction& last = steps_[block.end - 1].instruction;
      for (auto& [target, label] : Targets(last)) block.next.push_back({block_at[target], std::move(label)});
      Flow flow = last.spec->flow;
      if (flow == Flow::kNext || flow == Flow::kCall || flow == Flow::kBranch) {
        block.next.push_back({block_at[block.end], flow == Flow::kBranch ? "no" : ""});
      }
    }
  }

  // Applies a step to the registers.
  void Define(const Step& step, Registers& registers) const {
    const Instruction& instruction = step.instruction;
    if (IsCopy(instruction.opcode())) {
      registers[instruction[0].u16()] = registers[instruction[1].u16()];
      return;
    }
    for (const Operand& operand : instruction.operands()) {
      if (operand.kind() != OperandKind::kOut && operand.kind() != OperandKind::kOuts) continue;
      if (operand.spec->register_class == RegisterClass::kShell) continue;
      Origins origin = {StepName(step)};
      if (instruction.opcode() == Opcode::kLoadConst) origin = {absl::StrCat("k", instruction[1].u32())};
      for (uint32_t i = 0; i < operand.count; ++i) registers[operand.u16(i)] = origin;
    }
  }

  // Reaching definitions, by iteration to the fixed point.
  void FindOrigins() {
    at_begin_.resize(blocks_.size());
    for (uint16_t i = 0; i < function_.num_params; ++i) at_begin_[0][i] = {ParamName(i)};
    std::set<size_t> pending = {0};
    while (!pending.empty()) {
      size_t b = *pending.begin();
      pending.erase(pending.begin());
      is_reached_.insert(b);
      Registers registers = at_begin_[b];
      for (size_t i = blocks_[b].begin; i < blocks_[b].end; ++i) Define(steps_[i], registers);
      for (const Block::Edge& edge : blocks_[b].next) {
        bool has_changed = !is_reached_.contains(edge.block);
        for (const auto& [reg, origins] : registers) {
          Origins& known = at_begin_[edge.block][reg];
          size_t before = known.size();
          known.insert(origins.begin(), origins.end());
          has_changed = has_changed || known.size() != before;
        }
        if (has_changed) pending.insert(edge.block);
      }
    }
  }

  void Node(std::string& text, const std::string& name, std::string_view label, std::string_view style) {
    absl::StrAppend(&text, "    ", name, " [label=", Quoted(label), ", ", Abseil(style), "];\n");
    ++num_nodes_;
  }

  void BlockBox(std::string& text, size_t b) {
    const Block& block = blocks_[b];
    if (!is_reached_.contains(b)) return;
    bool is_boxed = blocks_.size() > 1;
    if (is_boxed) {
      absl::StrAppend(&text, "    subgraph cluster_", AnchorName(b), " { style=dashed; label=\"\";\n    ",
                      AnchorName(b), " [shape=point, width=0.05];\n");
    }
    Registers registers = at_begin_[b];
    std::string last = AnchorName(b);
    for (size_t i = block.begin; i < block.end; ++i) {
      const Step& step = steps_[i];
      Opcode opcode = step.instruction.opcode();
      if (!IsHidden(opcode) && !IsCopy(opcode) && opcode != Opcode::kLoadConst) {
        StepNode(text, step, registers);
        if (i + 1 == block.end && step.instruction.spec->flow != Flow::kNext) last = StepName(step);
      }
      Define(step, registers);
    }
    if (is_boxed) absl::StrAppend(&text, "    }\n");
    for (const Block::Edge& edge : block.next) {
      absl::StrAppend(&edges_, "  ", last, " -> ", AnchorName(edge.block),
                      " [style=dashed, color=\"#888888\", label=", Quoted(edge.label), "];\n");
    }
  }

  void StepNode(std::string& text, const Step& step, const Registers& registers) {
    std::string label = Label(step.instruction);
    std::set<std::string> sources;
    for (const Operand& operand : step.instruction.operands()) {
      switch (operand.kind()) {
        case OperandKind::kOut:
        case OperandKind::kOuts:
          for (uint32_t i = 0; i < operand.count; ++i) {
            if (operand.spec->register_class != RegisterClass::kShell) {
              absl::StrAppend(&label, "\n", TypeOf(operand.u16(i)));
            }
          }
          break;
        case OperandKind::kIn:
        case OperandKind::kMove:
        case OperandKind::kMoves:
        case OperandKind::kArgs:
          for (uint32_t i = 0; i < operand.count; ++i) AddSources(operand, i, registers, sources);
          break;
        case OperandKind::kLabel:
        case OperandKind::kLabels:
        case OperandKind::kImm16:
        case OperandKind::kImm32:
        case OperandKind::kImm64:
        case OperandKind::kOffsets:
        case OperandKind::kConstant:
        case OperandKind::kFunction:
        case OperandKind::kKernel:
        case OperandKind::kType:
        case OperandKind::kLayout:
        case OperandKind::kTag:
        case OperandKind::kField:
        case OperandKind::kDType: break;
      }
    }
    Node(text, StepName(step), label, Style(step.instruction));
    Describe(step, label);
    for (const std::string& source : sources) {
      if (source[0] == 'k') ++constant_uses_[static_cast<uint32_t>(std::stoul(source.substr(1)))];
      absl::StrAppend(&edges_, "  ", source, " -> ", StepName(step), ";\n");
    }
  }

  void Describe(const Step& step, const std::string& label) {
    ProgramGraph::Node& node = nodes_[StepName(step)];
    node = {
        .function = function_.name, .place = PlaceText(executable_, function_, step.pc), .label = label, .kernel = {}};
    for (const Operand& operand : step.instruction.operands()) {
      if (operand.kind() == OperandKind::kKernel) node.kernel = operand.u32();
    }
  }

  static void AddSources(const Operand& operand, uint32_t i, const Registers& registers,
                         std::set<std::string>& sources) {
    uint16_t reg = operand.u16(i);
    if (operand.kind() == OperandKind::kArgs) {
      if ((reg & kConstantArg) != 0) {
        sources.insert(absl::StrCat("k", reg & ~kConstantArg));
        return;
      }
      reg = static_cast<uint16_t>(reg & ~kMovedArg);
    }
    auto found = registers.find(reg);
    if (found != registers.end()) sources.insert(found->second.begin(), found->second.end());
  }

  // Returns the name of what the instruction calls or makes; otherwise its mnemonic with its numbers.
  std::string Label(const Instruction& instruction) const {
    if (instruction.opcode() == Opcode::kLoadTag) return TagName(instruction[0].u16(), instruction[1].u16());
    std::string label(instruction.spec->mnemonic);
    for (const Operand& operand : instruction.operands()) {
      if (operand.kind() == OperandKind::kKernel) return executable_.kernels[operand.u32()].name;
      if (operand.kind() == OperandKind::kFunction) {
        const std::string& callee = executable_.functions[operand.u32()].name;
        return absl::StrCat(instruction.opcode() == Opcode::kTailCall ? "tail call @" : "@", callee);
      }
      if (operand.kind() == OperandKind::kLayout) {
        const CellLayout& layout = executable_.layouts[operand.u16()];
        bool is_made = instruction.opcode() == Opcode::kMakeCell || instruction.opcode() == Opcode::kMakeCellIn;
        if (!is_made) continue;
        switch (layout.kind) {
          case CellKind::kTuple: return "tuple";
          case CellKind::kRef: return "ref";
          case CellKind::kClosure:
            return absl::StrCat("closure of @", executable_.functions[layout.function.value].name);
          case CellKind::kAdt: {
            const AdtDesc& adt = executable_.adts[executable_.types[layout.type.value].adt.value];
            return adt.constructors[layout.tag].name;
          }
        }
      }
      bool is_number = operand.kind() == OperandKind::kImm16 || operand.kind() == OperandKind::kImm32 ||
                       operand.kind() == OperandKind::kField;
      if (is_number) {
        int64_t value = operand.kind() == OperandKind::kImm32 ? static_cast<int32_t>(operand.u32())
                                                              : static_cast<int16_t>(operand.u16());
        absl::StrAppend(&label, " ", value);
      }
    }
    return label;
  }

  static std::string_view Style(const Instruction& instruction) {
    switch (instruction.spec->flow) {
      case Flow::kBranch:
      case Flow::kSwitch: return "shape=diamond, fillcolor=\"#fff3cd\"";
      case Flow::kCall: return "shape=box, style=\"rounded,filled\", fillcolor=\"#e2d9f3\"";
      case Flow::kReturn:
      case Flow::kStop: return "shape=ellipse, fillcolor=\"#e2e3e5\"";
      case Flow::kJump:
      case Flow::kNext: break;
    }
    for (const Operand& operand : instruction.operands()) {
      if (operand.kind() == OperandKind::kKernel) return "shape=box, fillcolor=\"#cfe2ff\"";
    }
    return "shape=box, fillcolor=white";
  }

  const Executable& executable_;
  const FunctionDesc& function_;
  std::string prefix_;
  std::map<uint32_t, int64_t>& constant_uses_;
  std::vector<Step> steps_;
  std::vector<Block> blocks_;
  std::vector<Registers> at_begin_;
  std::set<size_t> is_reached_;
  std::string edges_;
  size_t num_nodes_ = 0;
  std::map<std::string, ProgramGraph::Node> nodes_;
};

}  // namespace

std::set<uint32_t> ReachedFunctions(const Executable& executable, FunctionId root) {
  std::set<uint32_t> reached;
  std::vector<uint32_t> pending = {root.value};
  while (!pending.empty()) {
    uint32_t id = pending.back();
    pending.pop_back();
    if (!reached.insert(id).second) continue;
    const std::vector<uint16_t>& code = executable.functions[id].code;
    for (uint32_t pc = 0; pc < code.size();) {
      std::optional<Instruction> instruction = ReadInstruction(code, pc);
      if (!instruction.has_value()) break;
      for (const Operand& operand : instruction->operands()) {
        if (operand.kind() == OperandKind::kFunction) pending.push_back(operand.u32());
        if (operand.kind() != OperandKind::kLayout) continue;
        const CellLayout& layout = executable.layouts[operand.u16()];
        if (layout.kind == CellKind::kClosure) pending.push_back(layout.function.value);
      }
      pc += instruction->length;
    }
  }
  return reached;
}

absl::StatusOr<ProgramGraph> MakeProgramGraph(const VerifiedExecutable& verified, std::string_view entry) {
  const Executable& executable = *verified;
  std::set<uint32_t> functions;
  if (entry.empty()) {
    for (uint32_t i = 0; i < executable.functions.size(); ++i) functions.insert(i);
  } else if (const Entry* found = executable.FindEntry(entry)) {
    functions = ReachedFunctions(executable, found->function);
  } else {
    return absl::NotFoundError(absl::StrCat("no entry `", Abseil(entry), "` in the executable"));
  }
  ProgramGraph graph;
  graph.dot =
      "digraph program {\n  node [style=filled, fontname=Helvetica, fontsize=10]; edge [fontname=Helvetica, "
      "fontsize=9];\n"
      "  fontname=Helvetica;\n";
  std::map<uint32_t, int64_t> constant_uses;  // by id: each constant is one node
  for (uint32_t id : functions) {
    FunctionGraph function(executable, id, constant_uses);
    graph.dot += function.Box();
    graph.num_nodes += function.num_nodes();
    graph.nodes.merge(function.nodes());
  }
  for (const auto& [id, uses] : constant_uses) {
    const Literal& literal = executable.constants[id];
    std::string_view weight = WeightName(executable, id);
    std::string label =
        absl::StrCat(weight.empty() ? absl::StrCat("constant ", id) : std::string(weight), "\n",
                     ShapeToString(literal.shape()), " ", literal.dtype().ToString(), "\n", BytesText(literal.bytes()));
    absl::StrAppend(&graph.dot, "  k", id, " [label=", Quoted(label), ", shape=box3d, fillcolor=\"#d1e7dd\"",
                    uses > 1 ? ", penwidth=3" : "", "];\n");
    ++graph.num_nodes;
  }
  graph.dot += "}\n";
  return graph;
}

}  // namespace rvm::tools
