// adamw and lion, updates that treat every element alike, with weight decay decoupled from the
// learning rate as in LLM Foundry: it is scaled by lr / initial_lr, not by lr.
//
//   g = gradient * gradient_scale          p *= 1 - lr/initial_lr * weight_decay
//   adamw (Loshchilov, Hutter, 2019)       m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
//                                          p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) +
//                                          eps)
//   lion (Chen et al., 2023, "Symbolic     p -= lr * sign(m + (1 - b1) (g - m))
//   discovery of optimization algorithms") m += (1 - b2) (g - m)
//
// Master weights p and the averages m and v are accumulate_t<T>; values = T(p). Factors that are
// the same for all elements are computed in double. In lion the sign of 0 is 0, and that of a NaN
// is NaN, so that a broken gradient becomes visible (PyTorch's sign makes it 0). Cost: one pass
// over the arrays.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

/// A is the type of the gradients.
template <class A>
struct adamw_options {
  double lr = 1e-3;
  double initial_lr = 1e-3;  ///< 0: decay is not scaled
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 1e-5;
  std::int64_t step = 1;              ///< t, from 1
  A const* gradient_scale = nullptr;  ///< read when the task runs: 1/tokens * clip factor; null: 1
};

template <class A>
struct lion_options {
  double lr = 1e-4;
  double initial_lr = 1e-4;  ///< 0: decay is not scaled
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;
  A const* gradient_scale = nullptr;  ///< as in adamw_options
};

namespace detail {

/// The factor by which an update multiplies a weight. With an initial_lr of 0 the decay is not
/// scaled at all.
template <class Options>
[[nodiscard]] constexpr double decoupled_decay(Options const& o) {
  if (o.weight_decay == 0.0) return 1.0;
  return 1.0 - (o.initial_lr == 0.0 ? 1.0 : o.lr / o.initial_lr) * o.weight_decay;
}

/// The factors that all elements of an update share, for gradients of type A, and the update of one
/// element by the loops and the kernel.
template <class A>
struct adamw_factors {
  using options = adamw_options<A>;
  static constexpr char const *name = "adamw",
                              *states[] = {"that of exp_avg", "that of exp_avg_sq"};
  static constexpr unsigned flops = 15;
  A decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_correction2, eps;

  explicit adamw_factors(options const& o)
      : decay(static_cast<A>(decoupled_decay(o))),
        beta1(static_cast<A>(o.beta1)),
        one_minus_beta1(static_cast<A>(1.0 - o.beta1)),
        beta2(static_cast<A>(o.beta2)),
        one_minus_beta2(static_cast<A>(1.0 - o.beta2)),
        step_size(static_cast<A>(o.lr / (1.0 - std::pow(o.beta1, static_cast<double>(o.step))))),
        inverse_correction2(
            static_cast<A>(1.0 / std::sqrt(1.0 - std::pow(o.beta2, static_cast<double>(o.step))))),
        eps(static_cast<A>(o.eps)) {}

  PARALLELLM_HOST_DEVICE void update(A g, A& p, A& m, A& v) const {
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    A const denominator = std::sqrt(v) * inverse_correction2 + eps;
    p = p * decay - step_size * (m / denominator);
  }
};

template <class A>
struct lion_factors {
  using options = lion_options<A>;
  static constexpr char const *name = "lion", *states[] = {"that of exp_avg"};
  static constexpr unsigned flops = 9;
  A decay, lr, one_minus_beta1, one_minus_beta2;

  explicit lion_factors(options const& o)
      : decay(static_cast<A>(decoupled_decay(o))),
        lr(static_cast<A>(o.lr)),
        one_minus_beta1(static_cast<A>(1.0 - o.beta1)),
        one_minus_beta2(static_cast<A>(1.0 - o.beta2)) {}

  PARALLELLM_HOST_DEVICE void update(A g, A& p, A& m) const {
    A const change = g - m;
    A const direction = m + one_minus_beta1 * change;
    A const sign = direction > A(0) ? A(1) : direction < A(0) ? A(-1) : direction;
    p = p * decay - lr * sign;
    m = m + one_minus_beta2 * change;
  }
};

}  // namespace detail

/// The arguments of an update of elements by the rule Factors.
template <template <class> class Factors, class T, class A = accumulate_t<T>>
struct update_arguments {
  static constexpr char const* name = Factors<A>::name;
  std::span<T> values;
  std::span<A> master;
  std::array<std::span<A>, std::size(Factors<A>::states)> states;
  std::span<A const> gradients;
  typename Factors<A>::options options;

  [[nodiscard]] std::uint64_t flops() const { return Factors<A>::flops * values.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(values); }
  void compute(index part) const {
    Factors<A> const f(options);
    A const gradient_factor = options.gradient_scale == nullptr ? A(1) : *options.gradient_scale;
    auto const update = [&](auto... state) {
      detail::for_each_in_run(part, values, [&](std::size_t i) {
        f.update(gradients[i] * gradient_factor, master[i], state[i]...);
        values[i] = static_cast<T>(master[i]);
      });
    };
    std::apply(update, states);
  }
};
template <class T>
using adamw_arguments = update_arguments<detail::adamw_factors, T>;
template <class T>
using lion_arguments = update_arguments<detail::lion_factors, T>;

namespace detail {

/// Throws `error` unless all arrays of an update have one size.
template <template <class> class Factors, class T>
void check_update(update_arguments<Factors, T> const& a) {
  auto const expect = [&](char const* other, std::size_t size) {
    require_equal(a.name, "the size of values", a.values.size(), other, size);
  };
  expect("that of master", a.master.size());
  for (std::size_t i = 0; i < a.states.size(); ++i)
    expect(Factors<accumulate_t<T>>::states[i], a.states[i].size());
  expect("that of gradients", a.gradients.size());
}

}  // namespace detail

struct adamw_fn {
  template <class Stream, class T, class A = accumulate_t<T>>
  void operator()(Stream& s, std::span<T> values, std::span<std::type_identity_t<A>> master,
                  std::span<std::type_identity_t<A>> exp_avg,
                  std::span<std::type_identity_t<A>> exp_avg_sq,
                  std::span<std::type_identity_t<A> const> gradients,
                  adamw_options<std::type_identity_t<A>> options) const {
    adamw_arguments<T> const a{values, master, {exp_avg, exp_avg_sq}, gradients, options};
    detail::check_update(a);
    require(options.step >= 1, "ops::adamw: step is ", options.step,
            ", but the first update is step 1");
    run_operation(s, a);
  }
};
/// adamw(s, values, master, exp_avg, exp_avg_sq, gradients, options): one update in place. values
/// may be the same memory as master when T is its own accumulation type.
inline constexpr adamw_fn adamw{};

struct lion_fn {
  template <class Stream, class T, class A = accumulate_t<T>>
  void operator()(Stream& s, std::span<T> values, std::span<std::type_identity_t<A>> master,
                  std::span<std::type_identity_t<A>> exp_avg,
                  std::span<std::type_identity_t<A> const> gradients,
                  lion_options<std::type_identity_t<A>> options) const {
    lion_arguments<T> const a{values, master, {exp_avg}, gradients, options};
    detail::check_update(a);
    run_operation(s, a);
  }
};
/// lion(s, values, master, exp_avg, gradients, options): one update in place; values and master as
/// in adamw.
inline constexpr lion_fn lion{};

}  // namespace parallel::ops
