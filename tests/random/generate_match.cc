// Matches: patterns that split a type into cases, each reachable, all together complete.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/random/generator.h"

namespace rvm::random_programs {

std::string Generator::Match(const TypeRef& type, int depth) {
  std::vector<Variable> values;
  for (const Variable& variable : scope_) {
    if (variable.type->form == TypeForm::kAdt || variable.type->form == TypeForm::kTuple) values.push_back(variable);
  }
  if (!values.empty() && dice_.Chance(60)) {
    Variable value = dice_.Of(values);
    return MatchOn(value.name, value.type, type, depth);
  }
  TypeRef value_type = RandomAdtType(1);
  if (dice_.Chance(25)) value_type = TupleOf({value_type, RandomAdtType(1)});
  std::string name = NewName("v");
  std::string value = Expr(value_type, depth - 1);
  return absl::StrCat("{ let ", name, ": ", value_type->text, " = ", value, "; ",
                      MatchOn(name, value_type, type, depth), " }");
}

std::string Generator::MatchOn(const std::string& value, const TypeRef& value_type, const TypeRef& type, int depth) {
  std::vector<Pattern> patterns = SplitPatterns(value_type);
  dice_.Shuffle(patterns);
  bool partial = patterns.size() > 1 && dice_.Chance(4);
  if (partial) patterns.pop_back();
  bool default_clause = !partial && patterns.size() > 1 && dice_.Chance(35);
  if (default_clause) {
    patterns.resize(1 + static_cast<size_t>(dice_.Pick(static_cast<int>(patterns.size()) - 1)));
    patterns.push_back({.type = value_type});
  }
  std::string text = absl::StrCat(partial ? "match? (" : "match (", value, ") {");
  for (const Pattern& pattern : patterns) {
    size_t scope = scope_.size();
    bool is_last = &pattern == &patterns.back();
    std::string shown = PatternText(pattern, default_clause && !is_last);
    absl::StrAppend(&text, " ", shown, " => ", Expr(type, depth - 1), ",");
    scope_.resize(scope);
  }
  return absl::StrCat(text, " }");
}

// Starts from the pattern that fits all and splits some leaf into its constructors, a few times.
std::vector<Generator::Pattern> Generator::SplitPatterns(const TypeRef& type) {
  std::vector<Pattern> patterns = {{.type = type}};
  for (int splits = 1 + dice_.Pick(3); splits > 0 && patterns.size() < 6; --splits) {
    size_t at = static_cast<size_t>(dice_.Pick(static_cast<int>(patterns.size())));
    std::vector<Pattern> parts;
    if (!SplitOnce(patterns[at], parts)) continue;
    patterns.erase(patterns.begin() + static_cast<ptrdiff_t>(at));
    patterns.insert(patterns.end(), parts.begin(), parts.end());
  }
  return patterns;
}

bool Generator::SplitOnce(const Pattern& pattern, std::vector<Pattern>& out) {
  if (!pattern.is_leaf) return SplitInside(pattern, out);
  if (pattern.type->form == TypeForm::kTuple) {
    Pattern tuple{.type = pattern.type, .is_leaf = false};
    for (const TypeRef& part : pattern.type->parts) tuple.fields.push_back({.type = part});
    if (tuple.fields.empty()) return false;
    if (!SplitInside(tuple, out)) out = {tuple};
    return true;
  }
  if (pattern.type->text == "bool") {
    for (const char* value : {"True", "False"}) {
      out.push_back({.type = pattern.type, .is_leaf = false, .literal = value});
    }
    return true;
  }
  if (pattern.type->form != TypeForm::kAdt) return false;
  for (const Adt::Constructor& constructor : pattern.type->adt->constructors) {
    Pattern part{.type = pattern.type, .constructor = &constructor, .is_leaf = false};
    for (const TypeRef& field : FieldTypes(pattern.type, constructor)) part.fields.push_back({.type = field});
    out.push_back(std::move(part));
  }
  return true;
}

bool Generator::SplitInside(const Pattern& pattern, std::vector<Pattern>& out) {
  if (pattern.fields.empty()) return false;
  size_t at = static_cast<size_t>(dice_.Pick(static_cast<int>(pattern.fields.size())));
  std::vector<Pattern> parts;
  if (!SplitOnce(pattern.fields[at], parts)) return false;
  for (Pattern& part : parts) {
    out.push_back(pattern);
    out.back().fields[at] = std::move(part);
  }
  return true;
}

// Binds variables in some of its leaves.
std::string Generator::PatternText(const Pattern& pattern, bool need_not_fit) {
  if (!pattern.literal.empty()) return pattern.literal;
  if (pattern.is_leaf) {
    if (need_not_fit && pattern.type->text == "int32" && dice_.Chance(40)) return absl::StrCat(dice_.Pick(5) - 2);
    if (dice_.Chance(30)) return "_";
    scope_.push_back({NewName("m"), pattern.type});
    std::string name = scope_.back().name;
    return dice_.Chance(10) ? absl::StrCat(name, ": ", pattern.type->text) : name;
  }
  std::string text = pattern.constructor == nullptr ? "" : pattern.constructor->name;
  if (pattern.fields.empty()) return text;
  for (size_t i = 0; i < pattern.fields.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "(" : ", ");
    absl::StrAppend(&text, PatternText(pattern.fields[i], need_not_fit));
  }
  return absl::StrCat(text, pattern.constructor == nullptr && pattern.fields.size() == 1 ? ",)" : ")");
}

}  // namespace rvm::random_programs
