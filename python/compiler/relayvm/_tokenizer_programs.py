"""Texts of the programs that tokenizers become. Names in capitals are numbers and parts that _tokenizer.py puts in."""

# Characters, their classes and places.
CHARACTERS = '''
// Characters of UTF-8. Their values stand at their first bytes; @of_character gives each byte that of its character.
// The values %distance places further on; 0 outside.
def @beside(%values: Tensor[(n), int32], %distance: int32) -> Tensor[(n), int32] {
  let %places = arange(0i64, extent(%values, axis=0), 1i64) + cast(%distance, dtype="int64");
  let %is_inside = logical_and(%places >= 0i64, %places < extent(%values, axis=0));
  where(%is_inside, take(%values, %places), 0)
}
def @is_start(%bytes: Tensor[(n), int32]) -> Tensor[(n), bool] { bitwise_and(%bytes, 192) != 128 }
def @codes_at_starts(%a: Tensor[(n), int32]) -> Tensor[(n), int32] {
  let %b = bitwise_and(@beside(%a, 1), 63);
  let %c = bitwise_and(@beside(%a, 2), 63);
  let %d = bitwise_and(@beside(%a, 3), 63);
  let %two = bitwise_and(%a, 31) * 64 + %b;
  let %three = bitwise_and(%a, 15) * 4096 + %b * 64 + %c;
  let %four = bitwise_and(%a, 7) * 262144 + %b * 4096 + %c * 64 + %d;
  where(%a < 128, %a, where(%a < 224, %two, where(%a < 240, %three, minimum(%four, 1114111))))
}
def @of_character(%bytes: Tensor[(n), int32], %own: Tensor[(n), int32]) -> Tensor[(n), int32] {
  let %is_first = @is_start(%bytes);
  let %is_second = @is_start(@beside(%bytes, -1));
  let %is_third = @is_start(@beside(%bytes, -2));
  where(%is_first, %own, where(%is_second, @beside(%own, -1),
    where(%is_third, @beside(%own, -2), @beside(%own, -3))))
}
def @classes_of(%text: Tensor[(n), uint8]) -> Tensor[(n), int32] {
  let %bytes = cast(%text, dtype="int32");
  let %codes = @codes_at_starts(%bytes);
  let %own = take(%classes, take(%pages, right_shift(%codes, 8)) * 256 + bitwise_and(%codes, 255));
  @of_character(%bytes, cast(%own, dtype="int32"))
}

// Text and its classes, with what follows from them. Places are numbers of bytes.
def @byte_at(%text: Tensor[(n), uint8], %at: int32) -> int32 { cast(take(%text, %at), dtype="int32") }
def @length_of(%text: Tensor[(n), uint8]) -> int32 { cast(extent(%text, axis=0), dtype="int32") }
// The end of the run of one class from %at.
def @run_end(%classes: Tensor[(n), int32], %length: int32, %class: int32, %at: int32) -> int32 {
  if (%at >= %length) { %at } else {
    if (take(%classes, %at) == %class) { @run_end(%classes, %length, %class, %at + 1) } else { %at }
  }
}
// Before the character that ends at %at.
def @character_before(%text: Tensor[(n), uint8], %at: int32) -> int32 {
  if (bitwise_and(@byte_at(%text, %at - 1), 192) == 128) { @character_before(%text, %at - 1) } else { %at - 1 }
}
def @character_end(%text: Tensor[(n), uint8], %length: int32, %at: int32) -> int32 {
  if (%at + 1 >= %length) { %length } else {
    if (bitwise_and(@byte_at(%text, %at + 1), 192) == 128) { @character_end(%text, %length, %at + 1) } else { %at + 1 }
  }
}
'''

# A hash table whose keys are pairs of numbers.
PAIRS = '''
// Pairs of tokens, in a table with open addresses: the place of a pair, or -1.
def @place_of(%a: int32, %b: int32) -> int32 {
  let %mixed = cast(%a, dtype="uint32") * 2654435761u32 + cast(%b, dtype="uint32") * 2246822519u32;
  @probe(cast(%a, dtype="int64") * 4294967296i64 + cast(%b, dtype="int64"),
    cast(right_shift(%mixed, SHIFT), dtype="int32"))
}
def @probe(%key: int64, %at: int32) -> int32 {
  let %found = take(%pair_keys, %at);
  if (%found == %key) { %at } else { if (%found < 0i64) { -1 } else { @probe(%key, bitwise_and(%at + 1, MASK)) } }
}
'''

# States of a trie, kept in the same table.
TRIE = '''
// A trie of tokens: the pair of a state and a byte has the next state; a state has the token that ends there, or -1.
def @next_state(%state: int32, %byte: int32) -> int32 {
  let %place = @place_of(%state, %byte);
  if (%place < 0) { -1 } else { take(%pair_tokens, %place) }
}
def @token_at(%state: int32) -> int32 { take(%state_tokens, %state - ROOT) }
// The token that is the text from %at to %end, or -1.
def @token_of(%text: Tensor[(n), uint8], %at: int32, %end: int32, %state: int32) -> int32 {
  if (%state < 0) { -1 } else { if (%at >= %end) { @token_at(%state) } else {
    @token_of(%text, %at + 1, %end, @next_state(%state, @byte_at(%text, %at)))
  } }
}
'''

# Added tokens, which are found before all else.
ADDED = '''
// The longest added token from %at: its row, or -1. Longer ones come first.
def @added_at(%text: Tensor[(n), uint8], %length: int32, %at: int32, %row: int32) -> int32 {
  if (%row >= ADDED) { -1 } else {
    let %begin = take(%added_places, %row);
    let %size = take(%added_places, %row + 1) - %begin;
    if (%at + %size > %length) { @added_at(%text, %length, %at, %row + 1) } else {
      if (@is_equal(%text, %at, %begin, %size)) { %row } else { @added_at(%text, %length, %at, %row + 1) }
    }
  }
}
def @is_equal(%text: Tensor[(n), uint8], %at: int32, %begin: int32, %size: int32) -> bool {
  if (%size == 0) { True } else {
    if (take(%text, %at) == take(%added_bytes, %begin)) { @is_equal(%text, %at + 1, %begin + 1, %size - 1) } else { False }
  }
}
// The place of the next added token from %at.
def @next_added(%text: Tensor[(n), uint8], %length: int32, %at: int32) -> int32 {
  if (%at >= %length) { %length } else {
    if (take(%added_starts, @byte_at(%text, %at)) == 0) { @next_added(%text, %length, %at + 1) } else {
      if (@added_at(%text, %length, %at, 0) >= 0) { %at } else { @next_added(%text, %length, %at + 1) }
    }
  }
}
'''

# Text up to added tokens.
ENCODE = '''
def @encode_normal(%text: Tensor[(n), uint8], %is_first: bool, %done: List[int32]) -> List[int32] {
  @encode_text(NORMALIZED, IS_FIRST, %done)
}
// The tokens of text, turned round: those of the text up to each added token, then that.
def @encode_from(%text: Tensor[(n), uint8], %length: int32, %at: int32, %done: List[int32]) -> List[int32] {
  if (%at >= %length) { %done } else {
    let %end = @next_added(%text, %length, %at);
    let %more = @encode_normal(take(%text, arange(%at, %end, 1)), %at == 0, %done);
    if (%end >= %length) { %more } else {
      let %row = @added_at(%text, %length, %end, 0);
      let %size = take(%added_places, %row + 1) - take(%added_places, %row);
      @encode_from(%text, %length, %end + %size, Cons(take(%added_tokens, %row), %more))
    }
  }
}
def @vector_of(%tokens: List[int32], %done: Tensor[(?), int32]) -> Tensor[(?), int32] {
  match (%tokens) {
    Nil => %done,
    Cons(%token, %rest) => @vector_of(%rest, concatenate((%done, expand_dims(%token, axis=0)), axis=0)),
  }
}
def @encode(%text: Tensor[(n), uint8]) -> Tensor[(?), int32] {
  @vector_of(@rev(@encode_from(%text, @length_of(%text), 0, Nil)), zeros(shape=[0], dtype="int32"))
}
'''

# Tokens as text.
DECODE = '''
// The bytes of a token behind others; none for one that is unknown.
def @bytes_of_token(%token: int32) -> Tensor[(?), uint8] {
  let %known = if (%token < 0) { COUNT } else { minimum(%token, COUNT) };
  take(%token_bytes, arange(take(%token_places, %known), take(%token_places, %known + 1), 1))
}
def @decode_from(%tokens: Tensor[(n), int32], %at: int32, %done: Tensor[(?), uint8]) -> Tensor[(?), uint8] {
  if (cast(%at, dtype="int64") >= extent(%tokens, axis=0)) { %done } else {
    @decode_from(%tokens, %at + 1, concatenate((%done, @bytes_of_token(take(%tokens, %at))), axis=0))
  }
}
FIRST
def @main(%text: Tensor[(n), uint8]) -> Tensor[(?), int32] { @encode(%text) }
'''

# All tokens alike.
DECODE_PLAIN = '''
def @decode(%tokens: Tensor[(n), int32]) -> Tensor[(?), uint8] {
  @decode_from(%tokens, 0, zeros(shape=[0], dtype="uint8"))
}
'''

# Another text for the first token.
DECODE_FIRST = '''
// The first token differs from others: it has no blank before it.
def @first_token(%token: int32) -> Tensor[(?), uint8] {
  let %known = if (%token < 0) { COUNT } else { minimum(%token, COUNT) };
  take(%first_bytes, arange(take(%first_places, %known), take(%first_places, %known + 1), 1))
}
def @decode(%tokens: Tensor[(n), int32]) -> Tensor[(?), uint8] {
  if (extent(%tokens, axis=0) == 0i64) { zeros(shape=[0], dtype="uint8") } else {
    @decode_from(%tokens, 1, @first_token(take(%tokens, 0)))
  }
}
'''

# Byte-level BPE.
BPE = '''
// The end of the run of white space, with ends of lines, which may be the last character that is left out.
def @space_end(%classes: Tensor[(n), int32], %length: int32, %at: int32) -> int32 {
  if (%at >= %length) { %at } else {
    if (take(%classes, %at) >= 3) { @space_end(%classes, %length, %at + 1) } else { %at }
  }
}
// At most %most characters of the run of digits from %at.
def @digits_end(%text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32, %most: int32)
    -> int32 {
  if (%most == 0) { %at } else { if (%at >= %length) { %at } else {
    if (take(%classes, %at) == 2) {
      @digits_end(%text, %classes, %length, @character_end(%text, %length, %at), %most - 1)
    } else { %at }
  } }
}
// The end of the last end of a line in the white space from %at to %end; -1: there is none.
def @last_line_end(%classes: Tensor[(n), int32], %at: int32, %end: int32) -> int32 {
  if (%end <= %at) { -1 } else {
    if (take(%classes, %end - 1) == 4) { %end } else { @last_line_end(%classes, %at, %end - 1) }
  }
}
// How long the contraction from %at is: 's, 'll; 0: none.
def @contraction(%text: Tensor[(n), uint8], %length: int32, %at: int32) -> int32 {
  if (%at + 1 >= %length) { 0 } else { if (@byte_at(%text, %at) != 39) { 0 } else {
    let %a = @folded(@byte_at(%text, %at + 1));
    if (logical_or(logical_or(%a == 115, %a == 100), logical_or(%a == 109, %a == 116))) { 2 } else {
      if (%at + 2 >= %length) { 0 } else {
        let %b = @folded(@byte_at(%text, %at + 2));
        let %is_long = logical_or(logical_and(%a == 108, %b == 108),
          logical_and(%b == 101, logical_or(%a == 118, %a == 114)));
        if (%is_long) { 3 } else { 0 }
      }
    }
  } }
}
// The white space from %at to %end, up to the last character before another class.
def @space_piece(%text: Tensor[(n), uint8], %length: int32, %at: int32, %end: int32) -> int32 {
  if (%end == %length) { %end } else {
    let %before = @character_before(%text, %end);
    if (%before > %at) { %before } else { %end }
  }
}
PIECES

def @rank_of(%a: int32, %b: int32) -> int32 {
  let %place = @place_of(%a, %b);
  if (%place < 0) { 2147483647 } else { take(%pair_ranks, %place) }
}
// The lowest rank of neighbours.
def @lowest(%a: int32, %rest: List[int32], %best: int32) -> int32 {
  match (%rest) { Nil => %best, Cons(%b, %more) => @lowest(%b, %more, minimum(%best, @rank_of(%a, %b))) }
}
// Joins the neighbours of that rank, from the left; the result is turned round.
def @join(%a: int32, %rest: List[int32], %rank: int32, %done: List[int32]) -> List[int32] {
  match (%rest) {
    Nil => Cons(%a, %done),
    Cons(%b, %more) => if (@rank_of(%a, %b) == %rank) {
      @after_join(take(%pair_tokens, @place_of(%a, %b)), %more, %rank, %done)
    } else { @join(%b, %more, %rank, Cons(%a, %done)) },
  }
}
def @after_join(%token: int32, %rest: List[int32], %rank: int32, %done: List[int32]) -> List[int32] {
  match (%rest) { Nil => Cons(%token, %done), Cons(%b, %more) => @join(%b, %more, %rank, Cons(%token, %done)) }
}
def @merge(%word: List[int32]) -> List[int32] {
  match (%word) {
    Nil => Nil,
    Cons(%a, %rest) => {
      let %rank = @lowest(%a, %rest, 2147483647);
      if (%rank == 2147483647) { %word } else { @merge(@rev(@join(%a, %rest, %rank, Nil))) }
    },
  }
}
def @bytes_of(%text: Tensor[(n), uint8], %at: int32, %end: int32, %word: List[int32]) -> List[int32] {
  if (%end <= %at) { %word } else {
    @bytes_of(%text, %at, %end - 1, Cons(take(%byte_tokens, @byte_at(%text, %end - 1)), %word))
  }
}


def @encode_text(%text: Tensor[(n), uint8], %is_first: bool, %done: List[int32]) -> List[int32] {
  @encode_part(%text, @classes_of(%text), @length_of(%text), 0, %done)
}
def @encode_part(%text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32, %done: List[int32])
    -> List[int32] {
  if (%at >= %length) { %done } else {
    let %end = @piece_end(%text, %classes, %length, %at);
    @encode_part(%text, %classes, %length, %end, @rev_onto(@tokens_of_piece(%text, %at, %end), %done))
  }
}
'''

# Tokens of a piece, by merges alone.
BPE_MERGED = '''
def @tokens_of_piece(%text: Tensor[(n), uint8], %at: int32, %end: int32) -> List[int32] {
  @merge(@bytes_of(%text, %at, %end, Nil))
}
'''

# Tokens of a piece, which may be one (`ignore_merges`).
BPE_WHOLE = '''
// A piece that is a token needs no merges.
def @tokens_of_piece(%text: Tensor[(n), uint8], %at: int32, %end: int32) -> List[int32] {
  let %token = @token_of(%text, %at, %end, ROOT);
  if (%token < 0) { @merge(@bytes_of(%text, %at, %end, Nil)) } else { Cons(%token, Nil) }
}
'''

# Pieces of text by GPT-2's pattern.
GPT2_PIECES = '''
def @folded(%byte: int32) -> int32 { %byte }
// The end of the piece of text that begins at %at: a contraction, a run of one class, which a blank may begin, or white space
// up to the last character before another class.
def @piece_end(%text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32) -> int32 {
  let %size = @contraction(%text, %length, %at);
  if (%size > 0) { %at + %size } else {
    let %first = if (@byte_at(%text, %at) == 32) { %at + 1 } else { %at };
    let %class = if (%first < %length) { take(%classes, %first) } else { 3 };
    if (%class < 3) { @run_end(%classes, %length, %class, %first) } else {
      @space_piece(%text, %length, %at, @space_end(%classes, %length, %at))
    }
  }
}
'''

# Pieces of text by the pattern of Llama 3 or Qwen.
MODERN_PIECES = '''
def @folded(%byte: int32) -> int32 { if (logical_and(%byte >= 65, %byte <= 90)) { %byte + 32 } else { %byte } }
// The end of the piece of text that begins at %at: a contraction; letters, which any character but a digit or an end of a
// line may begin; DIGITS digits; other characters, which a blank may begin and ends of lines end; white space up to an end of
// a line; or white space up to the last character before another class.
def @piece_end(%text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32) -> int32 {
  let %size = @contraction(%text, %length, %at);
  if (%size > 0) { %at + %size } else {
    let %class = take(%classes, %at);
    let %next = @character_end(%text, %length, %at);
    let %second = if (%next < %length) { take(%classes, %next) } else { 3 };
    if (%class == 1) { @run_end(%classes, %length, 1, %at) } else {
      if (%class == 2) { @digits_end(%text, %classes, %length, %at, DIGITS) } else {
        if (logical_and(%second == 1, %class != 4)) { @run_end(%classes, %length, 1, %next) } else {
          @other_piece(%text, %classes, %length, %at, %class, %second)
        }
      }
    }
  }
}
def @other_piece(
    %text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32, %class: int32, %second: int32)
    -> int32 {
  if (logical_or(%class == 0, logical_and(@byte_at(%text, %at) == 32, %second == 0))) {
    let %first = if (%class == 0) { %at } else { %at + 1 };
    @run_end(%classes, %length, 4, @run_end(%classes, %length, 0, %first))
  } else {
    let %end = @space_end(%classes, %length, %at);
    let %line = @last_line_end(%classes, %at, %end);
    if (%line > 0) { %line } else { @space_piece(%text, %length, %at, %end) }
  }
}
'''

# WordPiece with BERT's words.
WORD_PIECE = '''
// Words: runs of characters between white space, and each sign of punctuation.
def @encode_text(%text: Tensor[(n), uint8], %is_first: bool, %done: List[int32]) -> List[int32] {
  @encode_words(%text, @classes_of(%text), @length_of(%text), 0, %done)
}
def @encode_words(%text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32, %done: List[int32])
    -> List[int32] {
  if (%at >= %length) { %done } else {
    let %class = take(%classes, %at);
    if (%class == SPACE) { @encode_words(%text, %classes, %length, %at + 1, %done) } else {
      let %end = if (%class == OTHER) { @run_end(%classes, %length, OTHER, %at) } else { @character_end(%text, %length, %at) };
      let %more = if (@is_long(%text, %at, %end, 0)) { Cons(UNKNOWN, %done) } else {
        @pieces_of(%text, %at, %end, ROOT, %done, %done)
      };
      @encode_words(%text, %classes, %length, %end, %more)
    }
  }
}
// Whether a word has more than MOST characters.
def @is_long(%text: Tensor[(n), uint8], %at: int32, %end: int32, %count: int32) -> bool {
  if (%count > MOST) { True } else { if (%at >= %end) { False } else {
    let %is_start = bitwise_and(@byte_at(%text, %at), 192) != 128;
    @is_long(%text, %at + 1, %end, if (%is_start) { %count + 1 } else { %count })
  } }
}
// The longest tokens from %at, each behind the last; the unknown one for a word that has a part without any. %state is
// that of the prefix of tokens inside a word.
def @pieces_of(
    %text: Tensor[(n), uint8], %at: int32, %end: int32, %state: int32, %done: List[int32], %before: List[int32])
    -> List[int32] {
  if (%at >= %end) { %done } else {
    let (%token, %next) = @longest(%text, %at, %end, %state, -1, %at);
    if (%token < 0) { Cons(UNKNOWN, %before) } else {
      @pieces_of(%text, %next, %end, INSIDE, Cons(%token, %done), %before)
    }
  }
}
// The longest token from %at, and its end.
def @longest(%text: Tensor[(n), uint8], %at: int32, %end: int32, %state: int32, %token: int32, %token_end: int32)
    -> (int32, int32) {
  if (%at >= %end) { (%token, %token_end) } else {
    let %next = @next_state(%state, @byte_at(%text, %at));
    if (%next < 0) { (%token, %token_end) } else {
      let %found = @token_at(%next);
      if (%found < 0) { @longest(%text, %at + 1, %end, %next, %token, %token_end) } else {
        @longest(%text, %at + 1, %end, %next, %found, %at + 1)
      }
    }
  }
}
'''

# Unigram: the likeliest tokens.
UNIGRAM = '''
// The tokens of a piece are those whose scores have the largest sum. %scores has the sum at each place, %starts where the
// token that ends there begins, or -1, and %ids that token.
def @encode_piece(%text: Tensor[(n), uint8], %done: List[int32]) -> List[int32] {
  let %count = cast(extent(%text, axis=0), dtype="int32");
  if (%count == 0) { %done } else {
    let %places = arange(0, %count + 1, 1);
    let %none = %places * 0 - 1;
    let (%starts, %ids) = @best_from(%text, %count, 0, cast(%places, dtype="float64") * 0.0f64, %none, %none);
    @rev_onto(@way_to(%text, %starts, %ids, %count, Nil), %done)
  }
}
def @best_from(
    %text: Tensor[(n), uint8], %length: int32, %at: int32, %scores: Tensor[(m), float64], %starts: Tensor[(m), int32],
    %ids: Tensor[(m), int32]) -> (Tensor[(m), int32], Tensor[(m), int32]) {
  if (%at >= %length) { (%starts, %ids) } else {
    let %next = @character_end(%text, %length, %at);
    let %score = take(%scores, %at);
    let (%is_known, %some_scores, %some_starts, %some_ids) =
      @tokens_from(%text, %length, %at, %at, %next, ROOT, %score, False, %scores, %starts, %ids);
    if (%is_known) { @best_from(%text, %length, %next, %some_scores, %some_starts, %some_ids) } else {
      let (%all_scores, %all_starts, %all_ids) =
        @offer(UNKNOWN, %at, %next, %score + UNKNOWN_SCORE, %some_scores, %some_starts, %some_ids);
      @best_from(%text, %length, %next, %all_scores, %all_starts, %all_ids)
    }
  }
}
// Offers each token from %start; whether one of them is the character that ends at %single.
def @tokens_from(
    %text: Tensor[(n), uint8], %length: int32, %start: int32, %at: int32, %single: int32, %state: int32, %score: float64,
    %is_known: bool, %scores: Tensor[(m), float64], %starts: Tensor[(m), int32], %ids: Tensor[(m), int32])
    -> (bool, Tensor[(m), float64], Tensor[(m), int32], Tensor[(m), int32]) {
  let %next = if (%at >= %length) { -1 } else { @next_state(%state, @byte_at(%text, %at)) };
  if (%next < 0) { (%is_known, %scores, %starts, %ids) } else {
    let %token = @token_at(%next);
    if (%token < 0) {
      @tokens_from(%text, %length, %start, %at + 1, %single, %next, %score, %is_known, %scores, %starts, %ids)
    } else {
      let (%new_scores, %new_starts, %new_ids) =
        @offer(%token, %start, %at + 1, %score + take(%token_scores, %token), %scores, %starts, %ids);
      @tokens_from(%text, %length, %start, %at + 1, %single, %next, %score, logical_or(%is_known, %at + 1 == %single),
        %new_scores, %new_starts, %new_ids)
    }
  }
}
def @offer(
    %token: int32, %start: int32, %end: int32, %score: float64, %scores: Tensor[(m), float64], %starts: Tensor[(m), int32],
    %ids: Tensor[(m), int32]) -> (Tensor[(m), float64], Tensor[(m), int32], Tensor[(m), int32]) {
  let %is_better = logical_or(take(%starts, %end) < 0, %score > take(%scores, %end));
  if (%is_better) {
    let %place = reshape(%end, newshape=[1, 1]);
    (scatter_nd(%scores, %place, expand_dims(%score, axis=0)), scatter_nd(%starts, %place, expand_dims(%start, axis=0)),
      scatter_nd(%ids, %place, expand_dims(%token, axis=0)))
  } else { (%scores, %starts, %ids) }
}
// The tokens up to %end, before %done.
def @way_to(%text: Tensor[(n), uint8], %starts: Tensor[(m), int32], %ids: Tensor[(m), int32], %end: int32, %done: List[int32])
    -> List[int32] {
  if (%end <= 0) { %done } else {
    let %start = take(%starts, %end);
    let %token = take(%ids, %end);
    @way_to(%text, %starts, %ids, %start, if (%token == UNKNOWN) { @unknown(%text, %start, %end, %done) } else {
      Cons(%token, %done)
    })
  }
}
'''

# Unknown text as one token.
UNKNOWN_FUSED = '''
// Neighbours that are unknown are one token.
def @unknown(%text: Tensor[(n), uint8], %start: int32, %end: int32, %done: List[int32]) -> List[int32] {
  match (%done) { Cons(%token, %rest) => if (%token == UNKNOWN) { %done } else { Cons(UNKNOWN, %done) }, Nil => Cons(UNKNOWN, Nil) }
}
'''

# Unknown text as tokens of bytes.
UNKNOWN_BYTES = '''
// Text that is unknown has a token for each byte.
def @unknown(%text: Tensor[(n), uint8], %start: int32, %end: int32, %done: List[int32]) -> List[int32] {
  if (%end <= %start) { %done } else {
    @unknown(%text, %start, %end - 1, Cons(take(%byte_tokens, @byte_at(%text, %end - 1)), %done))
  }
}
'''

# Marks before words, as SentencePiece has them.
MARKS = '''
// Words begin with a mark, which splits them.
def @is_mark(%text: Tensor[(n), uint8], %length: int32, %at: int32, %byte: int32) -> bool {
  if (%byte >= MARK_SIZE) { True } else { if (%at + %byte >= %length) { False } else {
    if (take(%text, %at + %byte) == take(%mark, %byte)) { @is_mark(%text, %length, %at, %byte + 1) } else { False }
  } }
}
def @next_mark(%text: Tensor[(n), uint8], %length: int32, %at: int32) -> int32 {
  if (%at >= %length) { %length } else {
    if (@is_mark(%text, %length, %at, 0)) { %at } else { @next_mark(%text, %length, %at + 1) }
  }
}
def @encode_word(%text: Tensor[(n), uint8], %is_first: bool, %done: List[int32]) -> List[int32] {
  let %length = @length_of(%text);
  if (%length == 0) { %done } else {
    if (logical_or(@is_mark(%text, %length, 0, 0), logical_not(HAS_MARK))) { @encode_marked(%text, %length, 0, %done) } else {
      @encode_marked(concatenate((%mark, %text), axis=0), %length + MARK_SIZE, 0, %done)
    }
  }
}
def @encode_marked(%text: Tensor[(n), uint8], %length: int32, %at: int32, %done: List[int32]) -> List[int32] {
  if (%at >= %length) { %done } else {
    let %end = NEXT_END;
    @encode_marked(%text, %length, %end, @encode_piece(take(%text, arange(%at, %end, 1)), %done))
  }
}
'''

# Words between white space.
WORDS = '''
def @encode_text(%text: Tensor[(n), uint8], %is_first: bool, %done: List[int32]) -> List[int32] {
  @encode_words(%text, @classes_of(%text), @length_of(%text), 0, %is_first, %done)
}
// Words are runs of characters between white space.
def @encode_words(
    %text: Tensor[(n), uint8], %classes: Tensor[(n), int32], %length: int32, %at: int32, %is_first: bool, %done: List[int32])
    -> List[int32] {
  if (%at >= %length) { %done } else {
    if (take(%classes, %at) == SPACE) { @encode_words(%text, %classes, %length, %at + 1, False, %done) } else {
      let %end = @run_end(%classes, %length, OTHER, %at);
      let %more = @encode_word(take(%text, arange(%at, %end, 1)), %is_first, %done);
      @encode_words(%text, %classes, %length, %end, False, %more)
    }
  }
}
'''

# Text that is split by marks alone.
NO_WORDS = '''
def @encode_text(%text: Tensor[(n), uint8], %is_first: bool, %done: List[int32]) -> List[int32] {
  @encode_word(%text, %is_first, %done)
}
'''

# Whether a normalizer leaves something of the first character of a text.
KEPT = '''
def @is_kept(%all: Tensor[(n), uint8]) -> bool {
  let %text = take(%all, arange(0, @character_end(%all, @length_of(%all), 0), 1));
  extent(NORMALIZED, axis=0) > 0i64
}
'''

# Steps of a normalizer.
REPLACED = '''
// Text with other bytes for characters: the row of a character is 0 if it stays, else its place in %places is where its
// bytes in %others begin.
def @replaced(
    %text: Tensor[(n), uint8], %rows: Tensor[(n), int32], %places: Tensor[(p), int32], %others: Tensor[(q), uint8])
    -> Tensor[(?), uint8] {
  let %is_first = @is_start(cast(%text, dtype="int32"));
  let %sizes = where(%rows == 0, 1, where(%is_first, take(%places, %rows + 1) - take(%places, %rows), 0));
  let %ends = cumsum(%sizes, axis=0);
  let %to = arange(0, sum(%sizes), 1);
  let %from = searchsorted(%ends, %to, right=True);
  let %row = take(%rows, %from);
  let %other = take(%places, %row) + %to - (take(%ends, %from) - take(%sizes, %from));
  where(%row == 0, take(%text, %from), take(%others, %other))
}
'''

# A step that maps each character by itself.
CHARACTER_MAP = '''
def @STEP(%text: Tensor[(n), uint8]) -> Tensor[(?), uint8] {
  let %bytes = cast(%text, dtype="int32");
  let %codes = @codes_at_starts(%bytes);
  let %own = take(%STEP_rows, take(%STEP_pages, right_shift(%codes, 8)) * 256 + bitwise_and(%codes, 255));
  @replaced(%text, @of_character(%bytes, %own), %STEP_places, %STEP_bytes)
}
'''

# A step that maps graphemes of a few characters, and else each character by itself.
CHARSMAP = '''
// Characters with their rows at one place each, and one more behind them.
def @STEP(%text: Tensor[(n), uint8]) -> Tensor[(?), uint8] {
  let %bytes = cast(%text, dtype="int32");
  let %codes = @codes_at_starts(%bytes);
  let %counts = cumsum(cast(@is_start(%bytes), dtype="int32"), axis=0);
  let %count = sum(cast(@is_start(%bytes), dtype="int32"));
  let %starts = searchsorted(%counts, arange(1, %count + 2, 1));
  let %rows = @STEP_rows_of(take(%codes, %starts), %starts, %count);
  @replaced(%text, take(%rows, maximum(%counts - 1, 0)), %STEP_places, %STEP_bytes)
}
// The rows of characters. Those that follow in a grapheme of less than 6 bytes have none if its first character, or its
// first two or three, have one.
def @STEP_rows_of(%codes: Tensor[(m), int32], %starts: Tensor[(m), int32], %count: int32) -> Tensor[(m), int32] {
  let %page = bitwise_and(%codes, 255);
  let %own = take(%STEP_rows, take(%STEP_pages, right_shift(%codes, 8)) * 256 + %page);
  let %kind = cast(take(%STEP_kinds, take(%STEP_kind_pages, right_shift(%codes, 8)) * 256 + %page), dtype="int32");
  let %last = @beside(%kind, -1);
  let %is_mark = logical_and(%kind == MARK, %last < CONTROL);
  let %is_behind_prefix = logical_and(%last == PREFIX, %kind < CONTROL);
  let %is_line_end = logical_and(%last == RETURN, %kind == NEW_LINE);
  let %place = arange(0, %count + 1, 1);
  let %is_inside = logical_and(%place > 0, %place < %count);
  let %joins = cast(logical_and(%is_inside, logical_or(logical_or(%is_mark, %is_behind_prefix), %is_line_end)), dtype="int32");
  let %next = @beside(%joins, 1);
  let %second = @beside(%joins, 2);
  let %third = @beside(%joins, 3);
  let %followers = where(logical_or(%joins == 1, %next == 0), 0, where(%second == 0, 1, where(%third == 0, 2, 3)));
  let %end = where(%followers == 1, @beside(%starts, 2), @beside(%starts, 3));
  let %is_short = logical_and(logical_and(%followers > 0, %followers < 3), %end - %starts < 6);
  let %first_key = left_shift(cast(%codes, dtype="int64"), 42i64);
  let %pair_key = %first_key + left_shift(cast(@beside(%codes, 1), dtype="int64"), 21i64);
  let %pair = @STEP_joined(%pair_key);
  let %triple = @STEP_joined(%pair_key + cast(@beside(%codes, 2), dtype="int64"));
  let %whole = where(%own > 0, %own, where(%pair > 0, %pair, where(%followers == 2, %triple, 0)));
  let %is_whole = cast(logical_and(%is_short, %whole > 0), dtype="int32");
  let %is_gone = logical_or(logical_and(%joins == 1, @beside(%is_whole, -1) == 1),
    logical_and(logical_and(%joins == 1, @beside(%joins, -1) == 1), @beside(%is_whole, -2) == 1));
  where(%is_whole == 1, %whole, where(%is_gone, GONE, %own))
}
def @STEP_joined(%key: Tensor[(m), int64]) -> Tensor[(m), int32] {
  let %found = searchsorted(%STEP_keys, %key);
  where(take(%STEP_keys, %found) == %key, take(%STEP_key_rows, %found), 0)
}
'''

# A step that makes each run of two blanks or more one text.
BLANKS = '''
def @STEP(%text: Tensor[(n), uint8]) -> Tensor[(?), uint8] {
  let %bytes = cast(%text, dtype="int32");
  let %is_behind = @beside(%bytes, -1) == 32;
  let %is_run = logical_and(%bytes == 32, logical_or(%is_behind, @beside(%bytes, 1) == 32));
  @replaced(%text, where(%is_run, where(%is_behind, 2, 1), 0), %STEP_places, %STEP_bytes)
}
'''

# A step without white space at the ends of the text.
STRIP = '''
def @STEP(%text: Tensor[(n), uint8]) -> Tensor[(?), uint8] {
  let %class = @classes_of(%text);
  let %place = arange(0, @length_of(%text), 1);
  let %is_space = logical_or(%class == SPACE, %class == LINE_END);
  let %ends = concatenate((reshape(FIRST_END, newshape=[1]), where(%is_space, 0, %place + 1)), axis=0);
  let %starts = concatenate((reshape(FIRST_START, newshape=[1]), where(%is_space, @length_of(%text), %place)), axis=0);
  take(%text, arange(min(%starts), max(%ends), 1))
}
'''

# A step that orders marks, and composes characters if the form does.
FORM = '''
def @STEP(%text: Tensor[(n), uint8]) -> Tensor[(?), uint8] {
  let %bytes = cast(%text, dtype="int32");
  let %codes = @codes_at_starts(%bytes);
  let %kinds = take(%STEP_kinds, take(%STEP_kind_pages, right_shift(%codes, 8)) * 256 + bitwise_and(%codes, 255));
  let %changes = where(@is_start(%bytes), cast(%kinds, dtype="int32"), 0);
  if (sum(%changes) == 0) { take(%text, arange(0, @length_of(%text), 1)) } else {
    let %parts = @STEP_parts(%text);
    @STEP_bytes(@STEP_composed(@rev(@STEP_ordered(%parts, @codes_at_starts(cast(%parts, dtype="int32")), @length_of(%parts), 0, Nil)),
      -1, 0, Nil, Nil), zeros(shape=[0], dtype="uint8"))
  }
}
def @STEP_class(%code: int32) -> int32 {
  cast(take(%STEP_orders, take(%STEP_order_pages, right_shift(%code, 8)) * 256 + bitwise_and(%code, 255)), dtype="int32")
}
// Characters, turned round, with marks in the order of their classes.
def @STEP_ordered(
    %text: Tensor[(n), uint8], %codes: Tensor[(n), int32], %length: int32, %at: int32, %done: List[int32]) -> List[int32] {
  if (%at >= %length) { %done } else {
    let %code = take(%codes, %at);
    let %class = @STEP_class(%code);
    let %more = if (%class == 0) { Cons(%code, %done) } else { @STEP_inserted(%code, %class, %done, Nil) };
    @STEP_ordered(%text, %codes, %length, @character_end(%text, %length, %at), %more)
  }
}
// Puts a mark before those of higher classes, which %higher has.
def @STEP_inserted(%code: int32, %class: int32, %done: List[int32], %higher: List[int32]) -> List[int32] {
  match (%done) {
    Nil => @rev_onto(%higher, Cons(%code, Nil)),
    Cons(%last, %rest) => if (@STEP_class(%last) > %class) { @STEP_inserted(%code, %class, %rest, Cons(%last, %higher)) } else {
      @rev_onto(%higher, Cons(%code, %done))
    },
  }
}
// Characters, turned round: each joins the last one of class 0 if both have a character together and nothing between blocks it.
// %marks are those behind %base, the last of which has the class %last.
def @STEP_composed(%codes: List[int32], %base: int32, %last: int32, %marks: List[int32], %done: List[int32]) -> List[int32] {
  match (%codes) {
    Nil => @STEP_flushed(%base, %marks, %done),
    Cons(%code, %rest) => {
      let %class = @STEP_class(%code);
      let %is_free = match (%marks) { Nil => True, Cons(%mark, %others) => %last < %class };
      let %place = if (logical_and(%is_free, %base >= 0)) { @place_of(COMPOSED + %base, %code) } else { -1 };
      if (%place >= 0) { @STEP_composed(%rest, take(%pair_tokens, %place), %last, %marks, %done) } else {
        if (%class == 0) { @STEP_composed(%rest, %code, 0, Nil, @STEP_flushed(%base, %marks, %done)) } else {
          @STEP_composed(%rest, %base, %class, Cons(%code, %marks), %done)
        }
      }
    },
  }
}
def @STEP_flushed(%base: int32, %marks: List[int32], %done: List[int32]) -> List[int32] {
  @concat(%marks, if (%base < 0) { %done } else { Cons(%base, %done) })
}
// The bytes of characters that are turned round.
def @STEP_bytes(%codes: List[int32], %none: Tensor[(?), uint8]) -> Tensor[(?), uint8] { @STEP_encoded(@rev(%codes), %none) }
def @STEP_encoded(%codes: List[int32], %done: Tensor[(?), uint8]) -> Tensor[(?), uint8] {
  match (%codes) {
    Nil => %done,
    Cons(%code, %rest) => {
      let %end = bitwise_and(%code, 63) + 128;
      let %third = bitwise_and(right_shift(%code, 6), 63) + 128;
      let %second = bitwise_and(right_shift(%code, 12), 63) + 128;
      if (%code < 128) { @STEP_encoded(%rest, concatenate((%done, @byte_tensor(%code)), axis=0)) } else {
        let %first = if (%code < 2048) { right_shift(%code, 6) + 192 } else {
          if (%code < 65536) { right_shift(%code, 12) + 224 } else { right_shift(%code, 18) + 240 }
        };
        let %one = concatenate((%done, @byte_tensor(%first)), axis=0);
        let %two = if (%code < 65536) { %one } else { concatenate((%one, @byte_tensor(%second)), axis=0) };
        let %three = if (%code < 2048) { %two } else { concatenate((%two, @byte_tensor(%third)), axis=0) };
        @STEP_encoded(%rest, concatenate((%three, @byte_tensor(%end)), axis=0))
      }
    },
  }
}
'''

BYTES = '''
def @byte_tensor(%byte: int32) -> Tensor[(1), uint8] { cast(expand_dims(%byte, axis=0), dtype="uint8") }
'''

# Programs of steps of normalizers, by their classes in _characters.py.
STEPS = {"Blanks": BLANKS, "CharsMap": CHARSMAP, "Form": FORM, "Strip": STRIP}
