#!/bin/sh
# cases.sh CASE PROGRAM DIRECTORY LAUNCHER...: runs gray_scott on several rank counts and compares.
set -eu
case=$1 program=$2 work=$3
shift 3
launcher=$*
rm -rf "$work"
mkdir -p "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# on RANKS ARGUMENT...: runs the program; its errors go to $work/errors.
on() {
  ranks=$1
  shift
  $launcher "$ranks" "$program" "$@" 2>"$work/errors"
}
# same WHAT A B
same() {
  [ -n "$2" ] || fail "$1: nothing came out; $(cat "$work/errors")"
  [ "$2" = "$3" ] || fail "$1: '$2' is not '$3'"
}
# refused TEXT RANKS ARGUMENT...: expects exit status 1 and one message with this text.
refused() {
  text=$1
  shift
  if on "$@" >"$work/output"; then fail "accepted: $*"; fi
  count=$(grep -c -e "$text" "$work/errors") || fail "no '$text' in: $(cat "$work/errors")"
  same "lines with '$text'" "$count" 1
}

case $case in
any_ranks_same_bits)
  expected=$(on 1 --size 65 --steps 60 --digest)
  for ranks in 2 3 4 7; do
    same "$ranks ranks" "$(on $ranks --size 65 --steps 60 --digest)" "$expected"
  done
  expected=$(on 1 --size 3 --steps 20 --digest)  # ranks without a cell
  same "7 ranks for 3 rows" "$(on 7 --size 3 --steps 20 --digest)" "$expected"
  same "another step" "$(on 1 --size 65 --steps 0 --digest | sed 's/.* step/step/')" "step 0"
  ;;
rebalanced)
  expected=$(on 1 --size 65 --steps 60 --digest)
  same "by the clock" "$(on 3 --size 65 --steps 60 --rebalance 7 --digest | tail -n 1)" "$expected"
  for ranks in 3 4; do
    output=$(on $ranks --size 65 --steps 60 --rebalance 7 --slow 1 --digest)
    same "a slow rank in turn" "$(echo "$output" | tail -n 1)" "$expected"
    moves=$(echo "$output" | grep -c '^rebalanced at step [0-9]*, [1-9][0-9]* bytes moved$')
    same "moves" "$moves" 8
  done
  # Changed blocks are saved, and restored into other blocks.
  run="--size 65 --checkpoint-dir $work/run --checkpoint-every 10 --rebalance 4 --slow 0 --digest"
  on 4 $run --steps 30 >"$work/output"
  output=$(on 3 $run --async --steps 50)
  same "newest" "$(echo "$output" | head -n 1)" "restored step 30 from $work/run/ckpt-30"
  output=$(on 2 $run --steps 60)
  same "after --async" "$(echo "$output" | head -n 1)" "restored step 50 from $work/run/ckpt-50"
  same "after all of it" "$(echo "$output" | tail -n 1)" "$expected"
  same "ranks without a cell" "$(on 7 --size 3 --steps 20 --rebalance 3 --slow 2 --digest |
    tail -n 1)" "$(on 1 --size 3 --steps 20 --digest)"
  refused "slow requires --rebalance" 3 --slow 1
  ;;
restart_on_other_ranks)
  run="--size 50 --checkpoint-dir $work/run --checkpoint-every 10 --max-to-keep 2 --digest"
  expected=$(on 1 --size 50 --steps 60 --digest)
  same "a save" "$(on 4 $run --steps 30 | grep -c '^saved step')" 3
  output=$(on 3 $run --steps 60)
  same "newest" "$(echo "$output" | head -n 1)" "restored step 30 from $work/run/ckpt-30"
  same "3 ranks after 4" "$(echo "$output" | tail -n 1)" "$expected"
  output=$(on 7 $run --steps 60 --restart 50)
  same "a step" "$(echo "$output" | head -n 1)" "restored step 50 from $work/run/ckpt-50"
  same "7 ranks after 3" "$(echo "$output" | tail -n 1)" "$expected"
  same "kept" "$(ls "$work/run" | grep -c '\.index$')" 2
  refused "no checkpoint .*ckpt-30" 2 $run --restart 30
  refused "step 50 exists" 2 --size 50 --checkpoint-dir "$work/run" --checkpoint-every 50 \
    --restart none
  ;;
killed_and_restarted | killed_async | killed_in_bucket)
  home=$work/run
  if [ $case = killed_in_bucket ]; then
    # The server says its port, and ends with its standard input, which is open as long as this.
    mkfifo "$work/port" "$work/end"
    "$S3_SERVER" <"$work/end" >"$work/port" &
    exec 3>"$work/end"
    read -r port <"$work/port"
    export AWS_ENDPOINT_URL="http://127.0.0.1:$port" AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=key \
      AWS_SECRET_ACCESS_KEY=secret
    home=s3://bucket/run
  fi
  run="--size 50 --checkpoint-dir $home --checkpoint-every 10 --digest"
  if [ $case = killed_async ]; then run="$run --async"; fi
  # One rank is killed with kill -9 as soon as rank 0 has reported that step 20 is saved.
  mkfifo "$work/lines"
  $launcher 4 sh -c 'echo $$ >"$0/pid.$$"; exec "$@"' "$work" "$program" $run --steps 1000000 \
    >"$work/lines" 2>"$work/errors" &
  started=$!
  while read -r line; do
    if [ "$line" = "saved step 20" ]; then
      kill -9 "$(cat "$work"/pid.* | tail -n 1)"
    fi
    case $line in "saved step "*) newest=${line#saved step } ;; esac
  done <"$work/lines"
  if wait $started; then fail "a killed job succeeded"; fi
  if [ $case != killed_in_bucket ]; then
    newest=$(sed -n 's/^model_checkpoint_path: "ckpt-\([0-9]*\)"$/\1/p' "$work/run/checkpoint")
  fi
  [ "${newest:-0}" -ge 20 ] || fail "newest is '${newest:-}'"
  steps=$((newest + 40))
  expected=$(on 1 --size 50 --steps $steps --digest)
  output=$(on 3 $run --steps $steps)
  restored=$(echo "$output" | sed -n 's/^restored step \([0-9]*\) from .*/\1/p')
  [ "${restored:-0}" -ge "$newest" ] || fail "restored '$restored', newest is $newest"
  same "after a kill" "$(echo "$output" | tail -n 1)" "$expected"
  ;;
stopped)
  run="--size 50 --checkpoint-dir $work/run --stop --digest"
  # stops CODE TEXT RANKS ARGUMENT...: expects this exit code, and the reason in the last line.
  stops() {
    wanted=$1 text=$2
    shift 2
    code=0
    on "$@" >"$work/output" || code=$?
    same "exit code for $text" "$code" "$wanted"
    tail -n 1 "$work/output" | grep -q -e "$text" || fail "no '$text' in: $(cat "$work/output")"
  }
  mkdir "$work/run"
  touch "$work/run/STOP"
  stops 76 "stopped at step 2: file $work/run/STOP" 3 $run --steps 1000000
  [ ! -e "$work/run/STOP" ] || fail "the file STOP is still there"
  export SLURM_JOB_END_TIME=1000000000  # before the job began: the clock would be wrong
  on 2 $run --steps 6 >"$work/output" 2>"$work/errors" || fail "exit code $?: $(cat "$work/output" "$work/errors")"
  same "how often the clock is said to be wrong" 1 \
    "$(grep -c "time limit, 2001-09-09 01:46:40 UTC, is not looked at: by the clock of $(uname -n)" "$work/errors")"
  unset SLURM_JOB_END_TIME
  # One rank is asked to stop as soon as rank 0 has reported that step 20 is saved.
  for how in "" --async; do
    mkfifo "$work/lines$how"
    $launcher 4 sh -c 'echo $$ >"$0/pid.$$"; exec "$@"' "$work" "$program" $run $how \
      --checkpoint-every 10 --steps 1000000 >"$work/lines$how" 2>"$work/errors" &
    started=$!
    asked=
    while read -r line; do
      case $line in
      "saved step "*)
        [ -n "$asked" ] || kill -USR2 "$(ls "$work"/pid.* | tail -n 1 | sed 's/.*pid\.//')"
        asked=yes
        ;;
      esac
      last=$line
    done <"$work/lines$how"
    code=0
    wait $started || code=$?
    same "exit code after a signal" "$code" 75
    step=$(echo "$last" | sed -n 's/^stopped at step \([0-9]*\): SIGUSR2 on rank [0-3]$/\1/p')
    [ -n "$step" ] || fail "the last line is '$last'"
    newest=$(sed -n 's/^model_checkpoint_path: "ckpt-\([0-9]*\)"$/\1/p' "$work/run/checkpoint")
    same "newest after a signal" "$newest" "$step"
    rm "$work"/pid.*
  done
  steps=$((newest + 40))
  expected=$(on 1 --size 50 --steps $steps --digest)
  same "after four stops" "$(on 3 $run --mtbf 1000 --steps $steps | tail -n 1)" "$expected"
  refused "stop requires --checkpoint-dir" 3 --stop
  ;;
bad_arguments)
  refused "size: Value 0 not in range" 3 --size 0
  refused "restart: (foo not in {auto,none})" 3 --restart foo --checkpoint-dir "$work"
  refused "restart requires --checkpoint-dir" 3 --restart 3
  refused "format: .* not in {bundle.*}" 3 --format hdf4
  refused "checkpoint-every requires --checkpoint-dir" 2 --checkpoint-every 3
  on 2 --help | grep -q -e "--checkpoint-every" || fail "no usage text"
  ;;
wrong_size)
  on 2 --size 20 --steps 5 --checkpoint-dir "$work/run" --checkpoint-every 5 >"$work/output"
  refused "tensor 'u'.*\[20 20\]" 3 --size 21 --steps 10 --checkpoint-dir "$work/run"
  touch "$work/file"
  refused "$work/file" 2 --size 20 --checkpoint-dir "$work/file/run"
  ;;
*) fail "no case $case" ;;
esac
