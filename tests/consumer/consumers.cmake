# Outside projects, built as their authors would: the headers are installed into a fresh prefix, and each folder next to
# this file is configured, built and run against it (one by add_subdirectory).

set(prefix ${CMAKE_CURRENT_BINARY_DIR}/consumer/prefix)

add_test(NAME consumer/clear COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_CURRENT_BINARY_DIR}/consumer)
set_tests_properties(consumer/clear PROPERTIES FIXTURES_SETUP clean_prefix)
add_test(NAME consumer/install COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR}
  --component development --prefix ${prefix})
set_tests_properties(consumer/install PROPERTIES FIXTURES_SETUP installed
  FIXTURES_REQUIRED clean_prefix)

# The settings of this build that an outside project needs to find the same compiler and libraries.
set(launcher "")
if(PARALLELLM_CCACHE)
  set(launcher ${PARALLELLM_CCACHE})
endif()
set(options -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0
  -DCMAKE_CXX_COMPILER_LAUNCHER=${launcher})

function(parallellm_consumer name)
  add_test(NAME consumer/${name} COMMAND ${CMAKE_CTEST_COMMAND}
    --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/consumer/${name}
    ${CMAKE_CURRENT_BINARY_DIR}/consumer/${name}
    --build-generator ${CMAKE_GENERATOR} --build-makeprogram ${CMAKE_MAKE_PROGRAM}
    --build-options ${options} ${ARGN} --test-command consumer)
  set_tests_properties(consumer/${name} PROPERTIES TIMEOUT 900 FIXTURES_REQUIRED installed)
endfunction()

# The library of the component mpt, which this build has compiled.
add_test(NAME consumer/install_mpt COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR}
  --component mpt --prefix ${prefix})
set_tests_properties(consumer/install_mpt PROPERTIES FIXTURES_SETUP installed_mpt
  FIXTURES_REQUIRED installed)

parallellm_consumer(parallel -DCMAKE_PREFIX_PATH=${prefix})
parallellm_consumer(two_units -DCMAKE_PREFIX_PATH=${prefix})
parallellm_consumer(options -DCMAKE_PREFIX_PATH=${prefix})
parallellm_consumer(conformance -DCMAKE_PREFIX_PATH=${prefix})
parallellm_consumer(trainer -DCMAKE_PREFIX_PATH=${prefix} -DEXAMPLES=${PROJECT_SOURCE_DIR}/docs/examples)
parallellm_consumer(mpt -DCMAKE_PREFIX_PATH=${prefix})
set_tests_properties(consumer/mpt PROPERTIES FIXTURES_REQUIRED "installed;installed_mpt")
# The library of the component host, which this build makes for the test: besides the operations, one file.
if(TARGET ParallelLM_host)
  set_target_properties(ParallelLM_host PROPERTIES EXCLUDE_FROM_ALL OFF)
  add_test(NAME consumer/install_host COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR}
    --component host --prefix ${prefix})
  set_tests_properties(consumer/install_host PROPERTIES FIXTURES_SETUP installed_host FIXTURES_REQUIRED installed)
  parallellm_consumer(host -DCMAKE_PREFIX_PATH=${prefix})
  set_tests_properties(consumer/host PROPERTIES FIXTURES_REQUIRED "installed;installed_host")
endif()
parallellm_consumer(version -DCMAKE_PREFIX_PATH=${prefix})
parallellm_consumer(subdirectory -DPARALLELLM_SOURCE=${PROJECT_SOURCE_DIR})
parallellm_consumer(fetch_content -DPARALLELLM_SOURCE=${PROJECT_SOURCE_DIR}
  -DFETCHCONTENT_SOURCE_DIR_PARALLELLM=${PROJECT_SOURCE_DIR})

# The programs without each optional part, and without all of them. What stands in for the parts is compiled where the
# generator has a target for each object.
set(parts OPENMP ONEDNN CBLAS MPI GLOO NCCL KOKKOS PARQUET CURL)
set(stand_ins "")
if(CMAKE_GENERATOR STREQUAL "Ninja")
  set(stand_ins devices/engine_plain launch/launch_without_mpi launch/launch_without_gloo inputs/parquet_none
    inputs/http_none)
  list(TRANSFORM stand_ins REPLACE "(.+)" "apps/CMakeFiles/parallellm_app_support.dir/__/src/\\1.cpp.o")
endif()
foreach(part IN LISTS parts ITEMS "${parts}")
  set(name ${part})
  set(objects "")
  if(NOT part IN_LIST parts)
    set(name any_part)
    set(objects ${stand_ins})
  endif()
  add_test(NAME configuration/without_${name} COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
    -DBINARY=${CMAKE_CURRENT_BINARY_DIR}/configuration/${name} "-DPARTS=${part}" "-DSTAND_INS=${objects}"
    "-DSETTINGS=-G;${CMAKE_GENERATOR};${options}" -P ${CMAKE_CURRENT_SOURCE_DIR}/configuration.cmake)
  set_tests_properties(configuration/without_${name} PROPERTIES TIMEOUT 900)
endforeach()

# The same headers by other tools than CMake's, each where it is installed.
foreach(tool pkg_config debian conan vcpkg single_file)
  add_test(NAME packages/${tool} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/packages/${tool}.sh ${PROJECT_SOURCE_DIR}
    ${CMAKE_CURRENT_BINARY_DIR}/packages/${tool} ${CMAKE_CXX_COMPILER} ${prefix})
  set_tests_properties(packages/${tool} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
  if(PARALLELLM_PYTHON_TOOLS)
    set_tests_properties(packages/${tool} PROPERTIES
      ENVIRONMENT_MODIFICATION PATH=path_list_prepend:${PARALLELLM_PYTHON_TOOLS}/bin)
  endif()
endforeach()
set_tests_properties(packages/pkg_config PROPERTIES FIXTURES_REQUIRED "installed;installed_mpt")
if(Python3_Interpreter_FOUND)
  add_test(NAME packages/release_notes COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/packages/release_notes.py ${PROJECT_SOURCE_DIR})
endif()

if(TARGET ParallelLM_nccl)
  parallellm_consumer(nccl -DCMAKE_PREFIX_PATH=${prefix} -DCUDAToolkit_ROOT=${CUDAToolkit_ROOT})
endif()

if(TARGET ParallelLM_kokkos)
  list(JOIN CMAKE_PREFIX_PATH "\\;" found_here)
  parallellm_consumer(kokkos "-DCMAKE_PREFIX_PATH=${prefix}\\;${found_here}" -DKokkos_DIR=${Kokkos_DIR})
endif()

if(TARGET ParallelLM_kernels)
  add_test(NAME consumer/install_kernels COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR}
    --component kernels --prefix ${prefix})
  set_tests_properties(consumer/install_kernels PROPERTIES FIXTURES_SETUP installed_kernels
    FIXTURES_REQUIRED installed)
  parallellm_consumer(cuda -DCMAKE_PREFIX_PATH=${prefix}
    -DCUDAToolkit_ROOT=${CUDAToolkit_ROOT})
  set_tests_properties(consumer/cuda PROPERTIES FIXTURES_REQUIRED installed_kernels)
endif()

add_test(NAME consumer/refusal COMMAND ${CMAKE_COMMAND} ${options} -DCMAKE_PREFIX_PATH=${prefix}
  -S ${CMAKE_CURRENT_SOURCE_DIR}/consumer/refusal -B ${CMAKE_CURRENT_BINARY_DIR}/consumer/refusal)
set_tests_properties(consumer/refusal PROPERTIES TIMEOUT 60 FIXTURES_REQUIRED installed
  PASS_REGULAR_EXPRESSION
  "ParallelLM has no component 'paralel'; there are parallel, checkpoint, mpt")
