// Completion: what may be written at a place.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/element.h"
#include "base/json_writer.h"
#include "tools/lsp/describe.h"
#include "tools/lsp/requests.h"

namespace rvm::tools::lsp {
namespace {

// Numbers of the protocol.
enum class ItemKind : uint8_t {
  kFunction = 3,
  kVariable = 6,
  kClass = 7,
  kProperty = 10,
  kKeyword = 14,
  kEnumMember = 20,
  kTypeParameter = 25,
};

struct Item {
  std::string label;
  ItemKind kind;
  std::string detail;
  std::string doc = {};
};

constexpr std::string_view kKeywords[] = {"let",  "if",    "else", "match", "fn",       "def",    "type",
                                          "True", "False", "ref",  "where", "free_var", "extern", "Constant"};
constexpr std::string_view kTypeWords[] = {"Tensor", "fn", "ref"};

class Completer {
 public:
  Completer(const Analysis& analysis, size_t offset)
      : analysis_(analysis), offset_(offset), word_(WordAt(analysis.text(), offset)) {}

  std::vector<Item> Find() {
    if (IsInCommentOrString()) return {};
    if (ExpectsType(analysis_.tokens, word_.begin)) {
      AddTypes();
    } else {
      std::string_view before = word_.text;
      if (!before.starts_with('@')) AddVariables();
      if (!before.starts_with('%')) AddFunctions();
      if (!before.starts_with('@') && !before.starts_with('%')) AddWords();
    }
    return std::move(items_);
  }
  const Word& word() const { return word_; }

 private:
  bool IsInCommentOrString() const {
    for (const text::Comment& comment : analysis_.comments) {
      bool is_line = !comment.text.starts_with("/*");
      if (comment.span.begin < offset_ && (offset_ < comment.span.end || (is_line && offset_ == comment.span.end))) {
        return true;
      }
    }
    return std::any_of(analysis_.tokens.begin(), analysis_.tokens.end(), [&](const text::Token& token) {
      bool is_text = token.kind == text::TokenKind::kString ||
                     (token.kind == text::TokenKind::kError && token.text.starts_with('"'));
      bool is_open = token.kind == text::TokenKind::kError && offset_ == token.span.end;
      return is_text && token.span.begin < offset_ && (offset_ < token.span.end || is_open);
    });
  }

  // Adds the item if the word that was begun occurs in its label.
  void Add(Item item) {
    std::string label = absl::AsciiStrToLower(item.label), begun = absl::AsciiStrToLower(Abseil(word_.text));
    if (label.find(begun) == std::string::npos || !labels_.insert(item.label).second) return;
    items_.push_back(std::move(item));
  }

  void AddVariables() {
    std::vector<const ir::Var*> variables = analysis_.VariablesAt(word_.begin);
    for (const ir::Var* var : variables) {
      const ir::Type* type = var->type != nullptr ? var->type : var->annotation;
      Add({absl::StrCat("%", var->name), ItemKind::kVariable, type == nullptr ? "" : ir::TypeToString(type)});
    }
    if (!variables.empty()) return;
    // Behind an error: the variables that the definition mentions before.
    const Definition* definition = DefinitionAt(analysis_.definitions, word_.begin);
    if (definition == nullptr) return;
    for (const text::Token& token : analysis_.tokens) {
      bool is_before = token.span.begin >= definition->span.begin && token.span.end <= word_.begin;
      if (is_before && token.kind == text::TokenKind::kLocal) {
        Add({absl::StrCat("%", Abseil(token.text)), ItemKind::kVariable, ""});
      }
    }
  }

  void AddFunctions() {
    for (const Analysis* home : {&analysis_, &PreludeAnalysis()}) {
      for (const ir::GlobalFunction& function : home->module.functions) {
        if (!home->IsHere(function.span)) continue;
        std::string name = absl::StrCat("@", function.name);
        Signature signature = SignatureOf(name, *function.function);
        Add({name, ItemKind::kFunction, std::move(signature.label), CommentOfDefinition(*home, name)});
      }
    }
    // Functions that could not be read.
    for (const Definition& definition : analysis_.definitions) {
      if (definition.kind == DefinitionKind::kFunction) Add({definition.name, ItemKind::kFunction, ""});
    }
  }

  void AddWords() {
    if (std::optional<CallSite> call = FindCall(analysis_.tokens, word_.begin)) AddAttributes(*call);
    for (const Analysis* home : {&analysis_, &PreludeAnalysis()}) {
      for (const ir::AdtDef* adt : home->module.adts) {
        if (!home->IsHere(adt->span)) continue;
        for (const ir::Constructor* constructor : adt->constructors) {
          Add({constructor->name, ItemKind::kEnumMember, SignatureOf(*constructor).label});
        }
      }
    }
    for (const ops::OpDef* op : ops::AllOps()) {
      Add({std::string(op->name), ItemKind::kFunction, SignatureOf(*op).label, std::string(op->summary)});
    }
    for (std::string_view keyword : kKeywords) Add({std::string(keyword), ItemKind::kKeyword, ""});
  }

  void AddAttributes(const CallSite& call) {
    const ops::OpDef* op = ops::FindOp(call.callee);
    if (op == nullptr || !call.attribute.empty()) return;
    for (const ops::AttrSpec& attr : op->attrs) {
      bool is_given = std::find(call.attributes.begin(), call.attributes.end(), attr.name) != call.attributes.end();
      if (is_given) continue;
      std::string detail = attr.default_text.empty() ? "required" : absl::StrCat("default ", Abseil(attr.default_text));
      Add({absl::StrCat(Abseil(attr.name), "="), ItemKind::kProperty, std::move(detail), std::string(attr.doc)});
    }
  }

  void AddTypes() {
    const Definition* here = DefinitionAt(analysis_.definitions, word_.begin);
    for (const text::NamePlace& place : analysis_.names.places) {
      bool is_param = place.kind == text::NameKind::kTypeParam && here != nullptr &&
                      place.span.begin >= here->span.begin && place.span.end <= here->span.end &&
                      !(place.span.begin <= offset_ && offset_ <= place.span.end);
      if (is_param) Add({place.param->name, ItemKind::kTypeParameter, std::string(ir::KindName(place.param->kind))});
    }
    for (const Analysis* home : {&analysis_, &PreludeAnalysis()}) {
      for (const ir::AdtDef* adt : home->module.adts) {
        if (home->IsHere(adt->span)) Add({adt->name, ItemKind::kClass, DefinitionText(*adt)});
      }
    }
    for (std::string_view word : kTypeWords) Add({std::string(word), ItemKind::kKeyword, ""});
    for (const DataTypeInfo& info : DataTypeTable()) Add({std::string(info.name), ItemKind::kClass, "dtype"});
  }

  const Analysis& analysis_;
  size_t offset_;
  Word word_;
  std::vector<Item> items_;
  absl::flat_hash_set<std::string> labels_;
};

}  // namespace

std::string Completions(Document& document, size_t offset) {
  Completer completer(document.analysis(), offset);
  std::vector<Item> items = completer.Find();
  Range range = document.RangeOf(completer.word().begin, completer.word().end);
  JsonWriter out;
  out.BeginObject().Key("isIncomplete").Bool(false).Key("items").BeginArray();
  for (const Item& item : items) {
    out.BeginObject().Field("label", item.label).Field("kind", static_cast<int64_t>(item.kind));
    if (!item.detail.empty()) out.Field("detail", item.detail);
    if (!item.doc.empty()) {
      out.Key("documentation").BeginObject().Field("kind", "markdown").Field("value", item.doc).EndObject();
    }
    out.Key("textEdit").BeginObject().Key("range");
    WriteRange(out, range);
    out.Field("newText", item.label).EndObject().EndObject();
  }
  return out.EndArray().EndObject().TakeText();
}

}  // namespace rvm::tools::lsp
