// shared_results: a step's sums and its one factor, where the host and the device both reach them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <parallel/core/exact_sum.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/train/gradient_norm.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// Replaces a rank's sums by those of all ranks. Collective; blocks.
template <class Comm, class Stream, class Loss>
void add_over_ranks(Comm& world, Stream& traffic, statistics<Loss>& sums) {
  std::int64_t counts[2] = {sums.tokens, sums.correct};
  auto first = world.all_reduce(traffic, std::span<Loss>(&sums.loss, 1), reduction::sum);
  auto second = world.all_reduce(traffic, std::span<std::int64_t>(counts), reduction::sum);
  first.wait();
  second.wait();
  sums.tokens = counts[0];
  sums.correct = counts[1];
}

/// Of steps with elements T.
template <class T>
struct shared_results {
  using sums_type = statistics<loss_type<T>>;

  /// `exact`: the squared norm, and the loss when it is asked for so.
  template <class Device>
  shared_results(Device const& device, bool exact)
      : scale(device.template allocate_shared<accumulate_t<T>>(1)), norm(exact, device) {}

  /// One for each microbatch (at least one), where the passes write.
  template <class Device>
  [[nodiscard]] std::span<sums_type> cleared_sums(std::size_t microbatches, Device const& device) {
    microbatches_ = std::max<std::size_t>(1, microbatches);
    if (sums_.size() < microbatches_)
      sums_ = device.template allocate_shared<sums_type>(microbatches_);
    std::ranges::fill(sums(), sums_type{});
    return sums();
  }

  /// Of all microbatches, added in order.
  [[nodiscard]] sums_type total() const {
    sums_type out;
    for (auto const& one : sums()) out += one;
    return out;
  }
  /// The loss of all microbatches of all ranks, whatever ranks hold them: what a microbatch adds is
  /// rounded, the sum of these is not. Collective; blocks.
  template <class Comm, class Stream>
  [[nodiscard]] double exact_loss(Comm& world, Stream& traffic) const {
    exact_sum out;
    for (auto const& one : sums()) out.add(one.loss);
    return over_ranks(out, world, traffic);
  }

  buffer<accumulate_t<T>> scale;  // read by optimizers
  gradient_norm<T> norm;

 private:
  [[nodiscard]] std::span<sums_type> sums() const { return sums_.span().first(microbatches_); }

  buffer<sums_type> sums_;
  std::size_t microbatches_ = 0;
};

}  // namespace parallel::train
