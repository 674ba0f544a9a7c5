/* accelerator.h: a kind of device of your own, as a shared library that RelayVM opens.
 *
 * The library exports one function, rvm_accelerator_get, which gives a table: the names of the kind and of its code,
 * the chains of operators that the device computes with the maker of their code (the compiler's half), and devices with
 * memory, streams and launches (the runtime's half). `relayvm compile --device-library ./libnpu.so --device npu`
 * makes executables for it, `relayvm-run --device-library ./libnpu.so` runs them; RELAYVM_DEVICE_LIBRARIES in the
 * environment names libraries for all programs. An executable never names a library. docs/accelerators.md shows each
 * part.
 *
 * ABI. RVM_ACCELERATOR_ABI changes when a struct of this header changes, but for rvm_accelerator: that begins with its
 * size, and fields are only ever added at its end. The table and what it points to live as long as the process.
 *
 * Errors. Functions that can fail return RVM_ACCELERATOR_OK or another status, and then may write what was seen and
 * what was expected into `message`, a buffer of RVM_ACCELERATOR_MESSAGE bytes that holds "" before. Results are then
 * unused. Nothing may throw.
 *
 * Threads. `accepts` and the functions of code that is made may run on several threads, each code on one at a time.
 * Functions of devices, blocks and loaded code run on any thread at any time; those of a stream on one at a time.
 *
 * Ownership. RelayVM destroys what it was given by the function next to the one that made it: streams before the code
 * that they launched, both before their device. Blocks may be destroyed while work that uses them is queued: the device
 * then keeps their memory until it is done. Devices are never destroyed. What a function is given lives as long as the
 * call, but for what it says otherwise.
 *
 * C99 and C++. */
#ifndef RVM_INCLUDE_RELAYVM_ACCELERATOR_H_
#define RVM_INCLUDE_RELAYVM_ACCELERATOR_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RVM_ACCELERATOR_ABI 1
#define RVM_ACCELERATOR_MESSAGE 1024

typedef enum {
  RVM_ACCELERATOR_OK = 0,
  RVM_ACCELERATOR_UNSUPPORTED, /* add: the kernel must run on the host */
  RVM_ACCELERATOR_INVALID,     /* load: the code is malformed; launch: an argument does not fit it */
  RVM_ACCELERATOR_NO_MEMORY,   /* of the device: RelayVM gives free memory back, and tries again */
  RVM_ACCELERATOR_FAILED       /* anything else; the stream is then only good to be destroyed */
} rvm_accelerator_status;

/* ---- the compiler's half */

typedef enum { RVM_DTYPE_INT = 0, RVM_DTYPE_UINT, RVM_DTYPE_FLOAT, RVM_DTYPE_BOOL, RVM_DTYPE_OTHER } rvm_dtype_code;
typedef struct {
  uint32_t code; /* rvm_dtype_code; RVM_DTYPE_FLOAT: IEEE's of 16, 32 and 64 bits */
  uint32_t bits;
} rvm_element_type;

typedef enum {
  RVM_EXTENT_CONSTANT = 0, /* `value` */
  RVM_EXTENT_SYMBOL,       /* symbol number `value` of the kernel: an argument of the launch */
  RVM_EXTENT_BROADCAST,    /* the first of `terms` that is not 1, or 1 */
  RVM_EXTENT_UNKNOWN       /* anything */
} rvm_extent_kind;
typedef struct rvm_extent {
  uint32_t kind;
  uint32_t term_count;
  int64_t value;
  const struct rvm_extent* terms;
} rvm_extent;

typedef struct {
  rvm_element_type element;
  uint32_t rank;
  const rvm_extent* extents;
} rvm_tensor_type;

typedef enum {
  RVM_ATTRIBUTE_NONE = 0,
  RVM_ATTRIBUTE_BOOL,   /* `integer` */
  RVM_ATTRIBUTE_INT,    /* `integer` */
  RVM_ATTRIBUTE_FLOAT,  /* `real` */
  RVM_ATTRIBUTE_STRING, /* `string` */
  RVM_ATTRIBUTE_LIST    /* `items` */
} rvm_attribute_kind;
typedef struct rvm_attribute {
  const char* name; /* NULL for an item */
  uint32_t kind;
  uint32_t item_count;
  int64_t integer;
  double real;
  const char* string;
  const struct rvm_attribute* items;
} rvm_attribute;

typedef enum {
  RVM_OPERAND_ARGUMENT = 0, /* argument `number` of the function */
  RVM_OPERAND_CALL,         /* the result of call `number` */
  RVM_OPERAND_CONSTANT      /* the elements at `constant`, in row-major order: mostly a scalar */
} rvm_operand_kind;
typedef struct {
  uint32_t kind;
  uint32_t number;
  rvm_tensor_type type;
  const void* constant;
} rvm_operand;

/* A call of an operator of docs/operators.md, with all its attributes. */
typedef struct {
  const char* op; /* "nn.dense" */
  uint32_t operand_count;
  uint32_t attribute_count;
  const rvm_operand* operands;
  const rvm_attribute* attributes;
  rvm_tensor_type type; /* of the result */
} rvm_operator_call;

/* Calls that fit a pattern; the result is that of the last. While the program is divided (`accepts`) extents that are
 * not known are RVM_EXTENT_UNKNOWN. When code is made, those of arguments and of the last call are over symbols. */
typedef struct {
  const char* pattern;
  uint32_t call_count;
  uint32_t argument_count;
  const rvm_operator_call* calls;
} rvm_composite;

/* A step of a pattern: one of these operators. */
typedef struct {
  const char* const* operators;
  uint32_t operator_count;
  uint32_t is_optional;
} rvm_pattern_step;

/* A chain of operators: each step but the first, which is not optional, takes the result of the one before, and nothing
 * else takes that result. */
typedef struct {
  const char* name;
  const rvm_pattern_step* steps;
  uint32_t step_count;
  uint32_t reserved; /* 0 */
} rvm_pattern;

/* The code of an executable, as it grows. */
typedef struct rvm_accelerator_code rvm_accelerator_code;

/* ---- the runtime's half */

typedef struct rvm_accelerator_device rvm_accelerator_device;
typedef struct rvm_accelerator_block rvm_accelerator_block;   /* a piece of device memory */
typedef struct rvm_accelerator_loaded rvm_accelerator_loaded; /* code, ready to be launched */
typedef struct rvm_accelerator_stream rvm_accelerator_stream; /* work, done in the order in which it was queued */

typedef struct {
  const char* name;     /* for people; lives as long as the device */
  const char* features; /* reserved: "" */
  int64_t memory_bytes; /* in all */
} rvm_accelerator_info;

/* Function f of a kernel has these arguments: the kernel's arguments (a block, or the bits of the element of a scalar),
 * its result, a workspace, which is an empty block, and the symbols of its shapes (numbers). */
typedef struct {
  const rvm_accelerator_block* block; /* NULL for numbers, and for memory that the function does not use */
  uint64_t number;
} rvm_accelerator_argument;

/* When the device did a piece of work: nanoseconds on a clock of the stream. */
typedef struct {
  double begin_ns, end_ns;
} rvm_accelerator_time;

/* ---- the table */

typedef struct {
  uint32_t struct_size; /* sizeof(rvm_accelerator) */
  uint32_t pattern_count;
  const char* kind;   /* "npu": what --device takes; letters, digits and _ */
  const char* target; /* "npu-code-1": the name of the code in executables; another name for code of another form */
  const rvm_pattern* patterns;

  /* Returns not 0 if the device computes the calls, as far as their types, attributes and constants tell. */
  int (*accepts)(const rvm_composite* composite);
  rvm_accelerator_status (*code_create)(rvm_accelerator_code** code, char* message);
  /* Adds the function `name` that computes the calls. */
  rvm_accelerator_status (*code_add)(rvm_accelerator_code* code, const char* name, const rvm_composite* composite,
                                     char* message);
  /* Gives the bytes of the code, which live as long as it does. Nothing is added afterwards. */
  rvm_accelerator_status (*code_finish)(rvm_accelerator_code* code, const uint8_t** bytes, size_t* size, char* message);
  void (*code_destroy)(rvm_accelerator_code* code);

  /* Gives the number of devices of this machine; an error says why there is none. */
  rvm_accelerator_status (*device_count)(uint32_t* count, char* message);
  rvm_accelerator_status (*device_open)(uint32_t number, rvm_accelerator_device** device, rvm_accelerator_info* info,
                                        char* message);
  rvm_accelerator_status (*block_create)(rvm_accelerator_device* device, int64_t bytes, rvm_accelerator_block** block,
                                         char* message);
  void (*block_destroy)(rvm_accelerator_block* block);
  /* Checks the code, which comes from a file: RVM_ACCELERATOR_INVALID if it is malformed. `functions`: the names of the
   * functions that will be launched, by number. */
  rvm_accelerator_status (*code_load)(rvm_accelerator_device* device, const uint8_t* bytes, size_t size,
                                      const char* const* functions, size_t function_count,
                                      rvm_accelerator_loaded** loaded, char* message);
  void (*code_unload)(rvm_accelerator_loaded* loaded);
  /* `keeps_times` not 0: for stream_times. */
  rvm_accelerator_status (*stream_create)(rvm_accelerator_device* device, uint32_t keeps_times,
                                          rvm_accelerator_stream** stream, char* message);
  /* Waits for what was queued, or drops it. */
  void (*stream_destroy)(rvm_accelerator_stream* stream);
  /* Queues a copy; the bytes at `from` stay unchanged until it is done. An error may belong to work that was queued
   * before; that holds for all functions of streams. */
  rvm_accelerator_status (*copy_in)(rvm_accelerator_stream* stream, const rvm_accelerator_block* to, const void* from,
                                    size_t size, char* message);
  /* Waits for all work queued so far, and copies. */
  rvm_accelerator_status (*copy_out)(rvm_accelerator_stream* stream, void* to, const rvm_accelerator_block* from,
                                     size_t size, char* message);
  /* Queues function number `function`. A function that does not lie within its blocks is RVM_ACCELERATOR_INVALID. */
  rvm_accelerator_status (*launch)(rvm_accelerator_stream* stream, const rvm_accelerator_loaded* loaded,
                                   uint32_t function, const rvm_accelerator_argument* arguments, size_t argument_count,
                                   char* message);
  /* Waits until all work is done, but not much longer than so many nanoseconds; `is_done` says whether it is. */
  rvm_accelerator_status (*wait)(rvm_accelerator_stream* stream, int64_t nanoseconds, uint32_t* is_done, char* message);
  /* Gives the times of the copies and launches that were queued since the last call, in order, which live until the
   * next call. All work is done. */
  rvm_accelerator_status (*stream_times)(rvm_accelerator_stream* stream, const rvm_accelerator_time** times,
                                         size_t* count, char* message);
} rvm_accelerator;

/* Returns the table for RVM_ACCELERATOR_ABI `abi`, or NULL if the library has none. */
__attribute__((visibility("default"))) const rvm_accelerator* rvm_accelerator_get(uint32_t abi);
typedef const rvm_accelerator* (*rvm_accelerator_get_function)(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif /* RVM_INCLUDE_RELAYVM_ACCELERATOR_H_ */
