def run(n):
    return n if n < 2 else run(n - 1) + run(n - 2)
