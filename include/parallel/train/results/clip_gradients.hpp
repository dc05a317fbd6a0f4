// clip_gradients: clips reduced gradients, over units; clipping.hpp defines the kinds of clipping.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include <parallel/core/reduction.hpp>
#include <parallel/ops/pointwise/clip.hpp>
#include <parallel/ops/rows.hpp>
#include <parallel/train/clipping.hpp>
#include <parallel/train/results/tensor_list.hpp>
#include <parallel/unit/unit.hpp>
#include <parallel/zero/level.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::train {

/// The rows of a tensor in adaptive clipping: those of its outermost dimension, or one.
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

namespace detail {

/// Elements [begin, begin + count) of a span.
template <class T>
[[nodiscard]] std::span<T> slice(std::span<T> elements, index begin, index count) {
  return elements.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

/// Calls f(unit, segment, parameter, first, last, begin) for every piece of a trained parameter in
/// range_of(unit, segment): elements [first, last) of the parameter, which begin at element `begin`
/// of the owned range.
template <class Units, class RangeOf, class F>
void for_each_trained_piece(Units const& units, RangeOf const& range_of, F const& f) {
  for (auto const& entry : units)
    for (std::size_t s = 0; s < entry.memory.segments().size(); ++s) {
      if (!entry.memory.is_trainable(s)) continue;
      auto const range = range_of(entry.memory, s);
      auto const owned = entry.memory.segments()[s].owned.begin;
      entry.memory.layout().segments()[s].for_each_piece(
          range.begin, range.end, [&](auto const& p, index first, index last, index offset) {
            f(entry.memory, s, p, first, last, offset - owned);
          });
    }
}

/// The number of the first row of each tensor among the rows of all tensors, and the number of
/// rows.
struct row_numbers {
  std::vector<std::size_t> first;
  std::size_t count = 0;

  explicit row_numbers(tensor_list const& tensors) {
    for (auto const& tensor : tensors.tensors()) {
      first.push_back(count);
      count += static_cast<std::size_t>(clipping_rows(tensor.extents));
    }
  }
};

/// Calls f(unit, segment, first element in the owned range, elements, number of the first row,
/// position in it) for every piece of a trained parameter in range_of(unit, segment).
template <class Units, class RangeOf, class F>
void for_each_row_part(Units const& units, tensor_list const& tensors, row_numbers const& rows,
                       RangeOf const& range_of, F const& f) {
  for_each_trained_piece(
      units, range_of,
      [&](auto const& unit, std::size_t s, auto const& p, index first, index last, index begin) {
        std::size_t const tensor = rows.first[tensors.number_of(p.name)];
        if (clipping_rows(p.tensor_extents()) == 1) {
          f(unit, s, begin, last - first, tensor, ops::rows_location{first, p.size()});
          return;
        }
        index const width = p.size() / p.extents[0];
        p.for_each_row_range(first, last, [&](index from, index to, index row) {
          f(unit, s, begin + from - first, to - from, tensor + static_cast<std::size_t>(row),
            ops::rows_location{from % width, width});
        });
      });
}

inline constexpr auto primary_range = [](auto const& unit, std::size_t s) {
  return unit.primary_range(s);
};

/// The sums of squares of all rows of weights, then of all rows of gradients: each rank adds up its
/// part of a row, and the parts are added over the world. Blocks.
template <class Units, class Device, class Comm, class Stream, class Exchange>
[[nodiscard]] std::vector<double> row_squares(Units const& units, tensor_list const& tensors,
                                              row_numbers const& rows, Device const& device,
                                              Comm& world, Stream& compute, Exchange& exchanges) {
  auto const memory = device.template allocate_shared<double>(2 * rows.count);
  auto const squares = memory.span();
  for_each_row_part(
      units, tensors, rows, primary_range,
      [&](auto const& unit, std::size_t s, index begin, index count, std::size_t row,
          ops::rows_location location) {
        auto const out = squares.subspan(row);
        ops::row_squared_norms(compute, out.first(rows.count - row),
                               slice(unit.segments()[s].master.span(), begin, count), location);
        ops::row_squared_norms(compute, out.subspan(rows.count),
                               slice(unit.owned_gradients(s), begin, count), location);
      });
  compute.synchronize();
  world.all_reduce(exchanges, squares, reduction::sum).wait();
  return {squares.begin(), squares.end()};
}

/// Sums of squares by row too, added in an order that no layout changes. What ranks account for is
/// bounded at multiples of unit::alignment elements of a tensor (which must not be sliced), so a
/// group whose size divides both that and a row is on one rank. That rank adds the group's squares,
/// the others contribute zeros to the sum over the world, and every rank adds up the groups of a
/// row. Memory and reduction: for one tensor after another 16 bytes a group, which has 32 elements
/// where the rows' width is a multiple of 32.
template <class Units, class Device, class Comm, class Stream, class Exchange>
[[nodiscard]] std::vector<double> canonical_row_squares(Units const& units,
                                                        tensor_list const& tensors,
                                                        Device const& device, Comm& world,
                                                        Stream& compute, Exchange& exchanges) {
  using unit_type = std::decay_t<decltype(units.front().memory)>;
  using layout = std::decay_t<decltype(units.front().memory.layout())>;
  struct groups {
    index rows, of_row, width;
    explicit groups(tensor_list::tensor const& tensor) : rows(clipping_rows(tensor.extents)) {
      index of_tensor = 1;
      for (index const extent : tensor.extents) of_tensor *= extent;
      width = std::gcd(of_tensor / rows, index{layout::alignment});
      of_row = of_tensor / rows / width;
    }
    [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(rows * of_row); }
  };
  std::size_t max_groups = 0;
  for (auto const& tensor : tensors.tensors())
    max_groups = std::max(max_groups, groups(tensor).count());
  auto const memory = device.template allocate_shared<double>(2 * max_groups);
  std::vector<double> out[2];  // of weights, of gradients
  for (auto const& tensor : tensors.tensors()) {
    groups const tensor_groups(tensor);
    auto const squares = memory.span().first(2 * tensor_groups.count());
    std::ranges::fill(squares, 0.0);
    for_each_trained_piece(
        units, primary_range,
        [&](unit_type const& unit, std::size_t s, auto const& p, index first, index last,
            index begin) {
          if (p.name != tensor.name) return;
          auto const group_squares =
              squares.subspan(static_cast<std::size_t>(first / tensor_groups.width));
          ops::row_squared_norms(compute, group_squares,
                                 slice(unit.segments()[s].master.span(), begin, last - first),
                                 {0, tensor_groups.width});
          ops::row_squared_norms(compute, group_squares.subspan(tensor_groups.count()),
                                 slice(unit.owned_gradients(s), begin, last - first),
                                 {0, tensor_groups.width});
        });
    compute.synchronize();
    world.all_reduce(exchanges, squares, reduction::sum).wait();
    for (std::size_t quantity = 0; quantity < 2; ++quantity)
      for (index row = 0; row < tensor_groups.rows; ++row) {
        auto const row_squares_of_groups = slice(squares.subspan(quantity * tensor_groups.count()),
                                                 row * tensor_groups.of_row, tensor_groups.of_row);
        out[quantity].push_back(
            std::accumulate(row_squares_of_groups.begin(), row_squares_of_groups.end(), 0.0));
      }
  }
  out[0].insert(out[0].end(), out[1].begin(), out[1].end());
  return std::move(out[0]);
}

}  // namespace detail

/// Clips the owned reduced gradients, sums over `tokens`, adaptively. A row may be on several
/// ranks. In the canonical order, for which no tensor may be sliced, clipped gradients have the
/// same bits on every layout; canonical_row_squares says what that costs. Blocks. Memory and
/// reduction in the order of ranks: 16 bytes a row.
template <class Units, class Device, class Comm, class Stream, class Exchange>
void clip_rows(Units const& units, tensor_list const& tensors, Device const& device, Comm& world,
               Stream& compute, Exchange& exchanges, double threshold, double tokens,
               zero::reduction_order order) {
  using unit_type = std::decay_t<decltype(units.front().memory)>;
  using gradient_type = typename unit_type::gradient_type;
  detail::row_numbers const rows(tensors);
  auto const squares =
      order == zero::reduction_order::canonical_tree
          ? detail::canonical_row_squares(units, tensors, device, world, compute, exchanges)
          : detail::row_squares(units, tensors, rows, device, world, compute, exchanges);
  auto const factors = device.template allocate_shared<gradient_type>(rows.count);
  for (std::size_t r = 0; r < rows.count; ++r)
    factors.data()[r] = static_cast<gradient_type>(adaptive_factor(
        std::sqrt(squares[r]), std::sqrt(squares[rows.count + r]) / tokens, threshold));
  detail::for_each_row_part(
      units, tensors, rows,
      [](auto const& unit, std::size_t s) { return unit.segments()[s].owned; },
      [&](unit_type const& unit, std::size_t s, index begin, index count, std::size_t row,
          ops::rows_location location) {
        ops::scale_rows(compute, detail::slice(unit.owned_gradients(s), begin, count),
                        std::span<gradient_type const>(factors.span()).subspan(row), location);
      });
  compute.synchronize();  // the factors are freed here
}

/// Clips the owned reduced gradients by `rule` where that is not one common factor. The host waits
/// for `compute`, after which tokens() is the number of tokens that gradients are summed over.
template <class Units, class Device, class Comm, class Stream, class Exchange, class Tokens>
void clip_parts(clipping const& rule, zero::reduction_order order, Units const& units,
                tensor_list const& tensors, Device const& device, Comm& world, Stream& compute,
                Exchange& exchanges, Tokens const& tokens) {
  auto const [kind, threshold] = rule;
  if (kind != clipping_kind::value && kind != clipping_kind::adaptive) return;
  compute.synchronize();
  auto const counted = static_cast<double>(std::max<std::int64_t>(1, tokens()));
  if (kind == clipping_kind::adaptive)
    return clip_rows(units, tensors, device, world, compute, exchanges, threshold, counted, order);
  for (auto const& entry : units) clip_values(entry.memory, compute, threshold, counted);
}

}  // namespace parallel::train
