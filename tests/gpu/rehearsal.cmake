# Links the programs that bench/gpu runs on a GPU, from the same object files, with the fake runtimes in front of
# the real libraries, so that the errors of a first hour on a GPU are found without one.

add_custom_target(gpu_rehearsal)

# parallellm_rehearsed(PROGRAM TARGET LIBRARY...) links PROGRAM from TARGET's objects
function(parallellm_rehearsed name target)
  set(fakes parallellm_fake_nccl parallellm_fake_kernels parallellm_fake_cuda)  # without parallellm_fake_cuda_mark
  list(TRANSFORM fakes REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
  add_executable(rehearsed_${name} EXCLUDE_FROM_ALL fake_nccl/machine_of_environment.cpp
    $<TARGET_OBJECTS:${target}>)
  set_target_properties(rehearsed_${name} PROPERTIES OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/rehearsal)
  target_include_directories(rehearsed_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_include_directories(rehearsed_${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
    ${PARALLELLM_NCCL_INCLUDE})
  target_link_options(rehearsed_${name} PRIVATE LINKER:--as-needed)
  target_link_libraries(rehearsed_${name} PRIVATE
    -Wl,--whole-archive ${archives} -Wl,--no-whole-archive ${ARGN} parallellm_dev)
  add_dependencies(rehearsed_${name} ${fakes})
  add_dependencies(gpu_rehearsal rehearsed_${name})
endfunction()

parallellm_rehearsed(gpu_tests test_gpu parallellm_test_main parallellm_test_parts parallellm_cuda
  $<TARGET_NAME_IF_EXISTS:ParallelLM::nccl> ${engines})
parallellm_rehearsed(gpu_step gpu_step_check ParallelLM::mpt ParallelLM::kernels)
parallellm_rehearsed(gpu_rates gpu_rates_check ParallelLM::mpt ParallelLM::kernels)
parallellm_rehearsed(pretrain pretrain parallellm_app_support parallellm_app_train)

add_test(NAME programs/gpu_rehearsal COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/programs/gpu/gpu_rehearsal.sh
  ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR}/programs-gpu_rehearsal ${CMAKE_CURRENT_BINARY_DIR}/rehearsal
  ${PARALLELLM_PROGRAMS})
set_tests_properties(programs/gpu_rehearsal PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77)
