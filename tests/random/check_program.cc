#include "tests/random/check_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/element.h"
#include "compiler/driver/compile.h"
#include "compiler/passes/pipeline.h"
#include "compiler/reference/evaluator.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"
#include "vm/batch.h"
#include "vm/forecast/memory_forecast.h"
#include "vm/link/link_info.h"
#include "vm/machine.h"

namespace rvm::random_programs {
namespace {

constexpr int64_t kMaxSteps = 100'000;
constexpr int64_t kFuel = 20'000'000;
constexpr unsigned kSeconds = 60;
constexpr char kShapeError[] = "a shape";

struct Source {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics{&sources};
  uint32_t id;
  explicit Source(const std::string& text) : id(sources.Add("random.relay", text)) {}
};

// Errors have one message per evaluator; what kind of mistake they report must agree.
std::string ErrorKind(const absl::Status& status) {
  std::string_view message(status.message().data(), status.message().size());
  if (message.find("no clause") != std::string_view::npos) return "no clause fits";
  if (message.find("cycle of references") != std::string_view::npos) return "a cycle";
  if (status.code() == absl::StatusCode::kResourceExhausted) return "a limit";
  return status.code() == absl::StatusCode::kInvalidArgument ? kShapeError : status.ToString();
}

Verdict Rejected(const diagnostics::Diagnostics& diagnostics) {
  std::string_view kind = diagnostics::DiagnosticName(diagnostics.all()[0].kind);
  return {absl::StrCat("rejected, ", absl::string_view(kind.data(), kind.size())), diagnostics.Render()};
}

Verdict CheckRoundTrip(const std::string& text) {
  Source first(text);
  ir::Module module;
  if (!text::ParseModule(first.id, module, first.diagnostics)) return Rejected(first.diagnostics);
  std::string printed = text::PrintModule(module);
  Source second(printed);
  ir::Module again;
  if (!text::ParseModule(second.id, again, second.diagnostics)) return {"round trip", second.diagnostics.Render()};
  if (!ir::StructurallyEqual(module, again)) return {"round trip", printed};
  if (text::PrintModule(again) != printed) return {"round trip", absl::StrCat("printed differently again:\n", printed)};
  return {};
}

Verdict Compare(const std::string& level, const EntryCall& call, const absl::StatusOr<Value>& expected,
                const absl::StatusOr<Value>& seen, double tolerance) {
  std::string where = absl::StrCat("in ", CallText(call), ": ");
  if (expected.ok() != seen.ok()) {
    std::string detail =
        absl::StrCat(where, "reference: ", expected.ok() ? expected->ToString() : expected.status().ToString(),
                     "\nVM: ", seen.ok() ? seen->ToString() : seen.status().ToString());
    return {absl::StrCat(level, expected.ok() ? " fails" : " misses an error"), detail};
  }
  if (!expected.ok()) {
    std::string a = ErrorKind(expected.status()), b = ErrorKind(seen.status());
    if (a == b) return {};
    return {absl::StrCat(level, " error"),
            absl::StrCat(where, "reference: ", expected.status().ToString(), "\nVM: ", seen.status().ToString())};
  }
  std::string difference = DiffValues(*seen, *expected, tolerance, tolerance);
  if (difference.empty()) return {};
  return {absl::StrCat(level, " value"),
          absl::StrCat(where, difference, "\nreference: ", expected->ToString(), "\nVM: ", seen->ToString())};
}

// Returns true if optimisation moved the error of operands whose extents do not fit: a pass that drops dead code may
// lose it, so that a later one is seen, and fusion, which computes an operator together with its users, may let another
// error come first. Then the program before that pass gives the error, and after it what the VM gave.
bool IsMovedError(const Program& program, const EntryCall& call, const absl::StatusOr<Value>& expected,
                  const absl::StatusOr<Value>& seen, const driver::CompileOptions& options) {
  bool is_plain = options.opt_level == 0 && options.extra_passes.empty();
  if (is_plain || ErrorKind(expected.status()) != kShapeError) return false;
  Source source(program.text);
  absl::StatusOr<ir::Module> module = driver::ParseAndType(source.id, source.diagnostics);
  if (!module.ok()) return false;
  bool failed = true, fails = true, agrees = false;
  auto observe = [&](const passes::Pass& pass, const ir::Module& after) {
    absl::StatusOr<Value> result = reference::Evaluate(after, call.entry, call.args, {.max_steps = kMaxSteps});
    fails = ErrorKind(result.status()) == kShapeError;
    bool moves = pass.name == "eliminate_dead_code" || (pass.name == "fuse_ops" && !seen.ok());
    if (failed && !fails && moves && result.ok() == seen.ok()) {
      agrees = seen.ok() ? DiffValues(*seen, *result, program.tolerance, program.tolerance).empty()
                         : ErrorKind(result.status()) == ErrorKind(seen.status());
    }
    failed = fails;
  };
  (void)passes::RunPasses(*module, options.entries, source.diagnostics,
                          {.opt_level = options.opt_level, .extra_passes = options.extra_passes, .observer = observe});
  return agrees;
}

using Results = std::vector<absl::StatusOr<Value>>;

// Describes the memory that a device took for the first call of a machine beyond the forecast; "" if none.
std::string UnforeseenMemory(const vm::Program& linked, const EntryCall& call, const vm::MachineStats& stats) {
  auto extent = [&](size_t param, size_t axis) -> std::optional<int64_t> {
    if (call.args[param].kind() != ValueKind::kTensor) return std::nullopt;
    return call.args[param].tensor().shape()[axis];
  };
  absl::StatusOr<vm::MemoryForecast> forecast = vm::ForecastMemory(
      linked.verified(), *linked.executable().FindEntry(call.entry), extent, linked.link_info().device);
  if (!forecast.ok() || !forecast->unbounded.empty()) return "";
  for (size_t i = 0; i < stats.devices.size(); ++i) {
    int64_t foreseen = forecast->devices[i].reserved_bytes;
    if (stats.devices[i].peak_bytes <= foreseen) continue;
    return absl::StrCat(stats.devices[i].device, " took ", stats.devices[i].peak_bytes, " bytes; foreseen were ",
                        foreseen, "; in ", CallText(call));
  }
  return "";
}

std::vector<std::string> EntriesOf(const Program& program) {
  std::vector<std::string> entries;
  for (const EntryCall& call : program.calls) {
    if (entries.empty() || entries.back() != call.entry) entries.push_back(call.entry);
  }
  return entries;
}

// Returns whether a program whose kernel calls wait, alone and in lanes beside itself, gives what it gives otherwise:
// values, errors, the same fuel.
Verdict CompareWaiting(const std::string& name, const Program& program, const VerifiedExecutable& plain) {
  Executable executable = *plain;
  if (executable.kernels.empty()) return {};
  // A kernel with a variant, which nothing calls, turns the queue on.
  auto kernel = KernelId(static_cast<uint32_t>(executable.kernels.size()));
  for (Dims dims : {Dims{}, Dims{Dim::Var(0, "calls")}}) {
    KernelDesc desc = {.name = "none", .symbol = executable.kernels[0].symbol};
    desc.num_symbols = static_cast<uint32_t>(dims.size());
    desc.params.push_back({kFloat32, std::move(dims)});
    executable.kernels.push_back(std::move(desc));
    if (!executable.is_native()) executable.recipes.emplace_back();
  }
  executable.control_codes.clear();
  executable.batch_variants.push_back({kernel, KernelId(kernel.value + 1), {}});
  auto verified = Verify(std::move(executable));
  if (!verified.ok()) return {absl::StrCat(name, " waiting verify"), verified.status().ToString()};
  auto linked = vm::Program::Link(*verified, {.allow_native = true});
  if (!linked.ok()) return {absl::StrCat(name, " waiting link"), linked.status().ToString()};
  auto at_once = *vm::Machine::Create(*linked, {});
  auto waiting = *vm::Machine::Create(*linked, {.defers_calls = true});
  auto batch = *vm::Batch::Create(*linked, {.lanes = 3, .machine = {.defers_calls = true}});
  auto text = [](const absl::StatusOr<Value>& result) {
    if (result.ok()) return result->ToString();
    std::string message(result.status().message());
    return message.substr(0, message.find('\n'));  // the rest is the backtrace
  };
  Verdict verdict;
  for (const EntryCall& call : program.calls) {
    for (int64_t fuel : {int64_t{3}, int64_t{40}, kFuel}) {
      std::string expected = text(at_once->Invoke(call.entry, call.args, {.fuel = fuel}));
      auto compare = [&verdict, &name, &call, fuel, expected, text](const absl::StatusOr<Value>& seen) {
        if (text(seen) == expected || !verdict.failure.empty()) return;
        verdict = {absl::StrCat(name, " waiting"), absl::StrCat(CallText(call), " with fuel ", fuel,
                                                                "\nat once: ", expected, "\nwaiting: ", text(seen))};
      };
      compare(waiting->Invoke(call.entry, call.args, {.fuel = fuel}));
      batch->Submit(call.entry, call.args, {.fuel = fuel}, compare);
      if (waiting->stats().leaked_objects != 0) return {absl::StrCat(name, " waiting leak"), CallText(call)};
    }
  }
  batch->Drive();
  return verdict;
}

// Returns whether the VM gives what is expected of the program, compiled with `options`. `name` is that of the
// configuration. With devices, a program that launches nothing on them is skipped.
Verdict CheckCompiled(const Program& program, const std::string& name, driver::CompileOptions options,
                      const Results& expected) {
  Source source(program.text);
  options.entries = EntriesOf(program);
  options.verify_passes = true;
  options.native_control = options.devices.empty() && !options.batch;
  absl::StatusOr<driver::CompiledProgram> compiled = driver::Compile(source.id, source.diagnostics, options);
  if (!compiled.ok()) {
    return {absl::StrCat(name, " compile ", absl::StatusCodeToString(compiled.status().code())),
            absl::StrCat(compiled.status().ToString(), "\n", source.diagnostics.Render())};
  }
  absl::StatusOr<std::shared_ptr<const vm::Program>> linked =
      vm::Program::Link(compiled->executable, {.allow_native = true});
  if (!linked.ok()) return {absl::StrCat(name, " link"), linked.status().ToString()};
  vm::MachineOptions limits;
  limits.fuel = kFuel;
  limits.defers_calls = options.batch;
  absl::StatusOr<std::unique_ptr<vm::Machine>> machine = vm::Machine::Create(*linked, limits);
  if (!machine.ok()) return {absl::StrCat(name, " machine"), machine.status().ToString()};
  bool launched = false;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const EntryCall& call = program.calls[i];
    absl::StatusOr<Value> seen = (*machine)->Invoke(call.entry, call.args);
    for (const device::DeviceUse& use : (*machine)->stats().devices) launched |= use.launches > 0;
    Verdict verdict = Compare(name, call, expected[i], seen, program.tolerance);
    if (!verdict.failure.empty()) {
      if (expected[i].ok() || !IsMovedError(program, call, expected[i], seen, options)) return verdict;
      continue;
    }
    if (std::string more = i == 0 ? UnforeseenMemory(**linked, call, (*machine)->stats()) : ""; !more.empty()) {
      return {absl::StrCat(name, " memory"), more};
    }
    if ((*machine)->stats().leaked_objects != 0) {
      return {absl::StrCat(name, " leak"),
              absl::StrCat((*machine)->stats().leaked_objects, " objects after ", CallText(call))};
    }
  }
  if (options.devices.empty()) {
    // Without optimisation tensors are in no arena.
    Verdict verdict = options.opt_level == 0 ? CompareWaiting(name, program, *compiled->executable) : Verdict{};
    return verdict.failure.empty() ? CompareControl(name, program.calls, *linked) : verdict;
  }
  return {.skipped = !launched};
}

// Returns the results of the reference evaluator, or nothing if a call takes too many steps to compare.
std::optional<Results> Evaluate(const Program& program, const ir::Module& module) {
  Results results;
  for (const EntryCall& call : program.calls) {
    results.push_back(reference::Evaluate(module, call.entry, call.args, {.max_steps = kMaxSteps}));
    if (results.back().status().code() == absl::StatusCode::kResourceExhausted) return std::nullopt;
  }
  return results;
}

// The types and the expected results of `program`, or why there are none.
Verdict Prepare(const Program& program, ir::Module& typed, Results& expected) {
  Source source(program.text);
  absl::StatusOr<ir::Module> module = driver::ParseAndType(source.id, source.diagnostics);
  if (!module.ok()) return Rejected(source.diagnostics);
  typed = *module;
  module = driver::PrepareEvaluation(typed, EntriesOf(program), source.diagnostics);
  if (!module.ok()) return Rejected(source.diagnostics);
  std::optional<Results> results = Evaluate(program, *module);
  if (!results) return {.skipped = true};
  expected = *std::move(results);
  return {};
}

// Returns whether the module after each pass named in `watched` (empty: every pass) means what is expected. Extents
// that do not fit are an error that dead code elimination may drop.
Verdict CheckStages(const Program& program, const ir::Module& typed, const passes::PipelineOptions& options,
                    std::string_view watched, const Results& expected) {
  Verdict first;
  passes::PipelineOptions observed = options;
  observed.verify = true;
  observed.observer = [&](const passes::Pass& pass, const ir::Module& after) {
    if (!first.failure.empty() || (!watched.empty() && pass.name != watched)) return;
    std::optional<Results> results = Evaluate(program, after);
    for (size_t i = 0; results && i < results->size() && first.failure.empty(); ++i) {
      bool may_move = pass.name == "eliminate_dead_code" && ErrorKind(expected[i].status()) == kShapeError;
      if (may_move) continue;
      first = Compare(absl::StrCat("Pass ", std::string(pass.name)), program.calls[i], expected[i], (*results)[i],
                      program.tolerance);
    }
  };
  Source source(program.text);
  absl::Status status = passes::RunPasses(typed, EntriesOf(program), source.diagnostics, observed).status();
  if (!status.ok()) return {"Pass fails", status.ToString()};
  return first;
}

// The same numbers for the same order of leaves.
Dice Directions() { return Dice(1); }
double Direction(Dice& dice) { return (dice.Pick(2001) - 1000) / 1000.0; }

// `value` with each floating-point number x replaced by `scale` times x and `step` times its direction.
Value Moved(const Value& value, double scale, double step, Dice& dice) {
  if (value.kind() == ValueKind::kTensor) {
    const Literal& tensor = value.tensor();
    if (!tensor.dtype().is_float()) return value;
    std::shared_ptr<Buffer> buffer = Buffer::Allocate(tensor.num_elements() * tensor.dtype().bytes());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      StoreDouble(tensor.dtype(), buffer->data() + i * tensor.dtype().bytes(),
                  scale * tensor.DoubleAt(i) + step * Direction(dice));
    }
    return Value::Tensor(Literal(tensor.dtype(), tensor.shape(), std::move(buffer)));
  }
  std::vector<Value> fields;
  for (const Value& field : value.fields()) fields.push_back(Moved(field, scale, step, dice));
  return value.kind() == ValueKind::kTuple ? Value::Tuple(std::move(fields))
                                           : Value::Adt(value.name(), std::move(fields));
}

// Returns the sum of the floating-point numbers of a gradient times their directions.
double Along(const Value& gradient, Dice& dice) {
  double sum = 0;
  if (gradient.kind() == ValueKind::kTensor) {
    bool is_float = gradient.tensor().dtype().is_float();
    for (int64_t i = 0; is_float && i < gradient.tensor().num_elements(); ++i) {
      sum += gradient.tensor().DoubleAt(i) * Direction(dice);
    }
    return sum;
  }
  for (const Value& field : gradient.fields()) sum += Along(field, dice);
  return sum;
}
double Along(const Value& gradient) {
  Dice dice = Directions();
  return Along(gradient, dice);
}

// Returns the slope of a call's value when its first `count` arguments move by `step` there and back, or nothing where
// the value is an error.
std::optional<double> Difference(const ir::Module& module, const EntryCall& call, size_t count, double step) {
  double values[2];
  for (int i = 0; i < 2; ++i) {
    Dice dice = Directions();
    std::vector<Value> args = call.args;
    for (size_t a = 0; a < count; ++a) args[a] = Moved(args[a], 1, i == 0 ? -step : step, dice);
    absl::StatusOr<Value> value = reference::Evaluate(module, call.entry, args, {.max_steps = kMaxSteps});
    if (!value.ok()) return std::nullopt;
    values[i] = value->tensor().DoubleAt(0);
  }
  return (values[1] - values[0]) / (2 * step);
}

// Returns the call of @tangent: the arguments of @gradient, each with its gradient as the direction.
EntryCall TangentCall(const Program& program) {
  EntryCall call = program.calls[0];
  call.entry = "tangent";
  Dice dice = Directions();
  size_t count = program.num_active;
  for (size_t i = 0; i < count && i < program.calls[0].args.size(); ++i) {
    call.args.push_back(Moved(program.calls[0].args[i], 0, 1, dice));
  }
  return call;
}

// The text of the program decides which of the rules place its operators: for half of the programs the first.
Verdict CheckPlaced(const Program& program, std::span<const std::string> choices) {
  ir::Module typed;
  Results expected;
  Verdict verdict = Prepare(program, typed, expected);
  if (verdict.skipped || !verdict.failure.empty()) return verdict;
  size_t choice = program.text.size() % (2 * choices.size());
  const std::string& rules = choices[choice < choices.size() ? choice : 0];
  return CheckCompiled(program, absl::StrCat("O2 on ", rules), {.opt_level = 2, .devices = {rules}}, expected);
}

// All operators are on the device, or a part of them.
Verdict CheckOnDevice(const Program& program, const std::string& kind) {
  std::vector<std::string> choices = {"$", "host:*a*,$", "host:*e*,$", "$:qnn.*,$:*s*", "host:nn.*,$"};
  for (std::string& rules : choices) rules = absl::StrReplaceAll(rules, {{"$", kind}});
  return CheckPlaced(program, choices);
}

// Packs what a child reports to its parent for each program: a size, then failure, detail, skipped, separated by zeros.
std::string Pack(const Verdict& verdict) {
  std::string zero(1, '\0');
  std::string text = absl::StrCat(verdict.failure, zero, verdict.detail, zero, verdict.skipped ? "1" : "0");
  uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

std::vector<Verdict> Unpack(std::string_view text) {
  std::vector<Verdict> verdicts;
  uint64_t size;
  while (text.size() >= sizeof size) {
    std::memcpy(&size, text.data(), sizeof size);
    if (text.size() - sizeof size < size) break;
    std::string one(text.substr(sizeof size, size));
    size_t first = one.find('\0'), last = one.rfind('\0');
    verdicts.push_back({one.substr(0, first), one.substr(first + 1, last - first - 1), one.back() == '1'});
    text.remove_prefix(sizeof size + size);
  }
  return verdicts;
}

void WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = write(file, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

std::string ReadAll(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(file, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  return text;
}

}  // namespace

std::string CallText(const EntryCall& call) {
  std::string text = absl::StrCat(call.entry, "(");
  for (const Value& arg : call.args) absl::StrAppend(&text, text.ends_with("(") ? "" : ", ", arg.ToString());
  return absl::StrCat(text, ")");
}

Verdict CheckProgram(const Program& program) {
  Verdict verdict = CheckRoundTrip(program.text);
  if (!verdict.failure.empty()) return verdict;
  ir::Module typed;
  Results expected;
  verdict = Prepare(program, typed, expected);
  if (verdict.skipped || !verdict.failure.empty()) return verdict;
  for (int level : {0, 3}) {
    verdict = CheckCompiled(program, absl::StrCat("O", level), {.opt_level = level}, expected);
    if (!verdict.failure.empty()) return verdict;
  }
  return CheckCompiled(program, "O2 in batches", {.opt_level = 2, .batch = true, .batch_all = true}, expected);
}

Verdict CheckGradient(const Program& given) {
  if (given.calls.size() != 2) return {.skipped = true};
  Program program = given;
  program.calls.push_back(TangentCall(given));
  ir::Module typed;
  Results expected;
  Verdict verdict = Prepare(program, typed, expected);
  if (verdict.skipped || !verdict.failure.empty()) return verdict;
  if (!expected[0].ok() && !expected[1].ok() && !expected[2].ok()) return {.skipped = true};
  verdict = Compare("gradient's value", program.calls[1], expected[1],
                    expected[0].ok() ? absl::StatusOr<Value>(expected[0]->fields()[0]) : expected[0].status(),
                    program.tolerance);
  if (!verdict.failure.empty()) return verdict;
  Source source(program.text);
  absl::StatusOr<ir::Module> module = driver::PrepareEvaluation(typed, EntriesOf(program), source.diagnostics);
  const Value& gradient = expected[0]->fields()[1];
  double along = Along(gradient);
  absl::StatusOr<Value> dual = Value::Tuple({expected[1].value(), Value::Tensor(Literal::Scalar(kFloat64, along))});
  verdict = Compare("tangent", program.calls[2], dual, expected[2], program.tolerance);
  if (!verdict.failure.empty()) return verdict;
  std::optional<double> wide = Difference(*module, program.calls[1], gradient.fields().size(), 1e-3);
  std::optional<double> narrow = Difference(*module, program.calls[1], gradient.fields().size(), 5e-4);
  if (!wide || !narrow) return {.skipped = true};
  double scale = 1 + std::abs(*narrow), doubt = std::abs(*wide - *narrow);
  if (!(doubt < 1e-3 * scale)) return {.skipped = true};
  // Richardson's extrapolation; what is left is less than the doubt.
  double difference = *narrow + (*narrow - *wide) / 3;
  if (!(std::abs(along - difference) <= 1e-7 * scale + doubt)) {
    return {"gradient", absl::StrCat("along a direction: ", along, "; by differences: ", difference, " in ",
                                     CallText(program.calls[0]), "\n", expected[0]->ToString())};
  }
  for (const auto& [name, options] : {std::pair<std::string, driver::CompileOptions>("O0", {.opt_level = 0}),
                                      {"O3", {.opt_level = 3}},
                                      {"Portable O3", {.opt_level = 3, .target = "portable"}}}) {
    verdict = CheckCompiled(program, name, options, expected);
    if (!verdict.failure.empty()) return verdict;
  }
  return {.detail = along == 0 ? "flat" : ""};
}

Verdict CheckEachPass(const Program& program) {
  ir::Module typed;
  Results expected;
  Verdict verdict = Prepare(program, typed, expected);
  if (verdict.skipped || !verdict.failure.empty()) return verdict;
  verdict = CheckStages(program, typed, {.opt_level = 0}, "", expected);
  std::set<std::string_view> done;
  for (const passes::Step& step : passes::Pipeline()) {
    if (!verdict.failure.empty()) return verdict;
    if (step.min_opt_level == 0 || step.max_rounds > 0 || !done.insert(step.pass.name).second) continue;
    std::vector<std::string> added = {std::string(step.pass.name)};
    verdict = CheckStages(program, typed, {.opt_level = 0, .extra_passes = added}, step.pass.name, expected);
    if (!verdict.failure.empty()) return verdict;
    verdict = CheckCompiled(program, absl::StrCat("O0 with ", added[0]),
                            {.opt_level = 0, .target = "portable", .extra_passes = added}, expected);
  }
  return verdict;
}

Verdict CheckOnCuda(const Program& program) { return CheckOnDevice(program, "cuda"); }
Verdict CheckOnOpenCl(const Program& program) { return CheckOnDevice(program, "opencl"); }
Verdict CheckOnSim(const Program& program) { return CheckOnDevice(program, "sim"); }
Verdict CheckOnSimAndOpenCl(const Program& program) {
  const std::string choices[] = {"sim,opencl", "opencl:*a*,sim,host:*e*,opencl", "sim:qnn.*,opencl",
                                 "sim:nn.*,opencl:*s*"};
  return CheckPlaced(program, choices);
}

bool IsAccepted(const Program& program) {
  Source source(program.text);
  return driver::ParseAndType(source.id, source.diagnostics).ok();
}

std::vector<Verdict> CheckInChild(std::span<const Program> programs, Check check) {
  std::vector<Verdict> verdicts;
  while (verdicts.size() < programs.size()) {
    int verdict_pipe[2];
    char error_name[] = "/tmp/random_program_XXXXXX";
    int errors = mkstemp(error_name);
    RVM_CHECK(errors >= 0 && pipe(verdict_pipe) == 0, "no pipe to a child");
    unlink(error_name);
    pid_t child = fork();
    if (child == 0) {
      close(verdict_pipe[0]);
      dup2(errors, STDERR_FILENO);
      for (const Program& program : programs.subspan(verdicts.size())) {
        alarm(kSeconds);
        WriteAll(verdict_pipe[1], Pack(check(program)));
      }
      _exit(0);
    }
    close(verdict_pipe[1]);
    std::vector<Verdict> told = Unpack(ReadAll(verdict_pipe[0]));
    close(verdict_pipe[0]);
    int status = 0;
    waitpid(child, &status, 0);
    verdicts.insert(verdicts.end(), told.begin(), told.end());
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
      verdicts.push_back({"hang", absl::StrCat("does not end within ", kSeconds, " s")});
    } else if (verdicts.size() < programs.size()) {
      lseek(errors, 0, SEEK_SET);
      int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      verdicts.push_back({"crash", absl::StrCat("signal ", signal, "\n", ReadAll(errors))});
    }
    close(errors);
  }
  return verdicts;
}

Verdict CheckInChild(const Program& program, Check check) { return CheckInChild(std::span(&program, 1), check)[0]; }

}  // namespace rvm::random_programs
