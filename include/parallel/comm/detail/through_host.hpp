// through_host: an exchange of memory that the CPU cannot reach, by a backend that sends only what
// it can: copied to the host, exchanged, and copied back.
#pragma once

#include <cstddef>
#include <memory>

#include <parallel/comm/detail/moving.hpp>
#include <parallel/comm/operation.hpp>

namespace parallel::detail {

/// Bytes of an operation's input and output in a group of `ranks`.
struct operation_bytes {
  std::size_t in = 0;
  std::size_t out = 0;
};
[[nodiscard]] inline operation_bytes bytes_of(operation const& op, std::size_t ranks) {
  std::size_t const one = op.bytes();
  switch (op.kind) {
    case operation_kind::all_reduce:
    case operation_kind::broadcast: return {one, one};
    case operation_kind::reduce_scatter: return {ranks * one, op.count * size_of(op.out_type())};
    case operation_kind::all_gather: return {one, ranks * one};
    case operation_kind::all_to_all: return {ranks * one, ranks * one};
    case operation_kind::send: return {one, 0};
    case operation_kind::recv: return {0, one};
    case operation_kind::barrier:
    case operation_kind::split:
    case operation_kind::group: break;
  }
  return {};
}

/// Calls run(op), or with a mover run(the same operation on copies in host memory).
template <class Run>
void through_host(moving const& mover, operation op, int ranks, Run&& run) {
  if (mover.by_the_cpu()) return run(op);
  auto const size = bytes_of(op, static_cast<std::size_t>(ranks));
  auto const in = std::make_unique_for_overwrite<std::byte[]>(size.in);
  auto const out = std::make_unique_for_overwrite<std::byte[]>(size.out);
  void* const result = op.out;
  mover.copy(in.get(), op.in, size.in);
  mover.finish();
  op.in = in.get();
  op.out = out.get();
  run(op);
  mover.copy(result, out.get(), size.out);
  mover.finish();
}

}  // namespace parallel::detail
