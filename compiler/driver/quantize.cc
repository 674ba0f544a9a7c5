#include "compiler/driver/quantize.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "compiler/driver/site_programs.h"
#include "compiler/passes/pass.h"
#include "compiler/quantize/realize.h"
#include "compiler/quantize/sites.h"
#include "compiler/quantize/weights.h"

namespace rvm::driver {
namespace {

using quantize::RowOf;
using quantize::Scheme;
using quantize::Site;
using quantize::SiteKind;
using quantize::SitePlan;

// The pass before which programs are quantised: operators are inlined, specialised and folded, and a program can still
// be written as text.
constexpr std::string_view kBefore = "lambda_lift";
// Smaller weights are folded to floats again (passes/fold_call.cc).
constexpr int64_t kMinStoredBytes = int64_t{64} << 10;
// A site is slower from here on; below that it is noise.
constexpr double kSlower = 1.03;

// The sites' plans, and the reports that say why.
class Planner {
 public:
  Planner(const QuantizeRequest& request, quantize::WeightStore& weights, SiteTimer& timer)
      : request_(request), weights_(weights), timer_(timer) {}

  absl::StatusOr<SitePlan> Plan(const Site& site, SiteReport& report) {
    SitePlan plan = {.scheme = request_.scheme, .group = request_.group};
    if (std::string reason = WhyFloat(site); !reason.empty()) return Float(reason, report);
    if (!quantize::CanRealize(site, plan.scheme, plan.group, weights_)) {
      bool may_be_bytes = plan.scheme == Scheme::kW4 && quantize::CanRealize(site, Scheme::kW8, 0, weights_);
      if (!may_be_bytes) return Float("its weights do not fit the scheme", report);
      plan.scheme = Scheme::kW8;
      report.reason = absl::StrCat("no rows of whole groups of ", request_.group);
    }
    const quantize::StoredWeight* stored = weights_.Find(site, StoredScheme(site, plan.scheme), plan.group);
    if (site.kind != SiteKind::kTable) {
      RVM_ASSIGN_OR_RETURN(std::optional<SiteTimes> times, timer_.Measure(site, plan, weights_));
      if (times) {
        report.ns_before = times->before;
        report.ns_after = times->after;
        if (times->after > kSlower * times->before && !request_.force) {
          return Float(absl::StrFormat("slower as %s: %.4g us, %.4g in floats", std::string(RowOf(plan.scheme).name),
                                       times->after / 1000, times->before / 1000),
                       report);
        }
      }
    }
    report.scheme = plan.scheme;
    report.weight_error = stored->error;
    report.bytes_after = stored->bytes(StoredScheme(site, plan.scheme));
    return plan;
  }

 private:
  static Scheme StoredScheme(const Site& site, Scheme scheme) {
    return site.kind == SiteKind::kTable && RowOf(scheme).multiplies_bytes ? Scheme::kW8 : scheme;
  }

  static SitePlan Float(std::string reason, SiteReport& report) {
    report.scheme = Scheme::kFloat;
    report.reason = std::move(reason);
    report.bytes_after = report.bytes_before;
    return {};
  }

  std::string WhyFloat(const Site& site) const {
    const std::vector<std::string>& kept = request_.kept;
    if (std::find(kept.begin(), kept.end(), site.name) != kept.end()) return "kept";
    const bool multiplies_bytes = RowOf(request_.scheme).multiplies_bytes && site.kind != SiteKind::kTable;
    if (!multiplies_bytes && site.weight.bytes() <= kMinStoredBytes) return "small: up to 64 KB are stored as they are";
    if (multiplies_bytes && site.is_grouped && !request_.force) return "channels in groups are multiplied in floats";
    return "";
  }

  const QuantizeRequest& request_;
  quantize::WeightStore& weights_;
  SiteTimer& timer_;
};

absl::Status CheckKept(const QuantizeRequest& request, const std::vector<Site>& sites) {
  std::vector<std::string_view> names;
  for (const Site& site : sites) names.push_back(site.name);
  for (const std::string& kept : request.kept) {
    if (std::find(names.begin(), names.end(), kept) != names.end()) continue;
    std::string near = DidYouMean(kept, names);
    return absl::InvalidArgumentError(absl::StrCat(
        "no weight that can be quantised is named `", kept, "`",
        near.empty()
            ? absl::StrCat("; there are ", absl::StrJoin(std::vector<std::string>(names.begin(), names.end()), ", "))
            : near));
  }
  return absl::OkStatus();
}

absl::Status NothingToDo(const std::vector<SiteReport>& sites, Scheme scheme) {
  if (sites.empty()) {
    return absl::FailedPreconditionError(
        "the program has nothing to quantise: no product, convolution or table with constant float32 weights; "
        "`--params` binds weights");
  }
  constexpr size_t kShown = 4;
  std::string reasons;
  for (size_t i = 0; i < sites.size() && i < kShown; ++i) {
    absl::StrAppend(&reasons, "\n  ", sites[i].name, " of `", sites[i].function, "`: ", sites[i].reason);
  }
  if (sites.size() > kShown) absl::StrAppend(&reasons, "\n  and ", sites.size() - kShown, " more");
  return absl::FailedPreconditionError(
      absl::StrCat("nothing gains by `", std::string(RowOf(scheme).name),
                   "`, so no program is written; `--force` quantises what is only slower:", reasons));
}

int64_t BytesOf(const std::vector<Site>& sites) {
  std::set<const void*> known;
  int64_t bytes = 0;
  for (const Site& site : sites) {
    if (known.insert(site.weight.data()).second) bytes += site.weight.bytes();
  }
  return bytes;
}

// Weights that several sites share count once.
void CountBytes(const std::vector<Site>& sites, QuantizedProgram& result) {
  std::set<std::pair<const void*, Scheme>> stored;
  std::set<const void*> given;
  for (size_t i = 0; i < sites.size(); ++i) {
    const SiteReport& site = result.sites[i];
    if (given.insert(sites[i].weight.data()).second) result.bytes_before += site.bytes_before;
    if (stored.insert({sites[i].weight.data(), site.scheme}).second) result.bytes_after += site.bytes_after;
  }
}

}  // namespace

absl::StatusOr<QuantizedProgram> QuantizeModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                                const CompileOptions& options, const QuantizeRequest& request,
                                                const QuantizeRuntime& runtime) {
  QuantizedProgram result;
  CompileOptions prepare = options;
  prepare.opt_level = std::max(options.opt_level, 2);
  RVM_ASSIGN_OR_RETURN(result.program, PrepareModule(std::move(module), diagnostics, prepare, kBefore, result.weights));
  passes::PassContext context{result.program.entries, prepare.opt_level, diagnostics};
  ir::Module& program = result.program.module;
  for (const passes::Pass* pass : {&passes::kToAnf, &passes::kFoldScales}) {
    RVM_ASSIGN_OR_RETURN(program, pass->run(program, context));
  }
  std::vector<Site> sites = quantize::FindSites(program);
  RVM_RETURN_IF_ERROR(CheckKept(request, sites));
  quantize::WeightStore weights;
  SiteTimer timer(options, request.dims, BytesOf(sites), runtime, diagnostics);
  Planner planner(request, weights, timer);
  std::vector<SitePlan> plans;
  for (const Site& site : sites) {
    SiteReport& report = result.sites.emplace_back();
    report.function = site.function;
    report.name = site.name;
    report.kind = quantize::KindName(site.kind);
    report.weight = site.weight.shape();
    report.bytes_before = site.weight.bytes();
    RVM_ASSIGN_OR_RETURN(SitePlan plan, planner.Plan(site, report));
    plans.push_back(plan);
  }
  auto is_changed = [](const SitePlan& plan) { return plan.scheme != Scheme::kFloat; };
  if (std::none_of(plans.begin(), plans.end(), is_changed)) return NothingToDo(result.sites, request.scheme);
  CountBytes(sites, result);
  program = quantize::Realize(program, sites, plans, weights);
  return result;
}

absl::StatusOr<CompiledProgram> CompileQuantized(QuantizedProgram program, diagnostics::Diagnostics& diagnostics,
                                                 const CompileOptions& options) {
  RVM_ASSIGN_OR_RETURN(CompiledProgram compiled,
                       CompilePrepared(std::move(program.program), kBefore, diagnostics, options));
  compiled.weights = std::move(program.weights);
  return compiled;
}

}  // namespace rvm::driver
