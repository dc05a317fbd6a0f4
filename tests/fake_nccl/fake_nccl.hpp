// A fake NCCL for tests on the fake CUDA runtime: the library parallellm_fake_nccl defines the
// functions of nccl.h that include/parallel uses, and is as strict about ordering as NCCL.
//
// - An operation occupies one of finitely many kernel slots of its device from its start until all
//   its ranks have done their part. The operations of one communicator run one after the other, on
//   any streams. Two ranks that order communicators differently deadlock; the library detects this
//   after a time and reports what every rank waits for.
// - Calls on a non-blocking communicator do nothing until the caller has polled often enough
// whether
//   it is still in progress: an event that is recorded too early happens too early.
// - Kind, count, type, reduction and root must agree. Memory must be alive on the rank's device and
//   overlap only as NCCL allows. Messages must match inside their group or on other communicators.
// - Registered memory must be one living allocation of the communicator's device, and stay alive
//   until it is deregistered. It is deregistered once, before the communicator is destroyed and
//   while none of its operations is under way. An abort ends registrations. An exchange that uses
//   registered memory on one rank does so on all ranks.
// - A window lies in memory from ncclMemAlloc, at a multiple of 4096 bytes from its begin, and in
// no
//   other window. It has the same size on every rank, and exists when all ranks have asked for it.
//   Where ranks access each other's windows, the memory has the same offset in the same window on
//   all ranks.
// - ncclMemFree does not wait.
// - Communicators are made inside a CUDA call. Enqueued operations stay in progress while another
//   thread's CUDA call waits (machine_options::context_lock). An abort ends operations first, and
//   then waits for CUDA before it returns.
// - A communicator is in progress until all its ranks have called a split of it. Aborting it before
//   crashes on ranks without a color (NCCL_SPLIT_NOCOLOR), as NCCL 2.28 to 2.30 do.
// - It is a failure to use a communicator that was aborted or destroyed, to destroy one that was
// not
//   finalised, or to abort several communicators one after the other, outside of a group.
// - Ranks are threads of one process, or processes of one rank each that meet in a folder
//   (board.hpp). There every rank computes its own part of an exchange from all ranks' inputs, in
//   the same order.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

/// The symbol that only the fake NCCL exports.
extern "C" int const parallellm_fake_nccl_library;

namespace fake_nccl {

/// A fault of the library, by which tests show that they would notice it.
enum class fault {
  none,
  crossed_streams,     // operations run on another stream, for which nothing waits
  dropped_group,       // the operations of a group are launched one by one
  wrong_count,         // the last element is not transferred
  wrong_root,          // broadcasts come from the rank after the root
  asynchronous_error,  // communicators of more than one rank report an asynchronous error
  slow_abort,          // an abort waits for CUDA before it ends the operations
};

struct options {
  /// The number of operations that a device can run at once.
  int slots = 16;
  /// Operations of a device start in the order in which its host enqueued them
  /// (NCCL_LAUNCH_ORDER_IMPLICIT=1).
  bool implicit_order = false;
  /// Whether the machine has windows (NCCL_WIN_ENABLE).
  bool windows = true;
  /// The number of polls that report a non-blocking call as still in progress.
  int in_progress = 3;
  /// The time without any progress after which a deadlock is reported.
  std::chrono::milliseconds patience = std::chrono::seconds(20);
  fake_nccl::fault fault = fault::none;
  /// The folder in which ranks that are processes meet; empty: ranks are threads of this process.
  std::filesystem::path process_folder = {};
};

/// Resets the library and its record. Throws std::logic_error while communicators are alive.
void restart(options const& new_options = {});

struct record {
  std::vector<std::string> failures = {};
  std::size_t operations = 0;     // operations that completed, counted once for all ranks
  std::size_t communicators = 0;  // communicators that were made, on any rank
  std::size_t aborted = 0;
  std::map<int, std::size_t> destroyed_by_size = {};  // destroyed, not aborted, communicators
  std::size_t groups_of_aborts = 0;
  std::size_t registered = 0;  // registrations on any rank, as windows or not
  std::size_t allocated = 0;   // allocations by ncclMemAlloc
  /// Bytes that ranks read or wrote, and how many of them lay in registered memory, by function and
  /// element type: "ncclAllGather of f32".
  struct traffic {
    std::size_t bytes = 0;
    std::size_t registered = 0;
    std::size_t in_windows = 0;  // bytes of `registered` that lay in windows
  };
  std::map<std::string, traffic> exchanged = {};
  std::set<std::string> names = {};  // names of the functions that were called
};
[[nodiscard]] record history();

/// The number of communicators that are alive.
[[nodiscard]] std::size_t live_communicators();

}  // namespace fake_nccl
