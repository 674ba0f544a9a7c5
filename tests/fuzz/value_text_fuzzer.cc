// Any text as a value of each of some types, which the first byte chooses from: a value or an error.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "vm/values/value_text.h"

namespace rvm {
namespace {

TypeDesc Scalar(DataType dtype) { return {.kind = TypeDescKind::kScalar, .dtype = dtype}; }

// List[int32] and what it needs, tensors, tuples, references.
Executable MakeTypes() {
  Executable executable;
  for (DataType dtype : {kInt32, kBool, kFloat32, kInt64, kUInt8, kUInt64, kFloat16, kFloat64}) {
    executable.types.push_back(Scalar(dtype));
  }
  int64_t open = TypeDesc::kUnknownDim;
  executable.types.push_back({.kind = TypeDescKind::kTensor, .dtype = kFloat32, .dims = {open, 2}});
  executable.types.push_back({.kind = TypeDescKind::kTensor, .dtype = kInt8, .dims = {open, open, open}});
  executable.types.push_back({.kind = TypeDescKind::kTuple, .fields = {TypeId(0), TypeId(1), TypeId(8)}});
  executable.types.push_back({.kind = TypeDescKind::kAdt, .adt = AdtId(0)});
  executable.types.push_back({.kind = TypeDescKind::kAdt, .adt = AdtId(1)});
  executable.types.push_back({.kind = TypeDescKind::kRef, .fields = {TypeId(11)}});
  executable.types.push_back({.kind = TypeDescKind::kClosure, .fields = {TypeId(0)}, .result = TypeId(0)});
  executable.types.push_back({.kind = TypeDescKind::kTuple});
  executable.adts.push_back(
      {.name = "List[int32]",
       .constructors = {{.name = "Nil"}, {.name = "Cons", .fields = {TypeId(0), TypeId(11)}, .layout = LayoutId(0)}}});
  executable.adts.push_back(
      {.name = "Tree",
       .constructors = {{.name = "Leaf"},
                        {.name = "Fork", .fields = {TypeId(12), TypeId(10), TypeId(12)}, .layout = LayoutId(1)}}});
  return executable;
}

}  // namespace
}  // namespace rvm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  rvm::Executable executable = rvm::MakeTypes();
  rvm::TypeId type(data[0] % static_cast<uint32_t>(executable.types.size()));
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  absl::StatusOr<rvm::Value> value = rvm::vm::ParseValueText(executable, type, text);
  if (!value.ok()) return 0;
  // The printed text of a value parses as that value.
  std::string printed = value->ToString();
  absl::StatusOr<rvm::Value> again = rvm::vm::ParseValueText(executable, type, printed);
  RVM_CHECK(again.ok() && rvm::DiffValues(*value, *again).empty(), printed.c_str());
  return 0;
}
