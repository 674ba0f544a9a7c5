/* Compiles a program for this CPU and runs it on two threads, within limits; prints the result. */
#include <relayvm/relayvm.h>
#include <relayvm/relayvm_compiler.h>
#include <stdio.h>
#include <string.h>

static const char kText[] =
    "#[version = \"0.0.5\"]\n"
    "def @main(%x: Tensor[(n), float32], %k: int32) -> Tensor[(n), float32] {\n"
    "  if (%k <= 0) { %x } else { @main(floor(log(exp(%x)) + 1.5f), %k - 1) }\n"
    "}\n";

int main(void) {
  rvm_compilation* compilation = rvm_compile("main.relay", kText, strlen(kText), NULL);
  size_t size = 0;
  const void* bytes = rvm_compilation_bytes(compilation, &size);
  fputs(rvm_compilation_message(compilation), stderr);
  if (bytes == NULL) return 1;
  rvm_program* program = NULL;
  rvm_machine* machine = NULL;
  rvm_value *arguments[2] = {NULL, NULL}, *result = NULL;
  rvm_load_options native = {.struct_size = sizeof(native), .allow_native = 1};
  rvm_machine_options limits = {.struct_size = sizeof(limits), .threads = 2, .time_limit_ms = 60000};
  rvm_error* error = rvm_program_load(bytes, size, &native, &program);
  if (error == NULL) error = rvm_machine_create(program, &limits, &machine);
  if (error == NULL) error = rvm_value_parse(program, "main", 0, "[1, 2, 3]", &arguments[0]);
  if (error == NULL) error = rvm_value_parse(program, "main", 1, "4", &arguments[1]);
  if (error == NULL) error = rvm_machine_run(machine, "main", arguments, 2, &result);
  if (error != NULL) {
    fprintf(stderr, "%s\n%s", rvm_error_message(error), rvm_error_backtrace(error));
  } else {
    char* text = rvm_value_to_string(result);
    puts(text);
    rvm_string_free(text);
  }
  int status = error != NULL;
  rvm_error_free(error);
  rvm_value_release(result);
  rvm_value_release(arguments[0]);
  rvm_value_release(arguments[1]);
  rvm_machine_free(machine);
  rvm_program_release(program);
  rvm_compilation_free(compilation);
  return status;
}
