#include "compiler/text/prelude_loader.h"

#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/prelude/prelude.h"

namespace rvm::text {
namespace {

// Names in one space: `@f` for functions, `T` for types and constructors.
std::string NameOf(const Token& token) {
  return absl::StrCat(token.kind == TokenKind::kGlobal ? "@" : "",
                      absl::string_view(token.text.data(), token.text.size()));
}
bool IsName(const Token& token) { return token.kind == TokenKind::kGlobal || token.kind == TokenKind::kIdent; }

// A definition of the Prelude: its text, what it defines and what it mentions.
struct Definition {
  std::string_view text;
  std::vector<std::string> defines;
  std::vector<std::string> mentions;
};

struct Index {
  std::vector<Definition> definitions;
  // Of several definitions of a constructor the first counts.
  absl::flat_hash_map<std::string, size_t> by_name;
};

bool StartsDefinition(const Token& token) {
  return token.kind == TokenKind::kIdent && (token.text == "def" || token.text == "type");
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
    for (const std::string& name : definition.defines) index.by_name.try_emplace(name, index.definitions.size());
    index.definitions.push_back(std::move(definition));
  }
  return index;
}

const Index& PreludeIndex() {
  static const Index& index = *new Index(MakeIndex());
  return index;
}

// Names that the tokens define: behind `def`, `type` and `data`, and constructors.
absl::flat_hash_set<std::string> DefinedNames(std::span<const Token> tokens, const ir::Module& module) {
  absl::flat_hash_set<std::string> names;
  for (const ir::GlobalFunction& function : module.functions) names.insert("@" + function.name);
  for (const ir::AdtDef* adt : module.adts) {
    names.insert(adt->name);
    for (const ir::Constructor* constructor : adt->constructors) names.insert(constructor->name);
  }
  int depth = 0;
  bool in_type = false;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (token.text == "{" || token.text == "(") ++depth;
    if (token.text == "}" || token.text == ")") --depth;
    bool is_keyword = depth == 0 && token.kind == TokenKind::kIdent;
    if (is_keyword && (token.text == "def" || token.text == "type" || token.text == "data")) {
      in_type = token.text != "def";
      names.insert(NameOf(tokens[i + 1]));
    } else if (in_type && depth == 1 && token.kind == TokenKind::kIdent) {
      names.insert(NameOf(token));
    }
  }
  return names;
}

// Of each token: does it stand for or in the value of an attribute, as in `axis=None` and `axes=[None, 1]`?
std::vector<bool> AttributeValues(std::span<const Token> tokens) {
  std::vector<bool> is_value(tokens.size());
  std::vector<bool> brackets;  // open ones that are values
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    // A name behind anything but these is a type: `let %x: A = None`.
    bool is_behind_name = i > 2 && tokens[i - 1].text == "=" && tokens[i - 2].kind == TokenKind::kIdent &&
                          (tokens[i - 3].text == "(" || tokens[i - 3].text == ",");
    is_value[i] = is_behind_name || (!brackets.empty() && brackets.back());
    if (token.kind != TokenKind::kPunct) continue;
    if (token.text == "(" || token.text == "[" || token.text == "{") brackets.push_back(is_value[i]);
    bool closes = token.text == ")" || token.text == "]" || token.text == "}";
    if (closes && !brackets.empty()) brackets.pop_back();
  }
  return is_value;
}

}  // namespace

std::string NeededPrelude(std::span<const Token> tokens, const ir::Module& module) {
  const Index& index = PreludeIndex();
  absl::flat_hash_set<std::string> known = DefinedNames(tokens, module);
  std::set<size_t> needed;  // in the Prelude's order
  std::vector<size_t> work;
  auto need = [&](const std::string& name) {
    auto found = index.by_name.find(name);
    if (found == index.by_name.end() || known.contains(name)) return;
    const Definition& definition = index.definitions[found->second];
    // What it defines is known from here on, so a second type with these constructors stays out.
    known.insert(definition.defines.begin(), definition.defines.end());
    if (needed.insert(found->second).second) work.push_back(found->second);
  };
  std::vector<bool> is_value = AttributeValues(tokens);
  // Types before constructors: `Optional` decides whose `Some` is meant.
  for (bool types : {true, false}) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!IsName(tokens[i])) continue;
      // `name=` is an attribute and `a.b` an operator, none of ours.
      bool is_other = i + 1 < tokens.size() && (tokens[i + 1].text == "=" || tokens[i + 1].text == ".");
      if (is_other || (i > 0 && tokens[i - 1].text == ".")) continue;
      // `None` is an attribute's value, too.
      if (is_value[i]) continue;
      std::string name = NameOf(tokens[i]);
      auto found = index.by_name.find(name);
      if (found == index.by_name.end()) continue;
      if (!types || index.definitions[found->second].defines.front() == name) need(name);
    }
  }
  while (!work.empty()) {
    size_t definition = work.back();
    work.pop_back();
    for (const std::string& name : index.definitions[definition].mentions) need(name);
  }
  std::string text;
  for (size_t definition : needed) {
    std::string_view part = index.definitions[definition].text;
    absl::StrAppend(&text, absl::string_view(part.data(), part.size()), "\n");
  }
  return text;
}

}  // namespace rvm::text
