def make(depth):
    return () if depth == 0 else (make(depth - 1), make(depth - 1))


def nodes(tree):
    return nodes(tree[0]) + nodes(tree[1]) + 1 if tree else 1


def run(depth):
    return sum(nodes(make(depth)) for _ in range(10))
