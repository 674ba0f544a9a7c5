#include "tests/limits/long_operators.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/literal.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/compile.h"

namespace rvm::limits {
namespace {

constexpr int64_t kMillions = 1'000'000;

std::string TypeText(const LongOperator& op, const LongArgument& arg) {
  if (arg.shape.empty()) return std::string(arg.dtype.ToString());
  auto extent = [&](std::string* out, int64_t n) { absl::StrAppend(out, op.any_extents ? "?" : absl::StrCat(n)); };
  return absl::StrCat("Tensor[(", absl::StrJoin(arg.shape, ", ", extent), "), ", arg.dtype.ToString(), "]");
}

std::string ProgramText(const LongOperator& op) {
  std::vector<std::string> params;
  for (size_t i = 0; i < op.args.size(); ++i) {
    params.push_back(absl::StrCat("%", std::string(1, static_cast<char>('a' + i)), ": ", TypeText(op, op.args[i])));
  }
  return absl::StrCat("#[version = \"0.0.5\"]\ndef @main(", absl::StrJoin(params, ", "), ") { ", op.expression,
                      " }\ndef @one(%x: int32) -> int32 { %x }\n");
}

}  // namespace

std::vector<LongOperator> LongOperators() {
  return {
      {"sort", "sort(%a)", {{kFloat32, {8 * kMillions}}}},
      {"argsort of unknown extent", "argsort(%a)", {{kFloat32, {6 * kMillions}}}, true},
      {"sort of many rows", "sort(%a)", {{kFloat32, {kMillions, 5}}}},
      {"topk", "topk(%a, k=10).0", {{kFloat32, {6 * kMillions}}}},
      {"unique", "unique(%a).0", {{kInt32, {4 * kMillions}, 0, 1e9}}},
      {"cumsum", "cumsum(tan(%a))", {{kFloat32, {16 * kMillions}}}},
      {"cumprod of unknown extents", "cumprod(%a, axis=0)", {{kFloat64, {4 * kMillions, 4}, 0.9, 1.1}}, true},
      {"nn.matmul", "nn.matmul(%a, %b)", {{kFloat32, {4096, 4096}}, {kFloat32, {4096, 4096}}}},
      {"nn.batch_matmul of unknown extents",
       "nn.batch_matmul(%a, %b)",
       {{kFloat32, {4, 2048, 1024}}, {kFloat32, {4, 1024, 2048}}},
       true},
      {"nn.conv2d",
       "nn.conv2d(%a, %b, padding=[1, 1])",
       {{kFloat32, {1, 128, 224, 224}}, {kFloat32, {128, 128, 3, 3}}}},
      {"nn.max_pool2d", "nn.max_pool2d(%a, pool_size=[64, 64])", {{kFloat32, {1, 16, 512, 512}}}},
      {"nn.softmax of one row", "nn.softmax(%a)", {{kFloat32, {1, 16 * kMillions}}}},
      {"nn.softmax along columns", "nn.softmax(%a, axis=0)", {{kFloat32, {4 * kMillions, 4}}}},
      {"einsum",
       "einsum((%a, %b), equation=\"bik,bkj->ji\")",
       {{kFloat32, {16, 1024, 512}}, {kFloat32, {16, 512, 1024}}}},
      {"take", "take(%a, %b)", {{kFloat32, {16 * kMillions}}, {kInt32, {16 * kMillions}, 0, 1.6e7}}},
      {"scatter_elements",
       "scatter_elements(%a, %b, %c, reduction=\"add\")",
       {{kFloat32, {6 * kMillions}}, {kInt32, {6 * kMillions}, 0, 6e6}, {kFloat32, {6 * kMillions}}}},
      {"searchsorted", "searchsorted(cumsum(%a), %b)", {{kFloat32, {kMillions}}, {kFloat32, {2 * kMillions}, 0, 5e5}}},
      {"vision.non_max_suppression",
       "vision.non_max_suppression(%a, %b, %c, %d, %e, return_indices=False)",
       {{kFloat32, {1, 30'000, 6}, 0, 100},
        {kInt32, {1}, 30'000, 30'000},
        {kInt32, {1, 30'000}, 0, 30'000},
        {kInt32, {}, -1, -1},
        {kFloat32, {}, 0.9, 0.9}}},
      {"elementwise", "sinh(tan(%a))", {{kFloat32, {16 * kMillions}}}},
      {"sum", "sum(tan(sinh(%a)))", {{kFloat32, {16 * kMillions}}}},
      {"sum of columns, unknown extents", "sum(tan(%a), axis=0)", {{kFloat32, {6 * kMillions, 3}}}, true},
      {"argmax", "argmax(tan(%a), axis=1)", {{kFloat32, {2, 8 * kMillions}}}},
      {"transpose", "transpose(%a)", {{kFloat32, {4096, 8192}}}},
      {"concatenate", "concatenate((%a, %b))", {{kFloat32, {24 * kMillions}}, {kFloat32, {24 * kMillions}}}},
      {"image.resize2d", "image.resize2d(%a, size=[4096, 4096])", {{kFloat32, {1, 4, 1024, 1024}}}},
      {"random.uniform",
       "random.uniform(%a, 0f, 1f, out_shape=[20000000], out_dtype=\"float32\").1",
       {{kUInt64, {10}, 0, 1e9}}},
  };
}

absl::StatusOr<std::shared_ptr<const vm::Program>> CompileLongOperator(const LongOperator& op,
                                                                       const std::string& target) {
  return CompileText(ProgramText(op), target, {"main", "one"});
}

absl::StatusOr<std::shared_ptr<const vm::Program>> CompileText(const std::string& text, const std::string& target,
                                                               const std::vector<std::string>& entries,
                                                               std::optional<bool> native_control) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  uint32_t source = sources.Add("long.relay", text);
  driver::CompileOptions options;
  options.target = target;
  options.entries = entries;
  options.native_control = native_control;
  auto compiled = driver::Compile(source, diagnostics, options);
  if (!compiled.ok()) return absl::InvalidArgumentError(diagnostics.Render());
  return vm::Program::Link(compiled->executable, {.allow_native = true});
}

std::vector<Value> MakeArguments(const LongOperator& op) {
  uint32_t state = 1;
  std::vector<Value> values;
  for (const LongArgument& arg : op.args) {
    int64_t count = NumElements(arg.shape).value();
    std::shared_ptr<Buffer> buffer = Buffer::Allocate(count * arg.dtype.bytes());
    for (int64_t i = 0; i < count; ++i) {
      state = state * 1664525 + 1013904223;
      double number = arg.least + (arg.most - arg.least) * static_cast<double>(state) / 4294967296.0;
      std::byte* at = buffer->data() + i * arg.dtype.bytes();
      arg.dtype.is_float() ? StoreDouble(arg.dtype, at, number) : StoreInt(arg.dtype, at, static_cast<int64_t>(number));
    }
    values.push_back(Value::Tensor(Literal(arg.dtype, arg.shape, std::move(buffer))));
  }
  return values;
}

}  // namespace rvm::limits
