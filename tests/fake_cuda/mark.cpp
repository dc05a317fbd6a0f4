// What tells the fake CUDA runtime from others: a library of its own, which programs that rehearse
// on the fake runtime leave out (gpu/rehearsal.cmake).
extern "C" int const parallellm_fake_cuda_runtime = 1;
