# Sourced by the lanes of devices: a Kokkos package for one of them from the headers of Debian's,
# which is built for OpenMP, and the compilation of all that includes Kokkos. Nothing is linked.

# counts_of LOG: what compile-device.py has printed at its end, for a record.
counts_of() { sed -nE 's/^([0-9]+) files for .*, ([0-9]+) faults$/compiled=\1 failed=\2/p' "$1"; }

# kokkos_package HEADERS FOLDER CUDA|HIP ARCHITECTURE [COMPILER OPTION...]
kokkos_package() {
  local headers=$1 folder=$2 backend=$3 architecture=$4 space version options number
  shift 4
  case $backend in CUDA) space=Cuda ;; HIP) space=HIP ;; esac
  version=$(sed -n 's/^#define KOKKOS_VERSION \([0-9]*\)$/\1/p' "$headers/KokkosCore_config.h")
  [ -n "$version" ] || return 1
  number=$((version / 10000)).$((version / 100 % 100)).$((version % 100))
  options=$(printf '"%s" ' "$@")
  rm -rf "$folder"
  mkdir -p "$folder/lib/cmake/Kokkos" "$folder/include" && cp -r "$headers/." "$folder/include/" || return 1
  # The files that a build of Kokkos would write, for CUDA or HIP beside the host's Serial.
  cat >"$folder/include/KokkosCore_config.h" <<END
#pragma once
#define KOKKOS_CORE_CONFIG_H
#define KOKKOS_VERSION $version
#define KOKKOS_VERSION_MAJOR $((version / 10000))
#define KOKKOS_VERSION_MINOR $((version / 100 % 100))
#define KOKKOS_VERSION_PATCH $((version % 100))
#define KOKKOS_ENABLE_SERIAL
#define KOKKOS_ENABLE_$backend
#define KOKKOS_ENABLE_CXX20
#define KOKKOS_ENABLE_COMPLEX_ALIGN
#define KOKKOS_ENABLE_IMPL_MDSPAN
$architecture
END
  local part
  for part in Declare Fwd; do
    cat >"$folder/include/KokkosCore_Config_${part}Backend.hpp" <<END
#pragma once
#include <${part,,}/Kokkos_${part}_SERIAL.hpp>
#include <${part,,}/Kokkos_${part}_$backend.hpp>
END
  done
  sed -i 's|<declare/|<decl/|' "$folder/include/KokkosCore_Config_DeclareBackend.hpp"
  printf '#pragma once\n#include <setup/Kokkos_Setup_%s.hpp>\n' "$space" \
    >"$folder/include/KokkosCore_Config_SetupBackend.hpp"
  printf '#pragma once\n#define DESUL_ATOMICS_ENABLE_%s\n' "$backend" \
    >"$folder/include/desul/atomics/Config.hpp"
  cat >"$folder/lib/cmake/Kokkos/KokkosConfig.cmake" <<END
set(Kokkos_DEVICES $backend SERIAL)
set(Kokkos_COMPILE_LANGUAGE $backend)
if(NOT TARGET Kokkos::kokkos)
  add_library(Kokkos::kokkos INTERFACE IMPORTED)
  target_include_directories(Kokkos::kokkos SYSTEM INTERFACE "$folder/include")
  target_compile_options(Kokkos::kokkos INTERFACE $options)
endif()
END
  cat >"$folder/lib/cmake/Kokkos/KokkosConfigVersion.cmake" <<END
set(PACKAGE_VERSION $number)
set(PACKAGE_VERSION_COMPATIBLE TRUE)
END
  kokkos_version=$number
}
