# cairn.pc, cairn_mpi.pc, cairn_fortran.pc and cairn_fortran_mpi.pc, for builds without CMake:
#   cc program.c $(pkg-config --cflags --libs cairn)
#   mpicc program.c $(pkg-config --cflags --libs cairn_mpi)
#   mpifort program.f90 $(pkg-config --cflags --libs cairn_fortran_mpi)
# They find the installed tree relative to their own place, so that it may be moved.
file(RELATIVE_PATH to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")

# cairn_pkg_config(NAME DESCRIPTION REQUIRES LIBRARIES)
function(cairn_pkg_config name description requires libraries)
  set(includes "-I\${includedir}")
  if(name MATCHES "fortran")
    set(includes "-I\${includedir}/cairn/fortran")
  endif()
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/${name}.pc CONTENT
"prefix=\${pcfiledir}/${to_prefix}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Cflags: ${includes}
Libs: -L\${libdir} ${libraries}
")
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# A static library passes its own libraries on, and the C++ library with them.
set(libraries "-lcairn")
if(CAIRN_IS_STATIC)
  get_property(own GLOBAL PROPERTY CAIRN_ROOM_LIBRARIES)
  list(REMOVE_DUPLICATES own)
  foreach(library IN LISTS own)
    if(library MATCHES "^nlohmann_json")
      continue()  # headers only
    elseif(library STREQUAL "hdf5::hdf5")
      # FindHDF5 lists files, and its target has no location if there are several. For HDF5 2, which
      # has a CMake package, it lists the target of that package.
      foreach(file IN LISTS HDF5_C_LIBRARIES)
        if(TARGET ${file})
          set(file $<TARGET_FILE:${file}>)
        endif()
        string(APPEND libraries " ${file}")
      endforeach()
    else()
      string(APPEND libraries " $<TARGET_FILE:${library}>")
    endif()
  endforeach()
  set(left ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
  list(REMOVE_ITEM left ${CMAKE_C_IMPLICIT_LINK_LIBRARIES})
  list(REMOVE_DUPLICATES left)
  foreach(library IN LISTS left ITEMS m)
    string(APPEND libraries " -l${library}")
  endforeach()
  string(APPEND libraries " -pthread")
endif()
cairn_pkg_config(cairn "${PROJECT_DESCRIPTION}" "" "${libraries}")
if(TARGET cairn_mpi)
  cairn_pkg_config(cairn_mpi "Cairn on the ranks of MPI; compile with MPI's compiler" "cairn"
                   "-lcairn_mpi")
endif()
if(TARGET cairn_fortran)
  cairn_pkg_config(cairn_fortran "Cairn's modules of ${CMAKE_Fortran_COMPILER_ID} Fortran" "cairn"
                   "-lcairn_fortran")
endif()
if(TARGET cairn_fortran_mpi)
  cairn_pkg_config(cairn_fortran_mpi "Cairn in Fortran on the ranks of MPI; compile with mpifort"
                   "cairn_fortran cairn_mpi" "-lcairn_fortran_mpi")
endif()
