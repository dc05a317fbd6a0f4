// What NCCL calls our element types and reductions.
#pragma once

#include <nccl.h>

#include <optional>

#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/reduction.hpp>

namespace parallel::nccl {

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
    default: fail("communication of ", name_of(type), " elements is not supported");
  }
}

/// The reduction of NCCL that does the same; none where there is none: `tree_sum` has an order and
/// `wide_sum` another type, and NCCL's largest or smallest of floats forgets a NaN that one rank
/// has.
[[nodiscard]] constexpr std::optional<ncclRedOp_t> reduction_of(dtype type, reduction how) {
  bool const integers =
      type == dtype::u8 || type == dtype::i32 || type == dtype::i64 || type == dtype::u64;
  if (how == reduction::sum) return ncclSum;
  if (how == reduction::wide_sum && result_type(type, how) == type) return ncclSum;
  if (!integers) return std::nullopt;
  return how == reduction::max ? ncclMax : how == reduction::min ? ncclMin : ncclSum;
}

}  // namespace parallel::nccl
