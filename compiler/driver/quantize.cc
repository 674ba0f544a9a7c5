#include "compiler/driver/quantize.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "compiler/driver/calibration.h"
#include "compiler/driver/site_programs.h"
#include "compiler/passes/fold_call.h"
#include "compiler/passes/layouts/channels_last.h"
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
// A site is slower from here on; below that it is noise.
constexpr double kSlower = 1.03;

bool IsChanged(const SitePlan& plan) { return plan.scheme != Scheme::kFloat; }

// Returns the scheme with twice the bits of a weight and the same products; kFloat if there is none.
Scheme RaisedScheme(Scheme scheme) {
  if (RowOf(scheme).bits != 4) return Scheme::kFloat;
  return RowOf(scheme).multiplies_bytes() ? Scheme::kW8A8Dynamic : Scheme::kW8;
}

// Returns a plan with less error.
SitePlan RaisedPlan(const SitePlan& plan) { return {.scheme = RaisedScheme(plan.scheme)}; }

// The sites' plans, and the reports that say why.
class Planner {
 public:
  Planner(const QuantizeRequest& request, quantize::WeightStore& weights, SiteTimer& timer)
      : request_(request), weights_(weights), timer_(timer) {}

  // Returns the plan of a site in the scheme of the request, or in floats. The report has the site's activations.
  absl::StatusOr<SitePlan> Plan(const Site& site, SiteReport& report) {
    SitePlan plan = {.scheme = request_.scheme, .group = request_.group};
    if (std::string reason = WhyFloat(site, report); !reason.empty()) return Float(reason, report);
    if (report.activations) report.range = plan.greatest = report.activations->Range(request_.observer);
    if (!quantize::CanRealize(site, plan.scheme, plan.group, weights_)) {
      plan.scheme = RaisedScheme(plan.scheme);
      if (!IsChanged(plan) || !quantize::CanRealize(site, plan.scheme, 0, weights_))
        return Float("its weights do not fit the scheme", report);
      report.reason = absl::StrCat("no rows of whole groups of ", request_.group);
    }
    if (site.kind != SiteKind::kTable) {
      const auto& activations = report.activations;
      const int64_t elements = activations ? activations->count() / std::max<int64_t>(1, activations->calls()) : 0;
      RVM_ASSIGN_OR_RETURN(std::optional<SiteTimes> times, timer_.Measure(site, plan, elements, weights_));
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
    Describe(site, plan, report);
    return plan;
  }

  // Reports that the site has RaisedPlan(plan), which is returned.
  SitePlan Raised(const Site& site, const SitePlan& plan, SiteReport& report) {
    report.reason = "for the sake of the error";
    const SitePlan raised = RaisedPlan(plan);
    if (!IsChanged(raised)) return Float(report.reason, report);
    Describe(site, raised, report);
    return raised;
  }

 private:
  void Describe(const Site& site, const SitePlan& plan, SiteReport& report) {
    const quantize::StoredWeight* stored = weights_.Find(site, plan.scheme, plan.group);
    report.scheme = plan.scheme;
    report.weight_error = stored->error;
    report.bytes_after = stored->bytes(plan.scheme);
  }

  static SitePlan Float(std::string reason, SiteReport& report) {
    report.scheme = Scheme::kFloat;
    report.reason = std::move(reason);
    report.weight_error = 0;
    report.bytes_after = report.bytes_before;
    return {};
  }

  std::string WhyFloat(const Site& site, const SiteReport& report) const {
    const std::vector<std::string>& kept = request_.kept;
    if (std::find(kept.begin(), kept.end(), site.name) != kept.end()) return "kept";
    const bool multiplies_bytes = RowOf(request_.scheme).multiplies_bytes() && site.kind != SiteKind::kTable;
    // Small weights are folded to floats again.
    const bool is_expanded = site.kind == SiteKind::kTable || RowOf(request_.scheme).bits == 4 ||
                             RowOf(request_.scheme).activations == kFloat32;
    if (is_expanded && site.weight.bytes() <= passes::kMaxFoldedBytes)
      return "small: up to 64 KB are stored as they are";
    if (multiplies_bytes && site.is_grouped && !request_.force) return "channels in groups are multiplied in floats";
    if (RowOf(request_.scheme).needs_data && site.kind != SiteKind::kTable) {
      if (!report.activations || report.activations->count() == 0) return "the data do not reach it";
      if (report.activations->has_strange()) return "its activations are infinite or not numbers";
    }
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
        "the program has nothing to quantise: no product, convolution or table of float32 with constant weights of "
        "float32, float16 or bfloat16; "
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

// Weights that several sites share count once.
int64_t BytesOf(const std::vector<Site>& sites) {
  std::set<const void*> known;
  int64_t bytes = 0;
  for (const Site& site : sites) {
    if (known.insert(site.weight.data()).second) bytes += site.stored_bytes();
  }
  return bytes;
}

// Returns the bytes of the weights as they are planned; those that several sites share in one form count once.
int64_t BytesAfter(const std::vector<Site>& sites, const std::vector<SiteReport>& reports) {
  std::set<std::pair<const void*, Scheme>> known;
  int64_t bytes = 0;
  for (size_t i = 0; i < sites.size(); ++i) {
    if (known.insert({sites[i].weight.data(), reports[i].scheme}).second) bytes += reports[i].bytes_after;
  }
  return bytes;
}

// Raises sites until the error of the results is small enough.
class Search {
 public:
  Search(const ir::Module& module, const std::vector<Site>& sites, const Calibration& calibration, Planner& planner,
         quantize::WeightStore& weights, std::vector<SiteReport>& reports)
      : module_(module),
        sites_(sites),
        calibration_(calibration),
        planner_(planner),
        weights_(weights),
        reports_(reports) {}

  absl::Status Run(double greatest_error, std::vector<SitePlan>& plans) {
    RVM_ASSIGN_OR_RETURN(double error, ErrorOf(plans));
    if (error <= greatest_error) return absl::OkStatus();
    RVM_ASSIGN_OR_RETURN(std::vector<size_t> order, ByError(plans));
    while (!order.empty()) {
      // The least number of sites, the worst first, that are raised. Errors are taken to fall with it.
      size_t few = 0, enough = order.size();
      while (enough - few > 1) {
        const size_t middle = (few + enough) / 2;
        RVM_ASSIGN_OR_RETURN(error, ErrorOf(WithRaised(plans, order, middle)));
        (error <= greatest_error ? enough : few) = middle;
      }
      for (size_t i = 0; i < enough; ++i) {
        plans[order[i]] = planner_.Raised(sites_[order[i]], plans[order[i]], reports_[order[i]]);
      }
      if (enough < order.size()) return absl::OkStatus();
      RVM_ASSIGN_OR_RETURN(error, ErrorOf(plans));
      if (error <= greatest_error) return absl::OkStatus();
      std::erase_if(order, [&](size_t site) { return !IsChanged(plans[site]); });
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<double> ErrorOf(const std::vector<SitePlan>& plans) {
    return calibration_.ErrorOf(quantize::Realize(module_, sites_, plans, weights_));
  }

  // Returns the sites that are quantised, by the error that each causes alone, the greatest first.
  absl::StatusOr<std::vector<size_t>> ByError(const std::vector<SitePlan>& plans) {
    std::vector<size_t> order;
    for (size_t i = 0; i < plans.size(); ++i) {
      if (!IsChanged(plans[i])) continue;
      std::vector<SitePlan> alone(plans.size());
      alone[i] = plans[i];
      RVM_ASSIGN_OR_RETURN(reports_[i].error, ErrorOf(alone));
      order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return *reports_[a].error > *reports_[b].error; });
    return order;
  }

  static std::vector<SitePlan> WithRaised(std::vector<SitePlan> plans, const std::vector<size_t>& order, size_t count) {
    for (size_t i = 0; i < count; ++i) plans[order[i]] = RaisedPlan(plans[order[i]]);
    return plans;
  }

  const ir::Module& module_;
  const std::vector<Site>& sites_;
  const Calibration& calibration_;
  Planner& planner_;
  quantize::WeightStore& weights_;
  std::vector<SiteReport>& reports_;
};

absl::Status CheckRequest(const QuantizeRequest& request, const QuantizeRuntime& runtime) {
  if (runtime.has_data()) return absl::OkStatus();
  if (RowOf(request.scheme).needs_data) {
    return absl::InvalidArgumentError(
        "`w8a8` takes the scales of activations from data; expected some. `w8a8-dynamic` needs none");
  }
  if (request.greatest_error) {
    return absl::InvalidArgumentError("a greatest error of the results is measured on data; expected some");
  }
  return absl::OkStatus();
}

// Returns the program between inlining and lambda lifting, in A-normal form, with normalisations in weights.
absl::StatusOr<PreparedProgram> PrepareForSites(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                                CompileOptions options, BoundWeights& weights) {
  options.opt_level = std::max(options.opt_level, 2);
  RVM_ASSIGN_OR_RETURN(PreparedProgram program,
                       PrepareModule(std::move(module), diagnostics, options, kBefore, weights));
  passes::PassContext context{program.entries, options.opt_level, diagnostics};
  for (const passes::Pass* pass : {&passes::kToAnf, &passes::kFoldScales}) {
    RVM_ASSIGN_OR_RETURN(program.module, pass->run(program.module, context));
  }
  return program;
}

absl::Status CheckWhole(const WholeReport& whole, const QuantizeRequest& request) {
  if (whole.ns_after <= kSlower * whole.ns_before || request.force) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("the program as `%s` takes %.4g ms for the data, %.4g in floats, so none is written; `--force` "
                      "writes it",
                      std::string(RowOf(request.scheme).name), whole.ns_after / 1e6, whole.ns_before / 1e6));
}

std::vector<SiteReport> ReportsOf(const std::vector<Site>& sites) {
  std::vector<SiteReport> reports;
  for (const Site& site : sites) {
    SiteReport& report = reports.emplace_back();
    report.function = site.function;
    report.name = site.name;
    report.kind = quantize::KindName(site.kind);
    report.weight = site.weight.shape();
    report.bytes_before = site.stored_bytes();
  }
  return reports;
}

}  // namespace

absl::StatusOr<QuantizedProgram> QuantizeModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                                const CompileOptions& options, const QuantizeRequest& request,
                                                const QuantizeRuntime& runtime) {
  RVM_RETURN_IF_ERROR(CheckRequest(request, runtime));
  QuantizedProgram result;
  RVM_ASSIGN_OR_RETURN(result.program, PrepareForSites(std::move(module), diagnostics, options, result.weights));
  const ir::Module program = result.program.module;
  std::vector<Site> sites = quantize::FindSites(program);
  RVM_RETURN_IF_ERROR(CheckKept(request, sites));
  result.sites = ReportsOf(sites);
  result.bytes_before = BytesOf(sites);
  // Programs that are only run on the data.
  CompileOptions measured;
  measured.opt_level = options.opt_level;
  measured.target = options.target;
  measured.must_stop = options.must_stop;
  std::unique_ptr<Calibration> calibration;
  if (runtime.has_data()) {
    RVM_ASSIGN_OR_RETURN(calibration,
                         Calibration::Create(result.program, kBefore, measured, request, runtime, diagnostics));
    RVM_ASSIGN_OR_RETURN(std::vector<quantize::Observations> activations, calibration->Observe(sites));
    for (size_t i = 0; i < sites.size(); ++i) {
      if (sites[i].kind != SiteKind::kTable) result.sites[i].activations = std::move(activations[i]);
    }
  }
  quantize::WeightStore weights;
  const auto num_convolutions =
      std::ranges::count_if(sites, [](const Site& site) { return site.kind == SiteKind::kConvolution; });
  SiteTimer timer(measured, request.dims, result.bytes_before, num_convolutions >= passes::kMinConvolutionsOfNetwork,
                  runtime, diagnostics);
  Planner planner(request, weights, timer);
  std::vector<SitePlan> plans;
  for (size_t i = 0; i < sites.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(plans.emplace_back(), planner.Plan(sites[i], result.sites[i]));
  }
  if (request.greatest_error) {
    RVM_RETURN_IF_ERROR(
        Search(program, sites, *calibration, planner, weights, result.sites).Run(*request.greatest_error, plans));
  }
  if (std::none_of(plans.begin(), plans.end(), IsChanged)) return NothingToDo(result.sites, request.scheme);
  result.bytes_after = BytesAfter(sites, result.sites);
  ir::Module realized = quantize::Realize(program, sites, plans, weights);
  if (calibration != nullptr) {
    RVM_ASSIGN_OR_RETURN(result.whole, calibration->Whole(realized));
    RVM_RETURN_IF_ERROR(CheckWhole(*result.whole, request));
  }
  result.program.module = std::move(realized);
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
