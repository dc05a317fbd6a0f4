// stepper: one training step composed from strategies, for any model.
//
//   gradients = Σ over all ranks' microbatches of ∂(sum of token losses)
//   update    = optimizer(gradients × clip / loss tokens of the global batch)
//
// Gradients, losses and counts are only summed; the one division happens in the optimizer. During
// the last microbatch's backward pass complete units are handed, bucket by bucket, to the
// communication stream, so their reduction overlaps with the rest of the pass.
#pragma once

#include <cmath>
#include <deque>
#include <span>
#include <vector>

#include <parallel/comm/reduction.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/train/clip_gradients.hpp>
#include <parallel/train/model.hpp>
#include <parallel/train/optimizer_groups.hpp>
#include <parallel/train/tensor_squares.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::train {

struct stepper_options {
  zero::stage stage = zero::stage::none;
  /// Reductions start when this many gradient bytes are complete (PyTorch DDP uses 25 MiB).
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// Of real gradients; exact rings are not clipped.
  clipping clip = {};
};

/// What a step did, over the whole global batch; the same on every rank.
template <class Loss>
struct step_result {
  statistics<Loss> sums;
  Loss squared_norm = {};                          // of the summed gradient
  double gradient_norm = 0;                        // of the mean gradient, before clipping
  double gradient_scale = 1;                       // the optimizer's one factor: clip / tokens
  std::vector<tensor_squares<Loss>> tensors = {};  // when measured
};

/// `Comm` sums over the data ranks. Compute runs on `compute`, collectives on `traffic`.
template <class Model, class Device, class Comm, class Optimizer>
class stepper {
 public:
  using element = typename Model::element;
  using gradient_type = accumulate_t<element>;
  using stream = typename Device::stream_type;
  using loss = loss_type<element>;
  using microbatch = typename Model::microbatch;

  /// Allocates all units on `device` and binds `model` to them; both must outlive the stepper and
  /// stay where they are.
  stepper(Model& model, Device& device, Comm& comm, optimizer_groups<Optimizer> groups,
          stepper_options options)
      : model_(model),
        device_(device),
        comm_(comm),
        optimizers_(std::move(groups.optimizers)),
        options_(options) {
    model.visit_units([&](std::string name, auto& layer, std::vector<part> completes,
                          std::vector<parameter_base<element>*> uses) {
      unit<element> layout(std::move(name), layer, comm.size(), groups.key_of);
      for (auto* const use : uses) layout.add_use(*use);
      for (auto const& part_of : layout.segments())
        require(0 <= part_of.key.group && part_of.key.group < std::ssize(optimizers_), "unit ",
                layout.name(), ": optimizer group ", part_of.key.group, " of ", optimizers_.size());
      units_.push_back({{std::move(layout), options.stage, comm.rank(), comm.size(),
                         state_names().size(), device},
                        std::move(completes)});
    });
  }

  /// The same with one optimizer for all parameters.
  stepper(Model& model, Device& device, Comm& comm, Optimizer optimizer, stepper_options options)
      : stepper(model, device, comm, optimizer_groups<Optimizer>(std::move(optimizer)), options) {}

  void initialise(std::uint64_t seed) {
    for (auto& [memory, completes] : units_) memory.initialise(seed);
  }

  /// One update. `batches` are this rank's microbatches, `first_sequences` their places in the
  /// global batch, `where.step` counts finished steps. Blocks until the step is done.
  step_result<loss> step(stream& compute, stream& traffic, arena& memory,
                         std::span<microbatch const> batches,
                         std::span<index const> first_sequences, position where,
                         double learning_rate_factor) {
    for (auto const& [memory_of, completes] : units_)
      if (batches.empty())
        memory_of.clear_gradients(compute);
      else
        memory_of.prepare_gradients(compute);
    statistics<loss> sums;
    requests_type requests;
    std::vector<pending> bucket;
    for (std::size_t m = 0; m < batches.size(); ++m) {
      where.first_sequence = static_cast<std::uint64_t>(first_sequences[m]);
      context<stream> c{compute, memory, pass::training, where, model_.sequence(batches[m])};
      c.fresh_gradients = m == 0;
      bool const last = m + 1 == batches.size();
      run_microbatch(model_, c, batches[m], sums, [&](part done) {
        if (last) collect(done, bucket, compute, traffic, requests);
      });
    }
    if (batches.empty())  // a rank without a sequence still takes part in every reduction
      for (part p = static_cast<part>(model_.num_blocks()); p >= enter; --p)
        collect(p, bucket, compute, traffic, requests);
    flush(bucket, compute, traffic, requests);
    for (auto& request : requests) request.wait_on(compute);
    requests.clear();

    loss squared_norm = {};
    for (auto const& [unit_memory, completes] : units_) {
      unit_memory.join_uses(compute);
      for (std::size_t s = 0; s < unit_memory.segments().size(); ++s)
        ops::squared_norm(compute, &squared_norm, unit_memory.norm_part(s));
    }
    compute.synchronize();
    return finish(compute, traffic, sums, squared_norm, where.step, learning_rate_factor);
  }

  /// Adds a forward pass of this rank's microbatches to `sums`; sum them over ranks when all are
  /// done. Blocks until they have run.
  void add_evaluation(stream& compute, arena& memory, std::span<microbatch const> batches,
                      statistics<loss>& sums) {
    for (auto const& batch : batches) {
      context<stream> c{compute, memory, pass::inference, {}, model_.sequence(batch)};
      evaluate_microbatch(model_, c, batch, sums);
    }
    compute.synchronize();
  }

  /// Replaces this rank's sums by those of all ranks.
  void add_over_ranks(stream& traffic, statistics<loss>& sums) {
    std::int64_t counts[2] = {sums.tokens, sums.correct};
    auto first = comm_.all_reduce(traffic, std::span<loss>(&sums.loss, 1), reduction::sum);
    auto second = comm_.all_reduce(traffic, std::span<std::int64_t>(counts), reduction::sum);
    first.wait();
    second.wait();
    sums.tokens = counts[0];
    sums.correct = counts[1];
  }

  /// Whether the following steps measure every tensor (step_result::tensors): on all ranks alike.
  void measure_tensors(bool wanted) { measuring_ = wanted; }

  struct trained_unit {
    zero::partitioned_unit<element> memory;
    std::vector<part> completes;  // for each use, the part that completes its gradients
  };

  [[nodiscard]] std::deque<trained_unit>& units() { return units_; }
  [[nodiscard]] std::deque<trained_unit> const& units() const { return units_; }
  [[nodiscard]] std::span<std::string_view const> state_names() const {
    return optimizers_.front().state_names();
  }

 private:
  struct pending {
    zero::partitioned_unit<element> const* memory;
    std::size_t use;
  };
  using requests_type = std::vector<request>;

  /// Adds the units that `done` completes to the bucket and starts its reduction when full.
  void collect(part done, std::vector<pending>& bucket, stream& compute, stream& traffic,
               requests_type& requests) {
    for (auto const& [memory, completes] : units_)
      for (std::size_t use = 0; use < completes.size(); ++use)
        if (completes[use] == done) bucket.push_back({&memory, use});
    std::size_t bytes = 0;
    for (auto const& [memory, use] : bucket) bytes += memory->gradient_bytes();
    if (bytes >= options_.bucket_bytes) flush(bucket, compute, traffic, requests);
  }

  void flush(std::vector<pending>& bucket, stream& compute, stream& traffic,
             requests_type& requests) {
    if (bucket.empty()) return;
    traffic.wait(compute.record());
    for (auto const& [memory, use] : bucket) memory->reduce(comm_, traffic, use, requests);
    bucket.clear();
  }

  step_result<loss> finish(stream& compute, stream& traffic, statistics<loss> sums,
                           loss squared_norm, std::uint32_t step, double learning_rate_factor) {
    auto norm = comm_.all_reduce(traffic, std::span<loss>(&squared_norm, 1), reduction::sum);
    add_over_ranks(traffic, sums);
    norm.wait();

    step_result<loss> result{.sums = sums, .squared_norm = squared_norm};
    gradient_type scale{1};
    if constexpr (!std::is_integral_v<gradient_type>) {
      double const tokens = sums.tokens > 0 ? static_cast<double>(sums.tokens) : 1.0;
      result.gradient_norm = std::sqrt(squared_norm) / tokens;
      result.gradient_scale = clip(compute, traffic, result.gradient_norm, tokens) / tokens;
      scale = static_cast<gradient_type>(result.gradient_scale);
    }
    step_info<gradient_type> const info{std::int64_t{step} + 1, learning_rate_factor, &scale};
    update(compute, traffic, info, result);
    traffic.wait(compute.record());
    requests_type requests;
    for (auto const& [memory, completes] : units_) memory.gather(comm_, traffic, requests);
    for (auto& request : requests) request.wait_on(compute);
    compute.synchronize();
    return result;
  }

  /// Clips the gradients by what is no common factor, and returns the common factor.
  double clip(stream& compute, stream& traffic, double norm, double tokens) {
    double const threshold = options_.clip.threshold;
    switch (options_.clip.kind) {
      case clipping_kind::norm: return std::min(1.0, threshold / (norm + 1e-6));
      case clipping_kind::value:
        for (auto const& entry : units_) clip_values(entry.memory, compute, threshold, tokens);
        return 1.0;
      case clipping_kind::adaptive:
        clip_rows(units_, comm_, compute, traffic, threshold, tokens);
        return 1.0;
      case clipping_kind::none: break;
    }
    return 1.0;
  }

  /// Updates all units, measuring every tensor when asked to.
  void update(stream& compute, stream& traffic, step_info<gradient_type> const& info,
              step_result<loss>& result) {
    std::span<Optimizer const> const optimizers(optimizers_);
    if (!measuring_) {
      for (auto const& entry : units_) entry.memory.update(compute, optimizers, info);
      return;
    }
    square_meter<element> meter(units_);
    for (auto const& entry : units_) {
      meter.before(entry.memory, compute, device_);
      entry.memory.update(compute, optimizers, info);
      meter.after(entry.memory, compute);
    }
    result.tensors = meter.finish(comm_, traffic);
  }

  Model& model_;
  Device& device_;
  Comm& comm_;
  std::vector<Optimizer> optimizers_;  // by group
  stepper_options options_;
  bool measuring_ = false;
  std::deque<trained_unit> units_;  // addresses stay
};

}  // namespace parallel::train
