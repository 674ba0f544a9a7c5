#include "tools/flame_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "tools/markup.h"

namespace rvm::tools {
namespace {

constexpr double kWidth = 1200;
constexpr double kRow = 18;
constexpr double kMinWidth = 0.3;  // narrower frames are not drawn
constexpr double kLetter = 6.6;    // width of a letter at this font size

FlameFrame& Callee(FlameFrame& caller, const std::string& name) {
  std::unique_ptr<FlameFrame>& callee = caller.callees[name];
  if (callee == nullptr) {
    callee = std::make_unique<FlameFrame>();
    callee->name = name;
  }
  return *callee;
}

class Folder {
 public:
  explicit Folder(const Executable& executable) : executable_(executable) {}

  FlameFrame Fold(const std::vector<vm::TraceEvent>& events) {
    double last_ns = 0;
    for (const vm::TraceEvent& event : events) {
      last_ns = std::max(last_ns, event.begin_ns + event.length_ns);
      switch (event.kind) {
        case vm::TraceEvent::Kind::kEnter: Enter(event.id, event.begin_ns); break;
        case vm::TraceEvent::Kind::kLeave: Leave(event.begin_ns); break;
        case vm::TraceEvent::Kind::kKernel: {
          FlameFrame& kernel = Callee(*Now(), executable_.kernels[event.id].name);
          kernel.is_kernel = true;
          ++kernel.calls;
          kernel.ns += event.length_ns;
          break;
        }
        case vm::TraceEvent::Kind::kPhase:
        case vm::TraceEvent::Kind::kWait:
        case vm::TraceEvent::Kind::kLaunch:
        case vm::TraceEvent::Kind::kCopyIn:
        case vm::TraceEvent::Kind::kCopyOut: break;
      }
    }
    while (!open_.empty()) Leave(last_ns);
    for (const auto& [name, frame] : root_.callees) root_.ns += frame->ns;
    root_.calls = 1;
    return std::move(root_);
  }

 private:
  struct Activation {
    uint32_t function;
    FlameFrame* frame;
    double began_ns;
    bool is_outermost;
  };

  FlameFrame* Now() { return open_.empty() ? &root_ : open_.back().frame; }

  void Enter(uint32_t function, double ns) {
    FlameFrame*& active = active_[function];
    bool is_outermost = active == nullptr;
    if (is_outermost) active = &Callee(*Now(), "@" + executable_.functions[function].name);
    ++active->calls;
    open_.push_back({function, active, ns, is_outermost});
  }

  void Leave(double ns) {
    if (open_.empty()) return;
    Activation left = open_.back();
    open_.pop_back();
    if (!left.is_outermost) return;
    left.frame->ns += ns - left.began_ns;
    active_[left.function] = nullptr;
  }

  const Executable& executable_;
  FlameFrame root_ = {.name = "all", .is_kernel = false, .calls = 0, .ns = 0, .callees = {}};
  std::vector<Activation> open_;
  std::map<uint32_t, FlameFrame*> active_;
};

double OwnTime(const FlameFrame& frame) {
  double own = frame.ns;
  for (const auto& [name, callee] : frame.callees) own -= callee->ns;
  return std::max(own, 0.0);
}

void AppendStacks(const FlameFrame& frame, const std::string& callers, std::string& text) {
  std::string stack = callers.empty() ? frame.name : absl::StrCat(callers, ";", frame.name);
  auto own = static_cast<int64_t>(OwnTime(frame));
  if (own > 0) absl::StrAppend(&text, stack, " ", own, "\n");
  for (const auto& [name, callee] : frame.callees) AppendStacks(*callee, stack, text);
}

size_t Depth(const FlameFrame& frame) {
  size_t depth = 0;
  for (const auto& [name, callee] : frame.callees) depth = std::max(depth, Depth(*callee));
  return depth + 1;
}

class Drawing {
 public:
  explicit Drawing(const FlameFrame& root) : root_(root) {}

  std::string Svg() {
    double height = static_cast<double>(Depth(root_)) * kRow;
    absl::StrAppendFormat(&text_,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" "
                          "font-family=\"monospace\" font-size=\"11\">\n",
                          kWidth, height, kWidth, height);
    if (root_.ns > 0) Draw(root_, 0, 0, kWidth / root_.ns);
    return text_ + "</svg>\n";
  }

 private:
  void Draw(const FlameFrame& frame, double x, double y, double pixels_per_ns) {
    double width = frame.ns * pixels_per_ns;
    if (width < kMinWidth) return;
    std::string title = absl::StrFormat("%s: %s, %.1f%%, %d calls", frame.name, DurationText(frame.ns),
                                        100 * frame.ns / root_.ns, frame.calls);
    const char* color = frame.is_kernel ? "#9ec5fe" : "#fecba1";
    absl::StrAppendFormat(&text_,
                          "<g><title>%s</title><rect x=\"%.2f\" y=\"%g\" width=\"%.2f\" height=\"%g\" "
                          "fill=\"%s\" stroke=\"white\"/>",
                          EscapeMarkup(title), x, y, width, kRow, color);
    auto letters = static_cast<size_t>(std::max(0.0, (width - 6) / kLetter));
    if (letters >= 3) {
      std::string name = frame.name.size() <= letters ? frame.name : frame.name.substr(0, letters - 2) + "..";
      absl::StrAppendFormat(&text_, "<text x=\"%.2f\" y=\"%g\">%s</text>", x + 3, y + kRow - 5, EscapeMarkup(name));
    }
    text_ += "</g>\n";
    for (const auto& [name, callee] : frame.callees) {
      Draw(*callee, x, y + kRow, pixels_per_ns);
      x += callee->ns * pixels_per_ns;
    }
  }

  const FlameFrame& root_;
  std::string text_;
};

}  // namespace

FlameFrame FoldTrace(const Executable& executable, const std::vector<vm::TraceEvent>& events) {
  return Folder(executable).Fold(events);
}

std::string FoldedStacks(const FlameFrame& root) {
  std::string text;
  for (const auto& [name, frame] : root.callees) AppendStacks(*frame, "", text);
  return text;
}

std::string FlameGraphSvg(const FlameFrame& root) { return Drawing(root).Svg(); }

}  // namespace rvm::tools
