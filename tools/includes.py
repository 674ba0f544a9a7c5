#!/usr/bin/env python3
"""Include what is used: a source that names something of the standard library or of Abseil includes its header.

    tools/includes.py          adds the includes that are missing
    tools/includes.py --check  lists them, one line each, and fails if there is one

What a header of the same name brings (`foo.h` for `foo.cc` and `foo_test.cc`) need not be included again. Headers of
the project itself are checked by the compiler's layering check.
"""

import re
import subprocess
import sys

# Header: the names that it stands for, without their namespace.
STANDARD = {
    "algorithm": "adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal equal_range "
                 "fill fill_n find find_if find_if_not for_each generate is_permutation is_sorted lexicographical_compare "
                 "lower_bound max max_element min min_element minmax mismatch none_of nth_element partial_sort "
                 "partition remove_if replace reverse rotate search sort stable_sort transform unique upper_bound",
    "array": "array to_array",
    "atomic": "atomic memory_order_acquire memory_order_relaxed memory_order_release",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit popcount",
    "bitset": "bitset",
    "cctype": "isalnum isalpha isdigit isspace isupper isxdigit tolower toupper",
    "cerrno": "",
    "charconv": "chars_format from_chars to_chars",
    "chrono": "chrono",
    "cmath": "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf exp exp2 expm1 fabs floor fma fmod "
             "isfinite isinf isnan ldexp llround log log10 log1p log2 lround nan nearbyint pow rint round signbit sin "
             "sinh sqrt tan tanh trunc",
    "compare": "strong_ordering",
    "condition_variable": "condition_variable",
    "cstddef": "byte max_align_t nullptr_t ptrdiff_t",
    "cstdio": "fclose fflush fopen fprintf fputs fread fwrite printf rename snprintf",
    "cstdlib": "abort aligned_alloc atexit free getenv malloc realloc strtod strtoll strtoull",
    "cstring": "memchr memcmp memcpy memmove memset strcmp strerror strlen",
    "deque": "deque",
    "filesystem": "filesystem",
    "fstream": "fstream ifstream ofstream",
    "functional": "function greater hash invoke less not_equal_to reference_wrapper",
    "initializer_list": "initializer_list",
    "iostream": "cerr cin cout",
    "iterator": "back_inserter istreambuf_iterator make_move_iterator reverse_iterator",
    "latch": "latch",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "enable_shared_from_this make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "call_once lock_guard mutex once_flag scoped_lock unique_lock",
    "numeric": "accumulate iota partial_sum reduce",
    "optional": "nullopt optional",
    "random": "mt19937 mt19937_64 normal_distribution uniform_int_distribution uniform_real_distribution",
    "set": "multiset set",
    "span": "as_bytes as_writable_bytes span",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "runtime_error",
    "string": "getline stod stoi stoll string to_string",
    "string_view": "string_view",
    "system_error": "errc error_code",
    "thread": "this_thread thread",
    "tuple": "make_tuple tie tuple",
    "type_traits": "conditional_t decay_t enable_if_t invoke_result_t is_base_of_v is_class_v is_floating_point_v "
                   "is_integral_v is_nothrow_invocable_v is_same_v is_signed_v is_trivially_destructible_v is_void_v "
                   "make_unsigned_t remove_const_t remove_reference_t",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "exchange forward in_place make_pair move pair swap",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
ABSEIL = {
    "container/flat_hash_map": "flat_hash_map",
    "container/flat_hash_set": "flat_hash_set",
    "container/inlined_vector": "InlinedVector",
    "container/node_hash_map": "node_hash_map",
    "functional/function_ref": "FunctionRef",
    "hash/hash": "HashOf",
    "numeric/bits": "bit_width countl_zero",
    "status/status": "AbortedError AlreadyExistsError CancelledError DeadlineExceededError ErrnoToStatus "
                     "FailedPreconditionError InternalError InvalidArgumentError IsNotFound IsUnimplemented NotFoundError "
                     "OkStatus OutOfRangeError ResourceExhaustedError Status StatusCode StatusCodeToString "
                     "UnavailableError UnimplementedError",
    "status/statusor": "StatusOr",
    "strings/ascii": "ascii_isalnum ascii_isalpha ascii_isdigit ascii_isspace ascii_isupper ascii_tolower AsciiStrToLower",
    "strings/cord": "Cord",
    "strings/match": "EndsWith StartsWith StrContains",
    "strings/numbers": "SimpleAtod SimpleAtoi",
    "strings/str_cat": "Hex StrAppend StrCat kZeroPad2 kZeroPad4",
    "strings/str_format": "StrAppendFormat StrFormat",
    "strings/str_join": "StrJoin",
    "strings/str_replace": "StrReplaceAll",
    "strings/str_split": "MaxSplits SkipEmpty StrSplit",
    "strings/string_view": "string_view",
    "strings/strip": "ConsumePrefix ConsumeSuffix StripPrefix StripSuffix",
}
FIXED_WIDTH = re.compile(r"\bu?int(8|16|32|64|ptr)_t\b|\bU?INT(8|16|32|64)_(MAX|MIN)\b")
# A library whose headers are all there is to include may bring others.
BRINGS = {"iostream": {"ostream", "istream"}, "map": {"utility"}, "unordered_map": {"utility"}}


def header_of():
    table = {}
    for header, names in STANDARD.items():
        table.update({f"std::{name}": f"<{header}>" for name in names.split()})
    for header, names in ABSEIL.items():
        table.update({f"absl::{name}": f'"absl/{header}.h"' for name in names.split()})
    return table


HEADER_OF = header_of()


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def included(text):
    return set(re.findall(r"^#include (<[^>]+>|\"[^\"]+\")", text, re.MULTILINE))


def missing(path, text):
    code = re.sub(r'//[^\n]*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', lambda m: '""' if m[0][0] != "/" else "", text,
                  flags=re.DOTALL)
    has = included(text)
    if path.endswith(".cc"):
        has |= included(read(re.sub(r"(_test)?\.cc$", ".h", path)))
    needed = {HEADER_OF[name] for name in re.findall(r"\b(?:std|absl)::\w+", code) if name in HEADER_OF}
    if FIXED_WIDTH.search(code) and not has & {"<cstdint>", "<stdint.h>"}:
        needed.add("<cstdint>")
    for brings in has:
        needed -= {f"<{name}>" for name in BRINGS.get(brings.strip("<>"), ())}
    return sorted(needed - has)


def add(path, text, headers):
    """`text` with the includes: its own header, then the system's, the
    standard library's and those in quotes, each block sorted."""
    lines = text.split("\n")
    places = [i for i, line in enumerate(lines) if line.startswith("#include ")]
    other = next((i for i, line in enumerate(lines) if places and i > places[0] and line and i not in places), len(lines))
    places = [i for i in places if i < other]  # not those of tables (`.def`) further down
    own = []
    if not places:  # behind the guard of a header, behind the comment of a source
        at = next((i + 1 for i, line in enumerate(lines) if line.startswith("#define RVM_")), None)
        at = next(i for i, line in enumerate(lines) if not line.startswith("//")) if at is None else at
        before, old, after = lines[:at] + ([""] if path.endswith(".h") else []), [], ([""] if lines[at] else []) + lines[at:]
    else:
        before, old, after = lines[:places[0]], lines[places[0]:places[-1] + 1], lines[places[-1] + 1:]
        if old[0] == f'#include "{re.sub(r"(_test)?[.]cc$", ".h", path)}"':
            own, old = old[:1], old[1:]
    new = {line for line in old if line} | {f"#include {header}" for header in headers}
    system = {line for line in new if line.endswith(".h>")}
    standard = {line for line in new if "<" in line} - system
    blocks = [own, sorted(system), sorted(standard), sorted(new - system - standard)]
    return "\n".join(before + "\n\n".join("\n".join(block) for block in blocks if block).split("\n") + after)


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    wrong = 0
    for path in subprocess.run(["git", "ls-files", "*.cc", "*.h"], check=True, capture_output=True, text=True).stdout.split():
        text = read(path)
        headers = missing(path, text)
        if not headers:
            continue
        wrong += 1
        if arguments:
            print(f"{path}: {' '.join(headers)}")
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(add(path, text, headers))
    return 1 if wrong and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
