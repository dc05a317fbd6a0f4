# ParallelLM::jinja: mpt with minja (github.com/google/minja), which runs chat templates: headers
# alone, found as minja/minja.hpp. Not found: no target.

find_path(MINJA_INCLUDE minja/minja.hpp)
mark_as_advanced(MINJA_INCLUDE)
if(MINJA_INCLUDE)
  # not installed: a consumer finds minja its own way and includes jinja_renderer.hpp
  add_library(ParallelLM_jinja INTERFACE)
  add_library(ParallelLM::jinja ALIAS ParallelLM_jinja)
  target_link_libraries(ParallelLM_jinja INTERFACE ParallelLM::mpt)
  target_include_directories(ParallelLM_jinja SYSTEM INTERFACE ${MINJA_INCLUDE})
endif()
