// The NCCL calls of one operation, and the kernels that combine what they brought where NCCL has no
// such reduction.
//
// Scratch: of a reduction that NCCL lacks size() times what it reads, of a barrier 16 bytes; of the
// stream, which runs one operation at a time.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <vector>

#include <parallel/comm/cuda/data_mover.hpp>
#include <parallel/comm/detail/visit.hpp>
#include <parallel/comm/nccl/types.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/device/cuda/stream.hpp>

namespace parallel::nccl::detail {

/// Where an operation runs.
struct place {
  ncclComm_t comm;
  int rank, size;
  cuda::stream& on;
  std::byte* scratch = nullptr;
};

[[nodiscard]] inline bool is_lacking(operation const& op) {
  return combines(op.kind) && !reduction_of(op.type, op.combine);
}

/// Bytes of scratch, in a multiple of 256.
[[nodiscard]] inline std::size_t scratch_of(operation const& op, int size) {
  std::size_t const bytes = op.kind == operation_kind::barrier ? 1
                            : is_lacking(op) ? op.bytes() * static_cast<std::size_t>(size)
                                             : 0;
  return (bytes + 255) / 256 * 256;
}

[[nodiscard]] inline std::byte const* at(void const* base, std::size_t bytes) {
  return static_cast<std::byte const*>(base) + bytes;
}
[[nodiscard]] inline std::byte* at(void* base, std::size_t bytes) {
  return static_cast<std::byte*>(base) + bytes;
}

/// The r-th shard of every rank r, in the order of ranks, as `out`.
[[nodiscard]] inline ncclResult_t exchange_shards(place const& p, operation const& op, void* out) {
  for (int r = 0; r < p.size; ++r) {
    auto const offset = static_cast<std::size_t>(r) * op.bytes();
    auto const sent =
        ncclSend(at(op.in, offset), op.count, type_of(op.type), r, p.comm, p.on.get());
    auto const received =
        ncclRecv(at(out, offset), op.count, type_of(op.type), r, p.comm, p.on.get());
    if (sent != ncclSuccess && sent != ncclInProgress) return sent;
    if (received != ncclSuccess && received != ncclInProgress) return received;
  }
  return ncclSuccess;
}

/// Between ncclGroupStart and ncclGroupEnd.
[[nodiscard]] inline ncclResult_t call(place const& p, operation const& op) {
  using enum operation_kind;
  cudaStream_t const s = p.on.get();
  if (op.kind == barrier)
    return ncclAllReduce(p.scratch, p.scratch, 1, ncclUint8, ncclSum, p.comm, s);
  if (op.count == 0) return ncclSuccess;
  auto const type = type_of(op.type);
  auto const how = reduction_of(op.type, op.combine);
  switch (op.kind) {
    case all_reduce:
      if (how) return ncclAllReduce(op.in, op.out, op.count, type, *how, p.comm, s);
      return ncclAllGather(op.in, p.scratch, op.count, type, p.comm, s);
    case reduce_scatter:
      if (how) return ncclReduceScatter(op.in, op.out, op.count, type, *how, p.comm, s);
      return exchange_shards(p, op, p.scratch);
    case all_gather: return ncclAllGather(op.in, op.out, op.count, type, p.comm, s);
    case all_to_all: return exchange_shards(p, op, op.out);
    case broadcast: return ncclBroadcast(op.in, op.out, op.count, type, op.peer, p.comm, s);
    case send: return ncclSend(op.in, op.count, type, op.peer, p.comm, s);
    case recv: return ncclRecv(op.out, op.count, type, op.peer, p.comm, s);
    default: return ncclInvalidArgument;
  }
}

/// out = the combination of `from[r]`, in the order of ranks.
inline void combine(place const& p, operation const& op, std::vector<void const*> const& from) {
  void* const out = op.out;
  parallel::detail::visit(op.type, [&]<class T>(std::type_identity<T>) {
    cuda::combine_on<T>(p.on, op.combine, {&out, 1}, from, op.count);
  });
}

/// Enqueued behind the calls: what is left to do.
inline void finish(place const& p, operation const& op) {
  if (op.count == 0 || !is_lacking(op)) return;
  std::vector<void const*> from;
  for (int r = 0; r < p.size; ++r)
    from.push_back(p.scratch + static_cast<std::size_t>(r) * op.bytes());
  combine(p, op, from);
}

/// All of an operation of one rank.
inline void alone(place const& p, operation const& op) {
  if (op.count == 0 || op.kind == operation_kind::barrier) return;
  if (op.out_type() != op.type) return combine(p, op, {op.in});
  if (op.in != op.out)
    cuda::check(cudaMemcpyAsync(op.out, op.in, op.bytes(), cudaMemcpyDeviceToDevice, p.on.get()),
                "cudaMemcpyAsync");
}

}  // namespace parallel::nccl::detail
