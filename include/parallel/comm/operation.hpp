// operation: a collective or a message as a value.
//
// The typed functions of a communicator (collectives.hpp) check their arguments and build an
// operation; a backend implements one function, `submit(stream, operation)`, and a decorator reads
// the operation, changes it or forwards it. New backends and decorators are therefore one function
// each, and the operations of different ranks can be compared (signature.hpp).
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/reduction.hpp>

namespace parallel {

/// Element types that communicators move and combine.
template <class T>
concept transferable =
    std::same_as<T, std::uint8_t> || std::same_as<T, std::byte> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> || std::same_as<T, bf16> ||
    std::same_as<T, float> || std::same_as<T, double>;

/// The collectives and messages, and the exchanges that prepare them.
enum class operation_kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  barrier,
  send,
  recv,
  /// The rendezvous of `split`; never submitted.
  split,
  /// Several collectives as one call: operation::members.
  group,
  /// A separate exchange of signatures (`has_submit`); never submitted.
  agreement
};

[[nodiscard]] constexpr std::string_view to_string(operation_kind kind) {
  constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                        "broadcast",  "barrier",        "send",       "recv",
                                        "split",      "group",          "agreement"};
  return names[static_cast<std::size_t>(kind)];
}

/// Whether the operation is between two ranks.
[[nodiscard]] constexpr bool is_message(operation_kind kind) {
  return kind == operation_kind::send || kind == operation_kind::recv;
}

/// Whether the operation combines values by a reduction.
[[nodiscard]] constexpr bool combines(operation_kind kind) {
  return kind == operation_kind::all_reduce || kind == operation_kind::reduce_scatter;
}

struct signature;

/// One rank's arguments of a collective or message. The pointers are borrowed until it has run.
struct operation {
  operation_kind kind = operation_kind::barrier;
  dtype type = dtype::u8;
  reduction combine = reduction::sum;
  /// Root of a broadcast, the other rank of a send or recv; otherwise -1.
  int peer = -1;
  int tag = 0;
  /// Elements: of one shard in reduce_scatter, all_gather and all_to_all, else of the whole span.
  std::size_t count = 0;
  /// The input: `count` elements, in reduce_scatter and all_to_all `size()` times as many.
  void const* in = nullptr;
  /// The output: `count` elements, in all_gather and all_to_all `size()` times as many. May equal
  /// `in`, or the rank's own shard of it, but may not overlap it in another way (in all_to_all not
  /// at all).
  void* out = nullptr;
  call_site caller = {};
  /// Counts the bytes that leave this rank's memory for another rank's; null: nobody counts.
  std::atomic<std::uint64_t>* sent = nullptr;
  /// The collectives of a group, none of which reads what another one writes. The `count` of the
  /// group is the sum of their bytes.
  std::shared_ptr<std::vector<operation> const> members = nullptr;
  /// The signature by which error messages describe this operation; null: its own.
  std::shared_ptr<signature const> described_as = nullptr;

  [[nodiscard]] std::size_t bytes() const { return count * size_of(type); }
  /// The element type of the output.
  [[nodiscard]] dtype out_type() const {
    return combines(kind) ? result_type(type, combine) : type;
  }
};

/// Calls f(member) for the members of a group in order; for other operations f(op).
template <class F>
void for_each_member(operation const& op, F&& f) {
  if (op.kind != operation_kind::group) return f(op);
  for (operation const& member : *op.members) f(member);
}

}  // namespace parallel
