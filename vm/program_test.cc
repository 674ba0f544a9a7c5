// Tests of which code of a native executable is loaded, and whether any is.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialization/assembler.h"
#include "vm/machine.h"

namespace rvm::vm {
namespace {

// The status of linking a program of one kernel with these targets, in assembly.
absl::Status LinkTargets(const std::string& targets, const LoadOptions& options = {.allow_native = true}) {
  absl::StatusOr<Executable> executable = Assemble("kernel N0 \"k\" \"k\" () { workspace 0 }\n" + targets);
  EXPECT_TRUE(executable.ok()) << executable.status();
  auto verified = Verify(*std::move(executable));
  EXPECT_TRUE(verified.ok()) << verified.status();
  return Program::Link(*verified, options).status();
}

#if defined(__x86_64__)

// Objects that tell by the error which of them was loaded.
constexpr char kBaseline[] = "target \"x86-64\" \"x86_64-unknown-linux-gnu\" \"\" 1 x\"00\"\n";
constexpr char kSse2[] =
    "target \"with-sse2\" \"x86_64-unknown-linux-gnu\" \"+sse2\" 1 "
    "x\"7f454c4600000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000\"\n";
constexpr char kFuture[] = "target \"future\" \"x86_64-unknown-linux-gnu\" \"+sse2,+nonesuch\" 1 x\"00\"\n";
constexpr char kOtherAbi[] = "target \"next\" \"x86_64-unknown-linux-gnu\" \"+sse2,+sse3\" 77 x\"00\"\n";
constexpr char kOtherMachine[] = "target \"a76\" \"aarch64-unknown-linux-gnu\" \"+neon\" 1 x\"00\"\n";

TEST(ProgramTest, LoadsTheSupportedTargetWithMostFeatures) {
  EXPECT_EQ(LinkTargets(kBaseline).message(), "malformed kernel object: not an ELF file");
  for (std::string order : {std::string(kBaseline) + kFuture + kSse2, std::string(kSse2) + kOtherAbi + kBaseline}) {
    EXPECT_EQ(LinkTargets(order).message(), "malformed kernel object: not a relocatable x86-64 object");
  }
}

TEST(ProgramTest, NamesAllTargetsIfNoneFits) {
  EXPECT_EQ(LinkTargets(std::string(kFuture) + kOtherAbi + kOtherMachine).message(),
            "this machine (x86-64) supports none of the executable's 3 targets:\n"
            "  target future (x86_64-unknown-linux-gnu): native code needs features that this CPU lacks: nonesuch\n"
            "  target next (x86_64-unknown-linux-gnu): saw kernel ABI 77; expected 1\n"
            "  target a76 (aarch64-unknown-linux-gnu): native code is for `aarch64`, which this machine cannot run\n"
            "compile it with `--target x86-64` for every x86-64 CPU, with `--target host` on this machine, or with "
            "`--target portable` for any machine");
}

#endif

TEST(ProgramTest, NativeCodeOnlyIfAllowed) {
  EXPECT_EQ(LinkTargets("", {}).message(),
            "the executable has machine code, which runs with all rights of this process: set `allow_native` if you "
            "trust its origin, give the key that signed it, or compile it with `--target portable`");
}

}  // namespace
}  // namespace rvm::vm
