/* Says a word with the g2p network: cc spell.c $(pkg-config --cflags --libs relayvm) -o spell; ./spell g2p.rvm hello */
#include <relayvm/relayvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* kPhonemes[] = {
#include "phonemes.inc"
};

static void check(rvm_error* error) {
  if (error != NULL) fprintf(stderr, "error: %s\n%s", rvm_error_message(error), rvm_error_backtrace(error)), exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3 || strlen(argv[2]) > 64) return fprintf(stderr, "usage: spell g2p.rvm WORD\n"), 2;
  rvm_load_options load = {.struct_size = sizeof(load), .allow_native = 1};
  rvm_program* program;
  rvm_machine* machine;
  check(rvm_program_load_file(argv[1], &load, &program));
  check(rvm_machine_create(program, NULL, &machine));
  rvm_dtype int32 = {.code = 0, .bits = 32, .lanes = 1};
  rvm_value *letters[64], *word, *spoken, *phonemes[64];
  size_t length = strlen(argv[2]), count;
  for (size_t i = 0; i < length; ++i) { /* 1: unknown to the network */
    check(rvm_value_scalar_int(int32, argv[2][i] >= 'a' && argv[2][i] <= 'z' ? argv[2][i] - 'a' + 3 : 1, &letters[i]));
  }
  check(rvm_value_list(letters, length, &word));
  check(rvm_machine_run(machine, "main", &word, 1, &spoken));
  check(rvm_value_list_elements(spoken, phonemes, 64, &count));
  for (size_t i = 0; i < count; ++i) {
    printf("%s%s", kPhonemes[*(const int32_t*)rvm_value_data(phonemes[i])], i + 1 < count ? " " : "\n");
    rvm_value_release(phonemes[i]);
  }
  for (size_t i = 0; i < length; ++i) rvm_value_release(letters[i]);
  rvm_value_release(word);
  rvm_value_release(spoken);
  rvm_machine_free(machine);
  rvm_program_release(program);
}
