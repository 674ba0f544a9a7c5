// Quantities as text for people, in the unit that fits: "6.12 us", "40.0 MB".
#ifndef RVM_BASE_UNITS_H_
#define RVM_BASE_UNITS_H_

#include <cstdint>
#include <string>

namespace rvm {

// Returns a time with three digits: "0 ns", "412 ns", "6.12 us", "38.5 ms", "2.50 s". "-" if it is not finite.
std::string DurationText(double ns);

// Returns a size with three digits, in powers of 1000: "912 B", "1.20 kB", "38.5 MB".
std::string BytesText(int64_t bytes);

// Returns a rate with three digits: "912 MFLOP/s" for 9.12e8 and "FLOP/s".
std::string RateText(double per_second, const char* unit);

}  // namespace rvm

#endif  // RVM_BASE_UNITS_H_
