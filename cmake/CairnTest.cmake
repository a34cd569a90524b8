# One function a kind of test. A .cpp under tests/ that is on no list is a configure error.
include(GoogleTest)

# Says that these sources belong to some test, whichever options are on.
#   cairn_register_test_sources(file...)
function(cairn_register_test_sources)
  foreach(source IN LISTS ARGN)
    get_filename_component(path ${source} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
    if(NOT EXISTS ${path})
      message(FATAL_ERROR "A test names a source that does not exist: ${path}")
    endif()
    set_property(GLOBAL APPEND PROPERTY CAIRN_TEST_SOURCES ${path})
  endforeach()
endfunction()

# To be called when all tests are known.
function(cairn_check_test_sources folder)
  file(GLOB_RECURSE present CONFIGURE_DEPENDS ${folder}/*.cpp)
  get_property(registered GLOBAL PROPERTY CAIRN_TEST_SOURCES)
  set(forgotten ${present})
  list(REMOVE_ITEM forgotten ${registered})
  if(forgotten)
    list(JOIN forgotten "\n  " lines)
    message(FATAL_ERROR "These test sources are on no list, so nobody runs them:\n  ${lines}")
  endif()
endfunction()

# Arguments of the functions below, checked.
macro(cairn_parse_test_arguments name lists)
  cmake_parse_arguments(arg "" "" "${lists}" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES OR NOT arg_SOURCES)
    message(FATAL_ERROR "${name}: SOURCES or values are missing ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  cairn_register_test_sources(${arg_SOURCES})
endmacro()

function(cairn_add_test_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src
                                             ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE cairn ${arg_LIBRARIES})
  cairn_target_flags(${name})
endfunction()

# An ordinary test program, of one process.
#   cairn_test(NAME SOURCES file... [LIBRARIES library...])
function(cairn_test name)
  cairn_parse_test_arguments("cairn_test(${name})" "SOURCES;LIBRARIES" ${ARGN})
  cairn_add_test_program(${name} SOURCES ${arg_SOURCES}
                         LIBRARIES ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()

# A test program whose ranks are processes of MPI, run once for each rank count as NAME.npN. It has
# its main already (tests/support/mpi_main.cpp).
#   cairn_mpi_test(NAME RANKS count... SOURCES file... [LIBRARIES library...] [TIMEOUT seconds])
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

  cairn_add_test_program(${name} SOURCES ${arg_SOURCES}
                         LIBRARIES ${arg_LIBRARIES} cairn_mpi_test_main cairn_mpi GTest::gmock)
  cairn_mpi_launcher(launcher environment)
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${name}.np${ranks}
             COMMAND ${launcher} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
                     $<TARGET_FILE:${name}> ${MPIEXEC_POSTFLAGS})
    # The program ends itself a little earlier, and says where it hung.
    set_tests_properties(${name}.np${ranks} PROPERTIES
      PROCESSORS ${ranks} TIMEOUT ${arg_TIMEOUT}
      ENVIRONMENT "${environment};CAIRN_TEST_SECONDS=${arg_TIMEOUT}")
  endforeach()
endfunction()

# The start of a command line that runs MPI programs, and the environment it needs.
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
  # What the launcher needs stands in one place, which scripts source.
  set(environment GTEST_COLOR=no)
  file(STRINGS ${PROJECT_SOURCE_DIR}/scripts/mpi-env.sh lines REGEX "^export ")
  foreach(line IN LISTS lines)
    string(REGEX MATCHALL "[A-Za-z_0-9]+=[^ ]*" assignments "${line}")
    list(APPEND environment ${assignments})
  endforeach()
  if(CAIRN_SANITIZE)
    # MPI libraries keep memory to the end.
    list(APPEND environment "ASAN_OPTIONS=detect_leaks=0")
  endif()
  set(${command_variable} ${command} PARENT_SCOPE)
  set(${environment_variable} ${environment} PARENT_SCOPE)
endfunction()
