// cuda::stream: an in-order queue of work on a CUDA device. It compiles with plain g++; the .cuh
// files of the operations launch kernels.
//
// The stream does not synchronise with CUDA's default stream (it is non-blocking), so only events
// order work of different streams. The stream owns the scratch memory and the handles of vendor
// libraries that operations need, and creates them at the first use.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <parallel/core/config.hpp>
#include <parallel/device/cuda/constants.hpp>
#include <parallel/device/cuda/error.hpp>
#include <parallel/device/cuda/event.hpp>
#include <parallel/device/cuda/graph_cache.hpp>
#include <parallel/device/cuda/timeline.hpp>

namespace parallel::cuda {

/// An NVTX range, which Nsight Systems shows above the kernels launched in it. Without a profiler a
/// range costs a few nanoseconds and does nothing.
class annotation {
 public:
  explicit annotation(std::string const& name) { nvtxRangePushA(name.c_str()); }
  ~annotation() { nvtxRangePop(); }
  annotation(annotation&&) = delete;
};

struct stream_options {
  /// The ordinal of the device.
  int device = 0;
  /// Every operation gives the same bits in every run, even if that is slower.
  bool deterministic = false;
  /// The ranges of work that as_graph marks run as graphs.
  bool graphs = false;
  /// Work of this stream starts before waiting work of other streams. For exchanges, since other
  /// ranks wait for them.
  bool urgent = false;
  /// Records every operation while the trace is recording; no work runs as a graph meanwhile. Null:
  /// nothing is recorded.
  host::trace* record = nullptr;
};

class stream {
 public:
  using event_type = event;

  explicit stream(stream_options options = {})
      : device_(options.device),
        deterministic_(options.deterministic),
        graphs_(options.graphs),
        timeline_(options.record) {
    device_scope const scope(device_);
    cudaStream_t created = nullptr;
    if (options.urgent) {
      int lowest_priority = 0, highest_priority = 0;
      check(cudaDeviceGetStreamPriorityRange(&lowest_priority, &highest_priority),
            "cudaDeviceGetStreamPriorityRange");
      check(cudaStreamCreateWithPriority(&created, cudaStreamNonBlocking, highest_priority),
            "cudaStreamCreateWithPriority");
    } else {
      check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking),
            "cudaStreamCreateWithFlags");
    }
    stream_.reset(created);
  }

  stream(stream&&) = delete;

  /// Finishes the enqueued work. Failures that nobody has asked for are lost.
  ~stream() {
    static_cast<void>(cudaStreamSynchronize(get()));
    libraries_.clear();
    if (scratch_ != nullptr) static_cast<void>(cudaFreeAsync(scratch_, get()));
  }

  /// An event that is reached when everything enqueued so far has run.
  [[nodiscard]] event record() {
    device_scope const scope(device_);
    event mark;
    check(cudaEventRecord(mark.get(), get()), "cudaEventRecord");
    return mark;
  }

  /// Later work of this stream runs only after `mark` is reached; does not block the caller.
  void wait(event const& mark) {
    check(cudaStreamWaitEvent(get(), mark.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
  }

  /// Waits for an event of another device, such as the host. It blocks the caller until the event
  /// is reached, since this device cannot wait for it. Rethrows the event's failure.
  template <class Event>
  void wait(Event const& mark) {
    mark.wait();
  }

  /// Blocks the caller until all enqueued work has run; throws `error` if some of it failed. It
  /// does not spin, unlike cudaStreamSynchronize: a step waits here once for nearly all of its
  /// time, and other threads can use the core meanwhile. Waking up takes some tens of microseconds.
  void synchronize() {
    record().wait();
    timeline_.finish();
  }

  /// Calls enqueue(), which enqueues one operation, and returns its result, the status of CUDA or
  /// of a library. Every operation uses it, so that a trace can record its time. `name` must live
  /// forever.
  template <class Enqueue>
  [[nodiscard]] auto run(char const* name, Enqueue&& enqueue) {
    std::optional<device_scope> scope;
    if (timeline_.is_recording()) scope.emplace(device_);  // its events are of the stream's device
    return timeline_.measure(name, get(), enqueue);
  }

  /// At least `bytes` of the device's memory, uninitialised and aligned to 256 bytes, for the
  /// operation that is enqueued next. The memory grows to the largest request and stays allocated:
  /// a stream runs one operation at a time, so one block of memory serves all of them.
  [[nodiscard]] std::byte* scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      device_scope const scope(device_);
      require(!is_capturing(), "an operation inside a graph asks for ", bytes,
              " bytes of scratch memory, more than the ", scratch_bytes_,
              " that there are; use cuda_graphs=false, and please report it");
      std::size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
      auto const previous_bytes = std::exchange(scratch_bytes_, 0);
      if (scratch_ != nullptr)
        check(cudaFreeAsync(std::exchange(scratch_, nullptr), get()), "cudaFreeAsync");
      if (!take_scratch(bytes)) {
        static_cast<void>(take_scratch(previous_bytes));  // restores the previous size
        fail<out_of_memory>("out of memory: GPU ", device_, " could not provide ", bytes,
                            " bytes of scratch for operations; it had ", previous_bytes, ", and ",
                            free, " of ", total, " are free");
      }
    }
    return static_cast<std::byte*>(scratch_);
  }
  /// See parallel::reserve_scratch. It also reserves memory for constants.
  void reserve_scratch(std::size_t bytes) {
    static_cast<void>(scratch(bytes));
    device_scope const scope(device_);
    constants_.reserve();
  }
  /// The current size of the scratch memory.
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_bytes_; }

  /// See stream_options::graphs.
  [[nodiscard]] bool runs_graphs() const { return graphs_; }
  /// Whether enqueued work is being captured into a graph instead of run. During a capture memory
  /// cannot be allocated, and nothing can wait for the stream.
  [[nodiscard]] bool is_capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(get(), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }

  /// The stream's object of type `Library`, constructed by Library(stream&) at the first call. It
  /// holds the handle of a vendor library and its tuned or compiled kernels.
  template <class Library>
  [[nodiscard]] Library& library() {
    auto& library = libraries_[std::type_index(typeid(Library))];
    if (!library) library = std::make_shared<Library>(*this);
    return *static_cast<Library*>(library.get());
  }

  /// The device's copy of a few constants (slopes, frequencies) in the host's memory. It is made at
  /// the first call and lives as long as the stream.
  template <class T>
  [[nodiscard]] std::span<T const> constants(std::span<T const> values) {
    if (values.empty()) return {};
    std::string bytes(reinterpret_cast<char const*>(values.data()), values.size_bytes());
    void const* copy = constants_.find(bytes);
    if (copy == nullptr) {
      device_scope const scope(device_);
      require(!is_capturing(),
              "an operation inside a graph asks for constants that are not there yet; "
              "use cuda_graphs=false, and please report it");
      copy = constants_.add(std::move(bytes), get());
    }
    return {static_cast<T const*>(copy), values.size()};
  }

  /// See parallel::as_graph.
  template <class Work>
  void run_as_graph(graph_key const& key, Work&& work) {
    if (!graphs_ || timeline_.is_recording()) return work();
    device_scope const scope(device_);
    graph_cache_.run(get(), key, work);
  }

  /// See parallel::annotate.
  [[nodiscard]] annotation annotate(std::string const& name) { return annotation(name); }

  [[nodiscard]] cudaStream_t get() const { return stream_.get(); }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] bool deterministic() const { return deterministic_; }

 private:
  /// Allocates the scratch memory. Returns false if there is not enough memory.
  [[nodiscard]] bool take_scratch(std::size_t bytes) {
    if (bytes == 0) return true;
    auto const status = cudaMallocAsync(&scratch_, bytes, get());
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      scratch_ = nullptr;
      return false;
    }
    check(status, "cudaMallocAsync of operations' scratch");
    scratch_bytes_ = bytes;
    return true;
  }

  struct destroy {
    void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
  };

  int device_;
  bool deterministic_;
  bool graphs_;
  std::unique_ptr<CUstream_st, destroy> stream_;
  void* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  graph_cache graph_cache_;
  timeline timeline_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> libraries_;
  constant_memory constants_;
};

}  // namespace parallel::cuda
