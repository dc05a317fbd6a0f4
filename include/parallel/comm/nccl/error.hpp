// NCCL's results as parallel::error, and its names of our element types and reductions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nccl.h>

#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/reduction.hpp>

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

/// Throws `error` for types that communicators do not carry.
[[nodiscard]] constexpr ncclDataType_t type_of(dtype type) {
  switch (type) {
    case dtype::u8: return ncclUint8;
    case dtype::i32: return ncclInt32;
    case dtype::i64: return ncclInt64;
    case dtype::u64: return ncclUint64;
    case dtype::bf16: return ncclBfloat16;
    case dtype::f32: return ncclFloat32;
    case dtype::f64: return ncclFloat64;
    default: fail("communication of ", to_string(type), " elements is not supported");
  }
}

/// NCCL's reduction with the same result; empty if there is none: `tree_sum` has its
/// own order and `wide_sum` another type, and NCCL's max and min of floats lose a NaN of one rank.
[[nodiscard]] constexpr std::optional<ncclRedOp_t> reduction_of(dtype type, reduction op) {
  bool const integers =
      type == dtype::u8 || type == dtype::i32 || type == dtype::i64 || type == dtype::u64;
  if (op == reduction::sum) return ncclSum;
  if (op == reduction::wide_sum && result_type(type, op) == type) return ncclSum;
  if (!integers) return std::nullopt;
  return op == reduction::max ? ncclMax : op == reduction::min ? ncclMin : ncclSum;
}

}  // namespace parallel::nccl
