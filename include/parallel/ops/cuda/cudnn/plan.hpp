// A plan: a graph as kernels that run, from the proposals of cuDNN's heuristics that can be built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/ops/cuda/cudnn/graph.hpp>

namespace parallel::cuda::cudnn {

/// A device that need not be present, from cuDNN's description of it (since 9.11): JSON with its
/// limits.
[[nodiscard]] inline descriptor described_device(std::string_view json) {
  descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
             std::span<char const>(json.data(), json.size()));
  device.finalize();
  return device;
}

/// Engines and their settings for finalized `operations`, the most promising first; empty if cuDNN
/// does not support them. `device` is null for the device of the operations' handle.
[[nodiscard]] inline std::vector<descriptor> candidates(descriptor const& operations,
                                                        descriptor const* device = nullptr) {
  constexpr std::size_t max_candidates = 16;
  std::vector<descriptor> found;
  for (auto const mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (device != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device);
    if (!heuristics.try_finalize()) continue;
    for (auto& candidate : heuristics.try_read(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                               CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, max_candidates))
      found.push_back(std::move(candidate));
  }
  return found;
}

/// The memory of a tensor: device memory, or for a number host memory.
struct binding {
  std::int64_t uid;
  void* memory;
};

/// A graph compiled for the device of a handle. Compiling takes about a second, running enqueues.
class plan {
 public:
  /// Returns null when the candidate cannot be built. `number` is its index in cuDNN's list.
  [[nodiscard]] static std::unique_ptr<plan const> build(cudnnHandle_t handle,
                                                         descriptor const& candidate, int number) {
    descriptor compiled(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    compiled.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate);
    if (!compiled.try_finalize()) return nullptr;
    return std::unique_ptr<plan const>(new plan(std::move(compiled), number));
  }

  [[nodiscard]] int number() const { return number_; }
  /// Bytes of device memory that `run` needs.
  [[nodiscard]] std::size_t workspace() const { return workspace_; }

  /// Enqueues on the handle's stream and returns cuDNN's status; numbers are read before it
  /// returns.
  [[nodiscard]] cudnnStatus_t run(cudnnHandle_t handle, std::span<binding const> tensors,
                                  void* workspace) const {
    std::vector<std::int64_t> uids;
    std::vector<void*> memory;
    for (auto const& tensor : tensors) {
      uids.push_back(tensor.uid);
      memory.push_back(tensor.memory);
    }
    descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<std::int64_t const>(uids))
        .set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, memory)
        .set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {&workspace, 1})
        .finalize();
    return cudnnBackendExecute(handle, plan_.get(), pack.get());
  }

 private:
  plan(descriptor compiled, int number)
      : plan_(std::move(compiled)),
        number_(number),
        workspace_(static_cast<std::size_t>(
            plan_.read<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))) {}

  descriptor plan_;
  int number_;
  std::size_t workspace_;
};

/// The plans of a graph, one by one, the most promising first, starting with the candidate `first`:
/// a source of candidate_selector.
class plans_of {
 public:
  plans_of(cudnnHandle_t handle, graph g, int first = 0)
      : handle_(handle),
        graph_(std::move(g)),
        operations_(graph_.operations(handle)),
        candidates_(candidates(operations_)),
        next_(first) {}

  /// The next plan that can be built; null after the last.
  [[nodiscard]] std::unique_ptr<plan const> operator()() {
    while (next_ < std::ssize(candidates_)) {
      int const number = next_++;
      auto built = plan::build(handle_, candidates_[static_cast<std::size_t>(number)], number);
      if (built) return built;
    }
    return nullptr;
  }

 private:
  cudnnHandle_t handle_;
  graph graph_;  // the candidates refer to it
  descriptor operations_;
  std::vector<descriptor> candidates_;
  int next_;
};

}  // namespace parallel::cuda::cudnn
