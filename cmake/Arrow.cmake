# ParallelLM::parquet: mpt with Arrow's C++ library, which reads Parquet. By Arrow's CMake packages,
# or else the headers and libraries in the wheel of pyarrow, if the Python that CMake finds has it
# (for another one: Python3_EXECUTABLE). Neither found: no target.

find_package(Arrow QUIET)
find_package(Parquet QUIET)
set(libraries "")
if(TARGET Parquet::parquet_shared)
  set(libraries Parquet::parquet_shared Arrow::arrow_shared)
else()
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_Interpreter_FOUND)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c
      "import pyarrow; print(pyarrow.get_include(), pyarrow.get_library_dirs()[0], sep=';', end='')"
      OUTPUT_VARIABLE places ERROR_QUIET RESULT_VARIABLE failed)
    if(failed EQUAL 0)
      list(GET places 0 include)
      list(GET places 1 folder)
      foreach(name arrow parquet)
        file(GLOB file ${folder}/lib${name}.so ${folder}/lib${name}.so.*)
        if(file AND IS_DIRECTORY ${include}/${name})
          list(GET file 0 file)
          add_library(ParallelLM::wheel_${name} UNKNOWN IMPORTED)
          set_target_properties(ParallelLM::wheel_${name} PROPERTIES IMPORTED_LOCATION ${file}
            INTERFACE_INCLUDE_DIRECTORIES ${include})
          list(PREPEND libraries ParallelLM::wheel_${name})
        endif()
      endforeach()
    endif()
  endif()
endif()
list(LENGTH libraries found)
if(found EQUAL 2)
  # not installed: a consumer finds Arrow its own way and includes parquet_rows.hpp
  add_library(ParallelLM_parquet INTERFACE)
  add_library(ParallelLM::parquet ALIAS ParallelLM_parquet)
  target_link_libraries(ParallelLM_parquet INTERFACE ParallelLM::mpt ${libraries})
endif()
