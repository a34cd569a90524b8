# Flags for Cairn's own targets only: nothing here affects a project that uses Cairn.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Compiles the sources of a target together, which halves the time of a build from nothing.
# Developers' presets say OFF, since this hides missing includes.
if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_RUNTIME_OUTPUT_DIRECTORY)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)  # scripts find every program there
endif()
set(CAIRN_SANITIZE_FLAGS "" CACHE STRING "Compiler flags after those of CAIRN_SANITIZE, separated by ;")
set(CAIRN_TOOL_FLAGS "" CACHE STRING "Compiler flags of the tool and the Python module only, separated by ;")
find_program(CAIRN_CCACHE ccache)
if(CAIRN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CAIRN_CCACHE})
endif()

# Warnings and sanitizers for one of Cairn's targets.
function(cairn_target_flags target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic>)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:-Wthread-safety>)
  if(CAIRN_DEVELOPER)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
  if(CAIRN_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(CAIRN_SANITIZE)
    target_compile_definitions(${target} PRIVATE CAIRN_SANITIZED)
    target_compile_options(${target} PRIVATE -fsanitize=${CAIRN_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all ${CAIRN_SANITIZE_FLAGS})
    target_link_options(${target} PUBLIC -fsanitize=${CAIRN_SANITIZE})
  endif()
endfunction()

# Functions of headers and templates are compiled wherever they are used, and a program takes those
# that the linker sees first. So that a program which is compiled without optimisation runs, and
# tests, the library as it was compiled, static libraries come before its own files.
function(cairn_link_first target)
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()
  endif()
  foreach(library IN LISTS ARGN)
    get_target_property(type ${library} TYPE)
    get_target_property(imported ${library} IMPORTED)
    if(imported OR NOT type STREQUAL "STATIC_LIBRARY")
      continue()
    endif()
    target_link_options(${target} PRIVATE
      "LINKER:--whole-archive,$<TARGET_FILE:${library}>,--no-whole-archive")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS $<TARGET_FILE:${library}>)
  endforeach()
endfunction()

# Precompiled headers save a fifth of the time of a build from nothing. They are off by default:
# they hide missing includes, and ccache does not cache sources that use them.
#   cairn_precompile(TARGET OWNER): those that the target OWNER precompiles, compiled like TARGET
function(cairn_precompile target owner)
  if(CAIRN_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# Clang refuses a precompiled header if its sources have another modification time, as in another
# clone.
function(cairn_precompiled_flags target compiler)
  if(compiler MATCHES "[Cc]lang")
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# The part of a version that names its interface: until 1.0 each minor version may have another one,
# then each major one (STABILITY.md).
function(cairn_interface_of version result)
  string(REGEX MATCH "^(0\\.[0-9]+|[0-9]+)" interface ${version})
  set(${result} ${interface} PARENT_SCOPE)
endfunction()

# Sets the version of a shared library. That of its interface is in the name that programs look for,
# and in the symbol version of the C functions, so that a program never runs with another interface.
function(cairn_shared_version target)
  cairn_interface_of(${PROJECT_VERSION} interface)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${interface})
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "SHARED_LIBRARY" OR APPLE OR WIN32)
    return()
  endif()
  set(script ${PROJECT_BINARY_DIR}/symbols.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "CAIRN_${interface} {\n  global: cairn_*;\n};\n" @ONLY)
  target_link_options(${target} PRIVATE LINKER:--version-script=${script})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${script})
endfunction()

# A room of the core library: a folder of src/, compiled once, linked into `cairn`.
#   cairn_room(NAME SOURCES file... [USES room...] [PRIVATE library...])
function(cairn_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES;PRIVATE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "cairn_room(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target cairn_room_${name})
  add_library(${target} OBJECT ${arg_SOURCES})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  foreach(used IN LISTS arg_USES)
    target_link_libraries(${target} PUBLIC cairn_room_${used})
  endforeach()
  target_link_libraries(${target} PRIVATE ${arg_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY CAIRN_ROOMS ${target})
  set_property(GLOBAL APPEND PROPERTY CAIRN_ROOM_LIBRARIES ${arg_PRIVATE})
  cairn_target_flags(${target})
  cairn_precompile(${target} cairn_precompiled)
endfunction()
