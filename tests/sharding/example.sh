#!/bin/sh
# The example as its users run it: what it prints is what its page says.
# usage: example.sh PROGRAM WORK_DIRECTORY
set -eu
program=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
"$program" "$work/run" >"$work/printed"
cat >"$work/expected" <<'END'
END
diff -u "$work/expected" "$work/printed"
if "$program" 2>"$work/complaint"; then
  echo "it took no directory for one"
  exit 1
fi
grep -q 'usage: sharding_policies DIRECTORY' "$work/complaint"
rm -rf "$work"
