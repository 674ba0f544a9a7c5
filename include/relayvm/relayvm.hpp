// relayvm.hpp: relayvm.h for C++17 and later: objects that release themselves, and results that are a value or an
// error.
//
//   auto program = relayvm::Program::LoadFile("model.rvm");
//   if (!program) return Report(program.error());
//   auto session = relayvm::Session::Create(*program);
//   auto result = session->Run("main", {relayvm::Value::Scalar(2.0f).value()});
//
// Needs neither exceptions nor RTTI. Result::value() of an error prints it and aborts. Threads: as relayvm.h says.
#ifndef RVM_INCLUDE_RELAYVM_RELAYVM_HPP_
#define RVM_INCLUDE_RELAYVM_RELAYVM_HPP_

#include <relayvm/relayvm.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace relayvm {

class Error {
 public:
  explicit Error(rvm_error* error) : error_(error) {}
  rvm_code code() const { return rvm_error_code(error_.get()); }
  const char* message() const { return rvm_error_message(error_.get()); }
  const char* backtrace() const { return rvm_error_backtrace(error_.get()); }
  const char* limit() const { return rvm_error_limit(error_.get()); }

 private:
  struct Free {
    void operator()(rvm_error* error) const { rvm_error_free(error); }
  };
  std::unique_ptr<rvm_error, Free> error_;
};

// A value or an error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}
  explicit operator bool() const { return value_.has_value(); }
  bool ok() const { return value_.has_value(); }
  const Error& error() const { return *error_; }  // REQUIRES: !ok()
  T& value() & { return Check(), *value_; }
  T value() && { return Check(), std::move(*value_); }  // by value: a loop may go over it
  T& operator*() { return value(); }
  T* operator->() { return &value(); }

 private:
  void Check() const {
    if (value_) return;
    std::fprintf(stderr, "relayvm: %s: %s\n%s", rvm_code_name(error_->code()), error_->message(), error_->backtrace());
    std::abort();
  }
  std::optional<T> value_;
  std::optional<Error> error_;
};

// The DLPack code and bits of a C++ type.
template <typename T>
constexpr rvm_dtype DType() {
  static_assert(std::is_arithmetic_v<T>, "a tensor has numbers");
  if (std::is_same_v<T, bool>) return {6, 8, 1};
  uint8_t code = std::is_floating_point_v<T> ? 2 : std::is_signed_v<T> ? 0 : 1;
  return {code, static_cast<uint8_t>(8 * sizeof(T)), 1};
}

// Immutable; copies share the value.
class Value {
 public:
  explicit Value(rvm_value* owned) : value_(owned, rvm_value_release) {}

  template <typename T>
  static Result<Value> Scalar(T number) {
    return Tensor<T>({}, &number);
  }
  // Copies the elements, which are row-major.
  template <typename T>
  static Result<Value> Tensor(const std::vector<int64_t>& shape, const T* data) {
    rvm_value* out = nullptr;
    return Make(rvm_value_tensor_copy(DType<T>(), shape.data(), shape.size(), data, &out), out);
  }
  // Shares the elements with `owner`, which keeps them alive and unchanged.
  template <typename T>
  static Result<Value> Borrow(const std::vector<int64_t>& shape, const T* data, std::shared_ptr<const void> owner) {
    auto* kept = new std::shared_ptr<const void>(std::move(owner));
    auto release = [](void* context) { delete static_cast<std::shared_ptr<const void>*>(context); };
    rvm_value* out = nullptr;
    rvm_error* error = rvm_value_tensor_borrow(DType<T>(), shape.data(), shape.size(), data, release, kept, &out);
    if (error != nullptr) delete kept;
    return Make(error, out);
  }
  static Result<Value> Tuple(const std::vector<Value>& fields) {
    rvm_value* out = nullptr;
    std::vector<rvm_value*> raw = Raw(fields);
    return Make(rvm_value_tuple(raw.data(), raw.size(), &out), out);
  }
  static Result<Value> Adt(const char* constructor, const std::vector<Value>& fields) {
    rvm_value* out = nullptr;
    std::vector<rvm_value*> raw = Raw(fields);
    return Make(rvm_value_adt(constructor, raw.data(), raw.size(), &out), out);
  }
  static Result<Value> List(const std::vector<Value>& elements) {
    rvm_value* out = nullptr;
    std::vector<rvm_value*> raw = Raw(elements);
    return Make(rvm_value_list(raw.data(), raw.size(), &out), out);
  }
  // The slices of a tensor along axis 0, which share its memory.
  static Result<Value> List(const Value& tensor) {
    rvm_value* out = nullptr;
    return Make(rvm_value_list_from_tensor(tensor.get(), &out), out);
  }
  static Result<Value> Ref(const Value& contents) {
    rvm_value* out = nullptr;
    return Make(rvm_value_ref(contents.get(), &out), out);
  }

  // A function of the host, for a parameter that is one; Tuple({}) is the result of those of type fn (...) -> (). It
  // must not throw, nor use the session of the run that calls it.
  using HostFunction = std::function<Result<Value>(const std::vector<Value>& args)>;
  static Result<Value> Function(HostFunction function) {
    auto* kept = new HostFunction(std::move(function));
    auto call = [](void* context, rvm_value* const* args, size_t count, rvm_value** out) -> rvm_error* {
      std::vector<Value> values;
      for (size_t i = 0; i < count; ++i) values.emplace_back(rvm_value_retain(args[i]));
      Result<Value> result = (*static_cast<HostFunction*>(context))(values);
      if (!result) return rvm_error_create(result.error().message());
      *out = rvm_value_retain(result->get());
      return nullptr;
    };
    rvm_value* out = nullptr;
    auto release = [](void* context) { delete static_cast<HostFunction*>(context); };
    rvm_error* error = rvm_value_function(call, release, kept, &out);
    if (error != nullptr) delete kept;
    return Make(error, out);
  }

  rvm_value* get() const { return value_.get(); }
  rvm_kind kind() const { return rvm_value_kind(get()); }
  std::string constructor() const {
    const char* name = rvm_value_constructor(get());
    return name == nullptr ? "" : name;
  }
  std::vector<Value> fields() const {
    std::vector<Value> all;
    for (size_t i = 0; i < rvm_value_field_count(get()); ++i) all.emplace_back(rvm_value_field(get(), i));
    return all;
  }
  // Of a list, Cons(.., Nil).
  Result<std::vector<Value>> elements() const {
    size_t count = 0;
    if (rvm_error* error = rvm_value_list_elements(get(), nullptr, 0, &count)) return Error(error);
    std::vector<rvm_value*> raw(count);
    if (rvm_error* error = rvm_value_list_elements(get(), raw.data(), count, &count)) return Error(error);
    std::vector<Value> all;
    for (rvm_value* element : raw) all.emplace_back(element);
    return all;
  }
  // The elements of a list, tensors of one dtype and shape, as one tensor.
  Result<Value> Stacked() const {
    rvm_value* out = nullptr;
    return Make(rvm_value_list_to_tensor(get(), &out), out);
  }
  std::vector<int64_t> shape() const {
    const int64_t* extents = rvm_value_shape(get());
    return std::vector<int64_t>(extents, extents + rvm_value_rank(get()));
  }
  rvm_dtype dtype() const { return rvm_value_dtype(get()); }
  // The row-major elements; null if they are of another type than T.
  template <typename T>
  const T* data() const {
    rvm_dtype has = dtype(), asked = DType<T>();
    return has.code == asked.code && has.bits == asked.bits ? static_cast<const T*>(rvm_value_data(get())) : nullptr;
  }
  std::string ToString() const {
    char* text = rvm_value_to_string(get());
    std::string copy = text == nullptr ? "" : text;
    rvm_string_free(text);
    return copy;
  }

 private:
  friend class Batch;
  friend class Session;
  static std::vector<rvm_value*> Raw(const std::vector<Value>& values) {
    std::vector<rvm_value*> raw;
    for (const Value& value : values) raw.push_back(value.get());
    return raw;
  }
  // `value` by reference: of a call `Make(f(&out), out)` it may be evaluated before f.
  static Result<Value> Make(rvm_error* error, rvm_value* const& value) {
    if (error != nullptr) return Error(error);
    return Value(value);
  }
  std::shared_ptr<rvm_value> value_;
};

// Copies share the program.
class Program {
 public:
  static Result<Program> LoadFile(const std::string& path, bool allow_native = false) {
    return LoadFile(path, Options(allow_native));
  }
  // struct_size is set here.
  static Result<Program> LoadFile(const std::string& path, rvm_load_options options) {
    options.struct_size = sizeof(options);
    rvm_program* out = nullptr;
    return Make(rvm_program_load_file(path.c_str(), &options, &out), out);
  }
  static Result<Program> Load(const void* bytes, size_t size, bool allow_native = false) {
    rvm_load_options options = Options(allow_native);
    rvm_program* out = nullptr;
    return Make(rvm_program_load(bytes, size, &options, &out), out);
  }
  rvm_program* get() const { return program_.get(); }
  size_t entry_count() const { return rvm_program_entry_count(get()); }
  const char* entry_name(size_t entry) const { return rvm_program_entry_name(get(), entry); }
  const char* entry_type(size_t entry) const { return rvm_program_entry_type(get(), entry); }

  // Types by number, and what entries take and give. Strings and arrays live as long as the program.
  size_t type_count() const { return rvm_program_type_count(get()); }
  Result<rvm_type_info> Type(size_t type) const {
    return Get<rvm_type_info>([&](rvm_type_info* out) { return rvm_program_get_type(get(), type, out); });
  }
  Result<rvm_constructor_info> Constructor(size_t type, size_t tag) const {
    return Get<rvm_constructor_info>(
        [&](rvm_constructor_info* out) { return rvm_program_get_constructor(get(), type, tag, out); });
  }
  size_t parameter_count(size_t entry) const { return rvm_program_parameter_count(get(), entry); }
  size_t result_count(size_t entry) const { return rvm_program_result_count(get(), entry); }
  Result<rvm_named_type> Parameter(size_t entry, size_t index) const {
    return Get<rvm_named_type>(
        [&](rvm_named_type* out) { return rvm_program_get_parameter(get(), entry, index, out); });
  }
  Result<rvm_named_type> ResultType(size_t entry, size_t index) const {
    return Get<rvm_named_type>([&](rvm_named_type* out) { return rvm_program_get_result(get(), entry, index, out); });
  }

  Result<rvm_program_stats> Stats() const {
    return Get<rvm_program_stats>([&](rvm_program_stats* out) { return rvm_program_get_stats(get(), out); });
  }

 private:
  explicit Program(rvm_program* owned) : program_(owned, rvm_program_release) {}
  template <typename T, typename Getter>
  static Result<T> Get(const Getter& getter) {
    T info = {};
    info.struct_size = sizeof(info);
    if (rvm_error* error = getter(&info)) return Error(error);
    return info;
  }
  static rvm_load_options Options(bool allow_native) {
    rvm_load_options options = {};
    options.struct_size = sizeof(options);
    options.allow_native = allow_native;
    return options;
  }
  // `program` by reference, as in Value::Make.
  static Result<Program> Make(rvm_error* error, rvm_program* const& program) {
    if (error != nullptr) return Error(error);
    return Program(program);
  }
  std::shared_ptr<rvm_program> program_;
};

// A machine. Moves only.
class Session {
 public:
  // Limits that are 0 have the defaults of relayvm.h; struct_size is set here.
  static Result<Session> Create(const Program& program, rvm_machine_options options = {}) {
    options.struct_size = sizeof(options);
    rvm_machine* out = nullptr;
    if (rvm_error* error = rvm_machine_create(program.get(), &options, &out)) return Error(error);
    return Session(out);
  }
  // `options` that are 0 are those of the session; struct_size is set here.
  Result<Value> Run(const char* entry, const std::vector<Value>& args, rvm_run_options options = {}) {
    options.struct_size = sizeof(options);
    std::vector<rvm_value*> raw = Value::Raw(args);
    rvm_value* out = nullptr;
    return Value::Make(rvm_machine_run_with(get(), entry, raw.data(), raw.size(), &options, &out), out);
  }
  // Runs a function that is part of a result of this session.
  Result<Value> Call(const Value& function, const std::vector<Value>& args, rvm_run_options options = {}) {
    options.struct_size = sizeof(options);
    std::vector<rvm_value*> raw = Value::Raw(args);
    rvm_value* out = nullptr;
    return Value::Make(rvm_machine_call(get(), function.get(), raw.data(), raw.size(), &options, &out), out);
  }
  void Cancel() { rvm_machine_cancel(get()); }  // by any thread
  Result<rvm_machine_stats> Stats() {
    rvm_machine_stats stats = {};
    stats.struct_size = sizeof(stats);
    if (rvm_error* error = rvm_machine_get_stats(get(), &stats)) return Error(error);
    return stats;
  }
  rvm_machine* get() const { return machine_.get(); }

 private:
  struct Free {
    void operator()(rvm_machine* machine) const { rvm_machine_free(machine); }
  };
  explicit Session(rvm_machine* owned) : machine_(owned) {}
  std::unique_ptr<rvm_machine, Free> machine_;
};

// Requests that run together. Moves only.
class Batch {
 public:
  // Takes the result of a request, on the thread that drives the batch, or on the one that cancels it before it began.
  using Done = std::function<void(Result<Value>)>;

  // Lanes and limits that are 0 have the defaults of relayvm.h; struct_size is set here.
  static Result<Batch> Create(const Program& program, rvm_batch_options options = {}, rvm_machine_options lane = {}) {
    options.struct_size = sizeof(options);
    lane.struct_size = sizeof(lane);
    options.machine = &lane;
    rvm_batch* out = nullptr;
    if (rvm_error* error = rvm_batch_create(program.get(), &options, &out)) return Error(error);
    return Batch(out);
  }
  // Gives the ticket of the request, for Cancel. `options` that are 0 are those of the lanes. By any thread.
  Result<uint64_t> Submit(const char* entry, const std::vector<Value>& args, Done done, rvm_run_options options = {}) {
    options.struct_size = sizeof(options);
    std::vector<rvm_value*> raw = Value::Raw(args);
    auto* context = new Done(std::move(done));
    uint64_t ticket = 0;
    rvm_error* error =
        rvm_batch_submit(get(), entry, raw.data(), raw.size(), &options, End, static_cast<void*>(context), &ticket);
    if (error == nullptr) return ticket;
    delete context;
    return Error(error);
  }
  void Cancel(uint64_t ticket) { rvm_batch_cancel(get(), ticket); }  // by any thread
  // Runs requests until none is left; waits for the first one no longer than that.
  std::optional<Error> Drive(double wait_ms = 0) {
    if (rvm_error* error = rvm_batch_drive(get(), wait_ms)) return Error(error);
    return std::nullopt;
  }
  Result<rvm_batch_stats> Stats() {
    rvm_batch_stats stats = {};
    stats.struct_size = sizeof(stats);
    if (rvm_error* error = rvm_batch_get_stats(get(), &stats)) return Error(error);
    return stats;
  }
  rvm_batch* get() const { return batch_.get(); }

 private:
  struct Free {
    void operator()(rvm_batch* batch) const { rvm_batch_free(batch); }
  };
  static void End(void* context, rvm_error* error, rvm_value* result) {
    std::unique_ptr<Done> done(static_cast<Done*>(context));
    if (error != nullptr) {
      (*done)(Error(error));
    } else {
      (*done)(Value(result));
    }
  }
  explicit Batch(rvm_batch* owned) : batch_(owned) {}
  std::unique_ptr<rvm_batch, Free> batch_;
};

}  // namespace relayvm

#endif  // RVM_INCLUDE_RELAYVM_RELAYVM_HPP_
