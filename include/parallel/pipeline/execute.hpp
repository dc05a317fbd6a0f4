// execute: runs a plan (plan.hpp) on one rank, for any model.
//
// The model is a *program*: it enqueues one computation when told, and says where the activations
// at a stage's edges live. The host thread enqueues everything in the plan's order and waits for
// nothing; streams wait for each other's events where the plan says `after`.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/comm/concepts.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/pipeline/marks.hpp>
#include <parallel/pipeline/p2p_streams.hpp>
#include <parallel/pipeline/plan.hpp>

namespace parallel::pipeline {

/// What a plan runs.
///
/// - compute(): the stream of all computations.
/// - run(step): enqueues the computation `step.computes` of microbatch task `step.at` on it, after
///   which output(at) holds the stage's output (F), input_gradient(at) the gradient of its input
///   (I, B).
/// - input(at), input_gradient(at): spans of activations in boundary buffer `at.boundary` of stage
///   `at.stage`; output(at), output_gradient(at): in slot `at.slot`. They are told apart by stage
///   and by slot or boundary alone; the microbatch says how long they are, and both ends of a
///   message must agree in that. input is also asked for before the microbatch task has its slot.
///   Stage 0 is asked for no input, and the last stage for no output.
/// - is_empty(microbatch): this pipeline has no sequence for it (another data rank has). Its
///   messages are left out; run is still called, since collectives of other axes may hang on it.
///   The same on all ranks of the pipeline.
template <class P>
concept program = requires(P p, step const& s, microbatch_task const& at) {
  p.compute();
  p.run(s);
  p.input(at);
  p.input_gradient(at);
  p.output(at);
  p.output_gradient(at);
  { p.is_empty(0) } -> std::convertible_to<bool>;
};

namespace detail {

template <class Comm, class Program>
class execution {
 public:
  using link_type = typename Comm::stream_type;
  using request_type = typename Comm::request_type;
  using compute_type = std::remove_reference_t<decltype(std::declval<Program&>().compute())>;

  execution(plan const& what, p2p_streams<Comm>& over, Program& of, call_site where)
      : plan_(what), links_(over), program_(of), where_(where), marks_(what.steps.size()) {}

  std::vector<request_type> run() {
    auto const& comm = links_.comm();
    require(comm.size() == plan_.ranks && comm.rank() == plan_.rank, "pipeline::execute at ",
            where_, ": the plan is rank ", plan_.rank, "'s of ", plan_.ranks,
            ", but the communicator's rank is ", comm.rank(), " of ", comm.size());
    compute_type& compute = program_.compute();
    for (step const& s : plan_.steps)
      if (is_message(s.kind)) static_cast<void>(links_.of(s.peer, sends(s.kind)));
    auto const start = compute.record();
    links_.each([&](link_type& link) { link.wait(start); });
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      step const& s = plan_.steps[i];
      if (is_message(s.kind)) {
        auto& link = links_.of(s.peer, sends(s.kind));
        marks_.wait_for(s.after, link, messages_);
        if (!program_.is_empty(s.at.microbatch))
          messages_.push_back(links_.message(s.kind, s.at, s.peer, program_, where_));
        if (s.awaited) marks_.exchanged(i, link);
      } else {
        marks_.wait_for(s.after, compute, messages_);
        if (s.kind == step_kind::compute)
          program_.run(s);
        else if (!program_.is_empty(s.at.microbatch))
          copy_edge(s.kind, s.at, plan_.at(s.at.stage - 1, s.at.microbatch), program_, compute);
        if (s.awaited) marks_.computed(i, compute);
      }
    }
    links_.each([&](link_type& link) { compute.wait(link.record()); });
    return std::move(messages_);
  }

 private:
  plan const& plan_;
  p2p_streams<Comm>& links_;
  Program& program_;
  call_site where_;
  marks<compute_type, link_type, request_type> marks_;  // of the steps
  std::vector<request_type> messages_;  // when an exception leaves, they abort the communicator
};

}  // namespace detail

/// Enqueues all of `what`, and returns at once. Work enqueued on `of.compute()` later runs after
/// everything; what was enqueued there before is over before the first message. All ranks of the
/// communicator execute the plans of one schedule. Cost: that of the computations, and an event for
/// each dependence.
///
/// Returns the messages. Keep them, declared after the memory of slots and boundaries, until
/// `of.compute()` has come to its end: when an exception (of a computation, say) leaves that scope
/// first, they abort the communicator, so that no rank waits for ever, and wait until nothing uses
/// the memory any more. Throws what `of.run` throws, and the failure of an earlier step when a
/// stream has met one; then the same happens here.
template <communicator Comm, program Program>
[[nodiscard]] std::vector<typename Comm::request_type> execute(
    plan const& what, p2p_streams<Comm>& over, Program& of,
    call_site where = call_site::current()) {
  return detail::execution<Comm, Program>(what, over, of, where).run();
}

}  // namespace parallel::pipeline
