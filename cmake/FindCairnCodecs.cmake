# The libraries of codecs, each of which may be missing: zlib, Zstandard (target Cairn::zstd), Blosc
# (Cairn::blosc). CAIRN_CODEC_LIBRARIES lists those that are there. The installed package of Cairn
# uses this file, too.
find_package(ZLIB QUIET)
set(CAIRN_CODEC_LIBRARIES)
if(ZLIB_FOUND)
  list(APPEND CAIRN_CODEC_LIBRARIES ZLIB::ZLIB)
endif()
foreach(codec zstd blosc)
  string(TOUPPER ${codec} name)
  find_library(CAIRN_${name}_LIBRARY ${codec})
  find_path(CAIRN_${name}_INCLUDE ${codec}.h)
  mark_as_advanced(CAIRN_${name}_LIBRARY CAIRN_${name}_INCLUDE)
  set(CAIRN_WITH_${name} OFF)
  if(CAIRN_${name}_LIBRARY AND CAIRN_${name}_INCLUDE)
    set(CAIRN_WITH_${name} ON)
    file(STRINGS ${CAIRN_${name}_INCLUDE}/${codec}.h numbers
         REGEX "define (ZSTD|BLOSC)_VERSION_(MAJOR|MINOR|RELEASE) +[0-9]+")
    list(TRANSFORM numbers REPLACE ".*_(MAJOR|MINOR|RELEASE) +([0-9]+).*" "\\2")
    list(JOIN numbers . CAIRN_${name}_VERSION)
    list(APPEND CAIRN_CODEC_LIBRARIES Cairn::${codec})
    if(NOT TARGET Cairn::${codec})
      add_library(Cairn::${codec} UNKNOWN IMPORTED)
      set_target_properties(Cairn::${codec} PROPERTIES IMPORTED_LOCATION ${CAIRN_${name}_LIBRARY}
                            INTERFACE_INCLUDE_DIRECTORIES ${CAIRN_${name}_INCLUDE})
    endif()
  endif()
endforeach()
set(CairnCodecs_FOUND TRUE)
