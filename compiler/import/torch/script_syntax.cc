#include "compiler/import/torch/script_syntax.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"

namespace rvm::torch {
namespace {

constexpr int kMaxDepth = 100;  // of expressions and blocks in each other
constexpr int kMaxChain = 24;   // of attributes, calls and subscripts behind each other

enum class TokenKind : uint8_t { kName, kNumber, kString, kMark, kNewline, kIndent, kDedent, kEnd };
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 0;
};

absl::Status Malformed(int line, std::string_view expected, std::string_view seen) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ": saw `", Abseil(seen), "`; expected ", Abseil(expected)));
}

bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)); }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      if (is_line_start_ && brackets_ == 0) RVM_RETURN_IF_ERROR(Indentation());
      if (at_ < source_.size()) RVM_RETURN_IF_ERROR(Next());
    }
    if (!is_line_start_) Add(TokenKind::kNewline, "end of line");
    for (; indents_.size() > 1; indents_.pop_back()) Add(TokenKind::kDedent, "end of block");
    Add(TokenKind::kEnd, "end of file");
    return std::move(tokens_);
  }

 private:
  void Add(TokenKind kind, std::string_view text) { tokens_.push_back({kind, std::string(text), line_}); }
  char Peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  absl::Status Indentation() {
    size_t begin = at_;
    while (Peek() == ' ') ++at_;
    if (at_ == source_.size() || Peek() == '\n' || Peek() == '#') return absl::OkStatus();
    size_t width = at_ - begin;
    is_line_start_ = false;
    if (width > indents_.back()) {
      if (indents_.size() > kMaxDepth) return Malformed(line_, "blocks that are nested less deep", "block");
      indents_.push_back(width);
      Add(TokenKind::kIndent, "block");
    }
    for (; width < indents_.back(); indents_.pop_back()) Add(TokenKind::kDedent, "end of block");
    return width == indents_.back() ? absl::OkStatus() : Malformed(line_, "the indentation of a block", "line");
  }

  absl::Status Next() {
    char c = Peek();
    size_t begin = at_;
    if (c == '\n') {
      ++at_;
      if (brackets_ == 0 && !is_line_start_) Add(TokenKind::kNewline, "end of line");
      is_line_start_ = is_line_start_ || brackets_ == 0;
      ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      while (at_ < source_.size() && Peek() != '\n') ++at_;
    } else if (IsNameStart(c)) {
      while (IsNamePart(Peek())) ++at_;
      Add(TokenKind::kName, source_.substr(begin, at_ - begin));
    } else if (absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
               (c == '.' && absl::ascii_isdigit(static_cast<unsigned char>(Peek(1))))) {
      while (IsNamePart(Peek()) || Peek() == '.' ||
             ((Peek() == '-' || Peek() == '+') && (source_[at_ - 1] == 'e' || source_[at_ - 1] == 'E'))) {
        ++at_;
      }
      Add(TokenKind::kNumber, source_.substr(begin, at_ - begin));
    } else if (c == '"' || c == '\'') {
      return String(c);
    } else {
      return Mark(c);
    }
    return absl::OkStatus();
  }

  absl::Status Mark(char c) {
    if (c == '-' && Peek(1) == '>') {
      at_ += 2;
      Add(TokenKind::kMark, "->");
      return absl::OkStatus();
    }
    if (std::string_view("()[]{},:.=-").find(c) == std::string_view::npos) {
      return Malformed(line_, "the code of TorchScript", std::string(1, c));
    }
    if (c == '(' || c == '[' || c == '{') ++brackets_;
    if ((c == ')' || c == ']' || c == '}') && brackets_-- == 0) {
      return Malformed(line_, "an opening bracket before it", std::string(1, c));
    }
    ++at_;
    Add(TokenKind::kMark, std::string(1, c));
    return absl::OkStatus();
  }

  absl::Status String(char quote) {
    std::string text;
    for (++at_; Peek() != quote; ++at_) {
      if (at_ >= source_.size() || Peek() == '\n') return Malformed(line_, "the end of a string", "end of line");
      char c = Peek();
      if (c == '\\') {
        c = Peek(1);
        ++at_;
        if (absl::ascii_isdigit(static_cast<unsigned char>(c))) {
          int code = 0;
          for (int i = 0; i < 3 && Peek() >= '0' && Peek() <= '7'; ++i, ++at_) code = code * 8 + (Peek() - '0');
          text.push_back(static_cast<char>(code));
          --at_;
          continue;
        }
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
      text.push_back(c);
    }
    ++at_;
    Add(TokenKind::kString, text);
    return absl::OkStatus();
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1, brackets_ = 0;
  bool is_line_start_ = true;
  std::vector<size_t> indents_ = {0};
  std::vector<Token> tokens_;
};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<SourceFile> File() {
    SourceFile file;
    while (Peek().kind != TokenKind::kEnd) {
      if (Peek().kind == TokenKind::kNewline) {
        ++at_;
      } else if (Peek().text == "def") {
        RVM_ASSIGN_OR_RETURN(Function function, ParseFunction());
        file.functions[function.name] = std::move(function);
      } else if (Peek().text == "class") {
        RVM_ASSIGN_OR_RETURN(Class one, ParseClass());
        file.classes[one.name] = std::move(one);
      } else {
        RVM_RETURN_IF_ERROR(ParseStatement().status());  // of the whole file: nothing that a model runs
      }
    }
    return file;
  }

 private:
  const Token& Peek() const { return tokens_[at_]; }
  bool Is(std::string_view mark) const {
    return Peek().text == mark && (Peek().kind == TokenKind::kMark || Peek().kind == TokenKind::kName);
  }
  bool Accept(std::string_view mark) {
    bool is_it = Is(mark);
    if (is_it) ++at_;
    return is_it;
  }
  absl::Status Expect(std::string_view mark) {
    return Accept(mark) ? absl::OkStatus() : Malformed(Peek().line, absl::StrCat("`", Abseil(mark), "`"), Peek().text);
  }
  absl::Status ExpectKind(TokenKind kind, std::string_view what) {
    if (Peek().kind != kind) return Malformed(Peek().line, what, Peek().text);
    ++at_;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Name() {
    std::string name = Peek().text;
    RVM_RETURN_IF_ERROR(ExpectKind(TokenKind::kName, "a name"));
    return name;
  }

  absl::StatusOr<Class> ParseClass() {
    Class result;
    ++at_;
    RVM_ASSIGN_OR_RETURN(result.name, Name());
    if (Accept("(")) {
      while (!Accept(")")) {
        RVM_ASSIGN_OR_RETURN(result.base, Name());
        Accept(",");
      }
    }
    RVM_RETURN_IF_ERROR(Expect(":"));
    RVM_RETURN_IF_ERROR(ExpectKind(TokenKind::kNewline, "a new line"));
    RVM_RETURN_IF_ERROR(ExpectKind(TokenKind::kIndent, "a block"));
    while (Peek().kind != TokenKind::kDedent) {
      if (Peek().kind == TokenKind::kNewline) {
        ++at_;
      } else if (Peek().text == "def") {
        RVM_ASSIGN_OR_RETURN(Function method, ParseFunction());
        result.methods[method.name] = std::move(method);
      } else {
        bool is_field = Peek().kind == TokenKind::kName && tokens_[at_ + 1].text == ":";
        std::string name = Peek().text;
        RVM_ASSIGN_OR_RETURN(Statement field, ParseStatement());
        if (is_field) result.fields.push_back({std::move(name), {}, {}});
      }
    }
    ++at_;
    return result;
  }

  absl::StatusOr<Function> ParseFunction() {
    Function function;
    ++at_;
    RVM_ASSIGN_OR_RETURN(function.name, Name());
    RVM_RETURN_IF_ERROR(Expect("("));
    while (!Accept(")")) {
      Parameter parameter;
      RVM_ASSIGN_OR_RETURN(parameter.name, Name());
      if (Accept(":")) {
        RVM_ASSIGN_OR_RETURN(parameter.type, Expression());
      }
      if (Accept("=")) {
        RVM_ASSIGN_OR_RETURN(parameter.value, Expression());
      }
      function.parameters.push_back(std::move(parameter));
      if (!Is(")")) RVM_RETURN_IF_ERROR(Expect(","));
    }
    if (Accept("->")) RVM_RETURN_IF_ERROR(Expression().status());
    RVM_ASSIGN_OR_RETURN(function.body, Block());
    return function;
  }

  absl::StatusOr<std::vector<Statement>> Block() {
    RVM_RETURN_IF_ERROR(Expect(":"));
    RVM_RETURN_IF_ERROR(ExpectKind(TokenKind::kNewline, "a new line"));
    RVM_RETURN_IF_ERROR(ExpectKind(TokenKind::kIndent, "a block"));
    std::vector<Statement> body;
    while (Peek().kind != TokenKind::kDedent) {
      RVM_ASSIGN_OR_RETURN(Statement statement, ParseStatement());
      body.push_back(std::move(statement));
    }
    ++at_;
    return body;
  }

  absl::StatusOr<Statement> ParseStatement() {
    Statement statement;
    statement.line = Peek().line;
    if (Accept("if") || Accept("while")) {
      statement.kind = tokens_[at_ - 1].text == "if" ? StatementKind::kIf : StatementKind::kWhile;
      RVM_ASSIGN_OR_RETURN(statement.value, Expression());
      RVM_ASSIGN_OR_RETURN(statement.body, Block());
      if (statement.kind == StatementKind::kIf && Accept("else")) {
        RVM_ASSIGN_OR_RETURN(statement.otherwise, Block());
      }
      return statement;
    }
    if (Accept("for")) {
      statement.kind = StatementKind::kFor;
      RVM_RETURN_IF_ERROR(Targets(statement));
      RVM_RETURN_IF_ERROR(Expect("in"));
      RVM_ASSIGN_OR_RETURN(statement.value, Expression());
      RVM_ASSIGN_OR_RETURN(statement.body, Block());
      return statement;
    }
    if (Accept("pass")) {
      statement.kind = StatementKind::kPass;
    } else if (Accept("return")) {
      statement.kind = StatementKind::kReturn;
      RVM_ASSIGN_OR_RETURN(statement.value, Values());
    } else {
      statement.kind = StatementKind::kExpression;
      RVM_RETURN_IF_ERROR(Targets(statement));
      if (Accept(":")) RVM_RETURN_IF_ERROR(Expression().status());
      if (Accept("=")) {
        statement.kind = StatementKind::kAssign;
        RVM_ASSIGN_OR_RETURN(statement.value, Values());
      } else {
        statement.value = std::move(statement.targets[0]);
      }
    }
    RVM_RETURN_IF_ERROR(ExpectKind(TokenKind::kNewline, "a new line"));
    return statement;
  }

  // `a, b, ` and one alone.
  absl::Status Targets(Statement& statement) {
    do {
      RVM_ASSIGN_OR_RETURN(Expr target, Expression());
      statement.targets.push_back(std::move(target));
      if (!Accept(",")) return absl::OkStatus();
      statement.unpacks = true;
    } while (!Is("=") && !Is("in"));
    return absl::OkStatus();
  }

  // An expression, or a tuple of several without brackets.
  absl::StatusOr<Expr> Values() {
    RVM_ASSIGN_OR_RETURN(Expr first, Expression());
    if (!Is(",")) return first;
    Expr tuple;
    tuple.kind = ExprKind::kTuple;
    tuple.line = first.line;
    tuple.items.push_back(std::move(first));
    while (Accept(",") && Peek().kind != TokenKind::kNewline) {
      RVM_ASSIGN_OR_RETURN(Expr next, Expression());
      tuple.items.push_back(std::move(next));
    }
    return tuple;
  }

  absl::StatusOr<Expr> Expression() {
    if (++depth_ > kMaxDepth) return Malformed(Peek().line, "expressions that are nested less deep", Peek().text);
    absl::StatusOr<Expr> result = Postfix();
    --depth_;
    return result;
  }

  absl::StatusOr<Expr> Postfix() {
    RVM_ASSIGN_OR_RETURN(Expr expr, Primary());
    for (int count = 0;; ++count) {
      bool goes_on = Is(".") || Is("(") || Is("[");
      if (!goes_on) return expr;
      // Each adds a level to a tree that others walk by recursion.
      if (count == kMaxChain) return Malformed(Peek().line, "a shorter chain", Peek().text);
      Expr outer;
      outer.line = Peek().line;
      outer.items.push_back(std::move(expr));
      if (Accept(".")) {
        outer.kind = ExprKind::kAttribute;
        RVM_ASSIGN_OR_RETURN(outer.text, Name());
      } else if (Accept("(")) {
        outer.kind = ExprKind::kCall;
        RVM_RETURN_IF_ERROR(Arguments(outer));
      } else {
        RVM_RETURN_IF_ERROR(Expect("["));
        outer.kind = ExprKind::kSubscript;
        RVM_RETURN_IF_ERROR(Items(outer, "]"));
      }
      expr = std::move(outer);
    }
  }

  absl::Status Arguments(Expr& call) {
    while (!Accept(")")) {
      bool is_named = Peek().kind == TokenKind::kName && tokens_[at_ + 1].text == "=";
      if (is_named) {
        call.keywords.push_back(Peek().text);
        at_ += 2;
      } else if (!call.keywords.empty()) {
        return Malformed(Peek().line, "the name of an argument", Peek().text);
      }
      RVM_ASSIGN_OR_RETURN(Expr argument, Expression());
      call.items.push_back(std::move(argument));
      if (!Is(")")) RVM_RETURN_IF_ERROR(Expect(","));
    }
    return absl::OkStatus();
  }

  absl::Status Items(Expr& list, std::string_view end) {
    while (!Accept(end)) {
      RVM_ASSIGN_OR_RETURN(Expr item, Expression());
      list.items.push_back(std::move(item));
      if (list.kind == ExprKind::kDict) {
        RVM_RETURN_IF_ERROR(Expect(":"));
        RVM_ASSIGN_OR_RETURN(Expr value, Expression());
        list.items.push_back(std::move(value));
      }
      if (!Is(end)) RVM_RETURN_IF_ERROR(Expect(","));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Expr> Primary() {
    Expr expr;
    const Token& token = Peek();
    expr.line = token.line;
    if (token.kind == TokenKind::kName) {
      expr.text = token.text;
      ++at_;
      return expr;
    }
    if (token.kind == TokenKind::kString) {
      expr.kind = ExprKind::kString;
      while (Peek().kind == TokenKind::kString) expr.text += tokens_[at_++].text;
      return expr;
    }
    if (token.kind == TokenKind::kNumber) return Number();
    if (Accept("-")) {
      expr.kind = ExprKind::kNegative;
      RVM_ASSIGN_OR_RETURN(Expr operand, Expression());
      expr.items.push_back(std::move(operand));
      return expr;
    }
    if (Accept("[")) {
      expr.kind = ExprKind::kList;
      RVM_RETURN_IF_ERROR(Items(expr, "]"));
      return expr;
    }
    if (Accept("{")) {
      expr.kind = ExprKind::kDict;
      RVM_RETURN_IF_ERROR(Items(expr, "}"));
      return expr;
    }
    RVM_RETURN_IF_ERROR(Accept("(") ? absl::OkStatus() : Malformed(token.line, "an expression", token.text));
    expr.kind = ExprKind::kTuple;
    RVM_RETURN_IF_ERROR(Items(expr, ")"));
    bool is_tuple = expr.items.size() != 1 || tokens_[at_ - 2].text == ",";
    if (is_tuple) return expr;
    Expr inner = std::move(expr.items[0]);
    return inner;
  }

  absl::StatusOr<Expr> Number() {
    Expr expr;
    const Token& token = tokens_[at_++];
    expr.line = token.line;
    expr.kind = ExprKind::kInt;
    if (absl::SimpleAtoi(token.text, &expr.integer)) return expr;
    expr.kind = ExprKind::kFloat;
    if (absl::SimpleAtod(token.text, &expr.number)) return expr;
    return Malformed(token.line, "a number", token.text);
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<SourceFile> ParseScript(std::string_view source) {
  RVM_ASSIGN_OR_RETURN(std::vector<Token> tokens, Lexer(source).Run());
  return Parser(std::move(tokens)).File();
}

}  // namespace rvm::torch
