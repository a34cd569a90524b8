# Installs the build, moves the installed tree, and configures, builds and runs an outside project
# with it. Run by CTest: see CMakeLists.txt for the variables.
cmake_policy(SET CMP0057 NEW)

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${what} failed (${status}): ${command}\n${text}")
  endif()
  set(text "${text}" PARENT_SCOPE)
endfunction()

string(REPLACE "," ";" components "${COMPONENTS}")
file(REMOVE_RECURSE ${WORK})
run("Installing" ${CMAKE_COMMAND} --install ${BUILD} --config ${CONFIG} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)  # a package that remembers where it was does not survive

# Nothing may lead back to the source or the build.
file(GLOB_RECURSE installed ${WORK}/moved/*.cmake ${WORK}/moved/*.hpp)
foreach(file IN LISTS installed)
  file(READ ${file} text)
  foreach(place ${SOURCE} ${BUILD} ${WORK})
    string(FIND "${text}" "${place}/" found)
    if(NOT found EQUAL -1)
      message(FATAL_ERROR "${file} names ${place}")
    endif()
  endforeach()
  if(file MATCHES "/Cairn-[^/]*\\.cmake$" AND text MATCHES "[;\"](/[^;\"\n]*\\.(so|a))")
    message(FATAL_ERROR "${file} names the library ${CMAKE_MATCH_1} by its place on this machine")
  endif()
endforeach()
foreach(file include/cairn/cairn.hpp ${LIBDIR}/cmake/Cairn/CairnConfig.cmake bin/cairn bin/cairn-job share/cairn/slurm/simulation.sbatch)
  if(NOT EXISTS ${WORK}/moved/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
foreach(component mpi kokkos)
  if(NOT component IN_LIST components AND EXISTS ${WORK}/moved/include/cairn/${component}.hpp)
    message(FATAL_ERROR "cairn/${component}.hpp was installed without its component")
  endif()
endforeach()

set(configure ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/project -G ${GENERATOR}
              -D CMAKE_BUILD_TYPE=${CONFIG} -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_C_COMPILER=${C}
              -D CMAKE_PREFIX_PATH=${WORK}/moved)

# Without components: only the core, and nobody looks for what it does not need.
string(REPLACE "," ";" unneeded "${NOT_FOR_CORE}")
list(TRANSFORM unneeded REPLACE "(.+)" "-DCMAKE_DISABLE_FIND_PACKAGE_\\1=ON")
run("Configuring for the core" ${configure} -B ${WORK}/core ${unneeded})
run("Building" ${CMAKE_COMMAND} --build ${WORK}/core --config ${CONFIG})
run("The core program" ${WORK}/core/core ${WORK}/checkpoints)
if(NOT text MATCHES "core works")
  message(FATAL_ERROR "The core program said: ${text}")
endif()
run("The installed tool" ${WORK}/moved/bin/cairn verify ${WORK}/checkpoints)
if(HDF5)  # through its module
  run("The installed tool" ${WORK}/moved/bin/cairn convert ${SOURCE}/tests/golden/sliced_merged/ckpt
                           ${WORK}/converted.h5)
endif()

if(components)
  file(WRITE ${WORK}/components.cmake "set(COMPONENTS \"${components}\" CACHE STRING \"\")\n")
  run("Configuring for ${COMPONENTS}" ${configure} -B ${WORK}/all -C ${WORK}/components.cmake)
  run("Building" ${CMAKE_COMMAND} --build ${WORK}/all --config ${CONFIG})
  foreach(component IN LISTS components)
    set(launcher)
    if(component STREQUAL "mpi")
      set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
      set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
      set(ENV{OMPI_MCA_rmaps_base_oversubscribe} 1)
      set(ENV{PRTE_ALLOW_RUN_AS_ROOT} 1)
      set(ENV{PRTE_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
      set(ENV{PRTE_MCA_mapby} :oversubscribe)
      set(launcher ${MPIEXEC} -n 2)
    endif()
    run("The ${component} program" ${launcher} ${WORK}/all/${component})
    if(NOT text MATCHES "${component} works")
      message(FATAL_ERROR "The ${component} program said: ${text}")
    endif()
  endforeach()
endif()

# A component that does not exist is refused by name.
execute_process(COMMAND ${configure} -B ${WORK}/none -D COMPONENTS=teapot RESULT_VARIABLE status
                OUTPUT_VARIABLE text ERROR_VARIABLE text)
string(REGEX REPLACE "[ \n]+" " " text "${text}")
if(status EQUAL 0 OR NOT text MATCHES "this Cairn has no component teapot")
  message(FATAL_ERROR "A component that does not exist was not refused: ${text}")
endif()
