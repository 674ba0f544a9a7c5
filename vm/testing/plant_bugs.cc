// Writes sources into which bugs can be planted: where a table says so, a source does something else while a bug is
// planted (planted_bugs.h). The result is one file.
//
//   plant_bugs TABLE SOURCE... > RESULT
//
// The table has paragraphs. The first line of one names a bug; it is followed by its places: `- CODE`, which is in
// exactly one source exactly once, and `+ CODE`, which is there instead. CODE is an expression, or one or several
// statements that end in a semicolon; in `+` it may be empty. Lines that begin with `#` are comments.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "plant_bugs: %s\n", what.c_str());
  std::exit(1);
}

std::string Read(const char* path) {
  std::ifstream file(path);
  if (!file) Fail(std::string("cannot read ") + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Place {
  std::string code, instead;
};

struct Bug {
  std::string name;
  std::vector<Place> places;
};

std::vector<Bug> ReadTable(const char* path) {
  std::vector<Bug> bugs;
  std::istringstream lines(Read(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    bool is_code = line.starts_with("- "), is_instead = line.starts_with("+");
    if (!is_code && !is_instead) {
      bugs.push_back({line, {}});
    } else if (bugs.empty() || (is_instead && bugs.back().places.empty())) {
      Fail("a place without a bug: " + line);
    } else if (is_code) {
      bugs.back().places.push_back({line.substr(2), ""});
    } else {
      bugs.back().places.back().instead = line.size() > 2 ? line.substr(2) : "";
    }
  }
  return bugs;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string Planted(const Place& place, size_t bug) {
  std::string test = "::rvm::vm::testing::IsPlanted(" + std::to_string(bug) + ")";
  if (place.code.ends_with(';')) return "{ if (" + test + ") { " + place.instead + " } else { " + place.code + " } }";
  return "(" + test + " ? (" + place.instead + ") : (" + place.code + "))";
}

void Plant(const Place& place, const Bug& bug, size_t number, std::vector<std::string>& sources) {
  std::string* found = nullptr;
  for (std::string& source : sources) {
    size_t count = Count(source, place.code);
    if (count > 1 || (count == 1 && found != nullptr)) Fail(bug.name + ": in several places: " + place.code);
    if (count == 1) found = &source;
  }
  if (found == nullptr) Fail(bug.name + ": not there: " + place.code);
  found->replace(found->find(place.code), place.code.size(), Planted(place, number));
}

std::string Quoted(const std::string& text) {
  std::string quoted;
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return '"' + quoted + '"';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) Fail("expected TABLE SOURCE...");
  std::vector<Bug> bugs = ReadTable(argv[1]);
  std::vector<std::string> sources(argv + 2, argv + argc);
  for (std::string& source : sources) source = Read(source.c_str());
  for (size_t n = 0; n < bugs.size(); ++n) {
    if (bugs[n].places.empty()) Fail(bugs[n].name + ": no place");
    for (const Place& place : bugs[n].places) Plant(place, bugs[n], n, sources);
  }
  std::printf("#include \"vm/testing/planted_bugs.h\"\n");
  for (const std::string& source : sources) std::printf("%s\n", source.c_str());
  std::printf("const std::vector<std::string>& rvm::vm::testing::BugNames() {\n");
  std::printf("  static const auto* const kNames = new std::vector<std::string>{\n");
  for (const Bug& bug : bugs) std::printf("      %s,\n", Quoted(bug.name).c_str());
  std::printf("  };\n  return *kNames;\n}\n");
}
