/* Python's handlers of signals during a run, for the package relayvm_runtime: relayvm_signals_poll is a `poll` of
 * rvm_run_options. A callback written in Python cannot do this: an exception of a handler, such as KeyboardInterrupt,
 * would end the callback before its first statement, and be lost.
 *
 * The functions of CPython are looked up when they are called. So the library needs no Python to be built, and one
 * build serves all versions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

/* An exception that was taken from its thread: PyErr_Fetch's results. */
typedef struct {
  void *type, *value, *traceback;
} relayvm_signals_error;

/* Runs the handlers of signals that came, if this is the main thread. Not 0: one of them raised an exception, which is
 * in `context`, a relayvm_signals_error. */
EXPORTED int relayvm_signals_poll(void* context) {
  int (*acquire)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
  void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
  int (*check)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyErr_CheckSignals");
  void (*fetch)(void**, void**, void**) = (void (*)(void**, void**, void**))dlsym(RTLD_DEFAULT, "PyErr_Fetch");
  if (acquire == NULL || release == NULL || check == NULL || fetch == NULL) return 0;
  relayvm_signals_error* error = context;
  int state = acquire();
  int has_failed = check() != 0;
  if (has_failed) fetch(&error->type, &error->value, &error->traceback);
  release(state);
  return has_failed;
}

/* Raises the exception in this thread, which holds the interpreter's lock. */
EXPORTED void relayvm_signals_raise(relayvm_signals_error* error) {
  void (*restore)(void*, void*, void*) = (void (*)(void*, void*, void*))dlsym(RTLD_DEFAULT, "PyErr_Restore");
  relayvm_signals_error taken = *error;
  *error = (relayvm_signals_error){NULL, NULL, NULL};
  restore(taken.type, taken.value, taken.traceback);
}
