#include "compiler/passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "compiler/passes/verify/verify_module.h"

namespace rvm::passes {
namespace {

constexpr Step kPipeline[] = {
#define RVM_PASS(Name, min_opt_level) {k##Name, min_opt_level},
#define RVM_REPEAT(Name, max_rounds) {k##Name, 0, max_rounds},
#include "compiler/passes/pipeline.def"
#undef RVM_PASS
};

absl::Status Verify(const Pass& pass, Forms forms, const ir::Module& before, const ir::Module& after,
                    const diagnostics::SourceMap& sources) {
  std::vector<Finding> findings = VerifyModule(after, forms);
  if (findings.empty() && pass.keeps_effect_order) findings = VerifyEffectOrder(before, after);
  if (findings.empty()) return absl::OkStatus();
  std::string more = findings.size() == 1 ? "" : absl::StrCat(" (and ", findings.size() - 1, " more)");
  return absl::InternalError(absl::StrCat("internal error: the program is malformed after the pass `",
                                          Abseil(pass.name), "`, ", FindingToString(findings[0], sources), more,
                                          "; this is a bug of the compiler, not of the program"));
}

bool HaveSameFunctions(const ir::Module& a, const ir::Module& b) {
  return std::equal(a.functions.begin(), a.functions.end(), b.functions.begin(), b.functions.end(),
                    [](const ir::GlobalFunction& x, const ir::GlobalFunction& y) { return x.function == y.function; });
}

void AddTime(const Pass& pass, std::chrono::nanoseconds time, std::vector<PassTime>& times) {
  auto found = std::find_if(times.begin(), times.end(), [&](const PassTime& other) { return other.pass == &pass; });
  PassTime& entry = found != times.end() ? *found : times.emplace_back(PassTime{&pass});
  ++entry.runs;
  entry.time += time;
}

bool Names(const std::vector<std::string>& names, const Pass& pass) {
  return std::find(names.begin(), names.end(), pass.name) != names.end();
}

}  // namespace

std::span<const Step> Pipeline() { return kPipeline; }

const Pass* FindPass(std::string_view name) {
  for (const Step& step : kPipeline) {
    if (step.pass.name == name) return &step.pass;
  }
  return nullptr;
}

bool IsRequired(const Pass& pass) {
  return std::any_of(std::begin(kPipeline), std::end(kPipeline), [&](const Step& step) {
    return &step.pass == &pass && step.min_opt_level == 0 && step.max_rounds == 0;
  });
}

absl::StatusOr<ir::Module> RunPasses(const ir::Module& module, const std::vector<std::string>& entries,
                                     diagnostics::Diagnostics& diagnostics, const PipelineOptions& options) {
  PassContext context{entries, options.opt_level, diagnostics, options.devices, options.batch};
  ir::Module current = module;
  Forms forms;
  struct LastRun {
    size_t step;
    bool changed;
  };
  absl::flat_hash_map<const Pass*, LastRun> last_runs;
  int rounds = 1;
  bool begun = options.from.empty();
  for (size_t i = 0; i < Pipeline().size(); ++i) {
    const Step& step = Pipeline()[i];
    begun = begun || (step.max_rounds == 0 && step.pass.name == options.from);
    if (!begun) continue;
    if (step.max_rounds > 0) {
      auto last = last_runs.find(&step.pass);
      bool again = last != last_runs.end() && last->second.changed && rounds < step.max_rounds;
      rounds = again ? rounds + 1 : 1;
      if (again) i = last->second.step - 1;
      continue;
    }
    if (step.pass.name == options.until) break;
    if (options.opt_level < step.min_opt_level && !Names(options.extra_passes, step.pass)) continue;
    if (Names(options.left_out, step.pass)) continue;
    if (options.must_stop && options.must_stop()) return absl::CancelledError("cancelled");
    auto begin = std::chrono::steady_clock::now();
    RVM_ASSIGN_OR_RETURN(ir::Module after, step.pass.run(current, context));
    if (options.times != nullptr) AddTime(step.pass, std::chrono::steady_clock::now() - begin, *options.times);
    last_runs[&step.pass] = {i, !HaveSameFunctions(current, after)};
    forms = forms | step.pass.gives;
    // A program with errors may be malformed; compilation stops after the pass.
    if (options.verify && diagnostics.ok()) {
      RVM_RETURN_IF_ERROR(Verify(step.pass, forms, current, after, diagnostics.sources()));
    }
    current = std::move(after);
    if (options.observer) options.observer(step.pass, current);
  }
  return current;
}

}  // namespace rvm::passes
