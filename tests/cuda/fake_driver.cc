// A libcuda.so.1 for tests: the functions of the CUDA driver API that the VM uses, strictly checked, for a device that
// interprets PTX. It is never shipped. Streams run as late as the API allows, those of a device in a random order.
//
// Misuse of the API says what is wrong and aborts; a fault of a kernel is an error that stays, as on a GPU, and says on
// stderr what it is. Environment variables:
//
//   FAKE_CUDA_SEED=N       of the order in which streams, blocks and threads run
//   FAKE_CUDA_FAIL=CALL:N  the Nth call of one kind fails: alloc, pin (cuMemAllocHost), copy_in, copy_out, launch,
//                          load, stream, wait (cuStreamQuery), finish (cuStreamSynchronize), graph_create, graph_node,
//                          graph_instantiate, graph_set, graph_launch, graph_child, graph_child_set, capture_begin,
//                          capture_end, run, a launch that faults when it runs, or hang, a launch that does not end;
//                          CALL:0 is every call
//   FAKE_CUDA_ERROR=N      the result of those of them that concern graphs; 1, an invalid value
//   FAKE_CUDA_DEVICES=N    how many devices there are; 1
//   FAKE_CUDA_CAPABILITY=N  their compute capability; 75
//   FAKE_CUDA_PLANT=N:TEXT=WITH|...  code that is loaded has WITH for the Nth TEXT: faults that must show
//   FAKE_CUDA_COUNT=1      stderr says of each launch what its threads did together
#include "tests/cuda/fake_driver.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/ptx.h"
#include "vm/device/cuda_api.h"

namespace {

using namespace rvm::device::cuda;  // NOLINT(build/namespaces)

struct FakeContext {
  int references = 0;
  bool is_lost = false;
};
struct Work {
  std::function<std::string()> run;  // "" or the fault
  std::set<uint64_t> uses;           // allocations
  bool hangs = false;
};
struct FakeGraph;
struct FakeStream {
  std::deque<Work> queue;
  FakeGraph* captured = nullptr;  // while its work is captured
  std::thread::id capturing;      // the thread that began it
};
struct FakeEvent {
  bool is_done = false;
  std::chrono::steady_clock::time_point time;
};
struct FakeModule;
struct FakeFunction {
  FakeModule* module;
  const ptx::Entry* entry;
};
struct FakeModule {
  ptx::Module code;
  std::map<std::string, FakeFunction> functions;
};

// A launch as it was told, with copies of its arguments.
struct FakeLaunch {
  FakeFunction* function = nullptr;
  uint32_t blocks = 0, threads = 0;
  std::vector<uint64_t> values;
};
// Work of a library, which may use the memory at some addresses.
struct LibraryWork {
  std::vector<uint64_t> addresses;
  std::function<std::string()> run;
};
// A launch, or pieces of work of a library, one after the other: a graph that was captured is one such node.
struct NodeWork {
  FakeLaunch launch;
  std::vector<LibraryWork> pieces;
  bool is_child = false;
};
struct FakeNode {
  NodeWork work;
  std::set<FakeNode*> after;
};
struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
};
struct FakeExec {
  FakeGraph* graph;  // it may be gone
  std::vector<std::pair<FakeNode*, std::set<FakeNode*>>> order;
  std::map<FakeNode*, NodeWork> work;
  int running = 0;  // pieces of work of nodes
};

struct State {
  std::mutex mutex;
  bool is_started = false;
  FakeContext context;
  ptx::Memory memory;
  std::map<void*, std::unique_ptr<uint8_t[]>> pinned;
  std::set<FakeStream*> streams;
  std::set<FakeEvent*> events;
  std::set<FakeModule*> modules;
  std::set<FakeGraph*> graphs;
  std::set<FakeExec*> execs;
  std::mt19937 random{
      static_cast<uint32_t>(std::getenv("FAKE_CUDA_SEED") ? std::atoi(std::getenv("FAKE_CUDA_SEED")) : 1)};
  std::map<std::string, int> calls;
  std::function<std::string()> left_of_others;  // when the context is released
};
State& state() {
  static State* all = new State;
  return *all;
}
thread_local std::vector<FakeContext*> current;

void Say(const char* where, const std::string& what) {
  std::fprintf(stderr, "fake libcuda.so.1: %s: %s\n", where, what.c_str());
}
[[noreturn]] void Misuse(const char* where, const std::string& what) {
  Say(where, "misuse: " + what);
  std::abort();
}

// Returns whether the environment wants this call to fail.
bool Fails(const char* kind) {
  static const std::string wanted = std::getenv("FAKE_CUDA_FAIL") ? std::getenv("FAKE_CUDA_FAIL") : "";
  size_t colon = wanted.find(':');
  if (wanted.substr(0, colon) != kind) return false;
  int number = std::atoi(wanted.c_str() + colon + 1);
  return number == 0 || ++state().calls[kind] == number;
}

int Capability() { return std::getenv("FAKE_CUDA_CAPABILITY") ? std::atoi(std::getenv("FAKE_CUDA_CAPABILITY")) : 75; }

// Prologue of every function with a context.
#define FAKE_ENTER()                                                           \
  State& s = state();                                                          \
  std::lock_guard<std::mutex> lock(s.mutex);                                   \
  if (!s.is_started) Misuse(__func__, "cuInit was not called");                \
  if (current.empty()) Misuse(__func__, "this thread has no current context"); \
  if (s.context.references == 0) Misuse(__func__, "the context was released"); \
  if (s.context.is_lost) return kIllegalAddress

// Returns the code with the faults that the environment asks for.
std::string Planted(std::string text) {
  std::string plants = std::getenv("FAKE_CUDA_PLANT") ? std::getenv("FAKE_CUDA_PLANT") : "";
  while (!plants.empty()) {
    size_t end = std::min(plants.find('|'), plants.size()), colon = plants.find(':'), equals = plants.find('=');
    if (colon > equals || equals > end) Misuse(__func__, "expected N:TEXT=WITH: " + plants);
    std::string old = plants.substr(colon + 1, equals - colon - 1);
    size_t at = text.find(old);
    for (int left = std::atoi(plants.c_str()); left > 1 && at != std::string::npos; --left) at = text.find(old, at + 1);
    if (at == std::string::npos) Misuse(__func__, "the code has no such text: " + plants);
    text.replace(at, old.size(), plants.substr(equals + 1, end - equals - 1));
    plants.erase(0, end + 1);
  }
  return text;
}

// Returns the object of a handle, which must be one of `all`.
template <typename Fake, typename Handle>
Fake* OneOf(const std::set<Fake*>& all, Handle handle, const char* where, const char* problem) {
  auto* fake = reinterpret_cast<Fake*>(handle);
  if (all.count(fake) == 0) Misuse(where, problem);
  return fake;
}

FakeStream* KnownInCapture(const char* where, Stream stream) {
  return OneOf(state().streams, stream, where, "no such stream; the default stream is not for us");
}
FakeStream* Known(const char* where, Stream stream) {
  FakeStream* fake = KnownInCapture(where, stream);
  if (fake->captured != nullptr) Misuse(where, "the stream's work is captured");
  return fake;
}
FakeEvent* Known(const char* where, Event event) { return OneOf(state().events, event, where, "no such event"); }
FakeGraph* Known(const char* where, Graph graph) { return OneOf(state().graphs, graph, where, "no such graph"); }
FakeExec* Known(const char* where, GraphExec exec) {
  return OneOf(state().execs, exec, where, "no such executable graph");
}

// Runs work of all streams in a random order until that of one (null: of all) is done, or so many pieces of it.
Result Drain(FakeStream* until, int pieces = std::numeric_limits<int>::max()) {
  State& s = state();
  for (;; --pieces) {
    std::vector<FakeStream*> ready;
    for (FakeStream* stream : s.streams) {
      if (!stream->queue.empty()) ready.push_back(stream);
    }
    if (ready.empty() || (until != nullptr && until->queue.empty())) return 0;
    if (pieces == 0) return kNotReady;
    FakeStream* next = ready[s.random() % ready.size()];
    while (next->queue.front().hangs) {
      if (pieces != std::numeric_limits<int>::max()) return kNotReady;
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    Work work = std::move(next->queue.front());
    next->queue.pop_front();
    std::string fault = work.run();
    if (fault.empty()) continue;
    Say("a fault", fault);
    s.context.is_lost = true;
    return kIllegalAddress;
  }
}

// Calls that a thread may not make while it captures.
void CheckNotCapturing(const char* where) {
  for (const FakeStream* stream : state().streams) {
    if (stream->captured != nullptr && stream->capturing == std::this_thread::get_id()) {
      Misuse(where, "the thread captures the work of a stream");
    }
  }
}

FakeNode* NodeOf(const char* where, const FakeGraph& graph, GraphNode node) {
  for (const auto& own : graph.nodes) {
    if (own.get() == reinterpret_cast<FakeNode*>(node)) return own.get();
  }
  Misuse(where, "the graph has no such node");
}

// Returns the result that the environment gives a call of graphs.
Result GraphError() {
  return std::getenv("FAKE_CUDA_ERROR") ? std::atoi(std::getenv("FAKE_CUDA_ERROR")) : kInvalidValue;
}

FakeFunction* Known(const char* where, Function function) {
  auto* fake = reinterpret_cast<FakeFunction*>(function);
  if (state().modules.count(fake->module) == 0) Misuse(where, "the module was unloaded");
  return fake;
}

// Checks what all kinds of launches share.
FakeLaunch Checked(const char* where, const KernelNodeParams& p) {
  FakeFunction* function = Known(where, p.function);
  if (p.grid_x == 0 || p.grid_y != 1 || p.grid_z != 1 || p.block_x == 0 || p.block_x > 1024 || p.block_y != 1 ||
      p.block_z != 1) {
    Misuse(where, "expected a grid of one dimension and at most 1024 threads in a block");
  }
  if (p.shared_bytes != 0 || p.extra != nullptr) Misuse(where, "expected no shared memory and no extra arguments");
  if (p.params == nullptr) Misuse(where, "no arguments");
  FakeLaunch launch = {function, p.grid_x, p.block_x, std::vector<uint64_t>(function->entry->param_bytes / 8)};
  for (size_t i = 0; i < launch.values.size(); ++i) std::memcpy(&launch.values[i], p.params[i], 8);
  return launch;
}

// Queues the launch; `exec`: the graph that it is of, or null.
void Queue(FakeStream& stream, const FakeLaunch& launch, FakeExec* exec) {
  State& s = state();
  bool faults = Fails("run"), hangs = Fails("hang");
  std::set<uint64_t> uses;
  for (uint64_t value : launch.values) {
    if (uint64_t block = s.memory.BlockOf(value)) uses.insert(block);
  }
  auto seed = static_cast<uint32_t>(s.random());
  if (exec != nullptr) ++exec->running;
  stream.queue.push_back({[=] {
                            if (exec != nullptr) --exec->running;
                            if (faults) return std::string("a fault that was asked for");
                            const ptx::Entry& entry = *launch.function->entry;
                            bool is_counted = std::getenv("FAKE_CUDA_COUNT") != nullptr;
                            ptx::Counts counts;
                            std::string fault = ptx::Run(entry, {launch.blocks, launch.threads}, launch.values, seed,
                                                         state().memory, is_counted ? &counts : nullptr);
                            if (is_counted) {
                              Say("launch", "`" + entry.name + "`: " + std::to_string(counts.loaded) +
                                                " elements loaded, " + std::to_string(counts.instructions) +
                                                " instructions, " + std::to_string(counts.sectors) + " sectors, " +
                                                std::to_string(launch.blocks) + " blocks");
                            }
                            return fault;
                          },
                          uses, hangs});
}

// Queues the work; `exec`: the graph that it is of, or null.
void Queue(const char* where, FakeStream& stream, const LibraryWork& work, FakeExec* exec) {
  State& s = state();
  std::set<uint64_t> uses;
  for (uint64_t address : work.addresses) {
    uint64_t block = s.memory.BlockOf(address);
    if (block == 0) Misuse(where, "memory that was not allocated");
    uses.insert(block);
  }
  bool faults = Fails("run");
  if (exec != nullptr) ++exec->running;
  stream.queue.push_back({[=] {
                            if (exec != nullptr) --exec->running;
                            return faults ? std::string("a fault that was asked for") : work.run();
                          },
                          uses});
}

uint64_t BlockFor(const char* where, Address address, size_t bytes) {
  std::string problem;
  if (state().memory.At(address, bytes, problem) == nullptr) Misuse(where, problem);
  return state().memory.BlockOf(address);
}

}  // namespace

extern "C" {

#define FAKE __attribute__((visibility("default"))) Result

FAKE cuInit(uint32_t flags) {
  if (flags != 0) return kInvalidValue;
  state().is_started = true;
  return 0;
}
FAKE cuDriverGetVersion(int32_t* version) {
  *version = 12040;
  return 0;
}
FAKE cuGetErrorName(Result result, const char** name) {
  *name = result == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == kOutOfMemory  ? "CUDA_ERROR_OUT_OF_MEMORY"
                                    : "CUDA_ERROR";
  return 0;
}
FAKE cuGetErrorString(Result result, const char** text) {
  *text = result == kIllegalAddress ? "an illegal memory access was encountered"
          : result == kOutOfMemory  ? "out of memory"
                                    : "an error that was asked for";
  return 0;
}
FAKE cuDeviceGetCount(int32_t* count) {
  if (!state().is_started) return kNotInitialized;
  *count = std::getenv("FAKE_CUDA_DEVICES") ? std::atoi(std::getenv("FAKE_CUDA_DEVICES")) : 1;
  return 0;
}
FAKE cuDeviceGet(DeviceId* device, int32_t number) {
  if (!state().is_started) return kNotInitialized;
  *device = number;
  return 0;
}
FAKE cuDeviceGetName(char* name, int32_t size, DeviceId) {
  std::snprintf(name, static_cast<size_t>(size), "interpreter of PTX");
  return 0;
}
FAKE cuDeviceGetAttribute(int32_t* value, int32_t attribute, DeviceId) {
  if (attribute != kComputeCapabilityMajor && attribute != kComputeCapabilityMinor) return kInvalidValue;
  *value = attribute == kComputeCapabilityMajor ? Capability() / 10 : Capability() % 10;
  return 0;
}
FAKE cuDeviceTotalMem_v2(size_t* bytes, DeviceId) {
  *bytes = size_t{1} << 30;
  return 0;
}
FAKE cuDevicePrimaryCtxRetain(Context* context, DeviceId) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.is_started) return kNotInitialized;
  ++s.context.references;
  *context = reinterpret_cast<Context>(&s.context);
  return 0;
}
FAKE cuDevicePrimaryCtxRelease_v2(DeviceId) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.context.references == 0) Misuse(__func__, "it was not retained");
  if (--s.context.references > 0) return 0;
  bool is_clean = s.memory.blocks() == 0 && s.pinned.empty() && s.streams.empty() && s.events.empty() &&
                  s.modules.empty() && s.graphs.empty() && s.execs.empty();
  std::string left = s.left_of_others ? s.left_of_others() : "";
  if (!left.empty() && !s.context.is_lost) Misuse(__func__, "left: " + left);
  if (!is_clean && !s.context.is_lost) {
    Misuse(__func__, "left: " + std::to_string(s.memory.blocks()) + " allocations, " + std::to_string(s.pinned.size()) +
                         " pinned allocations, " + std::to_string(s.streams.size()) + " streams, " +
                         std::to_string(s.events.size()) + " events, " + std::to_string(s.modules.size()) +
                         " modules, " + std::to_string(s.graphs.size()) + " graphs, " + std::to_string(s.execs.size()) +
                         " executable graphs");
  }
  s.context.is_lost = false;
  return 0;
}
FAKE cuCtxPushCurrent_v2(Context context) {
  if (context != reinterpret_cast<Context>(&state().context)) Misuse(__func__, "no such context");
  current.push_back(&state().context);
  return 0;
}
FAKE cuCtxPopCurrent_v2(Context* context) {
  if (current.empty()) Misuse(__func__, "this thread has no current context");
  *context = reinterpret_cast<Context>(current.back());
  current.pop_back();
  return 0;
}
FAKE cuCtxSynchronize() {
  FAKE_ENTER();
  CheckNotCapturing(__func__);
  return Drain(nullptr);
}
FAKE cuMemAlloc_v2(Address* address, size_t bytes) {
  FAKE_ENTER();
  CheckNotCapturing(__func__);
  if (bytes == 0) Misuse(__func__, "an allocation of 0 bytes");
  if (Fails("alloc") || bytes > (size_t{1} << 30) - s.memory.bytes()) return kOutOfMemory;
  *address = s.memory.Allocate(bytes);
  return 0;
}
FAKE cuMemFree_v2(Address address) {
  FAKE_ENTER();
  CheckNotCapturing(__func__);
  for (FakeStream* stream : s.streams) {
    for (const Work& work : stream->queue) {
      if (work.uses.count(address) != 0) Misuse(__func__, "queued work uses the memory");
    }
  }
  if (!s.memory.Free(address)) Misuse(__func__, "no allocation begins at this address");
  return 0;
}
FAKE cuMemAllocHost_v2(void** address, size_t bytes) {
  FAKE_ENTER();
  CheckNotCapturing(__func__);
  if (Fails("pin")) return kOutOfMemory;
  auto made = std::make_unique<uint8_t[]>(bytes);
  *address = made.get();
  s.pinned[*address] = std::move(made);
  return 0;
}
FAKE cuMemFreeHost(void* address) {
  FAKE_ENTER();
  if (s.pinned.erase(address) == 0) Misuse(__func__, "no pinned allocation begins at this address");
  return 0;
}
FAKE cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream stream) {
  FAKE_ENTER();
  if (Fails("copy_in")) return kInvalidValue;
  FakeStream* fake = Known(__func__, stream);
  uint64_t block = BlockFor(__func__, to, bytes);
  fake->queue.push_back({[=] {
                           std::string problem;
                           uint8_t* place = state().memory.At(to, bytes, problem);
                           if (place != nullptr) std::memcpy(place, from, bytes);
                           return problem;
                         },
                         {block}});
  return 0;
}
FAKE cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream stream) {
  FAKE_ENTER();
  if (Fails("copy_out")) return kInvalidValue;
  FakeStream* fake = Known(__func__, stream);
  uint64_t block = BlockFor(__func__, from, bytes);
  std::memset(to, 0xdd, bytes);  // reading it too early shows
  fake->queue.push_back({[=] {
                           std::string problem;
                           const uint8_t* place = state().memory.At(from, bytes, problem);
                           if (place != nullptr) std::memcpy(to, place, bytes);
                           return problem;
                         },
                         {block}});
  return 0;
}
FAKE cuStreamCreate(Stream* stream, uint32_t flags) {
  FAKE_ENTER();
  if (flags != kNonBlocking) Misuse(__func__, "a stream that waits for the default stream");
  if (Fails("stream")) return kOutOfMemory;
  auto* fake = new FakeStream;
  s.streams.insert(fake);
  *stream = reinterpret_cast<Stream>(fake);
  return 0;
}
FAKE cuStreamSynchronize(Stream stream) {
  FAKE_ENTER();
  if (Fails("finish")) return kInvalidHandle;
  return Drain(Known(__func__, stream));
}
FAKE cuStreamQuery(Stream stream) {
  FAKE_ENTER();
  if (Fails("wait")) return kInvalidHandle;
  return Drain(Known(__func__, stream), 3);
}
FAKE cuEventCreate(Event* event, uint32_t flags) {
  FAKE_ENTER();
  if (flags != 0) Misuse(__func__, "expected no flags, so that times are kept");
  auto* fake = new FakeEvent;
  s.events.insert(fake);
  *event = reinterpret_cast<Event>(fake);
  return 0;
}
FAKE cuEventRecord(Event event, Stream stream) {
  FAKE_ENTER();
  FakeEvent* fake = Known(__func__, event);
  fake->is_done = false;
  Known(__func__, stream)
      ->queue.push_back({[fake] {
                           fake->is_done = true;
                           fake->time = std::chrono::steady_clock::now();
                           return std::string();
                         },
                         {}});
  return 0;
}
FAKE cuEventElapsedTime(float* ms, Event from, Event to) {
  FAKE_ENTER();
  FakeEvent *begin = Known(__func__, from), *end = Known(__func__, to);
  if (!begin->is_done || !end->is_done) return kNotReady;
  *ms = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return 0;
}
FAKE cuEventDestroy_v2(Event event) {
  FAKE_ENTER();
  FakeEvent* fake = Known(__func__, event);
  s.events.erase(fake);
  delete fake;
  return 0;
}
FAKE cuStreamDestroy_v2(Stream stream) {
  FAKE_ENTER();
  FakeStream* fake = Known(__func__, stream);
  if (!fake->queue.empty()) Drain(fake);
  if (fake->captured != nullptr) Misuse(__func__, "its work is captured");
  s.streams.erase(fake);
  delete fake;
  return 0;
}
FAKE cuModuleLoadDataEx(Module* module, const void* image, uint32_t count, int32_t* options, void** values) {
  FAKE_ENTER();
  // A driver that is older than the option refuses it.
  if (std::find(options, options + count, kSplitCompile) != options + count && Fails("split_compile")) {
    return kInvalidValue;
  }
  auto made = std::make_unique<FakeModule>();
  std::string problem =
      Fails("load") ? "an error that was asked for" : ptx::Parse(Planted(static_cast<const char*>(image)), made->code);
  if (problem.empty() && made->code.capability > Capability()) problem = "code for a later compute capability";
  if (!problem.empty()) {
    char* log = nullptr;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (options[i] == kErrorLogBuffer) log = static_cast<char*>(values[i]);
      if (options[i] == kErrorLogBufferBytes) bytes = reinterpret_cast<size_t>(values[i]);
    }
    if (log != nullptr) std::snprintf(log, bytes, "%s", problem.c_str());
    return kInvalidPtx;
  }
  for (const auto& [name, entry] : made->code.entries) made->functions[name] = {made.get(), &entry};
  s.modules.insert(made.get());
  *module = reinterpret_cast<Module>(made.release());
  return 0;
}
FAKE cuModuleUnload(Module module) {
  FAKE_ENTER();
  auto* fake = reinterpret_cast<FakeModule*>(module);
  if (s.modules.erase(fake) == 0) Misuse(__func__, "no such module");
  Result result = Drain(nullptr);
  delete fake;
  return result;
}
FAKE cuModuleGetFunction(Function* function, Module module, const char* name) {
  FAKE_ENTER();
  auto* fake = reinterpret_cast<FakeModule*>(module);
  if (s.modules.count(fake) == 0) Misuse(__func__, "no such module");
  auto found = fake->functions.find(name);
  if (found == fake->functions.end()) return kNotFound;
  *function = reinterpret_cast<Function>(&found->second);
  return 0;
}
FAKE cuLaunchKernel(Function function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x,
                    uint32_t block_y, uint32_t block_z, uint32_t shared, Stream stream, void** params, void** extra) {
  FAKE_ENTER();
  KernelNodeParams all = {function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, params, extra};
  FakeLaunch launch = Checked(__func__, all);
  if (Fails("launch")) return kLaunchOutOfResources;
  Queue(*Known(__func__, stream), launch, nullptr);
  return 0;
}
FAKE cuGraphCreate(Graph* graph, uint32_t flags) {
  FAKE_ENTER();
  if (flags != 0) Misuse(__func__, "expected no flags");
  if (Fails("graph_create")) return GraphError();
  auto* fake = new FakeGraph;
  s.graphs.insert(fake);
  *graph = reinterpret_cast<Graph>(fake);
  return 0;
}
FAKE cuGraphAddKernelNode(GraphNode* node, Graph graph, const GraphNode* after, size_t count,
                          const KernelNodeParams* params) {
  FAKE_ENTER();
  FakeGraph* fake = Known(__func__, graph);
  auto made = std::make_unique<FakeNode>();
  made->work.launch = Checked(__func__, *params);
  for (size_t i = 0; i < count; ++i) {
    if (!made->after.insert(NodeOf(__func__, *fake, after[i])).second) Misuse(__func__, "a dependency is there twice");
  }
  if (Fails("graph_node")) return GraphError();
  *node = reinterpret_cast<GraphNode>(made.get());
  fake->nodes.push_back(std::move(made));
  return 0;
}
// The first version: later ones have flags in place of what is told of an error.
FAKE cuGraphInstantiate(GraphExec* exec, Graph graph, GraphNode* wrong, char* log, size_t log_bytes) {
  FAKE_ENTER();
  FakeGraph* fake = Known(__func__, graph);
  if (wrong == nullptr || log == nullptr || log_bytes == 0) Misuse(__func__, "expected room for what is wrong");
  std::memset(log, 'x', log_bytes);
  if (Fails("graph_instantiate")) return GraphError();
  auto* made = new FakeExec{fake, {}, {}, 0};
  for (const auto& node : fake->nodes) {
    made->order.push_back({node.get(), node->after});
    made->work[node.get()] = node->work;
  }
  s.execs.insert(made);
  *exec = reinterpret_cast<GraphExec>(made);
  return 0;
}
FAKE cuGraphExecKernelNodeSetParams(GraphExec exec, GraphNode node, const KernelNodeParams* params) {
  FAKE_ENTER();
  FakeExec* fake = Known(__func__, exec);
  if (s.graphs.count(fake->graph) == 0) Misuse(__func__, "the graph that has the node was destroyed");
  FakeNode* of = NodeOf(__func__, *fake->graph, node);
  if (fake->work.count(of) == 0) Misuse(__func__, "the node was added after the graph was instantiated");
  if (fake->work[of].is_child) Misuse(__func__, "the node is no launch");
  FakeLaunch launch = Checked(__func__, *params);
  if (Fails("graph_set")) return GraphError();
  fake->work[of].launch = std::move(launch);
  return 0;
}
FAKE cuStreamBeginCapture_v2(Stream stream, int32_t mode) {
  FAKE_ENTER();
  FakeStream* fake = Known(__func__, stream);
  if (mode != kCaptureThreadLocal) Misuse(__func__, "a capture that forbids other threads their calls");
  if (!fake->queue.empty()) Misuse(__func__, "the stream for captures has work");
  if (Fails("capture_begin")) return GraphError();
  fake->captured = new FakeGraph;
  fake->capturing = std::this_thread::get_id();
  return 0;
}
FAKE cuStreamEndCapture(Stream stream, Graph* graph) {
  FAKE_ENTER();
  FakeStream* fake = KnownInCapture(__func__, stream);
  if (fake->captured == nullptr) Misuse(__func__, "nothing is captured");
  if (fake->capturing != std::this_thread::get_id()) Misuse(__func__, "another thread began the capture");
  FakeGraph* captured = std::exchange(fake->captured, nullptr);
  if (Fails("capture_end")) {
    delete captured;
    *graph = nullptr;
    return GraphError();
  }
  s.graphs.insert(captured);
  *graph = reinterpret_cast<Graph>(captured);
  return 0;
}
// The child, whose nodes are a chain, as it is now: it may be destroyed.
FAKE cuGraphAddChildGraphNode(GraphNode* node, Graph graph, const GraphNode* after, size_t count, Graph child) {
  FAKE_ENTER();
  FakeGraph *fake = Known(__func__, graph), *of = Known(__func__, child);
  auto made = std::make_unique<FakeNode>();
  made->work.is_child = true;
  for (const auto& own : of->nodes) made->work.pieces.push_back(own->work.pieces.at(0));
  for (size_t i = 0; i < count; ++i) made->after.insert(NodeOf(__func__, *fake, after[i]));
  if (Fails("graph_child")) return GraphError();
  *node = reinterpret_cast<GraphNode>(made.get());
  fake->nodes.push_back(std::move(made));
  return 0;
}
FAKE cuGraphExecChildGraphNodeSetParams(GraphExec exec, GraphNode node, Graph child) {
  FAKE_ENTER();
  FakeExec* fake = Known(__func__, exec);
  FakeGraph* of = Known(__func__, child);
  NodeWork& work = fake->work[NodeOf(__func__, *fake->graph, node)];
  if (!work.is_child) Misuse(__func__, "the node is no graph");
  if (work.pieces.size() != of->nodes.size()) Misuse(__func__, "the graph has another form");
  if (Fails("graph_child_set")) return GraphError();
  for (size_t i = 0; i < work.pieces.size(); ++i) work.pieces[i] = of->nodes[i]->work.pieces.at(0);
  return 0;
}
// Nodes run in any order that their dependencies allow.
FAKE cuGraphLaunch(GraphExec exec, Stream stream) {
  FAKE_ENTER();
  FakeExec* fake = Known(__func__, exec);
  FakeStream* on = Known(__func__, stream);
  for (const auto& [node, work] : fake->work) {
    if (!work.is_child && s.modules.count(work.launch.function->module) == 0)
      Misuse(__func__, "the module of a node was unloaded");
  }
  if (Fails("graph_launch")) return GraphError();
  auto left = fake->order;
  while (!left.empty()) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < left.size(); ++i) {
      if (left[i].second.empty()) ready.push_back(i);
    }
    size_t next = ready[s.random() % ready.size()];
    FakeNode* node = left[next].first;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
    for (auto& [other, after] : left) after.erase(node);
    const NodeWork& work = fake->work[node];
    for (const LibraryWork& piece : work.pieces) Queue(__func__, *on, piece, fake);
    if (!work.is_child) Queue(*on, work.launch, fake);
  }
  return 0;
}
FAKE cuGraphExecDestroy(GraphExec exec) {
  FAKE_ENTER();
  FakeExec* fake = Known(__func__, exec);
  if (fake->running != 0) Misuse(__func__, "the graph is running: not every driver waits for its end");
  s.execs.erase(fake);
  delete fake;
  return 0;
}
FAKE cuGraphDestroy(Graph graph) {
  FAKE_ENTER();
  FakeGraph* fake = Known(__func__, graph);
  s.graphs.erase(fake);
  delete fake;
  return 0;
}

// ---- for libraries of the tests, see fake_driver.h

#define FAKE_HOOK __attribute__((visibility("default")))

FAKE_HOOK Result fake_cuda_Queue(Stream stream, const std::vector<uint64_t>& addresses,
                                 const std::function<std::string()>& run) {
  FAKE_ENTER();
  FakeStream* fake = KnownInCapture(__func__, stream);
  if (fake->captured == nullptr) {
    Queue(__func__, *fake, {addresses, run}, nullptr);
    return 0;
  }
  if (fake->capturing != std::this_thread::get_id()) Misuse(__func__, "another thread captures the stream's work");
  auto node = std::make_unique<FakeNode>();
  node->work.is_child = true;
  node->work.pieces.push_back({addresses, run});
  fake->captured->nodes.push_back(std::move(node));
  return 0;
}
FAKE_HOOK uint8_t* fake_cuda_Memory(uint64_t address, size_t bytes, std::string& problem) {
  return state().memory.At(address, bytes, problem);
}
FAKE_HOOK bool fake_cuda_Fails(const char* kind) {
  std::lock_guard<std::mutex> lock(state().mutex);
  return Fails(kind);
}
FAKE_HOOK void fake_cuda_AtRelease(const std::function<std::string()>& left) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().left_of_others = left;
}

}  // extern "C"
