// faulty: breaks one call on purpose, to prove that a test suite notices.
//
// A test suite is effective when for every k some test fails under `faulty` with fault k (mutation
// testing). The real operation always runs, on scratch memory where needed, so that the ranks stay
// in step and the calls of a single rank can be broken. Barriers are not broken (their k changes
// nothing). Sub-communicators (split) share the count of calls, so k runs over all axes of a mesh.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/forwarding.hpp>

namespace parallel {

/// The change to an operation's results. `drop`: in-place results keep this rank's own values, and
/// other outputs (also the data that a send delivers) are filled with bytes 0xff, which are NaN or
/// -1; a gather keeps its own shard. `twice`: results are multiplied by 2. `divide`: results are
/// divided by the number of ranks.
enum class fault_kind : std::uint8_t { drop, twice, divide };

/// The call that is broken, and how.
struct fault {
  static constexpr std::uint64_t no_call = std::numeric_limits<std::uint64_t>::max();
  /// The number of the broken call of this rank's communicator, from 0, messages and barriers
  /// included.
  std::uint64_t call = no_call;
  fault_kind kind = fault_kind::drop;
};

template <has_submit Inner>
requires task_stream<typename Inner::stream_type>
class faulty : public forwarding<faulty<Inner>, Inner, typename Inner::stream_type> {
  using base = forwarding<faulty, Inner, typename Inner::stream_type>;

 public:
  using stream_type = typename Inner::stream_type;
  using request_type = typename Inner::request_type;
  using base::rank;
  using base::size;

  /// Owns `inner`.
  explicit faulty(Inner inner, fault injected)
      : faulty(std::move(inner), injected, std::make_shared<std::uint64_t>(0)) {}

  faulty(faulty&&) = default;
  faulty& operator=(faulty&&) = default;

  /// The number of calls so far, which is the number of different faults.
  [[nodiscard]] std::uint64_t calls() const { return *calls_; }

  /// Enqueues `op`, broken if it is the chosen call.
  request_type submit(stream_type& s, operation const& op) {
    if (op.kind == operation_kind::group) {  // each member counts as a call
      request_type group_request;
      for_each_member(op, [&](operation const& member) {
        group_request =
            submit(s, member).keep(std::make_shared<request_type>(std::move(group_request)));
      });
      return group_request;
    }
    if ((*calls_)++ != fault_.call || op.kind == operation_kind::barrier)
      return inner_.submit(s, op);
    if (op.kind == operation_kind::send) return broken_send(s, op);
    return fault_.kind == fault_kind::drop ? dropped(s, op) : scaled(s, op);
  }

  [[nodiscard]] signature_exchange open_exchange(stream_type const* s = nullptr) {
    return inner_.open_exchange(s);
  }

  /// See `has_split`.
  [[nodiscard]] faulty split(coloring const& colors,
                             std::string name = {}) requires has_split<Inner> {
    return faulty(inner_.split(colors, std::move(name)), fault_, calls_);
  }

 private:
  faulty(Inner inner, fault injected, std::shared_ptr<std::uint64_t> calls)
      : base(std::move(inner)), fault_(injected), calls_(std::move(calls)) {}

  using scratch = std::vector<std::byte>;

  [[nodiscard]] std::size_t output_count(operation const& op) const {
    bool const whole =
        op.kind == operation_kind::all_gather || op.kind == operation_kind::all_to_all;
    return whole ? op.count * static_cast<std::size_t>(size()) : op.count;
  }

  static void scale(dtype type, void* data, std::size_t count, fault_kind kind, int ranks) {
    detail::visit(type, [&]<class T>(std::type_identity<T>) {
      using wide = accumulate_t<T>;
      for (T& x : std::span(static_cast<T*>(data), count)) {
        auto const value = static_cast<wide>(x);
        // Twice is a sum in the arithmetic of reductions: integers wrap.
        x = static_cast<T>(kind == fault_kind::twice ? detail::add{}(value, value)
                                                     : value / static_cast<wide>(ranks));
      }
    });
  }

  request_type broken_send(stream_type& s, operation const& op) {
    auto const copy = std::make_shared<scratch>(op.bytes());
    s.enqueue([op, copy, kind = fault_.kind, ranks = size()] {
      if (copy->empty()) return;
      if (kind == fault_kind::drop) {
        std::fill(copy->begin(), copy->end(), std::byte{0xff});
      } else {
        std::memcpy(copy->data(), op.in, copy->size());
        scale(op.type, copy->data(), op.count, kind, ranks);
      }
    });
    operation sent = op;
    sent.in = copy->data();
    return inner_.submit(s, sent).keep(copy);
  }

  request_type dropped(stream_type& s, operation const& op) {
    std::size_t const bytes = output_count(op) * size_of(op.out_type());
    auto const copy = std::make_shared<scratch>(bytes);
    operation diverted = op;
    diverted.out = copy->data();
    bool const in_place =
        op.kind == operation_kind::all_reduce || op.kind == operation_kind::broadcast;
    if (in_place) {
      diverted.in = copy->data();
      s.enqueue([op, copy] {
        if (!copy->empty()) std::memcpy(copy->data(), op.in, copy->size());
      });
    }
    auto inner = std::make_shared<request_type>(inner_.submit(s, diverted).keep(copy));
    return detail::enqueue(
        s, inner->origin(), op, [op, bytes, in_place, copy, inner, rank = rank()] {
          if (in_place || bytes == 0) return;
          auto* const output = static_cast<std::byte*>(op.out);
          auto* const own_shard = output + static_cast<std::size_t>(rank) * op.bytes();
          scratch const own_values(own_shard == op.in ? own_shard : output,
                                   own_shard == op.in ? own_shard + op.bytes() : output);
          std::memset(output, 0xff, bytes);
          std::copy(own_values.begin(), own_values.end(), own_shard);
        });
  }

  request_type scaled(stream_type& s, operation const& op) {
    auto inner = std::make_shared<request_type>(inner_.submit(s, op));
    bool const received = op.kind != operation_kind::broadcast || op.peer != rank();
    return detail::enqueue(
        s, inner->origin(), op,
        [op, inner, received, count = output_count(op), kind = fault_.kind, ranks = size()] {
          if (received) scale(op.out_type(), op.out, count, kind, ranks);
        });
  }

  using base::inner_;
  fault fault_;
  std::shared_ptr<std::uint64_t> calls_;  // shared with the sub-communicators
};

}  // namespace parallel
