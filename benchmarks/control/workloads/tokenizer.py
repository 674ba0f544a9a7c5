def classify(byte):
    if byte < 48:
        return 0
    if byte < 58:
        return 2
    if byte < 97:
        return 0
    return 1 if byte < 123 else 0


def run(n, text):
    state, code, total = 0, 0, 0
    for byte in bytes(text[:n]):
        now = classify(byte)
        if now == state:
            code = 0 if state == 0 else (code * 31 + byte) % 1000003
        else:
            total += code + state
            code = 0 if now == 0 else byte
            state = now
    return total + code
