// NCCL's results as parallel::error.
#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include <parallel/core/call_site.hpp>
#include <parallel/core/error.hpp>

namespace parallel::nccl {

/// "2.28.9", the version of the library that is linked.
[[nodiscard]] inline std::string version() {
  int code = 0;
  static_cast<void>(ncclGetVersion(&code));
  return concat(code / 10000, '.', code / 100 % 100, '.', code % 100);
}

/// Throws `error` with NCCL's message when `result` is a failure; a call that is still in progress
/// has not failed. The message is the last one of `comm`, or without a communicator if it is null.
inline void check(ncclResult_t result, std::string_view call, ncclComm_t comm = nullptr,
                  call_site caller = call_site::current()) {
  if (result == ncclSuccess || result == ncclInProgress) [[likely]]
    return;
  char const* const words = ncclGetLastError(comm);
  std::string_view const message = words == nullptr ? std::string_view() : std::string_view(words);
  fail("NCCL ", version(), ": ", call, " failed: ", ncclGetErrorString(result),
       message.empty() ? "" : "; ", message,
       result == ncclUnhandledCudaError ? "; it needs one GPU for each rank (nvidia-smi "
                                          "shows them)"
                                        : "",
       call == "ncclCommWindowRegister" ? "; NCCL_WIN_ENABLE=0 does without windows" : "", " (",
       caller, ")");
}

}  // namespace parallel::nccl
