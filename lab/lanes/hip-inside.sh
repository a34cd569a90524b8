#!/usr/bin/env bash
# Run by the lane hip in its chroot. Exit status 77: Kokkos alone does not compile.
set -u
. "$(dirname "$0")/../../scripts/lib.sh"
. "$root/lab/lanes/device.sh"
work=/opt/build architecture=gfx90a
compiler=$(ls /usr/bin/clang++-[0-9]* | sort -V | tail -n 1)
kokkos_package /usr/include/kokkos $work/kokkos HIP \
  '#define KOKKOS_ARCH_AMD_GFX90A
#define KOKKOS_ARCH_AMD_GPU "gfx90a"' || exit 77
printf '#include <Kokkos_Core.hpp>\nint main() {}\n' >$work/probe.cpp
"$compiler" -x hip --offload-arch=$architecture -std=c++20 -isystem $work/kokkos/include \
  -c $work/probe.cpp -o $work/probe.o >$work/probe.log 2>&1 || exit 77
note "Kokkos $kokkos_version with HIP, $("$compiler" --version | head -n 1)"
quietly $work/configure.log cmake -S "$root" -B $work/build -G Ninja -DKokkos_ROOT=$work/kokkos \
  -DCAIRN_KOKKOS_BACKEND=HIP -DCMAKE_HIP_COMPILER="$compiler" -DCMAKE_HIP_PLATFORM=amd \
  -DCMAKE_HIP_ARCHITECTURES=$architecture -DCMAKE_BUILD_TYPE=Debug -DCMAKE_HIP_FLAGS_DEBUG=-O0 \
  -DCMAKE_HIP_FLAGS="-Wall -Wextra -Werror" -DCAIRN_TESTS=ON -DCAIRN_EXAMPLES=ON -DCAIRN_BENCH=ON \
  -DCMAKE_UNITY_BUILD=OFF ||
  exit 1
python3 -B "$root/lab/lanes/compile-device.py" "$root" $work/build HIP | tee $work/compile.log
status=${PIPESTATUS[0]}
# shellcheck disable=SC2046
python3 -B "$root/lab/lanes/record.py" write $work/record.json --build $work/build lane=inside command=inside \
  "compiler=clang $("$compiler" -dumpversion) of hipcc" "ran=all that includes Kokkos" \
  "device=HIP, $architecture; nothing run" $(counts_of $work/compile.log)
[ "$status" -eq 0 ] || exit 1
note "Nothing was linked or run: that needs Kokkos' libraries for HIP, and a GPU."
