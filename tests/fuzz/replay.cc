// Runs a fuzz target on the files that are the arguments, and where it has a mutator on some
// mutations of each: what fuzzing found stays found, and the mutator works. A target ends the process
// where it finds something.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                                                unsigned seed);

namespace {

class Replay : public testing::Test {
 public:
  Replay(std::string path, unsigned mutations) : path_(std::move(path)), mutations_(mutations) {}

  void TestBody() override {
    std::ifstream file(path_, std::ios::binary);
    ASSERT_TRUE(file.good()) << path_;
    std::vector<uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()), 0) << "the target takes nothing like it";
    if (LLVMFuzzerCustomMutator == nullptr) return;
    for (unsigned seed = 1; seed <= mutations_; ++seed) {
      std::vector<uint8_t> mutated = bytes;
      mutated.resize(bytes.size() + 4096);
      mutated.resize(LLVMFuzzerCustomMutator(mutated.data(), bytes.size(), mutated.size(), seed));
      LLVMFuzzerTestOneInput(mutated.data(), mutated.size());
    }
  }

 private:
  std::string path_;
  unsigned mutations_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  unsigned mutations = 20;
  for (int i = 1; i < argc; ++i) {
    std::string path = argv[i];
    if (path.starts_with("--mutations=")) {
      mutations = static_cast<unsigned>(std::stoul(path.substr(path.find('=') + 1)));
      continue;
    }
    testing::RegisterTest("Corpus", path.substr(path.rfind('/') + 1).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [path, mutations]() -> testing::Test* { return new Replay(path, mutations); });
  }
  return argc > 1 ? RUN_ALL_TESTS() : 1;
}
