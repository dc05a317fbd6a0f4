// show_step: the lists of a step (step_plan.hpp) as text and as a picture (SVG).
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/train/step/step_rendezvous.hpp>

namespace parallel::train {

/// The text of a plan: a line for each action, in the order in which it is enqueued, with its
/// number, its stream, what it does, and which other actions it waits for.
[[nodiscard]] inline std::string to_string(step_plan const& plan) {
  std::string out = concat("pipeline rank ", plan.rank, " of ", plan.ranks, ", ", plan.microbatches,
                           " microbatches: ", plan.actions.size(), " actions\n");
  auto const column = [&](std::string text, std::size_t width) {
    text.resize(std::max(width, text.size() + 1), ' ');
    out += text;
  };
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    auto const& a = plan.actions[i];
    column(concat(i), 6);
    column(name_of_lane(plan, a.lane), 12);
    out += to_string(plan, a);
    std::string_view separator = "  after ";
    for (int const other : a.dependencies) {
      out += concat(separator, other);
      separator = ", ";
    }
    out += '\n';
  }
  return out;
}

/// A self-contained picture of all ranks: a row for each stream, a box for each action that takes
/// time, with the durations that `cost` gives. Throws when the plans cannot run.
[[nodiscard]] inline std::string svg_of(std::span<step_plan const> plans, step_costs cost = {}) {
  detail::step_rendezvous run(plans, cost);
  require(run.run().good(), "svg_of: the plans of the step cannot run; verify them first");
  struct look {
    std::string_view name, color;
  };
  static constexpr look looks[] = {{"forward", "#4c78a8"},  {"backward: input", "#54a24b"},
                                   {"backward", "#3a7d34"}, {"backward: weight", "#b5cf6b"},
                                   {"unshard", "#e6a03c"},  {"reduce", "#c44e52"},
                                   {"message", "#9a9a9a"},  {"gather", "#b07aa1"}};
  auto const look_of = [](action const& a) -> std::size_t {
    if (a.kind == action_kind::pass) switch (a.pass) {
        case pass_kind::forward: return 0;
        case pass_kind::backward_input: return 1;
        case pass_kind::backward_weight: return 3;
        default: return 2;
      }
    if (a.is_message()) return 6;
    if (a.kind == action_kind::unshard) return 4;
    return a.kind == action_kind::gather ? 7 : 5;
  };
  constexpr int unit = 10, row = 18, left = 130, top = 30;
  int end = 0;
  int rows = 0;
  std::string boxes;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    auto const& plan = plans[i];
    auto const& ends = run.ends(i);
    std::vector<int> row_of(plan.lanes(), -1);
    for (std::size_t lane = 0; lane < plan.lanes(); ++lane) {
      bool const used = std::ranges::any_of(plan.actions, [&](action const& a) {
        return a.lane == static_cast<int>(lane) && cost.duration(a) > 0;
      });
      if (!used) continue;
      row_of[lane] = rows++;
      boxes += concat("<text x=\"4\" y=\"", top + row * row_of[lane] + 13, "\">",
                      lane == 0 ? concat("rank ", plan.rank, ' ') : std::string("&#160; "),
                      name_of_lane(plan, static_cast<int>(lane)), "</text>\n");
    }
    for (std::size_t k = 0; k < plan.actions.size(); ++k) {
      auto const& a = plan.actions[k];
      int const width = cost.duration(a);
      if (width == 0) continue;
      end = std::max(end, ends[k]);
      int const x = left + unit * (ends[k] - width);
      int const y = top + row * row_of[static_cast<std::size_t>(a.lane)];
      boxes += concat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", unit * width, "\" height=\"",
                      row - 2, "\" fill=\"", looks[look_of(a)].color, "\" stroke=\"white\"><title>",
                      k, ": ", to_string(plan, a), "</title></rect>\n");
    }
  }
  int const height = top + row * rows + 30;
  std::string out = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"",
                           std::max(left + unit * end + 10, 1140), "\" height=\"", height,
                           "\" font-family=\"sans-serif\" font-size=\"11\">\n"
                           "<text x=\"4\" y=\"18\">a step of ",
                           plans.size(), " pipeline ranks: ", end, " units of time</text>\n");
  int x = left;
  for (auto const& [name, color] : looks) {
    out +=
        concat("<rect x=\"", x, "\" y=\"", height - 22, "\" width=\"12\" height=\"12\" fill=\"",
               color, "\"/><text x=\"", x + 16, "\" y=\"", height - 11, "\">", name, "</text>\n");
    x += 125;
  }
  return out + boxes + "</svg>\n";
}

}  // namespace parallel::train
