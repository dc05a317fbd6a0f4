// recorded: a decorator that notes every call of a host communicator in a flight recorder.
//
// Sub-communicators (split) write to the same recorder. Cost: about a microsecond a call
// (bench/calls.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/comm/forwarding.hpp>

namespace parallel {

template <has_submit Inner>
requires task_stream<typename Inner::stream_type>
class recorded : public forwarding<recorded<Inner>, Inner, typename Inner::stream_type> {
  using base = forwarding<recorded, Inner, typename Inner::stream_type>;

 public:
  using stream_type = typename Inner::stream_type;
  using request_type = typename Inner::request_type;
  using base::size;
  using base::world_rank;

  /// Owns `inner`.
  recorded(Inner inner, std::shared_ptr<flight_recorder> recorder)
      : base(std::move(inner)),
        recorder_(std::move(recorder)),
        group_(group_number(this->name(), size(), [this](int rank) { return world_rank(rank); })) {
    recorder_->join_group(group_);
  }

  [[nodiscard]] flight_recorder const& recorder() const { return *recorder_; }

  /// Enqueues `op` between two notes, of its begin and its end. A call that fails stays "running".
  /// The members of a group are noted as separate calls.
  request_type submit(stream_type& s, operation const& op) {
    operation counted = op;
    call_notes const notes(recorder_, *this, this->name(), group_, counted);
    s.enqueue([notes] { notes.set_state(call_state::running); });
    auto inner = inner_.submit(s, counted);
    auto origin = inner.origin();
    return detail::enqueue(s, std::move(origin), op, [notes, inner = std::move(inner)] {
      notes.set_state(call_state::completed);
    });
  }

  /// An agreement, which is noted as a call from now on.
  [[nodiscard]] signature_exchange open_exchange(stream_type const* s = nullptr) {
    operation op{.kind = operation_kind::agreement};
    call_notes const notes(recorder_, *this, this->name(), group_, op);
    return [notes, inner = inner_.open_exchange(s)](signature const& local) {
      notes.set_state(call_state::running);
      auto signatures = inner(local);
      notes.set_state(call_state::completed);
      return signatures;
    };
  }

  /// See `has_split`. It is noted as a call that begins immediately.
  [[nodiscard]] recorded split(coloring const& colors,
                               std::string name = {}) requires has_split<Inner> {
    operation op{.kind = operation_kind::split, .peer = colors.color_of(this->rank())};
    call_notes const notes(recorder_, *this, this->name(), group_, op);
    notes.set_state(call_state::running);
    recorded sub_communicator(inner_.split(colors, std::move(name)), recorder_);
    notes.set_state(call_state::completed);
    return sub_communicator;
  }

 private:
  using base::inner_;
  std::shared_ptr<flight_recorder> recorder_;
  std::uint64_t group_;
};

}  // namespace parallel
