// A program of one's own over NCCL's own library: the version that is linked; and if there is no
// GPU, one clear sentence.
#include <parallel/comm/nccl/session.hpp>

#include <cstdio>
#include <string>

int main() {
  std::printf("NCCL %s\n", parallel::nccl::version().c_str());
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0) return 0;
  try {
    parallel::nccl::check(ncclCommInitRank(nullptr, 1, ncclUniqueId{}, 0), "ncclCommInitRank");
  } catch (parallel::error const& refused) {
    std::string const text = refused.what();
    std::printf("%s\n", text.c_str());
    return text.starts_with("NCCL 2.") && text.find('\n') == std::string::npos ? 0 : 1;
  }
  return 1;
}
