# Installs the headers and a package config with components. Each component has an export file of
# its own, loaded together with its dependencies, so find_package(ParallelLM COMPONENTS parallel)
# needs none of the libraries that mpt needs.
#
# The headers belong to the install component "development":
#   cmake --install build --component development --prefix DIR      needs no built program
# A compiled library has an install component of its own, named like its target: "mpt", "kernels" (the operations
# of CUDA) and "host" (what trainers on the host instantiate most). An installation without --component leaves both out, since it needs nothing that was built.

if(NOT PARALLELLM_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ParallelLM)
get_property(components GLOBAL PROPERTY parallellm_components)

install(DIRECTORY include/parallel include/mpt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN *.hpp PATTERN *.cuh)
install(FILES docs/guide.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(DIRECTORY docs/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development
  FILES_MATCHING PATTERN *.cpp PATTERN *.hpp)
install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/site/html DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development
  OPTIONAL)  # where docs_site was built
foreach(component IN LISTS components)
  install(TARGETS ParallelLM_${component} EXPORT ParallelLM_${component}
    COMPONENT development)
  install(EXPORT ParallelLM_${component} FILE ParallelLM-${component}.cmake
    NAMESPACE ParallelLM:: DESTINATION ${package_dir} COMPONENT development)
endforeach()

foreach(library mpt kernels host)
  if(TARGET ParallelLM_${library})
    install(TARGETS ParallelLM_${library} EXPORT ParallelLM_${library}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${library} EXCLUDE_FROM_ALL)
    install(EXPORT ParallelLM_${library} FILE ParallelLM-${library}.cmake
      NAMESPACE ParallelLM:: DESTINATION ${package_dir} COMPONENT ${library} EXCLUDE_FROM_ALL)
  endif()
endforeach()

# Names of libraries that were chosen here and must be found again by consumers.
set(parallellm_cblas_library openblas)
if(TARGET ParallelLM::openblas)
  get_target_property(file ParallelLM::openblas IMPORTED_LOCATION)
  if(file MATCHES "blis")
    set(parallellm_cblas_library blis)
  endif()
endif()
set(parallellm_cudnn OFF)  # whether the kernels are linked with it
if(TARGET ParallelLM::cudnn)
  set(parallellm_cudnn ON)
endif()

set(parallellm_host_needs parallel)
if(TARGET ParallelLM::openmp)
  set(parallellm_host_needs openmp)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/PkgConfig.cmake)

configure_package_config_file(cmake/ParallelLMConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/package/ParallelLMConfig.cmake INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may break programs; from then on only a major one does (docs/packages.md).
set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
endif()
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/package/ParallelLMConfigVersion.cmake
  COMPATIBILITY ${compatibility} ARCH_INDEPENDENT)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/package/ParallelLMConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/package/ParallelLMConfigVersion.cmake cmake/PlainLibrary.cmake
  cmake/Kokkos.cmake
  DESTINATION ${package_dir} COMPONENT development)

if(PROJECT_IS_TOP_LEVEL)
  include(${CMAKE_CURRENT_LIST_DIR}/Packages.cmake)
endif()
