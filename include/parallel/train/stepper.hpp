// stepper: one training step composed from strategies, for any model.
//
//   gradients = Σ over all ranks' microbatches of ∂(sum of token losses)
//   update    = optimizer(gradients × clip / loss tokens of the global batch)
//
// Gradients, losses and counts are only summed; the one division happens in the optimizer. What a
// rank enqueues, in which order and after what, is a value: a step's plan (step_plan.hpp).
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
#include <parallel/device/annotate.hpp>
#include <parallel/device/reserve_scratch.hpp>
#include <parallel/train/attempt.hpp>
#include <parallel/train/canonical_order.hpp>
#include <parallel/train/corruption_check.hpp>
#include <parallel/train/model.hpp>
#include <parallel/train/model_check.hpp>
#include <parallel/train/optimizer_groups.hpp>
#include <parallel/train/placed_units.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/train/shared_results.hpp>
#include <parallel/train/statistics_sum.hpp>
#include <parallel/train/step_agreement.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/train/stepper_parts.hpp>
#include <parallel/train/stepper_program.hpp>
#include <parallel/train/stepper_setup.hpp>

namespace parallel::train {

/// Reductions run on `exchanges`, what is gathered before use on a stream of the stepper's own. Of
/// parts that lack a call the compiler says so (stepper_parts.hpp).
template <class Model, class Device, class Comm, class Optimizer>
class stepper {
 public:
  using model_type = Model;
  using device_type = Device;
  using element = typename Model::element;
  using requests_type = std::vector<typename Comm::request_type>;
  using gradient_type = accumulate_t<element>;
  using stream = typename Device::stream_type;
  using exchange_stream = comm_stream<Device, Comm>;
  using loss = loss_type<element>;
  using microbatch = typename Model::microbatch;
  using unit_entry = typename placed_units<Model, Device, Comm>::entry;

  /// Allocates this rank's units on `device` and binds `model` to them; all three and `groups` must
  /// outlive the stepper and stay where they are. Collective over the mesh.
  stepper(Model& model, Device& device, process_groups<Comm>& groups,
          optimizer_groups<Optimizer> optimizers, stepper_options options)
      : stepper(model, device, nullptr, &groups, std::move(optimizers), std::move(options)) {}

  /// A stepper over the ranks of `comm`, which have other data and the whole model.
  stepper(Model& model, Device& device, Comm& comm, optimizer_groups<Optimizer> optimizers,
          stepper_options options)
      : stepper(model, device, std::make_unique<process_groups<Comm>>(comm, options.level), nullptr,
                std::move(optimizers), options) {}

  /// A stepper with one optimizer for all parameters.
  template <class Ranks>
  stepper(Model& model, Device& device, Ranks& ranks, Optimizer optimizer, stepper_options options)
      : stepper(model, device, ranks, optimizer_groups<Optimizer>(std::move(optimizer)), options) {}

  /// Parameters become what their initial distributions give for `seed`. Blocks.
  void initialise(std::uint64_t seed) {
    require_finished("initialise");
    for (auto& entry : placed_.units()) entry.memory.initialise(seed, device_);
    mark_initialised(seed);
  }
  /// Makes whole what all ranks have filled of the units, each its part (unit_place::filled), as
  /// from a checkpoint; `states`: the optimizer's too. Collective over the mesh. Blocks.
  void share_filled(exchange_stream& exchanges, bool states) {
    require_finished("share_filled");
    auto const each = [&](auto const& f) { f(exchanges); };
    train::attempt(groups_.world(), each,
                   [&] { placed_.share_filled(groups_.axes(), exchanges, states); });
    mark_initialised();
  }
  /// Says that whoever calls it has filled the parameters; by a seed, which ranks compare.
  void mark_initialised(std::optional<std::uint64_t> seed = {}) {
    check_.mark_initialised(seed);
    stale_ = false;
  }

  /// Optimizer states become zero. After steps with a learning_rate_factor of 0, which change no
  /// parameter, nothing is left of them. Blocks.
  void clear_states(stream& compute) {
    require_finished("clear_states");
    for (auto& entry : placed_.units()) entry.memory.clear_states(compute);
    compute.synchronize();
  }

  /// One update, waited for. `batches`: this rank's microbatches, with their places in the global
  /// batch; `where.step`: finished steps; `memory`: see plan_activations. Where values or gradients
  /// are sharded, or in a pipeline, every rank gives as many; those without rows come last.
  step_result<loss> step(stream& compute, exchange_stream& exchanges, arena& memory,
                         std::span<microbatch const> batches,
                         std::span<index const> first_sequences, position where,
                         double learning_rate_factor) {
    begin_step(compute, exchanges, memory, batches, first_sequences, where, learning_rate_factor);
    return finish_step(compute, exchanges);
  }

  /// Enqueues a step; what is given here, and the stepper, is in use until finish_step. The caller
  /// waits only for streams that do not wait by themselves, measured tensors, clipped parts and
  /// exact sums.
  void begin_step(stream& compute, exchange_stream& exchanges, arena& memory,
                  std::span<microbatch const> batches, std::span<index const> first_sequences,
                  position where, double learning_rate_factor) {
    require_finished("begin_step");
    attempt(compute, &exchanges, [&] {
      step_batches<Model> const of{batches, first_sequences, where, pass::training};
      require_places(of);
      check_.before_passes(model_, batches, groups_.tensor.rank(), groups_.tensor.size());
      placed_.require_bound();
      placed_.require_trained();
      begin(exchanges, of, learning_rate_factor);
      results_.norm.clear();
      results_.ask_to_stop(asks_to_stop_);
      outcome_ = step_outcome::updated;
      std::optional<square_meter<element>> meter;
      if (measuring_) meter.emplace(placed_.tensors(), device_);
      auto requests = run(
          compute, &exchanges, memory, of,
          {where.updates.value_or(where.step), learning_rate_factor, meter ? &*meter : nullptr});
      std::vector<tensor_squares<loss>> tensors;
      if (meter) tensors = meter->finish(groups_.world(), exchanges);
      under_way_ = begun{std::move(requests), std::move(tensors), &compute, &exchanges};
      stale_ = options_.gather_before_use;
    });
  }

  /// Waits for the step that was begun, and says what it did.
  step_result<loss> finish_step(stream& compute, exchange_stream& exchanges) {
    require(under_way_.has_value(), "stepper::finish_step: no step has begun");
    return attempt(compute, &exchanges, [&] {
      auto over = *std::exchange(under_way_, {});
      compute.synchronize();
      auto result = results_.result(options_.clip.norm_threshold());
      result.tensors = std::move(over.tensors);
      result.outcome = outcome_;
      check_.after_step(result.sums.tokens);
      return result;
    });
  }

  /// Gathers what the last step has updated and left to the next (stepper_options::
  /// gather_before_use), so that every rank finds the values that it holds whole. Evaluations do.
  /// On all ranks, between steps. Blocks.
  void gather_values(stream& compute) {
    require_finished("gather_values");
    if (!std::exchange(stale_, false) || !placed_.gathers()) return;
    attempt(compute, nullptr, [&] { placed_.gather(groups_.axes()); });
  }

  /// Adds a forward pass of this rank's microbatches to `sums`, for over_ranks when all are done.
  /// Blocks. Ranks of one model give as many; all do where values are sharded, or in a pipeline.
  void add_evaluation(stream& compute, arena& memory, std::span<microbatch const> batches,
                      statistics_sum<loss>& sums) {
    gather_values(compute);
    attempt(compute, nullptr, [&] {
      check_.before_passes(model_, batches, groups_.tensor.rank(), groups_.tensor.size());
      step_batches<Model> const of{batches, {}, {}, pass::inference};
      auto& gathers = placed_.gathers();
      if (gathers) begin(*gathers, of, 0, placed_.evaluates_jointly());
      requests_type messages;
      if (!batches.empty()) messages = run(compute, nullptr, memory, of, {});
      compute.synchronize();
      if (gathers) gathers->synchronize();  // the answer, too, before anything is believed
      if (!batches.empty()) results_.add_to(sums);
    });
  }

  /// As many microbatches as `wanted`, or more where the pipeline's schedule takes no fewer.
  [[nodiscard]] std::size_t least_microbatches(std::size_t wanted) const {
    return static_cast<std::size_t>(placed_.stages().least_microbatches(static_cast<int>(wanted)));
  }

  /// Bytes of activations that a step, or with pass::inference an evaluation, of these microbatches
  /// (whose views may be null) needs on this rank.
  [[nodiscard]] std::size_t plan_activations(std::span<microbatch const> batches,
                                             pass mode = pass::training) {
    return train::plan_activations(model_, placed_.stages(), batches.size(), batches, mode);
  }

  /// Everything that the passes of such a step, and its update, need on this rank besides units.
  [[nodiscard]] pass_memory_plan plan_passes(std::span<microbatch const> batches,
                                             pass mode = pass::training) {
    auto out = train::plan_passes(model_, placed_.stages(), batches.size(), batches, mode,
                                  planned_streams(device_));
    out.scratch.cover({.compute = results_.norm.scratch_bytes(placed_.units())});
    return out;
  }

  /// Gives operations on `compute` and on its own streams their scratch, where they take it from
  /// the device, from now on; a step that finds less asks before it begins. Throws `out_of_memory`.
  void reserve_scratch(stream& compute, operation_scratch const& bytes) {
    parallel::reserve_scratch(compute, bytes.compute, device_);
    if (weights_) parallel::reserve_scratch(*weights_, bytes.weights);
  }

  /// `sums` of all ranks; in the canonical order they have the same bits whatever ranks held the
  /// microbatches. Collective; blocks.
  [[nodiscard]] statistics<loss> over_ranks(exchange_stream& exchanges,
                                            statistics_sum<loss> const& sums) {
    begin_together(groups_.world(), groups_.shape(), exchanges, joint_work::sums);
    return sums.over_ranks(device_, groups_.world(), exchanges, by_tree());
  }

  /// Before all ranks save what is here, or resume (checkpoint::save and resume do it): where
  /// others begin a step, say, or save something else, it throws one sentence on all. Collective;
  /// blocks. `what`: that is saved, and where, of which the end is compared.
  template <class Exchange>
  void agree_to_save(Exchange& exchanges, std::string_view what = {}) {
    require_finished("agree_to_save");
    begin_together(groups_.world(), groups_.shape(), exchanges, joint_work::save, what);
  }
  template <class Exchange>
  void agree_to_resume(Exchange& exchanges) {
    require_finished("agree_to_resume");
    begin_together(groups_.world(), groups_.shape(), exchanges, joint_work::resume);
  }

  /// Whether this rank asks in the following steps that all stop: step_result::stop_asked tells
  /// every rank after the same step, by the exchange that a step has anyway.
  void ask_to_stop(bool wish) { asks_to_stop_ = wish; }

  /// Whether the following steps measure every tensor (step_result::tensors): on all ranks alike.
  void measure_tensors(bool wanted) { measuring_ = wanted; }

  /// What loss and gradient of the following steps may be at most, lest these update nothing: on
  /// all ranks alike. Where there are limits the host waits, as for stepper_options::keep_finite.
  void limit(step_limits const& most) { limits_ = most; }

  /// Calls f with each stream of its own that computes.
  template <class F>
  void for_each_compute_stream(F&& f) {
    if (weights_) f(*weights_);
  }

  /// Of its steps, to be shown (show_step.hpp), and what they know of this rank's units.
  [[nodiscard]] step_plans& plans() { return placed_.plans(); }
  [[nodiscard]] Device const& device() const { return device_; }
  [[nodiscard]] std::deque<unit_entry>& units() { return placed_.units(); }
  [[nodiscard]] std::deque<unit_entry> const& units() const { return placed_.units(); }
  [[nodiscard]] std::span<std::string_view const> state_names(int group) const {
    return optimizers_.at(static_cast<std::size_t>(group)).state_names();
  }
  /// Of the whole model, whoever holds them.
  [[nodiscard]] std::set<std::string> parameter_names() const {
    return train::parameter_names(model_);
  }

 private:
  friend struct stepper_program<stepper>;
  friend class corruption_check<stepper>;

  /// Over its own groups, or over others'.
  stepper(Model& model, Device& device, std::unique_ptr<process_groups<Comm>> own,
          process_groups<Comm>* groups, optimizer_groups<Optimizer> optimizers,
          stepper_options options)
      : model_(model),
        device_(device),
        own_groups_(std::move(own)),
        groups_(own_groups_ ? *own_groups_ : *groups),
        optimizers_(std::move(optimizers.optimizers)),
        options_(checked_setup(model, groups_.world(), optimizers_, optimizers.key_of,
                               on_device<Device>(std::move(options)))),
        links_(groups_.pipeline, maker_of_comm_streams<Comm>(device)),
        placed_(model, device, groups_, options_, optimizers_, optimizers.key_of),
        results_(device, by_tree()) {
    if (by_tree()) check_canonical_order(groups_.shape(), options_.clip.kind);
    if (options_.pipeline.overlap_weight_gradients) weights_.emplace(device.compute_options());
  }

  struct begun {
    requests_type messages;
    std::vector<tensor_squares<loss>> tensors;
    stream* compute;
    exchange_stream* exchanges;
  };
  /// work(), enqueued on `compute`, `exchanges` (null: none) and the stepper's own streams.
  template <class Work>
  decltype(auto) attempt(stream& compute, exchange_stream* exchanges, Work&& work) {
    auto const each = [&](auto const& f) { each_stream(compute, exchanges, f); };
    return train::attempt(groups_.world(), each, std::forward<Work>(work));
  }
  template <class F>
  void each_stream(stream& compute, exchange_stream* exchanges, F const& f) {
    f(compute);
    if (weights_) f(*weights_);
    if (exchanges != nullptr) f(*exchanges);
    if (placed_.gathers()) f(*placed_.gathers());
    links_.each(f);
  }

  /// Asks on `exchanges` whether all ranks, or those that share a model, begin the same.
  void begin(exchange_stream& exchanges, step_batches<Model> const& of, double learning_rate_factor,
             bool all = true) {
    auto const& set = placed_.set();
    bool const in_step =
        set.gradients_sharded() || set.parameters_sharded() || groups_.pipeline.size() > 1;
    agree_on_passes(
        groups_, all, in_step, exchanges,
        {of.mode, of.where.step, of.batches.size(), learning_rate_factor, measuring_,
         limits_.fingerprint(), joint_work::passes, check_.seed(), of.where.seed, of.where.updates,
         summary_of(model_, of.batches, of.first_sequences), check_.counted_rows()});
  }

  /// Enqueues this rank's part of a step, or of an evaluation; returns what is exchanged.
  [[nodiscard]] requests_type run(stream& compute, exchange_stream* exchanges, arena& memory,
                                  step_batches<Model> const& batches,
                                  step_update<element> const& what) {
    // a rank without a sequence still takes part in every collective
    auto const count = std::max(1, static_cast<int>(batches.batches.size()));
    auto const& plan = placed_.plans().of(count, batches.mode, stale_);
    auto& stages = placed_.stages();
    std::set<std::pair<index, index>> sizes;
    for (auto const& batch : batches.batches) sizes.insert(extent_of(model_, batch));
    auto& bytes = bytes_[{batches.mode, count, sizes}];
    if (!bytes) {
      bytes = bytes_of_step(model_, stages.plan_of(count, batches.mode), stages, batches.batches,
                            batches.mode, planned_streams(device_));
      bytes->operations.cover({.compute = results_.norm.scratch_bytes(placed_.units())});
    }
    reserve_scratch(compute, bytes->operations);
    arena::scope const everything(memory);
    stepper_program<stepper> of(*this, compute, exchanges, what, model_, plan, *bytes, memory,
                                batches, results_.cleared_sums(batches.batches.size(), device_),
                                placed_.set().gradients_sharded() || by_tree());
    auto const get = [](auto& maybe) { return maybe ? &*maybe : nullptr; };
    step_streams on{compute, get(weights_), get(placed_.gathers()), exchanges};
    return run_step(plan, groups_.world().size() > 1 ? on : alone(on), links_, of);
  }

  [[nodiscard]] bool by_tree() const {
    return options_.order == zero::reduction_order::canonical_tree;
  }

  /// Else waits for what was enqueued, whose memory may go with the exception, and throws.
  void require_finished(char const* caller) {
    if (!under_way_) return;
    each_stream(*under_way_->compute, under_way_->exchanges, [](auto& s) { s.synchronize(); });
    fail("stepper::", caller, ": a step has begun; call finish_step first");
  }

  Model& model_;
  Device& device_;
  std::unique_ptr<process_groups<Comm>> own_groups_;  // when it was given ranks alone
  process_groups<Comm>& groups_;
  std::vector<Optimizer> optimizers_;  // by group
  stepper_options options_;
  bool measuring_ = false, asks_to_stop_ = false;
  step_limits limits_;
  step_outcome outcome_ = step_outcome::updated;  // of the step that was begun last
  bool stale_ = false;  // the last step left it to the next to gather what it updated
  model_check check_;
  std::optional<stream> weights_;  // of weight gradients that run beside
  pipeline::p2p_streams<Comm> links_;
  placed_units<Model, Device, Comm> placed_;
  shared_results<element> results_;
  std::optional<begun> under_way_;
  corruption_check<stepper>* checked_by_ = nullptr;  // the step that is made
  // by mode, count and sizes of the microbatches
  std::map<std::tuple<pass, int, std::set<std::pair<index, index>>>, std::optional<step_bytes>>
      bytes_;
};

template <class M, class D, class C, class O>
stepper(M&, D&, process_groups<C>&, O, stepper_options) -> stepper<M, D, C, O>;
template <class M, class D, class C, class O>
stepper(M&, D&, C&, O, stepper_options) -> stepper<M, D, C, O>;

}  // namespace parallel::train
