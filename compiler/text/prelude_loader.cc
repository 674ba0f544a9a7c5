#include "compiler/text/prelude_loader.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "compiler/prelude/prelude.h"
#include "compiler/text/names.h"

namespace rvm::text {
namespace {

// Returns the name of a definition: `@f` for functions, `T` for types and constructors.
std::string NameOf(const Token& token) {
  return absl::StrCat(token.kind == TokenKind::kGlobal ? "@" : "", Abseil(token.text));
}
// Removes the prefix `prelude.` from `name`; whether it was there.
bool StripPreludePrefix(std::string& name) {
  size_t at = name.starts_with("@") ? 1 : 0;
  bool has_prefix = name.compare(at, kPreludePrefix.size(), kPreludePrefix) == 0;
  if (has_prefix) name.erase(at, kPreludePrefix.size());
  return has_prefix;
}
bool IsName(const Token& token) { return token.kind == TokenKind::kGlobal || token.kind == TokenKind::kIdent; }

// A definition of the Prelude: its text, what it defines and what it mentions.
struct Definition {
  std::string_view text;
  uint32_t line = 0;  // of prelude.relay
  std::vector<std::string> defines;
  std::vector<std::string> mentions;
  std::string shape;  // of a type: ShapeOfType
};

struct Index {
  std::vector<Definition> definitions;
  // The index of the definition of each name; of the first one for a constructor name that several types have.
  absl::flat_hash_map<std::string, size_t> by_name;
};

bool IsClosing(const Token& token) {
  return token.kind == TokenKind::kPunct && (token.text == "}" || token.text == ")" || token.text == "]");
}
bool StartsDefinition(const Token& token) {
  return token.kind == TokenKind::kIdent && (token.text == "def" || token.text == "type");
}

// Returns a canonical text of the type definition whose name ends before `at`: parameters are numbered and constructors
// sorted. Two definitions of one name define the same type exactly if these texts are equal.
std::string ShapeOfType(std::span<const Token> tokens, size_t at) {
  absl::flat_hash_map<std::string_view, int> params;
  std::vector<std::string> parts = {""};  // the parameters, then the constructors
  bool in_params = tokens[at].text == "[";
  int depth = 0;
  for (; tokens[at].kind != TokenKind::kEnd; ++at) {
    std::string_view text = tokens[at].text;
    if (text == "{" || text == "(" || text == "[") ++depth;
    if (IsClosing(tokens[at])) --depth;
    if (depth == 0 && text == "}") break;
    bool is_name = tokens[at].kind == TokenKind::kIdent;
    if (in_params && is_name) params.try_emplace(text, params.size());
    if (text == "]") in_params = false;
    bool is_constructor = depth == 1 && is_name && !in_params;
    if (is_constructor) parts.emplace_back();
    bool is_needless = text == "," && (depth == 1 || IsClosing(tokens[at + 1]));
    auto param = params.find(text);
    if (param != params.end() && !is_constructor)
      absl::StrAppend(&parts.back(), "#", param->second, " ");
    else if (!is_needless)
      absl::StrAppend(&parts.back(), Abseil(text), " ");
  }
  std::sort(parts.begin() + 1, parts.end());
  return absl::StrJoin(parts, "; ");
}

Index MakeIndex() {
  Index index;
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  std::string_view text = prelude::Text();
  std::vector<Token> tokens = Lex(sources.Add("prelude", std::string(text)), diagnostics);
  size_t at = 0;
  while (!StartsDefinition(tokens[at])) ++at;
  while (tokens[at].kind != TokenKind::kEnd) {
    Definition definition;
    bool is_type = tokens[at].text == "type";
    size_t begin = at++;
    definition.defines.push_back(NameOf(tokens[at]));
    if (is_type) definition.shape = ShapeOfType(tokens, at + 1);
    int depth = 0;
    for (; tokens[at].kind != TokenKind::kEnd && !StartsDefinition(tokens[at]); ++at) {
      const Token& token = tokens[at];
      if (token.text == "{" || token.text == "(") ++depth;
      if (token.text == "}" || token.text == ")") --depth;
      bool is_constructor = is_type && depth == 1 && token.kind == TokenKind::kIdent;
      if (is_constructor)
        definition.defines.push_back(NameOf(token));
      else if (IsName(token))
        definition.mentions.push_back(NameOf(token));
    }
    size_t from = tokens[begin].span.begin, to = tokens[at - 1].span.end;
    definition.text = text.substr(from, to - from);
    definition.line = sources.Locate(tokens[begin].span.source, tokens[begin].span.begin).line;
    for (const std::string& name : definition.defines) index.by_name.try_emplace(name, index.definitions.size());
    index.definitions.push_back(std::move(definition));
  }
  return index;
}

const Index& PreludeIndex() {
  static const Index& index = *new Index(MakeIndex());
  return index;
}

// The definitions of the program.
struct OwnDefinitions {
  absl::flat_hash_set<std::string> names;  // of functions and types
  absl::flat_hash_set<std::string> constructors;
  absl::flat_hash_map<std::string, std::string> shapes;  // of types
};

OwnDefinitions FindOwnDefinitions(std::span<const Token> tokens, const Surroundings& surroundings) {
  OwnDefinitions own;
  for (const Surroundings::Function& function : surroundings.functions) own.names.insert("@" + function.name);
  for (const Surroundings::Type& type : surroundings.types) {
    own.names.insert(type.name);
    if (type.is_imported || type.name.starts_with(kPreludePrefix)) continue;
    for (const ir::Constructor* constructor : type.adt->constructors) own.constructors.insert(constructor->name);
  }
  int depth = 0;
  bool in_type = false;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (token.text == "{" || token.text == "(") ++depth;
    if (token.text == "}" || token.text == ")") --depth;
    bool is_def = token.kind == TokenKind::kIdent && token.text == "def" && tokens[i + 1].kind == TokenKind::kGlobal;
    if (is_def) depth = 0;  // functions do not nest: brackets before are not closed
    bool is_keyword = depth == 0 && token.kind == TokenKind::kIdent;
    if (is_keyword && (token.text == "def" || token.text == "type" || token.text == "data")) {
      in_type = token.text != "def";
      own.names.insert(NameOf(tokens[i + 1]));
      if (in_type && i + 2 < tokens.size()) own.shapes.try_emplace(NameOf(tokens[i + 1]), ShapeOfType(tokens, i + 2));
    } else if (in_type && depth == 1 && token.kind == TokenKind::kIdent) {
      own.constructors.insert(NameOf(token));
    }
  }
  return own;
}

// Returns whether the program's type `name` is the Prelude's: defined alike, and so are the types that it mentions.
bool IsShared(const Index& index, const OwnDefinitions& own, const std::string& name) {
  auto found = index.by_name.find(name);
  auto shape = own.shapes.find(name);
  if (found == index.by_name.end() || shape == own.shapes.end()) return false;
  const Definition& definition = index.definitions[found->second];
  if (definition.defines.front() != name || definition.shape != shape->second) return false;
  for (const std::string& mention : definition.mentions) {
    if (mention != name && own.names.contains(mention) && !IsShared(index, own, mention)) return false;
  }
  return true;
}

// For each token: whether it is part of the value of an attribute, as in `axis=None` and `axes=[None, 1]`.
std::vector<bool> AttributeValues(std::span<const Token> tokens) {
  std::vector<bool> is_value(tokens.size());
  std::vector<bool> brackets;  // for each open bracket: whether it is part of a value
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    // `name =` begins an attribute only after `(` or `,`: the `A` of `let %x: A = None` is a type.
    bool is_behind_name = i > 2 && tokens[i - 1].text == "=" && tokens[i - 2].kind == TokenKind::kIdent &&
                          (tokens[i - 3].text == "(" || tokens[i - 3].text == ",");
    is_value[i] = is_behind_name || (!brackets.empty() && brackets.back());
    if (token.kind != TokenKind::kPunct) continue;
    // `Constant([1, 2], ..)` lists numbers as attributes do.
    bool is_constant = token.text == "(" && i > 0 && tokens[i - 1].text == "Constant";
    if (token.text == "(" || token.text == "[" || token.text == "{") brackets.push_back(is_value[i] || is_constant);
    bool closes = token.text == ")" || token.text == "]" || token.text == "}";
    if (closes && !brackets.empty()) brackets.pop_back();
  }
  return is_value;
}

// Returns whether a `[` after `before` begins a list, not type parameters or arguments.
bool MayBeginList(const Token& before) {
  if (before.kind == TokenKind::kIdent) return before.text == "match" || before.text == "case" || before.text == "let";
  return before.kind == TokenKind::kPunct && !IsClosing(before);
}

PreludeNames MakePreludeNames() {
  PreludeNames names;
  for (const Definition& definition : PreludeIndex().definitions) {
    bool is_function = definition.defines.front().starts_with("@");
    (is_function ? names.functions : names.types).push_back(definition.defines.front());
    names.constructors.insert(names.constructors.end(), definition.defines.begin() + 1, definition.defines.end());
  }
  return names;
}

}  // namespace

const PreludeNames& GetPreludeNames() {
  static const PreludeNames& names = *new PreludeNames(MakePreludeNames());
  return names;
}

NeededPrelude FindNeededPrelude(std::span<const Token> tokens, const Surroundings& surroundings) {
  const Index& index = PreludeIndex();
  OwnDefinitions own = FindOwnDefinitions(tokens, surroundings);
  NeededPrelude result;
  absl::flat_hash_set<std::string> provided;  // definitions of the Prelude that are there already
  for (const std::string& name : own.names) {
    if (IsShared(index, own, name)) result.shared_types.push_back(name);
    std::string plain = name;
    if (StripPreludePrefix(plain)) provided.insert(plain);
  }
  provided.insert(result.shared_types.begin(), result.shared_types.end());

  std::set<size_t> needed;  // in the Prelude's order
  std::vector<size_t> work;
  auto need = [&](size_t definition) {
    if (provided.contains(index.definitions[definition].defines.front())) return;
    if (needed.insert(definition).second) work.push_back(definition);
  };
  absl::flat_hash_set<std::string> constructors = own.constructors;
  std::vector<bool> is_value = AttributeValues(tokens);
  // Types before constructors: a mention of `Optional` determines which `Some` is meant.
  for (bool types : {true, false}) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!IsName(tokens[i])) continue;
      std::string name = NameOf(tokens[i]);
      bool is_qualified = StripPreludePrefix(name);
      auto found = index.by_name.find(name);
      if (found == index.by_name.end()) continue;
      const Definition& definition = index.definitions[found->second];
      bool is_constructor = definition.defines.front() != name;
      bool is_own = !is_constructor && !is_qualified && own.names.contains(name);
      if (is_constructor == types || is_own) continue;
      // `name=` is an attribute, `a.b` an operator, and `None` may be the value of an attribute.
      bool is_attribute = i + 1 < tokens.size() && tokens[i + 1].text == "=";
      bool is_behind_dot = i > 0 && tokens[i - 1].text == ".";
      if (is_attribute || is_behind_dot || is_value[i]) continue;
      if (is_constructor && constructors.contains(name)) continue;
      if (types) constructors.insert(definition.defines.begin() + 1, definition.defines.end());
      if (types && tokens[i].kind == TokenKind::kIdent) result.mentioned_types.insert(name);
      need(found->second);
    }
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    bool is_list = tokens[i].kind == TokenKind::kPunct && tokens[i].text == "[" && !is_value[i] &&
                   (i == 0 || MayBeginList(tokens[i - 1]));
    if (is_list) need(index.by_name.at("List"));
  }
  while (!work.empty()) {
    const Definition& definition = index.definitions[work.back()];
    work.pop_back();
    for (const std::string& name : definition.mentions) {
      if (auto found = index.by_name.find(name); found != index.by_name.end()) need(found->second);
    }
  }
  // Each definition keeps its line number in prelude.relay, for messages.
  uint32_t line = 1;
  for (size_t definition : needed) {
    std::string_view part = index.definitions[definition].text;
    result.text.append(index.definitions[definition].line - line, '\n');
    absl::StrAppend(&result.text, Abseil(part));
    line = index.definitions[definition].line + static_cast<uint32_t>(std::count(part.begin(), part.end(), '\n'));
  }
  return result;
}

}  // namespace rvm::text
