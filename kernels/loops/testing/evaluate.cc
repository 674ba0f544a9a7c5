#include "kernels/loops/testing/evaluate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/loops/verify.h"
#include "kernels/schedule/block.h"
#include "vm/recipe/lane_functions.h"

namespace rvm::loops {
namespace {

constexpr auto kThreads = static_cast<size_t>(schedule::kBlockThreads);
using Mask = std::bitset<kThreads>;            // of the threads that run a statement
using Lanes = std::array<uint64_t, kThreads>;  // lanes of vm/recipe/lane_functions.h: one for each thread

// The accesses to a byte in a launch.
struct Accesses {
  static constexpr int64_t kNone = -1, kSeveral = -2;
  // The block, the thread and the number of its barriers so far.
  int64_t store_block = kNone, store_thread = kNone, store_epoch = kNone;
  int64_t load_block = kNone, load_thread = kNone, load_epoch = kNone;
};

// A buffer of the program.
struct Place {
  Memory* memory = nullptr;
  int64_t first = 0;     // byte
  int64_t elements = 0;  // of each thread, if it is private
  std::vector<Accesses> accesses;
};

class Evaluator {
 public:
  Evaluator(const Program& program, const SymbolValues& symbols, KernelMemory& memory)
      : program_(program), symbols_(symbols), memory_(memory), values_(program.values.size()) {}

  absl::Status Run() {
    FindPlaces();
    for (block_ = 0; block_ < Value(program_.blocks); ++block_) {
      BeginBlock();
      RVM_RETURN_IF_ERROR(RunBody(program_.body, Mask().set()));
    }
    return absl::OkStatus();
  }

 private:
  int64_t Value(const Dim& dim) const {
    return EvaluateDim(dim, [&](const Dim& leaf) { return std::optional<int64_t>(symbols_.at(leaf.id())); }).value();
  }
  Lanes& of(loops::Value value) { return values_[value.value]; }
  int64_t Int(loops::Value value, size_t thread) { return static_cast<int64_t>(of(value)[thread]); }

  absl::Status Fail(const Statement& s, size_t thread, std::string_view what) const {
    return absl::InternalError(
        absl::StrCat("thread ", thread, " of block ", block_, ": `", ToString(s), "`: ", std::string(what)));
  }

  void FindPlaces() {
    for (const Buffer& buffer : program_.buffers) {
      Place place{.elements = Value(buffer.elements)};
      switch (buffer.kind) {
        case BufferKind::kInput:
        case BufferKind::kScalar: place.memory = &memory_.inputs[buffer.number]; break;
        case BufferKind::kOutput: place.memory = &memory_.outputs[buffer.number]; break;
        case BufferKind::kWorkspace:
          place.memory = &memory_.workspace;
          place.first = Value(buffer.offset);
          break;
        case BufferKind::kShared:
        case BufferKind::kPrivate: {
          int64_t copies = buffer.kind == BufferKind::kPrivate ? schedule::kBlockThreads : 1;
          auto bytes = static_cast<size_t>(copies * place.elements * buffer.dtype.bytes());
          place.memory = own_.emplace_back(std::make_unique<Memory>(bytes)).get();
          break;
        }
      }
      if (buffer.kind != BufferKind::kPrivate) place.accesses.resize(place.memory->bytes.size());
      places_.push_back(std::move(place));
    }
  }

  void BeginBlock() {
    ++epoch_;
    for (std::unique_ptr<Memory>& memory : own_) memory->has_value.assign(memory->bytes.size(), false);
    for (size_t i = 0; i < places_.size(); ++i) {
      if (program_.buffers[i].kind == BufferKind::kShared) places_[i].accesses.assign(places_[i].accesses.size(), {});
    }
  }

  absl::Status RunBody(const std::vector<Statement>& body, const Mask& mask) {
    if (mask.none()) return absl::OkStatus();
    for (const Statement& s : body) RVM_RETURN_IF_ERROR(RunStatement(s, mask));
    return absl::OkStatus();
  }

  absl::Status RunStatement(const Statement& s, const Mask& mask) {
    switch (s.op) {
      case Op::kConstant: SetConstant(s); return absl::OkStatus();
      case Op::kDim: of(s.result).fill(static_cast<uint64_t>(Value(s.dim))); return absl::OkStatus();
      case Op::kBlock: of(s.result).fill(static_cast<uint64_t>(block_)); return absl::OkStatus();
      case Op::kThread:
        for (size_t i = 0; i < kThreads; ++i) of(s.result)[i] = i;
        return absl::OkStatus();
      case Op::kUnary:
      case Op::kBinary:
      case Op::kSelect:
      case Op::kCast:
      case Op::kBitcast: Compute(s); return absl::OkStatus();
      case Op::kLoad:
      case Op::kLoadOrZero:
      case Op::kStore: return Access(s, mask);
      case Op::kBarrier: {
        ++epoch_;
        size_t missing = 0;
        while (missing < kThreads && mask[missing]) ++missing;
        if (missing == kThreads) return absl::OkStatus();
        return Fail(s, missing, "it does not come to the barrier, and others do");
      }
      case Op::kFor: return RunFor(s, mask);
      case Op::kIf: {
        Mask inside;
        for (size_t i = 0; i < kThreads; ++i) inside[i] = mask[i] && of(s.a)[i] != 0;
        return RunBody(s.body, inside);
      }
    }
  }

  absl::Status RunFor(const Statement& s, const Mask& mask) {
    Lanes& at = of(s.result);
    at = of(s.a);
    for (bool runs = HasBarrier(s.body);; runs = false) {
      Mask inside;
      for (size_t i = 0; i < kThreads; ++i) {
        inside[i] = mask[i] && (runs || static_cast<int64_t>(at[i]) < Int(s.b, i));
        if (inside[i] && Int(s.c, i) <= 0) return Fail(s, i, "the loop makes no step");
      }
      if (inside.none()) return absl::OkStatus();
      RVM_RETURN_IF_ERROR(RunBody(s.body, inside));
      for (size_t i = 0; i < kThreads; ++i) at[i] += of(s.c)[i];
    }
  }

  void SetConstant(const Statement& s) {
    int64_t lane = s.bits;
    if (s.dtype.is_float()) {
      vm::FindCast(kFloat64, s.dtype)(&lane, &s.bits, 1);
    } else if (vm::UnaryFunction wrap = vm::FindWrap(s.dtype); wrap != nullptr) {
      wrap(&lane, &s.bits, 1);
    }
    vm::FindSpread(s.dtype)(of(s.result).data(), &lane, schedule::kBlockThreads);
  }

  void Compute(const Statement& s) {
    DataType from = s.op == Op::kSelect ? s.dtype : program_.type(s.a);
    void* to = of(s.result).data();
    constexpr int64_t n = schedule::kBlockThreads;
    bool wraps = false;
    if (s.op == Op::kUnary) {
      vm::FindUnary(static_cast<UnaryOp>(s.function), from)(to, of(s.a).data(), n);
      wraps = vm::Wraps(static_cast<UnaryOp>(s.function));
    } else if (s.op == Op::kBinary) {
      vm::FindBinary(static_cast<BinaryOp>(s.function), from)(to, of(s.a).data(), of(s.b).data(), false, false, n);
      wraps = vm::Wraps(static_cast<BinaryOp>(s.function));
    } else if (s.op == Op::kSelect) {
      const auto* condition = reinterpret_cast<const int64_t*>(of(s.a).data());
      vm::FindSelect(s.dtype)(to, condition, of(s.b).data(), of(s.c).data(), n);
    } else if (s.op == Op::kCast && from == s.dtype && !from.is_small_float()) {
      of(s.result) = of(s.a);
    } else if (s.op == Op::kCast) {
      vm::FindCast(from, s.dtype)(to, of(s.a).data(), n);
    } else {
      std::array<std::byte, kThreads * 8> bits;
      vm::FindStore(from)(bits.data(), 0, 1, of(s.a).data(), n);
      vm::FindLoad(s.dtype)(to, bits.data(), 0, 1, n);
    }
    if (!wraps || s.dtype.is_float()) return;
    if (vm::UnaryFunction wrap = vm::FindWrap(s.dtype); wrap != nullptr) wrap(to, to, n);
  }

  // Runs a load or a store of each thread.
  absl::Status Access(const Statement& s, const Mask& mask) {
    const Buffer& buffer = program_.buffer(s.buffer);
    Place& place = places_[s.buffer.value];
    const int64_t size = buffer.dtype.bytes(), lane = vm::LaneBytes(buffer.dtype);
    for (size_t i = 0; i < kThreads; ++i) {
      if (!mask[i]) continue;
      int64_t element = Int(s.a, i);
      bool is_store = s.op == Op::kStore;
      std::byte* value =
          reinterpret_cast<std::byte*>(of(is_store ? s.b : s.result).data()) + static_cast<int64_t>(i) * lane;
      if (element < 0 || element >= place.elements) {
        if (s.op != Op::kLoadOrZero)
          return Fail(s, i, absl::StrCat("there is no element ", element, " of ", place.elements));
        std::memset(value, 0, static_cast<size_t>(lane));
        continue;
      }
      if (buffer.kind == BufferKind::kPrivate) element += static_cast<int64_t>(i) * place.elements;
      int64_t at = place.first + element * size;
      RVM_RETURN_IF_ERROR(Record(s, i, place, at, size));
      std::byte* address = place.memory->bytes.data() + at;
      is_store ? vm::FindStore(buffer.dtype)(address, 0, 1, value, 1)
               : vm::FindLoad(buffer.dtype)(value, address, 0, 1, 1);
    }
    return absl::OkStatus();
  }

  absl::Status Record(const Statement& s, size_t thread, Place& place, int64_t first, int64_t size) {
    if (first + size > static_cast<int64_t>(place.memory->bytes.size()))
      return Fail(s, thread, "the element lies outside of the memory");
    auto number = static_cast<int64_t>(thread);
    for (auto at = static_cast<size_t>(first); at < static_cast<size_t>(first + size); ++at) {
      if (s.op == Op::kStore) {
        place.memory->has_value[at] = true;
      } else if (!place.memory->has_value[at]) {
        return Fail(s, thread, "the element has no value");
      }
      if (place.accesses.empty()) continue;
      Accesses& known = place.accesses[at];
      auto races = [&](int64_t block, int64_t other, int64_t epoch) {
        return block != Accesses::kNone && (block != block_ || (epoch == epoch_ && other != number));
      };
      if (races(known.store_block, known.store_thread, known.store_epoch)) {
        return Fail(s, thread,
                    absl::StrCat("thread ", known.store_thread, " of block ", known.store_block,
                                 " stores to the element at the same time"));
      }
      if (s.op == Op::kStore) {
        if (races(known.load_block, known.load_thread, known.load_epoch))
          return Fail(s, thread, "another thread reads the element at the same time");
        known.store_block = block_, known.store_thread = number, known.store_epoch = epoch_;
        continue;
      }
      bool is_now = known.load_block == block_ && known.load_epoch == epoch_;
      known.load_thread = !is_now || known.load_thread == number ? number : Accesses::kSeveral;
      bool is_first = known.load_block == Accesses::kNone || known.load_block == block_;
      known.load_block = is_first ? block_ : Accesses::kSeveral;
      known.load_epoch = epoch_;
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const SymbolValues& symbols_;
  KernelMemory& memory_;
  std::vector<Lanes> values_;
  std::vector<Place> places_;                 // by buffer
  std::vector<std::unique_ptr<Memory>> own_;  // of blocks and threads
  int64_t block_ = 0, epoch_ = 0;
};

}  // namespace

Memory::Memory(const Literal& tensor)
    : bytes(tensor.data(), tensor.data() + tensor.bytes()), has_value(bytes.size(), true) {}

absl::Status Evaluate(const Program& program, const SymbolValues& symbols, KernelMemory& memory) {
  return Evaluator(program, symbols, memory).Run();
}

absl::StatusOr<std::vector<Literal>> EvaluateLaunches(const schedule::Schedule& schedule,
                                                      std::span<const Program> programs, const SymbolValues& symbols,
                                                      std::span<const Literal> inputs) {
  auto value = [&](const Dim& dim) {
    return EvaluateDim(dim, [&](const Dim& leaf) { return std::optional<int64_t>(symbols.at(leaf.id())); }).value();
  };
  KernelMemory memory;
  for (const Literal& input : inputs) memory.inputs.emplace_back(input);
  std::vector<Shape> shapes;
  for (const te::Tensor& output : schedule.computation.outputs) {
    Shape& shape = shapes.emplace_back();
    for (const Dim& dim : output.dims()) shape.push_back(std::max<int64_t>(value(dim), 0));
    memory.outputs.emplace_back(static_cast<size_t>(NumElements(shape).value() * output.dtype().bytes()));
  }
  memory.workspace = Memory(static_cast<size_t>(value(schedule.workspace)));
  for (const Program& program : programs) {
    RVM_RETURN_IF_ERROR(Verify(program));
    RVM_RETURN_IF_ERROR(Evaluate(program, symbols, memory));
  }
  std::vector<Literal> outputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Memory& made = memory.outputs[i];
    auto missing = std::find(made.has_value.begin(), made.has_value.end(), false);
    if (missing != made.has_value.end()) {
      return absl::InternalError(
          absl::StrCat("byte ", missing - made.has_value.begin(), " of output ", i, " has no value"));
    }
    outputs.push_back(Literal::FromBytes(schedule.computation.outputs[i].dtype(), shapes[i], made.bytes));
  }
  return outputs;
}

}  // namespace rvm::loops
