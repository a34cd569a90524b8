# Sourced by fault: real processes under mpirun, of whose system calls one fails (a preloaded
# library, lab/campaigns/programs/faulty_calls.cpp). Needs lib.sh; $place, $bin, $library, $seeds.

export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_bindto=none OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none  # containers often forbid what it needs

# pick NAME VALUE...: sets the variable to one of the values, by $RANDOM.
pick() {
  local -n chosen=$1
  shift
  local all=("$@")
  chosen=${all[$((RANDOM % $#))]}
}

# run_job LOG RANKS ARGUMENT...: runs a job and ends it after two minutes. Returns its status. If
# $preload is set, its ranks preload that library.
run_job() {
  local log=$1 ranks=$2
  shift 2
  timeout -k 5 120 mpirun -np "$ranks" ${preload:+env "LD_PRELOAD=$preload"} "$bin/campaign_real" \
    "$@" </dev/null >"$log" 2>"$log.err"
}

# steps_of WORD LOG: the steps of its lines "WORD STEP SALT".
steps_of() { sed -nE "s/^$1 ([0-9]+)( .*)?\$/\1/p" "$2"; }

# Prints what is wrong after the job.
judge_real() {
  local log=$1 restart=$2 directory=$3 status=$4 kind=$5 last restored left
  [ "$status" -eq 0 ] || echo "the job ended with $status"
  [ "$status" -ne 124 ] || echo "it hangs"
  grep -h '^wrong' "$log" "$restart"
  grep -q '^done' "$log" || echo "the job is not done"
  case $kind in
    short | interrupted) grep '^failed' "$log" ;;
    hang | gone) ;;
    # A commit that was not known to be durable has become so by the time it is made again.
    *) [ "$(grep '^failed' "$log" | grep -vc already_exists)" -le 1 ] || echo "more than one call failed" ;;
  esac
  last=$(steps_of acknowledged "$log" | tail -n 1)
  restored=$(steps_of restored "$restart")
  [ "${restored:--1}" -ge "${last:-0}" ] || echo "step ${last:-0} is lost, ${restored:-nothing} was restored"
  grep -q '^done' "$restart" || echo "the restart is not done"
  grep '^failed' "$restart"
  left=$(ls -A "$directory" | grep -e _temp_ -e .part_ -e .aside_ -e '\.tmp')
  [ -z "$left" ] || echo "left over:" $left
  # A job that gave up its first save leaves nothing to verify.
  [ ! -x "$bin/cairn" ] || [ -z "$(ls "$directory")" ] || "$bin/cairn" verify "$directory" >"$restart.verify" 2>&1 ||
    echo "cairn verify finds damage; see $restart.verify"
}

real_campaign() {
  local first=${seeds%-*} last=${seeds#*-}
  local seed ranks next kind at rank format mode limit wrong status
  local cases=0 faults=0 failed=0 findings=0
  rm -rf "$place" && mkdir -p "$place" || die "cannot make $place"
  for ((seed = first; seed <= last; ++seed)); do
    RANDOM=$((seed * 7919 % 32768))
    pick ranks 1 2 3 && pick next 1 2 3 && rank=$((RANDOM % ranks)) at=$((RANDOM % 450))
    [ "$rank" -eq 0 ] || at=$((at % 60))
    pick kind io no_space quota stale read_only done_but_fails short interrupted hang gone
    pick format '' --hdf5 && pick mode '' --async
    limit=''
    [ $kind != hang ] || limit='--limit 0.5'
    [ $kind != gone ] || limit='--limit 0.5 --give-up'
    rm -rf "$place/run" && mkdir "$place/run"
    rm -f "$place/happened"
    CAIRN_FAULT_BELOW=$place/run CAIRN_FAULT_AT=$at CAIRN_FAULT_KIND=$kind CAIRN_FAULT_SECONDS=2 \
      CAIRN_FAULT_RANK=$rank CAIRN_FAULT_LOG=$place/happened preload=$library \
      run_job "$place/job.log" $ranks "$place/run" 4 $format $mode $limit
    status=$?
    run_job "$place/restart.log" $next "$place/run" 0
    cases=$((cases + 1))
    [ ! -s "$place/happened" ] || faults=$((faults + 1))
    ! grep -q '^failed' "$place/job.log" || failed=$((failed + 1))
    wrong=$(judge_real "$place/job.log" "$place/restart.log" "$place/run" $status $kind)
    [ -n "$wrong" ] || continue
    findings=$((findings + 1))
    rm -rf "$place/finding-$seed" && mkdir "$place/finding-$seed" &&
      cp -r "$place"/run "$place"/*.log* "$place/finding-$seed/"
    loud "seed $seed: $ranks ranks$([ -z "$format$mode" ] || echo ", $format $mode"):" \
      "$(cat "$place/happened" 2>/dev/null || echo "$kind at $at of rank $rank, which did not happen")"
    printf '   %s\n' "$wrong" | head -n 12
    note "again: scripts/campaign fault --real --seeds $seed-$seed; kept: $place/finding-$seed"
  done
  title "Result ($(since 0))"
  local row='%10s %10s %10s %10s\n'
  printf "$row" jobs faults 'failed' findings
  printf "$row" $cases $faults $failed $findings
  [ $faults -gt 0 ] || loud "no fault has happened, so these jobs tell nothing"
  [ $findings -eq 0 ] && [ $faults -gt 0 ]
}
