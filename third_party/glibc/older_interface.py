"""Makes libraries that the linker takes for an older glibc, from this machine's, which still has what older ones had.

    older_interface.py 2.27 x86_64-linux-gnu FOLDER LIBRARY...      FOLDER gets libraries of the same names

They have the names of functions and data, each with the newest version up to the given one, and no code: a library that is
linked with them asks for versions that this older glibc has.
"""

import os
import re
import subprocess
import sys
import tempfile

# A line of `readelf --dyn-syms`: number, value, size, type, binding, visibility, section, name and version.
SYMBOL = re.compile(r"^\s*\d+: \S+\s+(\d+)\s+(\w+)\s+(GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+\d+ (\S+?)@@?(GLIBC_[\d.]+)$",
                    re.MULTILINE)
KINDS = {"FUNC": "function", "IFUNC": "function", "OBJECT": "object"}


def numbers(version):
    return tuple(map(int, version.removeprefix("GLIBC_").split(".")))


def interface(text, newest):
    """Of each name up to the version: the type, the size and the version."""
    found = {}
    for size, kind, _, name, version in SYMBOL.findall(text):
        if kind in KINDS and numbers(version) <= newest and (name not in found or numbers(version) > numbers(found[name][2])):
            found[name] = KINDS[kind], int(size), version
    return found


def assembly(symbols):
    lines = [".data"]
    for name, (kind, size, _) in symbols.items():
        lines += [f".globl {name}", f".type {name}, %{kind}", f".size {name}, {size}", f"{name}:"]
    return "\n".join([*lines, ".byte 0", '.section .note.GNU-stack,"",%progbits', ""])


def version_script(symbols):
    versions = sorted({version for _, _, version in symbols.values()}, key=numbers)
    return "".join(f"{version} {{ {' '.join(f'{name};' for name in symbols if symbols[name][2] == version)} }};\n"
                   for version in versions)


def make(library, newest, machine, folder):
    """A library of the same name in `folder`."""
    name = os.path.basename(library)
    printed = subprocess.run(["llvm-readelf-19", "--dyn-syms", "--wide", library], stdout=subprocess.PIPE, text=True, check=True)
    symbols = interface(printed.stdout, newest)
    with tempfile.TemporaryDirectory() as place:
        source, script = os.path.join(place, "interface.s"), os.path.join(place, "interface.lds")
        with open(source, "w", encoding="utf-8") as file:
            file.write(assembly(symbols))
        with open(script, "w", encoding="utf-8") as file:
            file.write(version_script(symbols))
        subprocess.run(["clang-19", f"--target={machine}", "-shared", "-nostdlib", "-fuse-ld=lld",
                        f"-Wl,-soname,{name},--version-script,{script}", source, "-o", os.path.join(folder, name)], check=True)


def main():
    newest, machine, folder, *libraries = sys.argv[1:]
    for library in libraries:
        make(library, numbers(newest), machine, folder)


if __name__ == "__main__":
    main()
