// p2p_streams: the streams on which a rank's pipeline messages run, one for each peer and
// direction.
//
// Sends and receives wait for their other end without holding up the computation or each other. The
// streams are made when a plan first needs them and live as long as this object: make one for a
// training run, not one for a step.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <parallel/comm/concepts.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/pipeline/plan.hpp>

namespace parallel::pipeline {

/// `Comm` connects the ranks of the pipeline axis, in its order.
template <communicator Comm>
class p2p_streams {
 public:
  using stream_type = typename Comm::stream_type;

  using maker = std::function<std::shared_ptr<stream_type>()>;

  /// `comm` must outlive it, and carries nothing else while a plan is executed. `make` makes a
  /// stream, for memory that needs streams of its own.
  explicit p2p_streams(
      Comm& comm, maker make = [] { return std::make_shared<stream_type>(); })
      : comm_(comm), make_(std::move(make)) {}

  [[nodiscard]] Comm& comm() { return comm_; }

  /// The stream of the messages to or from a peer.
  [[nodiscard]] stream_type& of(int peer, bool sends) {
    auto& found = streams_[{peer, sends}];
    if (!found) found = make_();
    return *found;
  }

  /// Enqueues a message between the edges of stages, of a program as execute.hpp has them.
  template <class Program>
  [[nodiscard]] auto message(step_kind kind, microbatch_task const& at, int peer, Program& program,
                             call_site where) {
    using enum step_kind;
    auto& on = of(peer, sends(kind));
    int const boundary = boundary_of(kind, at.stage);
    auto const send = [&](auto data) {
      std::span<typename decltype(data)::element_type const> const sent(data);
      return comm_.send(on, sent, peer, boundary, where);
    };
    auto const receive = [&](auto data) { return comm_.recv(on, data, peer, boundary, where); };
    switch (kind) {
      case receive_activation: return receive(program.input(at));
      case receive_gradient: return receive(program.output_gradient(at));
      case send_activation: return send(program.output(at));
      default: return send(program.input_gradient(at));
    }
  }

  /// Calls f(stream) for each stream that there is.
  template <class F>
  void each(F f) {
    for (auto const& [end, stream] : streams_) f(*stream);
  }

 private:
  Comm& comm_;
  maker make_;
  std::map<std::pair<int, bool>, std::shared_ptr<stream_type>>
      streams_;  // by peer, whether it sends
};

/// Enqueues a copy between the edges of two stages of one rank; `below`: the same microbatch at the
/// stage before.
template <class Program, class Stream>
void copy_edge(step_kind kind, microbatch_task const& at, microbatch_task const& below,
               Program& program, Stream& on) {
  auto const copy = [&](auto to, auto from) {
    ops::copy(on, to, std::span<typename decltype(from)::element_type const>(from));
  };
  if (kind == step_kind::copy_activation)
    copy(program.input(at), program.output(below));
  else
    copy(program.output_gradient(below), program.input_gradient(at));
}

}  // namespace parallel::pipeline
