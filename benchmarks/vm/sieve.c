// The filter is that of the Prelude, with a function that is called through a pointer; cells are changed in place.
#include "control.h"

typedef struct Cell {
  int64_t value;
  struct Cell *rest;
} Cell;

static Cell *Reverse(Cell *cells) {
  Cell *done = NULL;
  while (cells != NULL) {
    Cell *rest = cells->rest;
    cells->rest = done;
    done = cells;
    cells = rest;
  }
  return done;
}

static Cell *Filter(int (*keep)(int64_t, int64_t), int64_t captured, Cell *cells) {
  Cell *done = NULL;
  while (cells != NULL) {
    Cell *rest = cells->rest;
    if (keep(cells->value, captured)) {
      cells->rest = done;
      done = cells;
    } else {
      Free(cells, sizeof *cells);
    }
    cells = rest;
  }
  return Reverse(done);
}

static int IsNoMultiple(int64_t x, int64_t p) { return x % p != 0; }

Number Run(int64_t n, const void *const *data) {
  (void)data;
  Cell *cells = NULL;
  for (int64_t i = n; i >= 2; --i) {
    Cell *cell = New(sizeof *cell);
    *cell = (Cell){i, cells};
    cells = cell;
  }
  int64_t count = 0;
  while (cells != NULL) {
    Cell *rest = cells->rest;
    int64_t p = cells->value;
    Free(cells, sizeof *cells);
    cells = Filter(IsNoMultiple, p, rest);
    ++count;
  }
  return Int(count);
}
