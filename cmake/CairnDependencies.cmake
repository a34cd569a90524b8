# Every package that the build needs, looked up in one place.
find_package(Threads REQUIRED)
find_package(Snappy REQUIRED)
find_package(Protobuf REQUIRED)
find_package(CairnIsal REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PNG)  # pictures of the tool and of an example; without it the tool writes PPM files
if(CAIRN_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
endif()
if(CAIRN_KOKKOS)
  find_package(CairnKokkos REQUIRED)
endif()
