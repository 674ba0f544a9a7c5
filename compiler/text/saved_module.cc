#include "compiler/text/saved_module.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/suggest_operator.h"
#include "compiler/text/attribute_node.h"
#include "compiler/text/graph_bindings.h"
#include "compiler/text/object_graph.h"

namespace rvm::text {
namespace {

using diagnostics::DiagnosticKind;

// Types and patterns are shared in the file but copied here, so a small graph can expand to a huge tree.
constexpr int64_t kMaxTreeNodes = int64_t{1} << 22;
constexpr int64_t kShapeVarKind = 1, kBaseTypeKind = 2, kShapeKind = 3;  // the predecessor's numbers

std::string AsIdentifier(std::string text) {
  for (char& c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return text.empty() || absl::ascii_isdigit(static_cast<unsigned char>(text[0])) ? "n" + text : text;
}

// Reports the first error only; after it, functions return holes and empty tuples.
class Reader {
 public:
  Reader(const ObjectGraph& graph, uint32_t source, ir::Module& module, diagnostics::Diagnostics& diagnostics)
      : graph_(graph), span_{source, 0, 0}, module_(module), arena_(*module.arena), diagnostics_(diagnostics) {}

  bool Read() {
    NodeId root = graph_.root();
    if (Key(root) == "relay.Function") {
      AddFunction("main", root);
    } else if (Key(root) == "IRModule") {
      ReadTypeDefinitions(graph_.Elements(graph_.Child(root, "type_definitions")));
      std::vector<NodeId> functions = graph_.Elements(graph_.Child(root, "functions"));
      for (size_t i = 0; i + 1 < functions.size() && !failed_; i += 2) {
        AddFunction(NameOf(functions[i]), functions[i + 1]);
      }
    } else {
      Fail(DiagnosticKind::kBadMetadata,
           absl::StrCat("its root is an object `", Abseil(Key(root)), "`; expected `IRModule` or `relay.Function`"));
    }
    return !failed_;
  }

 private:
  std::string_view Key(NodeId node) const { return graph_.TypeKey(node); }
  std::string NameOf(NodeId node) const {
    return AsIdentifier(graph_.Text(graph_.Child(node, "name_hint")).value_or(""));
  }

  void Fail(DiagnosticKind kind, std::string_view message) {
    if (!std::exchange(failed_, true)) {
      diagnostics_.Error(span_, kind, absl::StrCat("the saved module: ", Abseil(message)));
    }
  }
  void BadNode(std::string_view what, NodeId node) {
    Fail(DiagnosticKind::kBadMetadata,
         absl::StrCat("node ", node, " is `", Abseil(Key(node)), "`; expected ", Abseil(what)));
  }
  // False after an error: the limit is exceeded, or a node contains itself.
  bool CountTreeNode() {
    if (++tree_nodes_ > kMaxTreeNodes) {
      Fail(DiagnosticKind::kBadMetadata,
           absl::StrCat("its types and patterns have more than ", kMaxTreeNodes, " parts, or contain themselves"));
    }
    return !failed_;
  }

  const ir::Type* BadType(std::string_view what, NodeId node) {
    BadNode(what, node);
    return Hole();
  }
  ir::Expr* BadExpr(std::string_view what, NodeId node) {
    BadNode(what, node);
    return Unit();
  }

  // ---- types
  const ir::Type* Hole() { return arena_.New<ir::HoleType>(int64_t{0}); }

  // Null where there is none.
  const ir::Type* ReadAnnotation(NodeId node) {
    return node == kNullNode || Key(node) == "IncompleteType" ? nullptr : ReadType(node);
  }

  const ir::Type* ReadType(NodeId node) {
    if (!CountTreeNode()) return Hole();
    return WithStack([&] { return ReadTypeHere(node); });
  }

  const ir::Type* ReadTypeHere(NodeId node) {
    std::string_view key = Key(node);
    if (key == "relay.TensorType") {
      const std::string* dtype = graph_.Field(node, "dtype");
      std::optional<DataType> parsed = dtype == nullptr ? std::nullopt : ParseDataType(*dtype);
      if (!parsed) return BadType("a tensor type of a known dtype", node);
      return ir::MakeTensorType(arena_, ReadDims(graph_.Child(node, "shape")), *parsed);
    }
    if (key == "TupleType") return arena_.New<ir::TupleType>(ReadTypes(graph_.Child(node, "fields")));
    if (key == "relay.RefType") return arena_.New<ir::RefType>(ReadType(graph_.Child(node, "value")));
    if (key == "FuncType") {
      std::vector<const ir::TypeParam*> params = ReadTypeParams(graph_.Child(node, "type_params"));
      std::vector<const ir::Type*> args = ReadTypes(graph_.Child(node, "arg_types"));
      return arena_.New<ir::FuncType>(std::move(params), std::move(args), ReadType(graph_.Child(node, "ret_type")));
    }
    if (key == "TypeVar") {
      if (auto param = type_params_.find(node); param != type_params_.end()) {
        return arena_.New<ir::ParamType>(param->second);
      }
      return BadType("a type parameter that a function or type declares", node);
    }
    if (key == "TypeCall" || key == "GlobalTypeVar") {
      std::string name = NameOf(key == "TypeCall" ? graph_.Child(node, "func") : node);
      const ir::AdtDef* adt = module_.FindAdt(name);
      std::vector<ir::TypeArg> args;
      if (key == "TypeCall") {
        for (const ir::Type* type : ReadTypes(graph_.Child(node, "args"))) {
          args.emplace_back();
          args.back().type = type;
        }
      }
      if (adt != nullptr && adt->type_params.size() == args.size()) {
        return arena_.New<ir::AdtType>(adt, std::move(args));
      }
      Fail(DiagnosticKind::kUnknownType, absl::StrCat("no type `", name, "` with ", args.size(), " parameters"));
      return Hole();
    }
    if (key == "IncompleteType") return Hole();
    return BadType("a type", node);
  }

  std::vector<const ir::Type*> ReadTypes(NodeId array) {
    std::vector<const ir::Type*> types;
    for (NodeId node : graph_.Elements(array)) types.push_back(ReadType(node));
    return types;
  }

  std::vector<const ir::TypeParam*> ReadTypeParams(NodeId array) {
    std::vector<const ir::TypeParam*> params;
    for (NodeId node : graph_.Elements(array)) {
      const std::string* kind_text = graph_.Field(node, "kind");
      int64_t number = 0;
      if (kind_text == nullptr || !absl::SimpleAtoi(*kind_text, &number)) number = 0;
      ir::Kind kind = number == kShapeVarKind   ? ir::Kind::kShapeVar
                      : number == kBaseTypeKind ? ir::Kind::kBaseType
                      : number == kShapeKind    ? ir::Kind::kShape
                                                : ir::Kind::kType;
      auto* param = arena_.New<ir::TypeParam>(arena_.NextId(), NameOf(node), kind, span_);
      type_params_[node] = param;
      params.push_back(param);
    }
    return params;
  }

  Dims ReadDims(NodeId array) {
    Dims dims;
    for (NodeId node : graph_.Elements(array)) dims.push_back(ReadDim(node));
    return dims;
  }

  Dim ReadDim(NodeId node) {
    std::string_view key = Key(node);
    if (key == "IntImm") {
      int64_t value = -1;
      const std::string* text = graph_.Field(node, "value");
      if (text != nullptr && absl::SimpleAtoi(*text, &value) && value >= 0) return Dim(value);
      BadNode("an extent from 0 on", node);
      return Dim::Any();
    }
    // An extent that is an expression of other extents reads as `?`.
    if ((key != "tir.SizeVar" && key != "tir.Var") || !in_function_) return Dim::Any();
    auto [found, is_new] = dims_.try_emplace(node, nullptr);
    if (is_new) {
      std::string stem = AsIdentifier(graph_.Text(graph_.Child(node, "name")).value_or("n")), name = stem;
      for (int i = 1; !dim_names_.insert(name).second; ++i) name = absl::StrCat(stem, "_", i);
      found->second = arena_.New<ir::TypeParam>(arena_.NextId(), name, ir::Kind::kShapeVar, span_);
      new_dims_.push_back(found->second);
    }
    return Dim::Var(found->second->id, found->second->name);
  }

  // ---- definitions
  void ReadTypeDefinitions(const std::vector<NodeId>& pairs) {
    std::vector<ir::AdtDef*> adts;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      auto* adt = arena_.New<ir::AdtDef>();
      adt->name = NameOf(pairs[i]);
      adt->span = span_;
      adt->type_params = ReadTypeParams(graph_.Child(pairs[i + 1], "type_vars"));
      module_.adts.push_back(adt);
      adts.push_back(adt);
    }
    for (size_t i = 0; i < adts.size() && !failed_; ++i) {
      for (NodeId node : graph_.Elements(graph_.Child(pairs[2 * i + 1], "constructors"))) {
        auto* constructor = arena_.New<ir::Constructor>();
        constructor->name = NameOf(node);
        constructor->span = span_;
        constructor->adt = adts[i];
        constructor->tag = static_cast<uint32_t>(adts[i]->constructors.size());
        constructor->fields = ReadTypes(graph_.Child(node, "inputs"));
        adts[i]->constructors.push_back(constructor);
        constructors_[node] = constructor;
      }
    }
  }

  void AddFunction(const std::string& name, NodeId node) {
    if (Key(node) != "relay.Function") return BadNode("a function", node);
    if (module_.FindFunction(name) != nullptr) {
      return Fail(DiagnosticKind::kDuplicateFunction, absl::StrCat("function `@", name, "` is defined twice"));
    }
    in_function_ = true;
    dims_.clear();
    dim_names_.clear();
    new_dims_.clear();
    shared_.clear();
    bound_.clear();
    parents_.clear();
    CountParents(node);
    ir::Function* function = ReadFunction(node);
    in_function_ = false;
    function->type_params.insert(function->type_params.end(), new_dims_.begin(), new_dims_.end());
    if (!failed_ && !shared_.empty() && !PlaceGraphBindings(*function, shared_, diagnostics_)) failed_ = true;
    module_.functions.push_back({name, function, span_});
  }

  // ---- expressions
  std::vector<NodeId> Parts(NodeId node) const {
    std::string_view key = Key(node);
    auto child = [&](std::string_view field) { return graph_.Child(node, field); };
    if (key == "relay.Function") return {child("body")};
    if (key == "relay.Call") {
      std::vector<NodeId> parts = graph_.Elements(child("args"));
      parts.push_back(child("op"));
      return parts;
    }
    if (key == "relay.Let") return {child("value"), child("body")};
    if (key == "relay.If") return {child("cond"), child("true_branch"), child("false_branch")};
    if (key == "relay.Tuple") return graph_.Elements(child("fields"));
    if (key == "relay.TupleGetItem") return {child("tuple_value")};
    if (key == "relay.RefCreate") return {child("value")};
    if (key == "relay.RefRead") return {child("ref")};
    if (key == "relay.RefWrite") return {child("ref"), child("value")};
    if (key != "relay.Match") return {};
    std::vector<NodeId> parts = {child("data")};
    for (NodeId clause : graph_.Elements(child("clauses"))) parts.push_back(graph_.Child(clause, "rhs"));
    return parts;
  }

  void CountParents(NodeId root) {
    std::vector<NodeId> open = {root};
    while (!open.empty()) {
      NodeId node = open.back();
      open.pop_back();
      for (NodeId part : Parts(node)) {
        if (++parents_[part] == 1) open.push_back(part);
      }
    }
  }

  bool IsShared(NodeId node) const {
    auto parents = parents_.find(node);
    return parents != parents_.end() && parents->second > 1 && !Parts(node).empty();
  }

  ir::Expr* Unit() { return arena_.New<ir::Tuple>(std::vector<ir::Expr*>{}, span_); }

  ir::Expr* ReadExpr(NodeId node) {
    if (failed_) return Unit();
    if (auto bound = bound_.find(node); bound != bound_.end()) {
      if (bound->second != nullptr) return arena_.New<ir::VarExpr>(bound->second, span_);
      return BadExpr("an expression that does not contain itself", node);
    }
    bool is_shared = IsShared(node);
    if (!Parts(node).empty()) bound_[node] = nullptr;  // being read
    ir::Expr* value = WithStack([&] { return ReadExprHere(node); });
    bound_.erase(node);
    if (!is_shared) return value;
    auto* var = arena_.New<ir::Var>(arena_.NextId(), absl::StrCat(next_graph_var_++), nullptr, span_);
    bound_[node] = var;
    shared_.push_back(var);
    return arena_.New<ir::Let>(var, value, arena_.New<ir::VarExpr>(var, span_), span_);
  }
  ir::Expr* ReadPart(NodeId node, std::string_view field) { return ReadExpr(graph_.Child(node, field)); }

  ir::Expr* ReadExprHere(NodeId node) {
    std::string_view key = Key(node);
    if (key == "relay.Call") return ReadCall(node);
    if (key == "relay.Var") return arena_.New<ir::VarExpr>(FindVar(node), span_);
    if (key == "relay.Constant") {
      absl::StatusOr<Literal> literal = graph_.ConstantTensor(node);
      if (literal.ok()) return arena_.New<ir::Constant>(*std::move(literal), span_);
      Fail(DiagnosticKind::kBadMetadataTensor,
           absl::StrCat("node ", node, ": ", std::string(literal.status().message())));
      return Unit();
    }
    if (key == "relay.Tuple") return arena_.New<ir::Tuple>(ReadExprs(graph_.Child(node, "fields")), span_);
    if (key == "relay.TupleGetItem") {
      uint32_t index = 0;
      const std::string* text = graph_.Field(node, "index");
      if (text == nullptr || !absl::SimpleAtoi(*text, &index)) BadNode("a projection with an index", node);
      return arena_.New<ir::Project>(ReadPart(node, "tuple_value"), index, span_);
    }
    if (key == "relay.Function") return ReadFunction(node);
    if (key == "relay.Let") return ReadLets(node);
    if (key == "relay.If") {
      ir::Expr* condition = ReadPart(node, "cond");
      ir::Expr* then_branch = ReadPart(node, "true_branch");
      return arena_.New<ir::If>(condition, then_branch, ReadPart(node, "false_branch"), span_);
    }
    if (key == "relay.Match") return ReadMatch(node);
    if (key == "GlobalVar") return arena_.New<ir::GlobalExpr>(NameOf(node), span_);
    if (key == "relay.Constructor") return arena_.New<ir::ConstructorExpr>(FindConstructor(node), span_);
    if (key == "Op") return ReadOp(node);
    if (key == "relay.RefCreate") return arena_.New<ir::RefCreate>(ReadPart(node, "value"), span_);
    if (key == "relay.RefRead") return arena_.New<ir::RefRead>(ReadPart(node, "ref"), span_);
    if (key == "relay.RefWrite") {
      ir::Expr* ref = ReadPart(node, "ref");
      return arena_.New<ir::RefWrite>(ref, ReadPart(node, "value"), span_);
    }
    return BadExpr("an expression", node);
  }

  std::vector<ir::Expr*> ReadExprs(NodeId array) {
    std::vector<ir::Expr*> exprs;
    for (NodeId node : graph_.Elements(array)) exprs.push_back(ReadExpr(node));
    return exprs;
  }

  ir::Expr* ReadOp(NodeId node) {
    std::string name = graph_.Text(node).value_or("");
    if (const ops::OpDef* op = ops::FindOp(name)) return arena_.New<ir::OpExpr>(op, span_);
    Fail(DiagnosticKind::kUnknownOperator,
         absl::StrCat("no operator is named `", name, "`", ops::DidYouMeanOperator(name)));
    return Unit();
  }

  ir::Expr* ReadCall(NodeId node) {
    ir::Expr* callee = ReadPart(node, "op");
    std::vector<ir::Expr*> args = ReadExprs(graph_.Child(node, "args"));
    ir::Attrs attrs;
    NodeId attrs_node = graph_.Child(node, "attrs");
    if (const auto* op = ir::DynCast<ir::OpExpr>(callee); op != nullptr && attrs_node != kNullNode) {
      absl::StatusOr<ir::Attrs> read = AttrsOfNode(graph_, attrs_node, *op->op, span_);
      if (read.ok()) {
        attrs = *std::move(read);
      } else {
        Fail(DiagnosticKind::kBadMetadata,
             absl::StrCat("attributes of `", Abseil(op->op->name), "`: ", std::string(read.status().message())));
      }
    }
    return arena_.New<ir::Call>(callee, std::move(args), std::move(attrs), span_);
  }

  // Returns a chain of lets, folded from its end.
  ir::Expr* ReadLets(NodeId node) {
    std::vector<std::pair<ir::Var*, ir::Expr*>> chain;
    for (NodeId first = node; Key(node) == "relay.Let" && (node == first || !IsShared(node)) && !failed_;
         node = graph_.Child(node, "body")) {
      if (static_cast<int64_t>(chain.size()) > kMaxTreeNodes) BadNode("a let that does not contain itself", node);
      ir::Var* var = BindVar(graph_.Child(node, "var"));
      chain.emplace_back(var, ReadPart(node, "value"));
    }
    ir::Expr* result = ReadExpr(node);
    for (size_t i = chain.size(); i-- > 0;) {
      result = arena_.New<ir::Let>(chain[i].first, chain[i].second, result, span_);
    }
    return result;
  }

  ir::Function* ReadFunction(NodeId node) {
    std::vector<const ir::TypeParam*> type_params = ReadTypeParams(graph_.Child(node, "type_params"));
    std::vector<ir::Var*> params;
    for (NodeId param : graph_.Elements(graph_.Child(node, "params"))) params.push_back(BindVar(param));
    const ir::Type* result = ReadAnnotation(graph_.Child(node, "ret_type"));
    auto* function =
        arena_.New<ir::Function>(std::move(type_params), std::move(params), result, ReadPart(node, "body"), span_);
    // Attributes of functions are annotations for other tools; those that Relay text cannot express are dropped.
    for (const auto& [name, value] : graph_.Entries(graph_.Child(graph_.Child(node, "attrs"), "__dict__"))) {
      absl::StatusOr<ir::AttrValue> read = AttrValueOfNode(graph_, value);
      if (read.ok()) function->attrs.Set(name, *std::move(read), span_);
    }
    return function;
  }

  ir::Expr* ReadMatch(NodeId node) {
    ir::Expr* value = ReadPart(node, "data");
    std::vector<ir::Clause> clauses;
    for (NodeId clause : graph_.Elements(graph_.Child(node, "clauses"))) {
      ir::Pattern* pattern = ReadPattern(graph_.Child(clause, "lhs"));
      clauses.push_back({pattern, ReadPart(clause, "rhs"), span_});
    }
    const std::string* complete = graph_.Field(node, "complete");
    return arena_.New<ir::Match>(value, std::move(clauses), complete != nullptr && *complete != "0", span_);
  }

  ir::Pattern* ReadPattern(NodeId node) {
    auto* pattern = arena_.New<ir::Pattern>();
    pattern->span = span_;
    if (!CountTreeNode()) return pattern;
    std::string_view key = Key(node);
    if (key == "relay.PatternVar") {
      pattern->kind = ir::PatternKind::kVar;
      pattern->var = BindVar(graph_.Child(node, "var"));
    } else if (key == "relay.PatternConstructor" || key == "relay.PatternTuple") {
      bool is_tuple = key == "relay.PatternTuple";
      pattern->kind = is_tuple ? ir::PatternKind::kTuple : ir::PatternKind::kConstructor;
      if (!is_tuple) pattern->constructor = FindConstructor(graph_.Child(node, "constructor"));
      for (NodeId field : graph_.Elements(graph_.Child(node, "patterns"))) {
        pattern->fields.push_back(WithStack([&] { return ReadPattern(field); }));
      }
    } else if (key != "relay.PatternWildcard") {
      BadNode("a pattern", node);
    }
    return pattern;
  }

  const ir::Constructor* FindConstructor(NodeId node) {
    if (auto found = constructors_.find(node); found != constructors_.end()) return found->second;
    if (const ir::Constructor* constructor = module_.FindConstructor(NameOf(node))) return constructor;
    Fail(DiagnosticKind::kUnknownConstructor, absl::StrCat("no constructor is named `", NameOf(node), "`"));
    static const ir::Constructor& none = *new ir::Constructor();
    return &none;
  }

  // ---- variables: one per `vid`
  ir::Var* NewVar(NodeId node) {
    if (Key(node) != "relay.Var") BadNode("a variable", node);
    return arena_.New<ir::Var>(arena_.NextId(), NameOf(graph_.Child(node, "vid")),
                               ReadAnnotation(graph_.Child(node, "type_annotation")), span_);
  }
  ir::Var* BindVar(NodeId node) { return vars_[graph_.Child(node, "vid")] = NewVar(node); }
  // A variable that is not bound is a weight.
  ir::Var* FindVar(NodeId node) {
    ir::Var*& var = vars_[graph_.Child(node, "vid")];
    if (var == nullptr) module_.free_vars.push_back(var = NewVar(node));
    return var;
  }

  const ObjectGraph& graph_;
  ir::Span span_;
  ir::Module& module_;
  ir::Arena& arena_;
  diagnostics::Diagnostics& diagnostics_;
  bool failed_ = false;
  int64_t tree_nodes_ = 0;
  absl::flat_hash_map<NodeId, ir::TypeParam*> type_params_;
  absl::flat_hash_map<NodeId, const ir::Constructor*> constructors_;
  absl::flat_hash_map<NodeId, ir::Var*> vars_;  // by their `vid`
  absl::flat_hash_map<NodeId, int> parents_;
  absl::flat_hash_map<NodeId, ir::Var*> bound_;  // shared expressions; null while being read
  int next_graph_var_ = 0;
  // State of the global function being read.
  bool in_function_ = false;
  absl::flat_hash_map<NodeId, ir::TypeParam*> dims_;
  absl::flat_hash_set<std::string> dim_names_;
  std::vector<const ir::TypeParam*> new_dims_;
  std::vector<ir::Var*> shared_;
};

}  // namespace

bool IsSavedModule(std::string_view text) {
  text = text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (!text.starts_with("{")) return false;
  text.remove_prefix(1);
  text = text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text.starts_with("\"") || text.starts_with("}");
}

bool ReadSavedModule(uint32_t source, ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  absl::StatusOr<ObjectGraph> graph = ObjectGraph::Parse(diagnostics.sources().text(source));
  if (graph.ok()) return Reader(*graph, source, module, diagnostics).Read();
  diagnostics.Error({source, 0, 0}, DiagnosticKind::kBadMetadata,
                    absl::StrCat("the saved module is not a graph of nodes: ", graph.status().message()));
  return false;
}

}  // namespace rvm::text
