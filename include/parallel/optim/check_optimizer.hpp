// check_optimizer: tests an optimizer's rule for what every layout needs of it.
//
// A rank updates the range of elements that it owns, with gradients that nobody has divided, by
// tasks that run later. check_optimizer updates the same elements in one range and in two, with
// other gradients and scales of equal products, and late, and compares bits. Optimizers of whole
// tensors (whole_tensors.hpp) are not for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/ops/deferred_stream.hpp>
#include <parallel/optim/concepts.hpp>
#include <parallel/optim/settings.hpp>

namespace parallel {

namespace detail {

/// How check_optimizer updates 12 elements in two steps.
struct update_condition {
  std::vector<std::size_t> ranges = {12};  ///< the sizes of the ranges
  double gradient_factor = 1;              ///< of gradients; their scale is divided by it
  reference::task_start start = reference::task_start::immediate;
  double learning_rate_factor = 1;
};

struct summed_numbers {
  static constexpr bool is_reduced = true;
  std::span<double> elements;
};

/// The elements, and after them the optimizer's states, after the updates.
template <class Optimizer>
[[nodiscard]] std::vector<double> updated_elements(Optimizer const& optimizer,
                                                   update_condition const& condition) {
  constexpr std::size_t count = 12;
  std::size_t const rows = 1 + optimizer.state_names().size();
  std::vector<double> memory(rows * count), gradients(count);
  auto const draw = [](std::span<double> numbers, std::string_view name) {
    initial_values(numbers, name, normal_init{1.0F}, 0, 0);
  };
  draw(std::span(memory).first(count), "check_optimizer.values");
  for (std::int64_t step = 1; step <= 2; ++step) {
    reference::deferred_stream stream(condition.start);
    std::ranges::fill(gradients, std::numeric_limits<double>::quiet_NaN());
    double scale = gradients[0];
    stream.enqueue([&] {  // what a step computes before its update
      draw(gradients, step == 1 ? "check_optimizer.first" : "check_optimizer.second");
      for (double& gradient : gradients) gradient *= condition.gradient_factor;
      scale = 0.25 / condition.gradient_factor;
    });
    std::size_t begin = 0;
    for (std::size_t const size : condition.ranges) {
      std::vector<std::span<double>> states;
      for (std::size_t row = 0; row < rows; ++row)
        states.push_back(std::span(memory).subspan(row * count + begin, size));
      auto const values = states.front();
      states.erase(states.begin());
      optimizer.update(stream,
                       update_ranges<double, summed_numbers>{
                           values, values, states, {std::span(gradients).subspan(begin, size)}},
                       step_info<double>{step, condition.learning_rate_factor, &scale});
      begin += size;
    }
    stream.run();
  }
  return memory;
}

}  // namespace detail

/// Checks that an optimizer of ranges updates every element by itself, multiplies gradients by
/// `*info.gradient_scale`, reads elements and the scale in tasks alone, and changes no element when
/// the learning rate factor is 0. Throws `error` that names the mistake.
///
///     parallel::check_optimizer(momentum_descent{});
template <class Optimizer>
void check_optimizer(Optimizer const& optimizer) {
  require_settings(optimizer);
  auto const expected = detail::updated_elements(optimizer, {});
  auto const require_same = [&](detail::update_condition const& condition,
                                std::string_view mistake) {
    require(std::ranges::equal(detail::updated_elements(optimizer, condition), expected,
                               [](double a, double b) { return a == b || (a != a && b != b); }),
            "check_optimizer: ", mistake);
  };
  require_same({},
               "the same updates give other values when they are made again; what an update "
               "keeps is in its states, and not in the optimizer");
  require_same({.ranges = {5, 7}},
               "an element's update depends on the range that it is in, and ranks own other ranges "
               "in other layouts; compute each element from its own gradient and states, or write "
               "an optimizer of whole tensors (parallel/optim/whole_tensors.hpp)");
  require_same({.gradient_factor = 8},
               "the update is another when gradients are 8 times as large and *info.gradient_scale "
               "an eighth; multiply each gradient by *info.gradient_scale once");
  require_same({.start = reference::task_start::deferred},
               "the update is another when its tasks run later; read elements and "
               "*info.gradient_scale in tasks alone, such as one of ops::custom");
  auto const idle = detail::updated_elements(optimizer, {.learning_rate_factor = 0});
  auto const begun = detail::updated_elements(optimizer, {.ranges = {}});
  require(!std::equal(begun.begin(), begun.begin() + 12, expected.begin()),
          "check_optimizer: no element changes; an update writes what it computes to ranges.values "
          "and ranges.master");
  require(
      std::equal(idle.begin(), idle.begin() + 12, begun.begin()),
      "check_optimizer: elements change though the learning rate factor is 0; multiply all that "
      "is subtracted from them by info.learning_rate_factor");
}

}  // namespace parallel
