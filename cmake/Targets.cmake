# The library, one target per thing a consumer may want: header-only INTERFACE targets, but for mpt, kernels and host.
#
#   ParallelLM::parallel    floors 0-4 and the training step: no third-party headers
#   ParallelLM::checkpoint  parallel + files of tensors (JSON, xxHash)
#   ParallelLM::mpt         checkpoint + the MPT model, its data and programs' parts: a static library, whose
#                           ordinary code is declared in include/mpt and compiled once from src/mpt
#   ParallelLM::conformance parallel + the laws for communicators, devices and layers of one's own
#   ParallelLM::openmp, onednn, cblas, mpi, gloo, nccl, cuda, kokkos   backends, when found
#   ParallelLM::kernels     cuda + its operations compiled for float and bf16
#   ParallelLM::host        parallel + what trainers on the host instantiate most, compiled (src/instances/host)

function(parallellm_interface name)
  add_library(ParallelLM_${name} INTERFACE)
  add_library(ParallelLM::${name} ALIAS ParallelLM_${name})
  set_target_properties(ParallelLM_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(ParallelLM_${name} INTERFACE ${ARGN})
  set_property(GLOBAL APPEND PROPERTY parallellm_components ${name})
endfunction()

parallellm_interface(parallel Threads::Threads)
target_compile_features(ParallelLM_parallel INTERFACE cxx_std_20)
set(system "")
if(NOT PROJECT_IS_TOP_LEVEL)
  set(system SYSTEM)  # a project that carries these sources sees no warnings of them
endif()
target_include_directories(ParallelLM_parallel ${system} INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

parallellm_interface(checkpoint ParallelLM::parallel nlohmann_json::nlohmann_json
  ParallelLM::xxhash)
parallellm_interface(conformance ParallelLM::parallel)
if(OpenMP_CXX_FOUND)
  parallellm_interface(openmp ParallelLM::parallel OpenMP::OpenMP_CXX)
endif()
if(TARGET ParallelLM::dnnl)
  parallellm_interface(onednn ParallelLM::parallel ParallelLM::dnnl)
endif()
if(TARGET ParallelLM::openblas)
  parallellm_interface(cblas ParallelLM::parallel ParallelLM::openblas)
endif()
if(MPI_CXX_FOUND)
  parallellm_interface(mpi ParallelLM::parallel MPI::MPI_CXX)
endif()
if(TARGET ParallelLM::libgloo)
  parallellm_interface(gloo ParallelLM::parallel ParallelLM::libgloo)
endif()
if(TARGET ParallelLM::libnccl)
  parallellm_interface(nccl ParallelLM::parallel CUDA::cudart ParallelLM::libnccl)
endif()
if(TARGET ParallelLM::libkokkos)
  parallellm_interface(kokkos ParallelLM::parallel ParallelLM::libkokkos)
endif()

# The library mpt is compiled against what it needs; without that there is everything but mpt (Dependencies.cmake names
# what is missing).
if(parallellm_missing)
  return()
endif()

# Makes a source from `template`: each @name@ in it becomes the text of the file that follows that name. The template holds
# the texts in raw strings R"file(...)file".
function(parallellm_embed template source)
  while(ARGN)
    list(POP_FRONT ARGN name file)
    file(READ ${file} ${name})
    string(FIND "${${name}}" ")file\"" delimiter)
    if(NOT delimiter EQUAL -1)
      message(FATAL_ERROR "${file} contains )file\", which ends the string that holds it")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endwhile()
  configure_file(${template} ${source} @ONLY)
endfunction()

set(folder ${CMAKE_CURRENT_SOURCE_DIR}/src/mpt/hf)
set(remote_code ${CMAKE_CURRENT_BINARY_DIR}/remote_code.cpp)
parallellm_embed(${folder}/remote_code.cpp.in ${remote_code}
  configuration ${folder}/remote_code/configuration_parallel_mpt.py
  modeling ${folder}/remote_code/modeling_parallel_mpt.py)
# The page of `report`: its own files, and the library that draws its charts, where it is found (Debian's libjs-dygraphs).
set(folder ${CMAKE_CURRENT_SOURCE_DIR}/src/mpt/report)
set(page_assets ${CMAKE_CURRENT_BINARY_DIR}/page_assets.cpp)
find_file(DYGRAPHS_SCRIPT dygraph.min.js PATHS /usr/share/javascript/dygraphs PATH_SUFFIXES share/javascript/dygraphs)
find_file(DYGRAPHS_STYLES dygraph.min.css PATHS /usr/share/javascript/dygraphs PATH_SUFFIXES share/javascript/dygraphs)
mark_as_advanced(DYGRAPHS_SCRIPT DYGRAPHS_STYLES)
set(library_files "")
if(DYGRAPHS_SCRIPT AND DYGRAPHS_STYLES)
  set(library_files chart_library ${DYGRAPHS_SCRIPT} chart_library_styles ${DYGRAPHS_STYLES})
endif()
parallellm_embed(${folder}/assets.cpp.in ${page_assets} ${library_files}
  page_script ${folder}/page.js page_styles ${folder}/page.css)
set_source_files_properties(${page_assets} PROPERTIES
  COMPILE_OPTIONS $<$<CXX_COMPILER_ID:Clang>:-Wno-overlength-strings>)
set(companion_script ${CMAKE_CURRENT_BINARY_DIR}/companion_script.cpp)
parallellm_embed(${CMAKE_CURRENT_SOURCE_DIR}/src/mpt/trackers/companion_script.cpp.in ${companion_script}
  script ${CMAKE_CURRENT_SOURCE_DIR}/src/companion/tracker.py)
set(known_clusters ${CMAKE_CURRENT_BINARY_DIR}/known_clusters.cpp)
parallellm_embed(${CMAKE_CURRENT_SOURCE_DIR}/src/mpt/plan/known_clusters.cpp.in ${known_clusters}
  clusters ${CMAKE_CURRENT_SOURCE_DIR}/src/mpt/plan/clusters.yaml
  programs ${CMAKE_CURRENT_SOURCE_DIR}/src/mpt/plan/programs.yaml
  program_memory ${CMAKE_CURRENT_SOURCE_DIR}/src/mpt/plan/program_memory.yaml)
# The list of model families: one for each file of their folder.
set(folder ${CMAKE_CURRENT_SOURCE_DIR}/src/mpt/config)
file(GLOB family_files CONFIGURE_DEPENDS ${folder}/families/*.cpp)
foreach(file IN LISTS family_files)
  cmake_path(GET file STEM name)
  string(APPEND declarations "namespace families::${name} {\nextern model_family const table;\n}\n")
  list(APPEND addresses "&families::${name}::table")
endforeach()
list(JOIN addresses ", " addresses)
set(families ${CMAKE_CURRENT_BINARY_DIR}/families.cpp)
configure_file(${folder}/families.cpp.in ${families} @ONLY)
# What runs once or a few times in a run (reading a configuration, set-up, downloads, reports) is compiled for little compile
# time; tokenizers, data, checksums and generation are compiled for speed, in a Debug build too.
set(directing_folders callbacks config console eval hub log net plan report trackers train yaml)
list(JOIN directing_folders "|" directing_folders)
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/mpt/*.cpp)
# What needs libcurl is a library of its own (Curl.cmake).
set(curl_sources ${sources})
list(FILTER curl_sources INCLUDE REGEX "/net/curl_[a-z0-9_]+\\.cpp$")
list(REMOVE_ITEM sources ${curl_sources})
set(directing_sources ${sources})
list(FILTER directing_sources INCLUDE REGEX "/src/mpt/(${directing_folders})/")
list(REMOVE_ITEM sources ${directing_sources})
add_library(ParallelLM_mpt_directing OBJECT EXCLUDE_FROM_ALL ${directing_sources})
target_compile_options(ParallelLM_mpt_directing PRIVATE $<$<NOT:$<CONFIG:Debug>>:-Og>)
add_library(ParallelLM_mpt STATIC EXCLUDE_FROM_ALL ${sources} ${remote_code} ${page_assets} ${companion_script} ${known_clusters} ${families} $<TARGET_OBJECTS:ParallelLM_mpt_directing>)
add_library(ParallelLM::mpt ALIAS ParallelLM_mpt)
target_compile_options(ParallelLM_mpt PRIVATE $<$<CONFIG:Debug>:-O1>)
set_target_properties(ParallelLM_mpt PROPERTIES EXPORT_NAME mpt)
set(needed ParallelLM::checkpoint fmt::fmt yaml-cpp::yaml-cpp ZLIB::ZLIB ParallelLM::zstd ParallelLM::utf8proc ParallelLM::zip)
target_link_libraries(ParallelLM_mpt PUBLIC ${needed} PRIVATE OpenSSL::Crypto)
target_link_libraries(ParallelLM_mpt_directing PRIVATE ${needed})
foreach(target ParallelLM_mpt ParallelLM_mpt_directing)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)  # most of a file's time is spent on the headers
  if(PARALLELLM_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  endif()
endforeach()
