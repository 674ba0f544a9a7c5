// A libcublasLt.so.13 for tests with the driver of the tests: the functions of cuBLASLt that the VM uses, strictly
// checked. It is never shipped. It computes products in float64, and rounds them once.
//
// Misuse of the API says what is wrong and aborts. Environment variables, beside those of fake_driver.cc:
//
//   FAKE_CUDA_FAIL=CALL:N   the Nth call of one kind fails: product_create (cublasLtCreate), product_plan (a product
//                           that the library does not compute), product (cublasLtMatmul); CALL:0 is every call
//   FAKE_CUDA_ERROR=N       the status of those that fail; 15, not supported
//   FAKE_CUDA_COUNT=1       stderr says of each product what it is
#include <dlfcn.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda/fake_driver.h"
#include "vm/device/cublaslt_api.h"

namespace {

using namespace rvm::device::cublaslt;  // NOLINT(build/namespaces)

constexpr uint32_t kNoEpilogue = 1;

struct FakeDesc {
  int32_t compute, scale;
  int32_t transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = kNoEpilogue;
  uint64_t bias = 0;
};
struct FakeLayout {
  int32_t type;
  uint64_t rows, columns;
  int64_t stride;
  int32_t batches = 1;
  int64_t batch_stride = 0;
  bool operator==(const FakeLayout&) const = default;
};
struct FakePreference {
  uint64_t workspace = 0;
  uint32_t schemes = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};
struct FakeHandle {};

// Plan of a product: what an algorithm was made for.
struct Plan {
  FakeDesc desc;
  FakeLayout layouts[4];  // a, b, c, d
  FakePreference preference;
  uint64_t workspace;
};

struct State {
  std::mutex mutex;
  rvm::fake_cuda::Hooks driver;
  std::set<FakeHandle*> handles;
  std::set<FakeDesc*> descs;
  std::set<FakeLayout*> layouts;
  std::set<FakePreference*> preferences;
  std::map<uint64_t, Plan> plans;  // by number, which is what an algorithm consists of
};

[[noreturn]] void Misuse(const char* where, const std::string& what) {
  std::fprintf(stderr, "fake libcublasLt.so.13: %s: misuse: %s\n", where, what.c_str());
  std::abort();
}

State* MakeState() {
  auto* s = new State;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) Misuse(__func__, "no driver is loaded");
#define RVM_LOOK_UP(name, result, parameters)                                                     \
  s->driver.name = reinterpret_cast<decltype(s->driver.name)>(dlsym(driver, "fake_cuda_" #name)); \
  if (s->driver.name == nullptr) Misuse(__func__, "the driver is not that of the tests");
  RVM_FAKE_CUDA_FUNCTIONS(RVM_LOOK_UP)
#undef RVM_LOOK_UP
  s->driver.AtRelease([s] {
    size_t left = s->handles.size() + s->descs.size() + s->layouts.size() + s->preferences.size();
    return left == 0 ? "" : std::to_string(left) + " objects of cuBLASLt";
  });
  return s;
}
State& state() {
  static State* all = MakeState();
  return *all;
}

template <typename Fake, typename Handle>
Fake* OneOf(const std::set<Fake*>& all, Handle handle, const char* where) {
  auto* fake = reinterpret_cast<Fake*>(handle);
  if (all.count(fake) == 0) Misuse(where, "no such object");
  return fake;
}

template <typename Fake, typename Handle>
Status Add(std::set<Fake*>& all, Fake made, Handle* handle) {
  auto* fake = new Fake(made);
  all.insert(fake);
  *handle = reinterpret_cast<Handle>(fake);
  return 0;
}

template <typename Fake, typename Handle>
Status Drop(std::set<Fake*>& all, Handle handle, const char* where) {
  Fake* fake = OneOf(all, handle, where);
  all.erase(fake);
  delete fake;
  return 0;
}

#define FAKE_ENTER()  \
  State& s = state(); \
  std::lock_guard<std::mutex> lock(s.mutex)

bool Fails(const char* kind, Status& status) {
  status = std::getenv("FAKE_CUDA_ERROR") ? std::atoi(std::getenv("FAKE_CUDA_ERROR")) : kNotSupported;
  return state().driver.Fails(kind);
}

template <typename T>
void Set(const char* where, T& to, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) Misuse(where, "the attribute has another size");
  std::memcpy(&to, value, bytes);
}

size_t ElementBytes(const char* where, int32_t type) {
  if (type == kReal32) return 4;
  if (type == kReal64) return 8;
  if (type == kReal16 || type == kRealB16) return 2;
  Misuse(where, "an unknown type of elements");
}

size_t BytesOf(const FakeLayout& layout) {
  auto last = static_cast<uint64_t>(layout.batches - 1) * static_cast<uint64_t>(layout.batch_stride) +
              (layout.columns - 1) * static_cast<uint64_t>(layout.stride) + layout.rows;
  return last * ElementBytes(__func__, layout.type);
}

template <typename T>
T Read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

double Load(int32_t type, const uint8_t* from) {
  if (type == kReal32) return Read<float>(from);
  if (type == kReal64) return Read<double>(from);
  if (type == kReal16) return static_cast<double>(Read<_Float16>(from));
  return std::bit_cast<float>(uint32_t{Read<uint16_t>(from)} << 16);
}

void Store(int32_t type, uint8_t* to, double value) {
  auto rounded = static_cast<float>(value);
  auto half = static_cast<_Float16>(rounded);
  auto bits = std::bit_cast<uint32_t>(rounded);
  auto upper = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  const void* from = type == kReal32   ? static_cast<const void*>(&rounded)
                     : type == kReal64 ? &value
                     : type == kReal16 ? static_cast<const void*>(&half)
                                       : &upper;
  std::memcpy(to, from, ElementBytes(__func__, type));
}

// Returns the nearest number with 10 bits of fraction.
double ToTf32(double value) {
  int exponent = 0;
  double fraction = std::frexp(value, &exponent);
  return std::isfinite(value) ? std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11) : value;
}

// A matrix of a batch in memory.
struct View {
  const uint8_t* memory;
  const FakeLayout& layout;
  size_t At(int64_t batch, uint64_t row, uint64_t column) const {
    return (static_cast<size_t>(batch * layout.batch_stride) + column * static_cast<size_t>(layout.stride) + row) *
           ElementBytes(__func__, layout.type);
  }
  double Element(int64_t batch, uint64_t row, uint64_t column) const {
    return Load(layout.type, memory + At(batch, row, column));
  }
};

struct Call {
  Plan plan;
  double alpha, beta;
  uint64_t addresses[4];  // a, b, c, d
  uint64_t bias, workspace;
};

std::string Multiply(const Call& call) {
  const FakeLayout(&layouts)[4] = call.plan.layouts;
  const FakeDesc& desc = call.plan.desc;
  std::string problem;
  uint8_t* memory[4];
  for (int i = 0; i < 4; ++i) {
    memory[i] = state().driver.Memory(call.addresses[i], BytesOf(layouts[i]), problem);
    if (memory[i] == nullptr) return problem;
  }
  View a = {memory[0], layouts[0]}, b = {memory[1], layouts[1]}, c = {memory[2], layouts[2]},
       d = {memory[3], layouts[3]};
  size_t bytes = ElementBytes(__func__, layouts[3].type);
  const uint8_t* bias = nullptr;
  if (call.bias != 0) {
    bias = state().driver.Memory(call.bias, layouts[3].rows * bytes, problem);
    if (bias == nullptr) return problem;
  }
  if (call.plan.workspace != 0) {
    uint8_t* workspace = state().driver.Memory(call.workspace, call.plan.workspace, problem);
    if (workspace == nullptr) return problem;
    std::memset(workspace, 0xdd, call.plan.workspace);  // whatever is there is lost
  }
  bool rounds = desc.compute == kCompute32Tf32;
  uint64_t depth = desc.transpose_a != 0 ? layouts[0].rows : layouts[0].columns;
  for (int64_t n = 0; n < layouts[3].batches; ++n) {
    for (uint64_t j = 0; j < layouts[3].columns; ++j) {
      for (uint64_t i = 0; i < layouts[3].rows; ++i) {
        double sum = 0;
        for (uint64_t k = 0; k < depth; ++k) {
          double x = desc.transpose_a != 0 ? a.Element(n, k, i) : a.Element(n, i, k),
                 y = desc.transpose_b != 0 ? b.Element(n, j, k) : b.Element(n, k, j);
          sum += rounds ? ToTf32(x) * ToTf32(y) : x * y;
        }
        sum *= call.alpha;
        if (call.beta != 0) sum += call.beta * c.Element(n, i, j);
        if (bias != nullptr) sum += Load(layouts[3].type, bias + i * bytes);
        Store(layouts[3].type, memory[3] + d.At(n, i, j), sum);
      }
    }
  }
  return "";
}

// Returns whether the library computes such products; what none may ask is misuse.
bool IsKnown(const char* where, const FakeDesc& desc, const FakeLayout (&layouts)[4]) {
  const FakeLayout &a = layouts[0], &b = layouts[1], &c = layouts[2], &d = layouts[3];
  uint64_t rows = desc.transpose_a != 0 ? a.columns : a.rows, depth = desc.transpose_a != 0 ? a.rows : a.columns;
  uint64_t b_depth = desc.transpose_b != 0 ? b.columns : b.rows, columns = desc.transpose_b != 0 ? b.rows : b.columns;
  if (rows != d.rows || columns != d.columns || depth != b_depth || c.rows != d.rows || c.columns != d.columns) {
    Misuse(where, "the extents of the matrices do not fit");
  }
  for (const FakeLayout* other : {&a, &b, &c}) {
    if (other->batches != d.batches) Misuse(where, "the matrices have different batches");
  }
  // One behind the other, or the columns of all side by side.
  bool are_apart = d.batch_stride >= d.stride * static_cast<int64_t>(d.columns - 1) + static_cast<int64_t>(d.rows);
  bool are_side_by_side =
      d.batch_stride >= static_cast<int64_t>(d.rows) &&
      d.stride >= d.batch_stride * static_cast<int64_t>(d.batches - 1) + static_cast<int64_t>(d.rows);
  if (d.batches > 1 && !are_apart && !are_side_by_side) {
    Misuse(where, "results of a batch overlap");
  }
  bool is_double = desc.compute == kCompute64;
  if (desc.scale != (is_double ? kReal64 : kReal32)) Misuse(where, "the scale has another type than the sums");
  if (a.type != b.type || c.type != d.type || (a.type == kReal64) != is_double) return false;
  if (d.type != a.type && d.type != (is_double ? kReal64 : kReal32)) return false;
  if (desc.compute == kCompute32Tf32 && a.type != kReal32) return false;
  return desc.epilogue == kNoEpilogue || !is_double;  // as the library: no epilogues of float64
}

}  // namespace

extern "C" {

#define FAKE __attribute__((visibility("default"))) Status

// 13.4.25
__attribute__((visibility("default"))) size_t cublasLtGetVersion() { return 130425; }
FAKE cublasLtCreate(Handle* handle) {
  FAKE_ENTER();
  Status status = 0;
  if (Fails("product_create", status)) return status;
  return Add(s.handles, FakeHandle{}, handle);
}
FAKE cublasLtDestroy(Handle handle) {
  FAKE_ENTER();
  return Drop(s.handles, handle, __func__);
}
FAKE cublasLtMatmulDescCreate(MatmulDesc* desc, int32_t compute, int32_t scale) {
  FAKE_ENTER();
  if (compute != kCompute32 && compute != kCompute64 && compute != kCompute32Tf32) Misuse(__func__, "unknown sums");
  return Add(s.descs, FakeDesc{compute, scale}, desc);
}
FAKE cublasLtMatmulDescDestroy(MatmulDesc desc) {
  FAKE_ENTER();
  return Drop(s.descs, desc, __func__);
}
FAKE cublasLtMatmulDescSetAttribute(MatmulDesc desc, int32_t attribute, const void* value, size_t bytes) {
  FAKE_ENTER();
  FakeDesc* fake = OneOf(s.descs, desc, __func__);
  if (attribute == kTransposeA || attribute == kTransposeB) {
    Set(__func__, attribute == kTransposeA ? fake->transpose_a : fake->transpose_b, value, bytes);
  } else if (attribute == kEpilogue) {
    Set(__func__, fake->epilogue, value, bytes);
  } else if (attribute == kBiasPointer) {
    Set(__func__, fake->bias, value, bytes);
  } else {
    Misuse(__func__, "an unknown attribute");
  }
  if (fake->transpose_a > kTransposed || fake->transpose_b > kTransposed) Misuse(__func__, "an unknown transposition");
  if (fake->epilogue != kNoEpilogue && fake->epilogue != kAddBias) Misuse(__func__, "an unknown epilogue");
  return 0;
}
FAKE cublasLtMatrixLayoutCreate(Layout* layout, int32_t type, uint64_t rows, uint64_t columns, int64_t stride) {
  FAKE_ENTER();
  ElementBytes(__func__, type);
  if (rows == 0 || columns == 0 || stride < static_cast<int64_t>(rows)) Misuse(__func__, "columns overlap");
  return Add(s.layouts, FakeLayout{type, rows, columns, stride}, layout);
}
FAKE cublasLtMatrixLayoutDestroy(Layout layout) {
  FAKE_ENTER();
  return Drop(s.layouts, layout, __func__);
}
FAKE cublasLtMatrixLayoutSetAttribute(Layout layout, int32_t attribute, const void* value, size_t bytes) {
  FAKE_ENTER();
  FakeLayout* fake = OneOf(s.layouts, layout, __func__);
  if (attribute == kBatchCount) {
    Set(__func__, fake->batches, value, bytes);
  } else if (attribute == kBatchStride) {
    Set(__func__, fake->batch_stride, value, bytes);
  } else {
    Misuse(__func__, "an unknown attribute");
  }
  if (fake->batches < 1 || fake->batch_stride < 0) Misuse(__func__, "no batch of matrices");
  return 0;
}
FAKE cublasLtMatmulPreferenceCreate(Preference* preference) {
  FAKE_ENTER();
  return Add(s.preferences, FakePreference{}, preference);
}
FAKE cublasLtMatmulPreferenceDestroy(Preference preference) {
  FAKE_ENTER();
  return Drop(s.preferences, preference, __func__);
}
FAKE cublasLtMatmulPreferenceSetAttribute(Preference preference, int32_t attribute, const void* value, size_t bytes) {
  FAKE_ENTER();
  FakePreference* fake = OneOf(s.preferences, preference, __func__);
  if (attribute == kMaxWorkspace) {
    Set(__func__, fake->workspace, value, bytes);
  } else if (attribute == kReductionSchemes) {
    Set(__func__, fake->schemes, value, bytes);
  } else if (attribute >= kAlignmentA && attribute <= kAlignmentD) {
    Set(__func__, fake->alignments[attribute - kAlignmentA], value, bytes);
  } else {
    Misuse(__func__, "an unknown attribute");
  }
  return 0;
}
FAKE cublasLtMatmulAlgoGetHeuristic(Handle handle, MatmulDesc desc, Layout a, Layout b, Layout c, Layout d,
                                    Preference preference, int32_t wanted, Heuristic* results, int32_t* count) {
  FAKE_ENTER();
  OneOf(s.handles, handle, __func__);
  Plan plan = {*OneOf(s.descs, desc, __func__),
               {*OneOf(s.layouts, a, __func__), *OneOf(s.layouts, b, __func__), *OneOf(s.layouts, c, __func__),
                *OneOf(s.layouts, d, __func__)},
               *OneOf(s.preferences, preference, __func__),
               0};
  if (wanted < 1) Misuse(__func__, "no result is wanted");
  *count = 0;
  Status status = 0;
  if (Fails("product_plan", status)) return status;
  if (!IsKnown(__func__, plan.desc, plan.layouts)) return kNotSupported;
  // Deep products are divided, if there is memory for the sums.
  const FakeLayout& of_d = plan.layouts[3];
  uint64_t depth = plan.desc.transpose_a != 0 ? plan.layouts[0].rows : plan.layouts[0].columns;
  uint64_t sums = 8 * of_d.rows * of_d.columns * static_cast<uint64_t>(of_d.batches);
  if (depth >= 32 && (plan.preference.schemes & kSumsInWorkspace) != 0 && sums <= plan.preference.workspace) {
    plan.workspace = sums;
  }
  uint64_t number = s.plans.size() + 1;
  results[0] = {{{number, 0, 0, 0, 0, 0, 0, 0}}, plan.workspace, 0, 1, {}};
  s.plans.emplace(number, plan);
  *count = 1;
  return 0;
}
FAKE cublasLtMatmul(Handle handle, MatmulDesc desc, const void* alpha, const void* a, Layout a_layout, const void* b,
                    Layout b_layout, const void* beta, const void* c, Layout c_layout, void* d, Layout d_layout,
                    const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                    rvm::device::cuda::Stream stream) {
  Call call;
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    OneOf(s.handles, handle, __func__);
    if (algorithm == nullptr || s.plans.count(algorithm->data[0]) == 0) Misuse(__func__, "no such algorithm");
    call.plan = s.plans.at(algorithm->data[0]);
    const FakeDesc& now = *OneOf(s.descs, desc, __func__);
    if (now.transpose_a != call.plan.desc.transpose_a || now.transpose_b != call.plan.desc.transpose_b ||
        now.compute != call.plan.desc.compute || now.epilogue != call.plan.desc.epilogue) {
      Misuse(__func__, "the algorithm is for another product");
    }
    call.bias = now.epilogue == kAddBias ? now.bias : 0;
    const void* pointers[4] = {a, b, c, d};
    Layout layouts[4] = {a_layout, b_layout, c_layout, d_layout};
    for (int i = 0; i < 4; ++i) {
      call.addresses[i] = reinterpret_cast<uint64_t>(pointers[i]);
      if (*OneOf(s.layouts, layouts[i], __func__) != call.plan.layouts[i]) Misuse(__func__, "other layouts");
      if (call.addresses[i] % call.plan.preference.alignments[i] != 0) Misuse(__func__, "a matrix is not aligned so");
    }
    if (c == d && call.plan.layouts[2] != call.plan.layouts[3]) Misuse(__func__, "C is D, and has another layout");
    for (int i : {0, 1}) {
      if (call.addresses[i] < call.addresses[3] + BytesOf(call.plan.layouts[3]) &&
          call.addresses[3] < call.addresses[i] + BytesOf(call.plan.layouts[i])) {
        Misuse(__func__, "the result overlaps a factor");
      }
    }
    if ((now.epilogue == kAddBias) != (call.bias != 0)) Misuse(__func__, "no biases");
    if (workspace_bytes < call.plan.workspace) Misuse(__func__, "the algorithm takes more workspace");
    call.workspace = reinterpret_cast<uint64_t>(workspace);
    if (call.plan.workspace != 0 && call.workspace % 256 != 0) Misuse(__func__, "the workspace is not aligned");
    bool is_double = now.scale == kReal64;
    call.alpha = is_double ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
    call.beta = is_double ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  }
  Status status = 0;
  if (Fails("product", status)) return status;
  if (std::getenv("FAKE_CUDA_COUNT") != nullptr) {
    const FakeLayout& of_d = call.plan.layouts[3];
    std::fprintf(stderr, "fake libcublasLt.so.13: product: %llu x %llu, batches %d, transposed %d %d, workspace %llu\n",
                 static_cast<unsigned long long>(of_d.rows), static_cast<unsigned long long>(of_d.columns),
                 of_d.batches, call.plan.desc.transpose_a, call.plan.desc.transpose_b,
                 static_cast<unsigned long long>(call.plan.workspace));
  }
  std::vector<uint64_t> uses(call.addresses, call.addresses + 4);
  if (call.bias != 0) uses.push_back(call.bias);
  if (call.plan.workspace != 0) uses.push_back(call.workspace);
  return s.driver.Queue(stream, uses, [call] { return Multiply(call); }) == 0 ? 0 : kExecutionFailed;
}

}  // extern "C"
