// The fake NCCL's state: communicators, the cliques of their ranks, and the waits of kernels.
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

/// The location of memory in one of its communicator's windows, which are counted from 1; 0: in
/// none.
struct window_location {
  std::size_t window = 0;
  std::size_t offset = 0;
  friend bool operator==(window_location const&, window_location const&) = default;
};

/// One rank's part of an operation.
struct primitive {
  kind operation;
  void const* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t reduction = ncclSum;
  int peer = -1;
  int device = 0;                                       // the rank's device
  bool from_registered = false, to_registered = false;  // of this rank
  window_location from_window = {}, to_window = {};

  [[nodiscard]] bool is_message() const {
    return operation == kind::send || operation == kind::recv;
  }
  [[nodiscard]] std::string text() const {
    return concat(names[static_cast<int>(operation)], " of ", count, " elements of type ",
                  static_cast<int>(type), ", reduction ", static_cast<int>(reduction),
                  operation == kind::broadcast ? ", root " : ", peer ", peer);
  }
  friend bool agree(primitive const& a, primitive const& b) {
    return a.operation == b.operation && a.count == b.count && a.type == b.type &&
           a.reduction == b.reduction && a.peer == b.peer;
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

/// A split between processes: its members are known when all ranks of the communicator that is
/// split have posted their color and key.
struct pending_split {
  std::string posts;  // the name of a rank's post without the rank
  int ranks = 0, rank = 0, color = 0;
};

/// The state that the ranks of one communicator share.
struct clique {
  int size = 0;
  std::string name;  // prefix of its posts, where ranks are processes
  std::optional<pending_split> pending;
  std::size_t number = 0;  // identifies the clique in messages
  int joined = 0;
  bool aborted = false;
  struct meeting {
    std::vector<std::optional<primitive>> parts;
    std::size_t arrived = 0;
    bool is_complete = false;
    int departed = 0;
  };
  std::map<std::uint64_t, meeting> meetings;  // by the number of the collective
  struct message {
    primitive send;
    bool is_received = false;
  };
  std::map<std::pair<int, int>, std::deque<message*>> messages;  // by sender and receiver
  struct split_round {
    std::vector<std::pair<int, int>> colors_and_keys;  // color, key
    int arrived = 0;
    std::map<int, std::shared_ptr<clique>> cliques;
  };
  std::map<std::uint64_t, split_round> splits;
  std::map<std::size_t, std::vector<std::size_t>> windows;  // bytes by rank that has asked
  std::set<int> connected_ranks;                            // ranks that have called a collective
  std::set<int> finished_ranks;                             // ranks that have finalised or aborted
  std::set<std::tuple<int, int, kind>> ends;  // (sender, receiver, send or recv) of calls
};

/// Memory that is registered with a communicator.
struct registration {
  std::span<std::byte const> range;
  std::size_t window = 0;
};

/// A window that this rank has asked for, and perhaps not yet all others.
struct pending_window {
  ncclWindow_t* out;
  registration memory;
};

struct launch;

}  // namespace fake_nccl

/// One rank's handle of a communicator.
struct ncclComm {
  std::shared_ptr<fake_nccl::clique> clique;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool finalised = false, destroyed = false, aborted = false;
  int in_progress = 0;
  bool is_complete = false;  // all ranks have joined
  std::uint64_t collectives = 0, splits = 0;
  bool is_splitting = false;                 // perhaps not all ranks have called the last split
  bool is_split_without_color = false;       // by NCCL_SPLIT_NOCOLOR
  std::uint64_t launched = 0, finished = 0;  // numbers of kernels
  int running_kernels = 0;                   // of them, on the device
  // Launches of groups that have not begun
  std::vector<std::shared_ptr<fake_nccl::launch>> pending_launches;
  std::map<void*, fake_nccl::registration> registered;  // by handle
  std::size_t windows = 0;
  std::optional<fake_nccl::pending_window> pending_window;
  cudaStream_t crossed = nullptr;               // for fault::crossed_streams
  std::map<int, std::uint64_t> sent, received;  // messages by peer process
};

namespace fake_nccl {

struct launch {
  ncclComm* comm;
  cudaStream_t stream;
  std::vector<primitive> parts;
};

struct group_state {
  int depth = 0;
  std::vector<std::shared_ptr<launch>> launches;
  int aborts = 0;
  std::vector<int> aborted_devices = {};  // devices
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
  fake_nccl::record history;
  // Never erased, so that the use of a communicator after its end is found
  std::map<ncclComm*, std::unique_ptr<ncclComm>> comms;
  std::map<std::string, std::shared_ptr<clique>> ids;
  std::size_t next_id = 0, next_clique = 0;
  std::uintptr_t next_registration = 0;
  std::map<void const*, std::size_t> allocations;  // bytes by address, of ncclMemAlloc
  std::size_t live_communicators = 0;
  int aborts_in_a_row = 0;
  std::string last_error;
  std::unique_ptr<fake_nccl::board> board;  // where ranks are processes
  struct device_state {
    int running = 0;
    std::uint64_t enqueued = 0, started = 0;
  };
  std::map<int, device_state> devices;
  std::map<int, std::vector<std::string>> waits;  // descriptions of waits, by device
  clock_type::time_point progress = clock_type::now();

  static library& get() {
    static auto* const one = new library;  // never freed: threads may outlive the program's statics
    return *one;
  }

  ncclResult_t refuse(std::string reason, ncclResult_t result = ncclInvalidUsage) {
    history.failures.push_back(reason);
    last_error = std::move(reason);
    return result;
  }

  void note_progress() {
    progress = clock_type::now();
    changed.notify_all();
  }

  /// Waits inside a kernel until `is_over`; `label` describes the wait in a report. Throws when the
  /// ranks are in a deadlock, or the communicator was aborted.
  template <class Over>
  void wait(std::unique_lock<std::mutex>& lock, ncclComm& comm, std::string const& label,
            Over is_over) {
    auto& device_waits = waits[comm.device];
    auto const text = concat("device ", comm.device, " (rank ", comm.rank, " of communicator ",
                             comm.clique->number, ") ", label);
    if (is_over()) return;
    device_waits.push_back(text);
    while (!is_over() && !comm.aborted && !comm.clique->aborted) {
      changed.wait_for(lock, std::chrono::milliseconds(board ? 1 : 20));
      if (is_over() || fake_cuda::has_failed(comm.device)) break;
      if (clock_type::now() - progress > options.patience) {
        std::string report = "ranks are stalled:";
        for (auto const& [device, texts] : waits)
          for (auto const& one : texts) report += concat("\n  ", one);
        history.failures.push_back(report);
        last_error = report;
        comm.clique->aborted = true;
        note_progress();
      }
    }
    std::erase(device_waits, text);
    if (!is_over()) throw std::runtime_error("an NCCL operation was ended: " + label);
  }
};

/// Makes a rank's handle of a clique, or of a new clique of `size` ranks. The caller holds the
/// lock.
inline std::shared_ptr<clique> join(library& l, std::shared_ptr<clique> joined_clique, int size,
                                    int rank, ncclComm_t* out, bool blocking) {
  if (!joined_clique) {
    joined_clique = std::make_shared<clique>();
    joined_clique->size = size;
    joined_clique->number = l.next_clique++;
  }
  auto new_comm = std::make_unique<ncclComm>();
  new_comm->clique = joined_clique;
  new_comm->rank = rank;
  cudaGetDevice(&new_comm->device);
  new_comm->blocking = blocking;
  new_comm->in_progress = l.options.in_progress;
  *out = new_comm.get();
  l.comms[new_comm.get()] = std::move(new_comm);
  ++joined_clique->joined;
  ++l.live_communicators;
  ++l.history.communicators;
  l.note_progress();
  return joined_clique;
}

/// Success, or the error of a call on an unknown or ended communicator. The caller holds the lock.
inline ncclResult_t check_usable(library& l, ncclComm* comm, char const* call) {
  l.history.names.insert(call);
  auto const found = l.comms.find(comm);
  if (found == l.comms.end())
    return l.refuse(concat(call, ": no communicator"), ncclInvalidArgument);
  if (comm->aborted || comm->destroyed)
    return l.refuse(
        concat(call, ": the communicator was ", comm->aborted ? "aborted" : "destroyed"),
        ncclInvalidUsage);
  return ncclSuccess;
}

/// Announces a rank's call. NCCL connects ranks at the first call that needs the connection, which
/// is in progress until the ranks that it connects have made theirs: their hosts wait for each
/// other.
inline void announce_launch(ncclComm const& comm, launch const& kernel) {
  for (auto const& p : kernel.parts)
    if (!p.is_message())
      comm.clique->connected_ranks.insert(comm.rank);
    else if (p.operation == kind::send)
      comm.clique->ends.insert({comm.rank, p.peer, p.operation});
    else
      comm.clique->ends.insert({p.peer, comm.rank, p.operation});
}
/// Whether the ranks of all operations of a launch are connected.
inline bool is_connected(ncclComm const& comm, launch const& kernel) {
  auto& clique = *comm.clique;
  return std::ranges::all_of(kernel.parts, [&](primitive const& p) {
    if (!p.is_message())
      return clique.connected_ranks.size() == static_cast<std::size_t>(clique.size);
    auto const [from, to] =
        p.operation == kind::send ? std::pair(comm.rank, p.peer) : std::pair(p.peer, comm.rank);
    return clique.ends.contains({from, to, kind::send}) &&
           clique.ends.contains({from, to, kind::recv});
  });
}

/// Announces that a rank has finalised or aborted the communicator. The caller holds the lock.
inline void announce_end(library& l, ncclComm const& comm) {
  comm.clique->finished_ranks.insert(comm.rank);
  if (l.board) l.board->post(concat(comm.clique->name, ".over", comm.rank), {});
  l.note_progress();
}

/// NCCL frees a communicator when the ranks of its machine have released each other's memory:
/// ncclCommDestroy waits for their ncclCommFinalize, because it joins its proxy threads.
inline ncclResult_t wait_for_ends(library& l, std::unique_lock<std::mutex>& lock, ncclComm& comm) {
  int next = 0;
  auto const is_over = [&](int rank) {
    return l.board ? l.board->contains(concat(comm.clique->name, ".over", rank))
                   : comm.clique->finished_ranks.contains(rank);
  };
  try {
    l.wait(lock, comm, "waits in ncclCommDestroy for other ranks' ncclCommFinalize", [&] {
      while (next < comm.clique->size && is_over(next)) ++next;
      return next == comm.clique->size;
    });
  } catch (std::runtime_error const& problem) {
    if (!comm.clique->aborted) return l.refuse(problem.what());
  }
  return ncclSuccess;
}

}  // namespace fake_nccl
