# The version numbers of the headers must be the project's; and build_options() gets the commit.
file(READ ${CMAKE_CURRENT_SOURCE_DIR}/include/cairn/version_macros.h text)
foreach(part IN ITEMS MAJOR MINOR PATCH)
  if(NOT text MATCHES "#define CAIRN_VERSION_${part} ${PROJECT_VERSION_${part}}\n")
    message(FATAL_ERROR "include/cairn/version_macros.h has another CAIRN_VERSION_${part} than CMakeLists.txt, "
                        "${PROJECT_VERSION}")
  endif()
endforeach()

# In an archive git has written the commit into the file; in a clone it is the present one, with "+"
# if files differ from it. A developer's build has none: after each commit it would change, and all
# programs would be linked again.
file(READ ${CMAKE_CURRENT_SOURCE_DIR}/cmake/commit CAIRN_COMMIT)
string(STRIP "${CAIRN_COMMIT}" CAIRN_COMMIT)
if(NOT CAIRN_COMMIT MATCHES "^[0-9a-f]+$")
  set(CAIRN_COMMIT "unknown")
  find_package(Git QUIET)
  if(Git_FOUND AND NOT CAIRN_DEVELOPER AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.git)
    execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --abbrev=40 --dirty=+ --exclude=*
                    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} RESULT_VARIABLE failed
                    OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD
                    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
                    OUTPUT_VARIABLE log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed)
      set(CAIRN_COMMIT "${text}")
      cmake_path(ABSOLUTE_PATH log BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      if(EXISTS "${log}")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${log}")
      endif()
    endif()
  endif()
endif()
