"""Builds the wheels, without a network: bazel makes the library, this puts it and what it needs into a zip file.

The libraries that not every Linux has come along beside it; its RPATH finds them there. The wheels for users need none: their
libraries are those of //capi/manylinux. The same tree gives the same bytes. As a command it makes the runtime's wheel for
aarch64, whose libraries `./run build --cpu aarch64` has built:

    python3 python/wheels.py FOLDER
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Libraries of every system with the glibc that the wheel's tag names.
SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so(\.\d+)*$")


def version():
    with open(os.path.join(ROOT, "base/version.h"), encoding="utf-8") as file:
        return re.search(r'kVersion = "([^"]+)"', file.read()).group(1)


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


class Host:
    """This machine: where bazel puts what it builds for it, and which libraries a library needs."""
    name, folder = "x86_64", "bazel-bin"

    def needed(self, library):
        """Names and paths of the libraries that come along."""
        found = re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", library), re.MULTILINE)
        return sorted((name, path) for name, path in found if not SYSTEM.match(name))


class AArch64:
    """64-bit ARM, by the cross build: its libraries are those of the sysroot."""
    name, folder = "aarch64", "bazel-aarch64-bin"
    places = [os.path.join(ROOT, "build/aarch64/sysroot", place) for place in
              ("usr/lib/aarch64-linux-gnu", "lib/aarch64-linux-gnu")]

    def needed(self, library):
        found, pending = {}, [library]
        while pending:
            for name in re.findall(r"NEEDED.*\[(.*)\]", output("llvm-readelf-19", "-d", pending.pop())):
                if SYSTEM.match(name) or name in found:
                    continue
                paths = [os.path.join(place, name) for place in self.places if os.path.exists(os.path.join(place, name))]
                if not paths:
                    raise FileNotFoundError(f"no {name} in {' or '.join(self.places)}, which {library} needs")
                found[name] = paths[0]
                pending.append(paths[0])
        return sorted(found.items())


def built(target, machine=Host()):
    """The file that bazel made of a label."""
    return os.path.join(ROOT, machine.folder, target.removeprefix("//").replace(":", "/"))


def needed(library):
    return Host().needed(library)


# The glibc, 2.x, of the systems whose libstdc++ has GLIBCXX_3.4.n, by n: the policies of auditwheel.
_GLIBC_OF_LIBSTDCXX = {28: 31, 29: 34, 30: 35}


def tag(libraries, machine=Host()):
    """The oldest systems that have what the libraries need: manylinux_2_x, where x is the minor version of their glibc."""
    symbols = "".join(output("llvm-objdump-19", "-T", path) for path in libraries)
    glibc = max(int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", symbols))
    for patch in map(int, re.findall(r"\bGLIBCXX_3\.4\.(\d+)", symbols)):
        glibc = max(glibc, *(_GLIBC_OF_LIBSTDCXX[known] for known in _GLIBC_OF_LIBSTDCXX if known <= patch), 0)
    return f"manylinux_2_{glibc}_{machine.name}"


class Wheel:
    """`folder`: of the project, below this one; `package`: in it; `targets`: of its libraries; `entry_points`: objects of
    the package or of a module by name, by group; `modules`: files beside the package; `machine`: that it is for."""

    def __init__(self, folder, name, package, targets, summary, requires, entry_points=None, modules=(), machine=Host()):
        self.folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), folder)
        self.name, self.package, self.targets = name, package, targets
        self.summary, self.requires, self.entry_points = summary, requires, entry_points or {}
        self.modules, self.machine = modules, machine

    def build_library(self):
        subprocess.run(["bazel", "build", "--ui_event_filters=-info", "--noshow_progress", *self.targets], cwd=ROOT, check=True)

    def files(self, editable):
        libraries = [built(target, self.machine) for target in self.targets]
        if editable:
            for library in libraries:
                link = os.path.join(self.folder, self.package, os.path.basename(library))
                if os.path.lexists(link):
                    os.remove(link)
                os.symlink(library, link)
            yield f"__editable__{self.package}.pth", f"{self.folder}\n".encode()
            return
        package = os.path.join(self.folder, self.package)
        paths = [os.path.join(place, file) for place, _, files in os.walk(package) for file in files]
        for module in self.modules:
            yield module, self.read(os.path.join(self.folder, module))
        for path in sorted(paths):
            if path.endswith((".py", ".pyi", "py.typed")):
                yield os.path.relpath(path, self.folder), self.read(path)
        for file, path in sorted({(os.path.basename(path), path) for path in libraries}.union(*map(self.machine.needed, libraries))):
            yield f"{self.package}/{file}", self.read(path)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def metadata(self):
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {version()}", f"Summary: {self.summary}",
                 "License: Apache-2.0", "Requires-Python: >=3.10", *(f"Requires-Dist: {name}" for name in self.requires)]
        return ("\n".join(lines) + "\n").encode()

    def entry_points_text(self):
        groups = ("\n".join([f"[{group}]", *(f"{name} = {target}" for name, target in points.items())])
                  for group, points in self.entry_points.items())
        return ("\n\n".join(groups) + "\n").encode()

    # The hooks of PEP 517 and PEP 660.
    def build_wheel(self, directory, config_settings=None, metadata_directory=None):
        self.build_library()
        return self.build(directory, editable=False)

    def build_editable(self, directory, config_settings=None, metadata_directory=None):
        self.build_library()
        return self.build(directory, editable=True)

    def build(self, directory, editable):
        """Writes the wheel into `directory` and returns its name. The library has been built."""
        libraries = [built(target, self.machine) for target in self.targets]
        libraries += [path for library in libraries for _, path in self.machine.needed(library)]
        platform = f"py3-none-{tag(libraries, self.machine)}"
        stem = f"{self.package}-{version()}"
        info = f"{stem}.dist-info"
        record = []
        path = os.path.join(directory, f"{stem}-{platform}.whl")
        with zipfile.ZipFile(path + ".tmp", "w", zipfile.ZIP_DEFLATED) as archive:
            def put(name, data):
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, data)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                record.append(f"{name},sha256={digest},{len(data)}")

            for name, data in self.files(editable):
                put(name, data)
            put(f"{info}/METADATA", self.metadata())
            put(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: relayvm\nRoot-Is-Purelib: false\nTag: {platform}\n".encode())
            if self.entry_points:
                put(f"{info}/entry_points.txt", self.entry_points_text())
            put(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]).encode())
        shutil.move(path + ".tmp", path)
        return os.path.basename(path)


def runtime(library, signals, machine=Host()):
    return Wheel("runtime", "relayvm-runtime", "relayvm_runtime", [library, signals], "Runs compiled Relay programs",
                 ["numpy>=1.24"], machine=machine)


def compiler(library):
    return Wheel("compiler", "relayvm", "relayvm", [library], "Compiles and runs Relay programs", ["relayvm-runtime", "tqdm>=4.66"],
                 {"torch_dynamo_backends": {"relayvm": "relayvm.torch:backend"},
                  "pygments.lexers": {"relay": "relayvm_pygments:RelayLexer"}},
                 modules=["relayvm_pygments.py"])


# For this machine, from what is built here without a network.
RUNTIME = runtime("//capi:librelayvm.so.1", "//capi:librelayvm_python_signals.so")
COMPILER = compiler("//capi/compiler:librelayvm_compiler.so.1")

# For users, whose systems may be older.
LIBRARY, SIGNALS = "//capi/manylinux:librelayvm.so.1", "//capi/manylinux:librelayvm_python_signals.so"
FOR_USERS = [runtime(LIBRARY, SIGNALS), compiler("//capi/manylinux:librelayvm_compiler.so.1")]

if __name__ == "__main__":
    print(os.path.join(sys.argv[1], runtime(LIBRARY, SIGNALS, AArch64()).build(sys.argv[1], editable=False)))
