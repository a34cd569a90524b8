#!/usr/bin/env bash
# Run by the lane plain as its user, in a clone in that user's home.
set -u
. "$(dirname "$0")/../../scripts/lib.sh"
. "$root/lab/lanes/build.sh"
. "$root/scripts/mpi-env.sh"
[ "$(id -u)" -ne 0 ] || die "this is for a user who is not root"
prefix=$HOME/.local outside=$root/tests/install work=$HOME/work
failures=0
rm -rf "$work" && mkdir -p "$work" || die "cannot make $work"

# step NAME COMMAND...: reports a failure; steps that do not depend on it go on.
step() {
  local name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    note "  $name"
  else
    loud "  FAILED: $name: $*" && tail -n 30 "$work/log"
    failures=$((failures + 1))
    return 1
  fi
}
# says WORDS COMMAND...: COMMAND must succeed and print these words
says() {
  local words=$1 text
  shift
  text=$("$@" 2>&1) && [[ $text == *"$words"* ]] || { echo "$text" && return 1; }
}
make_project() { cmake -S "$1" -B "$work/$2" -DCMAKE_PREFIX_PATH="$prefix" "${@:3}" && cmake --build "$work/$2"; }

title "$(id -un), $(c++ --version | head -n 1): built and installed as docs/building.md says"
quietly "$work/configure.log" cmake -S "$root" -B "$HOME/build" -G Ninja &&
  building "$work/build.log" cmake --build "$HOME/build" --parallel "$(cores)" &&
  quietly "$work/install.log" cmake --install "$HOME/build" --prefix "$prefix" || die "no installation was made"
export PATH=$prefix/bin:$PATH
pkg_config=$(dirname "$(find "$prefix" -name cairn_mpi.pc)")
step "cairn selftest" cairn selftest
step "find_package from C++" make_project "$outside/project" project -DCOMPONENTS=mpi &&
  step "one process" says "core works" "$work/project/core" "$work/core" &&
  step "ranks" says "mpi works" mpirun -n 2 "$work/project/mpi" &&
  step "the tool" says "ckpt" cairn ls "$work/core"
step "find_package from C" make_project "$outside/project_c" project_c -DCOMPONENTS=mpi &&
  step "ranks in C" says "many works" mpirun -n 2 "$work/project_c/many" "$work/many"
if has_program pkg-config; then
  export PKG_CONFIG_PATH=$pkg_config
  # shellcheck disable=SC2046
  step "pkg-config" mpicc "$outside/project_c/many.c" $(pkg-config --cflags --libs cairn_mpi) -o "$work/by_hand" &&
    step "ranks by pkg-config" says "many works" mpirun -n 2 "$work/by_hand" "$work/by-hand"
else
  loud "  SKIPPED: pkg-config is not here"
fi
# An unchanged example, outside of the clone.
mkdir -p "$work/howto" && cp "$root/examples/howto/main.cpp" "$work/howto"
cat >"$work/howto/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(howto LANGUAGES CXX)
find_package(Cairn REQUIRED COMPONENTS mpi)
add_executable(howto main.cpp)
target_link_libraries(howto PRIVATE Cairn::mpi)
END
step "an example" make_project "$work/howto" howto_build &&
  step "on 3 ranks" mpirun -n 3 "$work/howto_build/howto" "$work/run" bundle &&
  step "again, on 2" mpirun -n 2 "$work/howto_build/howto" "$work/run" bundle

title "The preset core: neither MPI, Kokkos, HDF5, Fortran nor Python"
step "configured" cmake -S "$root" --preset core -B "$HOME/core" &&
  step "built" cmake --build "$HOME/core" --parallel "$(cores)" &&
  step "cairn selftest" "$HOME/core/bin/cairn" selftest &&
  step "its tool" says "whole" "$HOME/core/bin/cairn" verify "$work/core"

if python3 -m venv "$work/venv" >"$work/log" 2>&1; then
  title "The Python package, in a virtual environment and in the user's own place"
  pip=(-m pip --disable-pip-version-check --no-input)
  export CMAKE_BUILD_PARALLEL_LEVEL=$(cores)
  if ! "$work/venv/bin/python" "${pip[@]}" download --quiet --no-deps --dest "$work" pip >"$work/log" 2>&1; then
    loud "  SKIPPED: PyPI cannot be reached"
  elif step "pip wheel" "$work/venv/bin/python" "${pip[@]}" wheel --no-deps --wheel-dir "$work" "$root" &&
    step "pip install" "$work/venv/bin/python" "${pip[@]}" install "$work"/cairn_checkpoint-*.whl; then
    step "python in the environment" says "one works" "$work/venv/bin/python" "$outside/project_python/one.py" "$work/python"
    step "its tool" says "whole" "$work/venv/bin/cairn" verify "$work/core"
    # Debian's pip must be told that this is intended.
    step "pip install --user" env PYTHONUSERBASE="$HOME/python-user" PIP_BREAK_SYSTEM_PACKAGES=1 \
      python3 "${pip[@]}" install --user "$work"/cairn_checkpoint-*.whl &&
      step "python" env PYTHONUSERBASE="$HOME/python-user" \
        bash -c 'exec python3 "$@"' - "$outside/project_python/one.py" "$work/python-user"
    # As on a machine with neither MPI nor HDF5.
    step "pip install without MPI" "$work/venv/bin/python" "${pip[@]}" install --no-deps --force-reinstall \
      --config-settings=cmake.define.CMAKE_DISABLE_FIND_PACKAGE_MPI=ON \
      --config-settings=build-dir="$HOME/light" "$root" &&
      step "what it says" says "light works" "$work/venv/bin/python" "$outside/project_python/light.py" "$work/light" &&
      step "its tool" says "whole" "$work/venv/bin/cairn" verify "$work/core"
  fi
else
  loud "SKIPPED: the Python package: python3 makes no virtual environment"
fi

ran="built, installed and used as docs/building.md says; tests of units, MPI and an installation"
[ $failures -eq 0 ] || ran+="; $failures steps failed"
title "Tests: unit, MPI, an installation"
configure_for_tests "$HOME/dev" && build_and_test "$HOME/dev" -L '^(unit|mpi|install)$' || failures=$((failures + 1))
leave_record "$HOME" "$HOME/dev" "$ran"
[ $failures -eq 0 ]
