# Debian packages by CPack: libparallellm-dev, the headers, and libparallellm-mpt-dev, the compiled library of MPT.
#
#   cmake --preset library && (cd build-library && cpack -G DEB)
#   cmake --build build-library --target ParallelLM_mpt &&
#     (cd build-library && cpack -G DEB -D CPACK_COMPONENTS_ALL="development;mpt")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The maintainers of ParallelLM")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libparallellm-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "cmake, pkg-config, nlohmann-json3-dev, libxxhash-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "The headers, their CMake package and files for pkg-config.")

set(CPACK_DEBIAN_MPT_PACKAGE_NAME libparallellm-mpt-dev)
set(CPACK_DEBIAN_MPT_PACKAGE_DEPENDS "libparallellm-dev (= ${PROJECT_VERSION}), nlohmann-json3-dev, libxxhash-dev, \
libfmt-dev, libyaml-cpp-dev, zlib1g-dev, libzstd-dev, libutf8proc-dev, libzip-dev, libssl-dev")
set(CPACK_COMPONENT_MPT_DESCRIPTION "The compiled library of the component mpt: the MPT model, its data and the
 parts of its programs.")
include(CPack)
