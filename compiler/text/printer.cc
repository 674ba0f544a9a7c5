#include "compiler/text/printer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "base/value.h"
#include "compiler/ops/op_def.h"
#include "compiler/text/lexer.h"
#include "compiler/text/parser.h"

namespace rvm::text {
namespace {

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

int InfixPrecedence(std::string_view infix) {
  if (infix == "==" || infix == "!=") return 2;
  if (infix == "<" || infix == "<=" || infix == ">" || infix == ">=") return 3;
  return infix == "+" || infix == "-" ? 4 : 5;
}
constexpr int kPostfix = 7;       // tighter than any operator
constexpr size_t kMaxLine = 110;  // columns before parameters go on lines of their own

// The shortest text that reads back as the same double.
bool IsInfix(const ir::Expr* expr, std::string_view infix) {
  const auto* call = ir::DynCast<ir::Call>(expr);
  const auto* op = call == nullptr ? nullptr : ir::DynCast<ir::OpExpr>(call->callee);
  return op != nullptr && op->op->infix == infix && call->args.size() == 2;
}

std::string DoubleToString(double value) {
  if (std::isnan(value)) return "nanf";
  if (std::isinf(value)) return value > 0 ? "inff" : "-inff";
  char text[32];
  for (int precision = 1; precision <= 17; ++precision) {
    std::snprintf(text, sizeof text, "%.*g", precision, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  std::string result = text;
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

// Whether `literal` is so many times one number that it is better written as that.
bool IsFilled(const Literal& literal) {
  constexpr int64_t kListed = 16;
  if (literal.num_elements() <= kListed) return false;
  auto element = static_cast<size_t>(literal.bytes() / literal.num_elements());
  const auto* data = static_cast<const std::byte*>(literal.data());
  return std::memcmp(data, data + element, static_cast<size_t>(literal.bytes()) - element) == 0;
}

std::string AttrToString(const ir::AttrValue& value) {
  if (value.is_none()) return "None";
  if (const bool* b = value.AsBool()) return *b ? "True" : "False";
  if (const int64_t* i = value.AsInt()) return absl::StrCat(*i);
  if (const double* d = value.AsDouble()) return DoubleToString(*d);
  if (const std::string* s = value.AsString()) return ir::QuoteString(*s);
  std::string result = "[";
  for (const ir::AttrValue& element : *value.AsList()) {
    absl::StrAppend(&result, result.size() > 1 ? ", " : "", AttrToString(element));
  }
  return result + "]";
}

class Printer {
 public:
  // `source`: prints only what stands in it; 0: everything.
  explicit Printer(uint32_t source, std::vector<Comment> comments) : source_(source), comments_(std::move(comments)) {}

  std::string Print(const ir::Module& module) {
    out_ = "#[version = \"0.0.5\"]\n";
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
      FlushComments(function.function->span);
      absl::StrAppend(&out_, "def @", function.name);
      PrintSignatureAndBody(*function.function);
      out_ += "\n";
    }
    FlushComments({0, UINT32_MAX, UINT32_MAX});
    return std::move(out_);
  }

  std::string Print(const ir::Expr* expr) {
    PrintSequence(expr);
    return std::move(out_);
  }

 private:
  bool IsWanted(ir::Span span) const { return source_ == 0 || span.source == source_; }

  // ---- layout
  void NewLine() { absl::StrAppend(&out_, "\n", std::string(static_cast<size_t>(indent_) * 2, ' ')); }
  // Comments that stand before `span` go on lines of their own here.
  void FlushComments(ir::Span span) {
    while (next_comment_ < comments_.size() && comments_[next_comment_].span.begin < span.begin) {
      absl::StrAppend(&out_, Abseil(comments_[next_comment_++].text));
      NewLine();
    }
  }
  template <typename T, typename F>
  void List(const std::vector<T>& items, F print) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      print(items[i]);
    }
  }

  // ---- names. A text's own names are kept: it is scoped as it was written. Passes may bring two variables
  // of one name into one scope: those get different texts.
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
  static std::string Annotation(const ir::Type* type) {
    return type == nullptr ? "" : absl::StrCat(": ", ir::TypeToString(type));
  }
  static std::string TypeParams(const std::vector<const ir::TypeParam*>& params) {
    std::string result;
    for (const ir::TypeParam* param : params) {
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

  void PrintAttrs(const ir::Attrs& attrs, bool after_items) {
    for (const ir::Attr& attr : attrs.entries()) {
      absl::StrAppend(&out_, after_items ? ", " : "", attr.name, "=", AttrToString(attr.value));
      after_items = true;
    }
  }

  // On one line, or one a line where that would be long.
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
    PrintAttrs(function.attrs, !params.empty());
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

  void PrintSequence(const ir::Expr* expr) {
    while (const auto* let = ir::DynCast<ir::Let>(expr)) {
      FlushComments(let->span);
      bool is_graph = !let->var->name.empty() && let->var->name[0] >= '0' && let->var->name[0] <= '9';
      bool is_function = let->value->expr_kind == ir::ExprKind::kFunction;
      if (let->var->name == "_" && let->var->annotation == nullptr) {
        PrintExpr(let->value);
      } else {
        bool bare = is_graph && let->var->annotation == nullptr && !is_function;
        absl::StrAppend(&out_, bare ? "" : "let ", "%", NameOf(let->var), Annotation(let->var->annotation), " = ");
        PrintExpr(let->value);
      }
      out_ += ";";
      NewLine();
      expr = let->body;
    }
    FlushComments(expr->span);
    PrintExpr(expr);
  }

  void PrintExpr(const ir::Expr* expr, int precedence = 0) {
    WithStack([&] { PrintExprHere(expr, precedence); });
  }

  void PrintExprHere(const ir::Expr* expr, int precedence) {
    switch (expr->expr_kind) {
      case ir::ExprKind::kConstant: return PrintConstant(ir::Cast<ir::Constant>(expr)->literal, precedence);
      case ir::ExprKind::kVar: absl::StrAppend(&out_, "%", NameOf(ir::Cast<ir::VarExpr>(expr)->var)); return;
      case ir::ExprKind::kGlobal: absl::StrAppend(&out_, "@", ir::Cast<ir::GlobalExpr>(expr)->name); return;
      case ir::ExprKind::kOp: out_ += ir::Cast<ir::OpExpr>(expr)->op->name; return;
      case ir::ExprKind::kConstructor: out_ += ir::Cast<ir::ConstructorExpr>(expr)->constructor->name; return;
      case ir::ExprKind::kTuple: return PrintTuple(ir::Cast<ir::Tuple>(expr)->fields);
      case ir::ExprKind::kProject: {
        const auto* project = ir::Cast<ir::Project>(expr);
        PrintExpr(project->tuple, kPostfix);
        absl::StrAppend(&out_, ".", project->index);
        return;
      }
      case ir::ExprKind::kFunction: out_ += "fn "; return PrintSignatureAndBody(*ir::Cast<ir::Function>(expr));
      case ir::ExprKind::kCall: return PrintCall(*ir::Cast<ir::Call>(expr), precedence);
      case ir::ExprKind::kLet: return PrintBlock(expr);
      case ir::ExprKind::kIf: return PrintIf(expr);
      case ir::ExprKind::kMatch: return PrintMatch(*ir::Cast<ir::Match>(expr));
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
      // `-1.0` would be a number, and so would `1.0`.
      bool parens =
          precedence == kPostfix && (text[0] == '-' || absl::ascii_isdigit(static_cast<unsigned char>(text[0])));
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
    const auto* op = ir::DynCast<ir::OpExpr>(call.callee);
    if (op != nullptr && !op->op->infix.empty() && call.args.size() == 2 && call.attrs.empty() &&
        call.explicit_type_args.empty()) {
      int own = InfixPrecedence(op->op->infix);
      if (own < precedence) out_ += "(";
      // `f < a > (b)` would read as a call with type arguments.
      bool is_chain = op->op->infix == ">" && IsInfix(call.args[0], "<");
      PrintExpr(call.args[0], is_chain ? own + 1 : own);
      absl::StrAppend(&out_, " ", Abseil(op->op->infix), " ");
      PrintExpr(call.args[1], own + 1);
      if (own < precedence) out_ += ")";
      return;
    }
    PrintExpr(call.callee, kPostfix);
    if (!call.explicit_type_args.empty()) {
      out_ += "<";
      List(call.explicit_type_args, [&](const ir::TypeArg& arg) { out_ += ir::TypeArgToString(arg); });
      out_ += ">";
    }
    const auto* constructor = ir::DynCast<ir::ConstructorExpr>(call.callee);
    // Where it is called itself, `Nil()` says that it is the value that is.
    bool is_value = constructor != nullptr && constructor->constructor->fields.empty() && precedence < kPostfix &&
                    call.explicit_type_args.empty();
    if (is_value && call.args.empty() && call.attrs.empty()) return;
    out_ += "(";
    List(call.args, [&](const ir::Expr* arg) { PrintExpr(arg); });
    PrintAttrs(call.attrs, !call.args.empty());
    out_ += ")";
  }

  void PrintIf(const ir::Expr* expr) {
    while (const auto* branch = ir::DynCast<ir::If>(expr)) {
      out_ += "if (";
      PrintExpr(branch->condition);
      out_ += ") ";
      PrintBlock(branch->then_branch);
      out_ += " else ";
      expr = branch->else_branch;
    }
    PrintBlock(expr);
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
      PrintClauseBody(clause.body);
      out_ += ",";
    }
    --indent_;
    NewLine();
    out_ += "}";
  }

  // A block there is the whole body, so what only begins with one stands in parentheses.
  void PrintClauseBody(const ir::Expr* body) {
    if (body->expr_kind == ir::ExprKind::kLet) return PrintBlock(body);
    bool parens = BeginsWithBlock(body);
    absl::StrAppend(&out_, parens ? "(" : "");
    PrintExpr(body);
    absl::StrAppend(&out_, parens ? ")" : "");
  }

  static bool BeginsWithBlock(const ir::Expr* expr) {
    while (true) {
      if (const auto* project = ir::DynCast<ir::Project>(expr)) {
        expr = project->tuple;
      } else if (const auto* call = ir::DynCast<ir::Call>(expr)) {
        const auto* op = ir::DynCast<ir::OpExpr>(call->callee);
        bool infix = op != nullptr && !op->op->infix.empty() && call->args.size() == 2;
        expr = infix ? call->args[0] : call->callee;
      } else {
        return expr->expr_kind == ir::ExprKind::kLet;
      }
    }
  }

  void PrintPattern(const ir::Pattern& pattern) {
    WithStack([&] {
      switch (pattern.kind) {
        case ir::PatternKind::kWildcard: out_ += "_"; return;
        case ir::PatternKind::kVar:
          absl::StrAppend(&out_, "%", NameOf(pattern.var), Annotation(pattern.var->annotation));
          return;
        case ir::PatternKind::kConstructor:
          out_ += pattern.constructor->name;
          if (pattern.fields.empty()) return;
          [[fallthrough]];
        case ir::PatternKind::kTuple:
          out_ += "(";
          List(pattern.fields, [&](const ir::Pattern* field) { PrintPattern(*field); });
          out_ += pattern.kind == ir::PatternKind::kTuple && pattern.fields.size() == 1 ? ",)" : ")";
      }
    });
  }

  uint32_t source_;
  std::vector<Comment> comments_;
  size_t next_comment_ = 0;
  std::string out_;
  int indent_ = 0;
  absl::flat_hash_map<const ir::Var*, std::string> names_;
  absl::flat_hash_set<std::string> used_;
  absl::flat_hash_map<std::string, int> next_suffix_;
};

}  // namespace

std::string PrintModule(const ir::Module& module) { return Printer(0, {}).Print(module); }
std::string PrintExpr(const ir::Expr* expr) { return Printer(0, {}).Print(expr); }

std::string Format(uint32_t source, diagnostics::Diagnostics& diagnostics) {
  ir::Module module;
  if (!ParseModule(source, module, diagnostics)) return "";
  std::vector<Comment> comments;
  Lex(source, diagnostics, &comments);
  return Printer(source, std::move(comments)).Print(module);
}

}  // namespace rvm::text
