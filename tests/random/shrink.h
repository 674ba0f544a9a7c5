// From a program that fails to a small one that fails in the same way.
#ifndef RVM_TESTS_RANDOM_SHRINK_H_
#define RVM_TESTS_RANDOM_SHRINK_H_

#include <functional>

#include "tests/random/generator.h"

namespace rvm::random_programs {

// Drops calls and functions, replaces expressions by parts of themselves or by constants, drops
// clauses and let bindings, as long as `fails` stays true, at most `max_tries` times asked.
Program Shrink(Program program, const std::function<bool(const Program&)>& fails, int max_tries = 3000);

}  // namespace rvm::random_programs

#endif  // RVM_TESTS_RANDOM_SHRINK_H_
