#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/driver/quantize.h"
#include "compiler/ir/build.h"
#include "compiler/passes/rewriter.h"
#include "compiler/text/printer.h"

namespace rvm::driver {
namespace {

using ir::DynCast;
using ir::Expr;

// Larger constants are free variables.
constexpr int64_t kMaxWrittenBytes = 64;

// The printer writes these as one number.
bool HasEqualElements(const Literal& literal) {
  const auto width = static_cast<size_t>(literal.dtype().bytes());
  for (int64_t i = 1; i < literal.num_elements(); ++i) {
    if (std::memcmp(literal.data(), literal.data() + static_cast<size_t>(i) * width, width) != 0) return false;
  }
  return true;
}

// Puts free variables in place of constants; those with the same elements are one.
class ConstantNamer : public passes::Rewriter {
 public:
  ConstantNamer(ir::Module& module, std::map<std::string, Literal, std::less<>>& weights)
      : Rewriter(*module.arena), module_(module), weights_(weights) {}

 protected:
  Expr* RewriteNode(Expr* expr) override {
    const auto* constant = DynCast<ir::Constant>(expr);
    if (constant == nullptr || constant->literal.bytes() <= kMaxWrittenBytes || HasEqualElements(constant->literal)) {
      return RewriteChildren(expr);
    }
    const Literal& literal = constant->literal;
    auto [found, added] =
        vars_.try_emplace({literal.data(), literal.dtype().ToString() + ShapeToString(literal.shape())});
    if (added) {
      const std::string name = FreeName(constant->name);
      found->second = At(expr->span).DeclaredVar(name, expr->type);
      module_.free_vars.push_back(found->second);
      weights_.emplace(name, literal);
    }
    return At(expr->span).Use(found->second);
  }

 private:
  std::string FreeName(std::string_view given) {
    std::string name(given.empty() ? "weight" : given);
    for (char& c : name) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
    }
    if (absl::ascii_isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "w");
    std::string free = name;
    for (int i = 2; weights_.contains(free); ++i) free = absl::StrCat(name, "_", i);
    return free;
  }

  ir::Module& module_;
  std::map<std::string, Literal, std::less<>>& weights_;
  std::map<std::pair<const void*, std::string>, ir::Var*> vars_;
};

}  // namespace

ProgramText TextOf(const PreparedProgram& program) {
  ProgramText result;
  ir::Module module = program.module;
  ConstantNamer namer(module, result.weights);
  for (ir::GlobalFunction& global : module.functions) {
    auto* function = module.arena->New<ir::Function>(*global.function);
    function->body = namer.Rewrite(global.function->body);
    auto attrs = program.entry_attrs.find(global.name);
    if (attrs != program.entry_attrs.end()) function->attrs = attrs->second;
    global.function = function;
  }
  result.text = text::PrintModule(module);
  return result;
}

}  // namespace rvm::driver
