# ParallelLM::curl: mpt with libcurl, for downloads and trackers. Not found: no target.

find_package(CURL 7.75 QUIET)
if(TARGET CURL::libcurl)
  add_library(ParallelLM_curl STATIC EXCLUDE_FROM_ALL ${curl_sources})  # not installed
  add_library(ParallelLM::curl ALIAS ParallelLM_curl)
  target_link_libraries(ParallelLM_curl PUBLIC ParallelLM::mpt PRIVATE CURL::libcurl)
endif()
