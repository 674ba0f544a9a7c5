// Every program of tests/programs, at every level, gives code that the verifier accepts.
#include "compiler/bytecode/emit_program.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/passes/pipeline.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"
#include "compiler/typing/infer_type.h"
#include "kernels/schedule/schedule.h"
#include "serialization/disassembler.h"
#include "serialization/isa/isa.h"
#include "serialization/verifier.h"

namespace rvm::bytecode {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the functions that the file's comments call: `// run: main(3) => 4`.
std::vector<std::string> EntriesOf(const std::string& text) {
  std::set<std::string> names;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    size_t at = line.find("// run: ");
    if (at != std::string::npos) names.insert(line.substr(at + 8, line.find('(', at) - at - 8));
  }
  return {names.begin(), names.end()};
}

struct Compiled {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics{&sources};
  ir::Module module;
  EmittedProgram program;
  std::string problem;

  Compiled(const std::string& name, std::string text, const std::vector<std::string>& entries, int level) {
    uint32_t source = sources.Add(name, std::move(text));
    if (!text::ParseModule(source, module, diagnostics) || !typing::InferTypes(module, diagnostics)) {
      problem = diagnostics.Render();
      return;
    }
    absl::StatusOr<ir::Module> passed =
        passes::RunPasses(module, entries, diagnostics, {.opt_level = level, .verify = true});
    if (!passed.ok()) {
      problem = std::string(passed.status().message());
      return;
    }
    EmitOptions options{.plan_memory = level > 0};
    options.target.has_updates = true;
    absl::StatusOr<EmittedProgram> emitted = EmitProgram(*passed, entries, sources, options);
    if (!emitted.ok()) {
      problem = std::string(emitted.status().message());
      return;
    }
    program = *std::move(emitted);
    for (size_t i = 0; i < program.executable.kernels.size(); ++i) program.executable.kernels[i].workspace = Dim(0);
    if (auto verified = Verify(program.executable); !verified.ok()) {
      problem = absl::StrCat(std::string(verified.status().message()), "\n", text::PrintModule(*passed), "\n",
                             Disassemble(program.executable, {}));
    }
  }
};

TEST(EmitProgram, TypesThatHoldThemselvesAtEverLargerOnesEnd) {
  Compiled compiled(
      "t", "type P[A] { S(P[(A, A)]), L(A), } def @main(%n: int32) { match (S(L((%n, %n)))) { S(_) => 1, L(_) => 0 } }",
      {"main"}, 0);
  EXPECT_EQ(compiled.problem, "");
}

TEST(EmitProgram, VerifiesEveryProgramAtEveryLevel) {
  int programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/programs")) {
    std::string text = ReadFile(entry.path());
    ++programs;
    for (int level = 0; level <= 3; ++level) {
      Compiled compiled(entry.path().string(), text, EntriesOf(text), level);
      EXPECT_EQ(compiled.problem, "") << entry.path() << " at -O" << level;
    }
  }
  EXPECT_GT(programs, 20);
}

TEST(EmitProgram, ALoopAllocatesAndCallsNothing) {
  Compiled compiled(
      "loop.relay",
      "def @loop(%i: int32, %sum: int32) -> int32 { if (%i == 0) { %sum } else { @loop(%i - 1, %sum + %i) } }\n"
      "def @main(%n: int32) -> int32 { @loop(%n, 0) }",
      {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  for (const FunctionDesc& function : compiled.program.executable.functions) {
    if (function.name != "loop") continue;
    std::string code = Disassemble(compiled.program.executable, {});
    for (uint32_t pc = 0; pc < function.code.size();) {
      std::optional<Instruction> instruction = ReadInstruction(function.code, pc);
      ASSERT_TRUE(instruction.has_value());
      EXPECT_NE(instruction->opcode(), Opcode::kCall) << code;
      EXPECT_NE(instruction->opcode(), Opcode::kTailCall) << code;
      EXPECT_NE(instruction->opcode(), Opcode::kMakeCell) << code;
      pc += instruction->length;
    }
  }
}

TEST(EmitProgram, ARowOfALoopsTensorIsWrittenInPlace) {
  Compiled compiled(
      "rows.relay",
      "def @loop(%i: int32, %n: int32, %h: Tensor[(1, 8), float32], %c: Tensor[(t, 8), float32])\n"
      "    -> Tensor[(t, 8), float32] {\n"
      "  if (%i == %n) { %c } else {\n"
      "    let %next = tanh(%h);\n"
      "    let %strides = Constant([1, 1], (2), int32);\n"
      "    @loop(%i + 1, %n, %next, strided_set(%c, %next, stack((%i, 0)), stack((%i + 1, 8)), %strides))\n"
      "  }\n"
      "}\n"
      "def @main(%n: int32, %h: Tensor[(1, 8), float32], %c: Tensor[(t, 8), float32])\n"
      "    -> Tensor[(t, 8), float32] { @loop(0, %n, %h, %c) }",
      {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  ASSERT_EQ(compiled.program.kernels.size(), 1u) << code;
  EXPECT_EQ(schedule::Describe(compiled.program.kernels[0]), "loops 8: map; update s0x8: strided_set");
  EXPECT_NE(code.find("  update 1 3\n"), std::string::npos) << code;
  EXPECT_NE(code.find(", r3!, K0]"), std::string::npos) << code;
}

TEST(EmitProgram, ACellTakesTheMemoryOfOneThatDies) {
  Compiled compiled("map.relay",
                    "type List[A] { Cons(A, List[A]), Nil, }\n"
                    "def @main(%l: List[int32]) -> List[int32] {\n"
                    "  match (%l) { Nil => Nil, Cons(%x, %rest) => Cons(%x * 2, @main(%rest)) }\n"
                    "}",
                    {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  EXPECT_NE(code.find("unpack_shell"), std::string::npos) << code;
  EXPECT_NE(code.find("make_cell_in"), std::string::npos) << code;
  EXPECT_EQ(code.find("make_cell "), std::string::npos) << code;
}

TEST(EmitProgram, ATupleOfWhichOnlyFieldsAreWantedIsTakenApart) {
  Compiled compiled("swap.relay",
                    "type List[A] { Cons(A, List[A]), Nil, }\n"
                    "def @main(%s: (List[int32], List[int32])) -> (List[int32], List[int32]) { (%s.1, %s.0) }",
                    {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  EXPECT_EQ(code.find("get_field"), std::string::npos) << code;
  EXPECT_EQ(code.find("retain"), std::string::npos) << code;
  EXPECT_NE(code.find("make_cell_in"), std::string::npos) << code;
}

// Fields that are wanted behind patterns, too: a field that the tuple still had could not be appended to in place.
TEST(EmitProgram, ATupleIsTakenApartForFieldsBehindPatterns) {
  Compiled compiled(
      "state.relay",
      "def @append(%a: Tensor[(n), float32], %x: Tensor[(1), float32], %k: int32)\n"
      "    -> (Tensor[(n + 1), float32], Tensor[(1), float32]) {\n"
      "  if (%k == 0) { (concatenate((%a, %x), axis=0), tanh(%x)) } else { @append(%a, sin(%x), %k - 1) }\n"
      "}\n"
      "def @main(%s: (Tensor[(?), float32], Tensor[(?), float32]), %x: Tensor[(1), float32], %k: int32) {\n"
      "  let %past = extent(%s.0, axis=0);\n"
      "  let (%a, %y) = @append(%s.0, %x, %k);\n"
      "  let (%b, %z) = @append(%s.1, %y, %k);\n"
      "  (%a, %b, %z, %past)\n"
      "}",
      {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  EXPECT_EQ(code.find("get_field"), std::string::npos) << code;
}

// The same with extents that are checked, for which the tuple has a second name.
TEST(EmitProgram, ATupleOfCheckedExtentsIsTakenApart) {
  Compiled compiled("checked.relay",
                    "def @main(%s: (Tensor[(n), float32], Tensor[(n), float32]), %x: Tensor[(1), float32]) {\n"
                    "  let %past = extent(%s.0, axis=0);\n"
                    "  (concatenate((%s.0, %x + cast(%past, dtype=\"float32\")), axis=0),\n"
                    "   concatenate((%s.1, %x), axis=0))\n"
                    "}",
                    {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  EXPECT_EQ(code.find("get_field"), std::string::npos) << code;
  EXPECT_EQ(code.find("retain"), std::string::npos) << code;
}

TEST(EmitProgram, TheStateOfALoopIsInRegisters) {
  Compiled compiled("swap.relay",
                    "def @main(%n: int32, %s: (int32, int32)) -> (int32, int32) {\n"
                    "  if (%n == 0) { %s } else { @main(%n - 1, (%s.1, %s.0)) }\n"
                    "}",
                    {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  std::string loop = code.substr(code.find("function F1 \"main\""));
  EXPECT_EQ(loop.find("unpack"), std::string::npos) << code;
  EXPECT_EQ(loop.find("make_cell"), loop.rfind("make_cell")) << code;
  EXPECT_LT(loop.find("make_cell"), loop.find("return")) << code;
  EXPECT_LT(loop.find("return"), loop.find("jump")) << code;
}

TEST(EmitProgram, ResultsThatAreTakenApartAreNoCells) {
  Compiled compiled("sums.relay",
                    "type List[A] { Cons(A, List[A]), Nil, }\n"
                    "def @sums(%list: List[(int32, int32)]) -> (int32, int32) {\n"
                    "  match (%list) {\n"
                    "    Nil => (0, 0),\n"
                    "    Cons((%a, %b), %rest) => { let %s = @sums(%rest); (%s.0 + %a, %s.1 + %b) },\n"
                    "  }\n"
                    "}\n"
                    "def @main(%list: List[(int32, int32)]) -> int32 { let %s = @sums(%list); %s.0 * %s.1 }",
                    {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  EXPECT_EQ(code.find("make_cell"), std::string::npos) << code;
  // No cell waits for the memory of those that were taken apart.
  EXPECT_EQ(code.find("shell"), std::string::npos) << code;
  EXPECT_NE(code.find("call_fields"), std::string::npos) << code;
  EXPECT_NE(code.find("return_fields"), std::string::npos) << code;
}

TEST(EmitProgram, ATailCallOfAFunctionThatReturnsFieldsIsOne) {
  Compiled compiled("loop.relay",
                    "def @even(%n: int32) -> (int32, int32) { if (%n == 0) { (1, 0) } else { @odd(%n - 1) } }\n"
                    "def @odd(%n: int32) -> (int32, int32) { if (%n == 0) { (0, 1) } else { @even(%n - 1) } }\n"
                    "def @main(%n: int32) -> (int32, (int32, int32)) { let %p = @even(%n); (%p.0, %p) }",
                    {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  EXPECT_NE(code.find("tail_call"), code.rfind("tail_call")) << code;
  EXPECT_EQ(code.find("call_fields"), code.rfind("call_fields")) << code;
}

TEST(EmitProgram, AMatchOnATupleWrittenThereMakesNone) {
  Compiled compiled("merge.relay",
                    "type List[A] { Cons(A, List[A]), Nil, }\n"
                    "def @common(%p: (List[int32], List[int32]), %n: int32) -> int32 {\n"
                    "  match (%p) {\n"
                    "    (Cons(%x, %xs), Cons(%y, %ys)) => if (%x == %y) { @common((%xs, %ys), %n + 1) } else { %n },\n"
                    "    (_, _) => %n,\n"
                    "  }\n"
                    "}\n"
                    "def @main(%a: List[int32], %b: List[int32]) -> int32 { @common((%a, %b), 0) }",
                    {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  EXPECT_EQ(code.find("make_cell"), std::string::npos) << code;
  EXPECT_EQ(code.find("retain"), std::string::npos) << code;
}

TEST(EmitProgram, NoJumpGoesToWhatFollowsIt) {
  Compiled compiled("energy.relay",
                    "type Body { Body(float64, float64), }\n"
                    "def @main(%a: Body, %b: Body) -> float64 {\n"
                    "  let %x = match (%a) { Body(%m, %v) => %m * %v };\n"
                    "  let %y = match (%b) { Body(%m, %v) => %m * %v };\n"
                    "  %x + %y\n"
                    "}",
                    {"main"}, 2);
  ASSERT_EQ(compiled.problem, "");
  std::string code = Disassemble(compiled.program.executable, {});
  EXPECT_EQ(code.find("jump"), std::string::npos) << code;
}

TEST(EmitProgram, DeepProgramsTakeNoHostStack) {
  std::string lets = "def @main(%x0: int32) -> int32 {\n";
  for (int i = 0; i < 20'000; ++i) absl::StrAppend(&lets, "let %x", i + 1, " = %x", i, " + 1;\n");
  EXPECT_EQ(Compiled("lets.relay", lets + "%x20000 }", {"main"}, 2).problem, "");
  std::string arms = "def @main(%x: int32) -> int32 {\n";
  for (int i = 0; i < 20'000; ++i) absl::StrAppend(&arms, "if (%x == ", i, ") { ", i * 2, " } else ");
  EXPECT_EQ(Compiled("arms.relay", arms + "{ 0 } }", {"main"}, 2).problem, "");
}

}  // namespace
}  // namespace rvm::bytecode
