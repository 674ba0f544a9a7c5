"""Makes libraries that the linker takes for an older glibc, from this machine's, which still has what older ones had.

    older_interface.py 2.27 x86_64-linux-gnu FOLDER LIBRARY...  FOLDER gets libm.so for libm.so.6, libld.so for ld-linux

They have the names of functions and data, each with the newest version up to the given one, and no code: what is linked
with them asks for versions that this older glibc has.
"""

import os
import re
import subprocess
import sys
import tempfile

# A line of `readelf --dyn-syms`: number, value, size, type, binding, visibility, section, name and version.
SYMBOL = re.compile(r"^\s*\d+: (\S+)\s+(\d+)\s+(\w+)\s+(GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+\d+ (\S+?)@@?(GLIBC_[\d.]+)$",
                    re.MULTILINE)
KINDS = {"FUNC": "function", "IFUNC": "function", "OBJECT": "object"}


def numbers(version):
    return tuple(map(int, version.removeprefix("GLIBC_").split(".")))


def interface(text, newest):
    """Of each name up to the version: the version, the type, the size and the address."""
    found = {}
    for address, size, kind, _, name, version in SYMBOL.findall(text):
        if kind not in KINDS or numbers(version) > newest:
            continue
        if name not in found or numbers(version) > numbers(found[name][0]):
            found[name] = version, KINDS[kind], int(size), address
    return found


def assembly(symbols):
    """Names of one thing stay names of one thing, since a program may have a copy of it."""
    things = {}
    for name, (_, kind, size, address) in symbols.items():
        things.setdefault((address, kind, size), []).append(name)
    lines = [".data"]
    for (_, kind, size), names in things.items():
        lines += [".balign 16"]
        for name in names:
            lines += [f".globl {name}", f".type {name}, %{kind}", f".size {name}, {size}", f"{name}:"]
        lines += [f".skip {max(size, 1) if kind == 'object' else 1}"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",%progbits', ""])


def version_script(symbols):
    versions = sorted({version for version, *_ in symbols.values()}, key=numbers)
    return "".join(f"{version} {{ {' '.join(f'{name};' for name in symbols if symbols[name][0] == version)} }};\n"
                   for version in versions)


def make(library, newest, machine, folder):
    """A library in `folder`, under the name that the linker looks for."""
    name = os.path.basename(library)
    found_as = re.sub(r"^(lib)?([a-z]+)\b.*", r"lib\2.so", name)
    read = ["llvm-readelf-19", "--dyn-syms", "--wide", library]
    symbols = interface(subprocess.run(read, stdout=subprocess.PIPE, text=True, check=True).stdout, newest)
    with tempfile.TemporaryDirectory() as place:
        source, script = os.path.join(place, "interface.s"), os.path.join(place, "interface.lds")
        with open(source, "w", encoding="utf-8") as file:
            file.write(assembly(symbols))
        with open(script, "w", encoding="utf-8") as file:
            file.write(version_script(symbols))
        subprocess.run(["clang-19", f"--target={machine}", "-shared", "-nostdlib", "-fuse-ld=lld",
                        f"-Wl,-soname,{name},--version-script,{script}", source,
                        "-o", os.path.join(folder, found_as)], check=True)


def main():
    newest, machine, folder, *libraries = sys.argv[1:]
    for library in libraries:
        make(library, numbers(newest), machine, folder)


if __name__ == "__main__":
    main()
