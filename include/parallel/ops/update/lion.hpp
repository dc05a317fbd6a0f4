// lion (Chen et al., 2023, "Symbolic discovery of optimization algorithms") with decoupled weight
// decay as in LLM Foundry's decoupled_lionw: decay is scaled by lr / initial_lr, not by lr.
//
//   g = gradient * gradient_scale          p *= 1 - lr/initial_lr * weight_decay
//   p -= lr * sign(m + (1 - b1) (g - m))   m += (1 - b2) (g - m)
//
// Master weights p and m are accumulate_t<T>; values = T(p). The sign of 0 is 0. The sign of a NaN
// is NaN, so that a broken gradient becomes visible (PyTorch's sign makes it 0). Cost: one pass
// over four arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/detail/decoupled_decay.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

/// A is the type of the gradients.
template <class A>
struct lion_options {
  double lr = 1e-4;
  double initial_lr = 1e-4;  // 0: decay is not scaled
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;
  A const* gradient_scale = nullptr;  // read when the task runs: 1/tokens * clip factor; null: 1
};

namespace detail {

/// The factors that all elements of an update share, for gradients of type A.
template <class A>
struct lion_factors {
  A decay, lr, one_minus_beta1, one_minus_beta2;

  explicit lion_factors(lion_options<A> const& o)
      : decay(static_cast<A>(decoupled_decay(o.lr, o.initial_lr, o.weight_decay))),
        lr(static_cast<A>(o.lr)),
        one_minus_beta1(static_cast<A>(1.0 - o.beta1)),
        one_minus_beta2(static_cast<A>(1.0 - o.beta2)) {}
};

}  // namespace detail

template <class T, class A = accumulate_t<T>>
struct lion_arguments {
  static constexpr char const* name = "lion";
  std::span<T> values;
  std::span<A> master;
  std::span<A> exp_avg;
  std::span<A const> gradients;
  lion_options<A> options;

  [[nodiscard]] std::uint64_t flops() const { return 9 * values.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(values); }
  void compute(index part) const {
    detail::lion_factors<A> const f(options);
    A const factor = options.gradient_scale == nullptr ? A(1) : *options.gradient_scale;
    detail::for_each_in_run(part, values, [&](std::size_t i) {
      A const m = exp_avg[i];
      A const change = gradients[i] * factor - m;
      A const direction = m + f.one_minus_beta1 * change;
      A const sign = direction > A(0) ? A(1) : direction < A(0) ? A(-1) : direction;
      A const p = master[i] * f.decay - f.lr * sign;
      exp_avg[i] = m + f.one_minus_beta2 * change;
      master[i] = p;
      values[i] = static_cast<T>(p);
    });
  }
};

struct lion_fn {
  template <class Stream, class T, class A = accumulate_t<T>>
  void operator()(Stream& s, std::span<T> values, std::span<std::type_identity_t<A>> master,
                  std::span<std::type_identity_t<A>> exp_avg,
                  std::span<std::type_identity_t<A> const> gradients,
                  lion_options<std::type_identity_t<A>> options) const {
    detail::require_equal("lion", "the size of values", values.size(), "that of master",
                          master.size());
    detail::require_equal("lion", "the size of values", values.size(), "that of exp_avg",
                          exp_avg.size());
    detail::require_equal("lion", "the size of values", values.size(), "that of gradients",
                          gradients.size());
    run_operation(s, lion_arguments<T>{values, master, exp_avg, gradients, options});
  }
};
/// lion(s, values, master, exp_avg, gradients, options): one update in place. values may be the
/// same memory as master when T is its own accumulation type.
inline constexpr lion_fn lion{};

}  // namespace parallel::ops
