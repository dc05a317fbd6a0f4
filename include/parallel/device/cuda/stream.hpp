// cuda::stream: an in-order queue of work on a CUDA device. Plain g++ compiles it; kernels are
// launched by the operations' .cuh.
//
// The stream does not wait for CUDA's default stream (non-blocking), so only events order work.
// What operations need beside it, scratch memory and handles of vendor libraries, belongs to the
// stream and is made when first asked for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include <parallel/device/cuda/annotation.hpp>
#include <parallel/device/cuda/constants.hpp>
#include <parallel/device/cuda/error.hpp>
#include <parallel/device/cuda/event.hpp>
#include <parallel/device/cuda/graph_cache.hpp>
#include <parallel/device/cuda/timeline.hpp>

namespace parallel::cuda {

struct stream_options {
  /// Ordinal of the device.
  int device = 0;
  /// Every operation gives the same bits in every run, also where that is slower.
  bool deterministic = false;
  /// Stretches of work that as_graph marks run as graphs.
  bool graphs = false;
  /// What is enqueued goes before work of other streams that has not begun: for exchanges, which
  /// others wait for.
  bool urgent = false;
  /// Notes every operation while it is recording, and nothing runs as a graph then; null: nothing.
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
      int least = 0, greatest = 0;
      check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
            "cudaDeviceGetStreamPriorityRange");
      check(cudaStreamCreateWithPriority(&created, cudaStreamNonBlocking, greatest),
            "cudaStreamCreateWithPriority");
    } else {
      check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking),
            "cudaStreamCreateWithFlags");
    }
    stream_.reset(created);
  }

  stream(stream const&) = delete;
  stream& operator=(stream const&) = delete;

  /// Finishes what was enqueued. Failures not asked for are dropped.
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

  /// Waits for an event of another device, such as the host's: blocks the caller until it is
  /// reached, since nothing on this device can wait for it. Rethrows its failure.
  template <class Event>
  void wait(Event const& mark) {
    mark.wait();
  }

  /// Blocks the caller until all enqueued work has run; throws `error` when some of it failed. Does
  /// not spin, as cudaStreamSynchronize does: a step waits here once for nearly all of its time,
  /// and the core belongs to others meanwhile. Waking up takes some tens of microseconds.
  void synchronize() {
    record().wait();
    timeline_.finish();
  }

  /// enqueue(), which enqueues one operation and returns CUDA's or a library's status. Every
  /// operation goes through it, so that a trace knows when it ran; `name` must live forever.
  template <class Enqueue>
  [[nodiscard]] auto run(char const* name, Enqueue&& enqueue) {
    std::optional<device_scope> scope;
    if (timeline_.recording()) scope.emplace(device_);  // its events are of the stream's device
    return timeline_.measure(name, get(), enqueue);
  }

  /// At least `bytes` of the device's memory, uninitialised and aligned to 256 bytes, for the
  /// operation that is enqueued next. It grows to what the largest asked for and stays: a stream
  /// runs one operation at a time, so one piece of memory serves all of them.
  [[nodiscard]] std::byte* scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      device_scope const scope(device_);
      require(!capturing(), "an operation inside a graph asks for ", bytes,
              " bytes of scratch memory, more than the ", scratch_bytes_,
              " that there are; use cuda_graphs=false, and please report it");
      std::size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
      auto const before = std::exchange(scratch_bytes_, 0);
      if (scratch_ != nullptr)
        check(cudaFreeAsync(std::exchange(scratch_, nullptr), get()), "cudaFreeAsync");
      if (!take_scratch(bytes)) {
        static_cast<void>(take_scratch(before));  // what it had stays there
        fail<out_of_memory>("out of memory: GPU ", device_, " could not provide ", bytes,
                            " bytes of scratch for operations; beside the ", before,
                            " that there were ", free, " of ", total, " are free");
      }
    }
    return static_cast<std::byte*>(scratch_);
  }
  /// See parallel::reserve_scratch. Takes memory for constants too.
  void reserve_scratch(std::size_t bytes) {
    static_cast<void>(scratch(bytes));
    device_scope const scope(device_);
    constants_.reserve();
  }
  /// What it has grown to.
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_bytes_; }

  /// See stream_options::graphs.
  [[nodiscard]] bool makes_graphs() const { return graphs_; }
  /// Whether what is enqueued now becomes part of a graph, and does not run yet: memory cannot be
  /// asked for, and nobody can wait.
  [[nodiscard]] bool capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(get(), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }

  /// The stream's own `Library`, made by Library(stream&) when first asked for: the handle of a
  /// vendor's library, what was tuned or compiled.
  template <class Library>
  [[nodiscard]] Library& library() {
    auto& kept = libraries_[std::type_index(typeid(Library))];
    if (!kept) kept = std::make_shared<Library>(*this);
    return *static_cast<Library*>(kept.get());
  }

  /// The device's copy of a few numbers that stay what they are (slopes, frequencies), which lie in
  /// the host's memory: made when they are first asked for, kept as long as the stream.
  template <class T>
  [[nodiscard]] std::span<T const> constants(std::span<T const> values) {
    if (values.empty()) return {};
    std::string bytes(reinterpret_cast<char const*>(values.data()), values.size_bytes());
    void const* copy = constants_.find(bytes);
    if (copy == nullptr) {
      device_scope const scope(device_);
      require(!capturing(),
              "an operation inside a graph asks for constants that are not there yet; "
              "use cuda_graphs=false, and please report it");
      copy = constants_.add(std::move(bytes), get());
    }
    return {static_cast<T const*>(copy), values.size()};
  }

  /// See parallel::as_graph.
  template <class Work>
  void run_as_graph(graph_key const& key, Work&& work) {
    if (!graphs_ || timeline_.recording()) return work();
    device_scope const scope(device_);
    graph_cache_.run(get(), key, work);
  }

  /// See parallel::annotate.
  [[nodiscard]] annotation annotate(std::string const& name) { return annotation(name); }

  [[nodiscard]] cudaStream_t get() const { return stream_.get(); }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] bool deterministic() const { return deterministic_; }

 private:
  /// False, and nothing, when there is no memory.
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
