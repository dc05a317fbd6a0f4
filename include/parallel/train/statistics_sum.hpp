// statistics_sum: the losses and counts of many microbatches, added up on a rank and then over all.
//
// Rounded sums of losses depend on which rank holds which microbatch; exact ones do not.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/exact_sum.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// The sum over all ranks of what `own` holds on each. Collective; blocks.
template <class Comm, class Stream>
[[nodiscard]] double over_ranks(exact_sum& own, Comm& world, Stream& stream) {
  world.all_reduce(stream, own.digits(), reduction::sum).wait();
  world.all_reduce(stream, std::span<double>(&own.special(), 1), reduction::sum).wait();
  return own.value();
}

/// Begins with nothing.
template <class Loss>
class statistics_sum {
 public:
  /// Adds those of some of a rank's microbatches. Cost: some ten instructions a microbatch.
  void add(std::span<statistics<Loss> const> microbatches) {
    statistics<Loss> together;
    for (auto const& one : microbatches) {
      together += one;
      if constexpr (!std::is_integral_v<Loss>) exact_loss_.add(one.loss);
    }
    here_ += together;
  }

  /// What this rank has added, rounded.
  [[nodiscard]] statistics<Loss> const& here() const { return here_; }

  /// The sums over all ranks. `exact`: what a microbatch adds to the loss is rounded, the sum of
  /// these is not. Sums of integers are exact in any case. Collective; blocks.
  template <class Comm, class Stream>
  [[nodiscard]] statistics<Loss> over_ranks(Comm& world, Stream& stream, bool exact) const {
    auto out = here_;
    std::int64_t counts[2] = {out.tokens, out.correct};
    if (std::is_integral_v<Loss> || !exact) {
      auto first = world.all_reduce(stream, std::span<Loss>(&out.loss, 1), reduction::sum);
      auto second = world.all_reduce(stream, std::span<std::int64_t>(counts), reduction::sum);
      first.wait();
      second.wait();
    } else {
      world.all_reduce(stream, std::span<std::int64_t>(counts), reduction::sum).wait();
      out.loss = exact_loss_over_ranks(world, stream);
    }
    out.tokens = counts[0];
    out.correct = counts[1];
    return out;
  }

  /// The loss alone, as `over_ranks` with `exact` gives it. Collective; blocks.
  template <class Comm, class Stream>
  [[nodiscard]] Loss exact_loss_over_ranks(Comm& world, Stream& stream) const {
    auto own = exact_loss_;
    return static_cast<Loss>(train::over_ranks(own, world, stream));
  }

 private:
  statistics<Loss> here_;
  exact_sum exact_loss_;
};

}  // namespace parallel::train
