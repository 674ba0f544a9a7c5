#include "tools/arguments.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "base/value.h"
#include "vm/values/value_text.h"

namespace rvm::tools {
namespace {

// Reads files, and standard input at most once.
class FileReader {
 public:
  absl::StatusOr<std::string> Read(const std::string& path) {
    if (path != "-") return ReadFile(path);
    if (std::exchange(read_standard_input_, true)) {
      return absl::InvalidArgumentError("standard input has only one value; use --args - for all values of a call");
    }
    return ReadFile("/dev/stdin");
  }

 private:
  bool read_standard_input_ = false;
};

absl::Status Within(const std::string& place, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(place, ": ", status.message()));
}

std::string NameOfFile(const std::string& path) { return path == "-" ? "standard input" : path; }

// Returns a .npy file, recognised by its magic number, or the text of a value.
absl::StatusOr<Value> ReadValueFile(const Executable& types, TypeId type, const std::string& path, FileReader& files) {
  RVM_ASSIGN_OR_RETURN(std::string bytes, files.Read(path));
  absl::StatusOr<Value> value;
  if (bytes.starts_with("\x93NUMPY")) {
    absl::StatusOr<Literal> tensor = DecodeNpy(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
    value = tensor.ok() ? absl::StatusOr<Value>(Value::Tensor(*std::move(tensor))) : tensor.status();
  } else if (size_t at = bytes.find('\0'); at != std::string::npos) {
    value =
        absl::InvalidArgumentError(absl::StrCat("byte ", at, " is 0; expected a .npy file, or the text of a value"));
  } else {
    value = vm::ParseValueText(types, type, bytes);
  }
  return value.ok() ? value : Within(NameOfFile(path), value.status());
}

// Prints its arguments, and gives ().
class PrintFunction : public FunctionObject {
 public:
  explicit PrintFunction(std::ostream* out) : out_(out) {}

  absl::StatusOr<Value> Call(std::span<const Value> args) override {
    if (out_ == nullptr) return Value();
    std::string line;
    for (const Value& arg : args) absl::StrAppend(&line, line.empty() ? "" : ", ", arg.ToString());
    *out_ << line + "\n" << std::flush;
    if (!out_->good()) return absl::UnavailableError("a line that the program gave cannot be written");
    return Value();
  }

 private:
  std::ostream* out_;  // null: prints nothing
};

bool IsFunction(const Executable& types, TypeId type) { return types.types[type.value].kind == TypeDescKind::kClosure; }

absl::StatusOr<Value> MakePrintFunction(const Executable& types, TypeId type, std::ostream* prints) {
  const TypeDesc& result = types.types[types.types[type.value].result.value];
  if (result.kind == TypeDescKind::kTuple && result.fields.empty()) {
    return Value::Function("print", std::make_shared<PrintFunction>(prints));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("saw a parameter of type ", TypeToString(types, type),
                   "; expected functions that give (): those of the command line print what they are called with"));
}

// Splits at blanks, as a shell does; quotes of either kind keep words together.
absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (char c : line) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        words.back() += c;
      }
      continue;
    }
    bool blank = c == ' ' || c == '\t' || c == '\r';
    if (!blank && !in_word) words.emplace_back();
    in_word = !blank;
    if (c == '\'' || c == '"') {
      quote = c;
    } else if (!blank) {
      words.back() += c;
    }
  }
  if (quote != 0) return absl::InvalidArgumentError("a quote has no end");
  return words;
}

}  // namespace

std::string_view ValuesHelp() {
  return R"(
A VALUE is written as in Relay, or names a file:
  1   -2.5   1i64   True      scalars; a number without suffix takes the parameter's dtype
  '[[1, 2], [3, 4]]'          a tensor
  '(1, True)'                 a tuple
  'Cons(1, Nil)'  '[1, 2]'    a constructor; brackets make a List
  'ref(3)'                    a reference
  @FILE                       the value in a file: a .npy file, or a value written as in Relay
  -                           the value on standard input
A file of --args has the values one after the other, with blanks, lines or commas between them; it may have comments.
A parameter that is a function, fn (int32) -> (), takes no VALUE: it prints a line at each call, with its arguments.
)";
}

absl::StatusOr<std::vector<Value>> ReadArguments(const Executable& types, std::span<const TypeId> params,
                                                 const ArgumentTexts& texts, std::ostream* prints) {
  std::vector<TypeId> data;
  for (TypeId param : params) {
    if (!IsFunction(types, param)) data.push_back(param);
  }
  FileReader files;
  if (!texts.file.empty() && !texts.values.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--args has the values; saw `", texts.values[0], "` on the command line as well"));
  }
  std::vector<Value> parsed;
  if (!texts.file.empty()) {
    RVM_ASSIGN_OR_RETURN(std::string text, files.Read(texts.file));
    absl::StatusOr<std::vector<Value>> of_file = vm::ParseValueTexts(types, data, text);
    if (!of_file.ok()) return Within(NameOfFile(texts.file), of_file.status());
    parsed = *std::move(of_file);
  }
  std::vector<Value> values;
  size_t next = 0;  // of the texts
  for (size_t i = 0; i < params.size(); ++i) {
    absl::StatusOr<Value> value;
    if (IsFunction(types, params[i])) {
      value = MakePrintFunction(types, params[i], prints);
    } else if (!texts.file.empty()) {
      value = std::move(parsed[next++]);
    } else {
      const std::string& text = texts.values[next++];
      bool is_file = text == "-" || text.starts_with("@");
      value = is_file ? ReadValueFile(types, params[i], text == "-" ? text : text.substr(1), files)
                      : vm::ParseValueText(types, params[i], text);
      std::error_code error;
      if (!value.ok() && !is_file && std::filesystem::is_regular_file(text, error)) {
        value = absl::Status(value.status().code(),
                             absl::StrCat(value.status().message(), "\n  the value in that file is `@", text, "`"));
      }
    }
    if (!value.ok()) {
      return absl::Status(value.status().code(), absl::StrCat("argument ", i + 1, ", ", value.status().message()));
    }
    values.push_back(*std::move(value));
  }
  return values;
}

absl::StatusOr<std::vector<Value>> ReadArguments(const Executable& executable, const std::string& entry_name,
                                                 const ArgumentTexts& texts, std::ostream* prints) {
  const Entry* entry = executable.FindEntry(entry_name);
  if (entry == nullptr) return std::vector<Value>();
  const FunctionDesc& function = executable.functions[entry->function.value];
  std::vector<TypeId> types;
  std::string params;
  size_t expected = 0;  // texts
  for (size_t i = 0; i < function.num_params; ++i) {
    types.push_back(function.registers[i].type);
    expected += IsFunction(executable, types[i]) ? 0 : 1;
    absl::StrAppend(&params, i > 0 ? ", " : "", i < entry->param_names.size() ? "%" + entry->param_names[i] + ": " : "",
                    TypeToString(executable, types[i]));
  }
  std::string call = absl::StrCat("`", entry->name, "(", params, ")`");
  if (expected < types.size()) absl::StrAppend(&call, " with ", expected, ", as functions print and take none");
  if (texts.file.empty() && texts.values.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "saw ", texts.values.size(), texts.values.size() == 1 ? " argument" : " arguments", "; expected ", call));
  }
  return ReadArguments(executable, types, texts, prints);
}

absl::StatusOr<std::vector<std::vector<Value>>> ReadArgumentLines(const Executable& executable,
                                                                  const std::string& entry, const std::string& path,
                                                                  std::ostream* prints) {
  RVM_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  std::vector<std::vector<Value>> lines;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    absl::StatusOr<std::vector<std::string>> words = SplitWords(line);
    if (words.ok() && (words->empty() || words->front().starts_with("#"))) continue;
    absl::StatusOr<std::vector<Value>> args =
        words.ok() ? ReadArguments(executable, entry, {.values = *std::move(words), .file = ""}, prints)
                   : words.status();
    if (!args.ok()) {
      return absl::Status(args.status().code(), absl::StrCat(path, ":", number, ": ", args.status().message()));
    }
    lines.push_back(*std::move(args));
  }
  if (lines.empty()) return absl::InvalidArgumentError(absl::StrCat("`", path, "` has no line of values"));
  return lines;
}

}  // namespace rvm::tools
