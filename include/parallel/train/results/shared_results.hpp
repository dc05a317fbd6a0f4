// shared_results: a step's sums and its scale factor, in memory that host and device both reach.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <parallel/core/exact_sum.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/ops/update/step_results.hpp>
#include <parallel/train/model.hpp>
#include <parallel/train/results/gradient_norm.hpp>
#include <parallel/train/results/statistics_sum.hpp>
#include <parallel/train/results/tensor_squares.hpp>
#include <parallel/train/step_limits.hpp>

namespace parallel::train {

/// The result of a step over the whole global batch; the same on every rank.
template <class Loss>
struct step_result {
  statistics<Loss> sums;
  Loss squared_norm = {};                          ///< of the summed gradient
  double gradient_norm = 0;                        ///< of the mean gradient, before clipping
  double gradient_scale = 1;                       ///< the optimizer's common factor: clip / tokens
  std::vector<tensor_squares<Loss>> tensors = {};  ///< when measured
  std::vector<double> record = {};                 ///< what the model's layers report (context)
  bool stop_asked = false;                         ///< by some rank
  step_outcome outcome = step_outcome::updated;

  /// Whether the step updated parameters and states; else they are unchanged.
  [[nodiscard]] bool updated() const { return outcome == step_outcome::updated; }
};

/// The results of steps with elements T.
template <class T>
class shared_results {
 public:
  using gradient_type = accumulate_t<T>;
  using loss = loss_type<T>;

  /// `exact`: the squared norm and the loss are sums without rounding. `record_size`: the numbers
  /// that the model's layers report.
  template <class Device>
  shared_results(Device const& device, bool exact, std::size_t record_size = 0)
      : norm(exact, device),
        is_exact_(exact && !std::is_integral_v<loss>),
        scale_(device.template allocate_shared<gradient_type>(1)),
        totals_(device.template allocate_shared<ops::step_sums<loss>>(1)),
        exact_loss_(device.template allocate_shared<exact_sum>(is_exact_ ? 1 : 0)),
        record_(device.template allocate_shared<double>(record_size)) {
    *scale_.data() = 1;
  }

  /// Zeroed sums that the passes add to: one for each microbatch, at least one.
  template <class Device>
  [[nodiscard]] std::span<statistics<loss>> cleared_sums(std::size_t microbatches,
                                                         Device const& device) {
    microbatches_ = std::max<std::size_t>(1, microbatches);
    if (sums_.size() < microbatches_)
      sums_ = device.template allocate_shared<statistics<loss>>(microbatches_);
    std::ranges::fill(sums(), statistics<loss>{});
    return sums();
  }

  /// The zeroed numbers to which the layers of a step add.
  [[nodiscard]] std::span<double> cleared_record() {
    std::ranges::fill(record_.span(), 0.0);
    return record_.span();
  }

  /// What the layers of a step have reported, over all ranks once it was exchanged.
  [[nodiscard]] std::span<double const> record() const { return record_.span(); }

  /// Adds the sums of all this rank's microbatches, in order.
  void add_to(statistics_sum<loss>& total) const { total.add(sums()); }

  /// Sets whether this rank asks to stop, in the next exchange.
  void ask_to_stop(bool wish) { totals_.data()->stop_requests() = wish ? 1 : 0; }

  /// Enqueues the sums over all ranks, in one exchange, for which `compute` then waits. Exact sums
  /// are rounded by the host, which waits for them: they are exchanged after the work on `compute`.
  template <class Comm, class Stream, class Exchange>
  void exchange(Comm& world, Stream& compute, Exchange& exchanges) {
    ops::step_totals(compute, totals_.data(), sums(), norm.rounded());
    exchanges.wait(compute.record());
    world.all_reduce(exchanges, totals_.data()->span(), reduction::sum).wait_on(compute);
    if (!record_.span().empty())
      world.all_reduce(exchanges, record_.span(), reduction::sum).wait_on(compute);
    if constexpr (!std::is_integral_v<loss>) {
      if (!is_exact_) return;
      auto& [all_loss, tokens, correct, squared_norm, stops] = totals_.data()->values;
      squared_norm = norm.exact_over_ranks(world, exchanges);
      statistics_sum<loss> own_sums;
      add_to(own_sums);
      all_loss = own_sums.exact_loss_over_ranks(*exact_loss_.data(), world, exchanges);
    }
  }

  /// Enqueues the computation of the scale factor from the exchanged sums; `threshold` clips the
  /// norm.
  template <class Stream>
  void enqueue_scale(Stream& compute, double threshold) {
    if constexpr (!std::is_integral_v<gradient_type>)
      ops::gradient_scale(compute, scale_.data(), totals_.data(), threshold);
  }
  /// The outcome that follows from the exchanged loss and norm, the same on every rank; blocks
  /// until they are known. Steps with integers always update.
  template <class Stream>
  [[nodiscard]] step_outcome judge([[maybe_unused]] Stream& compute,
                                   [[maybe_unused]] step_limits const& limits) const {
    if constexpr (std::is_integral_v<loss>) {
      return step_outcome::updated;
    } else {
      compute.synchronize();
      auto const& totals = *totals_.data();
      auto const sums = totals.statistics_of_tokens();
      auto const tokens = static_cast<double>(std::max<std::int64_t>(1, sums.tokens));
      constexpr double unclipped = std::numeric_limits<double>::infinity();
      return train::judge(sums.loss / tokens, ops::size_of_gradient(totals, unclipped).norm,
                          limits);
    }
  }

  /// The scale factor, where optimizers read it.
  [[nodiscard]] gradient_type const* scale() const { return scale_.data(); }

  /// The exchanged sums, and what follows from them, when `compute` has completed its work.
  [[nodiscard]] step_result<loss> result([[maybe_unused]] double threshold) const {
    auto const& totals = *totals_.data();
    step_result<loss> out{.sums = totals.statistics_of_tokens(),
                          .squared_norm = totals.squared_norm(),
                          .record = {record_.span().begin(), record_.span().end()},
                          .stop_asked = totals.stop_requested()};
    if constexpr (!std::is_integral_v<gradient_type>) {
      auto const size = ops::size_of_gradient(totals, threshold);
      out.gradient_norm = size.norm;
      out.gradient_scale = size.scale;
    }
    return out;
  }

  gradient_norm<T> norm;

 private:
  [[nodiscard]] std::span<statistics<loss>> sums() const {
    return sums_.span().first(microbatches_);
  }

  bool is_exact_;
  buffer<gradient_type> scale_;
  buffer<ops::step_sums<loss>> totals_;
  buffer<exact_sum> exact_loss_;
  buffer<double> record_;
  buffer<statistics<loss>> sums_;
  std::size_t microbatches_ = 0;
};

}  // namespace parallel::train
