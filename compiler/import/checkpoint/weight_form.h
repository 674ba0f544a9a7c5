// The form in which a program has a stored tensor: constants, and the Relay expression of its elements in float32.
// Blocks of quantised elements become tensors of codes and of scales, of about the same size.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_WEIGHT_FORM_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_WEIGHT_FORM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/literal.h"
#include "compiler/import/checkpoint/stored_tensor.h"

namespace rvm::checkpoint {

struct WeightPart {
  std::string suffix;  // of the name of the constant: "", or "_codes"
  Literal value;
};

// Returns the names of all supported types, for messages.
std::string SupportedTypes();
bool IsSupportedType(std::string_view type);

// Returns the constants of a tensor. REQUIRES: the type is supported, and that of a tensor of blocks has one axis or
// more.
std::vector<WeightPart> PartsOf(const StoredTensor& tensor);

// Returns the elements as an expression. `part` gives the expression of a part, by its suffix: the whole constant or
// some rows of it. `rank` is the number of its axes.
std::string ElementsOf(std::string_view type, size_t rank,
                       const std::function<std::string(std::string_view suffix)>& part);

// Returns the elements of a row that share a scale where it is rounded for weights of the type; 0: it is not.
int64_t RoundedBlock(std::string_view type);

// Returns a function of rows of `size` elements, which rounds each block of them to -127 ... 127 steps of the size that
// its greatest element asks for. Source: llama.cpp, where such rows are of the type Q8_0.
std::string RoundedRows(std::string_view function, int64_t size, int64_t block);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_WEIGHT_FORM_H_
