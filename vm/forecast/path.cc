#include "vm/forecast/path.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vm/forecast/waiting_calls.h"

namespace rvm::vm::forecast {

void Survey::CountWaiting(const KernelInfo& kernel, const Operand& args, std::span<const int64_t> symbols) {
  WaitingCall call = ForecastWaiting(link, kernel, args, symbols);
  forecast.waiting_call_bytes = std::max(forecast.waiting_call_bytes, call.bytes);
  forecast.workspace_bytes = std::max(forecast.workspace_bytes, call.workspace_bytes);
}

bool Path::Unbounded(const std::string& why) {
  unbounded_ = absl::StrCat("`", function().name, "`: ", why);
  return false;
}

void Path::Grow(int64_t bytes) {
  live_bytes_ += bytes;
  survey_->forecast.peak_bytes = std::max(survey_->forecast.peak_bytes, live_bytes_);
}

Shadow Path::Make(ShadowObject object) {
  Grow(object.bytes);
  if (!free_.empty()) {
    int64_t index = free_.back();
    free_.pop_back();
    objects_[static_cast<size_t>(index)] = std::move(object);
    return {Shadow::Kind::kObject, index};
  }
  objects_.push_back(std::move(object));
  return {Shadow::Kind::kObject, static_cast<int64_t>(objects_.size()) - 1};
}

Shadow Path::NewArgument(std::span<const int64_t> shape, int64_t element_bytes) {
  ShadowObject tensor;
  tensor.bytes = static_cast<int64_t>(sizeof(Tensor) + shape.size() * sizeof(int64_t));
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.may_reshape = true;
  tensor.element_bytes = element_bytes;
  return Make(std::move(tensor));
}

Shadow Path::NewCell(uint16_t layout, std::vector<Shadow> fields) {
  ShadowObject cell;
  cell.bytes = survey_->link.layouts[layout].bytes;
  cell.layout = layout;
  cell.fields = std::move(fields);
  return Make(std::move(cell));
}

void Path::Retain(Shadow shadow) {
  ShadowObject* object = Object(shadow);
  if (object != nullptr && object->count != ShadowObject::kForever) ++object->count;
}

void Path::Drop(Shadow shadow) {
  std::vector<Shadow> dropped = {shadow};
  while (!dropped.empty()) {
    Shadow next = dropped.back();
    dropped.pop_back();
    ShadowObject* object = Object(next);
    if (object == nullptr || object->count == ShadowObject::kForever || --object->count > 0) continue;
    dropped.insert(dropped.end(), object->fields.begin(), object->fields.end());
    dropped.push_back(object->owner);
    live_bytes_ -= object->bytes;
    grown_bytes_ -= object->grown_bytes;
    ReleaseElements(*object);
    *object = {};
    free_.push_back(next.value);
  }
}

std::optional<Shape> Path::ShapeOf(Shadow shadow, const TypeDesc& type) {
  if (ShadowObject* object = Object(shadow)) return object->shape;
  bool known = std::find(type.dims.begin(), type.dims.end(), TypeDesc::kUnknownDim) == type.dims.end();
  return known ? std::optional(Shape(type.dims.begin(), type.dims.end())) : std::nullopt;
}

std::vector<ShadowObject*> Path::Reachable(Shadow shadow) {
  std::vector<ShadowObject*> reached;
  std::set<int64_t> seen;
  std::vector<Shadow> left = {shadow};
  while (!left.empty()) {
    Shadow next = left.back();
    left.pop_back();
    ShadowObject* object = Object(next);
    if (object == nullptr || !seen.insert(next.value).second) continue;
    reached.push_back(object);
    left.push_back(object->owner);
    left.insert(left.end(), object->fields.begin(), object->fields.end());
  }
  return reached;
}

Shadow Path::Constant(uint32_t index) {
  auto [place, is_new] = constants_.try_emplace(index);
  if (is_new) {
    const Literal& literal = survey_->executable.constants[index];
    ShadowObject tensor;
    tensor.count = ShadowObject::kForever;
    tensor.shape = literal.shape();
    tensor.element_bytes = literal.bytes();
    place->second = Make(std::move(tensor));
  }
  return place->second;
}

void Path::Enter(FunctionId function, std::vector<Shadow> args) {
  const FunctionDesc& desc = survey_->executable.functions[function.value];
  args.resize(desc.registers.size());
  num_registers_ += args.size();
  frames_.push_back({function, 0, {}, false, std::move(args)});
  arena_bytes_ += desc.arena_bytes;
  survey_->forecast.arena_bytes = std::max(survey_->forecast.arena_bytes, arena_bytes_);
}

void Path::Leave() {
  arena_bytes_ -= function().arena_bytes;
  num_registers_ -= frame().registers.size();
  frames_.pop_back();
}

std::string Path::Place() const {
  std::string place;
  for (const ShadowFrame& frame : frames_) absl::StrAppend(&place, frame.function.value, ":", frame.pc, " ");
  return place;
}

std::vector<int64_t> Path::Amounts() const {
  std::vector<int64_t> amounts = {live_bytes_, grown_bytes_};
  if (lanes_.empty()) return amounts;
  amounts.push_back(copied_bytes_);
  for (const ShadowLane& lane : lanes_) {
    amounts.insert(amounts.end(), {lane.used_bytes, static_cast<int64_t>(lane.free.size())});
    for (auto [size, count] : lane.free) amounts.insert(amounts.end(), {size, count});
  }
  // And which tensors are on a device.
  auto add = [&](Shadow shadow) {
    if (!shadow.is(Shadow::Kind::kObject)) return;
    const ShadowObject& object = objects_[static_cast<size_t>(shadow.value)];
    int64_t places = object.on_host;
    for (bool there : object.lanes) places = 2 * places + there;
    amounts.push_back(places);
  };
  for (const ShadowFrame& frame : frames_) {
    for (Shadow shadow : frame.registers) add(shadow);
  }
  for (auto [index, shadow] : constants_) {
    amounts.push_back(index);
    add(shadow);
  }
  return amounts;
}

bool Path::Step(std::vector<Path>& others) {
  just_forked_ = false;
  std::optional<Instruction> instruction = ReadInstruction(function().code, frame().pc);
  frame().pc += instruction->length;
  return Do(*instruction, others);
}

}  // namespace rvm::vm::forecast
