// relayvm: the compiler's command line.
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/edit_distance.h"
#include "base/version.h"
#include "tools/last_resort.h"
#include "tools/relayvm/load_program.h"
#include "tools/relayvm/verb.h"
#include "tools/run_command.h"

namespace rvm::tools {
namespace {

constexpr const Verb* kVerbs[] = {&kCheckVerb,    &kFmtVerb,     &kExplainVerb, &kCompileVerb, &kImportVerb,
                                  &kQuantizeVerb, &kNativeVerb,  &kRunVerb,     &kEvalVerb,    &kGradVerb,
                                  &kInspectVerb,  &kProfileVerb, &kReportVerb,  &kBenchVerb,   &kDevicesVerb,
                                  &kVerifyVerb,   &kSignVerb,    &kKeyGenVerb,  &kLspVerb};

const Verb* FindVerb(std::string_view name) {
  for (const Verb* verb : kVerbs) {
    if (verb->name == name) return verb;
  }
  return nullptr;
}

void PrintHelp() {
  std::cout << "relayvm: compiles Relay, a typed functional language of tensors, and runs it\n\n";
  for (const Verb* verb : kVerbs) {
    std::cout << "  relayvm " << verb->name << std::string(9 - verb->name.size(), ' ') << verb->summary << '\n';
  }
  std::cout << "  relayvm version  print the version\n"
               "  relayvm help     how to use a verb: `relayvm help compile`\n"
               "  python -m relayvm compare  find the first node of a model that differs elsewhere\n\n"
               "A first program:\n"
               "  echo 'def @main(%x: int32) -> int32 { %x * %x }' > square.relay\n"
               "  relayvm run square.relay 12\n\n"
               "Exit status: 0, or 1 with a message on standard error.\n";
}

void PrintVerbHelp(const Verb& verb) {
  std::cout << "relayvm " << verb.name << ": " << verb.summary << "\n\n  relayvm " << verb.name << " " << verb.usage
            << "\n\n"
            << OptionsHelp(verb.runs_program ? WithProgramOptions(verb.options) : JoinOptions(verb.options, {}))
            << (verb.runs_program ? ValuesHelp() : "") << verb.more;
}

absl::Status UnknownVerb(const std::string& name) {
  if (name == "compare") {
    return absl::InvalidArgumentError(
        "`compare` is a verb of the Python package, which runs the other implementation, too; expected "
        "`python -m relayvm compare MODEL`");
  }
  std::vector<std::string_view> names = {"help", "version"};
  for (const Verb* verb : kVerbs) names.push_back(verb->name);
  std::string near = DidYouMean(name, names);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown verb `", name, "`", near.empty() ? "; `relayvm help` lists them" : near));
}

bool AsksForHelp(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--") return false;
    if (arg == "--help" || arg == "-h") return true;
  }
  return false;
}

absl::Status Dispatch(std::vector<std::string> args) {
  std::string name = args.empty() ? "help" : args.front();
  if (!args.empty()) args.erase(args.begin());
  if (name == "version" || name == "--version") {
    std::cout << "relayvm " << kVersion << '\n';
    return absl::OkStatus();
  }
  if (name == "help" || name == "--help" || name == "-h") {
    if (args.empty()) {
      PrintHelp();
      return absl::OkStatus();
    }
    name = args.front();
    args = {"--help"};
  }
  const Verb* verb = FindVerb(name);
  if (verb == nullptr) return UnknownVerb(name);
  if (AsksForHelp(args)) {
    PrintVerbHelp(*verb);
    return absl::OkStatus();
  }
  return verb->run(args);
}

}  // namespace
}  // namespace rvm::tools

int main(int argc, char** argv) {
  rvm::tools::InstallLastResort("relayvm");
  absl::Status status = rvm::tools::Dispatch(std::vector<std::string>(argv + 1, argv + argc));
  std::cout.flush();
  if (status.ok() && !std::cout) status = absl::UnavailableError("cannot write to standard output");
  if (status.ok()) return 0;
  if (!rvm::tools::IsAlreadyShown(status)) std::cerr << "relayvm: error: " << std::string(status.message()) << '\n';
  return 1;
}
