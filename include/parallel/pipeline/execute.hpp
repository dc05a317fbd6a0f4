// execute: runs a plan (plan.hpp) on one rank, for any model.
//
// The model is a *program*: it enqueues one computation on request, and provides the buffers of the
// activations at a stage's edges. The host thread enqueues all steps in the plan's order without
// waiting; streams wait for each other's events where the plan states dependencies.
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

/// The interface between a plan and a model.
///
/// - compute(): the stream of all computations.
/// - run(step): enqueues on it the computation `step.computes` of microbatch task `step.task`.
/// After
///   that output(task) holds the stage's output (F), input_gradient(task) the gradient of its input
///   (I, B).
/// - input(task), input_gradient(task): spans of activations in boundary buffer `task.boundary` of
///   stage `task.stage`; output(task), output_gradient(task): spans in slot `task.slot`. Stage and
///   slot or boundary determine the buffer; the microbatch determines its length, on which both
///   ends of a message must agree. input is also called before the microbatch task has its slot. It
///   is never called for stage 0, nor is output for the last stage.
/// - is_empty(microbatch): this pipeline has no sequence for it (another data rank has one). Its
///   messages are left out; run is still called, since collectives of other axes may depend on it.
///   The result is the same on all ranks of the pipeline.
template <class P>
concept program = requires(P p, step const& s, microbatch_task const& task) {
  p.compute();
  p.run(s);
  p.input(task);
  p.input_gradient(task);
  p.output(task);
  p.output_gradient(task);
  { p.is_empty(0) } -> std::convertible_to<bool>;
};

namespace detail {

template <class Comm, class Program>
class execution {
 public:
  using link_type = typename Comm::stream_type;
  using request_type = typename Comm::request_type;
  using compute_type = std::remove_reference_t<decltype(std::declval<Program&>().compute())>;

  execution(plan const& rank_plan, p2p_streams<Comm>& links, Program& program, call_site caller)
      : plan_(rank_plan),
        links_(links),
        program_(program),
        caller_(caller),
        marks_(rank_plan.steps.size()) {}

  std::vector<request_type> run() {
    auto const& comm = links_.comm();
    require(comm.size() == plan_.ranks && comm.rank() == plan_.rank, "pipeline::execute at ",
            caller_, ": the plan is rank ", plan_.rank, "'s of ", plan_.ranks,
            ", but the communicator's rank is ", comm.rank(), " of ", comm.size());
    compute_type& compute = program_.compute();
    for (step const& s : plan_.steps)
      if (is_message(s.kind)) static_cast<void>(links_.stream_for(s.peer, sends(s.kind)));
    auto const start = compute.record();
    links_.for_each_stream([&](link_type& link) { link.wait(start); });
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      step const& s = plan_.steps[i];
      if (is_message(s.kind)) {
        auto& link = links_.stream_for(s.peer, sends(s.kind));
        marks_.wait_for(s.dependencies, link, messages_);
        if (!program_.is_empty(s.task.microbatch))
          messages_.push_back(links_.message(s.kind, s.task, s.peer, program_, caller_));
        if (s.has_dependents) marks_.exchanged(i, link);
      } else {
        marks_.wait_for(s.dependencies, compute, messages_);
        if (s.kind == step_kind::compute)
          program_.run(s);
        else if (!program_.is_empty(s.task.microbatch))
          copy_edge(s.kind, s.task, plan_.task_of(s.task.stage - 1, s.task.microbatch), program_,
                    compute);
        if (s.has_dependents) marks_.computed(i, compute);
      }
    }
    links_.for_each_stream([&](link_type& link) { compute.wait(link.record()); });
    return std::move(messages_);
  }

 private:
  plan const& plan_;
  p2p_streams<Comm>& links_;
  Program& program_;
  call_site caller_;
  marks<compute_type, link_type, request_type> marks_;  // of the steps
  std::vector<request_type> messages_;  // their destructors abort the communicator on an exception
};

}  // namespace detail

/// Enqueues all steps of `rank_plan` and returns at once. Work enqueued on `program.compute()`
/// later runs after all of them; work enqueued there earlier finishes before the first message. All
/// ranks of the communicator execute the plans of one schedule. Cost: that of the computations, and
/// an event for each dependency.
///
/// Returns the messages. Keep them, declared after the memory of slots and boundaries, until
/// `program.compute()` has finished: when an exception (of a computation, say) leaves that scope
/// first, they abort the communicator, so that no rank waits for ever, and wait until nothing uses
/// the memory any more. Throws what `program.run` throws, and the failure of an earlier step when a
/// stream has encountered one; the messages behave in the same way then.
template <communicator Comm, program Program>
[[nodiscard]] std::vector<typename Comm::request_type> execute(
    plan const& rank_plan, p2p_streams<Comm>& links, Program& program,
    call_site caller = call_site::current()) {
  return detail::execution<Comm, Program>(rank_plan, links, program, caller).run();
}

}  // namespace parallel::pipeline
