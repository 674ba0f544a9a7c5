// Modules that the predecessor's `save_json` wrote: object graphs (object_graph.h) whose root is an `IRModule`, or a
// `relay.Function`, which becomes `@main`.
//
// An expression with several parents is evaluated once: it becomes a graph binding (graph_bindings.h).
#ifndef RVM_COMPILER_TEXT_SAVED_MODULE_H_
#define RVM_COMPILER_TEXT_SAVED_MODULE_H_

#include <cstdint>
#include <string_view>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::text {

// Returns whether `text` is JSON and no Relay text: it starts with the name of a member.
bool IsSavedModule(std::string_view text);

// Adds the definitions of `source` to `module`. False after an error was reported.
bool ReadSavedModule(uint32_t source, ir::Module& module, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_SAVED_MODULE_H_
