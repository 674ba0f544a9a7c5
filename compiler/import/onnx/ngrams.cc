// TfIdfVectorizer: how often n-grams of a pool occur in rows of integers.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {
namespace {

constexpr size_t kMaxLength = 64;
constexpr int64_t kMaxColumns = 1 << 20, kMaxSkips = 64;

struct Pool {
  std::vector<int64_t> items;   // of all n-grams, the shorter ones first
  std::vector<int64_t> counts;  // by length less 1: where in `items` those of that length begin
  std::vector<int64_t> columns;
  int64_t num_columns = 0;

  int64_t NumOf(size_t length) const {
    size_t end = length < counts.size() ? static_cast<size_t>(counts[length]) : items.size();
    return static_cast<int64_t>((end - static_cast<size_t>(counts[length - 1])) / length);
  }
};

std::optional<Pool> ReadPool(NodeContext& c) {
  if (c.HasAttr("pool_strings")) {
    c.Unsupported("strings, which Relay has not");
    return std::nullopt;
  }
  Pool pool{c.Ints("pool_int64s"), c.Ints("ngram_counts"), c.Ints("ngram_indexes"), 0};
  int64_t size = static_cast<int64_t>(pool.items.size()), before = 0, total = 0;
  bool is_right = !pool.counts.empty() && pool.counts.size() <= kMaxLength && pool.counts[0] == 0;
  for (size_t i = 0; i < pool.counts.size(); ++i) {
    is_right = is_right && pool.counts[i] >= before && pool.counts[i] <= size;
    before = pool.counts[i];
  }
  for (size_t length = 1; is_right && length <= pool.counts.size(); ++length) total += pool.NumOf(length);
  for (int64_t column : pool.columns) {
    is_right = is_right && column >= 0 && column < kMaxColumns;
    pool.num_columns = std::max(pool.num_columns, column + 1);
  }
  if (!is_right || total != static_cast<int64_t>(pool.columns.size())) {
    c.Fail("`ngram_counts` and `ngram_indexes` do not fit `pool_int64s`");
    return std::nullopt;
  }
  return pool;
}

// How often each n-gram of one length occurs in each row of x (rows, items), as (rows, n-grams) of int64, where
// `distance` lies between its items.
Operand Occurrences(NodeContext& c, Operand x, const Pool& pool, size_t length, int64_t distance) {
  int64_t count = pool.NumOf(length), begin = pool.counts[length - 1];
  Dim places = Max(c.ExtentOf(x, 1) - distance * (static_cast<int64_t>(length) - 1), 0);
  Operand all = nullptr;
  for (size_t i = 0; i < length; ++i) {
    std::vector<int64_t> wanted;
    for (int64_t n = 0; n < count; ++n) {
      wanted.push_back(pool.items[static_cast<size_t>(begin + n * static_cast<int64_t>(length)) + i]);
    }
    Dim at = static_cast<int64_t>(i) * distance;
    Operand items = c.Unsqueeze(c.SliceAxis(x, 1, at, at + places), {2});
    Operand same = c.Op("equal", {items, c.emit().Vector(wanted)});
    all = i == 0 ? same : c.Op("logical_and", {all, same});
  }
  return c.Op("sum", {c.Cast(all, kInt64)}, {{"axis", ir::AttrValue::List{int64_t{1}}}});
}

// Returns the distances between items that n-grams of a length are looked for at: single items only once.
std::vector<int64_t> Distances(NodeContext& c, size_t length) {
  std::vector<int64_t> distances(length == 1 ? 1 : static_cast<size_t>(c.Int("max_skip_count", 0)) + 1);
  std::iota(distances.begin(), distances.end(), 1);
  return distances;
}

// (rows, n-grams of the pool in their order); nullptr if there are none.
Operand Counts(NodeContext& c, Operand x, const Pool& pool) {
  Operands parts;
  for (size_t length = 1; length <= pool.counts.size(); ++length) {
    if (pool.NumOf(length) == 0) continue;
    int64_t n = static_cast<int64_t>(length);
    Operand counts = nullptr;
    if (n < c.Int("min_gram_length", 1) || n > c.Int("max_gram_length", 1)) {
      counts = c.BroadcastTo(c.Integer(0), {c.ExtentOf(x, 0), pool.NumOf(length)});
    } else {
      for (int64_t distance : Distances(c, length)) {
        Operand more = Occurrences(c, x, pool, length, distance);
        counts = counts == nullptr ? more : c.Add(counts, more);
      }
    }
    parts.push_back(counts);
  }
  if (parts.empty()) return c.Fail("its pool is empty");
  return parts.size() == 1 ? parts[0] : c.Op("concatenate", {c.emit().Tuple(parts)}, {{"axis", 1}});
}

Operands TfIdfVectorizer(NodeContext& c) {
  std::optional<Pool> pool = ReadPool(c);
  if (!pool) return {};
  int64_t skips = c.Int("max_skip_count", 0);
  if (skips < 0 || skips > kMaxSkips) return {c.Fail("`max_skip_count` is not from 0 to 64")};
  std::string mode = c.Text("mode", "TF");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return {c.Fail("`mode` is none of TF, IDF and TFIDF")};
  Operand x = c.Cast(c.In(0), kInt64);
  bool is_row = c.RankOf(x) == 1;
  if (is_row) x = c.Unsqueeze(x, {0});
  Operand counts = Counts(c, x, *pool);
  if (c.failed()) return {};
  Operand values = c.Cast(counts, kFloat32);
  if (mode != "TF") {
    std::vector<float> weights = c.Floats("weights");
    weights.resize(pool->columns.size(), 1);
    rvm::Shape shape = {static_cast<int64_t>(weights.size())};
    Operand factors = c.emit().Constant(Literal::FromValues<float>(kFloat32, shape, weights));
    if (mode == "IDF") values = c.Cast(c.Op("greater", {counts, c.Integer(0)}), kFloat32);
    values = c.Mul(values, factors);
  }
  // Each column of the result is an n-gram, or, behind them, nothing.
  std::vector<int64_t> sources(static_cast<size_t>(pool->num_columns), static_cast<int64_t>(pool->columns.size()));
  for (size_t i = 0; i < pool->columns.size(); ++i) {
    sources[static_cast<size_t>(pool->columns[i])] = static_cast<int64_t>(i);
  }
  Operand nothing = c.BroadcastTo(c.emit().Number(0, kFloat32), {c.ExtentOf(x, 0), 1});
  Operand y =
      c.Op("take", {c.Op("concatenate", {c.emit().Tuple({values, nothing})}, {{"axis", 1}}), c.emit().Vector(sources)},
           {{"axis", 1}});
  return {is_row ? c.Squeeze(y, {0}) : y};
}

constexpr OperatorRow kRows[] = {
    {"TfIdfVectorizer", TfIdfVectorizer},
};

}  // namespace

std::span<const OperatorRow> NgramsOperators() { return kRows; }

}  // namespace rvm::onnx::convert
