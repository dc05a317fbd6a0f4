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
#include <span>
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
  slot(library& of, int on) : l(of), device(on) { ++l.devices[on].running; }
  ~slot() {
    --l.devices[device].running;
    l.moved();
  }
};

/// The kernel of one launch, on its stream's thread. `number`: its place among those of its
/// communicator; `ticket`: among those of its device.
void run(std::shared_ptr<launch> const& what, std::vector<std::uint64_t> const& numbers,
         std::uint64_t number, std::uint64_t ticket) {
  auto& l = library::get();
  auto& comm = *what->comm;
  std::unique_lock lock(l.mutex);
  auto& device = l.devices[comm.device];
  auto const first = what->parts.front().text();
  ++comm.inside;
  struct over {
    library& lib;
    ncclComm& of;
    std::uint64_t number, ticket;
    library::of_device& on;
    ~over() {
      --of.inside;
      of.finished = std::max(of.finished, number + 1);
      on.started = std::max(on.started, ticket + 1);
      lib.moved();
    }
  } const after{l, comm, number, ticket, device};
  l.wait(lock, comm, "waits for an earlier operation of the communicator, before " + first,
         [&] { return comm.finished >= number; });
  if (l.options.implicit_order)
    l.wait(lock, comm, "waits for an earlier launch of the device to start, before " + first,
           [&] { return device.started >= ticket; });
  l.wait(lock, comm, concat("waits for one of ", l.options.slots, " kernel slots, before ", first),
         [&] { return device.running < l.options.slots; });
  slot const held(l, comm.device);
  device.started = std::max(device.started, ticket + 1);
  l.moved();
  for (auto& p : what->parts) look_at(comm, p);
  auto& all = *comm.of;
  if (l.board) return run_between_processes(l, lock, *what, numbers);
  std::size_t collective = 0;
  for (auto const& p : what->parts) {
    if (p.is_message()) continue;
    auto const which = numbers[collective++];
    auto& meeting = all.meetings[which];
    meeting.parts.resize(static_cast<std::size_t>(all.size));
    meeting.parts[static_cast<std::size_t>(comm.rank)] = p;
    meeting.parts[static_cast<std::size_t>(comm.rank)]->device = comm.device;
    if (++meeting.arrived == static_cast<std::size_t>(all.size)) {
      try {
        require_agreement(all, meeting.parts);
        for (auto const& part : meeting.parts) require_alive(*part);
        fake_cuda::guard([&] { exchange_parts(l, meeting.parts); });
      } catch (std::exception const& problem) {
        l.happened.failures.push_back(problem.what());
        all.aborted = true;
        l.moved();
        throw;
      }
      ++l.happened.operations;
      meeting.done = true;
      l.moved();
    } else {
      l.moved();
      try {
        l.wait(lock, comm, concat("waits for other ranks in collective ", which, ", ", p.text()),
               [&] { return meeting.done; });
      } catch (...) {  // what an ended kernel would have exchanged may be freed
        meeting.parts[static_cast<std::size_t>(comm.rank)].reset();
        --meeting.arrived;
        throw;
      }
    }
    if (++meeting.left == all.size) all.meetings.erase(which);
  }
  std::vector<std::unique_ptr<clique::message>> sent;
  for (auto const& p : what->parts)
    if (p.what == kind::send) {
      sent.push_back(std::make_unique<clique::message>(clique::message{p}));
      all.messages[{comm.rank, p.peer}].push_back(sent.back().get());
    }
  l.moved();
  struct forget {
    std::vector<std::unique_ptr<clique::message>> const& mine;
    clique& from;
    ~forget() {
      for (auto const& one : mine)
        for (auto& [ends, queue] : from.messages) std::erase(queue, one.get());
    }
  } const untaken{sent, all};
  for (auto const& p : what->parts) {
    if (p.what != kind::recv) continue;
    auto& queue = all.messages[{p.peer, comm.rank}];
    l.wait(lock, comm, "waits for its sender, " + p.text(), [&] { return !queue.empty(); });
    auto& message = *queue.front();
    queue.pop_front();
    if (message.what.count != p.count || message.what.type != p.type) {
      auto const why = concat("sender and receiver of communicator ", all.number,
                              " disagree: ", message.what.text(), " and ", p.text());
      l.happened.failures.push_back(why);
      all.aborted = true;
      l.moved();
      throw std::runtime_error(why);
    }
    std::size_t const width = width_of(p.type);
    std::size_t const bytes = p.count * width;
    fake_cuda::guard([&] {
      std::memmove(p.out, message.what.in,
                   l.options.fault == fault::wrong_count ? bytes - width : bytes);
    });
    message.taken = true;
    ++l.happened.operations;
    l.moved();
  }
  for (auto const& message : sent)
    l.wait(lock, comm, "waits for its receiver, " + message->what.text(),
           [&] { return message->taken; });
}

/// Puts a launch on its stream. With the lock.
cudaError_t begin(library& l, std::shared_ptr<launch> const& what) {
  auto& comm = *what->comm;
  auto const ticket = l.devices[comm.device].enqueued++;
  auto const number = comm.launched++;
  std::vector<std::uint64_t> numbers;
  for (auto const& p : what->parts)
    if (!p.is_message()) numbers.push_back(comm.collectives++);
  auto work = [what, numbers, number, ticket] {
    try {
      run(what, numbers, number, ticket);
    } catch (std::runtime_error const&) {
      auto& all = library::get();
      std::scoped_lock const lock(all.mutex);
      if (!what->comm->aborted && !what->comm->of->aborted) throw;
    }
  };
  if (l.options.fault == fault::crossed_streams) {
    if (comm.crossed == nullptr) cudaStreamCreateWithFlags(&comm.crossed, cudaStreamNonBlocking);
    return fake_cuda::enqueue(comm.crossed, "nccl", std::move(work));
  }
  return fake_cuda::enqueue(what->on, "nccl", std::move(work));
}

void come_to_current_context() {
  int device = 0;
  cudaGetDevice(&device);
  fake_cuda::come_to_context(device);
}

ncclResult_t end_group() {
  auto& l = library::get();
  auto& g = group();
  for (int const device : std::exchange(g.aborted_on, {})) fake_cuda::come_to_context(device);
  std::scoped_lock const lock(l.mutex);
  if (g.aborts > 0) ++l.happened.groups_of_aborts;
  g.aborts = 0;
  auto const launches = std::exchange(g.launches, {});
  ncclResult_t result = std::exchange(g.problem, ncclSuccess);
  if (result != ncclSuccess) return result;
  for (auto const& one : launches) {
    auto& comm = *one->comm;
    if (comm.blocking) {
      if (begin(l, one) != cudaSuccess) return ncclUnhandledCudaError;
      continue;
    }
    comm.waiting.push_back(one);
    come_to(comm, *one);
    comm.in_progress = l.options.in_progress;
    result = ncclInProgress;
  }
  return result;
}

ncclResult_t add(ncclComm_t comm, cudaStream_t on, primitive const& p) {
  auto& l = library::get();
  auto& g = group();
  bool single = false;
  {
    std::scoped_lock const lock(l.mutex);
    auto const status = usable(l, comm, names[static_cast<int>(p.what)]);
    if (status != ncclSuccess) return g.problem = status;
    if (comm->in_progress > 0 || comm->asked)
      return g.problem = l.refuse("a call of a communicator that is still in progress");
    if (comm->finalised) return g.problem = l.refuse("a call of a communicator that is finalised");
    if (fake_cuda::device_of(on) != comm->device)
      return g.problem = l.refuse("a stream of another device than the communicator's");
    if ((p.what == kind::broadcast || p.is_message()) && (p.peer < 0 || p.peer >= comm->of->size))
      return g.problem = l.refuse(concat("root or peer ", p.peer, " is no rank"));
    single = g.depth == 0 || l.options.fault == fault::dropped_group;
    std::shared_ptr<launch> into;
    for (auto const& one : g.launches)
      if (!single && one->comm == comm) into = one;
    if (into && into->on != on)
      return g.problem = l.refuse("a group with one communicator on two streams");
    if (!into) into = g.launches.emplace_back(std::make_shared<launch>(launch{comm, on, {}}));
    into->parts.push_back(p);
    if (!single) return ncclSuccess;
    if (g.depth > 0) return ncclSuccess;
  }
  return end_group();
}

}  // namespace

namespace fake_nccl {

void restart(options const& how) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (l.alive > 0)
    throw std::logic_error(concat("fake NCCL: ", l.alive, " communicators are alive"));
  l.options = how;
  l.board = how.between_processes.empty()
                ? nullptr
                : std::make_unique<fake_nccl::board>(how.between_processes);
  l.happened = {};
  l.devices.clear();
  l.waits.clear();
  l.ids.clear();
  l.last_error.clear();
  l.given.clear();
  l.progress = clock_type::now();
}

record happened() {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  return l.happened;
}

std::size_t alive() {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  return l.alive;
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
  static thread_local std::string kept;
  kept = l.last_error;
  return kept.c_str();
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
  come_to_current_context();
  std::scoped_lock const lock(l.mutex);
  l.happened.names.insert("ncclCommInitRankConfig");
  if (rank < 0 || rank >= nranks) return l.refuse("the rank is none", ncclInvalidArgument);
  int device = 0;
  cudaGetDevice(&device);
  auto& of = l.ids[id.internal];
  if (of && of->joined > 0)
    for (auto const& [known, one] : l.comms)
      if (one->of == of && one->device == device)
        return l.refuse(concat("Duplicate GPU detected : rank ", rank, " and rank ", one->rank,
                               " both on CUDA device ", device));
  of = join(l, of, nranks, rank, comm, config->blocking != 0);
  of->name = id.internal;
  if (l.board) l.board->post(concat(of->name, ".joined", rank), {});
  return config->blocking != 0 ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  auto& l = library::get();
  come_to_current_context();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = usable(l, comm, "ncclCommSplit"); status != ncclSuccess) return status;
  comm->splits_now = true;
  comm->splits_alone = color == NCCL_SPLIT_NOCOLOR;
  if (l.board) return split_between_processes(l, *comm, color, key, made, config->blocking != 0);
  auto& round = comm->of->splits[comm->splits++];
  round.of.resize(static_cast<std::size_t>(comm->of->size), {NCCL_SPLIT_NOCOLOR, 0});
  ++round.arrived;
  *made = nullptr;
  comm->in_progress = l.options.in_progress;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclInProgress;
  round.of[static_cast<std::size_t>(comm->rank)] = {color, key};
  auto& of = round.made[color];
  of = join(l, of, 0, key, made, config->blocking != 0);
  ++of->size;  // as ranks come; ranks are the places of their keys, given when all have
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = usable(l, comm, "ncclCommGetAsyncError"); status != ncclSuccess)
    return *state = status;
  *state = ncclSuccess;
  if (l.options.fault == fault::asynchronous_error && comm->launched > 2 && comm->of->size > 1) {
    l.last_error = "a link went down";
    return *state = ncclRemoteError, ncclSuccess;
  }
  auto& of = *comm->of;
  if (l.board && !comm->is_complete) {
    if (!all_have_come(l, *comm)) return *state = ncclInProgress, ncclSuccess;
    comm->is_complete = true;
  }
  for (auto const& [known, parent] : l.comms)  // a part is complete when all of the whole have come
    for (auto& [number, round] : parent->of->splits)
      for (auto const& [color, part] : round.made)
        if (part == comm->of && round.arrived < parent->of->size)
          return *state = ncclInProgress, ncclSuccess;
  if (!comm->is_complete) {
    if (of.joined < of.size) return *state = ncclInProgress, ncclSuccess;
    int place = 0;  // keys become ranks
    if (std::none_of(l.comms.begin(), l.comms.end(), [&](auto const& one) {
          return one.second->of == comm->of && one.second->is_complete;
        })) {
      std::vector<ncclComm*> all;
      for (auto const& [known, one] : l.comms)
        if (one->of == comm->of) all.push_back(one.get());
      std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->rank < b->rank; });
      for (auto* const one : all) {
        one->rank = place++;
        one->is_complete = true;
      }
    }
    comm->is_complete = true;
  }
  if (comm->in_progress > 0 && --comm->in_progress > 0) return *state = ncclInProgress, ncclSuccess;
  if (comm->splits_now) {
    if (!(l.board ? have_come_to_split(l, *comm) : of.splits[comm->splits - 1].arrived == of.size))
      return *state = ncclInProgress, ncclSuccess;
    comm->splits_now = false;
  }
  if (comm->asked) *state = complete_window(l, *comm);
  if (*state != ncclSuccess) return ncclSuccess;
  if (!l.board && !std::ranges::all_of(comm->waiting,
                                       [&](auto const& one) { return is_connected(*comm, *one); }))
    return *state = ncclInProgress, ncclSuccess;
  if (!comm->waiting.empty() && fake_cuda::is_context_taken(comm->device))
    return *state = ncclInProgress, ncclSuccess;
  for (auto const& one : std::exchange(comm->waiting, {}))
    if (begin(l, one) != cudaSuccess) return *state = ncclUnhandledCudaError, ncclSuccess;
  if (comm->finalised && comm->finished < comm->launched) *state = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = usable(l, comm, "ncclCommFinalize"); status != ncclSuccess) return status;
  comm->finalised = true;
  note_over(l, *comm);
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  auto& l = library::get();
  std::unique_lock lock(l.mutex);
  if (auto const status = usable(l, comm, "ncclCommDestroy"); status != ncclSuccess) return status;
  if (!comm->finalised || comm->finished < comm->launched)
    return l.refuse("ncclCommDestroy: the communicator was not finalised, which may hang");
  if (!comm->registered.empty())
    return l.refuse(concat("ncclCommDestroy: ", comm->registered.size(),
                           " pieces of memory are still registered"));
  if (auto const status = wait_for_ends(l, lock, *comm); status != ncclSuccess) return status;
  comm->destroyed = true;
  if (comm->rank == 0) ++l.happened.of_size[comm->of->size];
  --l.alive;
  lock.unlock();
  if (comm->crossed != nullptr) cudaStreamDestroy(comm->crossed);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto& l = library::get();
  if (l.options.fault == fault::slow_abort) fake_cuda::come_to_context(comm->device);
  std::unique_lock lock(l.mutex);
  if (auto const status = usable(l, comm, "ncclCommAbort"); status != ncclSuccess) return status;
  group().aborted_on.push_back(comm->device);
  if (group().depth == 0)
    static_cast<void>(
        l.refuse("ncclCommAbort outside of a group: with several communicators it hangs"));
  if (comm->splits_now && comm->splits_alone)
    static_cast<void>(
        l.refuse("ncclCommAbort while a split without a color is in progress crashes"));
  ++group().aborts;
  ++l.happened.aborted;
  comm->aborted = true;
  note_over(l, *comm);
  comm->waiting.clear();
  comm->asked.reset();
  for (auto const& [handle, one] : comm->registered) look_at_registered(l, *comm, one.range);
  comm->registered.clear();
  --l.alive;
  l.moved();
  // what it reads and writes may be freed afterwards
  l.changed.wait_for(lock, std::chrono::seconds(5), [&] { return comm->inside == 0; });
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
                           ncclRedOp_t how, ncclComm_t comm, cudaStream_t on) {
  return add(comm, on, {kind::all_reduce, in, out, count, type, how});
}
ncclResult_t ncclReduceScatter(void const* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t how, ncclComm_t comm, cudaStream_t on) {
  return add(comm, on, {kind::reduce_scatter, in, out, count, type, how});
}
ncclResult_t ncclAllGather(void const* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t on) {
  return add(comm, on, {kind::all_gather, in, out, count, type});
}
ncclResult_t ncclBroadcast(void const* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t on) {
  return add(comm, on, {kind::broadcast, in, out, count, type, ncclSum, root});
}
ncclResult_t ncclSend(void const* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t on) {
  return add(comm, on, {kind::send, in, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t on) {
  return add(comm, on, {kind::recv, nullptr, out, count, type, ncclSum, peer});
}

}  // extern "C"
