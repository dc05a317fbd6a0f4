// The fake NCCL's memory and registrations. See fake_nccl.hpp.
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <string>

#include "fake_cuda/runtime.hpp"
#include "fake_nccl/exchange.hpp"
#include "fake_nccl/library.hpp"

using namespace fake_nccl;

namespace {

/// Success, or the error of a registration of either kind.
ncclResult_t check_registrable(library& l, ncclComm const& comm, char const* call,
                               void const* memory, std::size_t bytes) {
  if (comm.in_progress > 0 || comm.pending_window)
    return l.refuse(concat(call, ": the communicator is still in progress"));
  try {
    if (fake_cuda::device_of(memory) != comm.device)
      throw std::runtime_error("the memory is not of the communicator's device");
    fake_cuda::require_access(comm.device, memory, bytes, "it");
  } catch (std::runtime_error const& problem) {
    return l.refuse(concat(call, ": ", problem.what()), ncclInvalidArgument);
  }
  return ncclSuccess;
}

ncclResult_t deregister(library& l, ncclComm& comm, char const* call, void* handle,
                        bool is_window) {
  auto const found = comm.registered.find(handle);
  if (found == comm.registered.end() || (found->second.window > 0) != is_window)
    return l.refuse(concat(call, ": nothing of the communicator is registered so"));
  if (comm.finished < comm.launched || !comm.pending_launches.empty())
    static_cast<void>(l.refuse(concat(call, ": operations of the communicator are under way")));
  check_registered_memory(l, comm, found->second.range);
  comm.registered.erase(found);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t bytes, void** handle) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = check_usable(l, comm, "ncclCommRegister"); status != ncclSuccess)
    return status;
  if (auto const status = check_registrable(l, *comm, "ncclCommRegister", memory, bytes);
      status != ncclSuccess)
    return status;
  *handle = reinterpret_cast<void*>(++l.next_registration);
  comm->registered[*handle] = {{static_cast<std::byte const*>(memory), bytes}};
  ++l.history.registered;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  if (auto const status = check_usable(l, comm, "ncclCommDeregister"); status != ncclSuccess)
    return status;
  return deregister(l, *comm, "ncclCommDeregister", handle, false);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes,
                                    ncclWindow_t* window, int flags) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  char const* const call = "ncclCommWindowRegister";
  if (auto const status = check_usable(l, comm, call); status != ncclSuccess) return status;
  if (!l.options.windows) return ncclSuccess;
  if (auto const status = check_registrable(l, *comm, call, memory, bytes); status != ncclSuccess)
    return status;
  auto const* const from = static_cast<std::byte const*>(memory);
  auto const allocation = std::ranges::find_if(l.allocations, [&](auto const& one) {
    auto const* const begin = static_cast<std::byte const*>(one.first);
    return from >= begin && from + bytes <= begin + one.second;
  });
  if (allocation == l.allocations.end())
    return l.refuse(concat(call, ": the memory is not one piece that ncclMemAlloc gave"));
  if ((from - static_cast<std::byte const*>(allocation->first)) % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
    return l.refuse(concat(call, ": the memory does not begin at a multiple of 4096 bytes"),
                    ncclInvalidArgument);
  for (auto const& [handle, one] : comm->registered)
    if (one.window > 0 && from < one.range.data() + one.range.size() &&
        one.range.data() < from + bytes)
      return l.refuse(concat(call, ": the memory is in another window of the communicator"));
  if (flags != NCCL_WIN_COLL_SYMMETRIC) return l.refuse(concat(call, ": not symmetric"));
  comm->pending_window = pending_window{window, {{from, bytes}, ++comm->windows}};
  if (l.board)
    l.board->post(concat(comm->clique->name, ".window", comm->windows, ".rank", comm->rank),
                  std::to_string(bytes));
  else
    comm->clique->windows[comm->windows].push_back(bytes);
  comm->in_progress = l.options.in_progress;
  return ncclInProgress;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  char const* const call = "ncclCommWindowDeregister";
  if (auto const status = check_usable(l, comm, call); status != ncclSuccess) return status;
  return deregister(l, *comm, call, window, true);
}

ncclResult_t ncclMemAlloc(void** out, std::size_t bytes) {
  auto const status = cudaMalloc(out, bytes);
  if (status != cudaSuccess) return ncclUnhandledCudaError;
  auto& l = library::get();
  std::scoped_lock const lock(l.mutex);
  l.allocations[*out] = bytes;
  ++l.history.allocated;
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* memory) {
  auto& l = library::get();
  {
    std::scoped_lock const lock(l.mutex);
    if (l.allocations.erase(memory) == 0)
      return l.refuse("ncclMemFree: ncclMemAlloc did not give it", ncclInvalidArgument);
  }
  fake_cuda::unmap(memory);
  return ncclSuccess;
}

}  // extern "C"
