# Sourced by lane: the codecs and the crash tests for 64-bit Arm, run by qemu's user-mode emulation.
cross=aarch64-linux-gnu
has_program $cross-g++ || skip "there is no cross compiler (on Debian: apt-get install g++-$cross)"
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) ||
  skip "there is no emulator (on Debian: apt-get install qemu-user-static)"
has_program apt-get && has_program dpkg-deb || skip "libraries for Arm come by apt"

work=$keep/aarch64 libraries=$keep/aarch64/libraries
mkdir -p "$work"
if [ -n "$fresh" ]; then rm -rf "$libraries" "$work/build"; fi

# Uses this machine's suite, but for Arm; nothing of it is installed here.
fetch_libraries() {
  local mirror suite state=$work/apt options
  [ ! -e "$libraries/fetched" ] || return 0
  mirror=$(debian_mirror) suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  [ -n "$mirror" ] && [ -n "$suite" ] || return 1
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  : >"$state/status"
  echo "deb $mirror $suite main" >"$state/sources.list"
  options=(-o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$state/lists" -o Dir::State::Status="$state/status" -o Dir::Cache="$state/cache"
    -o APT::Sandbox::User= -o Acquire::Check-Valid-Until=false -o APT::Architecture=arm64
    -o APT::Architectures=arm64 -o Acquire::Languages=none)
  (cd "$state" && rm -f ./*.deb && quietly "$work/apt.log" apt-get "${options[@]}" update &&
    quietly "$work/apt.log" apt-get "${options[@]}" download libprotobuf-dev libprotobuf32 libprotobuf-lite32 \
      libsnappy-dev libsnappy1v5 libisal-dev libisal2 zlib1g zlib1g-dev libgtest-dev libgmock-dev \
      nlohmann-json3-dev libcli11-dev && rm -rf "$libraries" &&
    for package in ./*.deb; do dpkg-deb -x "$package" "$libraries" || exit 1; done &&
    # Some of Debian's CMake packages have absolute paths.
    grep -rl --include='*.cmake' '"/usr[/"]' "$libraries/usr" | xargs -r sed -i "s|\"/usr\([/\"]\)|\"$libraries/usr\1|g" &&
    touch "$libraries/fetched")
}
fetch_libraries || skip "libraries for Arm could not be fetched (see $work/apt.log)"

cat >"$work/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER $cross-gcc)
set(CMAKE_CXX_COMPILER $cross-g++)
set(CMAKE_FIND_ROOT_PATH $libraries /usr/$cross)
set(CMAKE_LIBRARY_ARCHITECTURE $cross)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR $emulator -L /usr/$cross -E LD_LIBRARY_PATH=$libraries/usr/lib/$cross)
END
tests=(test_base test_model test_format test_protect test_commit test_crash)
title "$($cross-g++ --version | head -n 1), $("$emulator" --version | head -n 1)"
leave_build_of_another_tree "$work/build"
quietly "$work/configure.log" nice cmake -S "$root" -B "$work/build" -G Ninja \
  -DCMAKE_TOOLCHAIN_FILE="$work/toolchain.cmake" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g0" -DCAIRN_DEVELOPER=ON -DCAIRN_TESTS=ON -DCAIRN_EXAMPLES=OFF \
  -DCAIRN_MPI=OFF -DCAIRN_KOKKOS=OFF -DCAIRN_FORTRAN=OFF -DCMAKE_UNITY_BUILD=ON ||
  { loud "FAILED: lane aarch64: the configure step" && exit 1; }
NINJA_STATUS='[%f/%t] ' building "$work/build.log" nice cmake --build "$work/build" --target "${tests[@]}" \
  --parallel "$(cores)" || { loud "FAILED: lane aarch64: the build" && exit 1; }
# All states that scripts/test tries would take more than an hour.
export CAIRN_STATE_STRIDE=${CAIRN_STATE_STRIDE:-11}
title "${tests[*]}, emulated, every ${CAIRN_STATE_STRIDE}th crash state"
start=$SECONDS
nice ctest --test-dir "$work/build" -R "^($(IFS='|' && echo "${tests[*]}"))(\$|[.])" --parallel "$(cores)" \
  --output-on-failure --no-tests=error --timeout 7200 --output-junit "$work/results.xml"
status=$?
record --build "$work/build" --results "$work/results.xml" "ran=codecs, commit, crashes" \
  "system=64-bit Arm, emulated by qemu $("$emulator" --version | sed -n '1s/.*version \([0-9.]*\).*/\1/p')"
note "$(sed -nE 's/^\[ STATES   \] .*: ([0-9]+) crash states.*/\1/p' "$work/build/Testing/Temporary/LastTest.log" |
  awk '{ all += $1 } END { print all + 0 }') crash states were tried"
title "lane aarch64 ended with status $status after $(since $start)"
exit $status
