#!/usr/bin/env bash
# Run by the lane libcxx in its chroot.
set -u
. "$(dirname "$0")/../../scripts/lib.sh"
work=/opt/build
quietly $work/configure.log cmake -S "$root" -B $work/build -G Ninja -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_CXX_FLAGS=-stdlib=libc++ -DCAIRN_DEVELOPER=ON -DCMAKE_BUILD_TYPE=Debug -DCAIRN_TESTS=OFF \
  -DCAIRN_EXAMPLES=OFF -DCAIRN_KOKKOS=OFF -DCAIRN_FORTRAN=OFF || { loud "FAILED: the configure step" && exit 1; }
# Builds every object: to link would need protobuf, which sid has only for GCC's library.
mapfile -t objects < <(ninja -C $work/build -t targets all | sed -nE 's/^(.*\.o): CXX_COMPILER.*/\1/p')
[ ${#objects[@]} -gt 0 ] || die "the build names no objects"
building $work/build.log cmake --build $work/build --parallel "$(cores)" -- -k 0 "${objects[@]}" ||
  { loud "FAILED: the build" && exit 1; }
python3 -B "$root/lab/lanes/record.py" write $work/record.json --build $work/build lane=inside command=inside \
  "compiler=clang $(clang++ -dumpversion), libc++" "ran=the libraries and the tool; nothing run" "compiled=${#objects[@]}"
note "${#objects[@]} objects compile with libc++ $(dpkg-query -W -f '${Version}' libc++-dev), warnings being errors"
note "Nothing was linked or run: that needs protobuf's library, built with libc++."
