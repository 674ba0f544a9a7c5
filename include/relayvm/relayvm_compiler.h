/* relayvm_compiler.h: compile Relay programs, ONNX and PyTorch models to executables for relayvm.h.
 * librelayvm_compiler.so.1.
 *
 * Every call makes one rvm_compilation, which holds the results or what is wrong; the caller frees it. Threads: calls
 * are independent; a compilation is immutable. Strings, structs and ABI: as in relayvm.h. */
#ifndef RVM_INCLUDE_RELAYVM_RELAYVM_COMPILER_H_
#define RVM_INCLUDE_RELAYVM_RELAYVM_COMPILER_H_

#include <relayvm/relayvm.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rvm_compilation rvm_compilation;

typedef struct {
  const char* name;
  rvm_dtype dtype;
  size_t rank;
  const int64_t* shape;
  const void* data; /* row-major */
} rvm_named_tensor;

typedef struct {
  const char* name;    /* of an input */
  const char* extents; /* "1,n,80"; `?` is unknown; "" is a scalar */
} rvm_named_shape;

typedef struct {
  const char* name; /* "step": its main is the function @step of the program */
  const char* text;
  size_t size;
} rvm_named_text;

typedef struct {
  uint32_t struct_size;
  int32_t opt_level;               /* 0 to 3 */
  const char* target;              /* "host", "portable", "x86-64-v3", "host,sm_80", ...; NULL: "host" */
  const char* const* entries;      /* functions callable from outside */
  size_t entry_count;              /* 0: main, and functions that nothing calls */
  const rvm_named_tensor* weights; /* for free variables and parameters of @main with their names */
  size_t weight_count;
  const char* const* params_files; /* more of them: .npz, .safetensors, .npy, .params */
  size_t params_file_count;
  /* Called during the compilation, on its thread: `done` of the `total` parts of a stage, "passes" or "kernels". NULL:
   * never. */
  void (*progress)(void* context, const char* stage, size_t done, size_t total);
  void* progress_context;
  /* What runs on devices: "gpu", "opencl:nn.*,host", as `relayvm compile --device` takes it. NULL: nothing. */
  const char* device;
  uint32_t host_fallback; /* not 0: where there is no such device the executable runs on the host */
  /* Called during the compilation, on its thread, between its steps; not 0 ends it with the error "cancelled". NULL:
   * never. */
  int (*poll)(void* context);
  void* poll_context;
  /* Other programs, such as the text of rvm_import, as functions of this one. The free variable %w of the program
   * `step` has the weight "step.w". It takes the place of a file that the text imports under that name. */
  const rvm_named_text* imports;
  size_t import_count;
  /* The folder that paths of `import` in the text are relative to. NULL: the text may not import files. */
  const char* import_folder;
  uint32_t batch; /* not 0: variants of kernels for many calls at once, as `relayvm compile --batch` makes them */
  uint32_t reserved;
  /* Functions beside their bytecode as machine code for the targets: "native"; not: "bytecode". NULL: from level 2 on,
   * for programs that loop or recur. */
  const char* control;
  /* Accelerator libraries (accelerator.h), with colons between them, whose kinds `device` may name. NULL: none beside
   * those of RELAYVM_DEVICE_LIBRARIES in the environment. */
  const char* device_libraries;
} rvm_compile_options; /* NULL: level 2, this CPU, no weights */

/* Compiles a program's text. `name`, usually its path, is for messages. */
RVM_API rvm_compilation* rvm_compile(const char* name, const char* text, size_t size,
                                     const rvm_compile_options* options);

/* Parses and types a program's text, as `relayvm check` does: rvm_compilation_text is its canonical form. Weights need
 * not be there. */
RVM_API rvm_compilation* rvm_check(const char* name, const char* text, size_t size);
/* The same with the imports and the import_folder of `options`; the others are not used. The text has the definitions
 * of all files, and the compilation the weights of those that were read. */
RVM_API rvm_compilation* rvm_check_with(const char* name, const char* text, size_t size,
                                        const rvm_compile_options* options);

typedef struct {
  const void* bytes; /* of an executable, for rvm_program_load */
  size_t size;
} rvm_program_bytes;

/* Narrower weights and products of bytes, as `relayvm quantize` makes them (docs/quantization.md). The functions run
 * programs for the library, on the thread that calls rvm_quantize: 0 is success, other numbers end it with an error. */
typedef struct {
  uint32_t struct_size;
  uint32_t force;          /* not 0: also what is slower for it */
  const char* scheme;      /* "w8", "w4", "float16", "bfloat16", "w4a8-dynamic", "w8a8-dynamic", "w8a8" */
  const char* const* kept; /* names of weights that stay in floats */
  size_t kept_count;
  int64_t group;         /* weights of 4 bits that share a scale; 0: 32 */
  const char* entry;     /* that the data are for; NULL: "main" */
  const char* observer;  /* of w8a8: "minmax", "percentile=99.9", "entropy"; NULL: "mse" */
  double greatest_error; /* of the results; 0: any */
  void* context;         /* of the functions */
  /* Measures: nanoseconds of a call in each program. Before each, memory of `others` bytes is read. `operand`: the
   * argument of main; NULL: the calls of the data are measured. NULL: nothing is measured. A
   * failure of `time` with an operand leaves that operator unmeasured. */
  int (*time)(void* context, const rvm_program_bytes* programs, size_t count, const int64_t* others,
              const rvm_named_tensor* operand, double* nanoseconds);
  /* The data. All three, or NULL: none. `begin` runs the program in floats on them, and gives the number of calls;
   * `error` says how far the results of another program are from those. `observe` runs one whose entry has a function
   * as its last parameter, and passes on what that is called with to `see`. */
  int (*begin)(void* context, const rvm_program_bytes* program, int64_t* calls);
  int (*error)(void* context, const rvm_program_bytes* program, double* error);
  int (*observe)(void* context, const rvm_program_bytes* program,
                 void (*see)(void* observer, int64_t site, const float* activations, size_t count), void* observer);
} rvm_quantize_options;

/* Quantises a program's text. The compilation has its executable, its text, the weights of that, and the report. */
RVM_API rvm_compilation* rvm_quantize(const char* name, const char* text, size_t size,
                                      const rvm_compile_options* options, const rvm_quantize_options* quantize);

typedef struct {
  uint32_t struct_size;
  uint32_t reserved;
  const rvm_named_tensor* frozen; /* inputs with values that they always have */
  size_t frozen_count;
  const rvm_named_shape* shapes; /* inputs with other extents than the model says */
  size_t shape_count;
  /* The bytes of the file of weights of a "darknet" or "mxnet" model; NULL: the file beside the model. */
  const void* weights;
  size_t weights_size;
  /* Signatures of a SavedModel or a .tflite file: the first one becomes @main, each other one a function of its name;
   * they share the weights. NULL: "serving_default", or the only one. */
  const char* const* signatures;
  size_t signature_count;
  /* The dtype of the caches of keys and values of a "gguf" or "transformers" model: "float16", "bfloat16" or "float32".
   * NULL: "float16" for a decoder whose weights are not of float32, "float32" for others. */
  const char* cache_dtype;
  /* The dtype of the rows that quantised weights of such a model multiply: "int8", which rounds them in blocks, or
   * "float32". NULL: "int8". */
  const char* activation_dtype;
} rvm_import_options; /* NULL: none */

/* Imports a model of the format "onnx", "torch" (what torch.export.save or torch.jit.save wrote), "tflite" (TensorFlow
 * Lite), "stablehlo" (a portable artifact, or what jax.export serialized), "keras" (.keras, or .h5 with a config),
 * "darknet", "mxnet", "tensorflow" (a SavedModel, or a frozen graph), "gguf", or "transformers" (the config.json of a
 * folder with .safetensors files, or that folder): its text and weights are for rvm_compile. A model in memory has no
 * external data; that of a file lies beside it or below. The ending of a file, .onnx, .pt2, .pt, .torchscript, .tflite,
 * .mlirbc, .stablehlo, .keras, .h5, .cfg, -symbol.json, .pb, .gguf or config.json, is its format where that is NULL. */
RVM_API rvm_compilation* rvm_import(const char* format, const void* bytes, size_t size,
                                    const rvm_import_options* options);
RVM_API rvm_compilation* rvm_import_file(const char* format, const char* path, const rvm_import_options* options);
/* The same of one format. */
RVM_API rvm_compilation* rvm_import_onnx(const void* bytes, size_t size, const rvm_import_options* options);
RVM_API rvm_compilation* rvm_import_onnx_file(const char* path, const rvm_import_options* options);
RVM_API rvm_compilation* rvm_import_torch(const void* bytes, size_t size, const rvm_import_options* options);
RVM_API rvm_compilation* rvm_import_torch_file(const char* path, const rvm_import_options* options);

/* NULL if there was an error, else the executable of rvm_compile or rvm_quantize. */
RVM_API const void* rvm_compilation_bytes(const rvm_compilation* compilation, size_t* size);
/* NULL if there was an error, else the program of rvm_import, of the others of its kind, of rvm_check or of
 * rvm_quantize. */
RVM_API const char* rvm_compilation_text(const rvm_compilation* compilation);
/* The types of the functions of rvm_check as JSON: {"main": "fn (int32) -> int32"}; "{}" if there was an error. */
RVM_API const char* rvm_compilation_types(const rvm_compilation* compilation);
/* The report of rvm_quantize as JSON, as `relayvm quantize --report FILE.json` writes it; "{}" of others. */
RVM_API const char* rvm_compilation_report(const rvm_compilation* compilation);
RVM_API size_t rvm_compilation_weight_count(const rvm_compilation* compilation);
/* 0: there is no such weight. `out` lives as long as the compilation. */
RVM_API int rvm_compilation_weight(const rvm_compilation* compilation, size_t index, rvm_named_tensor* out);
/* The operators of an imported model as JSON, also where the import failed: [{"name": "Conv", "nodes": 12, "refused":
 * 2, "reasons": ["..."]}]; "[]" for bytes that are no model. */
RVM_API const char* rvm_compilation_coverage(const rvm_compilation* compilation);
/* Errors and warnings as people read them, with places and source lines; "" if there are none. */
RVM_API const char* rvm_compilation_message(const rvm_compilation* compilation);
/* The same as JSON: [{"severity": "error" or "warning", "kind": "dim-mismatch", "message": "...", "file":
 * "model.relay", "line": 3, "column": 7, "notes": [{"message": "...", "file": "...", "line": 1, "column": 1}]}];
 * without a place, file is "" and the numbers are 0; at a node of an imported model, file says which and the numbers
 * are 0. Errors outside of the program, as of files, have kind "". */
RVM_API const char* rvm_compilation_diagnostics(const rvm_compilation* compilation);
RVM_API void rvm_compilation_free(rvm_compilation* compilation);

#ifdef __cplusplus
}
#endif

#endif /* RVM_INCLUDE_RELAYVM_RELAYVM_COMPILER_H_ */
