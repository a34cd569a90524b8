#!/bin/sh
# cases.sh CASE PROGRAM DIRECTORY LAUNCHER...: trains on several meshes of ranks and compares.
set -eu
case=$1 program=$2 work=$3
shift 3
launcher=$*
rm -rf "$work"
mkdir -p "$work"
# The test has its own text, since that of the system may be any.
corpus=$work/text
mkdir "$corpus"
awk 'BEGIN { for (i = 0; i < 600; ++i) print "Line", i, "of a text with", i * i % 97, "words." }' \
  >"$corpus/lines"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# on MESH ARGUMENT...: runs the program; its errors go to $work/errors.
on() {
  mesh=$1
  shift
  $launcher $((${mesh%x*} * ${mesh#*x})) "$program" --mesh "$mesh" --text "$corpus" "$@" \
    2>"$work/errors"
}
# same WHAT A B
same() {
  [ -n "$2" ] || fail "$1: nothing came out; $(cat "$work/errors")"
  [ "$2" = "$3" ] || fail "$1: '$2' is not '$3'"
}
# refused TEXT MESH ARGUMENT...: expects exit status 1 and one message with this text.
refused() {
  text=$1
  shift
  if on "$@" >"$work/output"; then fail "accepted: $*"; fi
  count=$(grep -c -e "$text" "$work/errors") || fail "no '$text' in: $(cat "$work/errors")"
  same "lines with '$text'" "$count" 1
}
last_loss() { grep '^step ' | tail -n 1; }
newest() { sed -n 's/^model_checkpoint_path: "ckpt-\([0-9]*\)"$/\1/p' "$work/run/checkpoint"; }

# killed MESH STEP: trains without an end, and kills one rank with kill -9 once STEP is saved.
killed() {
  rm -f "$work/lines" "$work"/pid.*
  mkfifo "$work/lines"
  $launcher $((${1%x*} * ${1#*x})) sh -c 'echo $$ >"$0/pid.$$"; exec "$@"' "$work" "$program" \
    --mesh "$1" --text "$corpus" $run --losses "$work/losses" --steps 1000000 >"$work/lines" \
    2>"$work/errors" &
  started=$!
  while read -r line; do
    echo "$line" >>"$work/said"
    if [ "$line" = "saved step $2" ]; then kill -9 "$(cat "$work"/pid.* | tail -n 1)"; fi
  done <"$work/lines"
  if wait $started; then fail "a killed job succeeded"; fi
  [ "$(newest)" -ge "$2" ] || fail "newest is '$(newest)', not $2: $(cat "$work/errors")"
}

case $case in
same_losses_on_any_mesh)
  expected=$(on 1x1 --steps 6)
  same "lines" "$(echo "$expected" | grep -c '^step .* loss 0x')" 6
  # Some meshes do not divide the heads or lanes, and some ranks have none.
  for mesh in 2x2 1x3 4x1 5x1 1x5; do
    same "$mesh" "$(on $mesh --steps 6)" "$expected"
  done
  ;;
killed_and_resumed)
  run="--checkpoint-dir $work/run --checkpoint-every 3"
  killed 2x2 6
  # The next job completes saves that were in flight: it may begin 6 steps after the newest.
  killed 1x3 $(($(newest) + 9))
  steps=$(($(newest) + 8))
  output=$(on 4x1 $run --losses "$work/losses" --steps $steps)
  same "three lives" "$(grep -c '^restored step' "$work/said") $(echo "$output" |
    grep -c '^restored step')" "1 1"
  on 1x1 --losses "$work/undisturbed" --steps $steps
  # Lost steps have been done again, with the same loss both times.
  grep -E "^step [0-9]+ loss" "$work/losses" | sort -u | sort -k 2n | head -n $steps >"$work/once"
  cmp "$work/once" "$work/undisturbed" || fail "the losses are not those of an undisturbed run"
  ;;
flipped_bit_is_named)
  run="--checkpoint-dir $work/run --checkpoint-every 3"
  on 4x1 $run --steps 3 >"$work/output"
  # The bit flips before the step that is saved, and is detected nevertheless.
  refused "tensor 'model/embedding/.*(rank 2 differs from ranks 0, 1, 3, .* rows 0..0" \
    4x1 $run --steps 12 --inject-fault 2:5
  same "newest" "$(newest)" 3
  # On a 2 x 2 mesh both data and tensor ranks hold this weight.
  refused "tensor 'model/embedding/.*(rank 1 differs from ranks 0, 2, 3, .* rows 0..0" \
    2x2 $run --steps 12 --inject-fault 1:6
  same "newest" "$(newest)" 3
  expected=$(on 1x1 --steps 9 | last_loss)
  same "without the fault" "$(on 2x2 $run --steps 9 | last_loss)" "$expected"
  ;;
stopped_and_resumed)
  run="--checkpoint-dir $work/run --stop"
  mkdir "$work/run"
  touch "$work/run/STOP"
  status=0
  output=$(on 2x2 $run --steps 1000000) || status=$?
  same "exit status" $status 76
  same "last line" "$(echo "$output" | tail -n 1)" "stopped at step 2: file $work/run/STOP"
  same "newest" "$(newest)" 2
  expected=$(on 1x1 --steps 4 | last_loss)
  same "afterwards" "$(on 1x3 $run --steps 4 | last_loss)" "$expected"
  ;;
bad_arguments)
  $launcher 2 "$program" --mesh 1x3 >"$work/output" 2>"$work/errors" && fail "a wrong mesh"
  grep -q "mesh has not the ranks" "$work/errors" || fail "said: $(cat "$work/errors")"
  $launcher 2 "$program" --mesh 2 >"$work/output" 2>"$work/errors" && fail "half a mesh"
  grep -q "mesh: .*2 required but received 1" "$work/errors" || fail "$(cat "$work/errors")"
  mkdir "$work/empty"
  corpus=$work/empty
  refused "no text in $work/empty" 1x2 --steps 1
  ;;
*) fail "no case $case" ;;
esac
