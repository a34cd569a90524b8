#!/bin/sh
# sharing.sh PROGRAM WORK: test_save on file systems that share blocks, in images of their own.
set -u
program=$1 work=$2
skipped=
umount "$work/disk" 2>/dev/null
rm -rf "$work" && mkdir -p "$work/disk" || exit 1
for kind in btrfs xfs; do
  truncate -s 700M "$work/image" || exit 1
  if ! command -v mkfs.$kind >/dev/null || ! mkfs.$kind -q -f "$work/image" >"$work/log" 2>&1 ||
    ! mount -o loop "$work/image" "$work/disk" 2>>"$work/log"; then
    skipped="$skipped $kind"
    continue
  fi
  echo "on $kind:"
  CAIRN_SHARING_FOLDER=$work/disk "$program" --gtest_filter='SharedSpaceOnDisk.TenCheckpointsShareTheirSpace'
  status=$?
  umount "$work/disk" || exit 1
  rm "$work/image"
  [ $status = 0 ] || exit $status
done
[ -z "$skipped" ] && exit 0
echo "SKIPPED: files that share space on$skipped (mkfs is missing, or nothing can be mounted here)" >&2
exit 77
