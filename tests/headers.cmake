# Every public header compiles alone, twice included, with only the libraries of its component: one
# generated translation unit a header, built by the ctest entry "headers/full" (not by "all"), a
# part of them by "headers". All of them in one unit are compiled by g++, which users have, and clang++
# ("headers/g++", "headers/clang"), where tests are compiled by the other.

# The libraries a header may need; empty: they are not here, and it is left out.
function(parallellm_header_libraries header out)
  set(libraries ParallelLM::parallel)
  if(header MATCHES "/parquet_")
    set(libraries ParallelLM::parquet)
  elseif(header MATCHES "^mpt/")
    set(libraries ParallelLM::mpt)
  elseif(header MATCHES "^parallel/checkpoint/")
    set(libraries ParallelLM::checkpoint)
  elseif(header MATCHES "/kokkos(/|\\.hpp$)")
    set(libraries ParallelLM::kokkos)
  elseif(header MATCHES "/mpi/")
    set(libraries ParallelLM::mpi)
  elseif(header MATCHES "/gloo/")
    set(libraries ParallelLM::gloo)
  elseif(header MATCHES "/(onednn|cblas)")
    set(libraries ParallelLM::${CMAKE_MATCH_1})
  elseif(header MATCHES "/cudnn/")
    set(libraries ParallelLM::cuda ParallelLM::cudnn)
  elseif(header MATCHES "/cuda/")
    set(libraries ParallelLM::parallel CUDA::cudart)
  endif()
  foreach(library IN LISTS libraries)
    if(NOT TARGET ${library})
      set(libraries "")
    endif()
  endforeach()
  set(${out} ${libraries} PARENT_SCOPE)
endfunction()

# A header and what it includes of the project, directly or not.
function(parallellm_included header out)
  get_property(all GLOBAL PROPERTY "parallellm included ${header}")
  if(NOT all)
    file(STRINGS ${PROJECT_SOURCE_DIR}/include/${header} lines REGEX "^#include <(mpt|parallel)/")
    list(TRANSFORM lines REPLACE "^#include <([^>]+)>.*" "\\1")
    set(all ${header})
    foreach(one IN LISTS lines)
      parallellm_included(${one} more)
      list(APPEND all ${more})
    endforeach()
    list(REMOVE_DUPLICATES all)
    set_property(GLOBAL PROPERTY "parallellm included ${header}" "${all}")
  endif()
  set(${out} "${all}" PARENT_SCOPE)
endfunction()

# In one unit those that include the fewest others come first, as the others may have what they
# lack.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_SOURCE_DIR}/include/*.hpp)
set(counted "")
foreach(header IN LISTS headers)
  parallellm_included(${header} all)
  list(LENGTH all count)
  list(APPEND counted "${count} ${header}")
endforeach()
list(SORT counted COMPARE NATURAL)
list(TRANSFORM counted REPLACE "^[0-9]+ " "" OUTPUT_VARIABLE headers)
add_custom_target(check_headers)
add_custom_target(check_headers_sample)
set(all_headers "")
set(all_libraries "")
foreach(header IN LISTS headers)
  parallellm_header_libraries(${header} libraries)
  if(NOT libraries)
    continue()
  endif()
  string(APPEND all_headers "#include <${header}>\n")
  list(APPEND all_libraries ${libraries})
  list(JOIN libraries _ group)
  set(kind check_headers)
  string(MD5 hash ${header})
  if(hash MATCHES "^0[0-7]")
    set(kind check_headers_sample)
  endif()
  string(MAKE_C_IDENTIFIER ${kind}_${group} group)
  if(NOT TARGET ${group})
    add_library(${group} OBJECT EXCLUDE_FROM_ALL)
    target_link_libraries(${group} PRIVATE ${libraries} parallellm_dev)
    target_compile_options(${group} PRIVATE -O0)
    add_dependencies(${kind} ${group})
  endif()
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/headers/${header}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include <@header@>\n#include <@header@>\n" @ONLY)
  target_sources(${group} PRIVATE ${unit})
endforeach()

add_test(NAME headers
  COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target check_headers_sample)
add_test(NAME headers/full
  COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target check_headers)
set_tests_properties(headers headers/full PROPERTIES TIMEOUT 1800 RESOURCE_LOCK build)
set_tests_properties(headers/full PROPERTIES LABELS full)

find_program(PARALLELLM_CLANG clang++)
find_program(PARALLELLM_GXX g++)
mark_as_advanced(PARALLELLM_CLANG PARALLELLM_GXX)
set(unit ${CMAKE_CURRENT_BINARY_DIR}/headers/all.cpp)
file(CONFIGURE OUTPUT ${unit} CONTENT "@all_headers@" @ONLY)
list(REMOVE_DUPLICATES all_libraries)
add_library(all_headers INTERFACE)  # never built: it gathers the include folders
target_link_libraries(all_headers INTERFACE ${all_libraries})
set(folders $<TARGET_PROPERTY:all_headers,INTERFACE_INCLUDE_DIRECTORIES>)

# parallellm_all_headers(NAME COMPILER option...): a test that compiles them in one unit.
function(parallellm_all_headers name compiler)
  add_test(NAME headers/${name} COMMAND ${compiler} -std=c++20 -fsyntax-only -Wall -Wextra
    -Wpedantic -Wconversion -Wshadow -Werror ${ARGN} -I${PROJECT_SOURCE_DIR}/include
    -idirafter$<JOIN:${folders},$<SEMICOLON>-idirafter> -DOMPI_SKIP_MPICXX ${unit}
    COMMAND_EXPAND_LISTS)
  set_tests_properties(headers/${name} PROPERTIES TIMEOUT 600)
endfunction()

if(PARALLELLM_GXX)
  parallellm_all_headers(g++ ${PARALLELLM_GXX} -Wno-restrict)
  if(CMAKE_CXX_COMPILER_ID MATCHES GNU)
    set_tests_properties(headers/g++ PROPERTIES LABELS full)
  endif()
endif()
if(PARALLELLM_CLANG)
  parallellm_all_headers(clang ${PARALLELLM_CLANG})
  # Bodies of templates are seen where they are instantiated.
  add_test(NAME headers/clang_instantiated COMMAND ${PARALLELLM_CLANG} -std=c++20 -fsyntax-only
    -Wall -Wextra -Wpedantic -Wconversion -Wno-unused-lambda-capture -Werror
    -I${PROJECT_SOURCE_DIR}/include -idirafter$<JOIN:${folders},$<SEMICOLON>-idirafter>
    ${PROJECT_SOURCE_DIR}/docs/examples/llama.cpp COMMAND_EXPAND_LISTS)
  set_tests_properties(headers/clang_instantiated PROPERTIES TIMEOUT 600)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)  # tests have compiled nearly all, without -Wsign-conversion
    set_tests_properties(headers/clang PROPERTIES LABELS full)
  endif()

  # Target lint: clang-tidy over all headers, and over a few programs that instantiate them.
  find_program(PARALLELLM_CLANG_TIDY clang-tidy)
  mark_as_advanced(PARALLELLM_CLANG_TIDY)
  if(PARALLELLM_CLANG_TIDY)
    add_custom_target(lint COMMAND ${PARALLELLM_CLANG_TIDY} --quiet
      --config-file=${PROJECT_SOURCE_DIR}/.clang-tidy ${unit}
      ${CMAKE_CURRENT_SOURCE_DIR}/consumer/parallel/main.cpp
      ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/targets/manifest.cpp
      -- -std=c++20 -I${PROJECT_SOURCE_DIR}/include
      -idirafter$<JOIN:${folders},$<SEMICOLON>-idirafter> -DOMPI_SKIP_MPICXX
      COMMAND_EXPAND_LISTS VERBATIM)
  endif()
endif()

# Mistakes that a compiler names in a short message: g++, which users have, and in --full clang++ too. Those that include the
# same headers are compiled by g++ together, and in --full each alone.
set(compilers ${PARALLELLM_GXX} ${PARALLELLM_CLANG})
list(FILTER compilers EXCLUDE REGEX NOTFOUND)
file(GLOB mistakes RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/messages CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/messages/*/*.cpp)
set(together "")
if(PARALLELLM_GXX AND Python3_Interpreter_FOUND)
  foreach(headers model layers)
    set(snippets "")
    foreach(mistake IN LISTS mistakes)
      file(STRINGS messages/${mistake} included LIMIT_COUNT 1 REGEX "^#include \"\\.\\./${headers}\\.hpp\"")
      if(included AND NOT mistake MATCHES "operations_not_included")  # others include the operations
        list(APPEND snippets ${mistake})
      endif()
    endforeach()
    list(APPEND together ${snippets})
    add_test(NAME messages/together/${headers} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/messages/check_together.py ${PARALLELLM_GXX} ${snippets})
    set_tests_properties(messages/together/${headers} PROPERTIES TIMEOUT 300)
  endforeach()
endif()
foreach(compiler IN LISTS compilers)
  get_filename_component(name ${compiler} NAME)
  foreach(mistake IN LISTS mistakes)
    cmake_path(GET mistake STEM stem)
    set(labels "")
    if(mistake IN_LIST together OR (PARALLELLM_GXX AND NOT compiler STREQUAL PARALLELLM_GXX))
      set(labels LABELS full)
    endif()
    add_test(NAME messages/${name}/${stem}
      COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/messages/check.sh ${compiler} ${mistake})
    set_tests_properties(messages/${name}/${stem} PROPERTIES TIMEOUT 300 ${labels})
  endforeach()
  add_test(NAME messages/options/${name}
    COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/messages/check_options.sh ${compiler})
  set_tests_properties(messages/options/${name} PROPERTIES TIMEOUT 60)
endforeach()
