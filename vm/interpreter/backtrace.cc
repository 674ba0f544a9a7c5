#include "vm/interpreter/backtrace.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rvm::vm {
namespace {

// 999990 as "999,990".
std::string WithCommas(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace

const SourceLine* FindLine(const FunctionDesc& function, uint32_t pc) {
  auto after = std::upper_bound(function.lines.begin(), function.lines.end(), pc,
                                [](uint32_t at, const SourceLine& line) { return at < line.pc; });
  return after == function.lines.begin() ? nullptr : &*(after - 1);
}

Backtrace::Run* Backtrace::Latest() {
  if (!outer_.empty()) return &outer_[(next_outer_ + outer_.size() - 1) % outer_.size()];
  return inner_.empty() ? nullptr : &inner_.back();
}

void Backtrace::AddEntry(FunctionId function, uint32_t pc) {
  const std::vector<FunctionDesc>& functions = executable_.functions;
  const Run* latest = Latest();
  bool is_shown = latest != nullptr && latest->function != function &&
                  functions[latest->function.value].name == functions[function.value].name;
  if (!is_shown) Add(function, pc);
}

bool Backtrace::Add(FunctionId function, uint32_t pc) {
  is_cut_ = frames_ == kMaxFrames;
  if (is_cut_) return false;
  bool is_same = frames_ > 0 && function == last_function_ && pc == last_pc_;
  ++frames_;
  last_function_ = function;
  last_pc_ = pc;
  Run* latest = Latest();
  if (is_same) {
    ++latest->frames;
    return true;
  }
  const SourceLine* line = FindLine(executable_.functions[function.value], pc);
  if (latest != nullptr && latest->function == function && latest->line == line) {
    ++latest->frames;
    return true;
  }
  Run run = {function, line, 1};
  if (inner_.size() < kKeptInner) {
    inner_.push_back(run);
  } else if (outer_.size() < kKeptOuter) {
    outer_.push_back(run);
  } else {
    skipped_frames_ += outer_[next_outer_].frames;
    outer_[next_outer_] = run;
    next_outer_ = (next_outer_ + 1) % kKeptOuter;
  }
  return true;
}

bool Backtrace::IsInPrelude(const Run& run) const {
  return run.line != nullptr && run.line->file < executable_.files.size() &&
         executable_.files[run.line->file] == "<prelude>";
}

void Backtrace::AppendPlace(const Run& run, std::string& out) const {
  const std::string& name = executable_.functions[run.function.value].name;
  absl::StrAppend(&out, "\n  in `", name, "`");
  const SourceLine* line = run.line;
  if (line != nullptr && line->line != 0 && line->file < executable_.files.size()) {
    absl::StrAppend(&out, " at ", executable_.files[line->file]);
    if (line->column != 0) absl::StrAppend(&out, ":", line->line, ":", line->column);
  }
}

void Backtrace::AppendRun(const Run& run, std::string& out) const {
  AppendPlace(run, out);
  if (run.frames == 1) return;
  const std::string& name = executable_.functions[run.function.value].name;
  absl::StrAppend(&out, "\n  ... ", WithCommas(run.frames - 1),
                  run.frames == 2 ? " more frame of `" : " more frames of `", name, "`");
}

std::string Backtrace::ToString() const {
  std::string out;
  auto caller = std::find_if(inner_.begin(), inner_.end(), [&](const Run& run) { return !IsInPrelude(run); });
  if (caller != inner_.begin() && caller != inner_.end()) {
    AppendPlace(*caller, out);
    out += ", which called the Prelude:";
  }
  for (const Run& run : inner_) AppendRun(run, out);
  if (skipped_frames_ > 0) absl::StrAppend(&out, "\n  ... ", WithCommas(skipped_frames_), " more frames");
  for (size_t i = 0; i < outer_.size(); ++i) AppendRun(outer_[(next_outer_ + i) % outer_.size()], out);
  if (is_cut_) absl::StrAppend(&out, "\n  ... and more frames, which are not counted");
  return out;
}

}  // namespace rvm::vm
