// Clipping of reduced gradients, over units; see clipping.hpp for what it means.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <parallel/comm/reduction.hpp>
#include <parallel/ops/clip.hpp>
#include <parallel/ops/rows.hpp>
#include <parallel/train/clipping.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::train {

/// Elements of one row of adaptive clipping.
template <class T>
[[nodiscard]] index clipping_width(parameter_base<T> const& p) {
  return p.extents.size() < 2 ? p.size() : p.size() / p.extents[0];
}

/// Enqueues the clamping of the owned reduced gradients, sums over `tokens`, to ± threshold.
template <class T, class Stream>
void clip_values(zero::partitioned_unit<T> const& unit, Stream& compute, double threshold,
                 double tokens) {
  for (std::size_t s = 0; s < unit.segments().size(); ++s)
    if (unit.is_trainable(s))
      ops::clip(compute, unit.owned_gradients(s), std::span<std::uint8_t>{},
                static_cast<float>(threshold * tokens));
}

/// Adaptive clipping of the owned reduced gradients, sums over `tokens`. A row may lie on several
/// ranks: its squares are summed over them. Blocks. Memory and reduction: 16 bytes a row.
template <class Units, class Comm, class Stream>
void clip_rows(Units const& units, Comm& comm, Stream& compute, Stream& traffic, double threshold,
               double tokens) {
  using unit_type = std::decay_t<decltype(units.front().memory)>;
  using gradient_type = typename unit_type::gradient_type;
  // f(unit, number of segment, its layout) for every segment that is trained
  auto const for_each_segment = [&](auto&& f) {
    for (auto const& entry : units)
      for (std::size_t s = 0; s < entry.memory.segments().size(); ++s)
        if (entry.memory.is_trainable(s)) f(entry.memory, s, entry.memory.layout().segments()[s]);
  };
  std::map<void const*, std::size_t> first_row;
  std::size_t rows = 0;
  for_each_segment([&](auto const&, std::size_t, auto const& segment) {
    for (auto const& [p, offset] : segment.parameters) {
      first_row[p] = rows;
      rows += static_cast<std::size_t>(p->size() / clipping_width(*p));
    }
  });

  std::vector<double> squares(2 * rows);  // of weights, then of gradients
  for_each_segment([&](unit_type const& unit, std::size_t s, auto const& segment) {
    auto const& m = unit.segments()[s];
    auto const mine = unit.shard(s);
    segment.for_each_piece(
        mine.begin, mine.end, [&](auto const& p, index first, index last, index at) {
          auto const size = static_cast<std::size_t>(last - first);
          ops::rows_place const place{first, clipping_width(p)};
          auto const begin = static_cast<std::size_t>(at - m.owned.begin);
          auto const out = std::span(squares).subspan(first_row[&p]);
          ops::row_squared_norms(compute, out.first(rows - first_row[&p]),
                                 m.master.span().subspan(begin, size), place);
          ops::row_squared_norms(compute, out.subspan(rows),
                                 unit.owned_gradients(s).subspan(begin, size), place);
        });
  });
  compute.synchronize();
  comm.all_reduce(traffic, std::span(squares), reduction::sum).wait();

  std::vector<gradient_type> factors(rows);
  for (std::size_t r = 0; r < rows; ++r)
    factors[r] = static_cast<gradient_type>(
        adaptive_factor(std::sqrt(squares[r]), std::sqrt(squares[rows + r]) / tokens, threshold));
  for_each_segment([&](unit_type const& unit, std::size_t s, auto const& segment) {
    auto const& m = unit.segments()[s];
    segment.for_each_piece(
        m.owned.begin, m.owned.end, [&](auto const& p, index first, index last, index at) {
          ops::scale_rows(
              compute,
              unit.owned_gradients(s).subspan(static_cast<std::size_t>(at - m.owned.begin),
                                              static_cast<std::size_t>(last - first)),
              std::span<gradient_type const>(factors).subspan(first_row[&p]),
              {first, clipping_width(p)});
        });
  });
  compute.synchronize();  // the factors end here
}

}  // namespace parallel::train
