// See fake_nccl.hpp.
#include "fake_nccl/fake_nccl.hpp"

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

#include "fake_cuda/runtime.hpp"
#include "fake_nccl/exchange.hpp"
#include "fake_nccl/library.hpp"
#include "fake_nccl/processes.hpp"
#include "fake_nccl/windows.hpp"

extern "C" int const parallellm_fake_nccl_library = 1;

using namespace fake_nccl;

namespace {

struct slot {
  library& l;
  int device;
  slot(library& owner, int device_number) : l(owner), device(device_number) {
    ++l.devices[device_number].running;
  }
  ~slot() {
    --l.devices[device].running;
    l.note_progress();
  }
};

/// Runs the kernel of one launch, on its stream's thread. `number` counts the kernels of its
/// communicator, `ticket` those of its device.
void run(std::shared_ptr<launch> const& kernel, std::vector<std::uint64_t> const& numbers,
         std::uint64_t number, std::uint64_t ticket) {
  auto& l = library::get();
  auto& comm = *kernel->comm;
  std::unique_lock lock(l.mutex);
  auto& device = l.devices[comm.device];
  auto const first = kernel->parts.front().text();
  ++comm.running_kernels;
  struct kernel_end {
    library& lib;
    ncclComm& communicator;
    std::uint64_t number, ticket;
    library::device_state& device_of_kernel;
    ~kernel_end() {
      --communicator.running_kernels;
      communicator.finished = std::max(communicator.finished, number + 1);
      device_of_kernel.started = std::max(device_of_kernel.started, ticket + 1);
      lib.note_progress();
    }
  } const at_kernel_end{l, comm, number, ticket, device};
  l.wait(lock, comm, "waits for an earlier operation of the communicator, before " + first,
         [&] { return comm.finished >= number; });
  if (l.options.implicit_order)
    l.wait(lock, comm, "waits for an earlier launch of the device to start, before " + first,
           [&] { return device.started >= ticket; });
  l.wait(lock, comm, concat("waits for one of ", l.options.slots, " kernel slots, before ", first),
         [&] { return device.running < l.options.slots; });
  slot const used_slot(l, comm.device);
  device.started = std::max(device.started, ticket + 1);
  l.note_progress();
  for (auto& p : kernel->parts) check_memory(comm, p);
  auto& peers = *comm.clique;
  if (l.board) return run_between_processes(l, lock, *kernel, numbers);
  std::size_t collective = 0;
  for (auto const& p : kernel->parts) {
    if (p.is_message()) continue;
    auto const collective_number = numbers[collective++];
    auto& meeting = peers.meetings[collective_number];
    meeting.parts.resize(static_cast<std::size_t>(peers.size));
    meeting.parts[static_cast<std::size_t>(comm.rank)] = p;
    meeting.parts[static_cast<std::size_t>(comm.rank)]->device = comm.device;
    if (++meeting.arrived == static_cast<std::size_t>(peers.size)) {
      try {
        require_agreement(peers, meeting.parts);
        for (auto const& part : meeting.parts) require_alive(*part);
        fake_cuda::guard([&] { exchange_parts(l, meeting.parts); });
      } catch (std::exception const& problem) {
        l.history.failures.push_back(problem.what());
        peers.aborted = true;
        l.note_progress();
        throw;
      }
      ++l.history.operations;
      meeting.is_complete = true;
      l.note_progress();
    } else {
      l.note_progress();
      try {
        l.wait(lock, comm,
               concat("waits for other ranks in collective ", collective_number, ", ", p.text()),
               [&] { return meeting.is_complete; });
      } catch (...) {  // the memory of a kernel that was ended may be freed
        meeting.parts[static_cast<std::size_t>(comm.rank)].reset();
        --meeting.arrived;
        throw;
      }
    }
    if (++meeting.departed == peers.size) peers.meetings.erase(collective_number);
  }
  std::vector<std::unique_ptr<clique::message>> sent;
  for (auto const& p : kernel->parts)
    if (p.operation == kind::send) {
      sent.push_back(std::make_unique<clique::message>(clique::message{p}));
      peers.messages[{comm.rank, p.peer}].push_back(sent.back().get());
    }
  l.note_progress();
  struct message_remover {
    std::vector<std::unique_ptr<clique::message>> const& messages;
    clique& owner;
    ~message_remover() {
      for (auto const& one : messages)
        for (auto& [ends, queue] : owner.messages) std::erase(queue, one.get());
    }
  } const remove_unreceived{sent, peers};
  for (auto const& p : kernel->parts) {
    if (p.operation != kind::recv) continue;
    auto& queue = peers.messages[{p.peer, comm.rank}];
    l.wait(lock, comm, "waits for its sender, " + p.text(), [&] { return !queue.empty(); });
    auto& message = *queue.front();
    queue.pop_front();
    if (message.send.count != p.count || message.send.type != p.type) {
      auto const reason = concat("sender and receiver of communicator ", peers.number,
                                 " disagree: ", message.send.text(), " and ", p.text());
      l.history.failures.push_back(reason);
      peers.aborted = true;
      l.note_progress();
      throw std::runtime_error(reason);
    }
    std::size_t const width = width_of(p.type);
    std::size_t const bytes = p.count * width;
    fake_cuda::guard([&] {
      std::memmove(p.out, message.send.in,
                   l.options.fault == fault::wrong_count ? bytes - width : bytes);
    });
    message.is_received = true;
    ++l.history.operations;
    l.note_progress();
  }
  for (auto const& message : sent)
    l.wait(lock, comm, "waits for its receiver, " + message->send.text(),
           [&] { return message->is_received; });
}

/// Enqueues a launch on its stream. The caller holds the lock.
cudaError_t enqueue_launch(library& l, std::shared_ptr<launch> const& kernel) {
  auto& comm = *kernel->comm;
  auto const ticket = l.devices[comm.device].enqueued++;
  auto const number = comm.launched++;
  std::vector<std::uint64_t> numbers;
  for (auto const& p : kernel->parts)
    if (!p.is_message()) numbers.push_back(comm.collectives++);
  auto work = [kernel, numbers, number, ticket] {
    try {
      run(kernel, numbers, number, ticket);
    } catch (std::runtime_error const&) {
      auto& state = library::get();
      std::scoped_lock const lock(state.mutex);
      if (!kernel->comm->aborted && !kernel->comm->clique->aborted) throw;
    }
  };
  if (l.options.fault == fault::crossed_streams) {
    if (comm.crossed == nullptr) cudaStreamCreateWithFlags(&comm.crossed, cudaStreamNonBlocking);
    return fake_cuda::enqueue(comm.crossed, "nccl", std::move(work));
  }
  return fake_cuda::enqueue(kernel->stream, "nccl", std::move(work));
}

void wait_for_current_context() {
  int device = 0;
  cudaGetDevice(&device);
  fake_cuda::wait_for_context(device);
}

ncclResult_t end_group() {
  auto& l = library::get();
  auto& g = group();
  for (int const device : std::exchange(g.aborted_devices, {})) fake_cuda::wait_for_context(device);
  std::scoped_lock const lock(l.mutex);
  if (g.aborts > 0) ++l.history.groups_of_aborts;
  g.aborts = 0;
  auto const launches = std::exchange(g.launches, {});
  ncclResult_t result = std::exchange(g.problem, ncclSuccess);
  if (result != ncclSuccess) return result;
  for (auto const& one : launches) {
    auto& comm = *one->comm;
    if (comm.blocking) {
      if (enqueue_launch(l, one) != cudaSuccess) return ncclUnhandledCudaError;
      continue;
    }
    comm.pending_launches.push_back(one);
    announce_launch(comm, *one);
    comm.in_progress = l.options.in_progress;
    result = ncclInProgress;
  }
  return result;
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, primitive const& p) {
  auto& l = library::get();
  auto& g = group();
  bool single = false;
  {
    std::scoped_lock const lock(l.mutex);
    auto const status = check_usable(l, comm, names[static_cast<int>(p.operation)]);
    if (status != ncclSuccess) return g.problem = status;
    if (comm->in_progress > 0 || comm->pending_window)
      return g.problem = l.refuse("a call of a communicator that is still in progress");
    if (comm->finalised) return g.problem = l.refuse("a call of a communicator that is finalised");
    if (fake_cuda::device_of(stream) != comm->device)
      return g.problem = l.refuse("a stream of another device than the communicator's");
    if ((p.operation == kind::broadcast || p.is_message()) &&
        (p.peer < 0 || p.peer >= comm->clique->size))
      return g.problem = l.refuse(concat("root or peer ", p.peer, " is no rank"));
    single = g.depth == 0 || l.options.fault == fault::dropped_group;
    std::shared_ptr<launch> target;
    for (auto const& one : g.launches)
      if (!single && one->comm == comm) target = one;
    if (target && target->stream != stream)
      return g.problem = l.refuse("a group with one communicator on two streams");
    if (!target)
      target = g.launches.emplace_back(std::make_shared<launch>(launch{comm, stream, {}}));
    target->parts.push_back(p);
    if (!single) return ncclSuccess;
    if (g.depth > 0) return ncclSuccess;
  }
  return end_group();
}

}  // namespace

namespace fake_nccl {

void restart(options const& new_options) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (l.live_communicators > 0)
    throw std::logic_error(concat("fake NCCL: ", l.live_communicators, " communicators are alive"));
  l.options = new_options;
  l.board = new_options.process_folder.empty()
                ? nullptr
                : std::make_unique<fake_nccl::board>(new_options.process_folder);
  l.history = {};
  l.devices.clear();
  l.waits.clear();
  l.ids.clear();
  l.last_error.clear();
  l.allocations.clear();
  l.progress = clock_type::now();
}

record history() {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  return l.history;
}

std::size_t live_communicators() {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  return l.live_communicators;
}

}  // namespace fake_nccl

extern "C" {

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }

char const* ncclGetErrorString(ncclResult_t result) {
  constexpr char const* texts[] = {"no error",
                                   "unhandled cuda error",
                                   "system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return texts[static_cast<int>(result)];
}

char const* ncclGetLastError(ncclComm_t) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  static thread_local std::string text;
  text = l.last_error;
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  std::memset(id->internal, 0, sizeof id->internal);
  auto const text = concat("fake-", ::getpid(), "-", ++l.next_id);
  text.copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  auto& l = library::get();
  wait_for_current_context();
  std::scoped_lock const lock(l.mutex);
  l.history.names.insert("ncclCommInitRankConfig");
  if (rank < 0 || rank >= nranks) return l.refuse("the rank is none", ncclInvalidArgument);
  int device = 0;
  cudaGetDevice(&device);
  auto& joined_clique = l.ids[id.internal];
  if (joined_clique && joined_clique->joined > 0)
    for (auto const& [known, one] : l.comms)
      if (one->clique == joined_clique && one->device == device)
        return l.refuse(concat("Duplicate GPU detected : rank ", rank, " and rank ", one->rank,
                               " both on CUDA device ", device));
  joined_clique = join(l, joined_clique, nranks, rank, comm, config->blocking != 0);
  joined_clique->name = id.internal;
  if (l.board) l.board->post(concat(joined_clique->name, ".joined", rank), {});
  return config->blocking != 0 ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* new_comm,
                           ncclConfig_t* config) {
  auto& l = library::get();
  wait_for_current_context();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = check_usable(l, comm, "ncclCommSplit"); status != ncclSuccess)
    return status;
  comm->is_splitting = true;
  comm->is_split_without_color = color == NCCL_SPLIT_NOCOLOR;
  if (l.board)
    return split_between_processes(l, *comm, color, key, new_comm, config->blocking != 0);
  auto& round = comm->clique->splits[comm->splits++];
  round.colors_and_keys.resize(static_cast<std::size_t>(comm->clique->size),
                               {NCCL_SPLIT_NOCOLOR, 0});
  ++round.arrived;
  *new_comm = nullptr;
  comm->in_progress = l.options.in_progress;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclInProgress;
  round.colors_and_keys[static_cast<std::size_t>(comm->rank)] = {color, key};
  auto& split_clique = round.cliques[color];
  split_clique = join(l, split_clique, 0, key, new_comm, config->blocking != 0);
  ++split_clique
        ->size;  // grows as ranks arrive; the order of keys gives the ranks when all have arrived
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = check_usable(l, comm, "ncclCommGetAsyncError"); status != ncclSuccess)
    return *state = status;
  *state = ncclSuccess;
  if (l.options.fault == fault::asynchronous_error && comm->launched > 2 &&
      comm->clique->size > 1) {
    l.last_error = "a link went down";
    return *state = ncclRemoteError, ncclSuccess;
  }
  auto& clique = *comm->clique;
  if (l.board && !comm->is_complete) {
    if (!have_all_joined(l, *comm)) return *state = ncclInProgress, ncclSuccess;
    comm->is_complete = true;
  }
  for (auto const& [known, parent] : l.comms)  // a split communicator is complete when all ranks of
                                               // its parent have called the split
    for (auto& [number, round] : parent->clique->splits)
      for (auto const& [color, part] : round.cliques)
        if (part == comm->clique && round.arrived < parent->clique->size)
          return *state = ncclInProgress, ncclSuccess;
  if (!comm->is_complete) {
    if (clique.joined < clique.size) return *state = ncclInProgress, ncclSuccess;
    int next_rank = 0;  // the order of keys gives the ranks
    if (std::none_of(l.comms.begin(), l.comms.end(), [&](auto const& one) {
          return one.second->clique == comm->clique && one.second->is_complete;
        })) {
      std::vector<ncclComm*> members;
      for (auto const& [known, one] : l.comms)
        if (one->clique == comm->clique) members.push_back(one.get());
      std::sort(members.begin(), members.end(), [](auto* a, auto* b) { return a->rank < b->rank; });
      for (auto* const one : members) {
        one->rank = next_rank++;
        one->is_complete = true;
      }
    }
    comm->is_complete = true;
  }
  if (comm->in_progress > 0 && --comm->in_progress > 0) return *state = ncclInProgress, ncclSuccess;
  if (comm->is_splitting) {
    if (!(l.board ? is_split_posted(l, *comm)
                  : clique.splits[comm->splits - 1].arrived == clique.size))
      return *state = ncclInProgress, ncclSuccess;
    comm->is_splitting = false;
  }
  if (comm->pending_window) *state = complete_window(l, *comm);
  if (*state != ncclSuccess) return ncclSuccess;
  if (!l.board && !std::ranges::all_of(comm->pending_launches,
                                       [&](auto const& one) { return is_connected(*comm, *one); }))
    return *state = ncclInProgress, ncclSuccess;
  if (!comm->pending_launches.empty() && fake_cuda::is_context_taken(comm->device))
    return *state = ncclInProgress, ncclSuccess;
  for (auto const& one : std::exchange(comm->pending_launches, {}))
    if (enqueue_launch(l, one) != cudaSuccess) return *state = ncclUnhandledCudaError, ncclSuccess;
  if (comm->finalised && comm->finished < comm->launched) *state = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = check_usable(l, comm, "ncclCommFinalize"); status != ncclSuccess)
    return status;
  comm->finalised = true;
  announce_end(l, *comm);
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  auto& l = library::get();
  std::unique_lock lock(l.mutex);
  if (auto const status = check_usable(l, comm, "ncclCommDestroy"); status != ncclSuccess)
    return status;
  if (!comm->finalised || comm->finished < comm->launched)
    return l.refuse("ncclCommDestroy: the communicator was not finalised, which may hang");
  if (!comm->registered.empty())
    return l.refuse(concat("ncclCommDestroy: ", comm->registered.size(),
                           " pieces of memory are still registered"));
  if (auto const status = wait_for_ends(l, lock, *comm); status != ncclSuccess) return status;
  comm->destroyed = true;
  if (comm->rank == 0) ++l.history.destroyed_by_size[comm->clique->size];
  --l.live_communicators;
  lock.unlock();
  if (comm->crossed != nullptr) cudaStreamDestroy(comm->crossed);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto& l = library::get();
  if (l.options.fault == fault::slow_abort) fake_cuda::wait_for_context(comm->device);
  std::unique_lock lock(l.mutex);
  if (auto const status = check_usable(l, comm, "ncclCommAbort"); status != ncclSuccess)
    return status;
  group().aborted_devices.push_back(comm->device);
  if (group().depth == 0)
    static_cast<void>(
        l.refuse("ncclCommAbort outside of a group: with several communicators it hangs"));
  if (comm->is_splitting && comm->is_split_without_color)
    static_cast<void>(
        l.refuse("ncclCommAbort while a split without a color is in progress crashes"));
  ++group().aborts;
  ++l.history.aborted;
  comm->aborted = true;
  announce_end(l, *comm);
  comm->pending_launches.clear();
  comm->pending_window.reset();
  for (auto const& [handle, one] : comm->registered) check_registered_memory(l, *comm, one.range);
  comm->registered.clear();
  --l.live_communicators;
  l.note_progress();
  // The memory of its operations may be freed when the abort returns.
  l.changed.wait_for(lock, std::chrono::seconds(5), [&] { return comm->running_kernels == 0; });
  lock.unlock();
  if (comm->crossed != nullptr) cudaStreamDestroy(comm->crossed);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return ++group().depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  auto& g = group();
  if (g.depth == 0) return ncclInvalidUsage;
  return --g.depth > 0 ? ncclSuccess : end_group();
}

ncclResult_t ncclAllReduce(void const* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {kind::all_reduce, in, out, count, type, reduction});
}
ncclResult_t ncclReduceScatter(void const* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {kind::reduce_scatter, in, out, count, type, reduction});
}
ncclResult_t ncclAllGather(void const* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {kind::all_gather, in, out, count, type});
}
ncclResult_t ncclBroadcast(void const* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {kind::broadcast, in, out, count, type, ncclSum, root});
}
ncclResult_t ncclSend(void const* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {kind::send, in, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, stream, {kind::recv, nullptr, out, count, type, ncclSum, peer});
}

}  // extern "C"
