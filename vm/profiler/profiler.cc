#include "vm/profiler/profiler.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace rvm::vm {
namespace {

int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t ThreadNanoseconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// About ten microseconds. A thread that is preempted loses more.
constexpr double kLongTicks = 30'000;

double ClockCost() {
  constexpr int kLooks = 1000;
  double least = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < 20; ++batch) {
    Profiler::Ticks sum = 0;
    for (int i = 0; i < kLooks; ++i) {
      Profiler::Ticks began = Profiler::Now();
      sum += Profiler::Now() - began;
    }
    least = std::min(least, static_cast<double>(sum) / kLooks);
  }
  return least;
}

std::string TensorText(const KernelInfo::TensorInfo& tensor, std::span<const int64_t> symbols, int64_t& bytes) {
  Shape shape;
  for (const DimProgram& program : tensor.programs) shape.push_back(program.Evaluate(symbols).value_or(0));
  // The VM checks the shape before it calls the kernel: no extent is too large, and its bytes fit.
  int64_t elements = NumElements(shape).value_or(0);
  bytes += elements * tensor.dtype.bytes();
  return tensor.scalar ? tensor.dtype.ToString() : absl::StrCat(ShapeToString(shape), " ", tensor.dtype.ToString());
}

uint32_t KernelOf(const Instruction& instruction) {
  for (const Operand& operand : instruction.operands()) {
    if (operand.kind() == OperandKind::kKernel) return operand.u32();
  }
  return DeviceWork::kNone;
}

uint32_t LayoutOf(const Instruction& instruction) {
  for (const Operand& operand : instruction.operands()) {
    if (operand.kind() == OperandKind::kLayout) return operand.u32();
  }
  return 0;
}

int64_t PlannedOf(const Instruction& instruction) {
  int64_t planned = 0;
  for (const Operand& operand : instruction.operands()) {
    if (operand.kind() != OperandKind::kOffsets) continue;
    for (uint32_t i = 0; i < operand.count; ++i) planned += operand.u32(i) != kNoOffset ? 1 : 0;
  }
  return planned;
}

size_t IndexOf(ProfilePhase phase) { return static_cast<size_t>(phase); }

}  // namespace

Profiler::Profiler(int64_t max_trace_events)
    : clock_cost_(ClockCost()),
      max_events_(static_cast<size_t>(max_trace_events)),
      made_at_(Now()),
      made_at_ns_(SteadyNanoseconds()) {}

const LinkInfo& Profiler::Attach(const Executable& executable, const LinkInfo& link, RvmKernel kernel_probe) {
  RVM_CHECK(executable_ == nullptr, "a profiler watches one machine");
  executable_ = &executable;
  link_ = std::make_unique<LinkInfo>(link);
  functions_.resize(executable.functions.size());
  cells_.resize(executable.layouts.size());
  for (size_t i = 0; i < executable.functions.size(); ++i) {
    const std::vector<uint16_t>& code = executable.functions[i].code;
    std::vector<uint16_t> probed = code;
    for (uint32_t pc = 0; pc < code.size();) {
      probed[pc] = kProbeCode;
      pc += ReadInstruction(code, pc)->length;
    }
    code_.push_back(std::move(probed));
    link_->functions[i].code = code_.back().data();
  }
  for (KernelInfo& kernel : link_->kernels) {
    Kernel& watched = kernels_.emplace_back();
    // A kernel with a recipe has no function.
    if (kernel.function != nullptr) watched.function = std::exchange(kernel.function, kernel_probe);
  }
  if (link.device != nullptr) devices_.resize(link.device->parts.size());
  return *link_;
}

double Profiler::NanosecondsPerTick() const {
  // Long enough that the time between reading the two clocks is negligible.
  while (SteadyNanoseconds() - made_at_ns_ < 1'000'000) {
  }
  return static_cast<double>(SteadyNanoseconds() - made_at_ns_) / static_cast<double>(Now() - made_at_);
}

void Profiler::NoteClocks() {
  wall_before_ = SteadyNanoseconds();
  processor_before_ = ThreadNanoseconds();
}

double Profiler::WithoutAbsence(double ticks) {
  if (ticks < kLongTicks) [[likely]]
    return ticks;
  int64_t wall = wall_before_;
  int64_t processor = processor_before_;
  NoteClocks();
  auto away_ns = static_cast<double>((wall_before_ - wall) - (processor_before_ - processor));
  double away = std::clamp(away_ns / NanosecondsPerTick(), 0.0, ticks);
  away_ += away;
  return ticks - away;
}

// ---- phases

void Profiler::NoteHeap() {
  allocations_before_ = heap_->allocations();
  objects_before_ = heap_->live_objects();
  bytes_before_ = heap_->live_bytes();
  objects_made_ = 0;
  bytes_made_ = 0;
}

void Profiler::BeginPhase(ProfilePhase phase) {
  if (phase == ProfilePhase::kImport) ++invokes_;
  NoteHeap();
  NoteClocks();
  began_ = Now();
}

void Profiler::EndPhase(ProfilePhase phase) {
  Ticks now = Now();
  Ticks whole = now - began_;
  if (phase == ProfilePhase::kRun) {
    Close(now);
    now_.reset();
    kernel_now_ = DeviceWork::kNone;
    LeaveAll(now);
  } else {
    phase_ticks_[IndexOf(phase)] +=
        WithoutAbsence(static_cast<double>(whole) - clock_cost_ - std::exchange(elsewhere_, 0));
    Record({TraceEvent::Kind::kPhase, static_cast<uint32_t>(phase), 0, began_, whole});
  }
  ++phase_counts_[IndexOf(phase)];
  if (phase == ProfilePhase::kImport) {
    imported_.count += heap_->live_objects() - objects_before_;
    imported_.bytes += heap_->live_bytes() - bytes_before_;
  }
}

void Profiler::CountExported(int64_t bytes, bool copied) {
  Profile::Amount& amount = copied ? copied_ : moved_;
  ++amount.count;
  amount.bytes += bytes;
}

// ---- instructions

uint16_t Profiler::Before(const uint16_t* pc, const FunctionInfo* fn, Ticks now) {
  Close(now);
  auto function = static_cast<uint32_t>(fn - link_->functions.data());
  if (std::exchange(retries_, false)) {
    // Counted already.
  } else {
    FollowFlow(function, now);
    pc_now_ = static_cast<uint32_t>(pc - fn->code);
    now_ = ReadInstruction(executable_->functions[function].code, pc_now_);
    function_now_ = function;
    ++functions_[function].instructions;
    ++opcodes_[static_cast<uint16_t>(now_->opcode())].count;
    kernel_now_ = KernelOf(*now_);
  }
  NoteHeap();
  return static_cast<uint16_t>(now_->opcode());
}

std::optional<Profiler::Ended> Profiler::EndedWithResults() const {
  if (!now_.has_value() || retries_) return std::nullopt;
  if (!IsKernelCall(now_->opcode()) && now_->opcode() != Opcode::kView) return std::nullopt;
  static_assert(SeenResult::kNoKernel == DeviceWork::kNone);
  return Ended{&*now_, function_now_, pc_now_, kernel_now_};
}

void Profiler::Close(Ticks now) {
  double own = WithoutAbsence(static_cast<double>(now - began_) - clock_cost_ - std::exchange(elsewhere_, 0));
  machine_ += own;
  if (!now_.has_value()) {
    phase_ticks_[IndexOf(ProfilePhase::kRun)] += own;
    return;
  }
  opcodes_[static_cast<uint16_t>(now_->opcode())].ticks += own;
  functions_[function_now_].self += own;
  CountMemory(*now_);
}

void Profiler::CountMemory(const Instruction& instruction) {
  int64_t allocations = heap_->allocations() - allocations_before_;
  int64_t objects = heap_->live_objects() - objects_before_;
  int64_t bytes = heap_->live_bytes() - bytes_before_;
  auto add = [&](ProfileMemory kind, int64_t count, int64_t more_bytes) {
    Profile::Amount& amount = memory_[static_cast<size_t>(kind)];
    amount.count += count;
    amount.bytes += more_bytes;
  };
  Opcode opcode = instruction.opcode();
  if (opcode == Opcode::kMakeCell || opcode == Opcode::kMakeCellIn) {
    Cell& cell = cells_[LayoutOf(instruction)];
    cell.made += objects;
    if (opcode == Opcode::kMakeCellIn && allocations == 0) ++cell.reused;
    return;
  }
  // The source of the view may have been freed with it.
  if (opcode == Opcode::kView) return add(ProfileMemory::kView, allocations, std::max<int64_t>(bytes, 0));
  if (opcode == Opcode::kCallKernelPlanned) add(ProfileMemory::kPlanned, PlannedOf(instruction), 0);
  if (IsKernelCall(opcode)) {
    add(ProfileMemory::kTensor, objects_made_, bytes_made_);
    objects = objects_made_;
  }
  // Allocations that are not objects are raw memory.
  if (allocations > 0) add(ProfileMemory::kChunk, allocations - objects, 0);
}

// ---- functions

void Profiler::FollowFlow(uint32_t function, Ticks now) {
  if (!now_.has_value()) return Enter(function, now);
  if (now_->spec->flow == Flow::kReturn) Leave(function_now_, now);
  bool is_tail_call = now_->opcode() == Opcode::kTailCall || now_->opcode() == Opcode::kTailCallClosure;
  if (now_->spec->flow == Flow::kCall || is_tail_call) Enter(function, now);
}

void Profiler::Enter(uint32_t function, Ticks now) {
  Function& f = functions_[function];
  ++f.calls;
  if (f.active++ == 0) f.entered = machine_;
  ++open_events_;
  if (!Record({TraceEvent::Kind::kEnter, function, 0, now, 0})) ++open_dropped_;
}

void Profiler::Leave(uint32_t function, Ticks now) {
  Function& f = functions_[function];
  if (--f.active == 0) f.inclusive += machine_ - f.entered;
  --open_events_;
  if (open_dropped_ > 0) {
    --open_dropped_;
  } else if (max_events_ > 0) {
    events_.push_back({TraceEvent::Kind::kLeave, function, 0, now, 0});
  }
}

// After the last return, or after an error in any depth.
void Profiler::LeaveAll(Ticks now) {
  for (Function& f : functions_) {
    if (f.active > 0) f.inclusive += machine_ - f.entered;
    f.active = 0;
  }
  for (; open_events_ > open_dropped_; --open_events_) {
    if (max_events_ > 0) events_.push_back({TraceEvent::Kind::kLeave, 0, 0, now, 0});
  }
  open_events_ = 0;
  open_dropped_ = 0;
}

// ---- kernels

RvmKernel Profiler::BeginKernel(const int64_t* dims) {
  kernel_came_ = Now();
  // The results are allocated, and the arguments that the call consumes are not yet freed.
  objects_made_ = heap_->live_objects() - objects_before_;
  bytes_made_ = heap_->live_bytes() - bytes_before_;
  shape_now_ = ShapeOf(kernels_[kernel_now_], link_->kernels[kernel_now_], dims);
  is_in_kernel_ = true;
  waits_in_kernel_ = 0;
  kernel_began_ = Now();
  return kernels_[kernel_now_].function;
}

void Profiler::EndKernel(bool is_alone) {
  Ticks ended = Now();
  Kernel& kernel = kernels_[kernel_now_];
  is_in_kernel_ = false;
  double ticks = std::max(0.0, static_cast<double>(ended - kernel_began_) - clock_cost_ - waits_in_kernel_);
  // A thread that shares the work waits for the others; that is the kernel's time, too.
  if (is_alone) ticks = WithoutAbsence(ticks);
  ++kernel.calls;
  kernel.ticks += ticks;
  kernel.least = std::min(kernel.least, ticks);
  kernel.most = std::max(kernel.most, ticks);
  if (shape_now_ < kernel.shapes.size()) kernel.shapes[shape_now_].ticks += ticks;
  functions_[function_now_].kernels += ticks;
  machine_ += ticks;
  Record({TraceEvent::Kind::kKernel, kernel_now_, shape_now_, kernel_began_, ended - kernel_began_});
  elsewhere_ += static_cast<double>(Now() - kernel_came_) + clock_cost_;
}

// ---- devices

void Profiler::BeginWait() { wait_began_ = Now(); }

void Profiler::EndWait(size_t device, Ticks ended) {
  // The thread sleeps while it waits; that is no absence.
  double ticks = std::max(0.0, static_cast<double>(ended - wait_began_) - clock_cost_);
  auto count = [ticks](Use& use) {
    ++use.waits;
    use.wait_ticks += ticks;
  };
  count(devices_[device].use);
  if (now_.has_value()) count(functions_[function_now_].use);
  if (kernel_now_ != DeviceWork::kNone) count(kernels_[kernel_now_].use);
  machine_ += ticks;
  Record({TraceEvent::Kind::kWait, static_cast<uint32_t>(device), 0, wait_began_, ended - wait_began_});
  NoteClocks();
  double whole = static_cast<double>(Now() - wait_began_) + clock_cost_;
  (is_in_kernel_ ? waits_in_kernel_ : elsewhere_) += whole;
}

DeviceWork Profiler::WorkOfNow(DeviceWork::Kind kind, int64_t bytes) const {
  return {kind, bytes, now_.has_value() ? function_now_ : DeviceWork::kNone, kernel_now_, shape_now_};
}

void Profiler::CountWork(size_t device, const DeviceWork& work, double begin_ns, double end_ns, double latest_ns) {
  double ns = end_ns - begin_ns;
  auto count = [&](Use& use) {
    ++use.counts[work.kind];
    use.ns[work.kind] += ns;
    use.bytes[work.kind] += work.bytes;
  };
  Device& row = devices_[device];
  count(row.use);
  if (work.function != DeviceWork::kNone) count(functions_[work.function].use);
  if (work.kernel != DeviceWork::kNone) {
    Kernel& kernel = kernels_[work.kernel];
    count(kernel.use);
    bool is_kept = work.kind == DeviceWork::kLaunch && work.shape < kernel.shapes.size();
    if (is_kept) kernel.shapes[work.shape].device_ns += ns;
  }
  // The host notices late and never early: the least difference of the clocks is nearest to the true one.
  row.clock_offset = std::min(row.clock_offset, static_cast<double>(SteadyNanoseconds() - made_at_ns_) - latest_ns);
  if (max_events_ == 0 || !HasRoomForEvent()) return;
  constexpr TraceEvent::Kind kKinds[] = {TraceEvent::Kind::kLaunch, TraceEvent::Kind::kCopyIn,
                                         TraceEvent::Kind::kCopyOut};
  device_events_.push_back({kKinds[work.kind], work.kernel, work.shape, begin_ns + row.clock_offset, ns,
                            static_cast<uint32_t>(device), work.bytes});
}

Profile::DeviceUse Profiler::UseOf(const Use& use, double ns_per_tick) const {
  return {.launches = {use.counts[DeviceWork::kLaunch], use.ns[DeviceWork::kLaunch]},
          .copies_in = {use.counts[DeviceWork::kCopyIn], use.ns[DeviceWork::kCopyIn]},
          .copies_out = {use.counts[DeviceWork::kCopyOut], use.ns[DeviceWork::kCopyOut]},
          .bytes_in = use.bytes[DeviceWork::kCopyIn],
          .bytes_out = use.bytes[DeviceWork::kCopyOut],
          .waits = {use.waits, use.wait_ticks * ns_per_tick}};
}

// Counts a call with these shapes. Gives their index in `shapes`, or its size if there are too many to keep.
uint32_t Profiler::ShapeOf(Kernel& kernel, const KernelInfo& info, const int64_t* dims) {
  std::vector<int64_t> symbols(dims, dims + info.desc->num_symbols);
  auto known = kernel.shape_of_symbols.find(symbols);
  if (known == kernel.shape_of_symbols.end()) {
    ShapeSeen shape;
    for (const KernelInfo::TensorInfo& param : info.params) {
      absl::StrAppend(&shape.text, shape.text.empty() ? "" : ", ", TensorText(param, symbols, shape.bytes));
    }
    for (const KernelInfo::TensorInfo& result : info.results) {
      absl::StrAppend(&shape.text, &result == info.results.data() ? " -> " : ", ",
                      TensorText(result, symbols, shape.bytes));
    }
    auto index = static_cast<uint32_t>(kernel.shapes.size());
    if (index == Profile::kMaxShapes) {
      ++kernel.other_shapes;
      kernel.bytes += shape.bytes;
      return index;
    }
    shape.symbols = symbols;
    known = kernel.shape_of_symbols.emplace(std::move(symbols), index).first;
    kernel.shapes.push_back(std::move(shape));
  }
  ShapeSeen& shape = kernel.shapes[known->second];
  ++shape.calls;
  kernel.bytes += shape.bytes;
  return known->second;
}

// ---- results

const std::string& Profiler::DeviceName(size_t device) const { return link_->device->parts[device].device->info().id; }

bool Profiler::HasRoomForEvent() {
  if (events_.size() + device_events_.size() < max_events_) return true;
  ++dropped_events_;
  return false;
}

bool Profiler::Record(const Event& event) {
  if (max_events_ == 0 || !HasRoomForEvent()) return false;
  events_.push_back(event);
  return true;
}

Profile Profiler::Snapshot() const {
  double scale = NanosecondsPerTick();
  auto ns = [scale](double ticks) { return std::max(0.0, ticks) * scale; };
  Profile profile;
  profile.invokes = invokes_;
  for (size_t i = 0; i < kProfilePhases; ++i) profile.phases[i] = {phase_counts_[i], ns(phase_ticks_[i])};
  profile.away_ns = ns(away_);
  profile.imported = imported_;
  profile.exported_copied = copied_;
  profile.exported_moved = moved_;
  profile.memory = memory_;
  for (const OpcodeSpec& spec : kIsa) {
    const OpcodeSum& sum = opcodes_[static_cast<uint16_t>(spec.opcode)];
    if (sum.count > 0) profile.opcodes.push_back({spec.opcode, sum.count, ns(sum.ticks)});
  }
  for (uint32_t i = 0; i < functions_.size(); ++i) {
    const Function& f = functions_[i];
    if (f.calls == 0) continue;
    profile.functions.push_back(
        {FunctionId(i), f.calls, f.instructions, ns(f.self), ns(f.kernels), ns(f.inclusive), UseOf(f.use, scale)});
  }
  for (uint32_t i = 0; i < kernels_.size(); ++i) {
    const Kernel& k = kernels_[i];
    if (k.calls == 0) continue;
    const DeviceKernel* on_device = link_->kernels[i].device;
    Profile::KernelRow row = {.kernel = KernelId(i),
                              .device = on_device == nullptr ? "" : DeviceName(on_device->part),
                              .calls = k.calls,
                              .ns = ns(k.ticks),
                              .least_ns = ns(k.least),
                              .most_ns = ns(k.most),
                              .bytes = k.bytes,
                              .shapes = {},
                              .other_shapes = k.other_shapes,
                              .use = UseOf(k.use, scale)};
    for (const ShapeSeen& shape : k.shapes) {
      row.shapes.push_back({shape.text, shape.calls, ns(shape.ticks), shape.device_ns, shape.symbols});
    }
    profile.kernels.push_back(std::move(row));
  }
  for (uint32_t i = 0; i < cells_.size(); ++i) {
    const Cell& cell = cells_[i];
    if (cell.made + cell.reused == 0) continue;
    // Layout 0 of the heap is the tensor.
    profile.cells.push_back({LayoutId(i), {cell.made, cell.made * link_->layouts[i + 1].bytes}, cell.reused});
  }
  for (size_t i = 0; i < devices_.size(); ++i) {
    profile.devices.push_back({DeviceName(i), UseOf(devices_[i].use, scale)});
  }
  return profile;
}

void Profiler::Clear() {
  for (Device& d : devices_) d.use = Use{};
  for (Function& f : functions_) f = Function{};
  for (Kernel& k : kernels_) {
    RvmKernel function = k.function;
    k = Kernel{};
    k.function = function;
  }
  std::fill(cells_.begin(), cells_.end(), Cell{});
  opcodes_ = {};
  invokes_ = 0;
  phase_ticks_ = {};
  phase_counts_ = {};
  away_ = 0;
  imported_ = copied_ = moved_ = {};
  memory_ = {};
  events_.clear();
  device_events_.clear();
  dropped_events_ = 0;
}

std::vector<TraceEvent> Profiler::Trace() const {
  double scale = NanosecondsPerTick();
  std::vector<TraceEvent> trace;
  for (const Event& event : events_) {
    trace.push_back({event.kind, event.id, event.shape, static_cast<double>(event.begin - made_at_) * scale,
                     static_cast<double>(event.length) * scale});
  }
  trace.insert(trace.end(), device_events_.begin(), device_events_.end());
  return trace;
}

}  // namespace rvm::vm
