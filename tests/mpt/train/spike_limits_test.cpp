#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include <mpt/train/spike_limits.hpp>

namespace spike_limits_test {

constexpr auto skip = mpt::bad_batch_policy::skip;

TEST_CASE("spike limits: mean plus deviations of the last updates, once half a window is filled") {
  mpt::spike_limits limits({skip, 2, 4});
  CHECK_FALSE(limits.limits().has_limit());
  limits.add(1, 10);
  CHECK_FALSE(limits.limits().has_limit());
  limits.add(3, 10);
  // mean 2, deviation sqrt((1 + 1) / 1)
  CHECK(limits.limits().loss == 2 + 2 * std::sqrt(2.0));
  CHECK(limits.limits().gradient_norm == 10);  // all values are equal
  limits.add(5, 16);
  // means 3 and 12, deviations sqrt((4 + 0 + 4) / 2) and sqrt((4 + 4 + 16) / 2)
  CHECK(limits.limits().loss == 3 + 2 * 2);
  CHECK(limits.limits().gradient_norm == doctest::Approx(12 + 2 * std::sqrt(12.0)).epsilon(1e-15));
  limits.add(7, 20);
  limits.add(9, 20);  // the window holds 3, 5, 7, 9 and 10, 16, 20, 20
  CHECK(limits.limits().loss == doctest::Approx(6 + 2 * std::sqrt(20.0 / 3)).epsilon(1e-15));
  CHECK(
      limits.limits().gradient_norm ==
      doctest::Approx(16.5 + 2 * std::sqrt((6.5 * 6.5 + 0.25 + 2 * 3.5 * 3.5) / 3)).epsilon(1e-15));
}

TEST_CASE("spike limits: equal numbers are at their limit, not above it") {
  mpt::spike_limits limits({skip, 6, 128});
  for (int i = 0; i < 100; ++i) limits.add(0.1, 1.0 / 3);
  CHECK(limits.limits().loss == 0.1);
  CHECK(limits.limits().gradient_norm == 1.0 / 3);
}

TEST_CASE("spike limits: they equal those of another formula, over any window") {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(3, 0.2);
  for (int const window : {4, 5, 16, 128}) {
    CAPTURE(window);
    mpt::spike_limits limits({skip, 6, window});
    std::vector<double> losses, norms;
    for (int i = 0; i < 200; ++i) {
      losses.push_back(normal(random));
      norms.push_back(std::exp(normal(random)));
      limits.add(losses.back(), norms.back());
      // the square of the deviation as the mean of all pairs' squared differences, halved
      auto const expected = [&](std::vector<double> const& values) {
        auto const first =
            values.size() - std::min<std::size_t>(values.size(), std::size_t(window));
        auto const count = static_cast<long double>(values.size() - first);
        long double sum = 0, pairs = 0;
        for (auto a = first; a < values.size(); ++a) {
          sum += values[a];
          for (auto b = first; b < a; ++b)
            pairs += static_cast<long double>(values[a] - values[b]) * (values[a] - values[b]);
        }
        return static_cast<double>(sum / count + 6 * std::sqrt(pairs / (count * (count - 1))));
      };
      bool const has_limits = 2 * (i + 1) >= window;
      CHECK(limits.limits().has_limit() == has_limits);
      if (!has_limits) continue;
      CHECK(limits.limits().loss == doctest::Approx(expected(losses)).epsilon(1e-13));
      CHECK(limits.limits().gradient_norm == doctest::Approx(expected(norms)).epsilon(1e-13));
    }
  }
}

TEST_CASE(
    "spike limits: restored limits have the same bits; a smaller window takes the last values") {
  mpt::spike_limits limits({skip, 6, 8}), smaller({skip, 6, 4}), last_updates({skip, 6, 4});
  for (int i = 0; i < 11; ++i) {
    limits.add(0.1 * i, 1.0 / (i + 3));
    if (i >= 7) last_updates.add(0.1 * i, 1.0 / (i + 3));
  }
  auto const text = limits.state().dump();
  auto const saved = nlohmann::json::parse(text);
  mpt::spike_limits restored({skip, 6, 8});
  restored.add(100, 100);  // restore() discards this
  restored.restore(saved);
  CHECK(restored.limits() == limits.limits());
  CHECK(restored.state().dump() == text);
  smaller.restore(saved);
  CHECK(smaller.limits() == last_updates.limits());
  restored.restore(nullptr);
  CHECK_FALSE(restored.limits().has_limit());
  for (auto const* const bad :
       {"3", "{}", R"({"losses": [1]})", R"({"losses": [1], "gradient_norms": [1, 2]})",
        R"({"losses": ["x"], "gradient_norms": [1]})",
        R"({"losses": [1], "gradient_norms": [null]})"})
    CHECK_THROWS_WITH(restored.restore(nlohmann::json::parse(bad)),
                      "the checkpoint's state of spike_check is damaged; use another checkpoint");
}

TEST_CASE("spike limits: a spike is described by its value, mean and deviation") {
  mpt::spike_limits limits({skip, 2, 4});
  limits.add(1, 10);
  limits.add(3, 14);
  limits.add(5, 18);
  CHECK(limits.describe(7.5, 12) ==
        "the loss 7.5 is a spike, above the mean 3 of the last 3 updates by more than 2 standard "
        "deviations of 2");
  CHECK(limits.describe(7, 22.5) ==
        "the gradient norm 22.5 is a spike, above the mean 14 of the last 3 updates by more than 2 "
        "standard deviations of 4");
}

}  // namespace spike_limits_test
