# `cmake --install` installs include/, lib/, lib/cairn (modules of the tool), lib/cmake/Cairn, lib/pkgconfig,
# bin/cairn and bin/cairn-job, share/doc/cairn, share/cairn/slurm, share/man, and completion for shells. The
# package has the components core, mpi and kokkos, each with its own file of targets, so that a program that
# wants only the core needs neither MPI nor Kokkos.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(cairn_package ${CMAKE_INSTALL_LIBDIR}/cmake/Cairn)
set(CAIRN_COMPONENTS)

# cairn_install_component(COMPONENT TARGET): does nothing if the target is not part of this build.
macro(cairn_install_component component target)
  if(TARGET ${target})
    list(APPEND CAIRN_COMPONENTS ${component})
    if(${component} STREQUAL "core")
      set_target_properties(${target} PROPERTIES EXPORT_NAME cairn)
    else()
      set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
    endif()
    install(TARGETS ${target} EXPORT Cairn-${component}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(EXPORT Cairn-${component} FILE Cairn-${component}.cmake NAMESPACE Cairn::
            DESTINATION ${cairn_package})
  endif()
endmacro()
cairn_install_component(core cairn)
cairn_install_component(mpi cairn_mpi)
cairn_install_component(kokkos cairn_kokkos)
cairn_install_component(fortran cairn_fortran)
cairn_install_component(fortran_mpi cairn_fortran_mpi)
if(TARGET cairn_fortran)  # modules of this compiler, and their sources for other compilers
  install(DIRECTORY ${PROJECT_BINARY_DIR}/fortran/modules/
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cairn/fortran FILES_MATCHING PATTERN *.mod)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/fortran DESTINATION ${CMAKE_INSTALL_DATADIR}/cairn)
endif()

# Headers of parts that are not in this build are not installed. Each pattern is for a header or a
# folder.
set(left_out)
if(NOT TARGET cairn_mpi)
  list(APPEND left_out REGEX "/cairn/mpi(\\.hpp|$)" EXCLUDE)
endif()
if(NOT TARGET cairn_kokkos)
  list(APPEND left_out REGEX "/cairn/kokkos(\\.hpp|$)" EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/cairn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN *.hpp PATTERN *.h ${left_out})
install(FILES ${PROJECT_SOURCE_DIR}/include/cairn.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET cairn_mpi)
  install(FILES ${PROJECT_SOURCE_DIR}/include/cairn_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()

if(TARGET cairn_cli)
  install(TARGETS cairn_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  foreach(module cairn_hdf5 cairn_mpi_ranks)
    if(TARGET ${module})
      install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/cairn)
    endif()
  endforeach()
  if(TARGET cairn_pages)  # man and the shells look there
    install(DIRECTORY ${PROJECT_BINARY_DIR}/share/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
    foreach(shell bash-completion zsh fish)
      install(DIRECTORY ${PROJECT_BINARY_DIR}/share/${shell} DESTINATION ${CMAKE_INSTALL_DATADIR})
    endforeach()
  endif()
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/slurm/cairn-job DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/slurm DESTINATION ${CMAKE_INSTALL_DATADIR}/cairn
          FILES_MATCHING PATTERN *.sbatch)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/docs)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
foreach(document README.md CHANGELOG.md LICENSE)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${document})
    install(FILES ${PROJECT_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR})
  endif()
endforeach()

# Finds what a program that links libcairn needs: a static library passes its own libraries on.
get_target_property(cairn_type cairn TYPE)
set(CAIRN_IS_STATIC OFF)
if(cairn_type STREQUAL "STATIC_LIBRARY")
  set(CAIRN_IS_STATIC ON)
endif()
include(CairnPkgConfig)
string(JOIN "|" CAIRN_COMPONENTS_PATTERN ${CAIRN_COMPONENTS})
string(JOIN ", " CAIRN_COMPONENTS ${CAIRN_COMPONENTS})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/CairnConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/CairnConfig.cmake
                              INSTALL_DESTINATION ${cairn_package})
set(compatibility SameMajorVersion)
if(PROJECT_VERSION VERSION_LESS 1)
  set(compatibility SameMinorVersion)  # STABILITY.md
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/CairnConfigVersion.cmake COMPATIBILITY ${compatibility})
install(FILES ${PROJECT_BINARY_DIR}/CairnConfig.cmake
              ${PROJECT_BINARY_DIR}/CairnConfigVersion.cmake DESTINATION ${cairn_package})
set(finders)
if(CAIRN_IS_STATIC)
  list(APPEND finders ${PROJECT_SOURCE_DIR}/cmake/FindCairnIsal.cmake
                      ${PROJECT_SOURCE_DIR}/cmake/FindCairnCodecs.cmake)
endif()
if(TARGET cairn_kokkos)
  list(APPEND finders ${PROJECT_SOURCE_DIR}/cmake/FindCairnKokkos.cmake)
endif()
install(FILES ${finders} DESTINATION ${cairn_package})
