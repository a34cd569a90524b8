# `cpack` in the build folder makes a .deb with libraries, headers, tool and documents in one
# package, since it is for one MPI and one HDF5, those of the system. scripts/packages makes one
# from a shared build, and tests it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cairn)
set(CPACK_PACKAGE_VENDOR Cairn)
set(CPACK_PACKAGE_CONTACT "the developers of Cairn")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "The state of an MPI program is saved on any number of ranks and
restored on any other, in TensorFlow's file format or in HDF5; every byte is checked, and a crash at
any instant leaves a good checkpoint. With the tool cairn, for C++, C, Fortran and Python.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src ${PROJECT_BINARY_DIR}/mpi
    ${PROJECT_BINARY_DIR}/kokkos ${PROJECT_BINARY_DIR}/fortran)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # so that ldconfig runs, too
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libopenmpi-dev, libtrilinos-kokkos-dev")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-numpy, python3-mpi4py, gfortran")
# Debian's name and place for the license.
configure_file(${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_BINARY_DIR}/debian/copyright COPYONLY)
set(CPACK_INSTALLED_DIRECTORIES ${PROJECT_BINARY_DIR}/debian /usr/share/doc/cairn)
# Debian's zsh looks for completions here.
if(TARGET cairn_pages)
  list(APPEND CPACK_INSTALLED_DIRECTORIES ${PROJECT_BINARY_DIR}/share/zsh/site-functions
              /usr/share/zsh/vendor-completions)
endif()
# When the package is removed, files that Python has written beside its modules are removed, too.
if(CAIRN_PYTHON)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian-control/prerm @ONLY CONTENT
       "#!/bin/sh\nset -e\nrm -rf /usr/@CAIRN_PYTHON_DESTINATION@/__pycache__\n")
  file(CHMOD ${PROJECT_BINARY_DIR}/debian-control/prerm PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
       GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian-control/prerm)
endif()
include(CPack)
# Lists the packages that this build uses, one per line: name, version, license, purpose.
# scripts/release makes its list of software (SPDX) from it.
function(cairn_list_packages)
  set(lines "")
  macro(package is_used name version license purpose)
    if(${is_used})
      string(APPEND lines "${name}|${version}|${license}|${purpose}\n")
    endif()
  endmacro()
  package(TRUE isa-l "${CairnIsal_VERSION}" BSD-3-Clause "checksums and erasure codes")
  package(TRUE snappy "${Snappy_VERSION}" BSD-3-Clause "compressed blocks of an index")
  package(TRUE protobuf "${Protobuf_VERSION}" BSD-3-Clause "entries of an index")
  package(TRUE nlohmann-json "${nlohmann_json_VERSION}" MIT "JSON, header only")
  package(ZLIB_FOUND zlib "${ZLIB_VERSION_STRING}" Zlib "codec of HDF5 checkpoints")
  package(CAIRN_WITH_ZSTD zstd "" BSD-3-Clause "codec of HDF5 checkpoints")
  package(CAIRN_WITH_BLOSC blosc "" BSD-3-Clause "codec of HDF5 checkpoints")
  package(CLI11_FOUND cli11 "${CLI11_VERSION}" BSD-3-Clause "arguments of the tool, header only")
  package(PNG_FOUND libpng "${PNG_VERSION_STRING}" libpng-2.0 "pictures of the tool")
  package(CAIRN_MPI mpi "${MPI_C_VERSION}" NOASSERTION "the system's MPI; the version is the standard's")
  package(CAIRN_WITH_HDF5 hdf5 "${HDF5_VERSION}" BSD-3-Clause "HDF5 files, with MPI")
  package(CAIRN_WITH_S3 curl "${CURL_VERSION_STRING}" curl "requests to object stores")
  package(CAIRN_WITH_S3 openssl "${OPENSSL_VERSION}" Apache-2.0 "signatures of requests")
  package(CAIRN_WITH_S3 pugixml "${pugixml_VERSION}" MIT "answers of object stores")
  package(CAIRN_KOKKOS kokkos "${CairnKokkos_VERSION}" "Apache-2.0 WITH LLVM-exception" "Views")
  package(CAIRN_PYTHON pybind11 "${pybind11_VERSION}" BSD-3-Clause "the Python module, header only")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/packages.txt CONTENT "${lines}" @ONLY)
endfunction()
cairn_list_packages()
