// cuda::graph_cache: the graphs of a stream.
//
// A stretch of work is captured every time it comes and launched at once. Where it was captured
// before, its graph is instantiated already, and only what changed (pointers, numbers) is put in:
// the graph is never older than the code that enqueues. What is saved is the launch of each
// operation for itself, on the host and between two kernels on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <type_traits>

#include <parallel/device/as_graph.hpp>
#include <parallel/device/cuda/error.hpp>

namespace parallel::cuda {

/// Of one stream; not thread-safe.
class graph_cache {
 public:
  /// The first stretch of a key is run as it comes: operations that meet a shape for the first time
  /// may ask for memory, compile or time, which cannot be captured. Throws `error` when CUDA
  /// refuses, and what `work` throws.
  template <class Work>
  void run(cudaStream_t on, graph_key const& key, Work&& work) {
    auto const [known, is_new] = graphs_.try_emplace(key);
    if (is_new) return work();
    auto const captured = capture(on, work);
    auto& ready = known->second;
    if (ready && !update(ready.get(), captured.get())) ready.reset();
    if (!ready) {
      cudaGraphExec_t made = nullptr;
      check(cudaGraphInstantiate(&made, captured.get(), 0), "cudaGraphInstantiate");
      ready.reset(made);
    }
    check(cudaGraphLaunch(ready.get(), on), "cudaGraphLaunch");
  }

 private:
  struct destroy {
    void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
    void operator()(cudaGraphExec_t graph) const { static_cast<void>(cudaGraphExecDestroy(graph)); }
  };
  using graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, destroy>;
  using executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, destroy>;

  template <class Work>
  [[nodiscard]] static graph capture(cudaStream_t on, Work&& work) {
    // of this thread: those of other ranks go on allocating meanwhile
    check(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t made = nullptr;
    try {
      work();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(on, &made));
      static_cast<void>(graph(made));
      throw;
    }
    check(cudaStreamEndCapture(on, &made), "cudaStreamEndCapture");
    return graph(made);
  }

  /// Whether the graph could take what was captured: it cannot when operations have changed.
  [[nodiscard]] static bool update(cudaGraphExec_t ready, cudaGraph_t captured) {
    cudaGraphExecUpdateResultInfo why{};
    if (cudaGraphExecUpdate(ready, captured, &why) == cudaSuccess) return true;
    static_cast<void>(cudaGetLastError());
    return false;
  }

  std::map<graph_key, executable> graphs_;
};

}  // namespace parallel::cuda
