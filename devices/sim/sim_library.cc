// The simulated accelerator as a library outside of RelayVM: the table of relayvm/accelerator.h over its two halves.
// Its kind is `sim_plugin`, with code of a name of its own, so that it runs beside the one in the tree.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/dim.h"
#include "base/literal.h"
#include "compiler/ir/attrs.h"
#include "devices/sim/sim_accelerator.h"
#include "devices/sim/sim_device.h"
#include "include/relayvm/accelerator.h"
#include "vm/device/device.h"

using rvm::DataType;
using rvm::Dim;
using rvm::Dims;
using rvm::Literal;
namespace device = rvm::device;
namespace ir = rvm::ir;
namespace target = rvm::target;

struct rvm_accelerator_code {
  std::unique_ptr<target::AcceleratorCode> code = target::kSimAccelerator.NewCode();
  std::vector<uint8_t> bytes;
};
struct rvm_accelerator_device {
  std::shared_ptr<device::Device> device = device::MakeSimDevice();
};
struct rvm_accelerator_block {
  std::unique_ptr<device::Block> block;
};
struct rvm_accelerator_loaded {
  std::unique_ptr<device::Code> code;
};
struct rvm_accelerator_stream {
  std::unique_ptr<device::Stream> stream;
  std::vector<rvm_accelerator_time> times;
};

namespace {

// ---- statuses

rvm_accelerator_status StatusOf(const absl::Status& status, char* message) {
  if (status.ok()) return RVM_ACCELERATOR_OK;
  size_t size = std::min<size_t>(status.message().size(), RVM_ACCELERATOR_MESSAGE - 1);
  std::memcpy(message, status.message().data(), size);
  message[size] = '\0';
  if (absl::IsUnimplemented(status)) return RVM_ACCELERATOR_UNSUPPORTED;
  if (absl::IsInvalidArgument(status)) return RVM_ACCELERATOR_INVALID;
  if (absl::IsResourceExhausted(status)) return RVM_ACCELERATOR_NO_MEMORY;
  return RVM_ACCELERATOR_FAILED;
}

// ---- the compiler's half

DataType TypeOf(const rvm_element_type& element) {
  DataType dtype;
  dtype.code = element.code == RVM_DTYPE_INT    ? rvm::TypeCode::kInt
               : element.code == RVM_DTYPE_UINT ? rvm::TypeCode::kUInt
               : element.code == RVM_DTYPE_BOOL ? rvm::TypeCode::kBool
                                                : rvm::TypeCode::kFloat;
  dtype.bits = static_cast<uint8_t>(element.bits);
  return dtype;
}

Dim DimOf(const rvm_extent& extent) {
  switch (extent.kind) {
    case RVM_EXTENT_CONSTANT: return Dim(extent.value);
    case RVM_EXTENT_SYMBOL: return Dim::Var(extent.value, "s" + std::to_string(extent.value));
    case RVM_EXTENT_BROADCAST: {
      Dim dim = DimOf(extent.terms[0]);
      for (uint32_t i = 1; i < extent.term_count; ++i) dim = rvm::Broadcast(dim, DimOf(extent.terms[i]));
      return dim;
    }
  }
  return Dim::Any();
}

Dims DimsOf(const rvm_tensor_type& type) {
  Dims dims;
  for (uint32_t axis = 0; axis < type.rank; ++axis) dims.push_back(DimOf(type.extents[axis]));
  return dims;
}

ir::AttrValue ValueOf(const rvm_attribute& attribute) {
  switch (attribute.kind) {
    case RVM_ATTRIBUTE_BOOL: return attribute.integer != 0;
    case RVM_ATTRIBUTE_INT: return attribute.integer;
    case RVM_ATTRIBUTE_FLOAT: return attribute.real;
    case RVM_ATTRIBUTE_STRING: return attribute.string;
    case RVM_ATTRIBUTE_LIST: {
      ir::AttrValue::List items;
      for (uint32_t i = 0; i < attribute.item_count; ++i) items.push_back(ValueOf(attribute.items[i]));
      return items;
    }
  }
  return {};
}

target::Operand OperandOf(const rvm_operand& given) {
  target::Operand operand;
  operand.number = given.number;
  operand.dtype = TypeOf(given.type.element);
  operand.dims = DimsOf(given.type);
  if (given.kind == RVM_OPERAND_ARGUMENT) operand.kind = target::Operand::Kind::kArgument;
  if (given.kind == RVM_OPERAND_CALL) operand.kind = target::Operand::Kind::kCall;
  if (given.kind == RVM_OPERAND_CONSTANT) {
    rvm::Shape shape;
    int64_t bytes = operand.dtype.bytes();
    for (const Dim& dim : operand.dims) {
      shape.push_back(dim.constant());
      bytes *= dim.constant();
    }
    const auto* data = static_cast<const std::byte*>(given.constant);
    operand.constant = Literal::FromBytes(operand.dtype, shape, {data, static_cast<size_t>(bytes)});
  }
  return operand;
}

// The composite, and the attributes that it refers to.
struct ReadComposite {
  explicit ReadComposite(const rvm_composite& given) {
    composite.pattern = given.pattern;
    composite.num_arguments = given.argument_count;
    for (uint32_t c = 0; c < given.call_count; ++c) {
      const rvm_operator_call& call = given.calls[c];
      ir::Attrs& own = attrs.emplace_back();
      for (uint32_t i = 0; i < call.attribute_count; ++i) own.Set(call.attributes[i].name, ValueOf(call.attributes[i]));
      target::CompositeCall& read = composite.calls.emplace_back();
      read.op = call.op;
      read.attrs = &own;
      for (uint32_t i = 0; i < call.operand_count; ++i) read.operands.push_back(OperandOf(call.operands[i]));
      read.dtype = TypeOf(call.type.element);
      read.dims = DimsOf(call.type);
    }
  }
  std::deque<ir::Attrs> attrs;
  target::Composite composite;
};

int Accepts(const rvm_composite* composite) {
  return target::kSimAccelerator.Accepts(ReadComposite(*composite).composite) ? 1 : 0;
}

rvm_accelerator_status CreateCode(rvm_accelerator_code** code, char*) {
  *code = new rvm_accelerator_code;
  return RVM_ACCELERATOR_OK;
}

// Functions are named "k<kernel>_0".
rvm_accelerator_status AddCode(rvm_accelerator_code* code, const char* name, const rvm_composite* composite,
                               char* message) {
  auto kernel = static_cast<uint32_t>(std::strtoul(name + 1, nullptr, 10));
  return StatusOf(code->code->Add(kernel, ReadComposite(*composite).composite), message);
}

rvm_accelerator_status FinishCode(rvm_accelerator_code* code, const uint8_t** bytes, size_t* size, char* message) {
  absl::StatusOr<std::vector<uint8_t>> finished = code->code->Finish();
  if (!finished.ok()) return StatusOf(finished.status(), message);
  code->bytes = *std::move(finished);
  *bytes = code->bytes.data();
  *size = code->bytes.size();
  return RVM_ACCELERATOR_OK;
}

void DestroyCode(rvm_accelerator_code* code) { delete code; }

// ---- the runtime's half

rvm_accelerator_status CountDevices(uint32_t* count, char*) {
  *count = 1;
  return RVM_ACCELERATOR_OK;
}

rvm_accelerator_status OpenDevice(uint32_t, rvm_accelerator_device** opened, rvm_accelerator_info* info, char*) {
  *opened = new rvm_accelerator_device;
  const device::DeviceInfo& own = (*opened)->device->info();
  *info = {own.name.c_str(), "", own.memory_bytes};
  return RVM_ACCELERATOR_OK;
}

rvm_accelerator_status CreateBlock(rvm_accelerator_device* of, int64_t bytes, rvm_accelerator_block** block,
                                   char* message) {
  absl::StatusOr<std::unique_ptr<device::Block>> made = of->device->Allocate(bytes);
  if (!made.ok()) return StatusOf(made.status(), message);
  *block = new rvm_accelerator_block{*std::move(made)};
  return RVM_ACCELERATOR_OK;
}

void DestroyBlock(rvm_accelerator_block* block) { delete block; }

rvm_accelerator_status LoadCode(rvm_accelerator_device* of, const uint8_t* bytes, size_t size,
                                const char* const* functions, size_t count, rvm_accelerator_loaded** loaded,
                                char* message) {
  std::vector<std::string> names(functions, functions + count);
  absl::StatusOr<std::unique_ptr<device::Code>> code = of->device->Load({bytes, size}, names);
  if (!code.ok()) return StatusOf(code.status(), message);
  *loaded = new rvm_accelerator_loaded{*std::move(code)};
  return RVM_ACCELERATOR_OK;
}

void UnloadCode(rvm_accelerator_loaded* loaded) { delete loaded; }

rvm_accelerator_status CreateStream(rvm_accelerator_device* of, uint32_t keeps_times, rvm_accelerator_stream** stream,
                                    char* message) {
  absl::StatusOr<std::unique_ptr<device::Stream>> made = of->device->NewStream(keeps_times != 0);
  if (!made.ok()) return StatusOf(made.status(), message);
  *stream = new rvm_accelerator_stream{*std::move(made), {}};
  return RVM_ACCELERATOR_OK;
}

void DestroyStream(rvm_accelerator_stream* stream) { delete stream; }

rvm_accelerator_status CopyIn(rvm_accelerator_stream* stream, const rvm_accelerator_block* to, const void* from,
                              size_t size, char* message) {
  return StatusOf(stream->stream->CopyIn(*to->block, {static_cast<const std::byte*>(from), size}), message);
}

rvm_accelerator_status CopyOut(rvm_accelerator_stream* stream, void* to, const rvm_accelerator_block* from, size_t size,
                               char* message) {
  return StatusOf(stream->stream->CopyOut({static_cast<std::byte*>(to), size}, *from->block), message);
}

rvm_accelerator_status Launch(rvm_accelerator_stream* stream, const rvm_accelerator_loaded* loaded, uint32_t function,
                              const rvm_accelerator_argument* arguments, size_t count, char* message) {
  std::vector<device::Argument> args;
  for (const rvm_accelerator_argument& argument : std::span(arguments, count)) {
    args.push_back(argument.block == nullptr ? device::Argument::Of(argument.number)
                                             : device::Argument::Of(argument.block->block.get()));
  }
  return StatusOf(stream->stream->Launch(*loaded->code, function, args, 1), message);
}

rvm_accelerator_status Wait(rvm_accelerator_stream* stream, int64_t nanoseconds, uint32_t* is_done, char* message) {
  absl::StatusOr<bool> done = stream->stream->WaitFor(std::chrono::nanoseconds(nanoseconds));
  if (!done.ok()) return StatusOf(done.status(), message);
  *is_done = *done ? 1 : 0;
  return RVM_ACCELERATOR_OK;
}

rvm_accelerator_status TakeTimes(rvm_accelerator_stream* stream, const rvm_accelerator_time** times, size_t* count,
                                 char* message) {
  absl::StatusOr<std::vector<device::WorkTime>> taken = stream->stream->TakeTimes();
  if (!taken.ok()) return StatusOf(taken.status(), message);
  stream->times.clear();
  for (const device::WorkTime& time : *taken) stream->times.push_back({time.begin_ns, time.end_ns});
  *times = stream->times.data();
  *count = stream->times.size();
  return RVM_ACCELERATOR_OK;
}

// The patterns in the structs of the interface, which are made once.
struct PatternsInC {
  PatternsInC() {
    for (const target::Pattern& pattern : target::kSimAccelerator.patterns()) {
      std::vector<rvm_pattern_step>& of_pattern = steps.emplace_back();
      for (const target::PatternStep& step : pattern.steps) {
        std::vector<const char*>& names = operators.emplace_back();
        for (std::string_view name : step.operators) names.push_back(strings.emplace_back(name).c_str());
        of_pattern.push_back({names.data(), static_cast<uint32_t>(names.size()), step.is_optional ? 1u : 0u});
      }
      patterns.push_back(
          {strings.emplace_back(pattern.name).c_str(), of_pattern.data(), static_cast<uint32_t>(of_pattern.size()), 0});
    }
  }
  std::deque<std::string> strings;
  std::deque<std::vector<const char*>> operators;
  std::deque<std::vector<rvm_pattern_step>> steps;
  std::vector<rvm_pattern> patterns;
};

}  // namespace

extern "C" const rvm_accelerator* rvm_accelerator_get(uint32_t abi) {
  static const auto* const patterns = new PatternsInC;
  static const rvm_accelerator table = {
      .struct_size = sizeof(rvm_accelerator),
      .pattern_count = static_cast<uint32_t>(patterns->patterns.size()),
      .kind = "sim_plugin",
      .target = "int8-tiles-16-plugin",
      .patterns = patterns->patterns.data(),
      .accepts = Accepts,
      .code_create = CreateCode,
      .code_add = AddCode,
      .code_finish = FinishCode,
      .code_destroy = DestroyCode,
      .device_count = CountDevices,
      .device_open = OpenDevice,
      .block_create = CreateBlock,
      .block_destroy = DestroyBlock,
      .code_load = LoadCode,
      .code_unload = UnloadCode,
      .stream_create = CreateStream,
      .stream_destroy = DestroyStream,
      .copy_in = CopyIn,
      .copy_out = CopyOut,
      .launch = Launch,
      .wait = Wait,
      .stream_times = TakeTimes,
  };
  return abi == RVM_ACCELERATOR_ABI ? &table : nullptr;
}
