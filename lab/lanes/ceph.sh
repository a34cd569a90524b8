# Sourced by lane: checkpoints in a bucket of Ceph's gateway, on the loopback device.
has_program python3 || skip "python3 is needed"
for one in ceph-mon ceph-osd radosgw radosgw-admin; do
  has_program $one || skip "there is no $one (on Debian: apt-get install ceph-mon ceph-osd radosgw)"
done
has_program mpirun || skip "there is no mpirun"
work=$keep/ceph
mkdir -p "$work"
if [ -n "$fresh" ]; then rm -rf "$work/build" "$work/venv"; fi
make_venv "$interop_requirements" "$work/venv" "$work/pip.log" || skip "boto3 does not come from PyPI (see $work/pip.log)"
build=${bin:+$bin/..}
if [ -z "$bin$bench" ]; then
  . "$root/lab/lanes/build.sh"
  build=$work/build bin=$work/build/bin
  leave_build_of_another_tree "$build"
  configure_for_tests "$build" -DCAIRN_FORTRAN=OFF ||
    { loud "FAILED: lane ceph: the configure step" && exit 1; }
  building "$work/build.log" nice cmake --build "$build" --parallel "$(cores)" --target bin/gray_scott bin/cairn ||
    { loud "FAILED: lane ceph: the build" && exit 1; }
fi
title "$(ceph-mon --version | sed 's/ (.*) / /')"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
OMPI_MCA_mpi_yield_when_idle=1 TF_CPP_MIN_LOG_LEVEL=3 TF_ENABLE_ONEDNN_OPTS=0 PYTHONPATH=$root/lab/campaigns nice "$work/venv/bin/python" -B \
  "$root/lab/lanes/ceph.py" "$place" "$bin" ${bench:+"$bench"} | tee "$work/run.log"
status=${PIPESTATUS[0]}
[ "$status" -ne 77 ] || skip "$(tail -n 1 "$work/run.log")"
[ -z "$bench" ] || exit "$status"
record --build "$build" "ran=$(sed -n 's/^ran: //p' "$work/run.log")" \
  "passed=$(grep -c '^right: ' "$work/run.log")" "failed=$(grep -c '^WRONG: ' "$work/run.log")"
exit "$status"
