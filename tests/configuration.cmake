# Configures the project with some optional parts left out, and compiles the sources that stand in for them:
# cmake -DSOURCE=<project> -DBINARY=<folder> -DPARTS=<names> -DSTAND_INS=<objects> -DSETTINGS=<arguments> -P configuration.cmake
list(TRANSFORM PARTS REPLACE "(.+)" "-DPARALLELLM_\\1=OFF" OUTPUT_VARIABLE options)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} ${SETTINGS} -DPARALLELLM_TESTS=OFF
  -DPARALLELLM_BENCH=OFF -DPARALLELLM_CUDA=OFF ${options} COMMAND_ERROR_IS_FATAL ANY)
if(STAND_INS)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} --target ${STAND_INS} COMMAND_ERROR_IS_FATAL ANY)
endif()
