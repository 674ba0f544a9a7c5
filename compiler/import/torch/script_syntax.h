// Syntax of the code in TorchScript files: the part of Python that torch.jit.save writes.
#ifndef RVM_COMPILER_IMPORT_TORCH_SCRIPT_SYNTAX_H_
#define RVM_COMPILER_IMPORT_TORCH_SCRIPT_SYNTAX_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rvm::torch {

enum class ExprKind : uint8_t {
  kName,  // `text`; True, False and None, too
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,       // `items`: keys and values in turn
  kCall,       // `items`: the callee and the arguments; those behind `positional` of them have the names `keywords`
  kAttribute,  // `text` of `items[0]`
  kSubscript,  // `items`: what, and the index
  kNegative,
};

struct Expr {
  ExprKind kind = ExprKind::kName;
  int line = 0;
  std::string text;
  int64_t integer = 0;
  double number = 0;
  std::vector<Expr> items;
  std::vector<std::string> keywords;
};

enum class StatementKind : uint8_t { kAssign, kExpression, kReturn, kIf, kWhile, kFor, kPass };

struct Statement {
  StatementKind kind = StatementKind::kPass;
  int line = 0;
  std::vector<Expr> targets;  // of an assignment or of `for`; several are unpacked into
  bool unpacks = false;       // `a, = x` has one target and unpacks
  Expr value;                 // assigned, returned, the condition, or what `for` goes over
  std::vector<Statement> body, otherwise;
};

struct Parameter {
  std::string name;
  Expr type;
  std::optional<Expr> value;
};

struct Function {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Statement> body;
};

struct Class {
  std::string name, base;
  std::vector<Parameter> fields;
  std::map<std::string, Function, std::less<>> methods;
};

struct SourceFile {
  std::map<std::string, Function, std::less<>> functions;
  std::map<std::string, Class, std::less<>> classes;
};

// kInvalidArgument where it is no such code; the message says the line.
absl::StatusOr<SourceFile> ParseScript(std::string_view source);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_SCRIPT_SYNTAX_H_
