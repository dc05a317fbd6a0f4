// operation: a collective or a message as a value.
//
// The typed functions of a communicator (collectives.hpp) check their arguments and build one of
// these; a backend implements one function, `submit(stream, operation)`, and a decorator looks at
// the value, changes it or passes it on. So new backends and decorators are one function each, and
// what a rank is doing can be compared with what the others are doing (signature.hpp).
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <parallel/core/call_site.hpp>
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
  /// Several collectives as one call: operation::parts.
  group,
  /// An exchange of signatures that is no call's own (`has_submit`); never submitted.
  agreement
};

[[nodiscard]] constexpr std::string_view name_of(operation_kind kind) {
  constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                        "broadcast",  "barrier",        "send",       "recv",
                                        "split",      "group",          "agreement"};
  return names[static_cast<std::size_t>(kind)];
}

[[nodiscard]] constexpr bool is_message(operation_kind kind) {
  return kind == operation_kind::send || kind == operation_kind::recv;
}

[[nodiscard]] constexpr bool combines(operation_kind kind) {
  return kind == operation_kind::all_reduce || kind == operation_kind::reduce_scatter;
}

struct signature;

/// One rank's part in a collective or message. Pointers are borrowed until it has run.
struct operation {
  operation_kind kind = operation_kind::barrier;
  dtype type = dtype::u8;
  reduction combine = reduction::sum;
  /// Root of a broadcast, the other side of a send or recv; otherwise -1.
  int peer = -1;
  int tag = 0;
  /// Elements: of one shard in reduce_scatter, all_gather and all_to_all, else of the whole span.
  std::size_t count = 0;
  /// What is read: `count` elements, in reduce_scatter and all_to_all `size()` times as many.
  void const* in = nullptr;
  /// What is written: `count` elements, in all_gather and all_to_all `size()` times as many. May
  /// equal `in`, or the rank's own shard of it, but may not overlap it in another way (in
  /// all_to_all in none).
  void* out = nullptr;
  call_site where = {};
  /// Where bytes that leave this rank's memory for another's are counted as they go; null: nowhere.
  std::atomic<std::uint64_t>* sent = nullptr;
  /// Of a group, whose `count` is that of their bytes: collectives, none of which reads what
  /// another one writes.
  std::shared_ptr<std::vector<operation> const> parts = nullptr;
  /// In messages this operation is called so; null: what it is.
  std::shared_ptr<signature const> on_behalf_of = nullptr;

  /// Bytes of `count` elements.
  [[nodiscard]] std::size_t bytes() const { return count * size_of(type); }
  /// Of what is written.
  [[nodiscard]] dtype out_type() const {
    return combines(kind) ? result_type(type, combine) : type;
  }
};

/// Calls f(part) for the parts of a group in their order, else f(op).
template <class F>
void for_each_part(operation const& op, F&& f) {
  if (op.kind != operation_kind::group) return f(op);
  for (operation const& part : *op.parts) f(part);
}

}  // namespace parallel
