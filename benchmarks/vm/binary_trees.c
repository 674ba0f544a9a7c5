// A leaf is NULL. Trees are freed while they are counted, as in Relay.
#include "control.h"

typedef struct Branch {
  struct Branch *left, *right;
} Branch;

static Branch *Make(int64_t depth) {
  if (depth == 0) return NULL;
  Branch *branch = New(sizeof *branch);
  branch->left = Make(depth - 1);
  branch->right = Make(depth - 1);
  return branch;
}

static int64_t Nodes(Branch *tree) {
  if (tree == NULL) return 1;
  Branch *left = tree->left, *right = tree->right;
  Free(tree, sizeof *tree);
  return Nodes(left) + Nodes(right) + 1;
}

Number Run(int64_t depth, const void *const *data) {
  (void)data;
  int64_t sum = 0;
  for (int k = 0; k < 10; ++k) sum += Nodes(Make(depth));
  return Int(sum);
}
