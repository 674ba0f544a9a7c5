/* Calls relayvm.h with right and wrong arguments: check_interface FOLDER, which has programs that capi_test.py
 * compiled. Prints what is wrong; exit status 0 if nothing is. */
#include <pthread.h>
#include <relayvm/relayvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;
#define EXPECT(condition)                                                                        \
  do {                                                                                           \
    if (!(condition)) printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), ++failures; \
  } while (0)

/* The error has this code and this in its message. Frees it. */
static void expect_at(int line, rvm_error* error, rvm_code code, const char* part) {
  if (rvm_error_code(error) != code || (part != NULL && strstr(rvm_error_message(error), part) == NULL)) {
    printf("line %d: saw %s: %s; expected %s: %s\n", line, rvm_code_name(rvm_error_code(error)),
           rvm_error_message(error), rvm_code_name(code), part == NULL ? "" : part);
    ++failures;
  }
  rvm_error_free(error);
}
#define FAILS(call, code, part) expect_at(__LINE__, (call), (code), (part))
#define OK(call) expect_at(__LINE__, (call), RVM_OK, NULL)

static const rvm_dtype kFloat32 = {2, 32, 1}, kInt32 = {0, 32, 1}, kInt64 = {0, 64, 1};
static const char* folder;

static rvm_program* load(const char* name) {
  char path[1000];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  rvm_program* program = NULL;
  OK(rvm_program_load_file(path, NULL, &program));
  return program;
}

static rvm_value* int_value(int64_t number) {
  rvm_value* value = NULL;
  OK(rvm_value_scalar_int(kInt32, number, &value));
  return value;
}

static int released;
static void on_release(void* context) { released += *(int*)context; }

static void programs(void) {
  rvm_program* program = (rvm_program*)&failures;
  FAILS(rvm_program_load_file(NULL, NULL, &program), RVM_INVALID_ARGUMENT, "`path`");
  FAILS(rvm_program_load_file("/nowhere.rvm", NULL, &program), RVM_IO, "nowhere.rvm");
  FAILS(rvm_program_load_file("/nowhere.rvm", NULL, NULL), RVM_INVALID_ARGUMENT, "`out`");
  FAILS(rvm_program_load("RVM?", 4, NULL, &program), RVM_INVALID_FILE, NULL);
  FAILS(rvm_program_load(NULL, 4, NULL, &program), RVM_INVALID_ARGUMENT, "`bytes`");
  FAILS(rvm_verify("", 0), RVM_INVALID_FILE, NULL);
  EXPECT(program == (rvm_program*)&failures);
  uint8_t secret[64] = {1};
  char* file = NULL;
  size_t size = 0;
  FAILS(rvm_sign(NULL, 4, secret, &file, &size), RVM_INVALID_ARGUMENT, "`bytes`");
  FAILS(rvm_sign("RVM?", 4, NULL, &file, &size), RVM_INVALID_ARGUMENT, "`secret_key`");
  FAILS(rvm_sign("RVM?", 4, secret, NULL, &size), RVM_INVALID_ARGUMENT, "`out`");
  FAILS(rvm_sign("RVM?", 4, secret, &file, NULL), RVM_INVALID_ARGUMENT, "`out_size`");
  FAILS(rvm_sign("RVM?", 4, secret, &file, &size), RVM_INVALID_FILE, NULL);
  EXPECT(file == NULL);
  char path[1000];
  snprintf(path, sizeof(path), "%s/native.rvm", folder);
  FAILS(rvm_program_load_file(path, NULL, &program), RVM_UNTRUSTED_CODE, "allow_native");
  OK(rvm_verify_file(path));
  rvm_load_options options = {.struct_size = sizeof(options), .allow_native = 1};
  OK(rvm_program_load_file(path, &options, &program));
  rvm_program_release(program);
  FILE* opened = fopen(path, "rb");
  static char bytes[1 << 20];
  size = fread(bytes, 1, sizeof(bytes), opened);
  fclose(opened);
  int one = 1;
  FAILS(rvm_program_load_borrow(NULL, size, &options, on_release, &one, &program), RVM_INVALID_ARGUMENT, "`bytes`");
  FAILS(rvm_program_load_borrow(bytes, size, NULL, on_release, &one, &program), RVM_UNTRUSTED_CODE, "allow_native");
  FAILS(rvm_program_load_borrow(bytes, 4, &options, on_release, &one, &program), RVM_INVALID_FILE, NULL);
  EXPECT(released == 0);
  OK(rvm_program_load_borrow(bytes, size, &options, on_release, &one, &program));
  rvm_program_release(program);
  EXPECT(released == 1);
  released = 0;
  uint8_t key[1][32] = {{1}};
  options.allow_native = 0, options.trusted_keys = key, options.key_count = 1;
  FAILS(rvm_program_load_file(path, &options, &program), RVM_UNTRUSTED_CODE, "not signed");
  options.struct_size = 0;
  FAILS(rvm_program_load_file(path, &options, &program), RVM_INVALID_ARGUMENT, "struct_size");
  program = load("values.rvm");
  EXPECT(rvm_program_entry_count(program) == 8);
  EXPECT(rvm_program_entry_name(program, 8) == NULL && rvm_program_entry_type(program, 8) == NULL);
  for (size_t i = 0; i < rvm_program_entry_count(program); ++i) {
    if (strcmp(rvm_program_entry_name(program, i), "scale") != 0) continue;
    EXPECT(strcmp(rvm_program_entry_type(program, i), "fn (%x: Tensor[(n, 2), float32]) -> Tensor[(?, 2), float32]") ==
           0);
  }
  EXPECT(strstr(rvm_program_signature(program), "\"parameters\"") != NULL);
  rvm_program_release(rvm_program_retain(program));
  rvm_program_release(program);
}

static void values(void) {
  rvm_value *tensor = NULL, *other = NULL;
  int64_t shape[2] = {2, 2}, negative[1] = {-1}, huge[2] = {INT64_MAX, INT64_MAX};
  float data[4] = {1, 2, 3, 4};
  int one = 1;
  rvm_dtype odd = {2, 24, 1};
  FAILS(rvm_value_tensor_copy(odd, shape, 2, data, &tensor), RVM_INVALID_ARGUMENT, "24 bits");
  FAILS(rvm_value_tensor_copy(kFloat32, negative, 1, data, &tensor), RVM_INVALID_ARGUMENT, "-1");
  FAILS(rvm_value_tensor_copy(kFloat32, huge, 2, data, &tensor), RVM_INVALID_ARGUMENT, "too large");
  FAILS(rvm_value_tensor_copy(kFloat32, NULL, 2, data, &tensor), RVM_INVALID_ARGUMENT, "shape");
  FAILS(rvm_value_tensor_copy(kFloat32, shape, 2, NULL, &tensor), RVM_INVALID_ARGUMENT, "elements");
  FAILS(rvm_value_tensor_copy(kFloat32, shape, 99, data, &tensor), RVM_INVALID_ARGUMENT, "rank 99");
  FAILS(rvm_value_tensor_borrow(odd, shape, 2, data, on_release, &one, &tensor), RVM_INVALID_ARGUMENT, NULL);
  EXPECT(released == 0);
  OK(rvm_value_tensor_borrow(kFloat32, shape, 2, data, on_release, &one, &tensor));
  EXPECT(rvm_value_data(tensor) == data && rvm_value_rank(tensor) == 2 && rvm_value_shape(tensor)[1] == 2);
  struct DLManagedTensorVersioned* exported = NULL;
  OK(rvm_value_to_dlpack(tensor, &exported));
  OK(rvm_value_from_dlpack(exported, &other)); /* both ways, still the same memory */
  EXPECT(rvm_value_data(other) == data);
  rvm_value_release(tensor);
  EXPECT(released == 0);
  rvm_value_release(other);
  EXPECT(released == 1);
  int64_t number = 0;
  double real = 0;
  OK(rvm_value_scalar_float(kFloat32, 1.5, &tensor));
  OK(rvm_value_get_float(tensor, &real));
  EXPECT(real == 1.5);
  FAILS(rvm_value_get_int(tensor, &number), RVM_INVALID_ARGUMENT, "float32");
  FAILS(rvm_value_get_int(NULL, &number), RVM_INVALID_ARGUMENT, "NULL");
  rvm_program* program = load("values.rvm");
  FAILS(rvm_value_get_int((rvm_value*)program, &number), RVM_INVALID_ARGUMENT, "saw rvm_program");
  EXPECT(rvm_value_kind((rvm_value*)program) == RVM_NONE && rvm_value_field((rvm_value*)program, 0) == NULL);
  rvm_value* parts[2] = {tensor, NULL};
  FAILS(rvm_value_tuple(parts, 2, &other), RVM_INVALID_ARGUMENT, "fields[1]");
  FAILS(rvm_value_list(parts, 2, &other), RVM_INVALID_ARGUMENT, "elements[1]");
  FAILS(rvm_value_adt(NULL, NULL, 0, &other), RVM_INVALID_ARGUMENT, "`constructor`");
  FAILS(rvm_value_parse(program, "total", 0, "[1, x]", &other), RVM_INVALID_ARGUMENT, "column 5");
  FAILS(rvm_value_parse(program, "total", 1, "[1]", &other), RVM_INVALID_ARGUMENT, "takes 1");
  FAILS(rvm_value_parse(program, "nothing", 0, "[1]", &other), RVM_INVALID_ARGUMENT, "no entry");
  size_t count = 0;
  FAILS(rvm_value_list_elements(tensor, NULL, 0, &count), RVM_INVALID_ARGUMENT, "no list");
  rvm_value_release(tensor);
  rvm_value_release(NULL);
  rvm_program_release(program);
}

static void lists(void) {
  rvm_value *tensor = NULL, *list = NULL, *back = NULL, *pair[2];
  int64_t shape[2] = {3, 2}, empty[2] = {0, 2};
  float data[6] = {1, 2, 3, 4, 5, 6};
  OK(rvm_value_tensor_copy(kFloat32, shape, 2, data, &tensor));
  FAILS(rvm_value_list_from_tensor(NULL, &list), RVM_INVALID_ARGUMENT, "`tensor`");
  FAILS(rvm_value_list_from_tensor(tensor, NULL), RVM_INVALID_ARGUMENT, "`out`");
  OK(rvm_value_list_from_tensor(tensor, &list));
  FAILS(rvm_value_list_from_tensor(list, &back), RVM_INVALID_ARGUMENT, "without an axis");
  const void* elements = rvm_value_data(tensor);
  rvm_value_release(tensor);
  char* text = rvm_value_to_string(list);
  EXPECT(strcmp(text, "Cons([1f, 2f], Cons([3f, 4f], Cons([5f, 6f], Nil)))") == 0);
  rvm_string_free(text);
  pair[0] = rvm_value_field(list, 0);
  EXPECT(rvm_value_data(pair[0]) == elements);
  OK(rvm_value_list_to_tensor(list, &back));
  EXPECT(rvm_value_rank(back) == 2 && rvm_value_shape(back)[0] == 3 && rvm_value_shape(back)[1] == 2);
  EXPECT(memcmp(rvm_value_data(back), data, sizeof(data)) == 0);
  FAILS(rvm_value_list_to_tensor(back, &tensor), RVM_INVALID_ARGUMENT, "no list");
  rvm_value_release(list);
  pair[1] = back;
  OK(rvm_value_list(pair, 2, &list));
  FAILS(rvm_value_list_to_tensor(list, &tensor), RVM_INVALID_ARGUMENT, "element 1 is float32 of shape (3, 2)");
  rvm_value_release(list);
  rvm_value_release(pair[0]);
  rvm_value_release(back);
  OK(rvm_value_tensor_copy(kFloat32, empty, 2, NULL, &tensor));
  OK(rvm_value_list_from_tensor(tensor, &list));
  EXPECT(strcmp(rvm_value_constructor(list), "Nil") == 0);
  FAILS(rvm_value_list_to_tensor(list, &back), RVM_INVALID_ARGUMENT, "empty");
  rvm_value_info info = {0};
  FAILS(rvm_value_get_info(tensor, &info), RVM_INVALID_ARGUMENT, "struct_size");
  info.struct_size = sizeof(info);
  FAILS(rvm_value_get_info(NULL, &info), RVM_INVALID_ARGUMENT, "`value`");
  FAILS(rvm_value_get_info(tensor, NULL), RVM_INVALID_ARGUMENT, "`out`");
  OK(rvm_value_get_info(tensor, &info));
  EXPECT(info.kind == RVM_TENSOR && info.dtype.bits == 32 && info.rank == 2 && info.shape[1] == 2);
  OK(rvm_value_get_info(list, &info));
  EXPECT(info.kind == RVM_ADT && strcmp(info.constructor, "Nil") == 0 && info.field_count == 0 && info.shape == NULL);
  rvm_value_release(list);
  rvm_value_release(tensor);
}

static int ended;

static void batch_done(void* context, rvm_error* error, rvm_value* result) {
  ++ended;
  EXPECT((error == NULL) != (result == NULL));
  *(rvm_code*)context = rvm_error_code(error);
  rvm_error_free(error);
  rvm_value_release(result);
}

/* Requests of a program without variants, one of them wrong, one cancelled. */
static void check_batches(rvm_program* program, rvm_value* list) {
  rvm_batch* batch;
  rvm_batch_options options = {.struct_size = sizeof(options), .lanes = 2000};
  FAILS(rvm_batch_create(program, &options, &batch), RVM_INVALID_ARGUMENT, "`lanes` is 2000");
  rvm_machine_options machine = {.struct_size = sizeof(machine), .profile = 1};
  options = (rvm_batch_options){.struct_size = sizeof(options), .lanes = 2, .machine = &machine};
  FAILS(rvm_batch_create(program, &options, &batch), RVM_INVALID_ARGUMENT, "does not profile");
  OK(rvm_batch_create(program, NULL, &batch));
  rvm_code codes[3] = {RVM_INTERNAL, RVM_INTERNAL, RVM_INTERNAL};
  uint64_t ticket = 0;
  OK(rvm_batch_submit(batch, "total", &list, 1, NULL, batch_done, &codes[0], NULL));
  OK(rvm_batch_submit(batch, "none", &list, 1, NULL, batch_done, &codes[1], NULL));
  OK(rvm_batch_submit(batch, "total", &list, 1, NULL, batch_done, &codes[2], &ticket));
  rvm_batch_cancel(batch, ticket);
  EXPECT(ended == 1 && codes[2] == RVM_CANCELLED);
  OK(rvm_batch_drive(batch, 0));
  EXPECT(ended == 3 && codes[0] == RVM_OK && codes[1] == RVM_INVALID_ARGUMENT);
  OK(rvm_batch_drive(batch, 1));
  FAILS(rvm_batch_drive(batch, -1), RVM_INVALID_ARGUMENT, "`wait_ms` is -1");
  FAILS(rvm_batch_submit(batch, "total", &list, 1, NULL, NULL, NULL, NULL), RVM_INVALID_ARGUMENT, "`done`");
  rvm_batch_stats stats = {.struct_size = sizeof(stats)};
  OK(rvm_batch_get_stats(batch, &stats));
  EXPECT(stats.requests == 3 && stats.calls == 0);
  OK(rvm_batch_submit(batch, "total", &list, 1, NULL, batch_done, &codes[0], NULL)); /* dropped */
  rvm_batch_free(batch);
  EXPECT(ended == 3);
}

/* The types of entries, as rvm_program_signature has them. */
static void types(void) {
  rvm_program* program = load("values.rvm");
  size_t pair = 0;
  while (strcmp(rvm_program_entry_name(program, pair), "pair") != 0) ++pair;
  EXPECT(rvm_program_parameter_count(program, pair) == 1 && rvm_program_result_count(program, pair) == 2);
  rvm_named_type named = {.struct_size = sizeof(named)};
  OK(rvm_program_get_parameter(program, pair, 0, &named));
  EXPECT(strcmp(named.name, "l") == 0 && strcmp(named.text, "List[int32]") == 0);
  rvm_type_info list = {.struct_size = sizeof(list)}, info = {.struct_size = sizeof(info)};
  OK(rvm_program_get_type(program, named.type, &list));
  EXPECT(list.kind == RVM_ADT && list.constructor_count == 2 && strcmp(list.text, "List[int32]") == 0);
  rvm_constructor_info cons = {.struct_size = sizeof(cons)};
  OK(rvm_program_get_constructor(program, named.type, 0, &cons));
  EXPECT(strcmp(cons.name, "Cons") == 0 && cons.field_count == 2 && cons.fields[1] == named.type);
  OK(rvm_program_get_type(program, cons.fields[0], &info));
  EXPECT(info.kind == RVM_TENSOR && info.rank == 0 && info.dtype.bits == 32 && info.dtype.code == 0);
  uint32_t list_type = named.type;
  OK(rvm_program_get_result(program, pair, 0, &named));
  EXPECT(named.type == list_type && strcmp(named.name, "result1") == 0);
  OK(rvm_program_get_result(program, pair, 1, &named));
  OK(rvm_program_get_type(program, named.type, &info));
  EXPECT(info.kind == RVM_REF && info.field_count == 1 && info.fields[0] == cons.fields[0]);
  for (size_t entry = 0; entry < rvm_program_entry_count(program); ++entry) {
    const char* name = rvm_program_entry_name(program, entry);
    OK(rvm_program_get_parameter(program, entry, 0, &named));
    OK(rvm_program_get_type(program, named.type, &info));
    if (strcmp(name, "scale") == 0) {
      EXPECT(info.kind == RVM_TENSOR && info.rank == 2 && info.shape[0] == -1 && info.shape[1] == 2);
      EXPECT(strcmp(named.text, "Tensor[(n, 2), float32]") == 0 && strcmp(info.text, "Tensor[(?, 2), float32]") == 0);
    }
    if (strcmp(name, "each") == 0) {
      EXPECT(info.kind == RVM_CLOSURE && info.field_count == 1);
      OK(rvm_program_get_type(program, info.result, &info));
      EXPECT(info.kind == RVM_TUPLE && info.field_count == 0);
    }
  }
  size_t count = rvm_program_type_count(program);
  for (size_t i = 0; i < count; ++i) OK(rvm_program_get_type(program, i, &info));
  FAILS(rvm_program_get_type(program, count, &info), RVM_INVALID_ARGUMENT, "`type` is");
  FAILS(rvm_program_get_type(NULL, 0, &info), RVM_INVALID_ARGUMENT, "`program`");
  FAILS(rvm_program_get_type(program, 0, NULL), RVM_INVALID_ARGUMENT, "rvm_type_info");
  FAILS(rvm_program_get_constructor(program, list_type, 2, &cons), RVM_INVALID_ARGUMENT, "expected less than 2");
  FAILS(rvm_program_get_constructor(program, cons.fields[0], 0, &cons), RVM_INVALID_ARGUMENT, "there are none");
  FAILS(rvm_program_get_parameter(program, 100, 0, &named), RVM_INVALID_ARGUMENT, "`entry` is 100");
  FAILS(rvm_program_get_parameter(program, pair, 1, &named), RVM_INVALID_ARGUMENT, "`index` is 1");
  FAILS(rvm_program_get_result(program, pair, 2, &named), RVM_INVALID_ARGUMENT, "expected less than 2");
  named.struct_size = 1;
  FAILS(rvm_program_get_result(program, pair, 0, &named), RVM_INVALID_ARGUMENT, "struct_size");
  EXPECT(rvm_program_type_count(NULL) == 0 && rvm_program_parameter_count(program, 100) == 0);
  EXPECT(rvm_program_result_count(NULL, 0) == 0);
  rvm_program_release(program);
}

static void runs(void) {
  rvm_program* program = load("values.rvm");
  rvm_machine* machine = NULL;
  rvm_value *argument = NULL, *result = NULL;
  FAILS(rvm_machine_create(NULL, NULL, &machine), RVM_INVALID_ARGUMENT, "`program`");
  rvm_machine_options options = {.struct_size = sizeof(options), .fuel = -1};
  FAILS(rvm_machine_create(program, &options, &machine), RVM_INVALID_ARGUMENT, "fuel");
  OK(rvm_machine_create(program, NULL, &machine));
  FAILS(rvm_machine_run(machine, "nothing", NULL, 0, &result), RVM_INVALID_ARGUMENT, "no entry");
  FAILS(rvm_machine_run(machine, NULL, NULL, 0, &result), RVM_INVALID_ARGUMENT, "`entry`");
  FAILS(rvm_machine_run(machine, "scale", NULL, 1, &result), RVM_INVALID_ARGUMENT, "`args`");
  FAILS(rvm_machine_run(machine, "scale", NULL, 0, &result), RVM_INVALID_ARGUMENT, "takes 1 argument");
  OK(rvm_value_scalar_int(kInt64, 3, &argument));
  FAILS(rvm_machine_run(machine, "total", &argument, 1, &result), RVM_INVALID_ARGUMENT, "saw int64");
  FAILS(rvm_machine_run(machine, "scale", &argument, 1, &result), RVM_INVALID_ARGUMENT, "Tensor[(?, 2), float32]");
  rvm_value_release(argument);
  OK(rvm_value_adt("Snoc", NULL, 0, &argument));
  FAILS(rvm_machine_run(machine, "total", &argument, 1, &result), RVM_INVALID_ARGUMENT, "`Snoc`");
  rvm_value_release(argument);

  rvm_value *elements[3] = {int_value(1), int_value(2), int_value(3)}, *list = NULL, *fields[2];
  OK(rvm_value_list(elements, 3, &list));
  OK(rvm_machine_run(machine, "total", &list, 1, &result));
  int64_t number = 0;
  OK(rvm_value_get_int(result, &number));
  EXPECT(number == 6);
  rvm_value_release(result);
  OK(rvm_machine_run(machine, "pair", &list, 1, &result));
  EXPECT(rvm_value_kind(result) == RVM_TUPLE && rvm_value_field_count(result) == 2);
  fields[0] = rvm_value_field(result, 0), fields[1] = rvm_value_field(result, 1);
  EXPECT(rvm_value_kind(fields[0]) == RVM_ADT && strcmp(rvm_value_constructor(fields[0]), "Cons") == 0);
  EXPECT(rvm_value_kind(fields[1]) == RVM_REF);
  char* text = rvm_value_to_string(result);
  EXPECT(strcmp(text, "(Cons(1, Cons(2, Cons(3, Nil))), ref(7))") == 0);
  rvm_string_free(text);
  for (int i = 0; i < 2; ++i) rvm_value_release(fields[i]);
  rvm_value_release(result);

  OK(rvm_value_list(NULL, 0, &argument));
  rvm_error* error = rvm_machine_run(machine, "first", &argument, 1, &result);
  EXPECT(strstr(rvm_error_backtrace(error), "  in `first` at ") != NULL);
  FAILS(error, RVM_PROGRAM_FAILED, "no clause");
  rvm_value_release(argument);

  rvm_machine_stats stats = {.struct_size = sizeof(stats)};
  OK(rvm_machine_get_stats(machine, &stats));
  EXPECT(stats.allocations > 0 && stats.peak_bytes > 0);
  char* profile = NULL;
  FAILS(rvm_machine_profile(machine, RVM_PROFILE_JSON, &profile), RVM_INVALID_ARGUMENT, "`profile`");
  OK(rvm_machine_trim(machine));
  rvm_machine_free(machine);

  check_batches(program, list);

  rvm_machine_options watched = {.struct_size = sizeof(watched), .profile = 1, .trace_events = 100};
  OK(rvm_machine_create(program, &watched, &machine));
  OK(rvm_machine_run(machine, "total", &list, 1, &result));
  rvm_value_release(result);
  for (int format = RVM_PROFILE_TABLES; format <= RVM_PROFILE_TRACE; ++format) {
    OK(rvm_machine_profile(machine, (rvm_profile_format)format, &profile));
    EXPECT(strstr(profile, "total") != NULL);
    rvm_string_free(profile);
  }
  FAILS(rvm_machine_profile(machine, (rvm_profile_format)3, &profile), RVM_INVALID_ARGUMENT, "format");
  rvm_machine_free(machine);
  for (int i = 0; i < 3; ++i) rvm_value_release(elements[i]);
  rvm_value_release(list);
  rvm_program_release(program);
}

typedef struct {
  rvm_machine* machine;
  int64_t sum;
  int calls, mode; /* mode: 1 fails, 2 cancels, 3 gives another type, 4 uses its machine */
  int released;
} Host;

static rvm_error* on_call(void* context, rvm_value* const* args, size_t count, rvm_value** out) {
  Host* host = context;
  int64_t number = 0;
  EXPECT(count == 1);
  OK(rvm_value_get_int(args[0], &number));
  host->sum += number;
  ++host->calls;
  rvm_value* result = NULL;
  if (host->mode == 1) return rvm_error_create("out of paper");
  if (host->mode == 2) rvm_machine_cancel(host->machine);
  if (host->mode == 3) *out = int_value(1);
  if (host->mode == 4)
    FAILS(rvm_machine_run(host->machine, "count", args, 1, &result), RVM_INVALID_ARGUMENT, "running");
  return NULL;
}
static void on_host_release(void* context) { ++((Host*)context)->released; }

static void functions(void) {
  rvm_program* program = load("values.rvm");
  rvm_machine *machine = NULL, *other = NULL;
  OK(rvm_machine_create(program, NULL, &machine));
  Host host = {.machine = machine};
  rvm_value *args[2] = {NULL, int_value(3)}, *result = NULL;
  FAILS(rvm_value_function(NULL, NULL, NULL, &args[0]), RVM_INVALID_ARGUMENT, "`function`");
  FAILS(rvm_value_function(on_call, NULL, NULL, NULL), RVM_INVALID_ARGUMENT, "`out`");
  OK(rvm_value_function(on_call, on_host_release, &host, &args[0]));
  EXPECT(rvm_value_kind(args[0]) == RVM_CLOSURE && rvm_value_function_type(args[0]) == -1);
  OK(rvm_machine_run(machine, "each", args, 2, &result));
  EXPECT(host.calls == 3 && host.sum == 6);
  rvm_value_release(result);
  host.mode = 1;
  rvm_error* error = rvm_machine_run(machine, "each", args, 2, &result);
  EXPECT(strstr(rvm_error_backtrace(error), "in `each` at ") != NULL);
  EXPECT(strcmp(rvm_code_name(rvm_error_code(error)), "host-failed") == 0);
  FAILS(error, RVM_HOST_FAILED, "out of paper");
  host.mode = 2;
  FAILS(rvm_machine_run(machine, "each", args, 2, &result), RVM_CANCELLED, NULL);
  host.mode = 3;
  FAILS(rvm_machine_run(machine, "each", args, 2, &result), RVM_HOST_FAILED, "saw int32; expected ()");
  host.mode = 4;
  OK(rvm_machine_run(machine, "each", args, 2, &result));
  rvm_value_release(result);
  FAILS(rvm_machine_run(machine, "count", args, 1, &result), RVM_INVALID_ARGUMENT, "saw a function; expected int32");
  EXPECT(host.released == 0);
  rvm_value_release(args[0]);
  EXPECT(host.released == 1);
  /* A function with state. */
  rvm_value* next = NULL;
  int64_t number = 0;
  OK(rvm_machine_run(machine, "counter", &args[1], 1, &next));
  EXPECT(rvm_value_kind(next) == RVM_CLOSURE && rvm_value_function_type(next) >= 0);
  for (int i = 0; i < 3; ++i) {
    OK(rvm_machine_call(machine, next, NULL, 0, NULL, &result));
    OK(rvm_value_get_int(result, &number));
    EXPECT(number == 3 + i);
    rvm_value_release(result);
  }
  FAILS(rvm_machine_call(NULL, next, NULL, 0, NULL, &result), RVM_INVALID_ARGUMENT, "`machine`");
  FAILS(rvm_machine_call(machine, NULL, NULL, 0, NULL, &result), RVM_INVALID_ARGUMENT, "`function`");
  FAILS(rvm_machine_call(machine, args[1], NULL, 0, NULL, &result), RVM_INVALID_ARGUMENT, "no function");
  FAILS(rvm_machine_call(machine, next, &args[1], 1, NULL, &result), RVM_INVALID_ARGUMENT, "takes 0 arguments");
  OK(rvm_machine_create(program, NULL, &other));
  FAILS(rvm_machine_call(other, next, NULL, 0, NULL, &result), RVM_INVALID_ARGUMENT, "this machine");
  rvm_machine_free(other);
  rvm_machine_free(machine);
  rvm_value_release(next);
  rvm_value_release(args[1]);
  rvm_program_release(program);
}

/* Ends the run when it is called for the last of `*context` times. */
static int on_poll(void* context) { return --*(int*)context == 0; }

static void limits(void) {
  rvm_program* program = load("values.rvm");
  rvm_value *argument = int_value(2000000000), *result = NULL;
  rvm_machine_options options[3] = {{.fuel = 1000}, {.time_limit_ms = 20}, {.memory_limit = 1 << 20}};
  const char* names[3] = {"fuel", "time", "memory"};
  rvm_code codes[3] = {RVM_RESOURCE_EXHAUSTED, RVM_DEADLINE_EXCEEDED, RVM_RESOURCE_EXHAUSTED};
  for (int i = 0; i < 3; ++i) {
    rvm_machine* machine = NULL;
    options[i].struct_size = sizeof(options[i]);
    OK(rvm_machine_create(program, &options[i], &machine));
    rvm_error* error = rvm_machine_run(machine, i == 2 ? "grow" : "count", &argument, 1, &result);
    EXPECT(strcmp(rvm_error_limit(error), names[i]) == 0);
    FAILS(error, codes[i], NULL);
    rvm_machine_free(machine);
  }
  /* Limits of a run; the next one has those of the machine again. */
  rvm_machine* machine = NULL;
  rvm_value* small = int_value(2000);
  OK(rvm_machine_create(program, NULL, &machine));
  rvm_run_options run[2] = {{.fuel = 1000}, {.time_limit_ms = 20}};
  for (int i = 0; i < 2; ++i) {
    run[i].struct_size = sizeof(run[i]);
    rvm_error* error = rvm_machine_run_with(machine, "count", &argument, 1, &run[i], &result);
    EXPECT(strcmp(rvm_error_limit(error), names[i]) == 0);
    FAILS(error, codes[i], NULL);
    OK(rvm_machine_run(machine, "count", &small, 1, &result));
    rvm_value_release(result);
  }
  rvm_run_options wrong = {.struct_size = sizeof(wrong), .fuel = -1};
  FAILS(rvm_machine_run_with(machine, "count", &small, 1, &wrong, &result), RVM_INVALID_ARGUMENT, "`fuel`");
  wrong.struct_size = 1;
  FAILS(rvm_machine_run_with(machine, "count", &small, 1, &wrong, &result), RVM_INVALID_ARGUMENT, "struct_size");
  rvm_program_stats counts = {.struct_size = sizeof(counts)};
  OK(rvm_program_get_stats(program, &counts));
  EXPECT(counts.runs == 7 && counts.errors[RVM_OK] == 0 && counts.seconds > 0.02 && counts.peak_bytes > 1000);
  EXPECT(counts.errors[RVM_RESOURCE_EXHAUSTED] == 3 && counts.errors[RVM_DEADLINE_EXCEEDED] == 2);
  FAILS(rvm_program_get_stats(program, NULL), RVM_INVALID_ARGUMENT, "rvm_program_stats");
  FAILS(rvm_program_get_stats(NULL, &counts), RVM_INVALID_ARGUMENT, "NULL");
  counts.struct_size = 1;
  FAILS(rvm_program_get_stats(program, &counts), RVM_INVALID_ARGUMENT, "struct_size");
  rvm_program_stats older = {.struct_size = 16}; /* of a caller that knows the first field only */
  OK(rvm_program_get_stats(program, &older));
  EXPECT(older.runs == 7 && older.seconds == 0);
  int polls = 3;
  rvm_run_options polled = {.struct_size = sizeof(polled), .poll = on_poll, .poll_context = &polls};
  FAILS(rvm_machine_run_with(machine, "count", &argument, 1, &polled, &result), RVM_CANCELLED, NULL);
  EXPECT(polls == 0);
  rvm_value_release(small);
  rvm_machine_free(machine);
  rvm_value_release(argument);
  rvm_program_release(program);
}

/* A child may free what is its parent's, and run machines of its own. */
static void forks(void) {
  rvm_program* program = load("values.rvm");
  rvm_machine *watched = NULL, *own = NULL;
  rvm_value *argument = int_value(10), *result = NULL;
  rvm_machine_options options = {.struct_size = sizeof(options), .threads = 2, .time_limit_ms = 1000000};
  OK(rvm_machine_create(program, &options, &watched));
  OK(rvm_machine_run(watched, "count", &argument, 1, &result));
  rvm_value_release(result);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    FAILS(rvm_machine_run(watched, "count", &argument, 1, &result), RVM_INVALID_ARGUMENT, "forked");
    rvm_machine_free(watched);
    OK(rvm_machine_create(program, &options, &own));
    OK(rvm_machine_run(own, "count", &argument, 1, &result));
    rvm_value_release(result);
    rvm_machine_free(own);
    fflush(stdout);
    _exit(failures != 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT(status == 0);
  OK(rvm_machine_run(watched, "count", &argument, 1, &result));
  rvm_value_release(result);
  rvm_machine_free(watched);
  rvm_value_release(argument);
  rvm_program_release(program);
}

typedef struct {
  rvm_machine* machine;
  rvm_value* argument;
  rvm_error* error;
  int is_done;
} Run;

static void* run_long(void* data) {
  Run* run = data;
  rvm_value* result = NULL;
  run->error = rvm_machine_run(run->machine, "count", &run->argument, 1, &result);
  __atomic_store_n(&run->is_done, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static void threads(void) {
  rvm_program* program = load("values.rvm");
  Run run = {.argument = int_value(2000000000)};
  OK(rvm_machine_create(program, NULL, &run.machine));
  pthread_t thread;
  pthread_create(&thread, NULL, run_long, &run);
  /* The run ends only by being cancelled; a second one is refused as soon as it began. */
  rvm_value* small = int_value(1);
  for (int is_refused = 0; !is_refused;) {
    rvm_value* result = NULL;
    rvm_error* error = rvm_machine_run(run.machine, "count", &small, 1, &result);
    is_refused = error != NULL;
    rvm_value_release(result);
    if (is_refused) FAILS(error, RVM_INVALID_ARGUMENT, "another thread");
    if (__atomic_load_n(&run.is_done, __ATOMIC_SEQ_CST)) break;
  }
  while (!__atomic_load_n(&run.is_done, __ATOMIC_SEQ_CST)) rvm_machine_cancel(run.machine);
  pthread_join(thread, NULL);
  /* Should it have found the machine taken, that says so as well. */
  EXPECT(rvm_error_code(run.error) == RVM_CANCELLED || rvm_error_code(run.error) == RVM_INVALID_ARGUMENT);
  rvm_error_free(run.error);
  rvm_value* result = NULL;
  OK(rvm_machine_run(run.machine, "count", &small, 1, &result)); /* usable again */
  rvm_value_release(result);
  rvm_value_release(small);
  rvm_value_release(run.argument);
  rvm_machine_free(run.machine);
  rvm_program_release(program);
}

int main(int argc, char** argv) {
  (void)argc;
  folder = argv[1];
  EXPECT(rvm_version() >= 0x100 && rvm_file_version() > 0);
  EXPECT(strcmp(rvm_code_name(RVM_UNTRUSTED_CODE), "untrusted-code") == 0);
  EXPECT(rvm_error_code(NULL) == RVM_OK && strcmp(rvm_error_message(NULL), "") == 0);
  programs();
  types();
  values();
  lists();
  runs();
  functions();
  limits();
  forks();
  threads();
  return failures != 0;
}
