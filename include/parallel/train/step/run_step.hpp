// run_step: enqueues all actions of a plan (step_plan.hpp), for any program.
//
// The calling thread enqueues in the plan's order and waits for nothing; streams wait for each
// other according to the dependencies of the actions.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/comm/concepts.hpp>
#include <parallel/core/error.hpp>
#include <parallel/pipeline/marks.hpp>
#include <parallel/pipeline/p2p_streams.hpp>
#include <parallel/train/step/step_plan.hpp>

namespace parallel::train {

/// The streams of a step except those of messages; streams that the plan does not use may be null.
template <class Compute, class Exchange>
struct step_streams {
  Compute& compute;
  Compute* weights = nullptr;
  Exchange* gathers = nullptr;
  Exchange* reductions = nullptr;
};

template <class Compute, class Exchange>
step_streams(Compute&, Compute*, Exchange*, Exchange*) -> step_streams<Compute, Exchange>;

/// The streams of a rank that is alone: its exchanges run in their turn on the stream of its
/// computations where that stream can run them, since a handover to another thread costs more.
template <class Stream>
[[nodiscard]] step_streams<Stream, Stream> alone(step_streams<Stream, Stream> const& streams) {
  return {streams.compute, streams.weights, &streams.compute, &streams.compute};
}
template <class Compute, class Exchange>
[[nodiscard]] step_streams<Compute, Exchange> alone(
    step_streams<Compute, Exchange> const& streams) {
  return streams;
}

/// A program that runs the actions of a plan.
///
/// - compute(action, stream): enqueues an action of a stream of computations, except copies between
///   stages. It is called for empty microbatches too, since actions of units depend on them.
/// - exchange(action, stream, requests): enqueues an exchange other than a message, and appends its
///   requests.
/// - input(task), input_gradient(task), output(task), output_gradient(task): spans of activations
/// at
///   the edges of stage task.stage, distinguished by boundary buffer (the first two) or slot. The
///   microbatch determines their size, on which both ends of a message must agree.
/// - is_empty(microbatch): this pipeline has no sequence for the microbatch (another data rank
/// has):
///   its messages are left out. The answer is the same on all ranks of the pipeline.
template <class P, class Compute>
concept step_program = requires(P p, action const& a, pipeline::microbatch_task const& task,
                                Compute& stream) {
  p.compute(a, stream);
  p.input(task);
  p.input_gradient(task);
  p.output(task);
  p.output_gradient(task);
  { p.is_empty(0) } -> std::convertible_to<bool>;
};

namespace detail {

template <class Compute, class Exchange, class Comm, class Program>
class step_run {
 public:
  using request_type = typename Comm::request_type;

  step_run(step_plan const& plan, step_streams<Compute, Exchange> const& streams,
           pipeline::p2p_streams<Comm>& links, Program& program, call_site caller)
      : plan_(plan),
        streams_(streams),
        links_(links),
        program_(program),
        caller_(caller),
        marks_(plan.actions.size()) {}

  std::vector<request_type> run() {
    auto const& comm = links_.comm();
    require(comm.size() == plan_.ranks && comm.rank() == plan_.rank, "run_step at ", caller_,
            ": the plan is rank ", plan_.rank, "'s of ", plan_.ranks,
            ", but the communicator's rank is ", comm.rank(), " of ", comm.size());
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      action const& a = plan_.actions[i];
      if (a.is_message()) {
        auto const [peer, sends] = plan_.link_at(a.lane);
        exchange(i, links_.stream_for(peer, sends), [&, peer = peer](auto&) {
          if (!program_.is_empty(a.task.microbatch))
            requests_.push_back(links_.message(a.edge, a.task, peer, program_, caller_));
        });
      } else if (a.lane == lane::gathers || a.lane == lane::reductions) {
        exchange(i, a.lane == lane::gathers ? *streams_.gathers : *streams_.reductions,
                 [&](Exchange& stream) { program_.exchange(a, stream, requests_); });
      } else {
        compute(i, a.lane == lane::weights ? *streams_.weights : streams_.compute);
      }
    }
    return std::move(requests_);
  }

 private:
  void compute(std::size_t i, Compute& stream) {
    action const& a = plan_.actions[i];
    marks_.wait_for(a.dependencies, stream, requests_);
    if (a.kind != action_kind::edge)
      program_.compute(a, stream);
    else if (!program_.is_empty(a.task.microbatch))
      pipeline::copy_edge(a.edge, a.task, plan_.previous_stage_task(a.task), program_, stream);
    if (a.is_awaited) marks_.computed(i, stream);
  }

  template <class Stream, class Work>
  void exchange(std::size_t i, Stream& stream, Work&& work) {
    action const& a = plan_.actions[i];
    marks_.wait_for(a.dependencies, stream, requests_);
    auto const request_count = requests_.size();
    work(stream);
    if (!a.is_awaited) return;
    // the stream may carry further work of these two kinds after their last request
    bool const continues_on_stream =
        a.kind == action_kind::reduce_scatter || a.kind == action_kind::exchange_update;
    if (requests_.size() > request_count && !continues_on_stream)
      marks_.requested(i, requests_.size() - 1);
    else
      marks_.exchanged(i, stream);
  }

  step_plan const& plan_;
  step_streams<Compute, Exchange> streams_;
  pipeline::p2p_streams<Comm>& links_;
  Program& program_;
  call_site caller_;
  pipeline::marks<Compute, Exchange, request_type> marks_;  // marks of the actions
  std::vector<request_type> requests_;  // abort the communicator when an exception leaves
};

}  // namespace detail

/// Enqueues all of `plan`, and returns. Work that is enqueued on `streams.compute` later runs after
/// the whole step; work that was enqueued there before is complete before anything runs on another
/// stream. Cost: that of the actions, and an event for each that another stream waits for.
///
/// Returns the requests of the exchanges. Keep them, declared after the memory that is in use,
/// until `streams.compute` has completed: when an exception leaves that scope first, the
/// communicator is aborted, so that no rank waits for ever. Throws what the program throws, and the
/// failure of an earlier action when a stream has met one; the communicator is aborted then too.
template <class Compute, class Exchange, communicator Comm, step_program<Compute> Program>
[[nodiscard]] std::vector<typename Comm::request_type> run_step(
    step_plan const& plan, step_streams<Compute, Exchange> const& streams,
    pipeline::p2p_streams<Comm>& links, Program& program, call_site caller = call_site::current()) {
  return detail::step_run(plan, streams, links, program, caller).run();
}

}  // namespace parallel::train
