# Files for pkg-config, for builds without CMake: parallellm, the headers, and parallellm-NAME for components that need
# other libraries, flags or files. They find their own place, so an installation can be moved; one whose folders are given by
# absolute paths (CMAKE_INSTALL_LIBDIR, CMAKE_INSTALL_INCLUDEDIR) stays where it was made. What differs from machine
# to machine in more than a name (MPI, CUDA, NCCL, Kokkos) has the CMake package alone; for MPI there is mpicxx.

# parallellm_pkg_config(NAME COMPONENT DESCRIPTION [REQUIRES ...] [FLAGS ...] [LIBRARIES ...]): a file that is installed
# with that component of the installation.
function(parallellm_pkg_config name component description)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "REQUIRES;FLAGS;LIBRARIES")
  set(folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(prefix ${CMAKE_INSTALL_PREFIX})
  else()
    file(RELATIVE_PATH up /prefix/${folder} /prefix)
    string(REGEX REPLACE "/$" "" up "${up}")
    set(prefix "\${pcfiledir}/${up}")
  endif()
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE includedir)
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE libdir)
  list(JOIN arg_REQUIRES ", " requires)
  list(JOIN arg_FLAGS " " flags)
  list(JOIN arg_LIBRARIES " " libraries)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/package/${name}.pc)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/parallellm.pc.in ${file} @ONLY)
  set(optional "")
  if(NOT component STREQUAL development)
    set(optional EXCLUDE_FROM_ALL)
  endif()
  install(FILES ${file} DESTINATION ${folder} COMPONENT ${component} ${optional})
endfunction()

set(same "parallellm = ${PROJECT_VERSION}")
parallellm_pkg_config(parallellm development "Training parallelism as a header-only C++20 library"
  FLAGS -I\${includedir} -pthread LIBRARIES -pthread)
parallellm_pkg_config(parallellm-checkpoint development "ParallelLM with files of tensors"
  REQUIRES ${same} nlohmann_json libxxhash)
if(TARGET ParallelLM_openmp)
  parallellm_pkg_config(parallellm-openmp development "ParallelLM with OpenMP on the host"
    REQUIRES ${same} FLAGS ${OpenMP_CXX_FLAGS} LIBRARIES ${OpenMP_CXX_FLAGS})
endif()
foreach(row "onednn;dnnl;oneDNN's products" "cblas;${parallellm_cblas_library};a BLAS's products"
    "gloo;gloo;ranks over gloo")
  list(GET row 0 component)
  list(GET row 1 library)
  list(GET row 2 purpose)
  if(TARGET ParallelLM_${component})
    parallellm_pkg_config(parallellm-${component} development "ParallelLM with ${purpose}"
      REQUIRES ${same} LIBRARIES -l${library})
  endif()
endforeach()
if(TARGET ParallelLM_mpt)
  parallellm_pkg_config(parallellm-mpt mpt "The MPT model, its data and the parts of its programs"
    REQUIRES "parallellm-checkpoint = ${PROJECT_VERSION}" fmt yaml-cpp zlib libzstd libutf8proc libzip libcrypto
    LIBRARIES -L\${libdir} -lParallelLM_mpt)
endif()
