// Streams, events, captures and graphs of the fake CUDA runtime.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fake_cuda/machine.hpp"

namespace fake_cuda {
namespace {

/// Runs `work` as (a part of) the calling thread's task `name`; throws when it touches memory
/// without rights.
void run_guarded(char const* name, std::function<void()> const& work) {
  auto& task = running_task();
  auto const outer = task;
  sigjmp_buf return_point;
  if (sigsetjmp(return_point, 0) == 0) {
    task.name = name;
    task.return_point = &return_point;
    try {
      work();
    } catch (...) {
      task = outer;
      throw;
    }
    task = outer;
    return;
  }
  std::ostringstream text;
  text << "it touched " << running_task().fault_address << ", which was freed or is nobody's";
  running_task() = outer;
  throw std::runtime_error(text.str());
}

/// Makes a task of `work`: the device fails when `work` throws, and a failed device skips its
/// tasks.
[[nodiscard]] queue::task task_of(int device, char const* name, std::function<void()> work) {
  return [device, name, work = std::move(work)] {
    if (has_failed(device)) return;
    try {
      run_guarded(name, work);
    } catch (std::exception const& e) {
      fail(device, std::string(name) + " on GPU " + std::to_string(device) + ": " + e.what());
    }
  };
}

/// Whether a capture that has not ended includes the stream.
[[nodiscard]] bool is_captured(cudaStream_t stream) { return stream->captured != nullptr; }

cudaError_t break_capture(capture& target, cudaError_t status, std::string const& reason) {
  target.is_broken = true;
  return refuse(status, reason);
}

/// Runs all nodes, each after its dependencies, in an order that `chance` draws.
void run_graph(CUgraph_st const& graph, std::uint64_t chance) {
  std::vector<bool> ran(graph.nodes.size());
  for (std::size_t left = graph.nodes.size(); left > 0; --left) {
    nodes ready;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (!ran[i] &&
          std::ranges::all_of(graph.nodes[i].dependencies, [&](auto j) { return ran[j]; }))
        ready.push_back(i);
    chance = chance * 6364136223846793005ULL;
    std::size_t const next = ready[(chance >> 33) % ready.size()];
    try {
      graph.nodes[next].work();
    } catch (std::exception const& e) {
      throw std::runtime_error(std::string(graph.nodes[next].name) + ": " + e.what());
    }
    ran[next] = true;
  }
}

/// One of the device's queues, another one at every call.
[[nodiscard]] std::shared_ptr<queue> queue_in_turn(int device) {
  static std::atomic<std::size_t> turn = 0;
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  std::vector<std::shared_ptr<queue>> live_queues;
  for (auto const& one : m.queues[device])
    if (auto live_queue = one.lock()) live_queues.push_back(std::move(live_queue));
  return live_queues[turn++ % live_queues.size()];
}

/// Pushes a task to the stream's queue, or by a fault to another queue of the device; returns that
/// queue.
std::shared_ptr<queue> push(CUstream_st const& stream, queue::task const& task) {
  if (occurs(fault::crossed_streams))
    if (auto other = queue_in_turn(stream.device); other->push_if_open(task)) return other;
  stream.work->push(task);
  return stream.work;
}

cudaError_t make_stream(cudaStream_t* out, unsigned flags) {
  use_current_device();
  in_context const inside(calling_thread().device);
  if ((flags & cudaStreamNonBlocking) == 0)
    return refuse(cudaErrorNotSupported, "streams that wait for the default stream are not faked");
  *out = new CUstream_st{.device = calling_thread().device,
                         .work = make_queue(calling_thread().device)};
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  ++m.handles;
  ++m.history.streams;
  return cudaSuccess;
}

void remove_handle() {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  --m.handles;
}

}  // namespace

cudaError_t check_no_capture(char const* function) {
  auto const active_capture = calling_thread().capturing;
  if (active_capture == nullptr || active_capture->mode == cudaStreamCaptureModeRelaxed)
    return cudaSuccess;
  return break_capture(
      *active_capture, cudaErrorStreamCaptureUnsupported,
      std::string(function) + " is not permitted while this thread captures a stream");
}

void guard(std::function<void()> const& work) { run_guarded(running_task().name, work); }

std::shared_ptr<queue> make_queue(int device) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  std::uint64_t const drawn = chance(++m.streams_made);
  auto const queue_pace = m.options.lazy ? pace::lazy
                          : drawn == 0   ? pace::eager
                                         : static_cast<pace>((drawn >> 8) % 3);
  auto new_queue = queue::make(queue_pace, drawn);
  std::erase_if(m.queues[device], [](auto const& one) { return one.expired(); });
  m.queues[device].push_back(new_queue);
  return new_queue;
}

cudaStream_t resolve(cudaStream_t stream) {
  if (stream != nullptr) return stream;
  int const device = calling_thread().device;
  auto& default_stream = machine::get().default_streams[device];
  {
    std::scoped_lock const lock(machine::get().mutex);
    if (default_stream != nullptr) return default_stream.get();
  }
  auto new_stream =
      std::make_unique<CUstream_st>(CUstream_st{.device = device, .work = make_queue(device)});
  std::scoped_lock const lock(machine::get().mutex);
  if (default_stream == nullptr) default_stream = std::move(new_stream);
  return default_stream.get();
}

void wait_for_device(int device) {
  std::vector<std::shared_ptr<queue>> device_queues;
  {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    for (auto const& one : m.queues[device])
      if (auto live_queue = one.lock()) device_queues.push_back(std::move(live_queue));
  }
  for (auto const& one : device_queues) one->wait(one->last_number());
}

cudaError_t enqueue(cudaStream_t stream, char const* name, std::function<void()> work) {
  stream = resolve(stream);
  if (auto const status = status_of(stream->device); status != cudaSuccess) return status;
  if (!is_captured(stream)) {
    push(*stream, task_of(stream->device, name, std::move(work)));
    return cudaSuccess;
  }
  auto& stream_capture = *stream->captured;
  if (stream_capture.is_broken)
    return refuse(cudaErrorStreamCaptureInvalidated, std::string(name) + ": the capture is broken");
  stream_capture.graph.nodes.push_back({name, std::move(work), stream->last_nodes});
  stream->last_nodes = {stream_capture.graph.nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t run_and_wait(cudaStream_t stream, char const* name, std::function<void()> work) {
  stream = resolve(stream);
  if (auto const status = status_of(stream->device); status != cudaSuccess) return status;
  auto const target = push(*stream, task_of(stream->device, name, std::move(work)));
  target->wait(target->last_number());
  return status_of(stream->device);
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return make_stream(out, flags);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int) {
  return make_stream(out, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least_priority, int* greatest_priority) {
  return *least_priority = 0, *greatest_priority = -5, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  in_context const inside(stream->device);
  if (stream->captured != nullptr) stream->captured->streams.erase(stream);
  stream->work->close();
  delete stream;
  return remove_handle(), cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  use_current_device();
  stream = resolve(stream);
  wait_for_context(stream->device);
  if (is_captured(stream))
    return break_capture(*stream->captured, cudaErrorStreamCaptureUnsupported,
                         "cudaStreamSynchronize of a stream that is captured");
  {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    ++m.history.spinning_waits;
  }
  stream->work->wait(stream->work->last_number());
  return status_of(stream->device);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  stream = resolve(stream);
  in_context const inside(stream->device);
  if (is_captured(stream))
    return break_capture(*stream->captured, cudaErrorStreamCaptureUnsupported,
                         "cudaStreamQuery of a stream that is captured");
  if (!stream->work->has_completed(stream->work->last_number()))
    return calling_thread().last_error = cudaErrorNotReady;
  return status_of(stream->device);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  use_current_device();
  in_context const inside(calling_thread().device);
  *out = new CUevent_st{.device = calling_thread().device, .flags = flags};
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  ++m.handles;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  in_context const inside(event->device);
  delete event;
  return remove_handle(), cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  stream = resolve(stream);
  in_context const inside(stream->device);
  if (event->device != stream->device)
    return refuse(cudaErrorInvalidResourceHandle,
                  "cudaEventRecord: the event and the stream are of different devices");
  event->captured = stream->captured;
  event->last_nodes = stream->last_nodes;
  if (is_captured(stream)) return cudaSuccess;
  if (auto const status = status_of(stream->device); status != cudaSuccess) return status;
  auto const time = std::make_shared<std::chrono::steady_clock::time_point>();
  event->number = stream->work->push([time] {
    *time = std::chrono::steady_clock::now() +
            std::chrono::microseconds(machine::get().simulated_microseconds.load());
  });
  if (occurs(fault::early_records)) event->number -= std::min<std::uint64_t>(event->number, 2);
  event->queue = stream->work;
  event->time = time;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream = resolve(stream);
  in_context const inside(stream->device);
  if (event->captured != nullptr) {
    if (is_captured(stream) && stream->captured != event->captured)
      return break_capture(*stream->captured, cudaErrorStreamCaptureMerge,
                           "cudaStreamWaitEvent: the event is of another capture");
    stream->captured = event->captured;
    stream->captured->streams.insert(stream);
    stream->last_nodes.insert(stream->last_nodes.end(), event->last_nodes.begin(),
                              event->last_nodes.end());
    return cudaSuccess;
  }
  if (is_captured(stream))
    return break_capture(*stream->captured, cudaErrorStreamCaptureIsolation,
                         "cudaStreamWaitEvent: the event is not of the capture");
  if (event->queue == nullptr || event->queue == stream->work || occurs(fault::no_stream_waits))
    return cudaSuccess;
  stream->work->push([queue = event->queue, number = event->number] { queue->wait(number); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  in_context const inside(event->device);
  if (event->captured != nullptr) return refuse(cudaErrorCapturedEvent, "cudaEventQuery");
  if (event->queue == nullptr) return cudaSuccess;
  if (!event->queue->has_completed(event->number))
    return calling_thread().last_error = cudaErrorNotReady;
  return status_of(event->device);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  wait_for_context(event->device);
  if (event->captured != nullptr) return refuse(cudaErrorCapturedEvent, "cudaEventSynchronize");
  if ((event->flags & cudaEventBlockingSync) == 0) {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    ++m.history.spinning_waits;
  }
  if (event->queue != nullptr && !occurs(fault::no_host_waits)) event->queue->wait(event->number);
  return status_of(event->device);
}
cudaError_t cudaEventElapsedTime(float* out, cudaEvent_t from, cudaEvent_t to) {
  for (auto const* event : {from, to}) {
    if (event->captured != nullptr) return refuse(cudaErrorCapturedEvent, "cudaEventElapsedTime");
    if (event->queue == nullptr || (event->flags & cudaEventDisableTiming) != 0)
      return refuse(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime: no time was taken");
    if (!event->queue->has_completed(event->number))
      return calling_thread().last_error = cudaErrorNotReady;
  }
  *out = std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr || is_captured(stream) || calling_thread().capturing != nullptr)
    return refuse(cudaErrorIllegalState, "cudaStreamBeginCapture");
  stream->captured = std::make_shared<capture>(capture{stream, std::this_thread::get_id(), mode});
  stream->captured->streams.insert(stream);
  stream->last_nodes.clear();
  calling_thread().capturing = stream->captured;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  stream = resolve(stream);
  *out = !is_captured(stream)          ? cudaStreamCaptureStatusNone
         : stream->captured->is_broken ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  *out = nullptr;
  auto const stream_capture = stream->captured;
  if (stream_capture == nullptr || stream_capture->origin != stream)
    return refuse(cudaErrorIllegalState, "cudaStreamEndCapture: no capture began here");
  if (stream_capture->mode != cudaStreamCaptureModeRelaxed &&
      stream_capture->thread != std::this_thread::get_id())
    return break_capture(*stream_capture, cudaErrorStreamCaptureWrongThread,
                         "cudaStreamEndCapture");
  // the last nodes of all streams must precede a node of the origin stream
  bool is_joined = true;
  nodes pending = stream->last_nodes;
  std::vector<bool> precedes_end(stream_capture->graph.nodes.size());
  while (!pending.empty()) {
    std::size_t const node = pending.back();
    pending.pop_back();
    if (precedes_end[node]) continue;
    precedes_end[node] = true;
    auto const& dependencies = stream_capture->graph.nodes[node].dependencies;
    pending.insert(pending.end(), dependencies.begin(), dependencies.end());
  }
  for (bool const one : precedes_end) is_joined = is_joined && one;
  for (cudaStream_t const captured_stream : stream_capture->streams) {
    captured_stream->captured.reset();
    captured_stream->last_nodes.clear();
  }
  calling_thread().capturing.reset();
  if (stream_capture->is_broken)
    return refuse(cudaErrorStreamCaptureInvalidated, "cudaStreamEndCapture: the capture is broken");
  if (!is_joined)
    return refuse(cudaErrorStreamCaptureUnjoined,
                  "cudaStreamEndCapture: another stream's work was not waited for");
  *out = new CUgraph_st(std::move(stream_capture->graph));
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  ++m.handles;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return remove_handle(), cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  *out = new CUgraphExec_st{std::make_shared<CUgraph_st const>(*graph)};
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  ++m.handles;
  ++m.history.instantiations;
  return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t to, cudaGraph_t from,
                                cudaGraphExecUpdateResultInfo*) {
  bool const is_same_topology =
      std::ranges::equal(to->graph->nodes, from->nodes, [](auto& a, auto& b) {
        return std::string_view(a.name) == b.name && a.dependencies == b.dependencies;
      });
  if (!is_same_topology) return calling_thread().last_error = cudaErrorGraphExecUpdateFailure;
  to->graph = std::make_shared<CUgraph_st const>(*from);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  wait_for_context(resolve(stream)->device);
  std::uint64_t number = 0;
  {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    number = ++m.history.graph_launches;
  }
  return enqueue(stream, "a graph",
                 [instance = graph->graph, number] { run_graph(*instance, chance(number)); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return remove_handle(), cudaSuccess;
}

}  // extern "C"
