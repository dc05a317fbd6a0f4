// Nothing: what is compiled with it are the headers that tests have precompiled (CMakeLists.txt).
