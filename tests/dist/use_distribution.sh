#!/bin/bash
# Installs and uses what `./run dist` made, as a user would, in a root that has nothing of this repository's set-up:
#
#   tests/dist/use_distribution.sh FOLDER      the folder with the files
#
# Installs Debian packages, so call it in a root that may be changed (.ci/run does). The last line is
# `N passed, N failed`.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
dist=$(cd "$1" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
passed=0
failed=0

# check NAME EXPECTED COMMAND...: the command succeeds and prints this.
check() {
  local name=$1 expected=$2 seen
  shift 2
  if seen=$("$@" 2>"$place/error") && [ "$seen" = "$expected" ]; then
    passed=$((passed + 1))
  else
    echo "FAILED  $name: saw \`$seen\`; expected \`$expected\`"
    tail -n 5 "$place/error"
    failed=$((failed + 1))
  fi
}
quietly() { "$@" >"$place/log" 2>&1 || { tail -n 5 "$place/log" >&2; return 1; }; }

sed -n '/^```c$/,/^```$/p' "$root/docs/c.md" | sed '1d;/^```$/,$d' >total.c
cp "$root/tests/embed/values.relay" .
echo 'def @main(%x: int32) -> int32 { %x * %x }' >square.relay
export DEBIAN_FRONTEND=noninteractive
quietly apt-get update
quietly apt-get install -y --no-install-recommends gcc libc6-dev pkgconf python3-venv bash-completion

check "the checksums" "" quietly bash -c "cd '$dist' && sha256sum --check --quiet SHA256SUMS"

check "the tarball unpacks" "" tar xf "$dist"/relayvm-[0-9]*-linux-x86_64.tar.gz
unpacked=$(echo "$place"/relayvm-[0-9]*-linux-x86_64)
check "the tarball needs no packages" 144 "$unpacked/bin/relayvm" run square.relay 12
check "the tarball compiles" "" "$unpacked/bin/relayvm" compile values.relay --entry total --target portable -o values.rvm
export PKG_CONFIG_PATH="$unpacked/lib/pkgconfig" LD_LIBRARY_PATH="$unpacked/lib"
check "C with the tarball" "" bash -c 'gcc total.c $(pkg-config --cflags --libs relayvm) -o total'
check "C with the tarball runs" 6 ./total values.rvm
unset PKG_CONFIG_PATH LD_LIBRARY_PATH
# The newest version of glibc's symbols that a file asks for.
newest() { objdump -T "$1" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -V | tail -n 1; }
for file in "$unpacked"/bin/relayvm* "$unpacked"/lib/*.so.1; do
  check "the glibc of ${file##*/}" 2.27 newest "$file"
done
rm -f total values.rvm

# The server has the symbols of its own interface; every library must be found.
check "Triton's backend unpacks" "" tar xf "$dist"/relayvm-triton-*-linux-x86_64.tar.gz
check "Triton's backend finds its libraries" "0" bash -c "ldd relayvm/libtriton_relayvm.so | grep -c 'not found' || true"

use_package() {
  check "the package installs" "" quietly apt-get install -y --no-install-recommends "$dist"/relayvm_*_amd64.deb
  check "relayvm" 144 relayvm run square.relay 12
  check "relayvm compile" "" relayvm compile square.relay -o square.rvm
  check "relayvm-run" 144 relayvm-run square.rvm 12
  check "a verb's manual" "" test -s /usr/share/man/man1/relayvm-compile.1.gz
  check "C with the package" "" bash -c 'gcc total.c $(pkg-config --cflags --libs relayvm) -o total'
  check "relayvm for C" "" relayvm compile values.relay --entry total --target portable -o values.rvm
  check "C with the package runs" 6 ./total values.rvm
  check "completion of verbs" "compile" bash -c '. /usr/share/bash-completion/completions/relayvm
    COMP_WORDS=(relayvm comp) COMP_CWORD=1; _relayvm; echo "${COMPREPLY[@]}"'
  check "completion of options" "--target" bash -c '. /usr/share/bash-completion/completions/relayvm
    COMP_WORDS=(relayvm compile --targ) COMP_CWORD=2; _relayvm; echo "${COMPREPLY[@]}"'
  check "an example" "" relayvm check /usr/share/doc/relayvm/examples/tree_lstm/tree_lstm.relay
  check "the package is removed" "" quietly apt-get remove -y relayvm
}
use_package

check "an environment" "" quietly python3 -m venv venv
check "the wheels install" "" quietly venv/bin/pip install "$dist"/relayvm_runtime-*.whl "$dist"/relayvm-*.whl auditwheel
check "Python" "[2. 4.]" venv/bin/python -c 'import numpy, relayvm
program = relayvm.compile("def @main(%x: Tensor[(n), float32]) { %x + %x }")
print(numpy.asarray(program(numpy.array([1, 2], dtype="float32"))))'
tag_of_symbols() { venv/bin/auditwheel show "$1" | tr '\n' ' ' | sed -n 's/.*following platform tag: "\([^"]*\)".*/\1/p'; }
for wheel in "$dist"/*.whl; do
  check "the tag of ${wheel##*/}" manylinux_2_27_x86_64 tag_of_symbols "$wheel"
  check "the name of ${wheel##*/}" py3-none-manylinux_2_27_x86_64.whl sed 's/.*-\(py3-.*\)/\1/' <<<"$wheel"
done

# Programs, and the libraries of the wheels, with the oldest glibc that Debian's mirrors have: 2.31, of Debian 11.
fetch_old_glibc() {
  mkdir -p apt/lists/partial apt/archives/partial
  : >apt/status
  echo "deb $(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1) bullseye main" >apt/sources.list
  local options=(-o Dir::Etc::SourceList="$place/apt/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State="$place/apt"
    -o Dir::State::status="$place/apt/status" -o Dir::Cache="$place/apt" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update || return 1
  (cd apt/archives && apt-get "${options[@]}" download libc6 libc6-dev linux-libc-dev libgcc-s1) || return 1
  for package in apt/archives/*.deb; do dpkg-deb --extract "$package" old; done
  # An absolute link leads to the loader of this root.
  ln -sf ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 old/lib64/ld-linux-x86-64.so.2
}
use_old_glibc() {
  local packages=venv/lib/python3*/site-packages
  local libraries=$(echo $packages/relayvm_runtime/librelayvm.so.1 $packages/relayvm/librelayvm_compiler.so.1)
  local lib=old/lib/x86_64-linux-gnu
  local loader="$lib/ld-linux-x86-64.so.2"
  check "relayvm compile with glibc 2.31" "" "$loader" --library-path "$lib" "$unpacked/bin/relayvm" compile square.relay -o old/square.rvm
  check "relayvm-run with glibc 2.31" 144 "$loader" --library-path "$lib" "$unpacked/bin/relayvm-run" old/square.rvm 12
  check "C with the wheels' libraries" "" gcc --sysroot=old -Bold/usr/lib/x86_64-linux-gnu -Lold/usr/lib/x86_64-linux-gnu \
    -I"$root/include" "$root/tests/dist/compile_and_run.c" $libraries -Wl,--unresolved-symbols=ignore-in-shared-libs -o old/program
  check "C with the wheels' libraries and glibc 2.31" "[5f, 6f, 7f]" "$loader" --library-path \
    "$lib:$(echo $packages/relayvm_runtime):$(echo $packages/relayvm)" old/program
}
if quietly fetch_old_glibc; then
  use_old_glibc
else
  echo "skipped: the mirror has no Debian 11, so nothing runs with its glibc"
fi

[ "$failed" = 0 ] && status=0 || status=1
echo "$passed passed, $failed failed"
exit "$status"
