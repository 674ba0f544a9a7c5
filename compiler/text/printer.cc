#include "compiler/text/printer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "base/value.h"
#include "compiler/ops/op_def.h"
#include "compiler/text/import_lines.h"
#include "compiler/text/lexer.h"
#include "compiler/text/names.h"
#include "compiler/text/parser.h"
#include "compiler/text/precedence.h"
#include "compiler/text/saved_module.h"

namespace rvm::text {
namespace {

constexpr size_t kMaxLine = 110;  // with more columns, each parameter is printed on a line of its own
constexpr int kMaxIndent = 40;    // limits the indentation, so that the size of the text is linear in the program
constexpr std::string_view kMetadataMark = "#[metadata]";

bool IsInfix(const ir::Expr* expr, std::string_view infix) {
  const ops::OpDef* op = ir::OpCallee(expr);
  return op != nullptr && op->infix == infix && ir::Cast<ir::Call>(expr)->args.size() == 2;
}

// Returns whether all elements of `literal` are equal and there are enough of them to print the number only once.
bool IsFilled(const Literal& literal) {
  constexpr int64_t kListed = 16;
  if (literal.num_elements() <= kListed) return false;
  auto element = static_cast<size_t>(literal.bytes() / literal.num_elements());
  const auto* data = static_cast<const std::byte*>(literal.data());
  return std::memcmp(data, data + element, static_cast<size_t>(literal.bytes()) - element) == 0;
}

// The predecessor's comments with inferred types and source locations.
bool IsTypeNote(std::string_view comment) { return comment.starts_with("/* ty=") || comment.starts_with("/* span="); }

class Printer {
 public:
  explicit Printer(const diagnostics::SourceMap* sources = nullptr) : sources_(sources) {}
  // Prints only the definitions of the text `source`.
  Printer(uint32_t source, const diagnostics::SourceMap& sources, std::vector<Comment> comments,
          std::vector<ImportLine> imports)
      : sources_(&sources),
        source_(source),
        text_(sources.text(source)),
        comments_(std::move(comments)),
        imports_(std::move(imports)) {
    std::erase_if(comments_, [](const Comment& comment) { return IsTypeNote(comment.text); });
  }

  std::string Print(const ir::Module& module) {
    FindSharedNames(module);
    out_ = "#[version = \"0.0.5\"]\n";
    PrintImports();
    for (const ir::AdtDef* adt : module.adts) {
      if (IsWanted(adt->span)) PrintAdt(*adt);
    }
    if (!module.free_vars.empty()) out_ += "\n";
    for (const ir::Var* var : module.free_vars) {
      FlushComments(var->span);
      absl::StrAppend(&out_, "free_var %", NameOf(var), Annotation(var->annotation), ";\n");
    }
    for (const ir::GlobalFunction& function : module.functions) {
      if (!IsWanted(function.span)) continue;
      out_ += "\n";
      PrintOrigin({});
      FlushComments(function.function->span);
      absl::StrAppend(&out_, "def @", function.name);
      PrintSignatureAndBody(*function.function);
      out_ += "\n";
    }
    FlushComments({0, UINT32_MAX, UINT32_MAX});
    if (prints_metadata_) absl::StrAppend(&out_, "\n", Abseil(text_.substr(text_.find(kMetadataMark))));
    return std::move(out_);
  }

  std::string Print(const ir::Expr* expr) {
    PrintSequence(expr);
    return std::move(out_);
  }

 private:
  bool IsWanted(ir::Span span) const { return source_ == 0 || span.source == source_; }

  // ---- layout
  void NewLine() {
    absl::StrAppend(&out_, "\n", std::string(static_cast<size_t>(std::min(indent_, kMaxIndent)) * 2, ' '));
  }
  // Prints the comments that precede `span`, each on a line of its own.
  void FlushComments(ir::Span span) {
    while (next_comment_ < comments_.size() && comments_[next_comment_].span.begin < span.begin) {
      std::string_view text = comments_[next_comment_++].text;
      // The predecessor does not accept `# ...`.
      absl::StrAppend(&out_, text[0] == '#' ? "//" : "", Abseil(text[0] == '#' ? text.substr(1) : text));
      NewLine();
    }
  }
  // Says where what follows comes from, if that changes.
  void PrintOrigin(ir::Span span) {
    if (sources_ == nullptr) return;
    span = sources_->Resolve(span);
    bool is_origin = span.valid() && sources_->Locate(span.source, span.begin).column == 0;
    std::string_view origin = is_origin ? sources_->name(span.source) : std::string_view();
    if (origin == origin_) return;
    origin_ = origin;
    absl::StrAppend(&out_, "#[origin = ", ir::AttrValue(std::string(origin)).ToString(), "]");
    NewLine();
  }
  template <typename T, typename F>
  void List(const std::vector<T>& items, F print) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      print(items[i]);
    }
  }

  // ---- names. Names are printed as in the source text where possible. Passes may bring two variables of one name into
  // one scope; these are printed with different names.
  const std::string& NameOf(const ir::Var* var) {
    if (source_ != 0) return var->name;
    auto [it, is_new] = names_.try_emplace(var, var->name);
    if (is_new && var->name != "_" && !used_.insert(var->name).second) {
      int& next = next_suffix_[var->name];
      do it->second = absl::StrCat(var->name, "_", ++next);
      while (!used_.insert(it->second).second);
    }
    return it->second;
  }
  // Finds the constructor names that must be printed with the name of their type: those that several types have, unless
  // the type is the only one of them that the program defines.
  void FindSharedNames(const ir::Module& module) {
    absl::flat_hash_map<std::string_view, std::vector<const ir::Constructor*>> by_name;
    for (const ir::AdtDef* adt : module.adts) {
      for (const ir::Constructor* constructor : adt->constructors) by_name[constructor->name].push_back(constructor);
    }
    for (auto& [name, all] : by_name) {
      for (const ir::Constructor* constructor : all) {
        if (IsImported(*constructor->adt)) qualified_.insert(constructor);
      }
      std::erase_if(all, [&](const ir::Constructor* constructor) { return qualified_.contains(constructor); });
      if (all.size() <= 1) continue;
      auto is_own = [&](const ir::Constructor* constructor) { return IsWanted(constructor->adt->span); };
      bool own_comes_first = std::count_if(all.begin(), all.end(), is_own) == 1;
      for (const ir::Constructor* constructor : all) {
        if (!own_comes_first || !is_own(constructor)) qualified_.insert(constructor);
      }
    }
  }
  // A type of another file, whose constructors are written with its name.
  bool IsImported(const ir::AdtDef& adt) const {
    return !IsWanted(adt.span) && adt.name.find('.') != std::string::npos && !adt.name.starts_with(kPreludePrefix);
  }
  std::string NameOf(const ir::Constructor& constructor) const {
    return qualified_.contains(&constructor) ? absl::StrCat(constructor.adt->name, ".", constructor.name)
                                             : constructor.name;
  }

  void PrintImports() {
    for (const ImportLine& line : imports_) {
      if (&line == &imports_.front()) out_ += "\n";
      FlushComments(line.span);
      absl::StrAppend(&out_, "import ", ir::AttrValue(line.path).ToString(), " as @", line.name);
      absl::StrAppend(&out_, line.options.empty() ? "" : "(");
      List(line.options, [&](const ImportLine::Option& option) {
        absl::StrAppend(&out_, option.name, "=", ir::AttrValue(option.value).ToString());
      });
      absl::StrAppend(&out_, line.options.empty() ? ";\n" : ");\n");
    }
  }

  static std::string Annotation(const ir::Type* type) {
    return type == nullptr ? "" : absl::StrCat(": ", ir::TypeToString(type));
  }
  static std::string TypeParams(const std::vector<const ir::TypeParam*>& params) {
    std::string result;
    for (const ir::TypeParam* param : params) {
      if (IsMeta(param->name)) continue;  // declared by its uses
      absl::StrAppend(&result, result.empty() ? "[" : ", ", param->name);
      if (param->kind != ir::Kind::kType) absl::StrAppend(&result, ": ", Abseil(ir::KindName(param->kind)));
    }
    return result.empty() ? "" : result + "]";
  }

  void PrintAdt(const ir::AdtDef& adt) {
    out_ += "\n";
    FlushComments(adt.span);
    absl::StrAppend(&out_, adt.is_extern ? "extern " : "", "type ", adt.name, TypeParams(adt.type_params));
    if (!adt.is_extern) {
      out_ += " {\n";
      for (const ir::Constructor* constructor : adt.constructors) {
        out_ += "  ";
        indent_ = 1;
        FlushComments(constructor->span);
        indent_ = 0;
        out_ += constructor->name;
        if (!constructor->fields.empty()) {
          out_ += "(";
          List(constructor->fields, [&](const ir::Type* field) { out_ += ir::TypeToString(field); });
          out_ += ")";
        }
        out_ += ",\n";
      }
      out_ += "}";
    }
    out_ += "\n";
  }

  // References to the metadata section are printed as they were written.
  static bool IsMeta(std::string_view text) { return text.starts_with("meta["); }
  // Returns the text at `span` where it refers to the metadata section, else "".
  std::string_view MetaText(ir::Span span) {
    if (source_ == 0 || span.source != source_ || span.end > text_.size() || span.begin >= span.end) return "";
    std::string_view text = text_.substr(span.begin, span.end - span.begin);
    if (text.find("meta[") == std::string_view::npos) return "";
    prints_metadata_ |= text_.find(kMetadataMark) != std::string_view::npos;
    return text;
  }

  void PrintAttrs(const ir::Attrs& attrs, bool after_items) {
    ir::Span last;
    for (const ir::Attr& attr : attrs.entries()) {
      std::string_view meta = MetaText(attr.span);
      // Attributes from one object of the metadata section have the same span and are printed as one reference.
      if (!meta.empty() && attr.span.begin == last.begin && attr.span.end == last.end) continue;
      last = attr.span;
      absl::StrAppend(&out_, after_items ? ", " : "");
      meta.empty() ? absl::StrAppend(&out_, attr.name, "=", attr.value.ToString())
                   : absl::StrAppend(&out_, Abseil(meta));
      after_items = true;
    }
  }

  // Prints all parameters on one line, or each on its own line if that exceeds kMaxLine.
  void PrintParams(const ir::Function& function) {
    size_t line_start = out_.rfind('\n') + 1;
    size_t length = out_.size() - line_start;
    std::vector<std::string> params;
    for (const ir::Var* param : function.params) {
      params.push_back(absl::StrCat("%", NameOf(param), Annotation(param->annotation)));
      length += params.back().size() + 2;
    }
    if (function.result_annotation != nullptr) length += ir::TypeToString(function.result_annotation).size();
    bool is_long = length > kMaxLine && !params.empty();
    out_ += "(";
    indent_ += 2;
    for (size_t i = 0; i < params.size(); ++i) {
      if (i > 0) out_ += is_long ? "," : ", ";
      if (is_long) NewLine();
      out_ += params[i];
    }
    if (function.is_primitive) out_ += params.empty() ? "Primitive=1" : ", Primitive=1";
    PrintAttrs(function.attrs, !params.empty() || function.is_primitive);
    indent_ -= 2;
    if (is_long) NewLine();
    out_ += ")";
  }

  void PrintSignatureAndBody(const ir::Function& function) {
    out_ += TypeParams(function.type_params);
    PrintParams(function);
    if (function.result_annotation != nullptr) {
      absl::StrAppend(&out_, " -> ", ir::TypeToString(function.result_annotation));
    }
    for (size_t i = 0; i < function.constraints.size(); ++i) {
      const ir::TypeConstraint& constraint = function.constraints[i];
      absl::StrAppend(&out_, i == 0 ? " where " : ", ", constraint.relation, "(");
      List(constraint.args, [&](const ir::Type* arg) { out_ += ir::TypeToString(arg); });
      PrintAttrs(constraint.attrs, !constraint.args.empty());
      out_ += ")";
    }
    out_ += " ";
    PrintBlock(function.body);
  }

  void PrintBlock(const ir::Expr* body) {
    out_ += "{";
    ++indent_;
    NewLine();
    WithStack([&] { PrintSequence(body); });
    --indent_;
    NewLine();
    out_ += "}";
  }

  // `let %x = e; ..` or `let (%a, %b) = e; ..`.
  static bool IsStatement(const ir::Expr* expr) {
    const auto* match = ir::DynCast<ir::Match>(expr);
    return expr->expr_kind == ir::ExprKind::kLet || (match != nullptr && match->is_let);
  }

  void PrintSequence(const ir::Expr* expr) {
    while (IsStatement(expr)) {
      const auto* let = ir::DynCast<ir::Let>(expr);
      PrintOrigin(let == nullptr ? expr->span : let->value->span);
      FlushComments(expr->span);
      if (let == nullptr) {
        const auto& match = *ir::Cast<ir::Match>(expr);
        out_ += "let ";
        PrintPattern(*match.clauses[0].pattern);
        out_ += " = ";
        PrintExpr(match.value);
        out_ += ";";
        NewLine();
        expr = match.clauses[0].body;
        continue;
      }
      bool is_graph = !let->var->name.empty() && let->var->name[0] >= '0' && let->var->name[0] <= '9';
      if (let->var->name == "_" && let->var->annotation == nullptr) {
        PrintStatement(let->value);
      } else {
        bool bare = is_graph && let->var->annotation == nullptr;
        absl::StrAppend(&out_, bare ? "" : "let ", "%", NameOf(let->var), Annotation(let->var->annotation), " = ");
        PrintExpr(let->value);
      }
      out_ += ";";
      NewLine();
      expr = let->body;
    }
    PrintOrigin(expr->span);
    FlushComments(expr->span);
    PrintStatement(expr);
  }

  // Prints `expr` where a block or a `match` needs no parentheses.
  void PrintStatement(const ir::Expr* expr) {
    WithStack([&] { PrintExprHere(expr, 0); });
  }

  void PrintExpr(const ir::Expr* expr, int precedence = 0) {
    bool parens = expr->expr_kind == ir::ExprKind::kLet || expr->expr_kind == ir::ExprKind::kMatch;
    out_ += parens ? "(" : "";
    WithStack([&] { PrintExprHere(expr, precedence); });
    out_ += parens ? ")" : "";
  }

  void PrintExprHere(const ir::Expr* expr, int precedence) {
    switch (expr->expr_kind) {
      case ir::ExprKind::kConstant:
        if (std::string_view meta = MetaText(expr->span); !meta.empty()) {
          out_ += meta;
          return;
        }
        return PrintConstant(ir::Cast<ir::Constant>(expr)->literal, precedence);
      case ir::ExprKind::kVar: absl::StrAppend(&out_, "%", NameOf(ir::Cast<ir::VarExpr>(expr)->var)); return;
      case ir::ExprKind::kGlobal: absl::StrAppend(&out_, "@", ir::Cast<ir::GlobalExpr>(expr)->name); return;
      case ir::ExprKind::kOp: out_ += ir::Cast<ir::OpExpr>(expr)->op->name; return;
      case ir::ExprKind::kConstructor: out_ += NameOf(*ir::Cast<ir::ConstructorExpr>(expr)->constructor); return;
      case ir::ExprKind::kTuple: return PrintTuple(ir::Cast<ir::Tuple>(expr)->fields);
      case ir::ExprKind::kProject: {
        const auto* project = ir::Cast<ir::Project>(expr);
        // The predecessor's grammar projects only from a variable or from parentheses, and only once.
        bool parens = project->tuple->expr_kind != ir::ExprKind::kVar;
        out_ += parens ? "(" : "";
        PrintStatement(project->tuple);
        absl::StrAppend(&out_, parens ? ")." : ".", project->index);
        return;
      }
      case ir::ExprKind::kFunction: out_ += "fn "; return PrintSignatureAndBody(*ir::Cast<ir::Function>(expr));
      case ir::ExprKind::kCall: return PrintCall(*ir::Cast<ir::Call>(expr), precedence);
      case ir::ExprKind::kLet: return PrintBlock(expr);
      case ir::ExprKind::kIf: return PrintIf(*ir::Cast<ir::If>(expr));
      case ir::ExprKind::kMatch:
        if (IsStatement(expr)) return PrintBlock(expr);
        return PrintMatch(*ir::Cast<ir::Match>(expr));
      case ir::ExprKind::kRefCreate: return PrintKeywordCall("ref", {ir::Cast<ir::RefCreate>(expr)->value});
      case ir::ExprKind::kRefRead: return PrintKeywordCall("ref_read", {ir::Cast<ir::RefRead>(expr)->ref});
      case ir::ExprKind::kRefWrite: {
        const auto* write = ir::Cast<ir::RefWrite>(expr);
        return PrintKeywordCall("ref_write", {write->ref, write->value});
      }
    }
  }

  void PrintKeywordCall(std::string_view keyword, std::vector<const ir::Expr*> args) {
    absl::StrAppend(&out_, Abseil(keyword), "(");
    List(args, [&](const ir::Expr* arg) { PrintExpr(arg); });
    out_ += ")";
  }

  void PrintConstant(const Literal& literal, int precedence) {
    if (literal.rank() == 0) {
      std::string text = ScalarToString(literal, 0);
      // Before `.0`, `1` and `-1` would read as the numbers `1.0` and `-1.0`.
      bool parens = precedence == kPostfixPrecedence &&
                    (text[0] == '-' || absl::ascii_isdigit(static_cast<unsigned char>(text[0])));
      absl::StrAppend(&out_, parens ? "(" : "", text, parens ? ")" : "");
      return;
    }
    if (IsFilled(literal)) {
      absl::StrAppend(&out_, "Constant(", ScalarToString(literal, 0), ", ", ShapeToString(literal.shape()), ", ",
                      literal.dtype().ToString(), ")");
      return;
    }
    out_ += "Constant([";
    for (int64_t i = 0; i < literal.num_elements(); ++i) {
      absl::StrAppend(&out_, i == 0 ? "" : ", ", ScalarToString(literal, i));
    }
    absl::StrAppend(&out_, "], ", ShapeToString(literal.shape()), ", ", literal.dtype().ToString(), ")");
  }

  void PrintTuple(const std::vector<ir::Expr*>& fields) {
    out_ += "(";
    List(fields, [&](const ir::Expr* field) { PrintExpr(field); });
    out_ += fields.size() == 1 ? ",)" : ")";
  }

  void PrintCall(const ir::Call& call, int precedence) {
    const ops::OpDef* op = ir::OpCallee(&call);
    if (op != nullptr && !op->infix.empty() && call.args.size() == 2 && call.attrs.empty() &&
        call.explicit_type_args.empty()) {
      int own = Precedence(op->infix);
      if (own < precedence) out_ += "(";
      // `f < a > (b)` would read as a call with type arguments.
      bool is_chain = op->infix == ">" && IsInfix(call.args[0], "<");
      PrintExpr(call.args[0], is_chain ? own + 1 : own);
      absl::StrAppend(&out_, " ", Abseil(op->infix), " ");
      PrintExpr(call.args[1], own + 1);
      if (own < precedence) out_ += ")";
      return;
    }
    if (call.is_list && PrintList(call)) return;
    PrintExpr(call.callee, kPostfixPrecedence);
    if (!call.explicit_type_args.empty()) {
      out_ += "<";
      List(call.explicit_type_args, [&](const ir::TypeArg& arg) { out_ += ir::TypeArgToString(arg); });
      out_ += ">";
    }
    const ir::Constructor* constructor = ir::ConstructorCallee(&call);
    // A callee is printed as `Nil()` if it is a value, to distinguish it from the constructor.
    bool is_value = constructor != nullptr && constructor->fields.empty() && precedence < kPostfixPrecedence &&
                    call.explicit_type_args.empty();
    if (is_value && call.args.empty() && call.attrs.empty()) return;
    out_ += "(";
    List(call.args, [&](const ir::Expr* arg) { PrintExpr(arg); });
    PrintAttrs(call.attrs, !call.args.empty());
    out_ += ")";
  }

  // Prints calls of `Cons` as `[a, b]`; false if passes changed the list so that it is no longer a literal.
  bool PrintList(const ir::Call& list) {
    std::vector<const ir::Expr*> elements;
    const ir::Call* rest = &list;
    for (; rest != nullptr && rest->args.size() == 2; rest = ir::DynCast<ir::Call>(rest->args[1])) {
      elements.push_back(rest->args[0]);
    }
    if (rest == nullptr || !rest->args.empty()) return false;
    out_ += "[";
    List(elements, [&](const ir::Expr* element) { PrintExpr(element); });
    out_ += "]";
    return true;
  }

  void PrintIf(const ir::If& branch) {
    out_ += "if (";
    PrintExpr(branch.condition);
    out_ += ") ";
    PrintBlock(branch.then_branch);
    out_ += " else ";
    PrintBlock(branch.else_branch);
  }

  void PrintMatch(const ir::Match& match) {
    out_ += match.is_complete ? "match (" : "match? (";
    PrintExpr(match.value);
    out_ += ") {";
    ++indent_;
    for (const ir::Clause& clause : match.clauses) {
      NewLine();
      FlushComments(clause.span);
      PrintPattern(*clause.pattern);
      out_ += " => ";
      PrintStatement(clause.body);
      out_ += ",";
    }
    --indent_;
    NewLine();
    out_ += "}";
  }

  void PrintPattern(const ir::Pattern& pattern) {
    WithStack([&] {
      switch (pattern.kind) {
        case ir::PatternKind::kWildcard: out_ += "_"; return;
        case ir::PatternKind::kVar:
          absl::StrAppend(&out_, "%", NameOf(pattern.var), Annotation(pattern.var->annotation));
          return;
        case ir::PatternKind::kLiteral: out_ += ScalarToString(*pattern.literal, 0); return;
        case ir::PatternKind::kConstructor:
          if (pattern.is_list && PrintListPattern(pattern)) return;
          out_ += NameOf(*pattern.constructor);
          if (pattern.fields.empty()) return;
          [[fallthrough]];
        case ir::PatternKind::kTuple:
          out_ += "(";
          List(pattern.fields, [&](const ir::Pattern* field) { PrintPattern(*field); });
          bool has_comma = pattern.kind == ir::PatternKind::kTuple && pattern.fields.size() == 1;
          out_ += has_comma && !pattern.is_parenthesised ? ",)" : ")";
      }
    });
  }

  bool PrintListPattern(const ir::Pattern& list) {
    std::vector<const ir::Pattern*> elements;
    const ir::Pattern* rest = &list;
    for (; rest->fields.size() == 2; rest = rest->fields[1]) elements.push_back(rest->fields[0]);
    if (rest->kind != ir::PatternKind::kConstructor || !rest->fields.empty()) return false;
    out_ += "[";
    List(elements, [&](const ir::Pattern* element) { PrintPattern(*element); });
    out_ += "]";
    return true;
  }

  const diagnostics::SourceMap* sources_ = nullptr;  // null: prints no origins
  std::string_view origin_;                          // of what is printed
  uint32_t source_ = 0;                              // 0: prints everything
  std::string_view text_;
  bool prints_metadata_ = false;
  std::vector<Comment> comments_;
  std::vector<ImportLine> imports_;
  size_t next_comment_ = 0;
  std::string out_;
  int indent_ = 0;
  absl::flat_hash_map<const ir::Var*, std::string> names_;
  absl::flat_hash_set<std::string> used_;
  absl::flat_hash_set<const ir::Constructor*> qualified_;  // FindSharedNames
  absl::flat_hash_map<std::string, int> next_suffix_;
};

}  // namespace

std::string PrintModule(const ir::Module& module, const diagnostics::SourceMap* sources) {
  return Printer(sources).Print(module);
}
std::string PrintExpr(const ir::Expr* expr) { return Printer().Print(expr); }

std::string Format(uint32_t source, diagnostics::Diagnostics& diagnostics, Importer* importer) {
  ir::Module module;
  if (!ParseModule(source, module, diagnostics, {.importer = importer})) return "";
  if (IsSavedModule(diagnostics.sources().text(source))) return PrintModule(module);
  std::vector<Comment> comments;
  ImportLines imports = ReadImportLines(Lex(source, diagnostics, &comments), diagnostics);
  return Printer(source, diagnostics.sources(), std::move(comments), std::move(imports.lines)).Print(module);
}

}  // namespace rvm::text
