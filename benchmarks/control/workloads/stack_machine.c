// The stack is a list, as in the other languages; its cells are changed in place.
#include "control.h"

typedef struct Cell {
  int64_t value;
  struct Cell *rest;
} Cell;
typedef enum { kPush, kDup, kSwap, kRot, kAdd, kSub, kMul, kMod, kWhile } Op;
typedef struct Code {
  Op op;
  int64_t operand;
  const struct Code *body, *rest;
} Code;

static Cell *Push(int64_t value, Cell *rest) {
  Cell *cell = New(sizeof *cell);
  *cell = (Cell){value, rest};
  return cell;
}

static Cell *Pop(Cell *cell, int64_t *value) {
  Cell *rest = cell->rest;
  *value = cell->value;
  Free(cell, sizeof *cell);
  return rest;
}

static Cell *Execute(const Code *code, Cell *stack) {
  for (; code != NULL; code = code->rest) {
    int64_t a;
    switch (code->op) {
      case kPush: stack = Push(code->operand, stack); break;
      case kDup: stack = Push(stack->value, stack); break;
      case kSwap:
        a = stack->value;
        stack->value = stack->rest->value;
        stack->rest->value = a;
        break;
      case kRot:
        a = stack->rest->rest->value;
        stack->rest->rest->value = stack->rest->value;
        stack->rest->value = stack->value;
        stack->value = a;
        break;
      case kAdd:
        stack = Pop(stack, &a);
        stack->value += a;
        break;
      case kSub:
        stack = Pop(stack, &a);
        stack->value -= a;
        break;
      case kMul:
        stack = Pop(stack, &a);
        stack->value *= a;
        break;
      case kMod:
        stack = Pop(stack, &a);
        stack->value %= a;
        break;
      case kWhile:
        while (stack->value != 0) stack = Execute(code->body, stack);
        break;
    }
  }
  return stack;
}

static void Link(Code *code, int length) {
  for (int i = 0; i + 1 < length; ++i) code[i].rest = &code[i + 1];
}

Number Run(int64_t n, const void *const *data) {
  (void)data;
  Code body[] = {{.op = kDup}, {.op = kDup}, {.op = kMul},  {.op = kPush, .operand = 1000}, {.op = kMod},
                 {.op = kRot}, {.op = kAdd}, {.op = kSwap}, {.op = kPush, .operand = 1},    {.op = kSub}};
  Code code[] = {{.op = kPush, .operand = 0}, {.op = kPush, .operand = n}, {.op = kWhile, .body = body}, {.op = kAdd}};
  Link(body, 10);
  Link(code, 4);
  int64_t sum;
  Pop(Execute(code, NULL), &sum);
  return Int(sum);
}
