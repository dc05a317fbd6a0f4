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

/// Runs it as a part of what the calling thread's stream runs by `name`.
void run_guarded(char const* name, std::function<void()> const& work) {
  auto& own = running_task();
  auto const outer = own;
  sigjmp_buf here;
  if (sigsetjmp(here, 0) == 0) {
    own.name = name;
    own.back = &here;
    try {
      work();
    } catch (...) {
      own = outer;
      throw;
    }
    own = outer;
    return;
  }
  std::ostringstream text;
  text << "it touched " << running_task().touched << ", which was freed or is nobody's";
  running_task() = outer;
  throw std::runtime_error(text.str());
}

/// `work` as a task of a device: skipped once this has failed, which it does when `work` throws.
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

/// A capture that is over, or never was, is none.
[[nodiscard]] bool is_captured(cudaStream_t stream) { return stream->captured != nullptr; }

cudaError_t broken(capture& of, cudaError_t status, std::string const& why) {
  of.broken = true;
  return refuse(status, why);
}

/// All nodes, each after those it depends on; otherwise in an order that `chance` draws.
void run_graph(CUgraph_st const& graph, std::uint64_t chance) {
  std::vector<bool> ran(graph.nodes.size());
  for (std::size_t left = graph.nodes.size(); left > 0; --left) {
    nodes ready;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (!ran[i] && std::ranges::all_of(graph.nodes[i].after, [&](auto j) { return ran[j]; }))
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

/// One of the device's queues, in turn.
[[nodiscard]] std::shared_ptr<queue> some_queue_of(int device) {
  static std::atomic<std::size_t> turn = 0;
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  std::vector<std::shared_ptr<queue>> alive;
  for (auto const& one : m.queues[device])
    if (auto is = one.lock()) alive.push_back(std::move(is));
  return alive[turn++ % alive.size()];
}

cudaError_t make_stream(cudaStream_t* out, unsigned flags) {
  use_current_device();
  in_context const inside(here().device);
  if ((flags & cudaStreamNonBlocking) == 0)
    return refuse(cudaErrorNotSupported, "streams that wait for the default stream are not faked");
  *out = new CUstream_st{.device = here().device, .work = make_queue(here().device)};
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  ++m.handles;
  ++m.happened.streams;
  return cudaSuccess;
}

void forget_handle() {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  --m.handles;
}

}  // namespace

cudaError_t not_while_capturing(char const* function) {
  auto const own = here().capturing;
  if (own == nullptr || own->mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  return broken(*own, cudaErrorStreamCaptureUnsupported,
                std::string(function) + " is not permitted while this thread captures a stream");
}

void guard(std::function<void()> const& work) { run_guarded(running_task().name, work); }

std::shared_ptr<queue> make_queue(int device) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  std::uint64_t const drawn = chance(++m.streams_made);
  auto const how = m.options.lazy ? pace::lazy
                   : drawn == 0   ? pace::eager
                                  : static_cast<pace>((drawn >> 8) % 3);
  auto made = queue::make(how, drawn);
  std::erase_if(m.queues[device], [](auto const& one) { return one.expired(); });
  m.queues[device].push_back(made);
  return made;
}

cudaStream_t resolve(cudaStream_t stream) {
  if (stream != nullptr) return stream;
  int const device = here().device;
  auto& own = machine::get().default_streams[device];
  {
    std::scoped_lock const lock(machine::get().mutex);
    if (own != nullptr) return own.get();
  }
  auto made =
      std::make_unique<CUstream_st>(CUstream_st{.device = device, .work = make_queue(device)});
  std::scoped_lock const lock(machine::get().mutex);
  if (own == nullptr) own = std::move(made);
  return own.get();
}

void wait_for_device(int device) {
  std::vector<std::shared_ptr<queue>> all;
  {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    for (auto const& one : m.queues[device])
      if (auto alive = one.lock()) all.push_back(std::move(alive));
  }
  for (auto const& one : all) one->wait(one->last());
}

cudaError_t enqueue(cudaStream_t on, char const* name, std::function<void()> work) {
  on = resolve(on);
  if (auto const status = status_of(on->device); status != cudaSuccess) return status;
  if (!is_captured(on)) {
    auto const to = strikes(fault::crossed_streams) ? some_queue_of(on->device) : on->work;
    to->push(task_of(on->device, name, std::move(work)));
    return cudaSuccess;
  }
  auto& of = *on->captured;
  if (of.broken)
    return refuse(cudaErrorStreamCaptureInvalidated, std::string(name) + ": the capture is broken");
  of.graph.nodes.push_back({name, std::move(work), on->tips});
  on->tips = {of.graph.nodes.size() - 1};
  return cudaSuccess;
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
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  in_context const inside(stream->device);
  if (stream->captured != nullptr) stream->captured->streams.erase(stream);
  stream->work->close();
  delete stream;
  return forget_handle(), cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t on) {
  use_current_device();
  on = resolve(on);
  come_to_context(on->device);
  if (is_captured(on))
    return broken(*on->captured, cudaErrorStreamCaptureUnsupported,
                  "cudaStreamSynchronize of a stream that is captured");
  {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    ++m.happened.spinning_waits;
  }
  on->work->wait(on->work->last());
  return status_of(on->device);
}
cudaError_t cudaStreamQuery(cudaStream_t on) {
  on = resolve(on);
  in_context const inside(on->device);
  if (is_captured(on))
    return broken(*on->captured, cudaErrorStreamCaptureUnsupported,
                  "cudaStreamQuery of a stream that is captured");
  if (!on->work->reached(on->work->last())) return here().last = cudaErrorNotReady;
  return status_of(on->device);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  use_current_device();
  in_context const inside(here().device);
  *out = new CUevent_st{.device = here().device, .flags = flags};
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  ++m.handles;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  in_context const inside(event->device);
  delete event;
  return forget_handle(), cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t on) {
  on = resolve(on);
  in_context const inside(on->device);
  if (event->device != on->device)
    return refuse(cudaErrorInvalidResourceHandle,
                  "cudaEventRecord: the event and the stream are of different devices");
  event->captured = on->captured;
  event->tips = on->tips;
  if (is_captured(on)) return cudaSuccess;
  if (auto const status = status_of(on->device); status != cudaSuccess) return status;
  auto const when = std::make_shared<std::chrono::steady_clock::time_point>();
  event->number = on->work->push([when] {
    *when = std::chrono::steady_clock::now() +
            std::chrono::microseconds(machine::get().pretended_microseconds.load());
  });
  if (strikes(fault::early_records)) event->number -= std::min<std::uint64_t>(event->number, 2);
  event->of = on->work;
  event->when = when;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t event, unsigned) {
  on = resolve(on);
  in_context const inside(on->device);
  if (event->captured != nullptr) {
    if (is_captured(on) && on->captured != event->captured)
      return broken(*on->captured, cudaErrorStreamCaptureMerge,
                    "cudaStreamWaitEvent: the event is of another capture");
    on->captured = event->captured;
    on->captured->streams.insert(on);
    on->tips.insert(on->tips.end(), event->tips.begin(), event->tips.end());
    return cudaSuccess;
  }
  if (is_captured(on))
    return broken(*on->captured, cudaErrorStreamCaptureIsolation,
                  "cudaStreamWaitEvent: the event is not of the capture");
  if (event->of == nullptr || event->of == on->work || strikes(fault::no_stream_waits))
    return cudaSuccess;
  on->work->push([of = event->of, number = event->number] { of->wait(number); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  in_context const inside(event->device);
  if (event->captured != nullptr) return refuse(cudaErrorCapturedEvent, "cudaEventQuery");
  if (event->of == nullptr) return cudaSuccess;
  if (!event->of->reached(event->number)) return here().last = cudaErrorNotReady;
  return status_of(event->device);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  come_to_context(event->device);
  if (event->captured != nullptr) return refuse(cudaErrorCapturedEvent, "cudaEventSynchronize");
  if ((event->flags & cudaEventBlockingSync) == 0) {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    ++m.happened.spinning_waits;
  }
  if (event->of != nullptr && !strikes(fault::no_host_waits)) event->of->wait(event->number);
  return status_of(event->device);
}
cudaError_t cudaEventElapsedTime(float* out, cudaEvent_t from, cudaEvent_t to) {
  for (auto const* event : {from, to}) {
    if (event->captured != nullptr) return refuse(cudaErrorCapturedEvent, "cudaEventElapsedTime");
    if (event->of == nullptr || (event->flags & cudaEventDisableTiming) != 0)
      return refuse(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime: no time was taken");
    if (!event->of->reached(event->number)) return here().last = cudaErrorNotReady;
  }
  *out = std::chrono::duration<float, std::milli>(*to->when - *from->when).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t on, cudaStreamCaptureMode mode) {
  if (on == nullptr || is_captured(on) || here().capturing != nullptr)
    return refuse(cudaErrorIllegalState, "cudaStreamBeginCapture");
  on->captured = std::make_shared<capture>(capture{on, std::this_thread::get_id(), mode});
  on->captured->streams.insert(on);
  on->tips.clear();
  here().capturing = on->captured;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t on, cudaStreamCaptureStatus* out) {
  on = resolve(on);
  *out = !is_captured(on)       ? cudaStreamCaptureStatusNone
         : on->captured->broken ? cudaStreamCaptureStatusInvalidated
                                : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t on, cudaGraph_t* out) {
  *out = nullptr;
  auto const of = on->captured;
  if (of == nullptr || of->origin != on)
    return refuse(cudaErrorIllegalState, "cudaStreamEndCapture: no capture began here");
  if (of->mode != cudaStreamCaptureModeRelaxed && of->thread != std::this_thread::get_id())
    return broken(*of, cudaErrorStreamCaptureWrongThread, "cudaStreamEndCapture");
  // what the last nodes of all streams are must have come back to this one
  bool joined = true;
  nodes reached = on->tips;
  std::vector<bool> before(of->graph.nodes.size());
  while (!reached.empty()) {
    std::size_t const node = reached.back();
    reached.pop_back();
    if (before[node]) continue;
    before[node] = true;
    auto const& more = of->graph.nodes[node].after;
    reached.insert(reached.end(), more.begin(), more.end());
  }
  for (bool const one : before) joined = joined && one;
  for (cudaStream_t const stream : of->streams) {
    stream->captured.reset();
    stream->tips.clear();
  }
  here().capturing.reset();
  if (of->broken)
    return refuse(cudaErrorStreamCaptureInvalidated, "cudaStreamEndCapture: the capture is broken");
  if (!joined)
    return refuse(cudaErrorStreamCaptureUnjoined,
                  "cudaStreamEndCapture: another stream's work was not waited for");
  *out = new CUgraph_st(std::move(of->graph));
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  ++m.handles;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return forget_handle(), cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  *out = new CUgraphExec_st{std::make_shared<CUgraph_st const>(*graph)};
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  ++m.handles;
  ++m.happened.instantiations;
  return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t to, cudaGraph_t from,
                                cudaGraphExecUpdateResultInfo*) {
  bool const same = std::ranges::equal(to->graph->nodes, from->nodes, [](auto& a, auto& b) {
    return std::string_view(a.name) == b.name && a.after == b.after;
  });
  if (!same) return here().last = cudaErrorGraphExecUpdateFailure;
  to->graph = std::make_shared<CUgraph_st const>(*from);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t on) {
  come_to_context(resolve(on)->device);
  std::uint64_t number = 0;
  {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    number = ++m.happened.graph_launches;
  }
  return enqueue(on, "a graph",
                 [what = graph->graph, number] { run_graph(*what, chance(number)); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return forget_handle(), cudaSuccess;
}

}  // extern "C"
