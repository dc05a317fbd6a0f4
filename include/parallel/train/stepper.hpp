// stepper: one training step composed from strategies, for any model.
//
//   gradients = Σ over all ranks' microbatches of ∂(sum of token losses)
//   update    = optimizer(gradients × clip / loss tokens of the global batch)
//
// Gradients, losses and counts are only summed; the one division happens in the optimizer. The
// actions of a rank, their order and their dependencies are a value: the step's plan
// (step_plan.hpp).
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/device/as_graph.hpp>
#include <parallel/device/reserve_scratch.hpp>
#include <parallel/train/attempt.hpp>
#include <parallel/train/checks/model_check.hpp>
#include <parallel/train/checks/progress_check.hpp>
#include <parallel/train/checks/single_caller.hpp>
#include <parallel/train/checks/step_agreement.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/train/results/statistics_sum.hpp>
#include <parallel/train/setup/canonical_order.hpp>
#include <parallel/train/setup/stepper_parts.hpp>
#include <parallel/train/step/step_request.hpp>
#include <parallel/train/step/step_state.hpp>
#include <parallel/train/step/stepper_program.hpp>
#include <parallel/train/stepper_options.hpp>

namespace parallel::train {

/// Reductions run on `exchanges`, and gathers before use on a stream that the stepper owns. When a
/// part lacks a call, the compiler says so (stepper_parts.hpp).
template <class Model, class Device, class Comm, class Optimizer>
class stepper {
 public:
  using model_type = Model;
  using device_type = Device;
  using state_type = step_state<Model, Device, Comm, Optimizer>;
  using element = typename Model::element;
  using stream = typename state_type::stream;
  using exchange_stream = typename state_type::exchange_stream;
  using loss = loss_type<element>;
  using microbatch = typename Model::microbatch;
  using request_type = step_request<microbatch>;
  using unit_entry = typename state_type::unit_entry;

  /// Allocates this rank's units on `device` and binds `model` to them; model, device and `groups`
  /// must outlive the stepper and must not move. Collective over the mesh.
  stepper(Model& model, Device& device, process_groups<Comm>& groups,
          optimizer_groups<Optimizer> optimizers, stepper_options options)
      : stepper(model, device, nullptr, &groups, std::move(optimizers), std::move(options)) {}

  /// A stepper over the ranks of `comm`, each of which has other data and the whole model.
  stepper(Model& model, Device& device, Comm& comm, optimizer_groups<Optimizer> optimizers,
          stepper_options options)
      : stepper(model, device, std::make_unique<process_groups<Comm>>(comm, options.level), nullptr,
                std::move(optimizers), options) {}

  /// A stepper with one optimizer for all parameters.
  template <class Ranks>
  stepper(Model& model, Device& device, Ranks& ranks, Optimizer optimizer, stepper_options options)
      : stepper(model, device, ranks, optimizer_groups<Optimizer>(std::move(optimizer)), options) {}

  /// Sets parameters to what their initial distributions give for `seed`. Blocks.
  void initialise(std::uint64_t seed) {
    require_finished("initialise");
    state_.placed.require_in_place(model_);
    for (auto& entry : state_.placed.units()) entry.memory.initialise(seed, device_);
    mark_initialised(seed);
  }
  /// Completes units of which each rank has filled its part (unit_position::filled), as from a
  /// checkpoint; `states`: the optimizer's states too. Collective over the mesh. Blocks.
  void share_filled(exchange_stream& exchanges, bool states) {
    require_finished("share_filled");
    auto const for_each_stream = [&](auto const& f) { f(exchanges); };
    train::attempt(groups_.world(), for_each_stream,
                   [&] { state_.placed.share_filled(groups_, exchanges, states); });
    mark_initialised();
  }
  /// Declares that the caller has filled the parameters; from a seed, which ranks compare.
  void mark_initialised(std::optional<std::uint64_t> seed = {}) {
    check_.mark_initialised(seed);
    progress_ = {};
    stale_ = false;
  }

  /// Sets optimizer states to zero. Steps with a learning_rate_factor of 0 change only these
  /// states, no parameter, so this undoes such steps completely. Blocks.
  void clear_states(stream& compute) {
    require_finished("clear_states");
    for (auto& entry : state_.placed.units()) entry.memory.clear_states(compute);
    compute.synchronize();
    progress_ = {};
  }

  /// Makes one update and waits for it. `memory`: see plan_activations. Where values or gradients
  /// are sharded, or in a pipeline, every rank gives as many microbatches.
  step_result<loss> step(stream& compute, exchange_stream& exchanges, arena& memory,
                         request_type const& request) {
    begin_step(compute, exchanges, memory, request);
    return finish_step(compute, exchanges);
  }

  /// Enqueues a step; its arguments, and the stepper, are in use until finish_step. The caller
  /// waits only for streams that do not wait by themselves, measured tensors, clipped parts and
  /// exact sums.
  void begin_step(stream& compute, exchange_stream& exchanges, arena& memory,
                  request_type const& request) {
    require_finished("begin_step");
    attempt(compute, &exchanges, [&] {
      require_first_sequences(model_, request);
      progress_.before_step(request.position, request.learning_rate_factor);
      check_.before_passes(model_, request.microbatches, groups_.tensor.rank(),
                           groups_.tensor.size(), groups_.context.size());
      state_.placed.require_bound();
      state_.placed.require_trained();
      begin(exchanges, request, pass::training);
      state_.results.norm.clear();
      state_.results.ask_to_stop(asks_to_stop_);
      state_.outcome = step_outcome::updated;
      std::optional<tensor_squares_meter<element>> meter;
      if (measuring_) meter.emplace(state_.placed.tensors(), device_);
      auto requests =
          run(compute, &exchanges, memory, request, pass::training, meter ? &*meter : nullptr);
      std::vector<tensor_squares<loss>> tensors;
      if (meter) tensors = meter->finish(groups_.world(), exchanges);
      running_step_ = running_step{std::move(requests), std::move(tensors), &compute, &exchanges};
      stale_ = state_.options.gather_before_use;
    });
  }

  /// Runs the passes of a step alone, without reductions and update, and returns finish(), which is
  /// called when they are done. Collective; blocks.
  template <class Finish>
  auto run_passes(stream& compute, exchange_stream& exchanges, arena& memory,
                  request_type const& request, Finish const& finish) {
    return attempt(compute, &exchanges, [&] {
      begin(exchanges, request, pass::training);
      auto const requests =
          run(compute, &exchanges, memory, request, pass::training, nullptr, true);
      compute.synchronize();
      return finish();
    });
  }

  /// Gives the next step's exchanges more room (model.hpp). The same on all ranks.
  void grow_buffers() {
    if constexpr (requires { model_.grow_buffers(); }) model_.grow_buffers();
  }

  /// Waits for the step that was begun, and returns its result.
  step_result<loss> finish_step(stream& compute, exchange_stream& exchanges) {
    require(running_step_.has_value(), "stepper::finish_step: no step has begun");
    return attempt(compute, &exchanges, [&] {
      auto finished = *std::exchange(running_step_, {});
      compute.synchronize();
      auto result = state_.results.result(state_.options.clip.norm_threshold());
      result.tensors = std::move(finished.tensors);
      result.outcome = state_.outcome;
      check_.after_step(result.sums.tokens);
      progress_.after_step(state_.outcome, result.sums.loss,
                           state_.options.keep_finite || state_.limits.has_limit());
      return result;
    });
  }

  /// Gathers what the last step has updated and left to the next (stepper_options::
  /// gather_before_use), so that every rank has the values that it holds whole. Evaluations call
  /// it. To be called on all ranks, between steps. Blocks.
  void gather_values(stream& compute) {
    require_finished("gather_values");
    if (!std::exchange(stale_, false) || !state_.placed.gathers()) return;
    attempt(compute, nullptr, [&] { state_.placed.gather(groups_); });
  }

  /// Adds a forward pass of this rank's microbatches to `sums`; over_ranks sums them when all are
  /// done. Blocks. Ranks of one model give as many microbatches; all ranks do where values are
  /// sharded, or in a pipeline.
  void add_evaluation(stream& compute, arena& memory, std::span<microbatch const> batches,
                      statistics_sum<loss>& sums) {
    gather_values(compute);
    attempt(compute, nullptr, [&] {
      check_.before_passes(model_, batches, groups_.tensor.rank(), groups_.tensor.size(),
                           groups_.context.size());
      request_type const evaluation{.microbatches = batches, .learning_rate_factor = 0};
      auto& gathers = state_.placed.gathers();
      if (gathers) begin(*gathers, evaluation, pass::inference, state_.placed.evaluates_jointly());
      requests_type messages;
      if (!batches.empty())
        messages = run(compute, nullptr, memory, evaluation, pass::inference, nullptr);
      compute.synchronize();
      if (gathers)
        gathers->synchronize();  // the agreement of ranks, too, before any result is used
      if (!batches.empty()) state_.results.add_to(sums);
    });
  }

  /// The least number of microbatches that the pipeline's schedule takes, `wanted` or more.
  [[nodiscard]] std::size_t least_microbatches(std::size_t wanted) const {
    return static_cast<std::size_t>(
        state_.placed.stages().least_microbatches(static_cast<int>(wanted)));
  }

  /// Bytes of activations that a step, or with pass::inference an evaluation, of these microbatches
  /// (whose views may be null) needs on this rank.
  [[nodiscard]] std::size_t plan_activations(std::span<microbatch const> batches,
                                             pass mode = pass::training) {
    return plan_passes(batches, mode).activations;
  }

  /// The memory that the passes of such a step, and its update, need on this rank besides units.
  /// Cost: for each number and sizes of microbatches, the first time, passes on the meta device.
  [[nodiscard]] pass_memory_plan plan_passes(std::span<microbatch const> batches,
                                             pass mode = pass::training) {
    auto const call = caller_.begin();
    require_microbatches_to_plan(batches.size());
    auto const& bytes = planned_bytes(batches, mode);
    auto const& plan = state_.placed.stages().plan_of(static_cast<int>(batches.size()), mode);
    return {bytes.total(plan), bytes.operations};
  }

  /// Reserves scratch for operations on `compute` and on the stepper's own streams, where they take
  /// it from the device; a step that finds less asks before it begins. Throws `out_of_memory`.
  void reserve_scratch(stream& compute, operation_scratch const& bytes) {
    parallel::reserve_scratch(compute, bytes.compute, device_);
    if (weights_) parallel::reserve_scratch(*weights_, bytes.weights);
  }

  /// Sums `sums` over all ranks; in the canonical order the sums have the same bits whichever ranks
  /// held the microbatches. Collective; blocks.
  [[nodiscard]] statistics<loss> over_ranks(exchange_stream& exchanges,
                                            statistics_sum<loss> const& sums) {
    begin_together(groups_.world(), groups_.shape(), exchanges, joint_work::sums);
    return sums.over_ranks(device_, groups_.world(), exchanges, state_.by_tree());
  }

  /// Agrees with all ranks that they save a checkpoint, or resume from one (checkpoint::save and
  /// resume call it): where others begin a step, say, or save something else, it throws one
  /// sentence on all. Collective; blocks. `saved`: what is saved, and where; ranks compare its end.
  template <class Exchange>
  void agree_to_save(Exchange& exchanges, std::string_view saved = {}) {
    require_finished("agree_to_save");
    begin_together(groups_.world(), groups_.shape(), exchanges, joint_work::save, saved);
  }
  template <class Exchange>
  void agree_to_resume(Exchange& exchanges) {
    require_finished("agree_to_resume");
    begin_together(groups_.world(), groups_.shape(), exchanges, joint_work::resume);
  }

  /// Runs work(), which enqueues on `compute`, `exchanges` (null: none) and the stepper's own
  /// streams; when an exception leaves it, all ranks are told and these streams are drained.
  template <class Work>
  decltype(auto) attempt(stream& compute, exchange_stream* exchanges, Work&& work) {
    auto const call = caller_.begin();
    auto const for_each_stream = [&](auto const& f) { each_stream(compute, exchanges, f); };
    return train::attempt(groups_.world(), for_each_stream, std::forward<Work>(work));
  }

  /// Whether this rank asks in the following steps that all stop: step_result::stop_asked tells
  /// every rank after the same step, by the exchange that a step has anyway.
  void ask_to_stop(bool wish) { asks_to_stop_ = wish; }

  /// Whether the following steps measure every tensor (step_result::tensors): the same on all
  /// ranks.
  void measure_tensors(bool wanted) { measuring_ = wanted; }

  /// Limits loss and gradient of the following steps: a step above them updates nothing. The same
  /// on all ranks. Where there are limits the host waits, as for stepper_options::keep_finite.
  void limit(step_limits const& limits) { state_.limits = limits; }

  /// Calls f with each stream of the stepper's own that computes.
  template <class F>
  void for_each_compute_stream(F&& f) {
    if (weights_) f(*weights_);
  }

  [[nodiscard]] state_type& state() { return state_; }
  /// The plans of its steps, to be shown (show_step.hpp), and what they know of this rank's units.
  [[nodiscard]] step_plans& plans() { return state_.placed.plans(); }
  [[nodiscard]] Device const& device() const { return device_; }
  [[nodiscard]] process_groups<Comm>& groups() { return groups_; }
  [[nodiscard]] std::deque<unit_entry>& units() { return state_.placed.units(); }
  [[nodiscard]] std::deque<unit_entry> const& units() const { return state_.placed.units(); }
  [[nodiscard]] std::span<std::string_view const> state_names(int group) const {
    return state_.optimizers.at(static_cast<std::size_t>(group)).state_names();
  }
  /// The names of the whole model's parameters, on whichever rank they are.
  [[nodiscard]] std::set<std::string> parameter_names() const {
    return train::parameter_names(model_);
  }

 private:
  using requests_type = typename state_type::requests_type;

  /// A stepper over groups that it owns, or over the caller's.
  stepper(Model& model, Device& device, std::unique_ptr<process_groups<Comm>> owned_groups,
          process_groups<Comm>* groups, optimizer_groups<Optimizer> optimizers,
          stepper_options options)
      : model_(model),
        device_(device),
        own_groups_(std::move(owned_groups)),
        groups_(own_groups_ ? *own_groups_ : *groups),
        links_(groups_.pipeline, comm_stream_factory<Comm>(device)),
        state_(model, device, groups_, std::move(optimizers), std::move(options)) {
    if (state_.by_tree()) check_canonical_order(groups_.shape(), state_.options.clip.kind);
    if (state_.options.pipeline.overlap_weight_gradients)
      weights_.emplace(device.compute_options());
  }

  struct running_step {
    requests_type messages;
    std::vector<tensor_squares<loss>> tensors;
    stream* compute;
    exchange_stream* exchanges;
  };
  template <class F>
  void each_stream(stream& compute, exchange_stream* exchanges, F const& f) {
    f(compute);
    if (weights_) f(*weights_);
    if (exchanges != nullptr) f(*exchanges);
    if (state_.placed.gathers()) f(*state_.placed.gathers());
    links_.for_each_stream(f);
  }

  /// Compares on `exchanges` what all ranks, or those that share a model, begin.
  void begin(exchange_stream& exchanges, request_type const& request, pass mode,
             bool on_all_ranks = true) {
    auto const& now = request.position;
    auto const& set = state_.placed.set();
    bool const in_step =
        set.gradients_sharded() || set.parameters_sharded() || groups_.pipeline.size() > 1;
    agree_on_passes(
        groups_, on_all_ranks, in_step, exchanges,
        {mode, now.step, request.microbatches.size(), request.learning_rate_factor, measuring_,
         state_.limits.fingerprint(), joint_work::passes, check_.seed(), now.seed, now.updates,
         summarise_batch(model_, request.microbatches, request.first_sequences),
         check_.counted_rows()});
  }

  /// Enqueues this rank's part of a step, or of an evaluation; returns the requests of its
  /// exchanges.
  [[nodiscard]] requests_type run(stream& compute, exchange_stream* exchanges, arena& memory,
                                  request_type const& request, pass mode,
                                  tensor_squares_meter<element>* meter, bool passes_only = false) {
    auto const batches = request.microbatches;
    auto const& plan = state_.placed.plans().plan_for(planned_count(batches), mode, stale_);
    auto const& bytes = planned_bytes(batches, mode);
    reserve_scratch(compute, bytes.operations);
    arena::scope const everything(memory);
    stepper_program<state_type> program(
        state_, compute, exchanges, meter, passes_only, model_, plan, bytes, memory, request, mode,
        state_.results.cleared_sums(batches.size(), device_),
        mode == pass::training ? state_.results.cleared_record() : std::span<double>{});
    auto const get = [](auto& maybe) { return maybe ? &*maybe : nullptr; };
    step_streams streams{compute, get(weights_), get(state_.placed.gathers()), exchanges};
    return run_step(plan, groups_.world().size() > 1 ? streams : alone(streams), links_, program);
  }

  /// The number of microbatches for which a step is planned: a rank without one still takes part in
  /// every collective.
  [[nodiscard]] static int planned_count(std::span<microbatch const> batches) {
    return std::max(1, static_cast<int>(batches.size()));
  }

  /// The bytes of a step of these microbatches, planned once for each number and sizes of them.
  [[nodiscard]] step_bytes const& planned_bytes(std::span<microbatch const> batches, pass mode) {
    state_.placed.require_in_place(model_);
    std::set<std::pair<index, index>> sizes;
    for (auto const& batch : batches) sizes.insert(extent_of(model_, batch));
    auto const count = planned_count(batches);
    auto& bytes = bytes_[{mode, count, sizes}];
    if (!bytes) {
      auto& stages = state_.placed.stages();
      bytes = bytes_of_step(model_, stages.plan_of(count, mode), stages, batches, mode,
                            planning_stream_options(device_));
      bytes->operations.cover(
          {.compute = state_.results.norm.scratch_bytes(state_.placed.units())});
    }
    return *bytes;
  }

  /// Throws when a step has begun, after waiting for it: its memory may go with the exception.
  void require_finished(char const* caller) {
    if (!running_step_) return;
    each_stream(*running_step_->compute, running_step_->exchanges,
                [](auto& s) { s.synchronize(); });
    fail("stepper::", caller, ": a step has begun; call finish_step first");
  }

  Model& model_;
  Device& device_;
  std::unique_ptr<process_groups<Comm>> own_groups_;  // when the constructor was given ranks alone
  process_groups<Comm>& groups_;
  std::optional<stream> weights_;  // for weight gradients that run concurrently with other passes
  pipeline::p2p_streams<Comm> links_;
  state_type state_;
  bool measuring_ = false, asks_to_stop_ = false;
  bool stale_ = false;  // the last step has left the gather of its updates to the next one
  single_caller caller_;
  model_check check_;
  progress_check progress_;
  std::optional<running_step> running_step_;
  // By mode, count and sizes of the microbatches.
  std::map<std::tuple<pass, int, std::set<std::pair<index, index>>>, std::optional<step_bytes>>
      bytes_;
};

template <class M, class D, class C, class O>
stepper(M&, D&, process_groups<C>&, O, stepper_options) -> stepper<M, D, C, O>;
template <class M, class D, class C, class O>
stepper(M&, D&, C&, O, stepper_options) -> stepper<M, D, C, O>;

}  // namespace parallel::train
