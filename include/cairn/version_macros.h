#pragma once
/** The version of these headers, for the preprocessor of C and C++. cairn_version() and
 * cairn::version() tell that of the library that runs. CMakeLists.txt must have the same numbers,
 * or CMake fails to configure. */
#define CAIRN_VERSION_MAJOR 0
#define CAIRN_VERSION_MINOR 1
#define CAIRN_VERSION_PATCH 0

/** Whether these headers are of this version or of a newer one: #if CAIRN_VERSION_GE(0, 2, 0) */
#define CAIRN_VERSION_GE(major, minor, patch) \
  (CAIRN_VERSION_MAJOR > (major) ||           \
   (CAIRN_VERSION_MAJOR == (major) &&         \
    (CAIRN_VERSION_MINOR > (minor) ||         \
     (CAIRN_VERSION_MINOR == (minor) && CAIRN_VERSION_PATCH >= (patch)))))
