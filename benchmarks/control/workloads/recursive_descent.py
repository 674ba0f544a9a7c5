def factor(text, at):
    if text[at] == 40:
        value, at = add(text, at + 1)
        return value, at + 1
    value = 0
    while 48 <= text[at] <= 57:
        value = (value * 10 + text[at] - 48) % 1000003
        at += 1
    return value, at


def product(text, at):
    value, at = factor(text, at)
    while text[at] == 42:
        following, at = factor(text, at + 1)
        value = value * following % 1000003
    return value, at


def add(text, at):
    value, at = product(text, at)
    while text[at] in (43, 45):
        sign = 1 if text[at] == 43 else -1
        following, at = product(text, at + 1)
        value = (value + sign * following) % 1000003
    return value, at


def run(_, text):
    value, end = add(bytes(text), 0)
    return value + end
