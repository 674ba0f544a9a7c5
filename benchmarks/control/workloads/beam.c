// Hypotheses share their tokens, which are counted; the beam is one list, changed in place.
#include "control.h"

typedef struct Tokens {
  int64_t refs, token;
  struct Tokens *rest;
} Tokens;
typedef struct Hypothesis {
  int64_t cost, last;
  Tokens *tokens;
  struct Hypothesis *next;
} Hypothesis;

static void Drop(Tokens *tokens) {
  while (tokens != NULL && --tokens->refs == 0) {
    Tokens *rest = tokens->rest;
    Free(tokens, sizeof *tokens);
    tokens = rest;
  }
}

static void FreeAll(Hypothesis *beam) {
  while (beam != NULL) {
    Hypothesis *next = beam->next;
    Drop(beam->tokens);
    Free(beam, sizeof *beam);
    beam = next;
  }
}

static void Insert(Hypothesis **at, int64_t cost, int64_t token, Tokens *tokens) {
  int64_t room = 4;
  while (room > 0 && *at != NULL && (*at)->cost <= cost) {
    at = &(*at)->next;
    --room;
  }
  if (room == 0) return;
  Tokens *longer = New(sizeof *longer);
  *longer = (Tokens){1, token, tokens};
  if (tokens != NULL) ++tokens->refs;
  Hypothesis *added = New(sizeof *added);
  *added = (Hypothesis){cost, token, longer, *at};
  *at = added;
  for (; room > 0 && *at != NULL; --room) at = &(*at)->next;
  FreeAll(*at);
  *at = NULL;
}

Number Run(int64_t n, const void *const *data) {
  (void)data;
  Hypothesis *beam = New(sizeof *beam);
  *beam = (Hypothesis){0, 0, NULL, NULL};
  for (int64_t step = 0; step < n; ++step) {
    Hypothesis *extended = NULL;
    for (Hypothesis *h = beam; h != NULL; h = h->next) {
      for (int64_t token = 0; token < 8; ++token) {
        Insert(&extended, h->cost + (h->last * 7919 + token * 104729 + step * 1299709) % 1009, token, h->tokens);
      }
    }
    FreeAll(beam);
    beam = extended;
  }
  int64_t sum = beam->cost;
  for (Tokens *at = beam->tokens; at != NULL; at = at->rest) sum = (sum * 31 + at->token) % 1000003;
  FreeAll(beam);
  return Int(sum);
}
