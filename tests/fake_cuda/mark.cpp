// The symbol by which programs recognise the fake CUDA runtime. It is a separate library, which
// programs that rehearse on the fake runtime leave out (gpu/rehearsal.cmake).
extern "C" int const parallellm_fake_cuda_runtime = 1;
