"""Makes what is given to users, in build/dist: a tarball, a Debian package, both wheels and the backend for Triton. `./run dist` calls it.

The same commit gives the same bytes: times are those of the commit, orders are sorted. Programs and libraries run from glibc
2.27 on and need nothing else; Triton's backend brings its libraries along, for servers with glibc 2.34.
"""

import argparse
import glob
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "python"))
import wheels  # noqa: E402

NAME = "relayvm"
VERSION = wheels.version()
PROGRAMS = {"relayvm": wheels.built("//tools/relayvm:manylinux/relayvm"),
            "relayvm-run": wheels.built("//tools/relayvm_runtime:manylinux/relayvm-run")}
LIBRARIES = {name: wheels.built(wheel.targets[0]) for name, wheel in zip(("relayvm", "relayvm_compiler"), wheels.FOR_USERS)}
TRITON = "//integrations/triton:libtriton_relayvm.so"
DEBIAN_LIB = "lib/x86_64-linux-gnu"


def run(*args, **options):
    done = subprocess.run(args, stdout=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"dist: error: `{' '.join(args)}` failed with {done.returncode}")
    return done.stdout


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def copy(source, path, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copyfile(source, path)
    os.chmod(path, mode)


def install_development(prefix, lib="lib"):
    """Headers, libraries and pkg-config files below `prefix`; libraries in the folder `lib` of it."""
    for header in glob.glob(os.path.join(ROOT, "include/relayvm/*.h*")):
        copy(header, os.path.join(prefix, "include/relayvm", os.path.basename(header)))
    with open(os.path.join(ROOT, "capi/relayvm.pc.in"), encoding="utf-8") as file:
        template = file.read()
    descriptions = {"relayvm": "Runs compiled Relay programs", "relayvm_compiler": "Compiles Relay programs and ONNX models"}
    for name, path in LIBRARIES.items():
        copy(path, os.path.join(prefix, lib, os.path.basename(path)))
        link = os.path.join(prefix, lib, f"lib{name}.so")
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(os.path.basename(path), link)
        values = {"VERSION": VERSION, "NAME": name, "DESCRIPTION": descriptions[name], "LIB": lib,
                  "PREFIX": "/".join([".."] * (lib.count("/") + 2))}
        text = re.sub("@([A-Z]+)@", lambda match: values[match.group(1)], template)
        write(os.path.join(prefix, lib, "pkgconfig", name.replace("_", "-") + ".pc"), text)


def install_programs(prefix):
    for name, path in PROGRAMS.items():
        target = os.path.join(prefix, "bin", name)
        copy(path, target, 0o755)
        run("llvm-strip-19", target)


def verbs():
    return re.findall(r"^  relayvm (\S+)  ", run(PROGRAMS["relayvm"], "help"), re.MULTILINE)


def install_manual(prefix, date, program, summary, verb=""):
    """The page of a program or of one of its verbs, made of what it prints as help."""
    name, command = " ".join([program, verb]).strip(), " ".join([PROGRAMS[program], verb]).strip()
    text = run("help2man", "--no-info", "--no-discard-stderr", f"--name={summary}", f"--source=RelayVM {VERSION}",
               "--section=1", f"--version-string={VERSION}", "--help-option=--help", "--manual=RelayVM", command,
               env={**os.environ, "SOURCE_DATE_EPOCH": str(date), "LC_ALL": "C.UTF-8"})
    path = os.path.join(prefix, "share/man/man1", name.replace(" ", "-") + ".1.gz")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        # help2man names the command as it was called.
        file.write(gzip.compress(text.replace(command, name).encode(), mtime=0))


def install_manuals(prefix, date):
    install_manual(prefix, date, "relayvm", "compile and run Relay, a typed functional language of tensors")
    install_manual(prefix, date, "relayvm-run", "run a compiled Relay program")
    for verb in verbs():
        if verb in ("help", "version"):
            continue
        first_line = run(PROGRAMS["relayvm"], "help", verb).split("\n", 1)[0]
        install_manual(prefix, date, "relayvm", first_line.split(": ", 1)[1], verb)


def tracked(folder):
    return run("git", "ls-files", folder, cwd=ROOT).split()


def install_documents(prefix):
    folder = os.path.join(prefix, "share/doc", NAME)
    for path in ["README.md", "SECURITY.md", *tracked("docs"), *tracked("examples")]:
        if os.path.basename(path) == "BUILD" or path.startswith("docs/decisions/"):
            continue
        copy(os.path.join(ROOT, path), os.path.join(folder, path), 0o644)
    copy(os.path.join(ROOT, "LICENSE"), os.path.join(folder, "copyright"))
    copy(os.path.join(HERE, "completion.bash"), os.path.join(prefix, "share/bash-completion/completions/relayvm"))


def install(prefix, date, lib="lib"):
    install_programs(prefix)
    install_development(prefix, lib)
    install_manuals(prefix, date)
    install_documents(prefix)


def install_triton(folder):
    """The backend for Triton Inference Server as the server looks for it: `folder` is relayvm/ of its backend directory."""
    library = wheels.built(TRITON)
    for name, path in [(os.path.basename(library), library), *wheels.needed(library)]:
        copy(path, os.path.join(folder, name))


def files_below(folder):
    """Paths of all folders and files, sorted."""
    found = []
    for place, folders, files in os.walk(folder):
        found += [os.path.join(place, name) for name in folders + files]
    return sorted(found)


def make_tarball(out, staging, date):
    name = f"{NAME}-{VERSION}-linux-x86_64"
    prefix = os.path.join(staging, name)
    install(prefix, date)
    return write_tarball(os.path.join(out, f"{name}.tar.gz"), prefix, date)


def make_triton_tarball(out, staging, date):
    folder = os.path.join(staging, "triton/relayvm")
    install_triton(folder)
    copy(os.path.join(ROOT, "LICENSE"), os.path.join(folder, "LICENSE"))
    return write_tarball(os.path.join(out, f"{NAME}-triton-{VERSION}-linux-x86_64.tar.gz"), folder, date)


def write_tarball(path, folder, date):
    """An archive with `folder` under its own name."""
    def plain(entry):
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = date, 0, 0, "root", "root"
        return entry

    # The tar first: a time in the head of the gzip file would differ.
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in [folder, *files_below(folder)]:
            archive.add(file, os.path.relpath(file, os.path.dirname(folder)), recursive=False, filter=plain)
    with open(path, "wb") as file:
        file.write(gzip.compress(data.getvalue(), compresslevel=6, mtime=0))
    return path


def debian_dependencies(folder):
    """What dpkg-shlibdeps finds for the programs and libraries in `folder`."""
    os.makedirs(os.path.join(folder, "debian"), exist_ok=True)
    write(os.path.join(folder, "debian/control"), f"Source: {NAME}\n\nPackage: {NAME}\nArchitecture: amd64\n")
    objects = [path for path in files_below(folder) if os.path.isfile(path) and not os.path.islink(path)
               and (os.path.dirname(path).endswith("/bin") or ".so" in os.path.basename(path))]
    printed = run("dpkg-shlibdeps", "-O", f"-l{folder}/usr/{DEBIAN_LIB}", "--ignore-missing-info",
                  *[f"-e{path}" for path in objects], cwd=folder, stderr=subprocess.DEVNULL)
    shutil.rmtree(os.path.join(folder, "debian"))
    return re.search("shlibs:Depends=(.*)", printed).group(1)


def make_debian_package(out, staging, date):
    folder = os.path.join(staging, "deb")
    install(os.path.join(folder, "usr"), date, DEBIAN_LIB)
    size = sum(os.path.getsize(path) for path in files_below(folder) if not os.path.islink(path)) // 1024
    depends = debian_dependencies(folder)
    write(os.path.join(folder, "DEBIAN/control"), f"""Package: {NAME}
Version: {VERSION}
Architecture: amd64
Maintainer: The RelayVM developers <relayvm@localhost>
Installed-Size: {size}
Depends: {depends}
Section: science
Priority: optional
Description: compiler and virtual machine for Relay
 Relay is a typed functional language of tensors. The compiler makes executable
 files of programs and ONNX models; relayvm-run and librelayvm run them.
""")
    write(os.path.join(folder, "DEBIAN/triggers"), "activate-noawait ldconfig\n")
    path = os.path.join(out, f"{NAME}_{VERSION}_amd64.deb")
    # xz would take a minute.
    run("dpkg-deb", "-Zzstd", "--root-owner-group", "--build", folder, path, env={**os.environ, "SOURCE_DATE_EPOCH": str(date)})
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(ROOT, "build/dist"), help="the folder (build/dist); emptied first")
    out = os.path.abspath(parser.parse_args().out)
    date = int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    shutil.rmtree(out, ignore_errors=True)
    staging = os.path.join(out, "staging")
    os.makedirs(staging)
    os.umask(0o022)
    made = [make_tarball(out, staging, date), make_triton_tarball(out, staging, date), make_debian_package(out, staging, date),
            *(os.path.join(out, wheel.build(out, editable=False)) for wheel in wheels.FOR_USERS)]
    shutil.rmtree(staging)
    lines = []
    for path in sorted(made):
        with open(path, "rb") as file:
            lines.append(f"{hashlib.sha256(file.read()).hexdigest()}  {os.path.basename(path)}\n")
        print(f"{os.path.relpath(path, ROOT)}: {os.path.getsize(path)} bytes")
    write(os.path.join(out, "SHA256SUMS"), "".join(lines))


if __name__ == "__main__":
    main()
