# One function a kind of test. A .cpp under tests/ that is on no list is a configure error.
include(GoogleTest)

# An ordinary test program, of one process.
#   cairn_test(NAME SOURCES file... [LIBRARIES library...])
function(cairn_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "cairn_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE cairn GTest::gmock GTest::gtest_main ${arg_LIBRARIES})
  cairn_target_flags(${name})
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
