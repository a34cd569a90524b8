# Sourced, after lib.sh, by the scripts in lanes: a build for tests.
export CCACHE_SLOPPINESS=pch_defines,time_macros

# configure_for_tests BUILD [CMAKE OPTION...]
configure_for_tests() {
  local build=$1 clang=()
  shift
  if has_program clang++; then clang=(-DCAIRN_TEST_COMPILER=clang++); fi
  if has_program ld.lld; then clang+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld); fi
  mkdir -p "$build"
  quietly "$build/configure.log" cmake -S "$root" --preset dev -B "$build" ${clang[@]+"${clang[@]}"} \
    -DCAIRN_PRECOMPILE=ON -DCAIRN_TOOL_FLAGS=-O0 \
    -DCAIRN_TEST_FLAGS=-O0 -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g0" "$@" || return 1
  sed -n '/-- Cairn /,/-- Configuring/{/Configuring/!p}' "$build/configure.log"
}

# build_and_test BUILD CTEST ARGUMENT...: builds all that is installed and the programs of these
# tests, and runs the tests.
build_and_test() {
  local build=$1 targets
  shift
  rm -f "$build/results.xml"
  targets=$(ctest --test-dir "$build" "$@" --show-only=json-v1 | python3 -c '
import json, sys
from pathlib import Path
build = Path(sys.argv[1])
tests = json.load(sys.stdin)["tests"]
words = {word for test in tests for text in test.get("command", []) for word in text.replace(";", " ").split()}
# CTest names no command of a program that is not built yet.
words |= {"bin/" + test["name"].split(".")[0] for test in tests if "command" not in test}
text = (build / "build.ninja").read_text()
campaigns = ["bin/campaign_real"] if any("/campaigns/" in word for word in words) else []
for name in [*campaigns, "src/all", "mpi/all", "python/all", "fortran/all", "examples/all",
             *(word.removeprefix(f"{build}/") for word in sorted(words))]:
    if f"\nbuild {name}:" in text:
        print(name)' "$build") || return 1
  # shellcheck disable=SC2086
  building "$build/build.log" cmake --build "$build" --parallel "$(cores)" --target $targets || return 1
  ctest --test-dir "$build" "$@" --parallel 2 --output-on-failure --no-tests=error --output-junit "$build/results.xml"
}

# leave_record FOLDER BUILD RAN: a record of the tests that build_and_test ran, for the lane.
leave_record() {
  [ -e "$2/results.xml" ] || return 0
  python3 -B "$root/lab/lanes/record.py" write "$1/record.json" --build "$2" --results "$2/results.xml" "ran=$3" \
    lane=inside command=inside
}
