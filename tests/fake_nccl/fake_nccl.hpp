// An NCCL that is only fake, for tests on the fake CUDA runtime: the library parallellm_fake_nccl
// defines the functions of nccl.h that include/parallel uses, and is as hard on ordering as NCCL.
//
// - An operation occupies one of finitely many kernel slots of its device from its start until all
//   its ranks have done their part; the operations of one communicator run one after the other, on
//   whatever streams. Whoever orders communicators differently on two ranks stands still, which is
//   found after a time and told with what every rank waits for.
// - Calls of a non-blocking communicator do nothing before it was asked often enough whether it is
//   still in progress: an event that is recorded too early is reached too early.
// - Kind, count, type, reduction and root must agree, memory must be alive on the rank's device and
//   overlap only as NCCL allows, messages must meet inside their group or on other communicators.
// - What is registered must be one living piece of memory of the communicator's device, and stay
//   alive until it is deregistered, once, before the communicator is destroyed and when none of its
//   operations is under way. An abort ends registrations. An exchange that reads and writes
//   registered memory on one rank does so on all.
// - A window is of memory that ncclMemAlloc gave, begins at a multiple of 4096 bytes of it, is in
// no
//   other window, has as many bytes on every rank, and is there when all ranks have come. What
//   ranks reach of each other's windows lies in the same place of the same window on all.
// - ncclMemFree waits for nothing.
// - Communicators are made inside a call of CUDA's; what is enqueued is in progress while another
//   thread's call of CUDA waits (machine_options::context_lock); an abort ends operations at first,
//   and returns when it has come to CUDA.
// - A communicator is in progress until all its ranks have come to a split of it; aborting it until
//   then crashes, as NCCL 2.28 to 2.30 do, where this rank has no color (NCCL_SPLIT_NOCOLOR).
// - Using a communicator that was aborted or destroyed is a failure; so is destroying one that has
//   not been finalised, or aborting several one after the other, outside of a group.
// - Ranks are threads of one process, or processes that meet in a folder (board.hpp), one rank
// each: there
//   every rank computes its own part of an exchange from all ranks' inputs, in the same order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

/// No other NCCL exports it.
extern "C" int const parallellm_fake_nccl_library;

namespace fake_nccl {

/// What the library does wrong, so that tests show that they would see it.
enum class fault {
  none,
  crossed_streams,     // operations run on another stream, which nobody waits for
  dropped_group,       // what stands in a group is launched one by one
  wrong_count,         // the last element is forgotten
  wrong_root,          // broadcasts come from the next rank
  asynchronous_error,  // communicators of more than one rank report one
  slow_abort,          // an abort asks CUDA before it ends the operations that it is for
};

struct options {
  /// Operations that a device can run at once.
  int slots = 16;
  /// Operations of a device start in the order in which its host enqueued them
  /// (NCCL_LAUNCH_ORDER_IMPLICIT=1).
  bool implicit_order = false;
  /// Whether the machine has windows (NCCL_WIN_ENABLE).
  bool windows = true;
  /// How often a non-blocking call is still in progress.
  int in_progress = 3;
  /// How long nothing may happen before ranks are said to stand still.
  std::chrono::milliseconds patience = std::chrono::seconds(20);
  fake_nccl::fault fault = fault::none;
  /// Ranks are processes, which meet in this folder; empty: threads of this one.
  std::filesystem::path between_processes = {};
};

/// Nothing has happened yet. Throws std::logic_error while communicators are alive.
void restart(options const& how = {});

struct record {
  std::vector<std::string> failures = {};
  std::size_t operations = 0;     // that ran to their end, all ranks' parts of one counted once
  std::size_t communicators = 0;  // made, on any rank
  std::size_t aborted = 0;
  std::map<int, std::size_t> of_size = {};  // communicators that were destroyed, not aborted
  std::size_t groups_of_aborts = 0;
  std::size_t registered = 0;  // pieces of memory, on any rank, that were, as windows or not
  std::size_t given = 0;       // by ncclMemAlloc
  /// Bytes that ranks read or wrote, and those that lay in registered memory, by function and type
  /// of elements: "ncclAllGather of f32".
  struct traffic {
    std::size_t bytes = 0;
    std::size_t registered = 0;
    std::size_t in_windows = 0;  // of those
  };
  std::map<std::string, traffic> exchanged = {};
  std::set<std::string> names = {};  // of the functions that were called
};
[[nodiscard]] record happened();

/// Communicators that are alive.
[[nodiscard]] std::size_t alive();

}  // namespace fake_nccl
