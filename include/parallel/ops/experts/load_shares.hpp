// load_shares: the share of each expert in all choices, from numbers of choices.
//
// It is a pointwise operation (pointwise/elementwise.hpp) whose divisor, the sum of all loads in
// double, is read when its task runs. Cost: one pass over the loads.
#pragma once

#include <cstddef>
#include <type_traits>

#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::ops {

/// The function of `load_shares` for E loads of type T, whose shares have type A.
template <class A, class T>
struct share_of_loads : detail::pointwise_function<false, 2> {
  static constexpr char const* name = "load_shares";
  static constexpr char const* sizes[] = {"the size of shares", "that of loads"};
  T const* loads;
  std::size_t count;  ///< E
  A factor;
  A summand = 0;

  [[nodiscard]] PARALLELLM_HOST_DEVICE share_of_loads when_run() const {
    auto result = *this;
    if constexpr (!std::is_integral_v<A>) {
      double total = 0.0;
      for (std::size_t e = 0; e < count; ++e)
        total += static_cast<double>(static_cast<A>(loads[e]));
      result.summand = total == 0.0 ? static_cast<A>(factor / static_cast<double>(count)) : A(0);
      result.factor = total == 0.0 ? A(0) : static_cast<A>(factor / total);
    }
    return result;
  }
  PARALLELLM_HOST_DEVICE A operator()(A load) const { return load * factor + summand; }
};
template <class A, class T>
using load_shares_arguments = pointwise_arguments<share_of_loads<A, T>, A, T>;

/// load_shares(s, shares, loads, factor): shares[e] = factor loads[e] / Σ loads, or factor / E for
/// E loads of zero. In std::uint64_t nothing is divided.
inline constexpr auto load_shares = []<class Stream, class T, class A>(
                                        Stream& s, std::span<A> shares, std::span<T const> loads,
                                        std::type_identity_t<A> factor) {
  detail::run_pointwise(s, share_of_loads<A, T>{{}, loads.data(), loads.size(), factor}, shares,
                        loads);
};

}  // namespace parallel::ops
