// Sites: the operator calls of a program whose constant weights can be quantised (annotate).
#ifndef RVM_COMPILER_QUANTIZE_SITES_H_
#define RVM_COMPILER_QUANTIZE_SITES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/literal.h"
#include "compiler/ir/module.h"

namespace rvm::quantize {

enum class SiteKind : uint8_t {
  kProduct,      // nn.dense and nn.matmul by a constant matrix
  kConvolution,  // nn.conv1d to nn.conv3d, and transposed ones
  kTable,        // rows of a constant matrix: take along axis 0, as embeddings are
};

// "product".
std::string KindName(SiteKind kind);

struct Site {
  const ir::Call* call;
  SiteKind kind;
  // In float32. A row for each output of a product, whatever the order of its operand; filters as the convolution has
  // them; the table.
  Literal weight;
  DataType stored;       // of the weight in the program: float32, or float16 or bfloat16, which a cast widens
  int64_t channel_axis;  // the axis of `weight` that has a scale for each index
  std::string function;  // "main"
  std::string name;      // that of the weight, or of the variable that holds the result; unique in the program
  bool is_grouped;       // a convolution whose filters read some of the channels

  int64_t stored_bytes() const { return weight.num_elements() * stored.bytes(); }
  const ir::Expr* data() const { return call->args[kind == SiteKind::kTable ? 1 : 0]; }
};

// Returns the sites of a specialised module, in the order of its text: in functions, closures, branches and clauses. A
// weight is a constant of float32, or one of float16 or bfloat16 that is cast to float32, or the transpose of such a
// matrix.
std::vector<Site> FindSites(const ir::Module& module);

}  // namespace rvm::quantize

#endif  // RVM_COMPILER_QUANTIZE_SITES_H_
