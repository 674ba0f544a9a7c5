// Any bytes as a `.rvm` file: an executable or an error, and an executable that verifies has those
// bytes as its only encoding. A mutation changes the bytes of one section and lays the file out
// around it with right offsets and checksums, or hardly any would come past them.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "serialization/decoder.h"
#include "serialization/encoder.h"
#include "serialization/format.h"
#include "serialization/verifier.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/sections.h"

namespace rvm {
namespace {

// A section added, taken out, or changed in its entry or its contents.
void Mutate(std::vector<fuzz::Section>& sections, unsigned seed) {
  unsigned choice = seed / 16 % 32, index = seed / 512;
  if (choice == 0 || sections.empty()) {
    fuzz::Section added = {static_cast<uint16_t>(seed / 64), static_cast<uint16_t>(seed % 32 == 0), {3, 'n', 'e', 'w'}};
    auto after =
        std::find_if(sections.begin(), sections.end(), [&](const fuzz::Section& s) { return s.id > added.id; });
    sections.insert(after, std::move(added));
    return;
  }
  fuzz::Section& section = sections[index % sections.size()];
  if (choice == 1) {
    sections.erase(sections.begin() + index % sections.size());
  } else if (choice == 2) {
    section.flags ^= 1;
  } else if (choice == 3) {
    ++section.id;
  } else {
    size_t old_size = section.contents.size();
    section.contents.resize(old_size + 64);
    section.contents.resize(fuzz::MutateBytes(section.contents.data(), old_size, section.contents.size()));
  }
}

}  // namespace
}  // namespace rvm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::StatusOr<rvm::Executable> executable = rvm::Decode({data, size}, {.check_constants = true});
  if (!executable.ok()) return 0;
  auto verified = rvm::Verify(*std::move(executable));
  if (!verified.ok()) return 0;
  std::vector<uint8_t> again = rvm::Encode(***verified);
  // A signature is not part of the executable.
  uint64_t body = again.size() < size ? again.size() : size;
  bool is_signed = size == body + rvm::format::kSignatureBytes;
  RVM_CHECK(is_signed || (again.size() == size && std::memcmp(again.data(), data, size) == 0),
            "an executable has two encodings");
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  // Now and then the header and the table themselves.
  if (seed % 16 == 0) return rvm::fuzz::MutateBytes(data, size, max_size);
  std::vector<rvm::fuzz::Section> sections = rvm::fuzz::Split({data, size});
  rvm::Mutate(sections, seed);
  uint32_t file_class = size > rvm::format::kClassOffset ? data[rvm::format::kClassOffset] : 0;
  std::vector<uint8_t> file = rvm::fuzz::Join(sections, file_class ^ (seed % 7 == 0), seed % 5 == 0);
  if (file.size() > max_size) return size;
  std::copy(file.begin(), file.end(), data);
  return file.size();
}
