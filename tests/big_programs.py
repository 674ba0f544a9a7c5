"""Large programs, made: for tests/scale_test.py and benchmarks/compile_time.py."""

FUNCTION = """def @f{i}(%x: Tensor[(4, 8), float32], %l: List[int32]) -> (Tensor[(4, 8), float32], int32) {{
  let %a = tanh(%x) + 1f;
  let %b = multiply(%a, %x);
  let %n = match (%l) {{
    Cons(%h, %t) => %h + {call},
    Nil => {i},
  }};
  if (%n > 3) {{ (%b, %n) }} else {{
    (sigmoid(%b - %a), %n + 1)
  }}
}}
"""


def ordinary(lines):
    """Functions of eleven lines each that call one another, with tensors, data, branches and tuples."""
    text = ["type List[A] { Cons(A, List[A]), Nil, }\n"]
    for i in range(lines // 11):
        text.append(FUNCTION.format(i=i, call=f"@f{i - 1}(%b, %t).1" if i else "0"))
    return "".join(text)


def lets(count):
    """One chain of lets; `@main(x)` is x + what `lets_value` adds."""
    text = "".join(f"  let %x{i} = {'%x' if i == 0 else f'%x{i - 1}'} + {i % 7};\n" for i in range(count))
    return f"def @main(%x: int32) -> int32 {{\n{text}  %x{count - 1}\n}}\n"


def lets_value(count):
    return sum(i % 7 for i in range(count))


def arms(count):
    """One chain of `else if`; `@main(i)` is 3 i below `count`, else -1."""
    text = "".join(f"if (%x == {i}) {{ {3 * i} }} else\n" for i in range(count))
    return f"def @main(%x: int32) -> int32 {{ {text} {{ -1 }} }}\n"


def nested_tuple(depth):
    """A tuple in a tuple, `depth` deep; `@main` takes out the number inside."""
    return f"def @main(%x: {'(' * depth}int32{',)' * depth}) -> int32 {{ %x{'.0' * depth} }}\n"


def nested_tuple_argument(depth, value):
    return f"{'(' * depth}{value}{',)' * depth}"


def mutual(count):
    """Functions that all call one another; `@main(n)` is what `mutual_value` says."""
    text = "".join(f"def @f{i}(%x: int32) -> int32 {{ if (%x <= 0) {{ {i} }} else {{ @f{(7 * i + 1) % count}(%x - 1) }} }}\n"
                   for i in range(count))
    return text + "def @main(%x: int32) -> int32 { @f0(%x) }\n"


def mutual_value(count, n):
    i = 0
    for _ in range(n):
        i = (7 * i + 1) % count
    return i


def chain(count):
    """Functions that each call the one before."""
    text = "def @f0(%x: int32) -> int32 { %x + 0 }\n"
    text += "".join(f"def @f{i}(%x: int32) -> int32 {{ @f{i - 1}(%x) + {i % 7} }}\n" for i in range(1, count))
    return text + f"def @main(%x: int32) -> int32 {{ @f{count - 1}(%x) }}\n"
