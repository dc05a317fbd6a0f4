// The NCCL calls of one operation, and the kernels that combine the gathered data where NCCL has no
// such reduction.
//
// Scratch memory of the stream, which runs one operation at a time: for a reduction that NCCL lacks
// size() times its input, for a barrier 16 bytes.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

#include <parallel/comm/cuda/data_mover.hpp>
#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/nccl/error.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/device/cuda/stream.hpp>

namespace parallel::nccl::detail {

/// The communicator, stream and scratch memory of an operation.
struct execution {
  ncclComm_t comm;
  int rank, size;
  cuda::stream& stream;
  std::byte* scratch = nullptr;
};

[[nodiscard]] inline bool lacks_reduction(operation const& op) {
  return combines(op.kind) && !reduction_of(op.type, op.combine);
}

/// Bytes of scratch, a multiple of 256.
[[nodiscard]] inline std::size_t scratch_of(operation const& op, int size) {
  std::size_t const bytes = op.kind == operation_kind::barrier ? 1
                            : lacks_reduction(op) ? op.bytes() * static_cast<std::size_t>(size)
                                                  : 0;
  return (bytes + 255) / 256 * 256;
}

[[nodiscard]] inline std::byte const* advance(void const* base, std::size_t bytes) {
  return static_cast<std::byte const*>(base) + bytes;
}
[[nodiscard]] inline std::byte* advance(void* base, std::size_t bytes) {
  return static_cast<std::byte*>(base) + bytes;
}

/// Gathers this rank's shard of every rank r, in rank order, in `out`.
[[nodiscard]] inline ncclResult_t exchange_shards(execution const& p, operation const& op,
                                                  void* out) {
  for (int r = 0; r < p.size; ++r) {
    auto const offset = static_cast<std::size_t>(r) * op.bytes();
    auto const sent =
        ncclSend(advance(op.in, offset), op.count, type_of(op.type), r, p.comm, p.stream.get());
    auto const received =
        ncclRecv(advance(out, offset), op.count, type_of(op.type), r, p.comm, p.stream.get());
    if (sent != ncclSuccess && sent != ncclInProgress) return sent;
    if (received != ncclSuccess && received != ncclInProgress) return received;
  }
  return ncclSuccess;
}

/// Enqueues the NCCL calls of `op`; called between ncclGroupStart and ncclGroupEnd.
[[nodiscard]] inline ncclResult_t enqueue_calls(execution const& p, operation const& op) {
  using enum operation_kind;
  cudaStream_t const s = p.stream.get();
  if (op.kind == barrier)
    return ncclAllReduce(p.scratch, p.scratch, 1, ncclUint8, ncclSum, p.comm, s);
  if (op.count == 0) return ncclSuccess;
  auto const type = type_of(op.type);
  auto const nccl_reduction = reduction_of(op.type, op.combine);
  switch (op.kind) {
    case all_reduce:
      if (nccl_reduction)
        return ncclAllReduce(op.in, op.out, op.count, type, *nccl_reduction, p.comm, s);
      return ncclAllGather(op.in, p.scratch, op.count, type, p.comm, s);
    case reduce_scatter:
      if (nccl_reduction)
        return ncclReduceScatter(op.in, op.out, op.count, type, *nccl_reduction, p.comm, s);
      return exchange_shards(p, op, p.scratch);
    case all_gather: return ncclAllGather(op.in, op.out, op.count, type, p.comm, s);
    case all_to_all: return exchange_shards(p, op, op.out);
    case broadcast: return ncclBroadcast(op.in, op.out, op.count, type, op.peer, p.comm, s);
    case send: return ncclSend(op.in, op.count, type, op.peer, p.comm, s);
    case recv: return ncclRecv(op.out, op.count, type, op.peer, p.comm, s);
    default: return ncclInvalidArgument;
  }
}

/// out = the combination of `sources[r]`, in rank order.
inline void combine(execution const& p, operation const& op,
                    std::vector<void const*> const& sources) {
  void* const out = op.out;
  parallel::detail::visit(op.type, [&]<class T>(std::type_identity<T>) {
    cuda::combine_on<T>(p.stream, op.combine, {&out, 1}, sources, op.count);
  });
}

/// Enqueues the kernel that completes the operation after its NCCL calls, if it needs one.
inline void finish_combination(execution const& p, operation const& op) {
  if (op.count == 0 || !lacks_reduction(op)) return;
  std::vector<void const*> sources;
  for (int r = 0; r < p.size; ++r)
    sources.push_back(p.scratch + static_cast<std::size_t>(r) * op.bytes());
  combine(p, op, sources);
}

/// Runs an operation of a communicator with one rank.
inline void run_single(execution const& p, operation const& op) {
  if (op.count == 0 || op.kind == operation_kind::barrier) return;
  if (op.out_type() != op.type) return combine(p, op, {op.in});
  if (op.in != op.out)
    cuda::check(
        cudaMemcpyAsync(op.out, op.in, op.bytes(), cudaMemcpyDeviceToDevice, p.stream.get()),
        "cudaMemcpyAsync");
}

}  // namespace parallel::nccl::detail
