# How our own programs and tests are compiled; nothing here reaches a consumer.

find_program(PARALLELLM_CCACHE ccache)
mark_as_advanced(PARALLELLM_CCACHE)
if(PARALLELLM_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PARALLELLM_CCACHE})
endif()

add_library(parallellm_dev INTERFACE)
target_compile_options(parallellm_dev INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # GCC 12 sees ghosts in std::string (its bug 105329)
if(PARALLELLM_SANITIZE)
  target_compile_options(parallellm_dev INTERFACE -fsanitize=${PARALLELLM_SANITIZE}
    -fno-omit-frame-pointer -g)
  target_link_options(parallellm_dev INTERFACE -fsanitize=${PARALLELLM_SANITIZE})
endif()
