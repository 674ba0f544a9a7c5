#include "tools/relayvm/quantize_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/markup.h"

namespace rvm::tools {
namespace {

using driver::QuantizedProgram;
using driver::SiteReport;
using quantize::RowOf;
using quantize::Scheme;

constexpr std::string_view kStyle =
    "body{font:14px system-ui,sans-serif;margin:2em;max-width:80em}"
    "table{border-collapse:collapse}td,th{padding:3px 10px;text-align:right;border-bottom:1px solid #ddd}"
    "td.name,th.name{text-align:left}tr.float{color:#888}";

std::string SchemeName(Scheme scheme) { return std::string(RowOf(scheme).name); }

std::string Megabytes(int64_t bytes) { return absl::StrFormat("%.3g MB", static_cast<double>(bytes) / 1e6); }

std::string Microseconds(const std::optional<double>& ns) {
  return ns ? absl::StrFormat("%.4g", *ns / 1000) : std::string();
}

// "error 0.0043, 3.1 ms before and 1.2 after for 8 calls".
std::string WholeText(const driver::WholeReport& whole) {
  return absl::StrFormat("error of the results %.3g; %.4g -> %.4g ms for %d calls", whole.error, whole.ns_before / 1e6,
                         whole.ns_after / 1e6, whole.calls);
}

// "1 float, 8 w8a8-dynamic".
std::string Counts(const QuantizedProgram& program) {
  std::map<Scheme, int64_t> counts;
  for (const SiteReport& site : program.sites) ++counts[site.scheme];
  std::string text;
  for (const auto& [scheme, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", SchemeName(scheme));
  }
  return text;
}

// The magnitudes of activations in bars, their heights by the logarithm of the count; those beyond the range are red.
std::string HistogramSvg(const SiteReport& site) {
  if (site.activations->count() == 0) return "";
  constexpr size_t kBars = 64;
  constexpr double kHeight = 24;
  std::array<int64_t, kBars> bars = {};
  std::span<const int64_t> bins = site.activations->bins();
  for (size_t i = 0; i < bins.size(); ++i) bars[i * kBars / bins.size()] += bins[i];
  std::string svg = "<svg width=\"128\" height=\"24\">";
  const double width = site.activations->width() * static_cast<double>(bins.size()) / kBars;
  const double most = std::log1p(static_cast<double>(site.activations->count()));
  for (size_t i = 0; i < kBars; ++i) {
    if (bars[i] == 0) continue;
    const double height = std::max(1.0, kHeight * std::log1p(static_cast<double>(bars[i])) / most);
    const bool is_beyond = site.range > 0 && static_cast<double>(i) * width >= site.range;
    absl::StrAppendFormat(&svg, "<rect x=\"%d\" y=\"%.1f\" width=\"2\" height=\"%.1f\" fill=\"%s\"/>", 2 * i,
                          kHeight - height, height, is_beyond ? "#c33" : "#69c");
  }
  return svg + "</svg>";
}

// Four cells.
void AppendActivations(const SiteReport& site, std::string& html) {
  if (!site.activations) {
    html += "<td></td><td></td><td></td><td></td>";
    return;
  }
  absl::StrAppend(&html, "<td>", site.activations->calls(), "</td><td>");
  absl::StrAppendFormat(&html, "%.3g ... %.3g", site.activations->least(), site.activations->greatest());
  absl::StrAppend(&html, "</td><td>");
  if (site.range > 0) {
    absl::StrAppendFormat(&html, "%.3g, %.2g%% beyond", site.range, 100 * site.activations->ShareBeyond(site.range));
  }
  absl::StrAppend(&html, "</td><td class=\"name\">", HistogramSvg(site), "</td>");
}

void AppendRow(const SiteReport& site, std::string& html) {
  absl::StrAppend(&html, site.scheme == Scheme::kFloat ? "<tr class=\"float\">" : "<tr>", "<td class=\"name\">",
                  EscapeMarkup(site.name), "</td><td class=\"name\">", EscapeMarkup(site.function),
                  "</td><td class=\"name\">", site.kind, " ", ShapeToString(site.weight), "</td><td class=\"name\">",
                  SchemeName(site.scheme), "</td>");
  absl::StrAppend(&html, "<td>",
                  site.scheme == Scheme::kFloat ? std::string() : absl::StrFormat("%.2g", site.weight_error),
                  "</td><td>", site.bytes_before, "</td><td>", site.bytes_after, "</td><td>",
                  Microseconds(site.ns_before), "</td><td>", Microseconds(site.ns_after), "</td>");
  AppendActivations(site, html);
  absl::StrAppend(&html, "<td>", site.error ? absl::StrFormat("%.2g", *site.error) : std::string(),
                  "</td><td class=\"name\">", EscapeMarkup(site.reason), "</td></tr>\n");
}

}  // namespace

std::string QuantizeSummary(const QuantizedProgram& program) {
  std::string text;
  constexpr size_t kShown = 6;
  size_t floats = 0;
  for (const SiteReport& site : program.sites) {
    if (site.scheme != Scheme::kFloat || ++floats > kShown) continue;
    absl::StrAppend(&text, "relayvm: note: ", site.name, " of `", site.function, "` stays in floats: ", site.reason,
                    "\n");
  }
  if (floats > kShown)
    absl::StrAppend(&text, "relayvm: note: so do ", floats - kShown, " more; `--report` lists them\n");
  absl::StrAppend(&text, "relayvm: note: weights ", Counts(program), "; ", Megabytes(program.bytes_before), " -> ",
                  Megabytes(program.bytes_after), "\n");
  if (program.whole) absl::StrAppend(&text, "relayvm: note: ", WholeText(*program.whole), "\n");
  return text;
}

std::string QuantizeHtml(const QuantizedProgram& program, const driver::QuantizeRequest& request,
                         const std::string& path) {
  std::string html = PageHead(path + ", quantised", kStyle);
  absl::StrAppend(&html, "<p>Scheme: ", SchemeName(request.scheme), ". Sites: ", Counts(program),
                  ". Weights: ", Megabytes(program.bytes_before), " before, ", Megabytes(program.bytes_after),
                  " after.", program.whole ? absl::StrCat(" With the data: ", WholeText(*program.whole), ".") : "",
                  "</p>\n");
  absl::StrAppend(
      &html,
      "<table>\n<tr><th class=\"name\">weight</th><th class=\"name\">function</th><th class=\"name\">operator"
      "</th><th class=\"name\">form</th><th>error of the weight</th><th>bytes before</th><th>after</th>"
      "<th>us before</th><th>after</th><th>calls</th><th>activations</th><th>range</th><th "
      "class=\"name\">histogram</th>"
      "<th>error alone</th><th class=\"name\">reason</th></tr>\n");
  for (const SiteReport& site : program.sites) AppendRow(site, html);
  absl::StrAppend(&html, "</table>\n</body>\n</html>\n");
  return html;
}

}  // namespace rvm::tools
