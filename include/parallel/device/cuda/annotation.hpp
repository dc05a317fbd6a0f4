// cuda::annotation: an NVTX range, which Nsight Systems shows above the kernels launched in it.
//
// NVTX is header-only. Without a profiler a range costs a few nanoseconds and does nothing.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <string>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

class annotation {
 public:
  explicit annotation(std::string const& name) { nvtxRangePushA(name.c_str()); }
  ~annotation() { nvtxRangePop(); }
  annotation(annotation&&) = delete;
};

}  // namespace parallel::cuda
