// How much a test does: `./run test` takes a sample of the cases where `./run test --long` takes all.
#ifndef RVM_BASE_LONG_TESTS_H_
#define RVM_BASE_LONG_TESTS_H_

#include <cstdlib>

namespace rvm {

// Returns `all` in runs of `./run test --long`, `usual` in others.
template <typename T>
T LongOr(T all, T usual) {
  return std::getenv("RELAYVM_SOAK") != nullptr ? all : usual;
}

// Takes every `step`-th of the cases that a test goes through, or all in long runs. A step without a common factor with
// the number of innermost cases takes each of these now and then.
class Sample {
 public:
  explicit Sample(int step) : step_(LongOr(1, step)) {}

  bool Takes() { return next_++ % step_ == 0; }

 private:
  int step_;
  int next_ = 0;
};

}  // namespace rvm

#endif  // RVM_BASE_LONG_TESTS_H_
