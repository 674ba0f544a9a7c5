"""The equations of the g2p-en network in numpy, one word at a time."""

import numpy as np

BEGIN, END, LIMIT = 2, 3, 20
END_OF_WORD = 2


def load(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(w, prefix, x, h):
    i = w[prefix + "_w_ih"] @ x + w[prefix + "_b_ih"]
    s = w[prefix + "_w_hh"] @ h + w[prefix + "_b_hh"]
    (ir, iz, i_new), (sr, sz, s_new) = np.split(i, 3), np.split(s, 3)
    r, z = sigmoid(ir + sr), sigmoid(iz + sz)
    return (1 - z) * np.tanh(i_new + r * s_new) + z * h


def predict(w, letters):
    """Phoneme numbers of a word given as letter numbers."""
    h = np.zeros(w["enc_w_hh"].shape[1], np.float32)
    for letter in [*letters, END_OF_WORD]:
        h = gru(w, "enc", w["enc_emb"][letter], h)
    said, last = [], BEGIN
    while len(said) < LIMIT:
        h = gru(w, "dec", w["dec_emb"][last], h)
        last = int(np.argmax(w["fc_w"] @ h + w["fc_b"]))
        if last == END:
            break
        said.append(last)
    return said
