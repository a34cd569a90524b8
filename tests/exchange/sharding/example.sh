#!/bin/sh
# Runs the example as its users do: its output is what its page shows. usage: example.sh PROGRAM
# WORK_DIRECTORY
set -eu
program=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
"$program" "$work/run" >"$work/printed"
cat >"$work/expected" <<'END'
the default, one shard a task
  file 0:  bias  half  note  step  weights
MaxShardSizePolicy(100'000)
  file 0:  bias  half  note  step  weights[339 64]
  file 1:  weights[390 64]
  file 2:  weights[271 64]
AllInOne
  file 0:  bias  half  note  step  weights
PerDevicePolicy
  file 0:  half  note  step  weights
  file 1:  bias
ParameterPolicy(3)
  file 0:  bias[213]  half  weights[333 64]
  file 1:  bias[214]  weights[334 64]
  file 2:  bias[213]  note  step  weights[333 64]
END
diff -u "$work/expected" "$work/printed"
if "$program" 2>"$work/complaint"; then
  echo "it took no directory for one"
  exit 1
fi
grep -q 'usage: sharding_policies DIRECTORY' "$work/complaint"
rm -rf "$work"
