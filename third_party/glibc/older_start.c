// Starts a program that is linked with an older glibc's interface (older_interface.py), on that glibc and on newer
// ones.
//
// Before 2.34 a program's constructors were called by a function that the program brought along and gave to glibc; the
// start files of this machine bring none. Newer glibcs still call such a function, in the stead of the constructors.
typedef int Main(int, char**, char**);
typedef void Initialise(int, char**, char**);

#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_VERSION "GLIBC_2.17"
#endif

__asm__(".symver StartOfGlibc, __libc_start_main@" FIRST_VERSION);
int StartOfGlibc(Main* main, int argc, char** argv, Initialise* initialise, void (*unused)(void), void (*at_exit)(void),
                 void* end_of_stack);

// Of crti.o, and of the linker.
__attribute__((visibility("hidden"))) void _init(void);
extern __attribute__((visibility("hidden"))) Initialise* const __init_array_start[];
extern __attribute__((visibility("hidden"))) Initialise* const __init_array_end[];

static void CallConstructors(int argc, char** argv, char** environment) {
  _init();
  for (Initialise* const* next = __init_array_start; next != __init_array_end; ++next) (*next)(argc, argv, environment);
}

// The start files call this.
int __libc_start_main(Main* main, int argc, char** argv, Initialise* initialise, void (*unused)(void),
                      void (*at_exit)(void), void* end_of_stack) {
  return StartOfGlibc(main, argc, argv, initialise != 0 ? initialise : CallConstructors, unused, at_exit, end_of_stack);
}
