// run_step: enqueues everything that a plan (step_plan.hpp) says, for any program.
//
// The calling thread enqueues in the plan's order and waits for nothing; streams wait for each
// other where the plan says `after`.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/comm/concepts.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/pipeline/marks.hpp>
#include <parallel/pipeline/p2p_streams.hpp>
#include <parallel/train/step_plan.hpp>

namespace parallel::train {

/// The streams of a step but for those of messages; those that the plan does not use may be null.
template <class Compute, class Exchange>
struct step_streams {
  Compute& compute;
  Compute* weights = nullptr;
  Exchange* gathers = nullptr;
  Exchange* reductions = nullptr;
};

template <class Compute, class Exchange>
step_streams(Compute&, Compute*, Exchange*, Exchange*) -> step_streams<Compute, Exchange>;

/// Those of a rank that is alone: what it would exchange it does in its turn, on the stream of its
/// computations where that can, since a handover to another thread costs more.
template <class Stream>
[[nodiscard]] step_streams<Stream, Stream> alone(step_streams<Stream, Stream> const& of) {
  return {of.compute, of.weights, &of.compute, &of.compute};
}
template <class Compute, class Exchange>
[[nodiscard]] step_streams<Compute, Exchange> alone(step_streams<Compute, Exchange> const& of) {
  return of;
}

/// What a plan runs.
///
/// - compute(action, stream): enqueues whatever is on a stream of computations, but for copies
///   between stages. Also of microbatches that are empty, since actions of units hang on them.
/// - exchange(action, stream, requests): enqueues what is exchanged, but for messages, and appends
///   its requests.
/// - input(at), input_gradient(at), output(at), output_gradient(at): spans of activations at the
///   edges of stage at.stage, told apart by boundary buffer (the first two) or slot. The microbatch
///   says how long they are, and both ends of a message must agree in that.
/// - is_empty(microbatch): this pipeline has no sequence for it (another data rank has): its
///   messages are left out. The same on all ranks of the pipeline.
template <class P, class Compute>
concept step_program = requires(P p, action const& a, pipeline::microbatch_task const& at,
                                Compute& on) {
  p.compute(a, on);
  p.input(at);
  p.input_gradient(at);
  p.output(at);
  p.output_gradient(at);
  { p.is_empty(0) } -> std::convertible_to<bool>;
};

namespace detail {

template <class Compute, class Exchange, class Comm, class Program>
class step_run {
 public:
  using request_type = typename Comm::request_type;

  step_run(step_plan const& plan, step_streams<Compute, Exchange> const& streams,
           pipeline::p2p_streams<Comm>& links, Program& program, call_site where)
      : plan_(plan),
        streams_(streams),
        links_(links),
        program_(program),
        where_(where),
        marks_(plan.actions.size()) {}

  std::vector<request_type> run() {
    auto const& comm = links_.comm();
    require(comm.size() == plan_.ranks && comm.rank() == plan_.rank, "run_step at ", where_,
            ": the plan is rank ", plan_.rank, "'s of ", plan_.ranks,
            ", but the communicator's rank is ", comm.rank(), " of ", comm.size());
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      action const& a = plan_.actions[i];
      if (a.is_message()) {
        exchange(i, links_.of(a.peer, pipeline::sends(a.edge)), [&](auto&) {
          if (!program_.is_empty(a.at.microbatch))
            requests_.push_back(links_.message(a.edge, a.at, a.peer, program_, where_));
        });
      } else if (a.on == lane::gathers || a.on == lane::reductions) {
        exchange(i, a.on == lane::gathers ? *streams_.gathers : *streams_.reductions,
                 [&](Exchange& on) { program_.exchange(a, on, requests_); });
      } else {
        compute(i, a.on == lane::weights ? *streams_.weights : streams_.compute);
      }
    }
    return std::move(requests_);
  }

 private:
  void compute(std::size_t i, Compute& on) {
    action const& a = plan_.actions[i];
    marks_.wait_for(a.after, on, requests_);
    if (a.kind != action_kind::edge)
      program_.compute(a, on);
    else if (!program_.is_empty(a.at.microbatch))
      pipeline::copy_edge(a.edge, a.at, plan_.below(a.at), program_, on);
    if (a.awaited) marks_.computed(i, on);
  }

  template <class Stream, class Work>
  void exchange(std::size_t i, Stream& on, Work&& work) {
    action const& a = plan_.actions[i];
    marks_.wait_for(a.after, on, requests_);
    auto const before = requests_.size();
    work(on);
    if (!a.awaited) return;
    // work on the stream itself may follow what these two exchange
    bool const goes_on =
        a.kind == action_kind::reduce_scatter || a.kind == action_kind::exchange_update;
    if (requests_.size() > before && !goes_on)
      marks_.requested(i, requests_.size() - 1);
    else
      marks_.exchanged(i, on);
  }

  step_plan const& plan_;
  step_streams<Compute, Exchange> streams_;
  pipeline::p2p_streams<Comm>& links_;
  Program& program_;
  call_site where_;
  pipeline::marks<Compute, Exchange, request_type> marks_;  // of the actions
  std::vector<request_type> requests_;  // when an exception leaves, they abort the communicator
};

}  // namespace detail

/// Enqueues all of `plan`, and returns. Work enqueued on `streams.compute` later runs after
/// everything; what was enqueued there before is over before anything runs on another stream. Cost:
/// that of the actions, and an event for each that another stream waits for.
///
/// Returns what is exchanged. Keep it, declared after the memory that is in use, until
/// `streams.compute` has come to its end: when an exception leaves that scope first, the
/// communicator is aborted, so that no rank waits for ever. Throws what the program throws, and the
/// failure of an earlier action when a stream has met one; then the same happens here.
template <class Compute, class Exchange, communicator Comm, step_program<Compute> Program>
[[nodiscard]] std::vector<typename Comm::request_type> run_step(
    step_plan const& plan, step_streams<Compute, Exchange> const& streams,
    pipeline::p2p_streams<Comm>& links, Program& program, call_site where = call_site::current()) {
  return detail::step_run(plan, streams, links, program, where).run();
}

}  // namespace parallel::train
