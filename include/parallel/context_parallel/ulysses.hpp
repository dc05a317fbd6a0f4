// Ulysses: ranks exchange heads for positions before attention, and positions for heads after it.
//
// Jacobs et al., "DeepSpeed Ulysses: System Optimizations for Enabling Training of Extreme Long
// Sequence Transformer Models", 2023. An all_to_all turns the local rows with all heads into all
// rows with 1/n of the heads; attention is then that of one rank, on fewer heads. Packed rows
// consist of sections ([Q | K | V], or one), and rank r receives the r-th of n equal parts of each
// section. Sent per rank: (n-1)/n of the local rows in each direction, and the same in the backward
// pass. Memory: two more copies of the rows during an exchange.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <string>
#include <string_view>

#include <parallel/context_parallel/ring.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::context_parallel {

/// Throws unless `heads` (of `kind`: "query", "key") divide among `ranks`; names degrees that do.
inline void check_heads(std::string_view kind, index heads, int ranks) {
  if (ranks > 0 && heads % ranks == 0) return;
  int smaller_degree = std::max(ranks - 1, 1);
  while (heads % smaller_degree != 0) --smaller_degree;
  std::string choices = concat(smaller_degree);
  for (int larger_degree = ranks + 1; larger_degree <= heads; ++larger_degree)
    if (heads % larger_degree == 0) {
      choices += concat(" or ", larger_degree);
      break;
    }
  fail("context: ", heads, ' ', kind, " heads cannot be divided among ", ranks,
       " ranks, as the exchange of heads needs; set the context degree to ", choices,
       ", or choose the ring");
}

/// - sections(): the widths of the sections of packed rows; each divides among the ranks.
/// - forward_heads(c, rows, r, n): attention of whole sequences for the r-th of n parts of the
///   heads, from packed rows [all rows, W/n] to [all rows, D/n]. c is that of undivided sequences.
/// - backward_heads(c, d_result, r, n): from the gradient of the result to that of packed rows.
template <class Core, class Stream>
concept heads_core = requires(Core& core, context<Stream>& c,
                              matrix_view<typename Core::element const> rows) {
  { core.sections() } -> std::convertible_to<std::span<index const>>;
  { core.forward_heads(c, rows, 0, 1) } -> std::same_as<matrix_view<typename Core::element>>;
  { core.backward_heads(c, rows, 0, 1) } -> std::same_as<matrix_view<typename Core::element>>;
};

namespace detail {

/// Copies between rows of packed heads, [R, W], and rows of the `rank`-th part of each section,
/// [R, W/ranks]: calls copy(columns of the former, columns of the latter) for each section.
template <class T, class U, class Copy>
void for_each_section(std::span<index const> sections, int rank, int ranks,
                      matrix_view<T> all_heads, matrix_view<U> part, Copy&& copy) {
  index first = 0;
  index first_in_part = 0;
  for (index const section : sections) {
    index const width = section / ranks;
    index const from = first + rank * width;
    copy(ops::rows_view<T>(all_heads).slice_columns(from, from + width),
         ops::rows_view<U>(part).slice_columns(first_in_part, first_in_part + width));
    first += section;
    first_in_part += width;
  }
}

/// Copies between the rows that one rank holds and the rows of whole sequences: calls copy(the
/// former, the latter) for each run, with all sequences at once.
template <class T, class U, class Copy>
void for_each_run(sequence_partition const& partition, matrix_view<T> local_rows,
                  matrix_view<U> whole_rows, Copy&& copy) {
  index const width = local_rows.extent(1);
  index const sequences = local_rows.extent(0) / partition.length();
  ops::rows_view<T> const local_sequences(
      matrix_view<T>{local_rows.data(), {sequences, partition.length() * width}});
  ops::rows_view<U> const whole_sequences(
      matrix_view<U>{whole_rows.data(), {sequences, partition.whole() * width}});
  for (int number = 0; number < partition.runs(); ++number) {
    run const run_range = partition.run_at(number);
    copy(local_sequences.slice_columns(run_range.row * width,
                                       (run_range.row + run_range.count) * width),
         whole_sequences.slice_columns(run_range.position * width,
                                       (run_range.position + run_range.count) * width));
  }
}

inline void check_sections(std::span<index const> sections, int ranks, index columns) {
  index sum = 0;
  for (index const section : sections) {
    require(section % ranks == 0, "context: a section of ", section,
            " columns does not divide among ", ranks, " ranks");
    sum += section;
  }
  require(sum == columns, "context: rows have ", columns, " columns, but their sections ", sum);
}

/// The i-th of n equal matrices stacked by rows.
template <class T>
[[nodiscard]] matrix_view<T> part_of(matrix_view<T> stacked, int i, int n) {
  index const rows = stacked.extent(0) / n;
  return stacked.slice(i * rows, (i + 1) * rows);
}

}  // namespace detail

/// From the local rows with all heads, [rows, W], to all rows with this rank's part of each
/// section, [rows * n, W/n].
template <class T, class Stream, class Comm>
[[nodiscard]] matrix_view<T> to_heads(context<Stream>& c, group<Comm> const& ranks,
                                      matrix_view<T const> x, std::span<index const> sections) {
  int const n = ranks.size();
  detail::check_sections(sections, n, x.extent(1));
  sequence_partition(ranks.rank(), n, c).check(c);
  shape<2> const turned{x.extent(0) * n, x.extent(1) / n};
  auto const out = c.template allocate<T, 2>(turned);
  arena::scope const temporaries(c.memory);
  auto const sent = c.template allocate<T, 2>(turned);
  auto const received = c.template allocate<T, 2>(turned);
  for (int r = 0; r < n; ++r)
    detail::for_each_section(sections, r, n, x, detail::part_of(sent, r, n),
                             [&](auto from, auto to) { ops::copy(c.stream, to, from); });
  ranks.all_to_all(c.stream, received.span(), sent.span());
  for (int r = 0; r < n; ++r)
    detail::for_each_run(sequence_partition(r, n, c),
                         matrix_view<T const>(detail::part_of(received, r, n)), out,
                         [&](auto from, auto to) { ops::copy(c.stream, to, from); });
  return out;
}

/// The inverse of to_heads: from [rows * n, W/n] to [rows, W].
template <class T, class Stream, class Comm>
[[nodiscard]] matrix_view<T> to_rows(context<Stream>& c, group<Comm> const& ranks,
                                     matrix_view<T const> x, std::span<index const> sections) {
  int const n = ranks.size();
  detail::check_sections(sections, n, x.extent(1) * n);
  sequence_partition(ranks.rank(), n, c).check(c);
  auto const out = c.template allocate<T, 2>({x.extent(0) / n, x.extent(1) * n});
  arena::scope const temporaries(c.memory);
  auto const sent = c.template allocate<T, 2>(x.extents());
  auto const received = c.template allocate<T, 2>(x.extents());
  for (int r = 0; r < n; ++r)
    detail::for_each_run(sequence_partition(r, n, c), detail::part_of(sent, r, n), x,
                         [&](auto to, auto from) { ops::copy(c.stream, to, from); });
  ranks.all_to_all(c.stream, received.span(), sent.span());
  for (int r = 0; r < n; ++r)
    detail::for_each_section(sections, r, n, out,
                             matrix_view<T const>(detail::part_of(received, r, n)),
                             [&](auto to, auto from) { ops::copy(c.stream, to, from); });
  return out;
}

/// The context of attention on whole sequences, in which this rank holds all rows.
template <class Stream>
[[nodiscard]] context<Stream> undivided(context<Stream> const& c) {
  context<Stream> out = c;
  out.sequence = c.whole_sequence();
  out.share = {};
  return out;
}

/// From the local packed rows, [rows, W], to attended values, [rows, D].
template <class Core, class Stream, class Comm>
requires heads_core<Core, Stream>
[[nodiscard]] matrix_view<typename Core::element> ulysses_forward(
    context<Stream>& c, group<Comm> const& ranks, Core& core,
    matrix_view<typename Core::element const> rows) {
  using T = typename Core::element;
  auto whole_context = undivided(c);
  matrix_view<T const> const packed = to_heads<T>(c, ranks, rows, core.sections());
  matrix_view<T const> const values =
      core.forward_heads(whole_context, packed, ranks.rank(), ranks.size());
  index const width = values.extent(1) * ranks.size();
  return to_rows<T>(c, ranks, values, std::span(&width, 1));
}

/// From the gradient of the local values, [rows, D], to that of the packed rows, [rows, W].
template <class Core, class Stream, class Comm>
requires heads_core<Core, Stream>
[[nodiscard]] matrix_view<typename Core::element> ulysses_backward(
    context<Stream>& c, group<Comm> const& ranks, Core& core,
    matrix_view<typename Core::element const> d_values) {
  using T = typename Core::element;
  auto whole_context = undivided(c);
  index const width = d_values.extent(1);
  matrix_view<T const> const d_heads = to_heads<T>(c, ranks, d_values, std::span(&width, 1));
  matrix_view<T const> const d_packed =
      core.backward_heads(whole_context, d_heads, ranks.rank(), ranks.size());
  return to_rows<T>(c, ranks, d_packed, core.sections());
}

}  // namespace parallel::context_parallel
