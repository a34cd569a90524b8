# Sourced by demos and the kill campaign: starts MPI jobs of an example and kills them. Needs
# lib.sh. $program is the example, $checkpoints the directory that it saves to.
export OMPI_MCA_hwloc_base_binding_policy=none        # several jobs must not share one core
export PRTE_MCA_bindto=none                           # Open MPI 6 calls it so
export OMPI_MCA_btl_vader_single_copy_mechanism=none  # needs a right that containers often lack
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_PROC_BIND=${OMP_PROC_BIND:-false}
job='' job_limit_seconds=240

# Ends the job that was started, if the script itself is ended.
end_job() {
  [ -z "$job" ] || { kill "$job" && wait "$job"; } 2>/dev/null
  job=''
}
trap end_job EXIT
trap 'exit 130' INT TERM

# start_job LOG RANKS ARGUMENT...: starts a job in the background; standard error goes to LOG.err.
start_job() {
  log=$1 ranks=$2
  shift 2
  : >"$log"
  mpirun -np "$ranks" "$program" "$@" </dev/null >>"$log" 2>"$log.err" &
  job=$!
  job_deadline=$((SECONDS + job_limit_seconds))
}

# Ends the script if a job runs too long: a job that hangs is a defect, and nobody waits for it.
check_deadline() {
  [ $SECONDS -lt $job_deadline ] || die "The job on $ranks ranks hangs; see $log and $log.err"
}
job_runs() { kill -0 "$job" 2>/dev/null; }

# Waits for the end of the job; sets job_status.
finish_job() {
  while job_runs; do
    check_deadline
    pause
  done
  wait "$job" 2>/dev/null
  job_status=$?
  job=''
}
pause() { sleep 0.02; }

# Sets pids to the processes of the job's ranks, by rank. While there are fewer than $ranks, it is
# still starting.
find_ranks() {
  local stat line rest name=${program##*/} found=() pid parent
  local -A parents=()
  pids=()
  for stat in /proc/[0-9]*/stat; do
    { IFS= read -r line <"$stat"; } 2>/dev/null || continue
    pid=${line%% *}
    rest=${line##*") "}  # "STATE PARENT ..."
    parent=${rest#* }
    parents[$pid]=${parent%% *}
    line=${line#*"("}
    if [ "${line%")"*}" = "${name:0:15}" ] && [ "${rest%% *}" != Z ]; then found+=("$pid"); fi
  done
  for pid in ${found[@]+"${found[@]}"}; do
    parent=${parents[$pid]}
    while [ "${parent:-0}" -gt 1 ] && [ "$parent" != "$job" ]; do parent=${parents[$parent]:-0}; done
    if [ "$parent" = "$job" ] && rank_of "$pid"; then pids[$rank]=$pid; fi
  done
  return 0
}
rank_of() {
  local entry
  while IFS= read -r -d '' entry; do
    case $entry in OMPI_COMM_WORLD_RANK=* | PMIX_RANK=* | PMI_RANK=*) rank=${entry#*=} && return 0 ;; esac
  done 2>/dev/null <"/proc/$1/environ"
  return 1
}

# Waits until every rank of the job exists. Fails if the job ends before that.
await_ranks() {
  while find_ranks && [ ${#pids[@]} -lt "$ranks" ]; do
    job_runs || return 1
    check_deadline
    pause
  done
}

# random BELOW: sets number to 0 .. BELOW-1. RANDOM is seeded by the scripts.
random() { number=$(((RANDOM * 32768 + RANDOM) % $1)); }

# The highest step that has an index, which makes a checkpoint visible; 0 if there is none.
saved_step() {
  local index step
  newest=0
  for index in "$checkpoints"/*.index "$checkpoints"/*.h5; do
    step=${index##*-}
    step=${step%.*}
    [ -e "$index" ] && [ "$step" -gt "$newest" ] && newest=$step
  done 2>/dev/null
  return 0
}

# Sets parts to the data files of saves that are not committed. An owner's staging directory alone
# is no sign of a save.
parts_of_saves() {
  local file
  parts=()
  for file in "$checkpoints"/*_temp_*/{part-*,part.h5,*.part-*}; do
    [ -e "$file" ] && parts+=("$file")
  done
  return 0
}

# The last `digest HEX step S` and `restored step S ...` of a log.
digest_of() { grep -E '^digest [0-9a-fA-F]+ step [0-9]+$' "$1" | tail -n 1; }
restored_of() { sed -n 's/^restored step \([0-9]*\).*/\1/p' "$1" | head -n 1; }

# check_format: ends the script unless $format is valid; sets format_packages to the packages that
# it needs besides the others.
check_format() {
  case $format in
    bundle) format_packages=() hdf5=OFF ;;
    hdf5) format_packages=(libhdf5-openmpi-dev hdf5-tools) hdf5=ON ;;
    *) die "--format is bundle or hdf5, not $format" ;;
  esac
}

# build_programs [EXAMPLE]: sets program (by default the Gray-Scott example) and cairn.
build_programs() {
  local example=${1:-gray_scott}
  title "Building"
  local start=$SECONDS
  mkdir -p "$build"
  quietly "$build/configure.log" cmake -S "$root" --preset release -B "$build" -DCAIRN_MPI=ON -DCAIRN_KOKKOS=ON -DCAIRN_HDF5=$hdf5 \
    -DCAIRN_FORTRAN=OFF -DCAIRN_QUICK=ON -DCAIRN_PRECOMPILE=ON -DCMAKE_UNITY_BUILD=ON ||
    die "the configure step failed"
  building "$build/build.log" cmake --build "$build" --parallel "${jobs:-$(cores)}" \
    --target "$example" cairn_cli || die "the build failed"
  note "built in $(since $start)"
  program=$build/bin/$example cairn=$build/bin/cairn
}
