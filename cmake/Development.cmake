# How our own programs and tests are compiled; nothing here reaches a consumer.

find_program(PARALLELLM_CCACHE ccache)
mark_as_advanced(PARALLELLM_CCACHE)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  if(PARALLELLM_CCACHE)
    # It keeps what is compiled with precompiled headers, whatever macros and times these knew.
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros
      ${PARALLELLM_CCACHE})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${PARALLELLM_CCACHE})
  endif()
  # What every file costs is written down; the test compile_cost holds it to a limit.
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_Interpreter_FOUND)
    # The interpreter itself, where what is found is a script that chooses one, and without packages.
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable, end='')"
      OUTPUT_VARIABLE python)
    foreach(language CXX CUDA)
      list(PREPEND CMAKE_${language}_COMPILER_LAUNCHER ${python} -IS
        ${PROJECT_SOURCE_DIR}/bench/compile_cost.py ${PROJECT_BINARY_DIR}/compile_cost.log)
    endforeach()
  endif()
endif()

add_library(parallellm_dev INTERFACE)
target_compile_options(parallellm_dev INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
  # GCC 12 sees ghosts in std::string (its bug 105329); no garbage is collected before it pays.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict;--param=ggc-min-heapsize=600000>
  # What one branch of an `if constexpr` captures is unused where the other is compiled; -Wconversion
  # is what it is with g++.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-unused-lambda-capture;-Wno-sign-conversion>
  # What newer ones than are tried here warn of ends no build of the tests.
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,Clang>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,15>>:-Wno-error>)
if(PARALLELLM_SANITIZE)
  target_compile_options(parallellm_dev INTERFACE -fsanitize=${PARALLELLM_SANITIZE}
    -fno-omit-frame-pointer -g1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # its own checks hide from it what is initialised
    target_compile_options(parallellm_dev INTERFACE -Wno-maybe-uninitialized)
  endif()
  # Four times faster to compile: checks as calls, and without those that a bad access shows anyway.
  if(PARALLELLM_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(parallellm_dev INTERFACE --param=asan-instrumentation-with-call-threshold=0)
  endif()
  if(PARALLELLM_SANITIZE MATCHES undefined)
    target_compile_options(parallellm_dev INTERFACE -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  target_link_options(parallellm_dev INTERFACE -fsanitize=${PARALLELLM_SANITIZE})
endif()
foreach(target ParallelLM_mpt ParallelLM_mpt_directing ParallelLM_curl)  # they are older than the launchers above
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:parallellm_dev>)
  endif()
endforeach()

# parallellm_maintainer_tests([PATTERN]): the tests of the current directory whose names do not match get the label "maintainer":
# `./run test` leaves them to `./run test --all`.
function(parallellm_maintainer_tests)
  get_property(tests DIRECTORY PROPERTY TESTS)
  if(ARGC)
    list(FILTER tests EXCLUDE REGEX "${ARGV0}")
  endif()
  foreach(test IN LISTS tests)
    set_property(TEST ${test} APPEND PROPERTY LABELS maintainer)
  endforeach()
endfunction()
