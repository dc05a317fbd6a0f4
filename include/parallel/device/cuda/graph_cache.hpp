// cuda::graph_cache: the CUDA graphs of a stream.
//
// A range of work is captured every time it is enqueued, and launched immediately as a graph. If
// the range was captured before, its instantiated graph is updated with what changed (pointers,
// numbers). So the graph always matches the code that enqueues. A graph saves the separate launch
// of each operation, on the host and between two kernels on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <type_traits>

#include <parallel/device/as_graph.hpp>
#include <parallel/device/cuda/error.hpp>

namespace parallel::cuda {

/// Belongs to one stream; not thread-safe.
class graph_cache {
 public:
  /// Enqueues `work` on `stream`. The first call with a key runs without a graph: operations may
  /// allocate memory, compile or measure when they first see a shape, which cannot be captured.
  /// Throws `error` if CUDA fails, and exceptions of `work`.
  template <class Work>
  void run(cudaStream_t stream, graph_key const& key, Work&& work) {
    auto const [entry, is_new] = graphs_.try_emplace(key);
    if (is_new) return work();
    auto const captured = capture(stream, work);
    auto& ready = entry->second;
    if (ready && !update(ready.get(), captured.get())) ready.reset();
    if (!ready) {
      cudaGraphExec_t executable_graph = nullptr;
      check(cudaGraphInstantiate(&executable_graph, captured.get(), 0), "cudaGraphInstantiate");
      ready.reset(executable_graph);
    }
    check(cudaGraphLaunch(ready.get(), stream), "cudaGraphLaunch");
  }

 private:
  struct destroy {
    void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
    void operator()(cudaGraphExec_t graph) const { static_cast<void>(cudaGraphExecDestroy(graph)); }
  };
  using graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, destroy>;
  using executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, destroy>;

  template <class Work>
  [[nodiscard]] static graph capture(cudaStream_t stream, Work&& work) {
    // mode for this thread only: threads of other ranks may allocate meanwhile
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    cudaGraph_t captured = nullptr;
    try {
      work();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream, &captured));
      static_cast<void>(graph(captured));
      throw;
    }
    check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
    return graph(captured);
  }

  /// Updates the instantiated graph to what was captured. Returns false if the operations differ.
  [[nodiscard]] static bool update(cudaGraphExec_t ready, cudaGraph_t captured) {
    cudaGraphExecUpdateResultInfo result_info{};
    if (cudaGraphExecUpdate(ready, captured, &result_info) == cudaSuccess) return true;
    static_cast<void>(cudaGetLastError());
    return false;
  }

  std::map<graph_key, executable> graphs_;
};

}  // namespace parallel::cuda
