# A list is None or (head, tail); an instruction is (name, operand).
def step(op, stack):
    name = op[0]
    if name == "Push":
        return (op[1], stack)
    if name == "While":
        while stack[0] != 0:
            stack = execute(op[1], stack)
        return stack
    a, rest = stack
    if name == "Dup":
        return (a, (a, rest))
    b, rest = rest
    if name == "Swap":
        return (b, (a, rest))
    if name == "Rot":
        return (rest[0], (a, (b, rest[1])))
    if name == "Add":
        return (b + a, rest)
    if name == "Sub":
        return (b - a, rest)
    if name == "Mul":
        return (b * a, rest)
    return (b % a, rest)


def execute(code, stack):
    while code is not None:
        stack = step(code[0], stack)
        code = code[1]
    return stack


def as_list(items):
    made = None
    for item in reversed(items):
        made = (item, made)
    return made


def run(n):
    body = as_list([("Dup",), ("Dup",), ("Mul",), ("Push", 1000), ("Mod",), ("Rot",), ("Add",), ("Swap",), ("Push", 1), ("Sub",)])
    return execute(as_list([("Push", 0), ("Push", n), ("While", body), ("Add",)]), None)[0]
