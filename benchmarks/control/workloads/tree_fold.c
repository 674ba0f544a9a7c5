#include "control.h"

typedef struct Children {
  struct Tree *tree;
  struct Children *rest;
} Children;
typedef struct Tree {
  int64_t label;
  Children *children;
} Tree;
typedef struct {
  int64_t size, sum, height;
} Folded;

static Children *GrowChildren(int64_t count, int64_t depth, int64_t *seed);

static Tree *Grow(int64_t depth, int64_t *seed) {
  Tree *tree = New(sizeof *tree);
  tree->label = *seed = *seed * 16807 % 2147483647;
  tree->children = depth == 0 ? NULL : GrowChildren(1 + tree->label % 3, depth - 1, seed);
  return tree;
}

static Children *GrowChildren(int64_t count, int64_t depth, int64_t *seed) {
  if (count == 0) return NULL;
  Children *children = New(sizeof *children);
  children->tree = Grow(depth, seed);
  children->rest = GrowChildren(count - 1, depth, seed);
  return children;
}

static Folded Fold(const Tree *tree) {
  Folded all = {0, 0, 0};
  for (const Children *at = tree->children; at != NULL; at = at->rest) {
    Folded child = Fold(at->tree);
    all.size += child.size;
    all.sum += child.sum;
    if (child.height > all.height) all.height = child.height;
  }
  return (Folded){all.size + 1, (all.sum * 31 + tree->label) % 1000003, all.height + 1};
}

static void FreeTree(Tree *tree) {
  for (Children *at = tree->children; at != NULL;) {
    Children *rest = at->rest;
    FreeTree(at->tree);
    Free(at, sizeof *at);
    at = rest;
  }
  Free(tree, sizeof *tree);
}

Number Run(int64_t depth, const void *const *data) {
  (void)data;
  int64_t total = 0;
  for (int64_t k = 10; k > 0; --k) {
    int64_t seed = k;
    Tree *tree = Grow(depth, &seed);
    Folded folded = Fold(tree);
    total += folded.size * 7 + folded.sum + folded.height;
    FreeTree(tree);
  }
  return Int(total);
}
