// adamw with decoupled weight decay (Loshchilov, Hutter, 2019) as in LLM Foundry's decoupled_adamw:
// decay is scaled by lr / initial_lr, not by lr.
//
//   g = gradient * gradient_scale          p *= 1 - lr/initial_lr * weight_decay
//   m = b1 m + (1 - b1) g                  v = b2 v + (1 - b2) g^2
//   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// Master weights p, m and v are accumulate_t<T>; values = T(p). Factors that are the same for all
// elements are computed in double. Cost: one pass over the five arrays.
#pragma once

#include <cmath>
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
struct adamw_options {
  double lr = 1e-3;
  double initial_lr = 1e-3;  // 0: decay is not scaled
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 1e-5;
  std::int64_t step = 1;              // t, from 1
  A const* gradient_scale = nullptr;  // read when the task runs: 1/tokens * clip factor; null: 1
};

namespace detail {

/// The factors that all elements of an update share, for gradients of type A.
template <class A>
struct adamw_factors {
  A decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_correction2, eps;

  explicit adamw_factors(adamw_options<A> const& o)
      : decay(static_cast<A>(decoupled_decay(o.lr, o.initial_lr, o.weight_decay))),
        beta1(static_cast<A>(o.beta1)),
        one_minus_beta1(static_cast<A>(1.0 - o.beta1)),
        beta2(static_cast<A>(o.beta2)),
        one_minus_beta2(static_cast<A>(1.0 - o.beta2)),
        step_size(static_cast<A>(o.lr / (1.0 - std::pow(o.beta1, static_cast<double>(o.step))))),
        inverse_correction2(
            static_cast<A>(1.0 / std::sqrt(1.0 - std::pow(o.beta2, static_cast<double>(o.step))))),
        eps(static_cast<A>(o.eps)) {}
};

}  // namespace detail

template <class T, class A = accumulate_t<T>>
struct adamw_arguments {
  static constexpr char const* name = "adamw";
  std::span<T> values;
  std::span<A> master;
  std::span<A> exp_avg;
  std::span<A> exp_avg_sq;
  std::span<A const> gradients;
  adamw_options<A> options;

  [[nodiscard]] std::uint64_t flops() const { return 15 * values.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(values); }
  void compute(index part) const {
    detail::adamw_factors<A> const f(options);
    A const factor = options.gradient_scale == nullptr ? A(1) : *options.gradient_scale;
    detail::for_each_in_run(part, values, [&](std::size_t i) {
      A const g = gradients[i] * factor;
      A const m = f.beta1 * exp_avg[i] + f.one_minus_beta1 * g;
      A const v = f.beta2 * exp_avg_sq[i] + f.one_minus_beta2 * g * g;
      A const denominator = std::sqrt(v) * f.inverse_correction2 + f.eps;
      A const p = master[i] * f.decay - f.step_size * (m / denominator);
      exp_avg[i] = m;
      exp_avg_sq[i] = v;
      master[i] = p;
      values[i] = static_cast<T>(p);
    });
  }
};

struct adamw_fn {
  template <class Stream, class T, class A = accumulate_t<T>>
  void operator()(Stream& s, std::span<T> values, std::span<std::type_identity_t<A>> master,
                  std::span<std::type_identity_t<A>> exp_avg,
                  std::span<std::type_identity_t<A>> exp_avg_sq,
                  std::span<std::type_identity_t<A> const> gradients,
                  adamw_options<std::type_identity_t<A>> options) const {
    detail::require_equal("adamw", "the size of values", values.size(), "that of master",
                          master.size());
    detail::require_equal("adamw", "the size of values", values.size(), "that of exp_avg",
                          exp_avg.size());
    detail::require_equal("adamw", "the size of values", values.size(), "that of exp_avg_sq",
                          exp_avg_sq.size());
    detail::require_equal("adamw", "the size of values", values.size(), "that of gradients",
                          gradients.size());
    require(options.step >= 1, "ops::adamw: step is ", options.step,
            ", but the first update is step 1");
    run_operation(s, adamw_arguments<T>{values, master, exp_avg, exp_avg_sq, gradients, options});
  }
};
/// adamw(s, values, master, exp_avg, exp_avg_sq, gradients, options): one update in place. values
/// may be the same memory as master when T is its own accumulation type.
inline constexpr adamw_fn adamw{};

}  // namespace parallel::ops
