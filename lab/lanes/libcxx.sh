# Sourced by lane: the libraries and the tool, compiled by sid's clang with LLVM's standard library.
. "$root/lab/lanes/system.sh"
enter_system sid "${sid_packages[@]}" clang libc++-dev libc++abi-dev \
  libcurl4-openssl-dev libssl-dev libpugixml-dev
title "Debian sid: $(inside "$system" clang++ --version | head -n 1), libc++"
rm -f "$keep/build-libcxx/record.json"
inside "$system" nice bash /opt/cairn/lab/lanes/libcxx-inside.sh
status=$?
record_inside "$keep/build-libcxx"
exit $status
