// The fake NCCL's state: communicators, where their ranks meet, and what waits there.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>

#include "fake_cuda/runtime.hpp"
#include "fake_nccl/board.hpp"
#include "fake_nccl/fake_nccl.hpp"

namespace fake_nccl {

using clock_type = std::chrono::steady_clock;
using parallel::concat;

enum class kind { all_reduce, reduce_scatter, all_gather, broadcast, send, recv };
inline constexpr char const* names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                        "ncclBroadcast", "ncclSend",          "ncclRecv"};

/// Where memory lies in one of its communicator's windows, which are counted from 1; 0: in none.
struct window_place {
  std::size_t window = 0;
  std::size_t offset = 0;
  friend bool operator==(window_place const&, window_place const&) = default;
};

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
  window_place from_window = {}, to_window = {};

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

inline std::size_t width_of(ncclDataType_t type) {
  constexpr std::size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return widths[static_cast<int>(type)];
}

inline parallel::dtype dtype_of(ncclDataType_t type) {
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
  std::map<std::size_t, std::vector<std::size_t>> windows;  // bytes of each rank that has come
  std::set<int> came;                                       // ranks that have called a collective
  std::set<int> over;                                       // ranks that have finalised or aborted
  std::set<std::tuple<int, int, kind>> ends;  // of messages: sender, receiver, who has called
};

/// Memory that a communicator was told of.
struct registration {
  std::span<std::byte const> range;
  std::size_t window = 0;
};

/// A window that not all ranks are known to have come for.
struct asked_window {
  ncclWindow_t* out;
  registration what;
};

struct launch;

}  // namespace fake_nccl

/// One rank's end.
struct ncclComm {
  std::shared_ptr<fake_nccl::clique> of;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool finalised = false, destroyed = false, aborted = false;
  int in_progress = 0;
  bool is_complete = false;  // all ranks have joined
  std::uint64_t collectives = 0, splits = 0;
  bool splits_now = false;                   // not all ranks are known to have come to the last one
  bool splits_alone = false;                 // that one made nothing here (NCCL_SPLIT_NOCOLOR)
  std::uint64_t launched = 0, finished = 0;  // its kernels
  int inside = 0;                            // of them, on the device
  std::vector<std::shared_ptr<fake_nccl::launch>> waiting;  // in a group that has not begun
  std::map<void*, fake_nccl::registration> registered;      // by handle
  std::size_t windows = 0;
  std::optional<fake_nccl::asked_window> asked;
  cudaStream_t crossed = nullptr;               // of its own, which nobody waits for: a fault
  std::map<int, std::uint64_t> sent, received;  // messages to and from processes
};

namespace fake_nccl {

struct launch {
  ncclComm* comm;
  cudaStream_t on;
  std::vector<primitive> parts;
};

struct group_state {
  int depth = 0;
  std::vector<std::shared_ptr<launch>> launches;
  int aborts = 0;
  std::vector<int> aborted_on = {};  // devices
  ncclResult_t problem = ncclSuccess;
};
inline group_state& group() {
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
  std::map<void const*, std::size_t> given;  // by ncclMemAlloc, and bytes
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

/// Makes a rank's end of a clique, or of a new one of `size` ranks. With the lock.
inline std::shared_ptr<clique> join(library& l, std::shared_ptr<clique> of, int size, int rank,
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

/// With the lock.
inline ncclResult_t usable(library& l, ncclComm* comm, char const* call) {
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

/// NCCL connects ranks at the first call that needs it, which is in progress until the ranks that
/// it connects have come to theirs: their hosts wait for each other.
inline void come_to(ncclComm const& comm, launch const& what) {
  for (auto const& p : what.parts)
    if (!p.is_message())
      comm.of->came.insert(comm.rank);
    else if (p.what == kind::send)
      comm.of->ends.insert({comm.rank, p.peer, p.what});
    else
      comm.of->ends.insert({p.peer, comm.rank, p.what});
}
inline bool is_connected(ncclComm const& comm, launch const& what) {
  auto& of = *comm.of;
  return std::ranges::all_of(what.parts, [&](primitive const& p) {
    if (!p.is_message()) return of.came.size() == static_cast<std::size_t>(of.size);
    auto const [from, to] =
        p.what == kind::send ? std::pair(comm.rank, p.peer) : std::pair(p.peer, comm.rank);
    return of.ends.contains({from, to, kind::send}) && of.ends.contains({from, to, kind::recv});
  });
}

/// A rank's part is over: it was finalised or aborted. With the lock.
inline void note_over(library& l, ncclComm const& comm) {
  comm.of->over.insert(comm.rank);
  if (l.board) l.board->post(concat(comm.of->name, ".over", comm.rank), {});
  l.moved();
}

/// NCCL frees a communicator when the ranks of its machine have let go of each other's memory:
/// ncclCommDestroy waits for their ncclCommFinalize (its proxy threads are joined).
inline ncclResult_t wait_for_ends(library& l, std::unique_lock<std::mutex>& lock, ncclComm& comm) {
  int next = 0;
  auto const is_over = [&](int rank) {
    return l.board ? l.board->has(concat(comm.of->name, ".over", rank))
                   : comm.of->over.contains(rank);
  };
  try {
    l.wait(lock, comm, "waits in ncclCommDestroy for other ranks' ncclCommFinalize", [&] {
      while (next < comm.of->size && is_over(next)) ++next;
      return next == comm.of->size;
    });
  } catch (std::runtime_error const& problem) {
    if (!comm.of->aborted) return l.refuse(problem.what());
  }
  return ncclSuccess;
}

}  // namespace fake_nccl
