# ISA-L has no CMake package of its own. This file defines the target Cairn::isal; the installed
# package of Cairn uses it, too.
include(FindPackageHandleStandardArgs)
find_library(CAIRN_ISAL_LIBRARY isal)
find_path(CAIRN_ISAL_INCLUDE isa-l/crc.h)
if(CAIRN_ISAL_INCLUDE AND EXISTS ${CAIRN_ISAL_INCLUDE}/isa-l.h)
  file(STRINGS ${CAIRN_ISAL_INCLUDE}/isa-l.h numbers REGEX "define ISAL_(MAJOR|MINOR|PATCH)_VERSION [0-9]+")
  list(TRANSFORM numbers REPLACE ".* " "")
  list(JOIN numbers . CairnIsal_VERSION)
endif()
mark_as_advanced(CAIRN_ISAL_LIBRARY CAIRN_ISAL_INCLUDE)
find_package_handle_standard_args(
  CairnIsal
  REQUIRED_VARS CAIRN_ISAL_LIBRARY CAIRN_ISAL_INCLUDE
  VERSION_VAR CairnIsal_VERSION
  REASON_FAILURE_MESSAGE "Install ISA-L (libisal-dev on Debian), or name its place in CMAKE_PREFIX_PATH")
if(CairnIsal_FOUND AND NOT TARGET Cairn::isal)
  add_library(Cairn::isal UNKNOWN IMPORTED)
  set_target_properties(Cairn::isal PROPERTIES IMPORTED_LOCATION ${CAIRN_ISAL_LIBRARY}
                                               INTERFACE_INCLUDE_DIRECTORIES ${CAIRN_ISAL_INCLUDE})
endif()
