// gradient_norm: the sum of squares of all reduced gradients, every element counted once.
//
// Each rank adds the elements that it accounts for. Rounded sums depend on how elements are
// divided; exact sums do not, and with them the clipped update has the same bits on every layout.
#pragma once

#include <span>
#include <type_traits>

#include <parallel/core/exact_sum.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/train/results/statistics_sum.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::train {

/// The norm of the summed gradients of elements T.
template <class T>
class gradient_norm {
 public:
  using gradient_type = accumulate_t<T>;
  using sum = ops::sum_t<gradient_type>;

  /// `exact`: the sum is not rounded. Sums of integers are exact in any case.
  template <class Device>
  gradient_norm(bool exact, Device const& device)
      : is_exact_(exact && !std::is_integral_v<gradient_type>),
        rounded_(device.template allocate_shared<sum>(1)),
        exact_(device.template allocate_shared<exact_sum>(is_exact_ ? 1 : 0)) {}

  /// Sets the sum to zero. No enqueued work may still add to it.
  void clear() {
    for (auto& sum_element : rounded_.span()) sum_element = {};
    for (auto& sum_element : exact_.span()) sum_element = {};
  }

  /// Enqueues the squares of the elements that this rank accounts for.
  template <class Stream>
  void add(zero::partitioned_unit<T> const& unit, Stream& compute) {
    for (std::size_t s = 0; s < unit.segments().size(); ++s) {
      if (!unit.is_trainable(s)) continue;
      std::span<gradient_type const> const own_gradients =
          unit.primary_range(s, unit.owned_gradients(s));
      if constexpr (!std::is_integral_v<gradient_type>)
        if (is_exact_) {
          ops::exact_squared_norm(compute, exact_.data(), own_gradients);
          continue;
        }
      ops::squared_norm(compute, rounded_.data(), own_gradients);
    }
  }

  /// Bytes of scratch that a GPU needs to add the squares of these units.
  template <class Units>
  [[nodiscard]] std::size_t scratch_bytes(Units const& units) {
    meta::stream planned;
    for (auto const& entry : units) add(entry.memory, planned);
    return planned.take_scratch();
  }

  /// The rounded sum of this rank; zero when the sum is exact.
  [[nodiscard]] sum const* rounded() const { return rounded_.data(); }

  [[nodiscard]] bool is_exact() const { return is_exact_; }
  /// The exact sum over all ranks, after all additions. Collective; blocks.
  template <class Comm, class Stream>
  [[nodiscard]] double exact_over_ranks(Comm& world, Stream& exchanges) {
    return over_ranks(*exact_.data(), world, exchanges);
  }

 private:
  bool is_exact_;
  buffer<sum> rounded_;
  buffer<exact_sum> exact_;
};

}  // namespace parallel::train
