// p2p_streams: the streams on which a rank's pipeline messages run, one for each peer and
// direction.
//
// Sends and receives wait for their peer without delaying the computation or each other. A stream
// is created when a plan first needs it and lives as long as this object: create one object for a
// training run, not one for a step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <parallel/comm/concepts.hpp>
#include <parallel/core/error.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/pipeline/plan.hpp>

namespace parallel::pipeline {

/// `Comm` connects the ranks of the pipeline axis, in the order of that axis.
template <communicator Comm>
class p2p_streams {
 public:
  using stream_type = typename Comm::stream_type;

  using maker = std::function<std::shared_ptr<stream_type>()>;

  /// `comm` must outlive this object and carry nothing else while a plan runs. `make` creates a
  /// stream, for memory that needs special streams.
  explicit p2p_streams(
      Comm& comm, maker make = [] { return std::make_shared<stream_type>(); })
      : comm_(comm), make_(std::move(make)) {}

  [[nodiscard]] Comm& comm() { return comm_; }

  /// The stream of the messages to (`sends`) or from a peer.
  [[nodiscard]] stream_type& stream_for(int peer, bool sends) {
    auto& stream = streams_[{peer, sends}];
    if (!stream) stream = make_();
    return *stream;
  }

  /// Enqueues a message between the edges of stages, for a program that run_step
  /// (train/step/run_step.hpp) can run.
  template <class Program>
  [[nodiscard]] auto message(step_kind kind, microbatch_task const& task, int peer,
                             Program& program, call_site caller) {
    using enum step_kind;
    auto& stream = stream_for(peer, sends(kind));
    int const boundary = boundary_of(kind, task.stage);
    auto const send = [&](auto data) {
      std::span<typename decltype(data)::element_type const> const sent(data);
      return comm_.send(stream, sent, peer, boundary, caller);
    };
    auto const receive = [&](auto data) {
      return comm_.recv(stream, data, peer, boundary, caller);
    };
    switch (kind) {
      case receive_activation: return receive(program.input(task));
      case receive_gradient: return receive(program.output_gradient(task));
      case send_activation: return send(program.output(task));
      default: return send(program.input_gradient(task));
    }
  }

  /// Calls f(stream) for each existing stream.
  template <class F>
  void for_each_stream(F f) {
    for (auto const& [end, stream] : streams_) f(*stream);
  }

 private:
  Comm& comm_;
  maker make_;
  std::map<std::pair<int, bool>, std::shared_ptr<stream_type>>
      streams_;  // by peer, whether it sends
};

/// Enqueues a copy between the edges of two stages of one rank; `previous_task`: the same
/// microbatch at the stage before.
template <class Program, class Stream>
void copy_edge(step_kind kind, microbatch_task const& task, microbatch_task const& previous_task,
               Program& program, Stream& stream) {
  auto const copy = [&](auto to, auto from) {
    ops::copy(stream, to, std::span<typename decltype(from)::element_type const>(from));
  };
  if (kind == step_kind::copy_activation)
    copy(program.input(task), program.output(previous_task));
  else
    copy(program.output_gradient(previous_task), program.input_gradient(task));
}

}  // namespace parallel::pipeline
