// Name resolution: the functions, types and constructors of the program and of the Prelude.
//
// There are two scopes. The program sees its own definitions first, then the Prelude's; the Prelude sees only its
// own. A definition of the Prelude whose name the program also defines is called `prelude.NAME` in the module, and
// the program can refer to it by that name. Constructors belong to their type: two types may have one of the same name.
#ifndef RVM_COMPILER_TEXT_NAMES_H_
#define RVM_COMPILER_TEXT_NAMES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/adt.h"

namespace rvm::text {

inline constexpr std::string_view kPreludePrefix = "prelude.";

class Names {
 public:
  struct Function {
    std::string name;  // in the module
    ir::Span span;
  };

  // `prefix`: that of the text's definitions in the module (ParseOptions::prefix).
  explicit Names(std::string prefix) : prefix_(std::move(prefix)) {}

  // Whether the text being read is the Prelude's.
  void set_in_prelude(bool in_prelude) { in_prelude_ = in_prelude; }
  // The types of the Prelude that the program mentions. Their constructors hide those of other Prelude types.
  void set_mentioned(absl::flat_hash_set<std::string> types) { mentioned_ = std::move(types); }

  // Returns the name in the module of the definition that the text being read calls `name`.
  std::string FunctionNameInModule(std::string_view name) const;
  std::string TypeNameInModule(std::string_view name) const;

  // Define `name` in the scope being read. Return the earlier definition of that name in the scope, or null.
  const Function* DefineFunction(std::string_view name, ir::Span span);
  const ir::AdtDef* DefineType(std::string_view name, ir::AdtDef* adt);
  // Define a name for what another file defines. Return the earlier definition of that name, or null.
  const Function* ImportFunction(std::string_view name, std::string_view name_in_module, ir::Span span);
  const ir::AdtDef* ImportType(std::string_view name, ir::AdtDef* adt);
  // Makes the Prelude's type `adt` the program's as well: the program defines it in the same way.
  const ir::AdtDef* UseTypeOfPrelude(std::string_view name, ir::AdtDef* adt);
  // Makes the program's definition of `name` the Prelude's as well.
  void ShareWithPrelude(std::string_view name);
  void DefineConstructor(ir::Constructor* constructor);

  // Null if there is none.
  const Function* FindFunction(std::string_view name) const;
  ir::AdtDef* FindType(std::string_view name) const;
  // Returns the constructors that the unqualified `name` may refer to; the use is ambiguous if there are several.
  std::vector<ir::Constructor*> FindConstructors(std::string_view name) const;

  // For suggestions.
  std::vector<std::string_view> Functions() const;
  std::vector<std::string_view> Types() const;
  std::vector<std::string_view> Constructors() const;

 private:
  struct Scope {
    absl::flat_hash_map<std::string, Function> functions;
    absl::flat_hash_map<std::string, ir::AdtDef*> types;
    absl::flat_hash_map<std::string, std::vector<ir::Constructor*>> constructors;
  };

  // Returns whether `name` begins with `prelude.`; removes that prefix.
  bool IsOfPrelude(std::string_view& name) const;

  std::string prefix_;
  Scope program_;
  Scope prelude_;
  absl::flat_hash_set<std::string> mentioned_;
  absl::flat_hash_set<const ir::AdtDef*> shared_;  // types of the program whose constructors the Prelude sees
  bool in_prelude_ = false;
};

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_NAMES_H_
