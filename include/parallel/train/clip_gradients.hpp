// Clipping of reduced gradients, over units; see clipping.hpp for what it means.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <parallel/core/reduction.hpp>
#include <parallel/ops/clip.hpp>
#include <parallel/ops/rows.hpp>
#include <parallel/train/clipping.hpp>
#include <parallel/train/tensor_list.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::train {

/// Rows of adaptive clipping of a tensor: those of its outermost dimension, or one.
[[nodiscard]] inline index clipping_rows(std::vector<index> const& extents) {
  return extents.size() < 2 ? 1 : extents[0];
}

/// Enqueues the clamping of the owned reduced gradients, sums over `tokens`, to ± threshold.
template <class T, class Stream>
void clip_values(zero::partitioned_unit<T> const& unit, Stream& compute, double threshold,
                 double tokens) {
  for (std::size_t s = 0; s < unit.segments().size(); ++s)
    if (unit.is_trainable(s))
      ops::clip(compute, unit.owned_gradients(s), std::span<std::uint8_t>{},
                static_cast<accumulate_t<T>>(threshold * tokens));
}

/// Adaptive clipping of the owned reduced gradients, sums over `tokens`. A row may lie on several
/// ranks: its squares are summed over the world. Blocks. Memory and reduction: 16 bytes a row.
template <class Units, class Device, class Comm, class Stream, class Traffic>
void clip_rows(Units const& units, tensor_list const& tensors, Device const& device, Comm& world,
               Stream& compute, Traffic& traffic, double threshold, double tokens) {
  using unit_type = std::decay_t<decltype(units.front().memory)>;
  using gradient_type = typename unit_type::gradient_type;
  std::vector<std::size_t> first_row;
  std::size_t rows = 0;
  for (auto const& tensor : tensors.tensors()) {
    first_row.push_back(rows);
    rows += static_cast<std::size_t>(clipping_rows(tensor.extents));
  }
  // f(unit, segment, first element in the owned range, elements, first row, place in it) for what
  // lies in `range_of(unit, segment)` of everything that is trained
  auto const for_each_part = [&](auto&& range_of, auto&& f) {
    for (auto const& entry : units)
      for (std::size_t s = 0; s < entry.memory.segments().size(); ++s) {
        if (!entry.memory.is_trainable(s)) continue;
        auto const range = range_of(entry.memory, s);
        entry.memory.layout().segments()[s].for_each_piece(
            range.begin, range.end, [&](auto const& p, index first, index last, index at) {
              auto const begin = at - entry.memory.segments()[s].owned.begin - first;
              std::size_t const tensor = first_row[tensors.place(p.name)];
              if (clipping_rows(p.tensor_extents()) == 1) {
                f(entry.memory, s, begin + first, last - first, tensor,
                  ops::rows_place{first, p.size()});
                return;
              }
              index const width = p.size() / p.extents[0];
              p.for_each_row_range(first, last, [&](index from, index to, index row) {
                f(entry.memory, s, begin + from, to - from, tensor + static_cast<std::size_t>(row),
                  ops::rows_place{from % width, width});
              });
            });
      }
  };
  auto const slice = [](auto all, index begin, index count) {
    return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  };

  // of weights, then of gradients
  auto const memory = device.template allocate_shared<double>(2 * rows);
  auto const squares = memory.span();
  for_each_part([](auto const& unit, std::size_t s) { return unit.spoken_for(s); },
                [&](unit_type const& unit, std::size_t s, index begin, index count, std::size_t row,
                    ops::rows_place place) {
                  auto const out = squares.subspan(row);
                  ops::row_squared_norms(compute, out.first(rows - row),
                                         slice(unit.segments()[s].master.span(), begin, count),
                                         place);
                  ops::row_squared_norms(compute, out.subspan(rows),
                                         slice(unit.owned_gradients(s), begin, count), place);
                });
  compute.synchronize();
  world.all_reduce(traffic, squares, reduction::sum).wait();

  auto const factors = device.template allocate_shared<gradient_type>(rows);
  for (std::size_t r = 0; r < rows; ++r)
    factors.data()[r] = static_cast<gradient_type>(
        adaptive_factor(std::sqrt(squares[r]), std::sqrt(squares[rows + r]) / tokens, threshold));
  for_each_part([](auto const& unit, std::size_t s) { return unit.segments()[s].owned; },
                [&](unit_type const& unit, std::size_t s, index begin, index count, std::size_t row,
                    ops::rows_place place) {
                  ops::scale_rows(compute, slice(unit.owned_gradients(s), begin, count),
                                  std::span<gradient_type const>(factors.span()).subspan(row),
                                  place);
                });
  compute.synchronize();  // the factors end here
}

}  // namespace parallel::train
