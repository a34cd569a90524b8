# Every package that the build needs, looked up in one place.
find_package(Threads REQUIRED)
find_package(leveldb REQUIRED)
find_package(Snappy REQUIRED)
find_package(Protobuf REQUIRED)
find_library(CAIRN_ISAL_LIBRARY isal REQUIRED)
find_path(CAIRN_ISAL_INCLUDE isa-l/crc.h REQUIRED)
add_library(Cairn::isal UNKNOWN IMPORTED)
set_target_properties(Cairn::isal PROPERTIES IMPORTED_LOCATION ${CAIRN_ISAL_LIBRARY}
                                             INTERFACE_INCLUDE_DIRECTORIES ${CAIRN_ISAL_INCLUDE})
find_package(nlohmann_json REQUIRED)
if(CAIRN_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
endif()
