// draw: a schedule as text, as a picture (SVG), and in the CSV form of PyTorch's pipelining.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <parallel/pipeline/simulate.hpp>

namespace parallel::pipeline {

/// One line for each rank, time from left to right, one column for each unit of time: "F0 F1 .. B0
/// -- ". An action is its letter and microbatch (after its stage, where a rank has several), dashes
/// mark its further units of time, dots an idle rank. The last line gives makespan and idle time.
[[nodiscard]] inline std::string to_string(schedule const& s, costs cost = {}) {
  check(s);
  auto const time = simulate(s, cost);
  bool const has_several_stages = s.stages_per_rank > 1;
  auto const label = [&](action const& a) {
    return has_several_stages ? to_string(a) : to_string(a).substr(std::to_string(a.stage).size());
  };
  std::size_t width = 0;
  for (auto const& list : s.by_rank)
    for (action const& a : list) width = std::max(width, label(a).size());
  std::string lines;
  long busy = 0;
  for (std::size_t rank = 0; rank < s.by_rank.size(); ++rank) {
    std::string line;
    auto const fill = [&](int end_time, char filler) {
      while (line.size() < static_cast<std::size_t>(end_time) * (width + 1))
        line += std::string(width, filler) + ' ';
    };
    for (std::size_t i = 0; i < s.by_rank[rank].size(); ++i) {
      action const& a = s.by_rank[rank][i];
      int const start = time.starts[rank][i];
      fill(start, '.');
      auto text = label(a);
      text.resize(width + 1, ' ');
      line += text;
      fill(start + cost.time_of(a.kind), '-');
      busy += cost.time_of(a.kind);
    }
    fill(time.makespan, '.');
    line.pop_back();
    lines += concat("rank ", rank, "  ", line, '\n');
  }
  long const total_time = static_cast<long>(time.makespan) * s.ranks;
  return lines + concat(s.name, ": ", s.ranks, " ranks, ", s.microbatches, " microbatches, ",
                        time.makespan, " units of time, ", 100 * (total_time - busy) / total_time,
                        " % idle\n");
}

/// A self-contained picture: one row for each rank, one box for each action with its microbatch;
/// the shade distinguishes the chunks of a rank.
[[nodiscard]] inline std::string svg_of(schedule const& s, costs cost = {}) {
  check(s);
  auto const time = simulate(s, cost);
  constexpr int unit = 24, row = 26, left = 60, top = 30;
  constexpr std::string_view colors[] = {"#4c78a8", "#54a24b", "#b5cf6b", "#54a24b"};
  constexpr std::string_view names[] = {"forward", "backward: input", "backward: weight",
                                        "backward"};
  int const right = left + unit * time.makespan + 10;
  std::string image =
      concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", std::max(right, 520),
             "\" height=\"", top + row * s.ranks + 34,
             "\" font-family=\"sans-serif\" font-size=\"11\">\n<text x=\"4\" y=\"18\">", s.name,
             ", ", s.ranks, " ranks, ", s.microbatches, " microbatches: ", time.makespan,
             " units of time</text>\n");
  bool is_used[4] = {};
  for (std::size_t rank = 0; rank < s.by_rank.size(); ++rank) {
    int const y = top + row * static_cast<int>(rank);
    image += concat("<text x=\"4\" y=\"", y + 16, "\">rank ", rank, "</text>\n");
    for (std::size_t i = 0; i < s.by_rank[rank].size(); ++i) {
      action const& a = s.by_rank[rank][i];
      auto const kind = static_cast<std::size_t>(a.kind);
      is_used[kind] = true;
      int const x = left + unit * time.starts[rank][i];
      int const width = unit * cost.time_of(a.kind);
      std::string_view const shade = a.stage / s.ranks % 2 == 0 ? "1" : "0.6";
      image += concat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", row - 4,
                      "\" fill=\"", colors[kind], "\" fill-opacity=\"", shade,
                      "\" stroke=\"white\"><title>", to_string(a), "</title></rect><text x=\"",
                      x + width / 2, "\" y=\"", y + 15, "\" text-anchor=\"middle\" fill=\"white\">",
                      a.microbatch, "</text>\n");
    }
  }
  int x = left;
  int const y = top + row * s.ranks + 8;
  for (std::size_t kind = 0; kind < 4; ++kind) {
    if (!is_used[kind]) continue;
    image +=
        concat("<rect x=\"", x, "\" y=\"", y, "\" width=\"12\" height=\"12\" fill=\"", colors[kind],
               "\"/><text x=\"", x + 16, "\" y=\"", y + 11, "\">", names[kind], "</text>\n");
    x += 120;
  }
  return image + "</svg>\n";
}

/// One line for each rank, actions separated by commas ("0F0,0F1,0B0"): the format that PyTorch's
/// torch.distributed.pipelining loads as a compute-only schedule.
[[nodiscard]] inline std::string csv_of(schedule const& s) {
  check(s);
  std::string out;
  for (auto const& list : s.by_rank)
    for (std::size_t i = 0; i < list.size(); ++i)
      out += concat(to_string(list[i]), i + 1 < list.size() ? ',' : '\n');
  return out;
}

}  // namespace parallel::pipeline
