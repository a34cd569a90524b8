# Finds a Kokkos that works, whatever its package looks like.
#
# The first sane one of these is taken:
#   1. a target Kokkos::kokkos that the project has already (FetchContent, add_subdirectory);
#   2. the CMake package that Kokkos_ROOT, Kokkos_DIR, CMAKE_PREFIX_PATH or the system leads to.
#      It is tried in a separate CMake process, because the configurations of some distributions
#      stop with a fatal error or point at headers that are not there;
#   3. plain headers and libraries as Debian lays them out: libkokkos-dev (/usr/include/kokkos) and
#      libtrilinos-kokkos-dev (/usr/include/trilinos).
#
# Result:
#   Cairn::kokkos_backend          link this; its usage requirements are those of Kokkos
#   CairnKokkos_VERSION            e.g. 3.4.1
#   CairnKokkos_BACKENDS           e.g. SERIAL;OPENMP
#   CairnKokkos_INCLUDE_DIR        the folder of Kokkos_Core.hpp
#   CairnKokkos_COMPILE_LANGUAGE   CXX, CUDA or HIP: what sources that include Kokkos must be
#   CairnKokkos_ORIGIN             where it was found, in words
#   cairn_kokkos_sources(TARGET)   gives the C++ sources of TARGET that language
#
# This file needs no other file of Cairn: the installed package uses it too.
include(FindPackageHandleStandardArgs)

# Sets OUT to the folder of Kokkos_Core.hpp as the target and what it links tell, or to "".
function(_cairn_kokkos_headers target out)
  set(todo ${target})
  set(seen)
  set(folders)
  while(todo)
    list(POP_FRONT todo item)
    if(NOT TARGET "${item}" OR item IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${item})
    get_target_property(found ${item} INTERFACE_INCLUDE_DIRECTORIES)
    if(found)
      list(APPEND folders ${found})
    endif()
    get_target_property(linked ${item} INTERFACE_LINK_LIBRARIES)
    if(linked)
      list(APPEND todo ${linked})
    endif()
  endwhile()
  set(${out} "" PARENT_SCOPE)
  foreach(folder IN LISTS folders)
    string(REGEX REPLACE "^\\$<(BUILD_INTERFACE|INSTALL_INTERFACE):(.*)>$" "\\2" folder "${folder}")
    if(EXISTS "${folder}/Kokkos_Core.hpp")
      set(${out} "${folder}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Tries the CMake package in a process of its own. Sets _cairn_kokkos_dir to the package's folder,
# or leaves it empty and sets _cairn_kokkos_trouble to what is wrong with the package ("" if there
# is none).
function(_cairn_kokkos_probe)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/CairnKokkosProbe")
  file(REMOVE_RECURSE "${folder}")
  set(cache)
  foreach(name IN ITEMS Kokkos_DIR Kokkos_ROOT CMAKE_PREFIX_PATH CMAKE_FIND_ROOT_PATH
                        CMAKE_TOOLCHAIN_FILE CMAKE_CXX_COMPILER CMAKE_CUDA_COMPILER
                        CMAKE_HIP_COMPILER CMAKE_MAKE_PROGRAM CMAKE_BUILD_TYPE CUDAToolkit_ROOT)
    if(NOT "${${name}}" STREQUAL "" AND NOT "${${name}}" MATCHES "-NOTFOUND$")
      string(APPEND cache "set(${name} [==[${${name}}]==] CACHE STRING \"\")\n")
    endif()
  endforeach()
  file(WRITE "${folder}/cache.cmake" "${cache}")
  file(WRITE "${folder}/CMakeLists.txt" "
cmake_minimum_required(VERSION 3.25)
project(CairnKokkosProbe LANGUAGES CXX)
find_package(Kokkos CONFIG QUIET)
if(Kokkos_FOUND)
  set(CairnKokkos_PROBING ON)
  include([==[${CMAKE_CURRENT_FUNCTION_LIST_FILE}]==])
  set(headers)
  if(TARGET Kokkos::kokkos)
    _cairn_kokkos_headers(Kokkos::kokkos headers)
  endif()
  file(WRITE \${CMAKE_BINARY_DIR}/result.cmake
       \"set(dir [==[\${Kokkos_DIR}]==])\\nset(headers [==[\${headers}]==])\\n\")
else()
  file(WRITE \${CMAKE_BINARY_DIR}/result.cmake \"set(dir)\\n\")
endif()
")
  set(build "${folder}/build")
  set(generator -G "${CMAKE_GENERATOR}")
  if(CMAKE_GENERATOR_PLATFORM)
    list(APPEND generator -A "${CMAKE_GENERATOR_PLATFORM}")
  endif()
  execute_process(COMMAND "${CMAKE_COMMAND}" ${generator} -C "${folder}/cache.cmake"
                          -S "${folder}" -B "${build}"
                  RESULT_VARIABLE failed OUTPUT_VARIABLE log ERROR_VARIABLE log)
  file(WRITE "${folder}/log.txt" "${log}")
  set(_cairn_kokkos_dir "" PARENT_SCOPE)
  set(_cairn_kokkos_trouble "" PARENT_SCOPE)
  if(NOT EXISTS "${build}/result.cmake")
    set(_cairn_kokkos_trouble "its CMake package does not load (see ${folder}/log.txt)"
        PARENT_SCOPE)
    return()
  endif()
  include("${build}/result.cmake")
  if(dir AND NOT headers)
    set(_cairn_kokkos_trouble "the CMake package in ${dir} leads to no Kokkos_Core.hpp"
        PARENT_SCOPE)
  elseif(dir AND failed)
    set(_cairn_kokkos_trouble
        "a project that uses the CMake package in ${dir} does not configure (see ${folder}/log.txt)"
        PARENT_SCOPE)
  else()
    set(_cairn_kokkos_dir "${dir}" PARENT_SCOPE)
  endif()
endfunction()

if(CairnKokkos_PROBING)
  return()
endif()

# Sets CairnKokkos_VERSION and CairnKokkos_BACKENDS from the header that Kokkos' build wrote.
function(_cairn_kokkos_describe folder)
  set(text)
  if(EXISTS "${folder}/KokkosCore_config.h")
    file(STRINGS "${folder}/KokkosCore_config.h" text REGEX "^[ \t]*#[ \t]*define[ \t]+KOKKOS_")
  endif()
  set(version "${Kokkos_VERSION}")
  set(backends)
  foreach(line IN LISTS text)
    if(line MATCHES "KOKKOS_VERSION[ \t]+([0-9]+)")
      math(EXPR major "${CMAKE_MATCH_1} / 10000")
      math(EXPR minor "${CMAKE_MATCH_1} / 100 % 100")
      math(EXPR patch "${CMAKE_MATCH_1} % 100")
      set(version ${major}.${minor}.${patch})
    elseif(line MATCHES
           "KOKKOS_ENABLE_(SERIAL|OPENMP|THREADS|HPX|CUDA|HIP|SYCL|OPENMPTARGET|OPENACC)[ \t]*$")
      list(APPEND backends ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(CairnKokkos_VERSION "${version}" PARENT_SCOPE)
  set(CairnKokkos_BACKENDS "${backends}" PARENT_SCOPE)
endfunction()

if(NOT TARGET Cairn::kokkos_backend)
  set(CairnKokkos_INCLUDE_DIR "")
  set(CairnKokkos_COMPILE_LANGUAGE CXX)
  set(CairnKokkos_ORIGIN "")
  set(_cairn_kokkos_trouble "")

  # A target that exists already. One that this project builds has no finished headers to read yet.
  if(TARGET Kokkos::kokkos)
    _cairn_kokkos_headers(Kokkos::kokkos CairnKokkos_INCLUDE_DIR)
    get_target_property(_cairn_kokkos_imported Kokkos::kokkos IMPORTED)
    if(CairnKokkos_INCLUDE_DIR OR NOT _cairn_kokkos_imported)
      set(CairnKokkos_ORIGIN "target of this project")
      if(NOT CairnKokkos_INCLUDE_DIR)
        set(CairnKokkos_INCLUDE_DIR "${Kokkos_SOURCE_DIR}/core/src")
      endif()
    endif()
  else()
    _cairn_kokkos_probe()
    if(_cairn_kokkos_dir)
      set(Kokkos_DIR "${_cairn_kokkos_dir}")
      find_package(Kokkos CONFIG QUIET REQUIRED)
      _cairn_kokkos_headers(Kokkos::kokkos CairnKokkos_INCLUDE_DIR)
      set(CairnKokkos_ORIGIN "CMake package in ${_cairn_kokkos_dir}")
    elseif(_cairn_kokkos_trouble AND (Kokkos_ROOT OR Kokkos_DIR OR DEFINED ENV{Kokkos_ROOT}))
      message(WARNING "Kokkos_ROOT or Kokkos_DIR is set, but ${_cairn_kokkos_trouble}. "
                      "It is passed over; the system is searched for another Kokkos.")
    endif()
  endif()
  if(CairnKokkos_ORIGIN)
    add_library(Cairn::kokkos_backend INTERFACE IMPORTED)
    target_link_libraries(Cairn::kokkos_backend INTERFACE Kokkos::kokkos)
    if(Kokkos_COMPILE_LANGUAGE)
      set(CairnKokkos_COMPILE_LANGUAGE ${Kokkos_COMPILE_LANGUAGE})
    endif()
  endif()

  # Debian's two layouts.
  foreach(_cairn_kokkos_layout IN ITEMS "kokkos kokkos" "trilinos trilinos_kokkos")
    if(CairnKokkos_ORIGIN)
      break()
    endif()
    separate_arguments(_cairn_kokkos_layout)
    list(GET _cairn_kokkos_layout 0 _cairn_kokkos_folder)
    list(GET _cairn_kokkos_layout 1 _cairn_kokkos_library)
    find_path(CAIRN_KOKKOS_INCLUDE_${_cairn_kokkos_folder}
              ${_cairn_kokkos_folder}/KokkosCore_config.h)
    find_library(CAIRN_KOKKOS_CORE_${_cairn_kokkos_folder} ${_cairn_kokkos_library}core)
    find_library(CAIRN_KOKKOS_CONTAINERS_${_cairn_kokkos_folder} ${_cairn_kokkos_library}containers)
    mark_as_advanced(CAIRN_KOKKOS_INCLUDE_${_cairn_kokkos_folder}
                     CAIRN_KOKKOS_CORE_${_cairn_kokkos_folder}
                     CAIRN_KOKKOS_CONTAINERS_${_cairn_kokkos_folder})
    if(CAIRN_KOKKOS_INCLUDE_${_cairn_kokkos_folder} AND CAIRN_KOKKOS_CORE_${_cairn_kokkos_folder}
       AND CAIRN_KOKKOS_CONTAINERS_${_cairn_kokkos_folder})
      set(CairnKokkos_INCLUDE_DIR
          ${CAIRN_KOKKOS_INCLUDE_${_cairn_kokkos_folder}}/${_cairn_kokkos_folder})
      set(CairnKokkos_ORIGIN "${CAIRN_KOKKOS_CORE_${_cairn_kokkos_folder}}")
      _cairn_kokkos_describe("${CairnKokkos_INCLUDE_DIR}")
      find_package(Threads QUIET REQUIRED)
      add_library(Cairn::kokkos_backend INTERFACE IMPORTED)
      target_include_directories(Cairn::kokkos_backend SYSTEM INTERFACE ${CairnKokkos_INCLUDE_DIR})
      target_link_libraries(
        Cairn::kokkos_backend
        INTERFACE ${CAIRN_KOKKOS_CONTAINERS_${_cairn_kokkos_folder}}
                  ${CAIRN_KOKKOS_CORE_${_cairn_kokkos_folder}} Threads::Threads ${CMAKE_DL_LIBS})
      if("OPENMP" IN_LIST CairnKokkos_BACKENDS)
        find_package(OpenMP REQUIRED COMPONENTS CXX)
        target_link_libraries(Cairn::kokkos_backend INTERFACE OpenMP::OpenMP_CXX)
      endif()
    endif()
  endforeach()

  if(CairnKokkos_ORIGIN)
    _cairn_kokkos_describe("${CairnKokkos_INCLUDE_DIR}")
    if(NOT CairnKokkos_BACKENDS)
      string(TOUPPER "${Kokkos_DEVICES}" CairnKokkos_BACKENDS)
    endif()
    if(CairnKokkos_VERSION AND CairnKokkos_VERSION VERSION_LESS 3.4)
      set(_cairn_kokkos_trouble "${CairnKokkos_ORIGIN} is version ${CairnKokkos_VERSION}, below 3.4")
      set(CairnKokkos_INCLUDE_DIR "")
    endif()
  endif()

  if(NOT CairnKokkos_COMPILE_LANGUAGE STREQUAL "CXX")
    if(NOT CMAKE_${CairnKokkos_COMPILE_LANGUAGE}_ARCHITECTURES
       AND Kokkos_${CairnKokkos_COMPILE_LANGUAGE}_ARCHITECTURES)
      set(CMAKE_${CairnKokkos_COMPILE_LANGUAGE}_ARCHITECTURES
          ${Kokkos_${CairnKokkos_COMPILE_LANGUAGE}_ARCHITECTURES})
    endif()
    enable_language(${CairnKokkos_COMPILE_LANGUAGE})
    # CMake before 3.26 does not know C++20 in CUDA.
    if(CairnKokkos_COMPILE_LANGUAGE STREQUAL "CUDA" AND CMAKE_VERSION VERSION_LESS 3.26)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
  endif()
endif()

if(NOT _cairn_kokkos_trouble)
  set(_cairn_kokkos_trouble "no Kokkos was found")
endif()
find_package_handle_standard_args(
  CairnKokkos
  REQUIRED_VARS CairnKokkos_ORIGIN CairnKokkos_INCLUDE_DIR
  VERSION_VAR CairnKokkos_VERSION
  REASON_FAILURE_MESSAGE
    "${_cairn_kokkos_trouble}. Set Kokkos_ROOT to an installed Kokkos, version 3.4 or later, or install libtrilinos-kokkos-dev (Debian, Ubuntu), or configure with -DCAIRN_KOKKOS=OFF")

# Sources that include Kokkos must be compiled in Kokkos' language. Call it after the target has all
# of its sources. Does nothing if that language is C++.
function(cairn_kokkos_sources target)
  if(CairnKokkos_COMPILE_LANGUAGE STREQUAL "CXX")
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.(cpp|cc|cxx|C)$")
      set_source_files_properties(${source} TARGET_DIRECTORY ${target}
                                  PROPERTIES LANGUAGE ${CairnKokkos_COMPILE_LANGUAGE})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES
                        ${CairnKokkos_COMPILE_LANGUAGE}_STANDARD 20
                        ${CairnKokkos_COMPILE_LANGUAGE}_STANDARD_REQUIRED ON
                        ${CairnKokkos_COMPILE_LANGUAGE}_EXTENSIONS OFF)
endfunction()
