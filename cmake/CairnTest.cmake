# One function for each kind of test. A .cpp under tests/ that is on no list is a configure error.
set(CAIRN_TEST_FLAGS "" CACHE STRING "Compiler flags of test programs only, separated by ;")
option(CAIRN_TESTS_ONCE "Of two builds, with and without sanitizers, leave a test to one where that is enough" OFF)
set(CAIRN_TEST_COMPILER "" CACHE STRING "A C++ compiler of test programs only, which takes the usual one's flags")

# For targets that are linked into test programs only.
#   cairn_use_test_compiler(TARGET [PRECOMPILED])
# PRECOMPILED: the target makes a precompiled header, which names files of this clone, so a cache is
# of no use.
function(cairn_use_test_compiler target)
  if(NOT CAIRN_TEST_COMPILER)
    return()
  endif()
  if(NOT CMAKE_GENERATOR MATCHES "Ninja|Makefiles")
    message(FATAL_ERROR "CAIRN_TEST_COMPILER needs Ninja or Makefiles, not ${CMAKE_GENERATOR}")
  endif()
  set(launcher ${CMAKE_CXX_COMPILER_LAUNCHER})
  if("PRECOMPILED" IN_LIST ARGN)
    set(launcher)
  endif()
  set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
    "${PROJECT_SOURCE_DIR}/cmake/compile-with;${CAIRN_TEST_COMPILER};${launcher};--")
endfunction()

# Parses and checks the arguments of the functions below.
macro(cairn_parse_test_arguments name lists)
  cmake_parse_arguments(arg "OPTIMIZED;SANITIZED;PLAIN" "" "${lists}" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES OR NOT arg_SOURCES)
    message(FATAL_ERROR "${name}: SOURCES or values are missing ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
endmacro()

# OPTIMIZED: the program computes so much that CAIRN_TEST_FLAGS, which make compilation fast, would
# cost more time.
function(cairn_add_test_program name)
  cmake_parse_arguments(arg "OPTIMIZED" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src
                                             ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE cairn_testing cairn ${arg_LIBRARIES})
  cairn_target_flags(${name})
  # Kokkos' headers need the compiler for which Kokkos was built, and its flags (-fopenmp) fit no
  # precompiled header. A serial Kokkos is plain C++ without these limits.
  set(with_kokkos FALSE)
  if(arg_LIBRARIES MATCHES "kokkos" AND NOT "${CairnKokkos_BACKENDS}" STREQUAL "SERIAL")
    set(with_kokkos TRUE)
  else()
    cairn_use_test_compiler(${name})
  endif()
  if(arg_OPTIMIZED)
    return()
  endif()
  target_compile_options(${name} PRIVATE ${CAIRN_TEST_FLAGS})
  cairn_link_first(${name} cairn cairn_testing)
  if(NOT with_kokkos)
    target_link_libraries(${name} PRIVATE GTest::gmock)  # its headers are in the precompiled header
    cairn_precompile(${name} cairn_precompiled_tests)
  endif()
endfunction()

# An ordinary test program, of one process. For CTest it is one test, or PARTS tests that can run in
# parallel; what GoogleTest calls a test is a case in it, which is named if it fails. To run one
# case alone:
#   BUILD/bin/NAME --gtest_filter=Suite.Case
#   cairn_test(NAME SOURCES file... [LIBRARIES library...] [LABELS unit|threads|...] [PARTS n] [OPTIMIZED]
#              [SANITIZED|PLAIN])
# SANITIZED: with CAIRN_TESTS_ONCE, which scripts/test --all sets, only the build
# with sanitizers runs it; PLAIN: only the one without. In the other build it is no test, and is
# built only by its name.
function(cairn_test name)
  cairn_parse_test_arguments("cairn_test(${name})" "SOURCES;LIBRARIES;LABELS;PARTS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(DEFINED arg_PARTS AND NOT arg_PARTS MATCHES "^[1-9][0-9]*$")
    message(FATAL_ERROR "cairn_test(${name}): \"${arg_PARTS}\" is no number of parts")
  endif()
  set(options)
  if(arg_OPTIMIZED)
    set(options OPTIMIZED)
  endif()
  cairn_add_test_program(${name} ${options} SOURCES ${arg_SOURCES}
                         LIBRARIES ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  if(CAIRN_TESTS_ONCE AND (arg_SANITIZED AND NOT CAIRN_SANITIZE OR arg_PLAIN AND CAIRN_SANITIZE))
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    return()
  endif()
  if(NOT arg_PARTS)
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "${arg_LABELS}")
    return()
  endif()
  math(EXPR last "${arg_PARTS} - 1")
  foreach(part RANGE ${last})
    add_test(NAME ${name}.part${part} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name}.part${part} PROPERTIES
      TIMEOUT 900 LABELS "${arg_LABELS}"
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_PARTS};GTEST_SHARD_INDEX=${part}")
  endforeach()
endfunction()

# A test program whose ranks are processes of MPI, run once for each rank count as NAME.npN. It has
# its main already (tests/support/mpi_main.cpp).
#   cairn_mpi_test(NAME RANKS count... SOURCES file... [LIBRARIES library...] [TIMEOUT seconds])
# TIMEOUT is that of a single test in it (120).
function(cairn_mpi_test name)
  cairn_parse_test_arguments("cairn_mpi_test(${name})" "RANKS;SOURCES;LIBRARIES;TIMEOUT" ${ARGN})
  if(NOT arg_RANKS)
    message(FATAL_ERROR "cairn_mpi_test(${name}): RANKS are missing")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    if(NOT ranks MATCHES "^[1-9][0-9]*$")
      message(FATAL_ERROR "cairn_mpi_test(${name}): \"${ranks}\" is no rank count")
    endif()
  endforeach()
  if(NOT arg_TIMEOUT MATCHES "^[1-9][0-9]*$")
    message(FATAL_ERROR "cairn_mpi_test(${name}): \"${arg_TIMEOUT}\" is no number of seconds")
  endif()
  if(NOT CAIRN_MPI)
    return()
  endif()

  math(EXPR all_seconds "8 * ${arg_TIMEOUT}")
  cairn_add_test_program(${name} SOURCES ${arg_SOURCES}
                         LIBRARIES ${arg_LIBRARIES} cairn_mpi_test_main cairn_mpi GTest::gmock)
  foreach(ranks IN LISTS arg_RANKS)
    cairn_mpi_launcher(launcher environment)
    # The ranks wait more than they compute: for each other, for mpirun and for the disk.
    math(EXPR processors "(${ranks} + 3) / 4")
    add_test(NAME ${name}.np${ranks}
             COMMAND ${launcher} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
                     $<TARGET_FILE:${name}> ${MPIEXEC_POSTFLAGS})
    # The program ends itself, and says where it is, when one of its tests takes so long. All tests
    # together may take longer on cores that others use, too.
    set_tests_properties(${name}.np${ranks} PROPERTIES
      PROCESSORS ${processors} TIMEOUT ${all_seconds} LABELS mpi
      ENVIRONMENT "${environment};CAIRN_TEST_SECONDS=${arg_TIMEOUT}")
  endforeach()
endfunction()

# Returns the start of a command line that runs MPI programs, and the environment it needs. Call it
# for each test: when an mpirun of Open MPI 4 ends, it removes a folder that all share, and another
# mpirun that begins at that moment fails ("A call to mkdir was unable ..."). So each test has a
# folder of its own.
function(cairn_mpi_launcher command_variable environment_variable)
  set(command ${MPIEXEC_EXECUTABLE})
  get_property(is_open_mpi GLOBAL PROPERTY CAIRN_IS_OPEN_MPI)
  if(NOT DEFINED is_open_mpi OR is_open_mpi STREQUAL "")
    execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version
                    OUTPUT_VARIABLE version ERROR_VARIABLE version RESULT_VARIABLE failed)
    set(is_open_mpi FALSE)
    if(version MATCHES "Open MPI|OpenRTE|PRRTE|prte")
      set(is_open_mpi TRUE)
    endif()
    set_property(GLOBAL PROPERTY CAIRN_IS_OPEN_MPI ${is_open_mpi})
  endif()
  if(is_open_mpi)
    list(APPEND command --bind-to none --oversubscribe)
  endif()
  # The launcher's environment is defined in one file, which scripts source.
  set(environment GTEST_COLOR=no)
  file(STRINGS ${PROJECT_SOURCE_DIR}/scripts/mpi-env.sh lines REGEX "^export ")
  foreach(line IN LISTS lines)
    string(REGEX MATCHALL "[A-Za-z_0-9]+=[^ ]*" assignments "${line}")
    list(APPEND environment ${assignments})
  endforeach()
  get_property(number GLOBAL PROPERTY CAIRN_MPI_TESTS)
  if(NOT number)
    set(number 0)
  endif()
  math(EXPR number "${number} + 1")
  set_property(GLOBAL PROPERTY CAIRN_MPI_TESTS ${number})
  list(APPEND environment OMPI_MCA_orte_tmpdir_base=${PROJECT_BINARY_DIR}/mpi-sessions/${number})
  # There are more ranks than cores: ranks that wait must yield to the others.
  list(APPEND environment OMPI_MCA_mpi_yield_when_idle=1)
  # Open MPI 4 asks for the devices of other transports at each start, which takes 0.2 s.
  list(APPEND environment OMPI_MCA_pml=ob1)
  if(CAIRN_SANITIZE)
    # MPI libraries do not free all memory at the end.
    list(APPEND environment "ASAN_OPTIONS=detect_leaks=0")
  endif()
  set(${command_variable} ${command} PARENT_SCOPE)
  set(${environment_variable} ${environment} PARENT_SCOPE)
endfunction()

# A Python script that opens Cairn's files with TensorFlow or h5py. All of these are one test of
# CTest, `interop`, which imports TensorFlow once and names each script that fails; to run one
# alone: tests/interop/run_checks.py BUILD/interop.checks NAME. They run with the Python of the
# virtual environment that scripts/test makes in the build folder, or with CAIRN_INTEROP_PYTHON; if
# that Python has no TensorFlow, the test counts as skipped.
#   cairn_interop_test(NAME SCRIPT file [ARGS argument...] [TIMEOUT seconds])
set(CAIRN_INTEROP_PYTHON "" CACHE FILEPATH "Python with tensorflow, h5py and numpy (empty: venv/)")
function(cairn_interop_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SCRIPT;TIMEOUT" "ARGS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SCRIPT)
    message(FATAL_ERROR "cairn_interop_test(${name}): SCRIPT missing, or unknown arguments "
                        "${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  cmake_path(ABSOLUTE_PATH arg_SCRIPT BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  list(JOIN arg_ARGS "\t" arguments)
  set_property(GLOBAL APPEND_STRING PROPERTY CAIRN_INTEROP_CHECKS
               "${name}\t${arg_TIMEOUT}\t${arg_SCRIPT}\t${arguments}\n")
endfunction()

# Called when all scripts are known.
function(cairn_add_interop_tests)
  get_property(checks GLOBAL PROPERTY CAIRN_INTEROP_CHECKS)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/interop.checks CONTENT "${checks}")
  set(python ${CAIRN_INTEROP_PYTHON})
  if(NOT python)
    set(python ${PROJECT_BINARY_DIR}/venv/bin/python)
  endif()
  add_test(NAME interop COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/interop-python.sh ${python}
                                ${PROJECT_SOURCE_DIR}/tests/interop/run_checks.py
                                ${PROJECT_BINARY_DIR}/interop.checks)
  # This is the longest test, mostly on one core, so CTest starts with it.
  set_tests_properties(interop PROPERTIES LABELS interop TIMEOUT 1500 COST 1000 SKIP_RETURN_CODE 77)
  if(CAIRN_MPI)
    cairn_mpi_launcher(launcher environment)
    set_tests_properties(interop PROPERTIES ENVIRONMENT "${environment}")
  endif()
endfunction()

# The first function returns a directory and all that it added; the second returns the sources of
# its targets, as absolute paths.
function(cairn_directories_below directory result)
  set(found ${directory})
  get_property(below DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS below)
    cairn_directories_below(${subdirectory} more)
    list(APPEND found ${more})
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()
function(cairn_sources_of directory result)
  set(found)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
      if(source AND NOT source MATCHES "^\\$<")
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${directory} NORMALIZE)
        list(APPEND found ${source})
      endif()
    endforeach()
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# Called last in tests/: a test file that no target builds, or a directory that is never added, is a
# configure error. Tests that this configuration leaves out (MPI or Kokkos off) are not checked.
function(cairn_check_test_lists)
  cairn_directories_below(${CMAKE_CURRENT_SOURCE_DIR} directories)
  set(built)
  foreach(directory IN LISTS directories)
    cairn_sources_of(${directory} sources)
    list(APPEND built ${sources})
  endforeach()
  foreach(directory IN LISTS directories)
    file(GLOB sources ${directory}/*.cpp ${directory}/*.c)
    foreach(source IN LISTS sources)
      if(NOT source IN_LIST built)
        message(FATAL_ERROR "${source} is on no list of tests; name it in ${directory}/CMakeLists.txt")
      endif()
    endforeach()
  endforeach()
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt text)
  file(GLOB lists RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(list IN LISTS lists)
    cmake_path(GET list PARENT_PATH directory)
    if(NOT text MATCHES "add_subdirectory\\(${directory}\\)")
      message(FATAL_ERROR "tests/${directory} is never added; name it in tests/CMakeLists.txt")
    endif()
  endforeach()
endfunction()
