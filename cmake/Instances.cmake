# Templates compiled once, for programs that need not compile them again.
#
# A list is a file of explicit instantiations ("template void f<float>(...);"), in which @NAME@ is
# replaced by the caller's variable NAME; a line "ops::X_arguments <float> <bf16>" stands for
# instantiations of run_operation with these arguments. It becomes one source of a library, and, with
# "extern" put before each, a part of a header that whoever links the library includes unasked: so
# the two cannot differ.

function(parallellm_includes out)
  list(TRANSFORM ARGN REPLACE "(.+)" "#include <\\1>\n" OUTPUT_VARIABLE lines)
  list(JOIN lines "" lines)
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

# The text of a list, with every line of an operation as its instantiations.
function(parallellm_read_list out list)
  file(READ ${list} text)
  string(REGEX MATCHALL "\nops::[a-z_]+( <[^>]*>)+" lines "${text}")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "ops::[a-z_]+" operation "${line}")
    string(REGEX MATCH " <.*" types "${line}")
    string(REGEX REPLACE " (<[^>]*>)" "\ntemplate void run_operation(stream&, ${operation}\\1 const&);" instances "${types}")
    string(REPLACE "${line}" "${instances}" text "${text}")
  endforeach()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# parallellm_instantiate(TARGET UNIT LIST DECLARED NAMESPACE [DEFINED]): `DECLARED` are the headers
# that the list's names need, `DEFINED` those that define them, where they are others.
function(parallellm_instantiate target unit list declared namespace)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}/${unit}.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  parallellm_read_list(text ${list})
  string(CONFIGURE "${text}" text @ONLY)
  parallellm_includes(includes ${declared})
  parallellm_includes(definitions ${ARGN})
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
    "@includes@@definitions@namespace @namespace@ {\n@text@}\n")
  target_sources(${target} PRIVATE ${source})
  string(REPLACE "\ntemplate " "\nextern template " text "${text}")
  set_property(TARGET ${target} APPEND_STRING PROPERTY parallellm_elsewhere
    "${includes}namespace ${namespace} {\n${text}}\n")
endfunction()

# Whoever links the target takes from it what parallellm_instantiate has put into it.
function(parallellm_compiled_elsewhere target)
  get_target_property(elsewhere ${target} parallellm_elsewhere)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/${target}/compiled_elsewhere.hpp)
  file(CONFIGURE OUTPUT ${header} @ONLY CONTENT "#pragma once\n@elsewhere@")
  target_compile_options(${target} INTERFACE "SHELL:$<$<COMPILE_LANGUAGE:CXX>:-include ${header}>")
endfunction()

# The same for a library that is installed: the header is installed as HEADER with that component. Its lists and those of
# the `others` are declared in it.
function(parallellm_installed_header target header component)
  foreach(holder IN ITEMS ${ARGN} ${target})
    get_target_property(part ${holder} parallellm_elsewhere)
    string(APPEND elsewhere "${part}")
  endforeach()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}/include)
  file(CONFIGURE OUTPUT ${folder}/${header} @ONLY CONTENT
    "// What the component ${component} of this installation holds compiled; its programs include it unasked.\n#pragma once\n@elsewhere@")
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${folder}>)
  target_compile_options(${target} INTERFACE "SHELL:$<$<COMPILE_LANGUAGE:CXX>:-include ${header}>")
  if(PARALLELLM_INSTALL)
    cmake_path(GET header PARENT_PATH place)
    install(FILES ${folder}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${place} COMPONENT ${component}
      EXCLUDE_FROM_ALL)
  endif()
endfunction()

# parallellm_kernel_sources(OUT EXTENSION [EXCEPT]): sources that instantiate the operations of cuda::stream, one
# for each list of src/kernels/instances, without lines that match EXCEPT.
function(parallellm_kernel_sources out extension)
  set(sources "")
  cmake_path(GET CMAKE_CURRENT_FUNCTION_LIST_DIR PARENT_PATH root)  # of whatever project
  file(GLOB lists CONFIGURE_DEPENDS ${root}/src/kernels/instances/*.inc)
  foreach(list IN LISTS lists)
    get_filename_component(name ${list} NAME_WE)
    string(REGEX REPLACE "_backward$" "" operation ${name})
    set(folder ${root}/include/parallel/ops/cuda)
    file(GLOB header RELATIVE ${root}/include/parallel ${folder}/${operation}.cuh ${folder}/*/${operation}.cuh)
    if(NOT header)  # it is one kernel
      file(GLOB header RELATIVE ${root}/include/parallel ${folder}/kernels/${operation}.hpp
        ${folder}/kernels/*/${operation}.hpp)
    endif()
    if(NOT name STREQUAL "matmul")  # which is a library's
      set(source ${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.${extension})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
      parallellm_read_list(text ${list})
      if(ARGN)
        string(REGEX REPLACE "template [^;]*${ARGN}[^;]*;" "" text "${text}")
      endif()
      file(CONFIGURE OUTPUT ${source} CONTENT
"#include <parallel/ops/cuda/run.cuh>
#include <parallel/@header@>

namespace parallel::cuda {
@text@}
" @ONLY)
      list(APPEND sources ${source})
    endif()
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# parallellm_joined_sources(OUT EXTENSION FILES source...): so many files that include these in turn, so that headers
# are read once for several.
function(parallellm_joined_sources out extension files)
  math(EXPR last "${files} - 1")
  foreach(file RANGE ${last})
    set(text "")
    set(at 0)
    foreach(source IN LISTS ARGN)
      math(EXPR turn "${at} % ${files}")
      if(turn EQUAL file)
        string(APPEND text "#include <${source}>\n")
      endif()
      math(EXPR at "${at} + 1")
    endforeach()
    set(joined ${CMAKE_CURRENT_BINARY_DIR}/joined/${file}.${extension})
    file(CONFIGURE OUTPUT ${joined} CONTENT "@text@" @ONLY)
    list(APPEND sources ${joined})
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
