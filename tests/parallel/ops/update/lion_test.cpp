// lion against LLM Foundry's DecoupledLionW (golden numbers) and an independent loop in double.
#include <doctest/doctest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <parallel/ops/host/update/lion.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/ops/update/lion.hpp>
#include <support/golden/golden_steps.hpp>

#include "parallel/ops/support.hpp"

namespace lion_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;

/// Runs all five golden steps; `suffix` names the run of LLM Foundry (fp32 or fp64) to compare
/// with.
template <class A, class Stream>
void follow_golden(Stream& s, std::string const& suffix, double relative, double absolute) {
  test::follow_golden<A>(
      "lion.safetensors", suffix, {"exp_avg"},
      [&](auto& values, auto& states, std::vector<A> const& g, double lr, std::size_t) {
        ops::lion(
            s, std::span(values), std::span(values), std::span(states[0]), std::span<A const>(g),
            {.lr = lr, .initial_lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 1e-3});
        s.synchronize();
      },
      [&](std::string const& name, auto const& got, auto const& expected) {
        CAPTURE(name);
        CHECK(excess(got, expected, relative) <= absolute);
      });
}

TEST_CASE("lion: five steps equal LLM Foundry's DecoupledLionW, whose first learning rate is 0") {
  parallel::reference::stream reference;
  parallel::host::stream host;
  follow_golden<double>(reference, "64", 1e-14, 1e-15);
  follow_golden<double>(host, "64", 1e-14, 1e-15);
  follow_golden<float>(reference, "", 1e-6, 1e-7);
  follow_golden<float>(host, "", 1e-6, 1e-7);
}

struct step_of_double {
  double p, m;
  void operator()(double g, double lr, double initial_lr, double decay) {
    p *= 1.0 - lr / initial_lr * decay;
    double const direction = 0.9 * m + 0.1 * g;
    p -= lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
    m = 0.99 * m + 0.01 * g;
  }
};

TEST_CASE_TEMPLATE(
    "lion: steps with a gradient scale follow the formula, with any number of threads", T, float,
    bf16, double) {
  using A = accumulate_t<T>;
  for (auto const size : odd_sizes) {
    CAPTURE(size);
    auto const start = random<A>(size, 1);
    A scale = 0;  // set by a task: a scale that is read at the call would be 0
    std::vector<step_of_double> exact;
    for (A const p : start) exact.push_back({double(p), 0.0});
    struct state {
      std::vector<T> values;
      std::vector<A> master, m;
    };
    auto const fresh = [&] {
      return state{std::vector<T>(start.size()), start, std::vector<A>(start.size())};
    };
    auto a = fresh(), b = fresh(), c = fresh();
    for (std::uint64_t step = 1; step <= 3; ++step) {
      auto g = random<A>(size, 10 + step, 100.0);
      if (size > 6) g[6] = 0;
      auto const run = [&](auto& s, state& target) {
        ops::lion(s, std::span(target.values), std::span(target.master), std::span(target.m),
                  std::span<A const>(g),
                  {.lr = 5e-3, .initial_lr = 1e-2, .weight_decay = 1e-2, .gradient_scale = &scale});
      };
      on_host(1, [&](auto& s) {
        s.enqueue([&] { scale = A(0.01); });
        run(s, b);
      });
      on_host(2, [&](auto& s) { run(s, c); });
      on_reference([&](auto& s) { run(s, a); });
      for (std::size_t i = 0; i < exact.size(); ++i)
        exact[i](double(g[i]) * double(scale), 5e-3, 1e-2, 1e-2);
    }
    std::vector<double> p, m;
    for (auto const& e : exact) {
      p.push_back(e.p);
      m.push_back(e.m);
    }
    for (auto const* got : {&a, &b}) {
      CHECK(excess(got->master, p, 10.0 * unit<A>) <= 20.0 * unit<A>);
      CHECK(excess(got->m, m, 10.0 * unit<A>) <= 4.0 * unit<A>);
      for (std::size_t i = 0; i < p.size(); ++i)
        CHECK(got->values[i] == static_cast<T>(got->master[i]));
    }
    CHECK(same_bits(b.values, c.values));
    CHECK(same_bits(b.master, c.master));
    CHECK(same_bits(b.m, c.m));
  }
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

TEST_CASE("lion: ranges of different sizes are refused") {
  std::vector<float> two(2), one(1);
  std::string message;
  try {
    on_reference([&](auto& s) {
      ops::lion(s, std::span(two), std::span(two), std::span(one), std::span<float const>(two), {});
    });
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message ==
        "ops::lion: the size of values is 2, but that of exp_avg is 1; the two must be the same");
}

TEST_CASE("lion: the meta device counts 9 operations per element") {
  parallel::meta::stream s;
  std::span<bf16> const values(static_cast<bf16*>(nullptr), 7);
  std::span<float> const state(static_cast<float*>(nullptr), 7);
  ops::lion(s, values, state, state, state, {});
  CHECK(s.operations() == 63);
}

}  // namespace lion_test
