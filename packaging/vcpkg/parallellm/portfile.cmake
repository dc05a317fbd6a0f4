# A port of the headers. As an overlay of a checkout it installs that checkout:
#   vcpkg install parallellm --overlay-ports=CHECKOUT/packaging/vcpkg
# Where the folder is copied into a registry, SOURCE_PATH is what vcpkg_from_git brings.
cmake_path(SET SOURCE_PATH NORMALIZE "${CURRENT_PORT_DIR}/../../..")
if(NOT EXISTS "${SOURCE_PATH}/cmake/ParallelLMConfig.cmake.in")
  message(FATAL_ERROR "${SOURCE_PATH} is no checkout of ParallelLM: name packaging/vcpkg of one by --overlay-ports")
endif()

set(VCPKG_BUILD_TYPE release)  # headers: there is nothing to build twice
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DPARALLELLM_APPS=OFF -DPARALLELLM_TESTS=OFF -DPARALLELLM_BENCH=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME ParallelLM CONFIG_PATH lib/cmake/ParallelLM)
if(NOT "checkpoint" IN_LIST FEATURES)  # its libraries are then not there
  file(REMOVE "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/parallellm-checkpoint.pc")
endif()
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc" "${CURRENT_PACKAGES_DIR}/lib/cmake")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
