#include "tools/relayvm/value_dump.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "tools/relayvm/executable_text.h"

namespace rvm::tools {
namespace {

int64_t CountOfNotFinite(const Literal& tensor) {
  int64_t count = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) count += std::isfinite(tensor.DoubleAt(i)) ? 0 : 1;
  return count;
}

}  // namespace

absl::StatusOr<ValueDump> ValueDump::Create(const std::string& folder, const Executable& executable, int64_t limit) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return absl::InvalidArgumentError(absl::StrCat("cannot make the folder `", folder, "`: ", error.message()));
  bool is_empty = std::filesystem::is_empty(folder, error);
  if (error)
    return absl::InvalidArgumentError(absl::StrCat("cannot read the folder `", folder, "`: ", error.message()));
  if (!is_empty) {
    return absl::AlreadyExistsError(
        absl::StrCat("`", folder, "` has files; expected a new or an empty folder for `--dump-values`"));
  }
  return ValueDump(folder, executable, limit);
}

ValueDump::ValueDump(std::string folder, const Executable& executable, int64_t limit)
    : folder_(std::move(folder)), executable_(&executable), limit_(limit) {
  index_.BeginArray();
}

absl::Status ValueDump::Take(vm::SeenResult result) {
  int64_t number = seen_++;
  if (number >= limit_) return absl::OkStatus();
  int64_t time = times_[{result.function, result.pc, result.result}]++;
  std::string file = absl::StrCat(number, ".npy");
  RVM_RETURN_IF_ERROR(ReplaceFile(absl::StrCat(folder_, "/", file), EncodeNpy(result.tensor)));
  index_.BeginObject()
      .Field("file", file)
      .Field("function", executable_->functions[result.function].name)
      .Field("place", result.line == nullptr ? "" : PlaceText(*executable_, *result.line));
  bool is_view = result.kernel == vm::SeenResult::kNoKernel;
  index_.Field("kernel", is_view ? "view" : executable_->kernels[result.kernel].name);
  index_.Field("result", static_cast<int64_t>(result.result)).Field("time", time);
  index_.Field("dtype", result.tensor.dtype().ToString()).Key("shape").BeginArray();
  for (int64_t extent : result.tensor.shape()) index_.Int(extent);
  index_.EndArray().Field("not_finite", CountOfNotFinite(result.tensor)).EndObject();
  return absl::OkStatus();
}

absl::StatusOr<std::string> ValueDump::Finish() {
  index_.EndArray();
  RVM_RETURN_IF_ERROR(ReplaceFile(folder_ + "/index.json", index_.TakeText() + "\n"));
  int64_t written = std::min(seen_, limit_);
  std::string text = absl::StrCat("wrote ", written, written == 1 ? " tensor to " : " tensors to ", folder_,
                                  "; index.json says where each comes from");
  if (written < seen_) absl::StrAppend(&text, ". The run gave ", seen_, ": `--dump-limit` sets another limit");
  return text;
}

}  // namespace rvm::tools
