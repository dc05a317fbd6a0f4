// recorded: a flight recorder before a communicator of the host: it notes every call.
//
// Parts (split) write to the recorder of the whole. Cost: about a microsecond a call
// (bench/calls.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/flight_recorder.hpp>
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
    recorder_->joined(group_);
  }

  [[nodiscard]] flight_recorder const& recorder() const { return *recorder_; }

  /// Enqueues `op` between two notes. A call that fails stays "running". The parts of a group are
  /// calls of their own.
  request_type submit(stream_type& s, operation const& op) {
    operation counted = op;
    noted_calls const notes(recorder_, *this, this->name(), group_, counted);
    s.enqueue([notes] { notes.now(call_state::running); });
    auto inner = inner_.submit(s, counted);
    auto from = inner.from();
    return detail::enqueue(s, std::move(from), op,
                           [notes, inner = std::move(inner)] { notes.now(call_state::done); });
  }

  /// An agreement, a call from here on.
  [[nodiscard]] signature_exchange open_exchange(stream_type const* on = nullptr) {
    operation op{.kind = operation_kind::agreement};
    noted_calls const notes(recorder_, *this, this->name(), group_, op);
    return [notes, inner = inner_.open_exchange(on)](signature const& mine) {
      notes.now(call_state::running);
      auto all = inner(mine);
      notes.now(call_state::done);
      return all;
    };
  }

  /// See `has_split`. A call like any other, that runs at once.
  [[nodiscard]] recorded split(coloring const& by,
                               std::string name = {}) requires has_split<Inner> {
    operation op{.kind = operation_kind::split, .peer = by.of(this->rank())};
    noted_calls const notes(recorder_, *this, this->name(), group_, op);
    notes.now(call_state::running);
    recorded part(inner_.split(by, std::move(name)), recorder_);
    notes.now(call_state::done);
    return part;
  }

 private:
  using base::inner_;
  std::shared_ptr<flight_recorder> recorder_;
  std::uint64_t group_;
};

}  // namespace parallel
