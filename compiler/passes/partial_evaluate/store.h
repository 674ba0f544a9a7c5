// Partial evaluation of references: values, and the store that simulates their contents.
#ifndef RVM_COMPILER_PASSES_PARTIAL_EVALUATE_STORE_H_
#define RVM_COMPILER_PASSES_PARTIAL_EVALUATE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"

namespace rvm::passes {

// Compile-time knowledge about a value. Its parts may be dynamic: known only when the program runs.
struct PartialValue {
  // A closure, a location, a tuple and data are made by residual code only where such code needs them: `slot` is where
  // the let that makes them goes, and `is_made` whether it is there.
  enum class Kind : uint8_t { kDynamic, kConstant, kTuple, kData, kClosure, kLocation };
  Kind kind = Kind::kDynamic;
  const ir::Type* type = nullptr;
  ir::Span span;
  ir::Var* var = nullptr;                            // what residual code calls it; null for kConstant
  const ir::Constant* constant = nullptr;            // kConstant
  const ir::ConstructorExpr* constructor = nullptr;  // kData
  std::vector<PartialValue*> fields;                 // kTuple, kData
  const ir::Function* literal = nullptr;             // kClosure
  const ir::Var* self = nullptr;                     // kClosure: what `literal` calls itself, or null
  std::vector<PartialValue*> captured;               // kClosure, once `has_captured`: what reaches locations
  bool has_captured = false;
  PartialValue* initial = nullptr;  // kLocation: what it is created with
  size_t birth = 0;                 // kLocation: locations are numbered
  ir::Binding* slot = nullptr;
  bool is_made = false;
  bool is_literal_used = false;  // kClosure: `literal` stands in residual code already
  // Whether a location can be reached from it: never from dynamic values, since what reaches residual code has escaped.
  bool reaches_locations = false;
  bool is_being_visited = false;
  size_t num_cells = 0;  // known constructor calls in it, with those of its fields
};

// The contents of locations, on the path that is being evaluated.
//
// A location is virtual until it escapes: the residual program has no reference for it, or one that still has its
// initial contents on this path. An escaped one is in memory, and residual code writes what is written to it; its
// contents are known until code that is not known runs.
class Store {
 public:
  struct Contents {
    PartialValue* value = nullptr;  // null: not known
    bool in_memory = false;
    uint64_t epoch = 0;  // of `value`, if in memory
  };
  using Changes = absl::flat_hash_map<PartialValue*, Contents>;

  Contents Get(PartialValue* location) const {
    auto found = contents_.find(location);
    if (found == contents_.end()) return {nullptr, true, 0};
    Contents result = found->second;
    if (result.in_memory && result.epoch != epoch_) result.value = nullptr;
    return result;
  }

  void Set(PartialValue* location, PartialValue* value, bool in_memory) {
    Contents& contents = contents_[location];
    log_.push_back({location, contents});
    contents = {value, in_memory, epoch_};
  }

  // Code that is not known runs: it may write to whatever has escaped.
  void ForgetEscaped() { epoch_ = ++num_epochs_; }

  // ---- paths: what happens after a Mark can be taken back, and repeated

  struct Mark {
    size_t log;
    uint64_t epoch;
  };
  Mark Now() const { return {log_.size(), epoch_}; }
  struct Path {
    Changes changes;
    uint64_t epoch = 0;
  };
  Path TakeBack(Mark mark) {
    Path path;
    path.epoch = epoch_;
    while (log_.size() > mark.log) {
      auto [location, before] = log_.back();
      path.changes.try_emplace(location, contents_[location]);
      contents_[location] = before;
      log_.pop_back();
    }
    epoch_ = mark.epoch;
    return path;
  }
  void Repeat(const Path& path) {
    for (const auto& [location, contents] : path.changes) {
      log_.push_back({location, contents_[location]});
      contents_[location] = contents;
    }
    epoch_ = path.epoch;
  }

 private:
  absl::flat_hash_map<PartialValue*, Contents> contents_;
  std::vector<std::pair<PartialValue*, Contents>> log_;
  uint64_t epoch_ = 0;
  uint64_t num_epochs_ = 0;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PARTIAL_EVALUATE_STORE_H_
