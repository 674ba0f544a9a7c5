# A list is None or (head, tail); a tree is (label, children).
def grow(depth, seed):
    label = seed * 16807 % 2147483647
    if depth == 0:
        return (label, None), label
    children, last = grow_children(1 + label % 3, depth - 1, label)
    return (label, children), last


def grow_children(count, depth, seed):
    if count == 0:
        return None, seed
    child, seed = grow(depth, seed)
    rest, last = grow_children(count - 1, depth, seed)
    return (child, rest), last


def fold(tree):
    size, total, height = 0, 0, 0
    label, trees = tree
    while trees is not None:
        a, b, c = fold(trees[0])
        size, total, height = size + a, total + b, max(height, c)
        trees = trees[1]
    return size + 1, (total * 31 + label) % 1000003, height + 1


def run(depth):
    total = 0
    for k in range(10, 0, -1):
        size, labels, height = fold(grow(depth, k)[0])
        total += size * 7 + labels + height
    return total
