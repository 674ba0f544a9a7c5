def run(n):
    i, total = 0, 0
    while i != n:
        total += i * i
        i += 1
    return (total + 2**63) % 2**64 - 2**63
