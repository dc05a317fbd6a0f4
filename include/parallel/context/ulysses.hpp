// Ulysses: heads are exchanged for positions before attention, and back after it.
//
// Jacobs et al., "DeepSpeed Ulysses: System Optimizations for Enabling Training of Extreme Long
// Sequence Transformer Models", 2023. An all_to_all turns the rows here with all heads into all
// rows with 1/n of the heads; attention is then that of one rank, on fewer heads. Rows are packed:
// they consist of sections ([Q | K | V], or one), and of each the r-th of n equal parts goes to
// rank r. Sent per rank: (n-1)/n of the rows here, there and back, and the same in the backward
// pass. Memory: two more copies of the rows for the time of an exchange.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <string>
#include <string_view>

#include <parallel/context/ring.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::context_parallel {

/// Throws unless `heads` (of `what`: "query", "key") divide among `ranks`; names degrees that do.
inline void check_heads(std::string_view what, index heads, int ranks) {
  if (ranks > 0 && heads % ranks == 0) return;
  int below = std::max(ranks - 1, 1);
  while (heads % below != 0) --below;
  std::string choices = concat(below);
  for (int above = ranks + 1; above <= heads; ++above)
    if (heads % above == 0) {
      choices += concat(" or ", above);
      break;
    }
  fail("context: ", heads, ' ', what, " heads cannot be divided among ", ranks,
       " ranks, as the exchange of heads needs; set the context degree to ", choices,
       ", or choose the ring");
}

/// - sections(): the widths of what packed rows consist of; each divides among the ranks.
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

/// Copies between rows of packed heads, [R, W], and those of the `rank`-th part of each section,
/// [R, W/ranks]: copy(columns of the former, columns of the latter) for each section.
template <class T, class U, class Copy>
void for_each_section(std::span<index const> sections, int rank, int ranks, matrix_view<T> all,
                      matrix_view<U> part, Copy&& copy) {
  index first = 0;
  index first_of_part = 0;
  for (index const section : sections) {
    index const width = section / ranks;
    index const from = first + rank * width;
    copy(ops::rows_view<T>(all).slice_columns(from, from + width),
         ops::rows_view<U>(part).slice_columns(first_of_part, first_of_part + width));
    first += section;
    first_of_part += width;
  }
}

/// Copies between the rows that one rank holds and those of whole sequences: copy(the former, the
/// latter) for each run, all sequences at once.
template <class T, class U, class Copy>
void for_each_run(sequence_partition const& held, matrix_view<T> some, matrix_view<U> whole,
                  Copy&& copy) {
  index const width = some.extent(1);
  index const sequences = some.extent(0) / held.length();
  ops::rows_view<T> const here(matrix_view<T>{some.data(), {sequences, held.length() * width}});
  ops::rows_view<U> const all(matrix_view<U>{whole.data(), {sequences, held.whole() * width}});
  for (int which = 0; which < held.runs(); ++which) {
    run const at = held.at(which);
    copy(here.slice_columns(at.row * width, (at.row + at.count) * width),
         all.slice_columns(at.position * width, (at.position + at.count) * width));
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

/// The i-th of n matrices one below the other.
template <class T>
[[nodiscard]] matrix_view<T> part_of(matrix_view<T> all, int i, int n) {
  index const rows = all.extent(0) / n;
  return all.slice(i * rows, (i + 1) * rows);
}

}  // namespace detail

/// From the rows here with all heads, [rows, W], to all rows with this rank's part of each section,
/// [rows * n, W/n].
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

/// The way back: from [rows * n, W/n] to [rows, W].
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

/// From packed rows here, [rows, W], to attended values, [rows, D].
template <class Core, class Stream, class Comm>
requires heads_core<Core, Stream>
[[nodiscard]] matrix_view<typename Core::element> ulysses_forward(
    context<Stream>& c, group<Comm> const& ranks, Core& core,
    matrix_view<typename Core::element const> rows) {
  using T = typename Core::element;
  auto whole = undivided(c);
  matrix_view<T const> const packed = to_heads<T>(c, ranks, rows, core.sections());
  matrix_view<T const> const values = core.forward_heads(whole, packed, ranks.rank(), ranks.size());
  index const width = values.extent(1) * ranks.size();
  return to_rows<T>(c, ranks, values, std::span(&width, 1));
}

/// From the gradient of the values here, [rows, D], to that of the packed rows, [rows, W].
template <class Core, class Stream, class Comm>
requires heads_core<Core, Stream>
[[nodiscard]] matrix_view<typename Core::element> ulysses_backward(
    context<Stream>& c, group<Comm> const& ranks, Core& core,
    matrix_view<typename Core::element const> d_values) {
  using T = typename Core::element;
  auto whole = undivided(c);
  index const width = d_values.extent(1);
  matrix_view<T const> const d_heads = to_heads<T>(c, ranks, d_values, std::span(&width, 1));
  matrix_view<T const> const d_packed =
      core.backward_heads(whole, d_heads, ranks.rank(), ranks.size());
  return to_rows<T>(c, ranks, d_packed, core.sections());
}

}  // namespace parallel::context_parallel
