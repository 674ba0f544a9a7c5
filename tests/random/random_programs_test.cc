#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/long_tests.h"
#include "tests/random/check_program.h"
#include "tests/random/generator.h"
#include "tests/random/shrink.h"

namespace rvm::random_programs {
namespace {

TEST(RandomPrograms, VmAndReferenceAgree) {
  std::vector<Program> programs;
  for (uint64_t seed = 1; seed <= LongOr<uint64_t>(500, 150); ++seed) programs.push_back(Generate(seed));
  std::vector<Verdict> verdicts = CheckInChild(programs);
  int skipped = 0;
  for (size_t i = 0; i < programs.size(); ++i) {
    skipped += verdicts[i].skipped ? 1 : 0;
    EXPECT_EQ(verdicts[i].failure, "") << "seed " << i + 1 << ": " << verdicts[i].detail << "\n" << programs[i].text;
  }
  EXPECT_LT(static_cast<size_t>(skipped), programs.size() / 20);
}

TEST(RandomPrograms, EachPassAloneChangesNoResult) {
  std::vector<Program> programs;
  for (uint64_t seed = 1001; seed <= LongOr<uint64_t>(1100, 1050); ++seed) programs.push_back(Generate(seed));
  std::vector<Verdict> verdicts = CheckInChild(programs, CheckEachPass);
  for (size_t i = 0; i < programs.size(); ++i) {
    EXPECT_EQ(verdicts[i].failure, "") << "seed " << i + 1001 << ": " << verdicts[i].detail << "\n" << programs[i].text;
  }
}

TEST(RandomPrograms, GradientsAreThoseOfDifferences) {
  std::vector<Program> programs;
  for (uint64_t seed = 1; seed <= LongOr<uint64_t>(100, 30); ++seed) programs.push_back(GenerateDifferentiable(seed));
  std::vector<Verdict> verdicts = CheckInChild(programs, CheckGradient);
  int telling = 0;
  for (size_t i = 0; i < programs.size(); ++i) {
    telling += !verdicts[i].skipped && verdicts[i].detail != "flat" ? 1 : 0;
    EXPECT_EQ(verdicts[i].failure, "") << "seed " << i + 1 << ": " << verdicts[i].detail << "\n" << programs[i].text;
  }
  EXPECT_GT(static_cast<size_t>(telling), programs.size() * 3 / 5);
}

TEST(RandomPrograms, SameSeedSameProgram) {
  EXPECT_EQ(Generate(7).text, Generate(7).text);
  EXPECT_NE(Generate(7).text, Generate(8).text);
}

TEST(Check, SeesWhatIsWrong) {
  EXPECT_EQ(CheckInChild({"def @main() -> int32 { True }\n", {{"main", {}}}}).failure, "rejected, ResultTypeMismatch");
  EXPECT_EQ(CheckInChild({"def @main(%x: int32) -> int32 { @main(%x) }\n",
                          {{"main", {Value::Tensor(Literal::ScalarInt(kInt32, 1))}}}})
                .skipped,
            true);
  Value two = Value::Tensor(Literal::Scalar(kFloat64, 2));
  const std::string square = "def @value(%x: float64) -> float64 { stop_gradient(%x) * %x }\n";
  const std::string gradient = "def @gradient(%x: float64) { grad(fn (%y: float64) { @value(%y) })(%x) }\n";
  const std::string tangent =
      "def @tangent(%x: float64, %d: float64) { jvp(fn (%y: float64) { @value(%y) })(%x, %d) }\n";
  const std::string twice =
      "def @tangent(%x: float64, %d: float64) { jvp(fn (%y: float64) { @value(%y) })(%x, 2f64 * %d) }\n";
  const std::vector<EntryCall> calls = {{"gradient", {two}}, {"value", {two}}};
  EXPECT_EQ(CheckInChild({square + gradient + tangent, calls, 0, 1}, CheckGradient).failure, "gradient");
  EXPECT_EQ(CheckInChild({square + gradient + twice, calls, 0, 1}, CheckGradient).failure, "tangent value");
}

TEST(Shrink, KeepsOnlyWhatFails) {
  Program program{
      "type T { C(int32), D, }\n"
      "def @unused(%x: int32) -> int32 { %x * 2 }\n"
      "def @main(%x: int32) -> int32 { let %y = %x + 1; match (C(%y)) { C(%z) => if (%z < 3) { tanh(1f); 7 * %z } else "
      "{ 2 }, D => 4 } }\n",
      {{"main", {}}, {"main", {}}}};
  Program small =
      Shrink(program, [](const Program& p) { return IsAccepted(p) && p.text.find("tanh") != std::string::npos; });
  EXPECT_EQ(small.calls.size(), 1u);
  EXPECT_EQ(small.text.find("unused"), std::string::npos) << small.text;
  EXPECT_EQ(small.text.find("match"), std::string::npos) << small.text;
}

}  // namespace
}  // namespace rvm::random_programs
