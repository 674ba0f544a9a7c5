/* relayvm.h: load, check and run compiled Relay programs (.rvm files).
 *
 *   rvm_program* program; rvm_machine* machine; rvm_value* result;
 *   rvm_error* error = rvm_program_load_file("model.rvm", NULL, &program);
 *   if (error == NULL) error = rvm_machine_create(program, NULL, &machine);
 *   if (error == NULL) error = rvm_machine_run(machine, "main", args, 1, &result);
 *   if (error != NULL) fprintf(stderr, "%s\n%s", rvm_error_message(error), rvm_error_backtrace(error));
 *
 * Errors. A function that can fail returns NULL for success, otherwise an error that the caller frees; results are then
 * left as they were. Every argument is checked: NULL where an object is needed, an object of another kind, and a
 * released one as far as its memory still shows it, are RVM_INVALID_ARGUMENT. Getters, which return no error, give NULL
 * or 0 for them. Releasing NULL does nothing. Nothing throws or exits; the library sets no handler and no locale.
 *
 * Threads. Programs, values and errors are immutable and counted: any thread may use and release them. A machine is
 * used by one thread at a time, a second one gets RVM_INVALID_ARGUMENT; only rvm_machine_cancel may be called by any
 * thread at any time before rvm_machine_free. After fork, a child may use its parent's programs and values, and free
 * its machines, whose memory it then keeps; to run one is RVM_INVALID_ARGUMENT.
 *
 * Strings are UTF-8 and end with a NUL. Those returned as const char* live as long as the object they were asked of.
 *
 * ABI. Opaque handles, numbers of fixed width, and structs that begin with their size: fill them with zeros, then set
 * struct_size = sizeof(the struct). Functions and fields at the end of structs are only ever added. The soname is
 * librelayvm.so.1; every symbol has the version RELAYVM_1. C99 and C++. */
#ifndef RVM_INCLUDE_RELAYVM_RELAYVM_H_
#define RVM_INCLUDE_RELAYVM_RELAYVM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RVM_API __attribute__((visibility("default")))

typedef struct rvm_error rvm_error;
typedef struct rvm_program rvm_program; /* verified and linked */
typedef struct rvm_machine rvm_machine; /* heap, stack and limits of one run at a time */
typedef struct rvm_batch rvm_batch;     /* requests of a program that run together */
typedef struct rvm_value rvm_value;     /* tensor, tuple, constructor, reference or function */
struct DLManagedTensor;                 /* dlpack.h, which is not needed here */
struct DLManagedTensorVersioned;

/* ---- errors */

typedef enum {
  RVM_OK = 0,
  RVM_INVALID_ARGUMENT,    /* of a function of this header, or of an entry: other dtype, shape, number, constructor */
  RVM_INVALID_FILE,        /* damaged, or no executable */
  RVM_UNSUPPORTED_VERSION, /* the file needs a newer library */
  RVM_UNSUPPORTED_TARGET,  /* machine code for other CPUs than this, or a device that is not here */
  RVM_UNTRUSTED_CODE,      /* machine code that is neither allowed nor signed by a trusted key */
  RVM_IO,                  /* the file cannot be read */
  RVM_PROGRAM_FAILED,      /* the program itself: no clause fits, an index or extent is out of range */
  RVM_RESOURCE_EXHAUSTED,  /* a limit of memory, stack or fuel; rvm_error_limit says which */
  RVM_DEADLINE_EXCEEDED,   /* time_limit_ms */
  RVM_CANCELLED,           /* rvm_machine_cancel */
  RVM_INTERNAL,            /* a fault of RelayVM: please report it */
  RVM_DEVICE_FAILED,       /* a GPU or other device failed or is lost; the machine may be used again */
  RVM_HOST_FAILED /* a function of the host that the program called gave an error, or a value of another type */
} rvm_code;

RVM_API rvm_code rvm_error_code(const rvm_error* error);       /* of NULL: RVM_OK */
RVM_API const char* rvm_code_name(rvm_code code);              /* "invalid-file"; never changes */
RVM_API const char* rvm_error_message(const rvm_error* error); /* what was seen and what was expected */
/* Relay functions, innermost first, one a line: "  in `main` at model.relay:3:7"; "" if none ran. */
RVM_API const char* rvm_error_backtrace(const rvm_error* error);
RVM_API const char* rvm_error_limit(const rvm_error* error); /* "memory", "stack", "fuel", "time", or "" */
RVM_API void rvm_error_free(rvm_error* error);
/* An error of a function of the host: RVM_HOST_FAILED with this message. */
RVM_API rvm_error* rvm_error_create(const char* message);

RVM_API uint32_t rvm_version(void);      /* of the library: major << 16 | minor << 8 | patch */
RVM_API uint32_t rvm_file_version(void); /* newest .rvm format that it reads: major << 16 | minor */
/* Frees what functions return as char*. */
RVM_API void rvm_string_free(char* string);

/* ---- programs */

typedef struct {
  uint32_t struct_size;
  uint32_t allow_native;             /* not 0: run machine code of the file, with all rights of this process */
  const uint8_t (*trusted_keys)[32]; /* Ed25519 keys; machine code signed by one of them runs as well */
  size_t key_count;
  /* Where kernels with code for a device run: a kind of devices ("opencl", "cuda", "gpu" for both), one of them
   * ("opencl:1"), several between commas, or "host". NULL: all that are here; the first that fits each code is used. */
  const char* device;
  uint32_t host_fallback; /* not 0: without their device they run on the host; else that is RVM_UNSUPPORTED_TARGET */
  uint32_t reserved;
  /* Accelerator libraries (accelerator.h), with colons between them, which the process opens for this and later
   * programs. They run with all rights of this process. NULL: none beside those of RELAYVM_DEVICE_LIBRARIES in the
   * environment. */
  const char* device_libraries;
} rvm_load_options; /* NULL: portable files only, which are safe whoever made them */

/* Maps the file, which must not be changed in place as long as the program or a result lives. */
RVM_API rvm_error* rvm_program_load_file(const char* path, const rvm_load_options* options, rvm_program** out);
/* Copies the bytes. */
RVM_API rvm_error* rvm_program_load(const void* bytes, size_t size, const rvm_load_options* options, rvm_program** out);
/* The same without a copy: `bytes` stay unchanged until `release(context)`, which any thread may call once neither the
 * program nor a result shares their memory. After an error it is not called. */
RVM_API rvm_error* rvm_program_load_borrow(const void* bytes, size_t size, const rvm_load_options* options,
                                           void (*release)(void* context), void* context, rvm_program** out);
/* Checks everything, also the weights, and runs nothing. */
RVM_API rvm_error* rvm_verify(const void* bytes, size_t size);
RVM_API rvm_error* rvm_verify_file(const char* path);
/* The executable signed with an Ed25519 key, whose second half is the public key; a signature that it has is replaced.
 * `out` is freed by rvm_string_free. */
RVM_API rvm_error* rvm_sign(const void* bytes, size_t size, const uint8_t secret_key[64], char** out, size_t* out_size);
RVM_API rvm_program* rvm_program_retain(rvm_program* program); /* its argument */
RVM_API void rvm_program_release(rvm_program* program);

RVM_API size_t rvm_program_entry_count(const rvm_program* program);
RVM_API const char* rvm_program_entry_name(const rvm_program* program, size_t entry);
/* "fn (%x: Tensor[(n, 3), float32]) -> List[int32]" */
RVM_API const char* rvm_program_entry_type(const rvm_program* program, size_t entry);
/* The same for bindings, as JSON: {"class": "native" or "portable", "variants": kernels that have one for many calls,
 *  "types": [{"kind": "tensor", "dtype": "float32", "shape": [null, 3], "text": "Tensor[(?, 3), float32]"},
 *            {"kind": "tuple" or "ref", "fields": [TYPE...]}, {"kind": "adt", "adt": ADT},
 *            {"kind": "closure", "parameters": [TYPE...], "result": TYPE}...],
 *  "adts": [{"name": "List[int32]", "constructors": [{"name": "Cons", "fields": [TYPE...]}...]}...],
 *  "entries": [{"name": "main", "parameters": [{"name": "x", "type": TYPE, "text": "Tensor[(n, 3), float32]"}...],
 *               "result": TYPE, "results": [{"name": "label", "type": TYPE}...]}...]}
 * where TYPE and ADT are indices of those arrays, null is an extent that is not fixed, and a scalar has shape [].
 * Results are the fields of a tuple, or the one value that is none; those without a name of their own are "result1",
 * ..., or "result". */
RVM_API const char* rvm_program_signature(const rvm_program* program);

/* Counts over all machines of a program in this process, for metrics. */
typedef struct {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t runs;       /* that have ended, with a result or an error */
  int64_t errors[16]; /* those that ended with an error, by rvm_code */
  double seconds;     /* of all of them together */
  int64_t peak_bytes; /* of cells and tensors of one machine, the most so far */
} rvm_program_stats;
RVM_API rvm_error* rvm_program_get_stats(const rvm_program* program, rvm_program_stats* out);

/* ---- machines */

typedef struct {
  uint32_t struct_size;
  uint32_t threads;      /* that share the work of one big kernel; results do not depend on it. 0: 1 */
  int64_t memory_limit;  /* bytes of cells and tensors; 0: 8 GiB */
  int64_t stack_limit;   /* bytes of frames of calls; 0: 512 MiB */
  int64_t fuel;          /* calls and backward jumps of a run; 0: no limit */
  double time_limit_ms;  /* of a run, arguments and result included; 0: no limit */
  uint32_t profile;      /* not 0: watch every instruction, for rvm_machine_profile */
  uint32_t trace_events; /* events of the time line to keep; 0: none */
  uint32_t bytecode;     /* not 0: functions run as bytecode, even if the program has machine code for them */
  uint32_t reserved;
} rvm_machine_options; /* NULL: the defaults */

RVM_API rvm_error* rvm_machine_create(rvm_program* program, const rvm_machine_options* options, rvm_machine** out);
/* A run that another thread is in is cancelled. */
RVM_API void rvm_machine_free(rvm_machine* machine);
/* Runs an entry. After an error the machine may be used again, but functions that earlier runs gave are gone. */
RVM_API rvm_error* rvm_machine_run(rvm_machine* machine, const char* entry, rvm_value* const* args, size_t count,
                                   rvm_value** out);
typedef struct {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t fuel;         /* as in rvm_machine_options; 0: that of the machine */
  double time_limit_ms; /* likewise */
  /* Called by the thread of the run, between two instructions, about every 50 ms; not 0 ends the run with
   * RVM_CANCELLED. It must not use the machine. A kernel that is running is not interrupted by it. NULL: never. */
  int (*poll)(void* context);
  void* poll_context;
} rvm_run_options; /* NULL: the machine's */

/* The same with limits of this run. */
RVM_API rvm_error* rvm_machine_run_with(rvm_machine* machine, const char* entry, rvm_value* const* args, size_t count,
                                        const rvm_run_options* options, rvm_value** out);
/* Runs a function, RVM_CLOSURE, that is part of a result of an earlier run of this machine: what it captured stays in
 * the machine's memory, and is updated in place. That memory is freed by the next run, or by rvm_machine_trim, once the
 * value is released, which any thread may do; after rvm_machine_free the function cannot be called. `options` may be
 * NULL. */
RVM_API rvm_error* rvm_machine_call(rvm_machine* machine, const rvm_value* function, rvm_value* const* args,
                                    size_t count, const rvm_run_options* options, rvm_value** out);
/* Ends the run that is going on, if any, with RVM_CANCELLED. Runs that begin later are not affected. */
RVM_API void rvm_machine_cancel(rvm_machine* machine);
/* Gives cached memory back to the system. */
RVM_API rvm_error* rvm_machine_trim(rvm_machine* machine);

typedef struct {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t live_bytes;     /* cells and tensors now */
  int64_t peak_bytes;     /* the most so far */
  int64_t reserved_bytes; /* taken from the system: what memory_limit bounds */
  int64_t allocations;    /* of cells and tensors so far */
} rvm_machine_stats;
RVM_API rvm_error* rvm_machine_get_stats(rvm_machine* machine, rvm_machine_stats* out);

typedef enum { RVM_PROFILE_TABLES = 0, RVM_PROFILE_JSON = 1, RVM_PROFILE_TRACE = 2 } rvm_profile_format;
/* What the runs of a machine made with `profile` did: tables for people, JSON, or a trace for ui.perfetto.dev. */
RVM_API rvm_error* rvm_machine_profile(rvm_machine* machine, rvm_profile_format format, char** out);

/* ---- batches */

typedef struct {
  uint32_t struct_size;
  uint32_t lanes;                     /* requests that run at once, on one thread; 0: 8 */
  const rvm_machine_options* machine; /* of each lane; its threads are for all of them, and it does not profile */
} rvm_batch_options;                  /* NULL: the defaults */

/* Kernel calls of requests run together where the program was compiled with variants for that (relayvm compile
 * --batch); otherwise one request runs after another. A result does not depend on the requests that ran beside it. */
RVM_API rvm_error* rvm_batch_create(rvm_program* program, const rvm_batch_options* options, rvm_batch** out);
/* Requests that have not ended are dropped, and nobody is called back; if a thread drives the batch, once it returns.
 */
RVM_API void rvm_batch_free(rvm_batch* batch);
/* Takes over `error` or `result`; the other one is NULL. */
typedef void (*rvm_batch_done)(void* context, rvm_error* error, rvm_value* result);
/* Adds a request, which begins when a lane is free. `done` is called once, by the thread that drives the batch, or by
 * the one that cancels the request before it began. `options` have no poll function. Any thread may call this, `done`
 * too. `ticket` may be NULL. */
RVM_API rvm_error* rvm_batch_submit(rvm_batch* batch, const char* entry, rvm_value* const* args, size_t count,
                                    const rvm_run_options* options, rvm_batch_done done, void* context,
                                    uint64_t* ticket);
/* Ends a request with RVM_CANCELLED, if it has not ended. Any thread may call this. */
RVM_API void rvm_batch_cancel(rvm_batch* batch, uint64_t ticket);
/* Runs requests until none is left; waits for the first one no longer than wait_ms. One thread at a time. */
RVM_API rvm_error* rvm_batch_drive(rvm_batch* batch, double wait_ms);

typedef struct {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t requests; /* that have ended */
  int64_t calls;    /* of kernels, that waited for others */
  int64_t groups;   /* of calls that ran together */
} rvm_batch_stats;
RVM_API rvm_error* rvm_batch_get_stats(rvm_batch* batch, rvm_batch_stats* out);

/* ---- values */

typedef enum { RVM_NONE = 0, RVM_TENSOR, RVM_TUPLE, RVM_ADT, RVM_REF, RVM_CLOSURE /* a function */ } rvm_kind;
/* As DLDataType: code 0 int, 1 uint, 2 float, 4 bfloat, 6 bool (of 8 bits), 10 float8_e4m3fn; lanes 1. */
typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} rvm_dtype;

/* A tensor of row-major elements; rank 0 is a scalar. `data` may be NULL if there are no elements. */
RVM_API rvm_error* rvm_value_tensor_copy(rvm_dtype dtype, const int64_t* shape, size_t rank, const void* data,
                                         rvm_value** out);
/* The same without a copy: `data`, aligned to its elements, stays unchanged until `release(context)`, which any thread
 * may call once the value and all that share its memory are released. After an error it is not called. */
RVM_API rvm_error* rvm_value_tensor_borrow(rvm_dtype dtype, const int64_t* shape, size_t rank, const void* data,
                                           void (*release)(void* context), void* context, rvm_value** out);
RVM_API rvm_error* rvm_value_scalar_int(rvm_dtype dtype, int64_t number, rvm_value** out);
RVM_API rvm_error* rvm_value_scalar_float(rvm_dtype dtype, double number, rvm_value** out);
/* Takes the tensor over, unless it returns an error. No copy if it is row-major in memory of the host. */
RVM_API rvm_error* rvm_value_from_dlpack(struct DLManagedTensorVersioned* tensor, rvm_value** out);
RVM_API rvm_error* rvm_value_from_dlpack_unversioned(struct DLManagedTensor* tensor, rvm_value** out);
/* No copy; the result owns a share of the value. Its elements must not be written; the versioned form says so. */
RVM_API rvm_error* rvm_value_to_dlpack(rvm_value* value, struct DLManagedTensorVersioned** out);
RVM_API rvm_error* rvm_value_to_dlpack_unversioned(rvm_value* value, struct DLManagedTensor** out);
/* The parts of these are shared, not taken. */
RVM_API rvm_error* rvm_value_tuple(rvm_value* const* fields, size_t count, rvm_value** out);
RVM_API rvm_error* rvm_value_adt(const char* constructor, rvm_value* const* fields, size_t count, rvm_value** out);
RVM_API rvm_error* rvm_value_list(rvm_value* const* elements, size_t count, rvm_value** out); /* Cons(.., Nil) */
/* The slices of a tensor along axis 0 as a list: of a vector its scalars. They share its memory. */
RVM_API rvm_error* rvm_value_list_from_tensor(const rvm_value* tensor, rvm_value** out);
/* The elements of a list, tensors of one dtype and shape, as a tensor with one more axis, the first. An empty list has
 * neither, and is RVM_INVALID_ARGUMENT. */
RVM_API rvm_error* rvm_value_list_to_tensor(const rvm_value* list, rvm_value** out);
RVM_API rvm_error* rvm_value_ref(rvm_value* contents, rvm_value** out);
/* A function of the host, for a parameter of a type such as fn (int32) -> (). A run calls it on its own thread, and
 * waits for it. The arguments are released by the caller; retain those that stay. It sets `out` to the result, which
 * the caller takes over, or leaves it NULL for (), and returns NULL; or it returns an error, which the caller frees,
 * and which ends the run. It must return, not jump out or throw. It cannot use the machine of the run, except for
 * rvm_machine_cancel, which ends the run when the function has returned. */
typedef rvm_error* (*rvm_function)(void* context, rvm_value* const* args, size_t count, rvm_value** out);
/* `release(context)`, unless NULL, is called once neither a value nor a machine has the function, by any thread. After
 * an error it is not called. */
RVM_API rvm_error* rvm_value_function(rvm_function function, void (*release)(void* context), void* context,
                                      rvm_value** out);
/* A value as text, "Cons(1, Nil)" or "[[1, 2], [3, 4]]", read with the type of a parameter of an entry. */
RVM_API rvm_error* rvm_value_parse(const rvm_program* program, const char* entry, size_t parameter, const char* text,
                                   rvm_value** out);
RVM_API rvm_value* rvm_value_retain(rvm_value* value); /* its argument */
RVM_API void rvm_value_release(rvm_value* value);

RVM_API rvm_kind rvm_value_kind(const rvm_value* value);
RVM_API const char* rvm_value_constructor(const rvm_value* value); /* of RVM_ADT, else NULL */
/* Index of the type of a function that a run gave, among the types of rvm_program_signature; -1 for other values. */
RVM_API int64_t rvm_value_function_type(const rvm_value* value);
RVM_API size_t rvm_value_field_count(const rvm_value* value); /* of tuples, constructors, references; else 0 */
RVM_API rvm_value* rvm_value_field(const rvm_value* value, size_t index); /* to be released; NULL: no such field */
/* The elements of a list, Cons(.., Nil), each to be released: as many as `capacity` holds. `count`: of the list. */
RVM_API rvm_error* rvm_value_list_elements(const rvm_value* value, rvm_value** out, size_t capacity, size_t* count);
RVM_API rvm_dtype rvm_value_dtype(const rvm_value* value); /* of a tensor, else zeros */
RVM_API size_t rvm_value_rank(const rvm_value* value);
RVM_API const int64_t* rvm_value_shape(const rvm_value* value); /* `rank` extents */
RVM_API const void* rvm_value_data(const rvm_value* value);     /* row-major elements; do not write */

typedef struct {
  uint32_t struct_size;
  rvm_kind kind;
  rvm_dtype dtype;
  uint32_t rank;
  const int64_t* shape;
  const void* data;
  const char* constructor;
  size_t field_count;
} rvm_value_info;
/* The getters above in one call; strings and arrays live as long as the value. */
RVM_API rvm_error* rvm_value_get_info(const rvm_value* value, rvm_value_info* out);
RVM_API rvm_error* rvm_value_get_int(const rvm_value* value, int64_t* out);  /* of a scalar of integers or bool */
RVM_API rvm_error* rvm_value_get_float(const rvm_value* value, double* out); /* of any scalar */
RVM_API char* rvm_value_to_string(const rvm_value* value); /* Relay syntax; for rvm_string_free; NULL of no value */

/* ---- types: the same as rvm_program_signature without JSON */

/* Types of a program are numbered from 0; equal types have equal numbers. Strings and arrays live as long as the
 * program. */
typedef struct {
  uint32_t struct_size;
  rvm_kind kind;              /* scalars are RVM_TENSOR of rank 0; RVM_NONE: a type inside the machine */
  rvm_dtype dtype;            /* of RVM_TENSOR */
  uint32_t rank;              /* of RVM_TENSOR */
  const int64_t* shape;       /* `rank` extents; -1: one that is not fixed */
  uint32_t constructor_count; /* of RVM_ADT, for rvm_program_get_constructor */
  uint32_t field_count; /* of RVM_TUPLE and RVM_REF, whose one field is what it refers to; parameters of RVM_CLOSURE */
  const uint32_t* fields; /* their types */
  uint32_t result;        /* the type of the result of RVM_CLOSURE */
  uint32_t reserved;
  const char* text; /* "Tensor[(?, 3), float32]" */
} rvm_type_info;
typedef struct {
  uint32_t struct_size;
  uint32_t field_count;
  const uint32_t* fields; /* their types */
  const char* name;       /* "Cons" */
} rvm_constructor_info;
/* A parameter or a result of an entry. */
typedef struct {
  uint32_t struct_size;
  uint32_t type;
  const char* name; /* of results without a name of their own: "result1", ..., or "result" */
  const char* text; /* of parameters with the program's names of extents: "Tensor[(n, 3), float32]" */
} rvm_named_type;
RVM_API size_t rvm_program_type_count(const rvm_program* program);
RVM_API rvm_error* rvm_program_get_type(const rvm_program* program, size_t type, rvm_type_info* out);
RVM_API rvm_error* rvm_program_get_constructor(const rvm_program* program, size_t type, size_t tag,
                                               rvm_constructor_info* out);
RVM_API size_t rvm_program_parameter_count(const rvm_program* program, size_t entry); /* 0: no such entry */
RVM_API size_t rvm_program_result_count(const rvm_program* program, size_t entry);    /* the fields of a tuple, or 1 */
RVM_API rvm_error* rvm_program_get_parameter(const rvm_program* program, size_t entry, size_t index,
                                             rvm_named_type* out);
RVM_API rvm_error* rvm_program_get_result(const rvm_program* program, size_t entry, size_t index, rvm_named_type* out);

#ifdef __cplusplus
}
#endif

#endif /* RVM_INCLUDE_RELAYVM_RELAYVM_H_ */
