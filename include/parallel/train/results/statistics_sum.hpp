// statistics_sum: the losses and counts of many microbatches, summed on a rank and then over all
// ranks.
//
// Rounded sums of losses depend on which rank holds which microbatch; exact sums do not.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/exact_sum.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// The sum over all ranks of what `local` holds on each. Collective; blocks.
template <class Comm, class Stream>
[[nodiscard]] double over_ranks(exact_sum& local, Comm& world, Stream& stream) {
  auto digits = world.all_reduce(stream, local.digits(), reduction::sum);
  world.all_reduce(stream, std::span<double>(&local.special(), 1), reduction::sum).wait();
  digits.detach();  // its exchange was enqueued before the one that is waited for
  return local.value();
}

/// The sum of the statistics of microbatches; it begins with none.
template <class Loss>
class statistics_sum {
 public:
  /// Adds the statistics of some of a rank's microbatches. Cost: about ten instructions each.
  void add(std::span<statistics<Loss> const> microbatches) {
    statistics<Loss> added;
    for (auto const& microbatch : microbatches) {
      added += microbatch;
      if constexpr (!std::is_integral_v<Loss>) exact_loss_.add(microbatch.loss);
    }
    local_ += added;
  }

  /// The rounded sums of what this rank has added.
  [[nodiscard]] statistics<Loss> const& local() const { return local_; }

  /// The sums over all ranks, which exchange memory of `device`. `exact`: the loss of each
  /// microbatch is rounded, their sum is not. Sums of integers are exact in any case. Collective;
  /// blocks.
  template <class Device, class Comm, class Stream>
  [[nodiscard]] statistics<Loss> over_ranks(Device const& device, Comm& world, Stream& stream,
                                            bool exact) const {
    auto out = local_;
    auto const counts = device.template allocate_shared<std::int64_t>(2);
    counts.span()[0] = out.tokens;
    counts.span()[1] = out.correct;
    auto summed = world.all_reduce(stream, counts.span(), reduction::sum);
    if (std::is_integral_v<Loss> || !exact) {
      auto const loss = device.template allocate_shared<Loss>(1);
      *loss.data() = out.loss;
      world.all_reduce(stream, loss.span(), reduction::sum).wait();
      out.loss = *loss.data();
    } else {
      auto const room = device.template allocate_shared<exact_sum>(1);
      out.loss = exact_loss_over_ranks(*room.data(), world, stream);
    }
    summed.detach();  // enqueued before the losses, which were waited for
    out.tokens = counts.span()[0];
    out.correct = counts.span()[1];
    return out;
  }

  /// The loss alone, as over_ranks gives it with `exact`. Ranks exchange it in `room`. Collective;
  /// blocks.
  template <class Comm, class Stream>
  [[nodiscard]] Loss exact_loss_over_ranks(exact_sum& room, Comm& world, Stream& stream) const {
    room = exact_loss_;
    return static_cast<Loss>(train::over_ranks(room, world, stream));
  }

 private:
  statistics<Loss> local_;
  exact_sum exact_loss_;
};

}  // namespace parallel::train
