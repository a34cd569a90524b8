# Features that are on if their packages are found. The summary says why a feature is off.

# HDF5: AUTO uses a parallel HDF5 if it is found, and else builds without; ON requires one.
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
    set(CAIRN_HDF5_REASON "not found: set HDF5_ROOT, or install libhdf5-openmpi-dev (Debian)")
  elseif(NOT HDF5_IS_PARALLEL)
    set(CAIRN_HDF5_REASON "HDF5 ${HDF5_VERSION} was built without MPI: set HDF5_ROOT to one with it")
  else()
    set(CAIRN_WITH_HDF5 ON)
  endif()
endif()
if(CAIRN_HDF5_REASON AND CAIRN_HDF5 AND NOT CAIRN_HDF5 STREQUAL "AUTO")
  message(FATAL_ERROR "CAIRN_HDF5=${CAIRN_HDF5} asks for HDF5, but it cannot be used: "
                      "${CAIRN_HDF5_REASON}. -DCAIRN_HDF5=AUTO goes without.")
endif()

# Fortran: AUTO uses gfortran 12 or later if it is found, and else builds without; ON requires it.
# Other compilers use other numbers for the types of arrays than fortran/descriptors.cpp knows.
set(CAIRN_WITH_FORTRAN OFF)
set(CAIRN_FORTRAN_REASON "")
if(NOT CAIRN_FORTRAN)
  set(CAIRN_FORTRAN_REASON "CAIRN_FORTRAN is OFF")
elseif(CAIRN_SANITIZE)
  set(CAIRN_FORTRAN_REASON "not with sanitizers")  # gfortran may not have those of the C++ compiler
else()
  include(CheckLanguage)
  check_language(Fortran)
  if(NOT CMAKE_Fortran_COMPILER)
    set(CAIRN_FORTRAN_REASON "no compiler found: install gfortran, or set FC")
  else()
    enable_language(Fortran)
    execute_process(COMMAND ${CMAKE_Fortran_COMPILER} -print-file-name=include/ISO_Fortran_binding.h
                    OUTPUT_VARIABLE header OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT CMAKE_Fortran_COMPILER_ID STREQUAL "GNU" OR CMAKE_Fortran_COMPILER_VERSION VERSION_LESS 12)
      set(CAIRN_FORTRAN_REASON "it needs gfortran 12 or later, and ${CMAKE_Fortran_COMPILER} is "
                               "${CMAKE_Fortran_COMPILER_ID} ${CMAKE_Fortran_COMPILER_VERSION}")
    elseif(NOT EXISTS "${header}")
      set(CAIRN_FORTRAN_REASON "${CMAKE_Fortran_COMPILER} has no ISO_Fortran_binding.h")
    else()
      set(CAIRN_WITH_FORTRAN ON)
      cmake_path(GET header PARENT_PATH CAIRN_FORTRAN_BINDING)
      if(CAIRN_MPI)
        find_package(MPI REQUIRED COMPONENTS C Fortran)
      endif()
    endif()
    list(JOIN CAIRN_FORTRAN_REASON "" CAIRN_FORTRAN_REASON)
  endif()
endif()
if(CAIRN_FORTRAN_REASON AND CAIRN_FORTRAN AND NOT CAIRN_FORTRAN STREQUAL "AUTO")
  message(FATAL_ERROR "CAIRN_FORTRAN=${CAIRN_FORTRAN} asks for the Fortran module, but it cannot be made: "
                      "${CAIRN_FORTRAN_REASON}. -DCAIRN_FORTRAN=AUTO goes without.")
endif()

# A preset for one backend must not silently build for another.
if(CAIRN_KOKKOS AND CAIRN_KOKKOS_BACKEND)
  if(NOT CAIRN_KOKKOS_BACKEND IN_LIST CairnKokkos_BACKENDS)
    string(REPLACE ";" ", " backends "${CairnKokkos_BACKENDS}")
    message(FATAL_ERROR "CAIRN_KOKKOS_BACKEND asks for ${CAIRN_KOKKOS_BACKEND}, but the Kokkos found "
                        "(${CairnKokkos_ORIGIN}) has ${backends}. Set Kokkos_ROOT to another.")
  endif()
endif()
