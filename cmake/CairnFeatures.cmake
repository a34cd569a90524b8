# Features that are on when what they need is there. Each that is off says why in the summary.

# HDF5: AUTO takes a parallel HDF5 that is found and goes without otherwise; ON insists.
set(CAIRN_WITH_HDF5 OFF)
set(CAIRN_HDF5_REASON "")
if(NOT CAIRN_HDF5)
  set(CAIRN_HDF5_REASON "CAIRN_HDF5 is OFF")
elseif(NOT CAIRN_MPI)
  set(CAIRN_HDF5_REASON "parallel HDF5 needs CAIRN_MPI")
else()
  set(HDF5_PREFER_PARALLEL ON)
  find_package(HDF5 QUIET COMPONENTS C)
  if(NOT HDF5_FOUND)
    set(CAIRN_HDF5_REASON "not found; set HDF5_ROOT, or install libhdf5-openmpi-dev (Debian)")
  elseif(NOT HDF5_IS_PARALLEL)
    set(CAIRN_HDF5_REASON "HDF5 ${HDF5_VERSION} was built without MPI; set HDF5_ROOT to one with it")
  else()
    set(CAIRN_WITH_HDF5 ON)
  endif()
endif()
if(CAIRN_HDF5_REASON AND CAIRN_HDF5 AND NOT CAIRN_HDF5 STREQUAL "AUTO")
  message(FATAL_ERROR "CAIRN_HDF5=${CAIRN_HDF5} asks for HDF5, but it cannot be used: "
                      "${CAIRN_HDF5_REASON}. -DCAIRN_HDF5=AUTO goes without.")
endif()

# A preset for a backend must not silently build for another.
if(CAIRN_KOKKOS AND CAIRN_KOKKOS_BACKEND)
  if(NOT CAIRN_KOKKOS_BACKEND IN_LIST CairnKokkos_BACKENDS)
    string(REPLACE ";" ", " backends "${CairnKokkos_BACKENDS}")
    message(FATAL_ERROR "CAIRN_KOKKOS_BACKEND asks for ${CAIRN_KOKKOS_BACKEND}, but the Kokkos found "
                        "(${CairnKokkos_ORIGIN}) has ${backends}. Set Kokkos_ROOT to another.")
  endif()
endif()
