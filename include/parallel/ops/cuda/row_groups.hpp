// A row of a matrix as groups of neighbouring elements that a thread reads and writes at once, and
// the groups of one row that a thread keeps in registers between passes over it.
//
// Group p of a row belongs to thread p % threads, in every pass: no thread reads what another one
// overwrites, so a result may replace its input in memory. Rows that are not aligned to their
// groups are processed element by element in the same order, so alignment does not change results.
#pragma once

#include <type_traits>
#include <utility>

#include <parallel/device/cuda/block.hpp>
#include <parallel/ops/cuda/group.hpp>

namespace parallel::cuda {

namespace detail {
template <class F, unsigned... Index>
PARALLELLM_DEVICE void unrolled(F const& f, std::integer_sequence<unsigned, Index...>) {
  (f(Index), ...);
}
}  // namespace detail

/// Calls f(0), ..., f(N - 1), each with a constant, so that arrays indexed by it stay in registers.
template <unsigned N, class F>
PARALLELLM_DEVICE void unrolled(F const& f) {
  detail::unrolled(f, std::make_integer_sequence<unsigned, N>{});
}

/// A row in groups of N elements; by default 16 bytes. T may be const. Whole: the caller knows that
/// the row is aligned and consists of full groups, so that no group is tested.
template <class T, unsigned N = pack_size<T>, bool Whole = false>
struct row_groups {
  using group_type = group<std::remove_const_t<T>, N>;
  static constexpr unsigned size = N;

  PARALLELLM_DEVICE row_groups(T* first, unsigned elements)
      : data(first),
        count(elements),
        aligned(reinterpret_cast<std::uintptr_t>(first) % sizeof(group_type) == 0) {}

  [[nodiscard]] PARALLELLM_DEVICE unsigned groups() const { return (count + N - 1) / N; }
  /// Elements of group p: N, or fewer at the end of the row.
  [[nodiscard]] PARALLELLM_DEVICE unsigned valid(unsigned p) const {
    unsigned const left = count - p * N;
    return Whole || left >= N ? N : left;
  }
  /// Elements after the end of the row are zero.
  [[nodiscard]] PARALLELLM_DEVICE group_type load(unsigned p) const {
    if (is_whole(p)) return load_whole(p);
    group_type out{};
    unrolled<N>([&](unsigned i) {
      if (i < valid(p)) out.value[i] = data[p * N + i];
    });
    return out;
  }
  PARALLELLM_DEVICE void store(unsigned p, group_type const& values) const {
    if (is_whole(p)) return store_whole(p, values);
    unrolled<N>([&](unsigned i) {
      if (i < valid(p)) data[p * N + i] = values.value[i];
    });
  }

  /// Whether group p is aligned and full, so that it can be read and written at once.
  [[nodiscard]] PARALLELLM_DEVICE bool is_whole(unsigned p) const {
    return Whole || (aligned && valid(p) == N);
  }
  [[nodiscard]] PARALLELLM_DEVICE group_type load_whole(unsigned p) const {
    return load_group<N>(data + p * N);
  }
  PARALLELLM_DEVICE void store_whole(unsigned p, group_type const& values) const {
    store_group(data + p * N, values);
  }

  T* data;
  unsigned count;
  bool aligned;
};

/// Calls f(p, k) for the groups p of this thread. k is a constant in f: it counts the groups up to
/// Kept, and is Kept for all later groups.
template <unsigned Kept, class Block, class F>
PARALLELLM_DEVICE void for_each_group(Block const& b, unsigned groups, F const& f) {
  unrolled<Kept>([&](unsigned k) {
    unsigned const p = k * b.threads() + b.thread();
    if (p < groups) f(p, k);
  });
  for (unsigned p = Kept * b.threads() + b.thread(); p < groups; p += b.threads()) f(p, Kept);
}

/// Calls f<whole>(p, values) for the groups p of this thread. If everything is `aligned`, `whole`
/// is true for full groups, which come first and of which `Ahead` are loaded from memory at a time.
/// It is false for the rest of the row, and for all of it if something is not aligned.
template <unsigned Ahead, class Block, class Row, class F>
PARALLELLM_DEVICE void for_each_loaded_group(Block const& b, Row const& row, bool aligned,
                                             F const& f) {
  unsigned const whole = aligned ? row.count / Row::size : 0;
  for (unsigned first = b.thread(); first < whole; first += Ahead * b.threads()) {
    typename Row::group_type values[Ahead];
    unrolled<Ahead>([&](unsigned k) {
      unsigned const p = first + k * b.threads();
      if (p < whole) values[k] = row.load_whole(p);
    });
    unrolled<Ahead>([&](unsigned k) {
      unsigned const p = first + k * b.threads();
      if (p < whole) f.template operator()<true>(p, values[k]);
    });
  }
  for (unsigned p = whole / b.threads() * b.threads() + b.thread(); p < row.groups();
       p += b.threads())
    if (p >= whole) f.template operator()<false>(p, row.load(p));
}

/// Calls f(p, values) for the groups p of this thread.
template <unsigned Ahead, class Block, class Row, class F>
PARALLELLM_DEVICE void for_each_loaded_group(Block const& b, Row const& row, F const& f) {
  for_each_loaded_group<Ahead>(b, row, row.aligned,
                               [&]<bool>(unsigned p, auto const& values) { f(p, values); });
}

/// The number of groups of a row that a thread keeps: groups of 16 bytes that hold 16 elements, at
/// most four.
template <class T>
inline constexpr unsigned kept_groups = sizeof(T) == 2 ? 2 : 4;

/// A row of which each thread keeps its first `Kept` groups in registers; it reads the others again
/// in every pass.
template <class T, unsigned Kept, bool Whole = false>
struct held_row {
  using groups = row_groups<T const, pack_size<T>, Whole>;
  using group_type = typename groups::group_type;

  template <class Block>
  PARALLELLM_DEVICE held_row(Block const& b, T const* first, unsigned elements)
      : row(first, elements) {
    unrolled<Kept>([&](unsigned k) {
      unsigned const p = k * b.threads() + b.thread();
      if (p < row.groups()) registers[k] = row.load(p);
    });
  }

  /// Group p, for the (p, k) that for_each_group passes.
  [[nodiscard]] PARALLELLM_DEVICE group_type at(unsigned p, unsigned k) const {
    return k < Kept ? registers[k] : row.load(p);
  }

  groups row;
  group_type registers[Kept];
};

}  // namespace parallel::cuda
