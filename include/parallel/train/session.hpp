// session: what one rank trains with: a stepper, its two streams and the memory of its activations.
//
//   train::session session(model, device, groups, decoupled_adamw{.learning_rate = 1e-3}, {});
//   session.initialise(1);
//   auto const result = session.step({microbatches, first_sequences}, {.seed = 1, .step = 0}, 1.0);
//   auto const held_out = session.evaluate({other_microbatches});
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/arena.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/train/model.hpp>
#include <parallel/train/results/statistics_sum.hpp>
#include <parallel/train/stepper.hpp>

namespace parallel::train {

/// The part of a global batch that one rank calculates.
template <class Microbatch>
struct rank_batch {
  std::span<Microbatch const> microbatches;
  /// The position of each microbatch's first sequence in the global batch; an evaluation needs
  /// none.
  std::span<index const> first_sequences = {};
  /// The most microbatches that a rank has (data::max_microbatches): a rank that has fewer is given
  /// empty ones, since all ranks take part in every exchange. 0: every rank has as many.
  std::size_t max_microbatches = 0;
  /// The numbers of the samples in the data set, where the loader knows them (sample_check).
  std::span<index const> samples = {};
};

template <class Model, class Device, class Comm, class Optimizer>
class session {
 public:
  using device_type = Device;
  using stepper_type = train::stepper<Model, Device, Comm, Optimizer>;
  using stream = typename Device::stream_type;
  using exchange_stream = comm_stream<Device, Comm>;
  using microbatch = typename Model::microbatch;
  using request_type = step_request<microbatch>;
  using loss = loss_type<typename Model::element>;

  /// Makes the streams with the options of `device`, and a stepper; its constructor says what lives
  /// longer. Collective over the ranks.
  ///
  /// - `model`: whose parameters are trained (train/model.hpp)
  /// - `device`: where they and the activations are
  /// - `ranks`: a communicator of ranks that have the whole model and different data, or
  ///   process_groups for tensor, pipeline and context parallelism
  /// - `optimizers`: one optimizer for all parameters, or optimizer_groups
  /// - `options`: ZeRO level, pipeline schedule, clipping, limits (stepper_options)
  template <class Ranks, class Optimizers>
  session(Model& model, Device& device, Ranks& ranks, Optimizers optimizers,
          stepper_options options)
      : session(model, device, ranks, std::move(optimizers), std::move(options),
                device.compute_options(), comm_options<Comm>(device)) {}

  /// Makes the streams with other options, such as one that records a trace.
  template <class Ranks, class Optimizers, class ComputeOptions, class ExchangeOptions>
  session(Model& model, Device& device, Ranks& ranks, Optimizers optimizers,
          stepper_options options, ComputeOptions compute_options, ExchangeOptions exchange_options)
      : device_(device),
        compute_(std::move(compute_options)),
        exchanges_(std::move(exchange_options)),
        stepper_(model, device, ranks, std::move(optimizers), std::move(options)) {}

  session(session&&) = delete;

  [[nodiscard]] stepper_type& stepper() { return stepper_; }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] stream& compute() { return compute_; }
  [[nodiscard]] exchange_stream& exchanges() { return exchanges_; }
  /// The memory of activations, as far as it is reserved.
  [[nodiscard]] arena& memory() { return memory_; }

  /// Allocates memory for activations, unless there is as much; steps and evaluations reserve what
  /// they need. Nothing may use the memory at that time.
  void reserve(std::size_t bytes) {
    if (bytes <= reserved_bytes_) return;
    memory_ = arena();  // releases before it allocates
    memory_ = arena(device_.template allocate<std::byte>(bytes));
    reserved_bytes_ = bytes;
  }

  /// The stepper's functions, called with the streams and the memory of the session.
  void initialise(std::uint64_t seed) { stepper_.initialise(seed); }
  void clear_states() { stepper_.clear_states(compute_); }
  void gather_values() { stepper_.gather_values(compute_); }
  [[nodiscard]] std::size_t least_microbatches(std::size_t wanted) const {
    return stepper_.least_microbatches(wanted);
  }
  void reserve_scratch(operation_scratch const& bytes) {
    stepper_.reserve_scratch(compute_, bytes);
  }
  /// Memory for the activations must be reserved, as parts of it may be in use between evaluations.
  void add_evaluation(std::span<microbatch const> microbatches, statistics_sum<loss>& sums) {
    stepper_.add_evaluation(compute_, memory_, microbatches, sums);
  }
  [[nodiscard]] statistics<loss> over_ranks(statistics_sum<loss> const& sums) {
    return stepper_.over_ranks(exchanges_, sums);
  }
  template <class Finish>
  auto run_passes(request_type const& request, Finish const& finish) {
    reserve(stepper_.plan_activations(request.microbatches));
    return stepper_.run_passes(compute_, exchanges_, memory_, request, finish);
  }
  /// Runs work(compute stream): stepper::attempt.
  template <class Work>
  decltype(auto) attempt(Work const& work) {
    return stepper_.attempt(compute_, &exchanges_, [&] { return work(compute_); });
  }

  /// Makes one update and waits for it. Every rank must give as many microbatches as the others
  /// where values or gradients are sharded, or in a pipeline. The result has the sums of losses and
  /// tokens over all ranks, and the gradient norm.
  ///
  ///     session.step({microbatches, first_sequences, {.seed = 1, .step = batch}, factor});
  step_result<loss> step(request_type const& request) {
    for (;;) {
      reserve(stepper_.plan_activations(request.microbatches));
      auto result = stepper_.step(compute_, exchanges_, memory_, request);
      if (result.outcome != step_outcome::overflowed) return result;
      stepper_.grow_buffers();
    }
  }
  /// The same from this rank's part of a global batch, which empty microbatches fill up.
  ///
  ///     auto const result = session.step({microbatches, first}, {.seed = 1, .step = 0}, 1.0);
  ///
  /// - `batch`: the microbatches of this rank and their positions in the global batch
  /// - `current`: seed and number of the step, which determine dropout and stochastic rounding
  /// - `learning_rate_factor`: multiplies the learning rates of the optimizers
  step_result<loss> step(rank_batch<microbatch> const& batch, position current,
                         double learning_rate_factor) {
    auto const microbatches =
        padded(batch, stepper_.least_microbatches(count_on_every_rank(batch)));
    std::vector<index> first(batch.first_sequences.begin(), batch.first_sequences.end());
    if (first.size() == batch.microbatches.size())
      first.resize(microbatches.size());  // else refused
    return step({microbatches, first, current, learning_rate_factor});
  }

  /// The sums of losses and counts over all ranks' parts. Collective; blocks.
  [[nodiscard]] statistics<loss> evaluate(rank_batch<microbatch> const& batch) {
    auto const microbatches = padded(batch, count_on_every_rank(batch));
    reserve(stepper_.plan_activations(microbatches, pass::inference));
    statistics_sum<loss> sums;
    add_evaluation(microbatches, sums);
    return over_ranks(sums);
  }

 private:
  [[nodiscard]] static std::size_t count_on_every_rank(rank_batch<microbatch> const& batch) {
    return std::max(batch.microbatches.size(), batch.max_microbatches);
  }
  [[nodiscard]] static std::vector<microbatch> padded(rank_batch<microbatch> const& batch,
                                                      std::size_t count) {
    std::vector<microbatch> out(batch.microbatches.begin(), batch.microbatches.end());
    out.resize(std::max(count, out.size()));
    return out;
  }

  Device& device_;
  stream compute_;
  exchange_stream exchanges_;
  stepper_type stepper_;
  arena memory_;
  std::size_t reserved_bytes_ = 0;
};

template <class M, class D, class C, class O>
session(M&, D&, process_groups<C>&, O, stepper_options) -> session<M, D, C, O>;
template <class M, class D, class C, class O>
session(M&, D&, process_groups<C>&, optimizer_groups<O>, stepper_options) -> session<M, D, C, O>;
template <class M, class D, class C, class O>
session(M&, D&, C&, optimizer_groups<O>, stepper_options) -> session<M, D, C, O>;
template <class M, class D, class C, class O>
session(M&, D&, C&, O, stepper_options) -> session<M, D, C, O>;

}  // namespace parallel::train
