# parallellm_plain_library(TARGET HEADER LIBRARY [folder...]): an imported target for a library that
# brings no CMake package, from a header and a library file, looked for in the given folders too. No
# target when it is not found. Installed with the package, whose config finds the same libraries
# again.
include_guard(GLOBAL)

function(parallellm_plain_library target header library)
  if(TARGET ${target})
    return()
  endif()
  string(MAKE_C_IDENTIFIER ${target} id)
  find_path(${id}_INCLUDE ${header} HINTS ${ARGN})
  find_library(${id}_LIBRARY ${library} HINTS ${ARGN})
  mark_as_advanced(${id}_INCLUDE ${id}_LIBRARY)
  if(${id}_INCLUDE AND ${id}_LIBRARY)
    add_library(${target} UNKNOWN IMPORTED)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${id}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${${id}_INCLUDE})
  endif()
endfunction()
