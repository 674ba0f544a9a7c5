// A path through a program of which only shapes and counts are known.
#ifndef RVM_VM_FORECAST_PATH_H_
#define RVM_VM_FORECAST_PATH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/data_type.h"
#include "base/dim.h"
#include "serialization/isa/isa.h"
#include "vm/forecast/memory_forecast.h"
#include "vm/link/link_info.h"

namespace rvm::vm::forecast {

// Value of a register or a field.
struct Shadow {
  enum class Kind : uint8_t {
    kUnknown,  // data, or nothing
    kInt,
    kTag,     // a constructor without fields
    kObject,  // an index of Path's objects
  };
  Kind kind = Kind::kUnknown;
  int64_t value = 0;

  bool is(Kind k) const { return kind == k; }
};

struct ShadowObject {
  static constexpr int64_t kForever = -1;
  int64_t count = 1;      // kForever: of constants and planned tensors
  int64_t bytes = 0;      // that go when it dies
  uint16_t layout = 0;    // as in link_info.h; 0: a tensor
  bool takeable = false;  // a tensor with elements of its own
  bool may_reshape = false;
  bool is_view = false;
  Shape shape;
  Shadow owner;             // of the elements of a view
  int64_t grown_bytes = 0;  // size of the elements of a tensor that grows, in a block with room for more
  std::vector<Shadow> fields;
  // Size of a tensor with elements of its own, in a program that uses devices.
  int64_t element_bytes = 0;
  std::vector<bool> lanes;   // those with a copy; empty: none has had one
  bool on_host = true;       // the host has the elements
  int64_t copied_bytes = 0;  // of the host's copy of what a device made
};

// Memory of a device, as DeviceLane takes it.
struct ShadowLane {
  int64_t used_bytes = 0;
  int64_t reserved_bytes = 0;       // and those of blocks that are free
  std::map<int64_t, int64_t> free;  // how many blocks of each size
};

struct ShadowFrame {
  FunctionId function;
  uint32_t pc = 0;                // of the instruction to do next
  std::vector<uint16_t> results;  // the caller's registers for the result, or for its fields
  bool has_forked = false;        // data decided something in this activation
  std::vector<Shadow> registers;
};

constexpr int64_t RoundUp64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Bytes of the elements; INT64_MAX if they are too many.
int64_t ElementBytes(std::span<const int64_t> shape, DataType dtype);

// Facts of all paths, and what they are about.
struct Survey {
  const Executable& executable;
  const LinkInfo& link;
  MemoryForecast forecast;

  // Counts a call among those that may wait.
  void CountWaiting(const KernelInfo& kernel, const Operand& args, std::span<const int64_t> symbols);
};

class Path {
 public:
  explicit Path(Survey& survey) : survey_(&survey), lanes_(survey.forecast.devices.size()) {}

  // Registers and objects, all that a copy copies; calls beyond this are not followed.
  static constexpr size_t kMaxSize = 1'000'000;
  size_t size() const { return num_registers_ + objects_.size() + constants_.size(); }

  // Enters the entry with its arguments.
  void Enter(FunctionId function, std::vector<Shadow> args);
  Shadow NewArgument(std::span<const int64_t> shape, int64_t element_bytes);
  Shadow NewCell(uint16_t layout, std::vector<Shadow> fields);

  // Does one instruction. Where data decides what follows, `this` goes one way and `others` get the rest.
  // False at the end of the path, also when no more can be said: see unbounded.
  bool Step(std::vector<Path>& others);

  // Returns the place and the amounts that the path holds there: paths with equal ones continue equally.
  std::string Place() const;
  std::vector<int64_t> Amounts() const;
  const std::string& unbounded() const { return unbounded_; }
  // Returns the message for a path that came by repeatedly, each time holding more.
  std::string GrowsHere() { return absl::StrCat("`", function().name, "`: data decides how much is kept"); }
  bool just_forked() const { return just_forked_; }

 private:
  ShadowFrame& frame() { return frames_.back(); }
  const FunctionDesc& function() { return survey_->executable.functions[frame().function.value]; }
  const TypeDesc& type(uint16_t reg) { return survey_->executable.types[function().registers[reg].type.value]; }
  Shadow& reg(uint16_t r) { return frame().registers[r]; }
  ShadowObject* Object(Shadow shadow) {
    return shadow.is(Shadow::Kind::kObject) ? &objects_[static_cast<size_t>(shadow.value)] : nullptr;
  }
  bool Unbounded(const std::string& why);

  // ---- memory
  Shadow Make(ShadowObject object);
  void Retain(Shadow shadow);
  void Drop(Shadow shadow);
  void Grow(int64_t bytes);
  // Returns the shape of what `r` holds, by its type if need be; nullopt if only data says it.
  std::optional<Shape> ShapeOf(Shadow shadow, const TypeDesc& type);
  // Returns the objects that can be reached from `shadow`, itself included.
  std::vector<ShadowObject*> Reachable(Shadow shadow);
  Shadow Constant(uint32_t index);

  // ---- devices, as DeviceTensors has them (device_memory.cc); false if the path ends
  // The tensor that has the elements; null if it is data.
  ShadowObject* RootOf(Shadow tensor);
  bool TakeBlock(size_t lane, int64_t bytes);
  // For work that also does without it.
  void KeepBlock(size_t lane, int64_t bytes);
  void GiveBlock(size_t lane, int64_t bytes);
  bool FetchToHost(ShadowObject& tensor);
  bool FetchToHost(Shadow tensor);
  bool Fetch(Shadow tensor, size_t lane);
  // The arguments of a kernel, where it runs.
  bool FetchArgs(const KernelInfo& kernel, const Operand& args);
  // Takes the memory that a kernel uses beside its tensors during a launch.
  bool TakeForLaunch(const KernelInfo& kernel, std::span<const int64_t> symbols);
  bool MakeDeviceResult(const KernelInfo& kernel, ShadowObject& tensor);
  void ReleaseElements(const ShadowObject& tensor);

  // ---- instructions (instruction_steps.cc)
  bool Do(const Instruction& i, std::vector<Path>& others);
  bool DoScalar(const Instruction& i);
  bool Branch(const Instruction& i, std::vector<Path>& others);
  bool Switch(const Instruction& i, std::vector<Path>& others);
  bool Fork(const Operand& targets, uint32_t next, std::vector<Path>& others);
  bool Call(FunctionId callee, std::vector<Shadow> args, std::vector<uint16_t> dsts, bool is_tail);
  bool CallClosure(const Instruction& i);
  bool CallHost(const Instruction& i);
  // Returns a value of the type that comes from the host; nullopt if the type leaves its size open.
  std::optional<Shadow> HostValue(TypeId type);
  bool Return(std::vector<Shadow> results);
  void Leave();
  void Unpack(const Operand& outs, Shadow cell);
  bool CallKernel(const Instruction& i);
  // Returns whether a result that grows takes the memory of the argument that it begins as. If it does not, but a later
  // one may, sets the bytes for its elements to more than it has.
  bool GrowsInto(Shadow arg, const ShadowObject& grown, int64_t bytes, int64_t& capacity);
  bool MakeResults(const Instruction& i, const KernelInfo& kernel, std::span<const int64_t> symbols,
                   const Operand& args);
  bool View(const Instruction& i);
  std::vector<Shadow> Values(const Operand& regs);
  static std::vector<uint16_t> Registers(const Operand& regs);

  Survey* survey_;
  std::vector<ShadowFrame> frames_;
  size_t num_registers_ = 0;  // of all frames
  std::vector<ShadowObject> objects_;
  std::vector<int64_t> free_;  // indices in objects_
  std::map<uint32_t, Shadow> constants_;
  std::vector<ShadowLane> lanes_;  // of the devices; none in a program that uses none
  int64_t copied_bytes_ = 0;
  int64_t live_bytes_ = 0;
  int64_t grown_bytes_ = 0;  // of all tensors: loops that append are told apart by it
  int64_t arena_bytes_ = 0;
  bool just_forked_ = false;
  std::string unbounded_;
};

}  // namespace rvm::vm::forecast

#endif  // RVM_VM_FORECAST_PATH_H_
