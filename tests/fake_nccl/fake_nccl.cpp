// See fake_nccl.hpp.
#include "fake_nccl/fake_nccl.hpp"

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/core/error.hpp>

#include "fake_cuda/runtime.hpp"
#include "fake_nccl/board.hpp"

extern "C" int const parallellm_fake_nccl_library = 1;

namespace {

using clock_type = std::chrono::steady_clock;
using fake_nccl::fault;
using parallel::concat;

enum class kind { all_reduce, reduce_scatter, all_gather, broadcast, send, recv };
constexpr char const* names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                 "ncclBroadcast", "ncclSend",          "ncclRecv"};

struct primitive {
  kind what;
  void const* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t how = ncclSum;
  int peer = -1;
  int device = 0;                                       // of the rank whose part it is
  bool from_registered = false, to_registered = false;  // memory of the rank whose part it is

  [[nodiscard]] bool is_message() const { return what == kind::send || what == kind::recv; }
  [[nodiscard]] std::string text() const {
    return concat(names[static_cast<int>(what)], " of ", count, " elements of type ",
                  static_cast<int>(type), ", reduction ", static_cast<int>(how),
                  what == kind::broadcast ? ", root " : ", peer ", peer);
  }
  friend bool agree(primitive const& a, primitive const& b) {
    return a.what == b.what && a.count == b.count && a.type == b.type && a.how == b.how &&
           a.peer == b.peer;
  }
};

std::size_t width_of(ncclDataType_t type) {
  constexpr std::size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return widths[static_cast<int>(type)];
}

parallel::dtype dtype_of(ncclDataType_t type) {
  using enum parallel::dtype;
  constexpr parallel::dtype types[] = {u8, u8, i32, i32, i64, u64, f16, f32, f64, bf16};
  return types[static_cast<int>(type)];
}

/// A clique whose ranks, processes, are known when all ranks of the communicator that is split have
/// posted their color and key.
struct pending_split {
  std::string posts;  // the name of a rank's post without the rank
  int ranks = 0, rank = 0, color = 0;
};

/// Where the ranks of one communicator meet.
struct clique {
  int size = 0;
  std::string name;  // of its posts, where ranks are processes
  std::optional<pending_split> pending;
  std::size_t number = 0;  // of the cliques, for messages
  int joined = 0;
  bool aborted = false;
  struct meeting {
    std::vector<std::optional<primitive>> parts;
    std::size_t arrived = 0;
    bool done = false;
    int left = 0;
  };
  std::map<std::uint64_t, meeting> meetings;  // by the number of the collective
  struct message {
    primitive what;
    bool taken = false;
  };
  std::map<std::pair<int, int>, std::deque<message*>> messages;  // by sender and receiver
  struct split_round {
    std::vector<std::pair<int, int>> of;  // color, key
    std::vector<bool> came;
    int arrived = 0;
    std::map<int, std::shared_ptr<clique>> made;
  };
  std::map<std::uint64_t, split_round> splits;
};

struct launch;

}  // namespace

/// One rank's end.
struct ncclComm {
  std::shared_ptr<clique> of;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool finalised = false, destroyed = false, aborted = false;
  int in_progress = 0;
  bool is_complete = false;  // all ranks have joined
  std::uint64_t collectives = 0, splits = 0;
  std::uint64_t launched = 0, finished = 0;                // its kernels
  int inside = 0;                                          // of them, on the device
  std::vector<std::shared_ptr<launch>> waiting;            // in a group that has not begun
  std::map<void*, std::span<std::byte const>> registered;  // by handle
  cudaStream_t crossed = nullptr;               // of its own, which nobody waits for: a fault
  std::map<int, std::uint64_t> sent, received;  // messages to and from processes
};

namespace {

struct launch {
  ncclComm* comm;
  cudaStream_t on;
  std::vector<primitive> parts;
};

struct group_state {
  int depth = 0;
  std::vector<std::shared_ptr<launch>> launches;
  int aborts = 0;
  ncclResult_t problem = ncclSuccess;
};
group_state& group() {
  static thread_local group_state one;
  return one;
}

class library {
 public:
  std::mutex mutex;
  std::condition_variable changed;
  fake_nccl::options options;
  fake_nccl::record happened;
  std::map<ncclComm*, std::unique_ptr<ncclComm>> comms;  // for ever: use after the end is found
  std::map<std::string, std::shared_ptr<clique>> ids;
  std::size_t next_id = 0, next_clique = 0;
  std::uintptr_t next_registration = 0;
  std::size_t alive = 0;
  int aborts_in_a_row = 0;
  std::string last_error;
  std::unique_ptr<fake_nccl::board> board;  // where ranks are processes
  struct of_device {
    int running = 0;
    std::uint64_t enqueued = 0, started = 0;
  };
  std::map<int, of_device> devices;
  std::map<int, std::vector<std::string>> waits;  // of devices: what stands there
  clock_type::time_point progress = clock_type::now();

  static library& get() {
    static auto* const one = new library;  // threads may outlive everything
    return *one;
  }

  ncclResult_t refuse(std::string why, ncclResult_t with = ncclInvalidUsage) {
    happened.failures.push_back(why);
    last_error = std::move(why);
    return with;
  }

  void moved() {
    progress = clock_type::now();
    changed.notify_all();
  }

  /// Waits inside a kernel until `over`, with `what` for the report; throws when ranks stand still,
  /// or the communicator was aborted.
  template <class Over>
  void wait(std::unique_lock<std::mutex>& lock, ncclComm& comm, std::string const& what,
            Over over) {
    auto& here = waits[comm.device];
    auto const text = concat("device ", comm.device, " (rank ", comm.rank, " of communicator ",
                             comm.of->number, ") ", what);
    if (over()) return;
    here.push_back(text);
    while (!over() && !comm.aborted && !comm.of->aborted) {
      changed.wait_for(lock, std::chrono::milliseconds(board ? 1 : 20));
      if (over() || fake_cuda::has_failed(comm.device)) break;
      if (clock_type::now() - progress > options.patience) {
        std::string all = "ranks stand still:";
        for (auto const& [device, texts] : waits)
          for (auto const& one : texts) all += concat("\n  ", one);
        happened.failures.push_back(all);
        last_error = all;
        comm.of->aborted = true;
        moved();
      }
    }
    std::erase(here, text);
    if (!over()) throw std::runtime_error("an NCCL operation was ended: " + what);
  }
};

using all_parts = std::vector<std::optional<primitive>>;

/// Throws unless all ranks have come with the same.
void require_agreement(clique const& of, all_parts const& parts) {
  primitive const& first = *parts[0];
  for (auto const& part : parts) {
    if (!agree(first, *part))
      throw std::runtime_error(concat("ranks of communicator ", of.number,
                                      " disagree: ", first.text(), " and ", part->text()));
    if (part->count > 0 && (part->from_registered != first.from_registered ||
                            part->to_registered != first.to_registered))
      throw std::runtime_error(concat("ranks of communicator ", of.number, " disagree: ",
                                      first.text(), " is of registered memory on some alone"));
  }
}

/// Throws unless what the part reads and writes is there: it may have been freed since its rank
/// came.
void require_alive(primitive const& part) {
  if (part.count == 0) return;
  fake_cuda::require_access(part.device, part.in, 1, names[static_cast<int>(part.what)]);
  fake_cuda::require_access(part.device, part.out, 1, names[static_cast<int>(part.what)]);
}

/// Runs under the library's lock when all ranks have come, and agree.
void exchange_parts(library& l, all_parts const& parts) {
  primitive const& first = *parts[0];
  auto const n = parts.size();
  std::size_t const width = width_of(first.type);
  std::size_t const bytes = first.count * width;
  std::size_t const moved = l.options.fault == fault::wrong_count ? bytes - width : bytes;
  auto const in = [&](std::size_t r, std::size_t at) {
    return static_cast<std::byte const*>(parts[r]->in) + at;
  };
  auto const out = [&](std::size_t r, std::size_t at) {
    return static_cast<std::byte*>(parts[r]->out) + at;
  };
  auto const reduce = [&](std::vector<void*> const& outs, std::size_t at) {
    std::vector<void const*> sources;
    for (std::size_t r = 0; r < n; ++r) sources.push_back(in(r, at));
    auto const how = first.how == ncclMax   ? parallel::reduction::max
                     : first.how == ncclMin ? parallel::reduction::min
                                            : parallel::reduction::sum;
    parallel::detail::combine(dtype_of(first.type), how, outs, sources, moved / width);
  };
  switch (first.what) {
    case kind::all_reduce: {
      std::vector<void*> outs;
      for (std::size_t r = 0; r < n; ++r) outs.push_back(out(r, 0));
      return reduce(outs, 0);
    }
    case kind::reduce_scatter:
      for (std::size_t r = 0; r < n; ++r) reduce({out(r, 0)}, r * bytes);
      return;
    case kind::all_gather:
      for (std::size_t to = 0; to < n; ++to)
        for (std::size_t r = 0; r < n; ++r) std::memmove(out(to, r * bytes), in(r, 0), moved);
      return;
    case kind::broadcast: {
      auto const root =
          (static_cast<std::size_t>(first.peer) + (l.options.fault == fault::wrong_root ? 1 : 0)) %
          n;
      for (std::size_t r = 0; r < n; ++r)
        if (out(r, 0) != in(root, 0)) std::memmove(out(r, 0), in(root, 0), moved);
      return;
    }
    default: return;
  }
}

/// Whether the bytes are memory that is registered with the communicator.
bool is_registered(ncclComm const& comm, void const* memory, std::size_t bytes) {
  auto const* const from = static_cast<std::byte const*>(memory);
  return std::ranges::any_of(comm.registered, [&](auto const& one) {
    auto const& range = one.second;
    return from >= range.data() && from + bytes <= range.data() + range.size();
  });
}

/// Counts what a part reads and writes, and notes whether it is registered.
void count(library& l, ncclComm const& comm, primitive& p, std::size_t read, std::size_t written) {
  auto& sum = l.happened.exchanged[concat(names[static_cast<int>(p.what)], " of ",
                                          parallel::name_of(dtype_of(p.type)))];
  auto const add = [&](void const* memory, std::size_t bytes) {
    if (memory == nullptr) return false;
    bool const registered = is_registered(comm, memory, bytes);
    sum.bytes += bytes;
    if (registered) sum.registered += bytes;
    return registered;
  };
  p.from_registered = add(p.in, read);
  p.to_registered = add(p.out, written);
}

/// Notes memory that was freed while it was registered, when registrations end.
void look_at_registered(library& l, ncclComm const& comm, std::span<std::byte const> range) {
  try {
    fake_cuda::require_access(comm.device, range.data(), range.size(), "registered memory");
  } catch (std::exception const& problem) {
    static_cast<void>(
        l.refuse(concat("memory was freed while it was registered: ", problem.what())));
  }
}

/// Throws unless the rank's device reaches what it reads and writes, which may overlap as NCCL
/// allows.
void look_at(ncclComm const& comm, primitive& p) {
  std::size_t const bytes = p.count * width_of(p.type);
  auto const n = static_cast<std::size_t>(comm.of->size);
  bool const gathers = p.what == kind::all_gather, scatters = p.what == kind::reduce_scatter;
  std::size_t const read = scatters ? n * bytes : bytes, written = gathers ? n * bytes : bytes;
  char const* const name = names[static_cast<int>(p.what)];
  if (p.in != nullptr) fake_cuda::require_access(comm.device, p.in, read, name);
  if (p.out != nullptr) fake_cuda::require_access(comm.device, p.out, written, name);
  count(library::get(), comm, p, read, written);
  if (p.in == nullptr || p.out == nullptr || bytes == 0) return;
  auto const* const in = static_cast<std::byte const*>(p.in);
  auto const* const out = static_cast<std::byte const*>(p.out);
  auto const own = static_cast<std::size_t>(comm.rank) * bytes;
  bool const apart = in + read <= out || out + written <= in;
  bool const in_place = gathers ? in == out + own : scatters ? out == in + own : in == out;
  if (!apart && !in_place)
    throw std::runtime_error(concat(name, ": input and output overlap, but are not in place"));
}

struct slot {
  library& l;
  int device;
  slot(library& of, int on) : l(of), device(on) { ++l.devices[on].running; }
  ~slot() {
    --l.devices[device].running;
    l.moved();
  }
};

/// What a rank that is a process posts of its part, and what it posts it with.
std::string posted(primitive const& p, std::size_t bytes) {
  std::string out(sizeof p, '\0');
  std::memcpy(out.data(), &p, sizeof p);
  if (bytes > 0) out.append(static_cast<char const*>(p.in), bytes);
  return out;
}
primitive part_of(std::string& post) {
  primitive p{kind::send};
  std::memcpy(&p, post.data(), sizeof p);
  p.in = post.data() + sizeof p;
  return p;
}

/// A rank's part of a collective of processes: all have all inputs, and each keeps its output.
void exchange_between_processes(library& l, std::unique_lock<std::mutex>& lock, ncclComm& comm,
                                primitive const& mine, std::uint64_t which) {
  auto const& of = *comm.of;
  auto const n = static_cast<std::size_t>(of.size);
  auto const name = [&](std::uint64_t number, int rank) {
    return concat(of.name, ".collective", number, ".rank", rank);
  };
  std::size_t const bytes = mine.count * width_of(mine.type);
  std::size_t const read = mine.what == kind::reduce_scatter ? n * bytes : bytes;
  std::size_t const written = mine.what == kind::all_gather ? n * bytes : bytes;
  l.board->post(name(which, comm.rank), posted(mine, read));
  int next = 0;
  l.wait(lock, comm, concat("waits for other processes in collective ", which, ", ", mine.text()),
         [&] {
           while (next < of.size && l.board->has(name(which, next))) ++next;
           return next == of.size;
         });
  std::vector<std::string> posts, unused(n);
  all_parts parts;
  for (int rank = 0; rank < of.size; ++rank) {
    auto& post = posts.emplace_back(l.board->read(name(which, rank)));
    post.shrink_to_fit();
  }
  for (std::size_t rank = 0; rank < n; ++rank) {
    auto& part = parts.emplace_back(part_of(posts[rank]));
    if (rank == static_cast<std::size_t>(comm.rank)) {
      part->out = mine.out;
    } else {
      unused[rank].resize(written);
      part->out = unused[rank].data();
    }
  }
  require_agreement(of, parts);
  auto there = mine;
  there.device = comm.device;
  require_alive(there);
  exchange_parts(l, parts);
  // who has come to this one has read those before
  if (which > 0) l.board->remove(name(which - 1, comm.rank));
  ++l.happened.operations;
}

/// What a launch does where ranks are processes.
void run_between_processes(library& l, std::unique_lock<std::mutex>& lock, launch const& what,
                           std::vector<std::uint64_t> const& numbers) {
  auto& comm = *what.comm;
  auto const failed = [&](std::string const& why) {
    l.happened.failures.push_back(why);
    comm.of->aborted = true;
    l.moved();
    throw std::runtime_error(why);
  };
  auto const message = [&](int from, int to, std::uint64_t number) {
    return concat(comm.of->name, ".message", number, ".from", from, ".to", to);
  };
  std::size_t collective = 0;
  std::vector<std::pair<std::string, std::string>> sent;  // and what they are
  for (auto const& p : what.parts) {
    if (p.is_message()) continue;
    try {
      exchange_between_processes(l, lock, comm, p, numbers[collective++]);
    } catch (std::exception const& problem) {
      if (comm.aborted || comm.of->aborted) throw;
      failed(problem.what());
    }
  }
  for (auto const& p : what.parts)
    if (p.what == kind::send) {
      auto const& [name, text] =
          sent.emplace_back(message(comm.rank, p.peer, comm.sent[p.peer]++), p.text());
      l.board->post(name, posted(p, p.count * width_of(p.type)));
    }
  for (auto const& p : what.parts) {
    if (p.what != kind::recv) continue;
    auto const name = message(p.peer, comm.rank, comm.received[p.peer]++);
    l.wait(lock, comm, "waits for its sender, " + p.text(), [&] { return l.board->has(name); });
    auto post = l.board->read(name);
    auto const came = part_of(post);
    if (came.count != p.count || came.type != p.type)
      failed(concat("sender and receiver of communicator ", comm.of->number,
                    " disagree: ", came.text(), " and ", p.text()));
    if (p.count > 0) std::memmove(p.out, came.in, p.count * width_of(p.type));
    l.board->remove(name);
    ++l.happened.operations;
    l.moved();
  }
  for (auto const& [name, text] : sent) {
    auto const& untaken = name;
    l.wait(lock, comm, "waits for its receiver, " + text, [&] { return !l.board->has(untaken); });
  }
}

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
        exchange_parts(l, meeting.parts);
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
    std::memmove(p.out, message.what.in,
                 l.options.fault == fault::wrong_count ? bytes - width : bytes);
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

ncclResult_t usable(library& l, ncclComm* comm, char const* call) {
  l.happened.names.insert(call);
  auto const found = l.comms.find(comm);
  if (found == l.comms.end())
    return l.refuse(concat(call, ": no communicator"), ncclInvalidArgument);
  if (comm->aborted || comm->destroyed)
    return l.refuse(
        concat(call, ": the communicator was ", comm->aborted ? "aborted" : "destroyed"),
        ncclInvalidUsage);
  return ncclSuccess;
}

ncclResult_t end_group() {
  auto& l = library::get();
  auto& g = group();
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
    if (comm->in_progress > 0)
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

std::shared_ptr<clique> join(library& l, std::shared_ptr<clique> of, int size, int rank,
                             ncclComm_t* out, bool blocking) {
  if (!of) {
    of = std::make_shared<clique>();
    of->size = size;
    of->number = l.next_clique++;
  }
  auto made = std::make_unique<ncclComm>();
  made->of = of;
  made->rank = rank;
  cudaGetDevice(&made->device);
  made->blocking = blocking;
  made->in_progress = l.options.in_progress;
  *out = made.get();
  l.comms[made.get()] = std::move(made);
  ++of->joined;
  ++l.alive;
  ++l.happened.communicators;
  l.moved();
  return of;
}

ncclResult_t split_between_processes(library& l, ncclComm& comm, int color, int key,
                                     ncclComm_t* made, bool blocking) {
  auto const posts = concat(comm.of->name, ".split", comm.splits++, ".rank");
  l.board->post(concat(posts, comm.rank), concat(color, ' ', key));
  comm.in_progress = l.options.in_progress;
  *made = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclInProgress;
  auto const of = join(l, nullptr, 0, 0, made, blocking);
  of->name = concat(posts, ".color", color);
  of->pending = pending_split{posts, comm.of->size, comm.rank, color};
  return ncclInProgress;
}

/// Whether all processes of a communicator have come; a split one's ranks are known then.
bool all_have_come(library& l, ncclComm& comm) {
  auto& of = *comm.of;
  if (!of.pending) {
    int came = 0;
    while (came < of.size && l.board->has(concat(of.name, ".joined", came))) ++came;
    return came == of.size;
  }
  auto const& round = *of.pending;
  for (int rank = 0; rank < round.ranks; ++rank)
    if (!l.board->has(concat(round.posts, rank))) return false;
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int rank = 0; rank < round.ranks; ++rank) {
    auto const text = l.board->read(concat(round.posts, rank));
    auto const space = text.find(' ');
    if (std::stoi(text.substr(0, space)) == round.color)
      members.emplace_back(std::stoi(text.substr(space)), rank);
  }
  std::ranges::sort(members);
  of.size = static_cast<int>(members.size());
  comm.rank = static_cast<int>(
      std::ranges::find(members, round.rank, &std::pair<int, int>::second) - members.begin());
  return true;
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
  std::scoped_lock const lock(l.mutex);
  if (auto const status = usable(l, comm, "ncclCommSplit"); status != ncclSuccess) return status;
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
  comm->destroyed = true;
  --l.alive;
  lock.unlock();
  if (comm->crossed != nullptr) cudaStreamDestroy(comm->crossed);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto& l = library::get();
  std::unique_lock lock(l.mutex);
  if (auto const status = usable(l, comm, "ncclCommAbort"); status != ncclSuccess) return status;
  if (group().depth == 0)
    static_cast<void>(
        l.refuse("ncclCommAbort outside of a group: with several communicators it hangs"));
  ++group().aborts;
  ++l.happened.aborted;
  comm->aborted = true;
  comm->waiting.clear();
  for (auto const& [handle, range] : comm->registered) look_at_registered(l, *comm, range);
  comm->registered.clear();
  --l.alive;
  l.moved();
  // what it reads and writes may be freed afterwards
  l.changed.wait_for(lock, std::chrono::seconds(5), [&] { return comm->inside == 0; });
  lock.unlock();
  if (comm->crossed != nullptr) cudaStreamDestroy(comm->crossed);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t bytes, void** handle) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = usable(l, comm, "ncclCommRegister"); status != ncclSuccess) return status;
  if (comm->in_progress > 0)
    return l.refuse("ncclCommRegister: the communicator is still in progress");
  try {
    if (fake_cuda::device_of(memory) != comm->device)
      throw std::runtime_error("the memory is not of the communicator's device");
    fake_cuda::require_access(comm->device, memory, bytes, "it");
  } catch (std::runtime_error const& problem) {
    return l.refuse(concat("ncclCommRegister: ", problem.what()), ncclInvalidArgument);
  }
  *handle = reinterpret_cast<void*>(++l.next_registration);
  comm->registered[*handle] = {static_cast<std::byte const*>(memory), bytes};
  ++l.happened.registered;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = usable(l, comm, "ncclCommDeregister"); status != ncclSuccess)
    return status;
  auto const found = comm->registered.find(handle);
  if (found == comm->registered.end())
    return l.refuse("ncclCommDeregister: nothing of the communicator is registered so");
  if (comm->finished < comm->launched || !comm->waiting.empty())
    static_cast<void>(l.refuse("ncclCommDeregister: operations of the communicator are under way"));
  look_at_registered(l, *comm, found->second);
  comm->registered.erase(found);
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
