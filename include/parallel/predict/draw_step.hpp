// draw_step: a picture in text of a simulated step, a line for every rank of the pipeline.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/predict/simulate_step.hpp>
#include <parallel/train/step/step_plan.hpp>

namespace parallel::predict {

/// What the letters of draw_step mean.
inline constexpr std::string_view drawing_legend =
    "F forward, B backward, W gradients of weights, U update, . waiting";

namespace detail {

inline constexpr std::string_view drawn_letters = ".FBWU";

/// The letter of an action of the compute stream, as its place in drawn_letters.
[[nodiscard]] inline std::size_t letter_of(train::action const& a) {
  using enum train::pass_kind;
  if (a.kind != train::action_kind::pass) return 4;
  if (a.pass == forward) return 1;
  return a.pass == backward_weight ? 3 : 2;
}

}  // namespace detail

/// The compute streams of a simulated step in so many columns of equal time, each with the letter
/// of what takes most of it.
[[nodiscard]] inline std::vector<std::string> draw_step(std::span<train::step_plan const> plans,
                                                        simulated_step const& step,
                                                        std::size_t columns) {
  std::vector<std::string> out;
  double const width = step.seconds / static_cast<double>(columns);
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    std::vector<std::array<double, detail::drawn_letters.size()>> parts(columns);
    for (auto& column : parts) column[0] = width;
    for (std::size_t i = 0; i < plans[rank].actions.size(); ++i) {
      auto const& a = plans[rank].actions[i];
      auto const& times = step.actions[rank][i];
      if (a.lane != train::lane::compute || times.end <= times.begin) continue;
      for (auto c = static_cast<std::size_t>(times.begin / width); c < columns; ++c) {
        double const begin = static_cast<double>(c) * width;
        if (begin >= times.end) break;
        double const shared = std::min(times.end, begin + width) - std::max(times.begin, begin);
        parts[c][detail::letter_of(a)] += shared;
        parts[c][0] -= shared;
      }
    }
    std::string line;
    for (auto const& column : parts)
      line += detail::drawn_letters[static_cast<std::size_t>(std::ranges::max_element(column) -
                                                             column.begin())];
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace parallel::predict
