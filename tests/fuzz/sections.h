// A `.rvm` file as its sections, to change some of them and lay the file out again.
#ifndef RVM_TESTS_FUZZ_SECTIONS_H_
#define RVM_TESTS_FUZZ_SECTIONS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace rvm::fuzz {

struct Section {
  uint16_t id;
  uint16_t flags;
  std::vector<uint8_t> contents;
};

// Returns the sections of the table; those that lie outside the file are empty.
std::vector<Section> Split(std::span<const uint8_t> file);

// Returns a file of the sections, with right offsets and checksums.
std::vector<uint8_t> Join(const std::vector<Section>& sections, uint32_t file_class, uint16_t minor);

}  // namespace rvm::fuzz

#endif  // RVM_TESTS_FUZZ_SECTIONS_H_
