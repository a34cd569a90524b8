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
include(CairnPackages)
