# A list is None or (head, tail); a hypothesis is (cost, last token, tokens).
def first(beam, room):
    return None if beam is None or room == 0 else (beam[0], first(beam[1], room - 1))


def insert(cost, token, tokens, beam, room):
    if room == 0:
        return None
    if beam is None:
        return ((cost, token, (token, tokens)), None)
    if cost < beam[0][0]:
        return ((cost, token, (token, tokens)), first(beam, room - 1))
    return (beam[0], insert(cost, token, tokens, beam[1], room - 1))


def run(n):
    beam = ((0, 0, None), None)
    for step in range(n):
        old, beam = beam, None
        while old is not None:
            cost, last, tokens = old[0]
            for token in range(8):
                beam = insert(cost + (last * 7919 + token * 104729 + step * 1299709) % 1009, token, tokens, beam, 4)
            old = old[1]
    total, _, tokens = beam[0]
    while tokens is not None:
        total = (total * 31 + tokens[0]) % 1000003
        tokens = tokens[1]
    return total
