#!/usr/bin/env python3
"""Says a word with the g2p network through the C interface, as any language with a foreign function interface can.

  spell_ctypes.py librelayvm.so.1 g2p.rvm WORD
"""

import ctypes
import pathlib
import re
import sys


class LoadOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("allow_native", ctypes.c_uint32), ("trusted_keys", ctypes.c_void_p),
                ("key_count", ctypes.c_size_t)]


def main(library, model, word):
    rvm = ctypes.CDLL(library)
    for function in (rvm.rvm_program_load_file, rvm.rvm_machine_create, rvm.rvm_machine_run, rvm.rvm_value_parse):
        function.restype = ctypes.c_void_p
    rvm.rvm_error_message.restype = ctypes.c_char_p
    rvm.rvm_value_to_string.restype = ctypes.c_void_p

    def check(error):
        if error:
            sys.exit("error: " + rvm.rvm_error_message(ctypes.c_void_p(error)).decode())

    program, machine, argument, result = (ctypes.c_void_p() for _ in range(4))
    options = LoadOptions(ctypes.sizeof(LoadOptions), 1, None, 0)
    check(rvm.rvm_program_load_file(model.encode(), ctypes.byref(options), ctypes.byref(program)))
    check(rvm.rvm_machine_create(program, None, ctypes.byref(machine)))
    letters = str([ord(c) - ord("a") + 3 for c in word]).encode()
    check(rvm.rvm_value_parse(program, b"main", ctypes.c_size_t(0), letters, ctypes.byref(argument)))
    check(rvm.rvm_machine_run(machine, b"main", ctypes.byref(argument), ctypes.c_size_t(1), ctypes.byref(result)))
    text = rvm.rvm_value_to_string(result)
    names = re.findall('"([^"]+)"', pathlib.Path(__file__).with_name("phonemes.inc").read_text())
    print(*(names[int(number)] for number in re.findall("[0-9]+", ctypes.string_at(text).decode())))
    rvm.rvm_string_free(ctypes.c_void_p(text))
    for release, handle in ((rvm.rvm_value_release, argument), (rvm.rvm_value_release, result),
                            (rvm.rvm_machine_free, machine), (rvm.rvm_program_release, program)):
        release(handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
