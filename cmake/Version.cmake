# parallellm_version: MAJOR.MINOR.PATCH, as the header states it.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../include/parallel/core/version.hpp parallellm_version
  REGEX "library_version{[0-9]+, [0-9]+, [0-9]+};$")
if(NOT parallellm_version MATCHES "{([0-9]+), ([0-9]+), ([0-9]+)}")
  message(FATAL_ERROR "include/parallel/core/version.hpp states no library_version{MAJOR, MINOR, PATCH}")
endif()
set(parallellm_version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/parallel/core/version.hpp)
