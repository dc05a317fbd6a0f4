# ParallelLM::libkokkos: Kokkos's core, by its own package from version 4 on; else by its header and
# library, as Debian's libtrilinos-kokkos-dev has them, whose package cannot be loaded. No target when
# it is not found. Installed with the package, whose config finds Kokkos again.
if(TARGET ParallelLM::libkokkos)
  return()
endif()
if(NOT DEFINED Kokkos_LAUNCH_COMPILER)  # one built for CUDA compiles projects by its launcher
  set(Kokkos_LAUNCH_COMPILER OFF)
  find_package(Kokkos 4 QUIET CONFIG)
  unset(Kokkos_LAUNCH_COMPILER)
else()
  find_package(Kokkos 4 QUIET CONFIG)
endif()
foreach(device IN LISTS Kokkos_DEVICES)
  if(device MATCHES "^(CUDA|HIP|SYCL|OPENMPTARGET|OPENACC)$")
    message(STATUS "ParallelLM: the Kokkos in ${Kokkos_DIR} is built for ${device}, whose compiler its headers "
      "need; the component kokkos computes on the host, and needs one built for Serial, OpenMP or Threads alone")
    return()
  endif()
endforeach()
if(TARGET Kokkos::kokkos)
  add_library(ParallelLM::libkokkos INTERFACE IMPORTED)
  target_link_libraries(ParallelLM::libkokkos INTERFACE Kokkos::kokkos)
  return()
endif()
find_path(ParallelLM_kokkos_INCLUDE Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos)
find_library(ParallelLM_kokkos_LIBRARY NAMES kokkoscore trilinos_kokkoscore)
mark_as_advanced(ParallelLM_kokkos_INCLUDE ParallelLM_kokkos_LIBRARY)
if(ParallelLM_kokkos_INCLUDE AND ParallelLM_kokkos_LIBRARY)
  add_library(ParallelLM::libkokkos UNKNOWN IMPORTED)
  set_target_properties(ParallelLM::libkokkos PROPERTIES
    IMPORTED_LOCATION ${ParallelLM_kokkos_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ParallelLM_kokkos_INCLUDE})
endif()
