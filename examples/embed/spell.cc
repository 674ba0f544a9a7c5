// Says words with the g2p network: c++ -std=c++17 spell.cc $(pkg-config --cflags --libs relayvm) -o spell
#include <cstdint>
#include <cstdio>
#include <relayvm/relayvm.hpp>
#include <string>
#include <vector>

constexpr const char* kPhonemes[] = {
#include "phonemes.inc"
};

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: spell g2p.rvm WORD...\n"), 2;
  auto program = relayvm::Program::LoadFile(argv[1], /*allow_native=*/true);
  if (!program) return std::fprintf(stderr, "error: %s\n", program.error().message()), 1;
  auto session = relayvm::Session::Create(*program);
  for (int i = 2; i < argc; ++i) {
    std::vector<relayvm::Value> letters;
    for (char c : std::string(argv[i])) letters.push_back(relayvm::Value::Scalar<int32_t>(c - 'a' + 3).value());
    auto spoken = session->Run("main", {relayvm::Value::List(letters).value()});
    if (!spoken) return std::fprintf(stderr, "error: %s\n", spoken.error().message()), 1;
    for (const relayvm::Value& phoneme : spoken->elements().value())
      std::printf("%s ", kPhonemes[*phoneme.data<int32_t>()]);
    std::printf("\n");
  }
}
