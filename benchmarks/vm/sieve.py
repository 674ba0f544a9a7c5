# A list is None or (head, tail); keep is the Prelude's filter.
def rev(xs):
    done = None
    while xs is not None:
        done = (xs[0], done)
        xs = xs[1]
    return done


def keep(f, xs):
    done = None
    while xs is not None:
        if f(xs[0]):
            done = (xs[0], done)
        xs = xs[1]
    return rev(done)


def run(n):
    xs, count = None, 0
    for i in range(n, 1, -1):
        xs = (i, xs)
    while xs is not None:
        p = xs[0]
        xs = keep(lambda x, p=p: x % p != 0, xs[1])
        count += 1
    return count
