# Sourced by lane: compiles all that includes Kokkos with nvcc, on this machine.
. "$root/lab/lanes/device.sh"

nvcc=''
for one in "$(command -v nvcc)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" /usr/local/cuda*/bin/nvcc; do
  if [ -x "$one" ]; then nvcc=$one && break; fi
done
[ -n "$nvcc" ] || skip "there is no nvcc here (PATH, CUDA_HOME, /usr/local/cuda*)"
has_program python3 || skip "python3 is needed"

work=$keep/cuda
mkdir -p "$work"
if [ -n "$fresh" ]; then rm -rf "$work/kokkos" "$work/build" "$work/headers"; fi

# The headers of sid's package: from the chroot, if there is one; otherwise only they are fetched.
fetch_headers() {
  local mirror state=$work/apt options
  [ ! -e "$work/headers/Kokkos_Core.hpp" ] || return 0
  mirror=$(debian_mirror)
  [ -n "$mirror" ] && has_program apt-get && has_program dpkg-deb || return 1
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  : >"$state/status"
  echo "deb $mirror sid main" >"$state/sources.list"
  options=(-o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$state/lists" -o Dir::State::Status="$state/status"
    -o Dir::Cache="$state/cache" -o APT::Sandbox::User= -o Acquire::Check-Valid-Until=false
    -o APT::Architecture=amd64 -o Acquire::Languages=none)
  (cd "$state" && rm -f ./*.deb && quietly "$work/apt.log" apt-get "${options[@]}" update &&
    quietly "$work/apt.log" apt-get "${options[@]}" download libkokkos-dev &&
    rm -rf unpacked && dpkg-deb -x libkokkos-dev_*.deb unpacked &&
    rm -rf "$work/headers" && mv unpacked/usr/include/kokkos "$work/headers")
}
headers=$keep/sid/usr/include/kokkos
if [ ! -e "$headers/Kokkos_Core.hpp" ]; then
  fetch_headers || skip "sid's libkokkos-dev could not be fetched (see $work/apt.log)"
  headers=$work/headers
fi

kokkos_package "$headers" "$work/kokkos" CUDA \
  '#define KOKKOS_ARCH_HOPPER
#define KOKKOS_ARCH_HOPPER90
#define KOKKOS_IMPL_ARCH_NVIDIA_GPU 90' --extended-lambda -Wext-lambda-captures-this ||
  skip "sid's Kokkos headers are not as they were"

# Every nvcc takes host compilers only up to a version: this is the first with which it compiles
# Kokkos.
printf '#include <Kokkos_Core.hpp>\nint main() {}\n' >"$work/probe.cu"
host=''
for one in c++ g++-15 g++-14 g++-13 g++-12 g++-11 clang++; do
  has_program "$one" || continue
  if "$nvcc" -ccbin "$one" -std=c++20 -arch=sm_90 --extended-lambda -isystem "$work/kokkos/include" -c \
    "$work/probe.cu" -o "$work/probe.o" >"$work/probe.log" 2>&1; then
    host=$one && break
  fi
done
[ -n "$host" ] || skip "$("$nvcc" --version | grep release) does not compile sid's Kokkos with any host compiler here (see $work/probe.log)"

title "nvcc $("$nvcc" --version | sed -n 's/.*, V//p') with $("$host" --version | head -n 1), Kokkos $kokkos_version with CUDA"
leave_build_of_another_tree "$work/build"
quietly "$work/configure.log" nice cmake -S "$root" -B "$work/build" -G Ninja \
  -DKokkos_ROOT="$work/kokkos" -DCAIRN_KOKKOS_BACKEND=CUDA -DCMAKE_CUDA_COMPILER="$nvcc" \
  -DCMAKE_CUDA_HOST_COMPILER="$host" -DCMAKE_CUDA_ARCHITECTURES=90 -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CUDA_FLAGS="-Werror all-warnings -Xcompiler=-Wall,-Wextra" \
  -DCMAKE_CUDA_FLAGS_DEBUG=-O0 -DCAIRN_TESTS=ON -DCAIRN_EXAMPLES=ON -DCAIRN_BENCH=ON \
  -DCMAKE_UNITY_BUILD=OFF ||
  { loud "FAILED: lane cuda: the configure step" && exit 1; }
nice python3 -B "$root/lab/lanes/compile-device.py" "$root" "$work/build" CUDA | tee "$work/compile.log"
status=${PIPESTATUS[0]}
# shellcheck disable=SC2046
record --build "$work/build" "compiler=nvcc $("$nvcc" --version | sed -n 's/.*, V//p') with $("$host" --version | head -n 1)" \
  "ran=all that includes Kokkos" "device=CUDA, sm_90; nothing run" $(counts_of "$work/compile.log")
[ "$status" -eq 0 ] || exit 1
note "Nothing was linked or run: that needs Kokkos' libraries for CUDA, and a GPU."
