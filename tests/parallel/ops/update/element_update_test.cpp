// adamw and lion against Composer's DecoupledAdamW and LLM Foundry's DecoupledLionW (golden
// numbers) and an independent loop in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <parallel/ops/host/update/element_update.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>
#include <support/golden/golden_steps.hpp>

#include "parallel/ops/support.hpp"

namespace element_update_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;

/// What a test needs to know of an optimizer, and an update of one element in double.
struct adamw {
  static constexpr char const* golden = "adamw.safetensors";
  static std::vector<std::string> states() { return {"exp_avg", "exp_avg_sq"}; }
  template <class A>
  static ops::adamw_options<A> with(double lr, double weight_decay, std::int64_t step) {
    return {.lr = lr, .initial_lr = 1e-2, .weight_decay = weight_decay, .step = step};
  }
  /// The roundings of an average, and how much they may differ after that.
  static constexpr double rounding[][2] = {{10, 4}, {20, 1}};

  template <class A, class Stream, class T, class States>
  static void run(Stream& s, std::span<T> values, std::span<A> master, States& states,
                  std::span<A const> g, ops::adamw_options<A> const& o) {
    ops::adamw(s, values, master, std::span(states[0]), std::span(states[1]), g, o);
  }
  static void update(double g, double& p, double* states, ops::adamw_options<double> const& o) {
    double &m = states[0], &v = states[1];
    p *= 1.0 - o.lr / o.initial_lr * o.weight_decay;
    m = o.beta1 * m + (1.0 - o.beta1) * g;
    v = o.beta2 * v + (1.0 - o.beta2) * g * g;
    double const correction1 = 1.0 - std::pow(o.beta1, double(o.step));
    double const correction2 = 1.0 - std::pow(o.beta2, double(o.step));
    p -= o.lr / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + o.eps);
  }
};

struct lion {
  static constexpr char const* golden = "lion.safetensors";
  static std::vector<std::string> states() { return {"exp_avg"}; }
  template <class A>
  static ops::lion_options<A> with(double lr, double weight_decay, std::int64_t) {
    return {.lr = lr, .initial_lr = 1e-2, .weight_decay = weight_decay};
  }
  static constexpr double rounding[][2] = {{10, 4}};

  template <class A, class Stream, class T, class States>
  static void run(Stream& s, std::span<T> values, std::span<A> master, States& states,
                  std::span<A const> g, ops::lion_options<A> const& o) {
    ops::lion(s, values, master, std::span(states[0]), g, o);
  }
  static void update(double g, double& p, double* states, ops::lion_options<double> const& o) {
    double& m = states[0];
    p *= 1.0 - o.lr / o.initial_lr * o.weight_decay;
    double const direction = o.beta1 * m + (1.0 - o.beta1) * g;
    p -= o.lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
    m = o.beta2 * m + (1.0 - o.beta2) * g;
  }
};

/// An optimizer and an element type.
template <class O, class E>
struct of {
  using optimizer = O;
  using element = E;
};

/// Runs all five golden steps; `suffix` names the golden run (fp32 or fp64) to compare with.
template <class O, class A, class Stream>
void follow_golden(Stream& s, std::string const& suffix, double relative, double absolute) {
  test::follow_golden<A>(
      O::golden, suffix, O::states(),
      [&](auto& values, auto& states, std::vector<A> const& g, double lr, std::size_t step) {
        O::run(s, std::span(values), std::span(values), states, std::span<A const>(g),
               O::template with<A>(lr, 1e-3, static_cast<std::int64_t>(step) + 1));
        s.synchronize();
      },
      [&](std::string const& name, auto const& got, auto const& expected) {
        CAPTURE(name);
        // adamw's averages are sums of numbers of about 10
        CHECK(excess(got, expected, relative) <=
              (O::states().size() == 2 && name == "exp_avg" ? 10.0 : 1.0) * absolute);
      });
}

TEST_CASE_TEMPLATE(
    "adamw and lion: five steps equal Composer's and LLM Foundry's, whose first learning rate is 0",
    O, adamw, lion) {
  parallel::reference::stream reference;
  parallel::host::stream host;
  follow_golden<O, double>(reference, "64", 1e-14, 1e-15);
  follow_golden<O, double>(host, "64", 1e-14, 1e-15);
  // in float: some roundings of numbers of about 1, and cancellation in m
  follow_golden<O, float>(reference, "", 1e-6, 1e-7);
  follow_golden<O, float>(host, "", 1e-6, 1e-7);
}

TEST_CASE_TEMPLATE(
    "adamw and lion: steps with a gradient scale follow the formula, with any number of threads",
    Of, of<adamw, float>, of<adamw, bf16>, of<adamw, double>, of<lion, float>, of<lion, bf16>,
    of<lion, double>) {
  using O = typename Of::optimizer;
  using T = typename Of::element;
  using A = accumulate_t<T>;
  auto const count_of_states = O::states().size();
  for (auto const size : odd_sizes) {
    CAPTURE(size);
    struct state {
      std::vector<T> values;
      std::vector<A> master;
      std::vector<std::vector<A>> averages;
    };
    auto const start = random<A>(size, 1);
    state const initial{
        std::vector<T>(start.size()), start, {count_of_states, std::vector<A>(start.size())}};
    auto a = initial, b = initial, c = initial;
    std::vector<double> p(start.begin(), start.end());
    std::vector<std::vector<double>> averages(count_of_states, std::vector<double>(start.size()));
    A scale = 0;  // set by a task: a scale that is read at the call would be 0
    for (std::int64_t step = 1; step <= 3; ++step) {
      auto g = random<A>(size, 10 + static_cast<std::uint64_t>(step), 100.0);
      if (size > 6) g[6] = 0;
      auto const run = [&](auto& s, state& target) {
        auto options = O::template with<A>(5e-3, 1e-2, step);
        options.gradient_scale = &scale;
        O::run(s, std::span(target.values), std::span(target.master), target.averages,
               std::span<A const>(g), options);
      };
      on_host(1, [&](auto& s) {
        s.enqueue([&] { scale = A(0.01); });
        run(s, b);
      });
      on_host(2, [&](auto& s) { run(s, c); });
      on_reference([&](auto& s) { run(s, a); });
      for (std::size_t i = 0; i < p.size(); ++i) {
        double element[2] = {averages[0][i], averages.back()[i]};
        O::update(double(g[i]) * double(scale), p[i], element,
                  O::template with<double>(5e-3, 1e-2, step));
        for (std::size_t n = 0; n < count_of_states; ++n) averages[n][i] = element[n];
      }
    }
    for (auto const* got : {&a, &b}) {
      CHECK(excess(got->master, p, 10.0 * unit<A>) <= 20.0 * unit<A>);
      for (std::size_t n = 0; n < count_of_states; ++n)
        CHECK(excess(got->averages[n], averages[n], O::rounding[n][0] * unit<A>) <=
              O::rounding[n][1] * unit<A>);
      for (std::size_t i = 0; i < p.size(); ++i)
        CHECK(got->values[i] == static_cast<T>(got->master[i]));
    }
    CHECK(same_bits(b.values, c.values));
    CHECK(same_bits(b.master, c.master));
    for (std::size_t n = 0; n < count_of_states; ++n)
      CHECK(same_bits(b.averages[n], c.averages[n]));
  }
}

TEST_CASE("adamw: the vector square root has an error of 1 ulp and keeps 0 and infinity") {
  namespace simd = parallel::host::simd;
  double worst = 0.0;
  float const infinity = std::numeric_limits<float>::infinity();
  for (float x = 1e-37F; x < 1e37F; x *= 1.0001F) {
    float root = 0.0F;
    simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
      simd::store_partial(&root, parallel::host::detail::square_root(simd::pack<float, lanes>(x)),
                          1);
    });
    worst = std::max(worst, std::abs(double(root) / std::sqrt(double(x)) - 1.0));
  }
  CHECK(worst <= 0x1p-23);
  for (float const x : {0.0F, infinity}) {
    float root = -1.0F;
    simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
      simd::store_partial(&root, parallel::host::detail::square_root(simd::pack<float, lanes>(x)),
                          1);
    });
    CHECK(root == x);
  }
}

TEST_CASE("adamw: a NaN gradient makes its weight NaN, and no other weight") {
  std::vector<float> p(20, 1.0F), m(20), v(20), g(20, 1.0F);
  g[18] = std::nanf("");
  on_host(1, [&](auto& s) {
    ops::adamw(s, std::span(p), std::span(p), std::span(m), std::span(v), std::span<float const>(g),
               {});
  });
  for (std::size_t i = 0; i < 20; ++i) CHECK(std::isnan(p[i]) == (i == 18));
}

TEST_CASE("lion: the step is the sign of the update: 0 at 0, NaN at NaN, the same for all sizes") {
  std::vector<float> p(20, 1.0F), m(20), g(20, 1e-30F);
  g[1] = -1e30F;
  g[17] = 0.0F;
  g[18] = std::nanf("");
  on_host(1, [&](auto& s) {
    ops::lion(s, std::span(p), std::span(p), std::span(m), std::span<float const>(g), {.lr = 0.25});
  });
  for (std::size_t i = 0; i < 20; ++i) {
    CAPTURE(i);
    if (i == 18)
      CHECK(std::isnan(p[i]));
    else
      CHECK(p[i] == (i == 1 ? 1.25F : i == 17 ? 1.0F : 0.75F));
  }
}

TEST_CASE("adamw and lion: step 0 and ranges of different sizes are refused") {
  std::vector<float> two(2), one(1);
  parallel::reference::stream s;
  std::span<float const> const g(two);
  CHECK_THROWS_WITH(
      ops::adamw(s, std::span(two), std::span(two), std::span(two), std::span(two), g, {.step = 0}),
      "ops::adamw: step is 0, but the first update is step 1");
  CHECK_THROWS_WITH(
      ops::lion(s, std::span(two), std::span(two), std::span(one), g, {}),
      "ops::lion: the size of values is 2, but that of exp_avg is 1; the two must be the same");
}

TEST_CASE("adamw and lion: the meta device counts 15 and 9 operations per element") {
  parallel::meta::stream s;
  std::span<bf16> const values(static_cast<bf16*>(nullptr), 7);
  std::span<float> const state(static_cast<float*>(nullptr), 7);
  ops::adamw(s, values, state, state, state, state, {});
  CHECK(s.operations() == 105);
  ops::lion(s, values, state, state, state, {});
  CHECK(s.operations() == 105 + 63);
}

}  // namespace element_update_test
