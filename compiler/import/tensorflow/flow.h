// Flow: the loops and branches of a graph, which TensorFlow's first generation writes as nodes.
//
// A loop has for each tensor of its state a Merge of what enters and of what the last step gave (NextIteration), and a
// Switch, which gives it to the body, or to an Exit; all Switches of a loop share a LoopCond. Names are not looked at:
// optimisers change them. A branch is a Merge of two tensors of which a Switch in front lets only one through.
#ifndef RVM_COMPILER_IMPORT_TENSORFLOW_FLOW_H_
#define RVM_COMPILER_IMPORT_TENSORFLOW_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/import/tensorflow/model.h"

namespace rvm::tensorflow {

struct Loop {
  struct State {
    int32_t merge;
    Source first, next;  // before the loop, and what a step gives
    std::vector<int32_t> switches, exits;
    bool is_unchanged = false;  // a step gives what it gets
  };
  Source condition;
  std::vector<State> state;
  std::vector<int32_t> constants;  // Enter nodes of tensors that the loop only reads
};

struct Choice {
  Source condition;
  size_t inputs[2];           // numbers of the Merge's inputs: where the condition does not hold, and where it does
  std::vector<Source> outer;  // tensors that branches take from outside
};

class Flow {
 public:
  // `graph` must outlive it.
  explicit Flow(const Graph& graph);

  // Returns the loop that an Exit belongs to; null if it is malformed.
  const Loop* LoopOf(int32_t exit) const;
  // Returns the branches that a Merge joins; null if it is malformed.
  const Choice* ChoiceOf(int32_t merge) const;
  // Returns the tensors of the same graph, outside of the loop or the branch that the node ends, that it depends on.
  std::vector<Source> Dependencies(int32_t node) const;

 private:
  // A condition, and whether it holds. A node runs where all of its guards are so.
  using Guard = std::pair<int64_t, bool>;
  using Guards = std::vector<Guard>;

  const Node& node(int32_t number) const { return graph_.nodes[static_cast<size_t>(number)]; }
  Source Origin(Source source) const;
  bool IsLoopMerge(int32_t number) const;
  std::optional<int32_t> LoopConditionOf(const Source& source) const;
  void FindLoop(int32_t condition);
  bool FindSwitches(int32_t condition, Loop& loop);
  bool FindBody(int32_t condition, Loop& loop);
  const Loop* InnerLoop(int32_t exit, int32_t condition);
  bool AddState(Loop& loop, int32_t merge);
  std::vector<int32_t> OrderForGuards() const;
  void FindGuards();
  int64_t NumberOf(const Source& source);
  Guards GuardsOf(const Source& source);
  void FindChoice(int32_t merge);
  void FindOuter(Choice& choice, int32_t merge);

  const Graph& graph_;
  std::vector<Guards> guards_;                    // of nodes
  absl::flat_hash_map<int32_t, Loop> loops_;      // by LoopCond
  absl::flat_hash_map<int32_t, int32_t> exits_;   // LoopCond nodes, by Exits
  absl::flat_hash_map<int32_t, Choice> choices_;  // by Merge
  std::vector<Source> tensors_;                   // by their numbers
  absl::flat_hash_map<std::tuple<int32_t, int32_t, std::string_view, int32_t>, int64_t> numbers_;
};

}  // namespace rvm::tensorflow

#endif  // RVM_COMPILER_IMPORT_TENSORFLOW_FLOW_H_
