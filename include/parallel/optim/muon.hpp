// Muon as torch.optim.Muon computes it (Jordan et al., 2024): momentum whose matrix is made nearly
// orthogonal by Newton-Schulz steps before it is subtracted. For matrices alone; other parameters
// belong into a group of another optimizer.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/core/error.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/ops/rows.hpp>
#include <parallel/ops/rows_view.hpp>
#include <parallel/optim/whole_tensors.hpp>

namespace parallel {

/// What the learning rate of a rows x columns matrix is multiplied by: sqrt(max(1, rows/columns)),
/// 0.2 sqrt(max(rows, columns)) (which suits AdamW's learning rates), or sqrt(rows/columns).
enum class muon_adjustment : std::uint8_t { original, match_rms_adamw, spectral_unclamped };

/// In what the Newton-Schulz steps keep their matrices: bf16 as PyTorch, or as master weights are.
enum class muon_precision : std::uint8_t { bf16, master };

///   m += (1 - momentum) (g - m)              u = nesterov ? g + momentum (m - g) : m
///   x = u / max(|u|, eps)                    `steps` times: x = a x + (b x xᵀ + c (x xᵀ)²) x
///   p *= 1 - lr weight_decay                 p -= lr adjustment x
///
/// Every rank along the shard axis sends its range of u to the others, and every one along the
/// tensor axis adds its slice of a divided matrix to zeros, which sums them without rounding. A
/// rank orthogonalises each matrix that its range touches: one on the border of two ranges on both,
/// with the same bits. Sent per step and rank: 2(N-1)/N bytes an element over N shards (that of an
/// all-gather in bf16), and 4(T-1)/T an element of the whole matrices over T slices.
/// Memory: master weights and one state per owned element; one workspace for all units, of 2 bytes
/// an element of a unit's segments and of its divided matrices, and of 4 bytes an owned or at most
/// 6 bytes an element of the largest matrix, whichever is more (more in muon_precision::master).
/// Cost: 2 k² (2 n + k) operations a step for a matrix of k x n, k <= n.
struct muon {
  double learning_rate = 1e-3;  // initial; the schedule multiplies it
  double weight_decay = 0.1;    // of the learning rate
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};  // a, b, c
  double eps = 1e-7;
  int steps = 5;
  muon_adjustment adjustment = muon_adjustment::original;
  muon_precision precision = muon_precision::bf16;

  friend bool operator==(muon const&, muon const&) = default;

  [[nodiscard]] static std::span<std::string_view const> state_names() {
    static constexpr std::array<std::string_view, 1> names = {"momentum_buffer"};
    return names;
  }

  void visit_settings(auto&& visit) const {
    visit("learning_rate", learning_rate);
    visit("weight_decay", weight_decay);
    visit("momentum", momentum);
    visit("nesterov", nesterov);
    for (double const one : coefficients) visit("coefficient", one);
    visit("eps", eps);
    visit("steps", steps);
    visit("adjustment", static_cast<int>(adjustment));
    visit("precision", static_cast<int>(precision));
  }

  /// Throws `error` unless all tensors are matrices.
  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(unit_tensors<T> const& where) const {
    for (auto const& tensor : where.tensors)
      require(tensor.extents().size() == 2, "muon: ", tensor.name(), " has ",
              tensor.extents().size(),
              " dimensions, but only matrices can be orthogonalised; put it into a group of "
              "another optimizer, such as decoupled_adamw");
    arena measured;
    in_precision<T>([&]<class E>(E) {
      kept<T, E> const all(measured, where);
      {
        arena::scope const first(measured);
        direction_of<accumulate_t<T>> const u(measured, where);
      }
      products<E> const last(measured, where);
    });
    return measured.peak();
  }

  template <class Stream, class T, reduced_gradient Gradient>
  void begin_update(Stream& s, std::vector<update_ranges<T, Gradient>> const& ranges,
                    unit_tensors<T> const& where, arena& workspace,
                    step_info<accumulate_t<T>> const& info) const {
    arena::scope const everything(workspace);
    in_precision<T>([&]<class E>(E) {
      kept<T, E> const all(workspace, where);
      direction_of<accumulate_t<T>> const u(workspace, where);
      for (std::size_t i = 0; i < ranges.size(); ++i)
        ops::cast(s, all.own(where, i), direction(s, ranges[i], u.of(where.segments[i]), info));
    });
  }

  template <class Stream, class Comm, class T, class Requests>
  void exchange(Stream& on, update_groups<Comm> const& groups, unit_tensors<T> const& where,
                arena& workspace, Requests& requests) const {
    arena::scope const everything(workspace);
    in_precision<T>([&]<class E>(E) {
      kept<T, E> const all(workspace, where);
      call_group gathers(*groups.shards);
      for (std::size_t i = 0; i < where.segments.size() && groups.shards->size() > 1; ++i)
        gathers.all_gather(on, all.segments[i], std::span<E const>(all.own(where, i)))
            .leave_to_its_stream();
      requests.push_back(gathers.end(on));
      if (!where.divided()) return;
      requests.back().leave_to_its_stream();
      std::optional<call_group<Comm>> sums;  // none: the pieces here are all of their tensors
      if (groups.slices != nullptr) sums.emplace(*groups.slices);
      for (std::size_t t = 0; t < where.tensors.size(); ++t) {
        auto const& tensor = where.tensors[t];
        if (tensor.whole()) continue;
        ops::fill(on, all.tensors[t], E{});
        for (auto const& piece : tensor.pieces)
          if (piece.counts)
            for_each_block(tensor, piece, all, t, 0, piece.slice->size(),
                           [&](auto in_tensor, auto here) { ops::copy(on, in_tensor, here); });
        if (sums) sums->all_reduce(on, all.tensors[t], reduction::sum).leave_to_its_stream();
      }
      if (sums) requests.push_back(sums->end(on));
    });
  }

  template <class Stream, class T, reduced_gradient Gradient>
  void finish_update(Stream& s, std::vector<update_ranges<T, Gradient>> const& ranges,
                     unit_tensors<T> const& where, arena& workspace,
                     step_info<accumulate_t<T>> const& info) const {
    arena::scope const everything(workspace);
    in_precision<T>([&]<class E>(E) {
      kept<T, E> const all(workspace, where);
      products<E> const work(workspace, where);
      for (std::size_t t = 0; t < where.tensors.size(); ++t) {
        auto const& tensor = where.tensors[t];
        bool orthogonal = false;
        for (auto const& piece : tensor.pieces) {
          auto const& range = where.segments[piece.segment];
          index const begin = std::max(range.begin, piece.offset);
          index const end = std::min(range.end, piece.offset + piece.slice->size());
          if (begin >= end) continue;
          if (!std::exchange(orthogonal, true)) orthogonalise(s, all.matrix(tensor, t), work);
          if (!tensor.whole())
            for_each_block(tensor, piece, all, t, begin - piece.offset, end - piece.offset,
                           [&](auto in_tensor, auto here) { ops::copy(s, here, in_tensor); });
          subtract(s, ranges[piece.segment], part(all.segments[piece.segment], begin, end),
                   begin - range.begin, adjusted(tensor.extents()[0], tensor.extents()[1]), info);
        }
      }
    });
  }

 private:
  /// f(E{}) with what is orthogonalised.
  template <class T, class F>
  void in_precision(F&& f) const {
    if (precision == muon_precision::bf16)
      f(bf16{});
    else
      f(accumulate_t<T>{});
  }
  template <class U>
  static std::span<U> part(std::span<U> all, index begin, index end) {
    return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }

  /// What lies in the workspace from the first to the last: u of whole segments, and of whole
  /// tensors where slices are apart.
  template <class T, class E>
  struct kept {
    std::vector<std::span<E>> segments;
    std::vector<std::span<E>> tensors;  // empty: in a segment

    kept(arena& memory, unit_tensors<T> const& where) {
      for (auto const& one : where.segments)
        segments.push_back(memory.template allocate<E, 1>({one.size}).span());
      for (auto const& one : where.tensors)
        tensors.push_back(memory.template allocate<E, 1>({one.whole() ? 0 : one.size()}).span());
    }
    [[nodiscard]] std::span<E> own(unit_tensors<T> const& where, std::size_t segment) const {
      return part(segments[segment], where.segments[segment].begin, where.segments[segment].end);
    }
    [[nodiscard]] matrix_view<E> matrix(trained_tensor<T> const& of, std::size_t number) const {
      auto const& first = of.pieces.front();
      E* const at =
          of.whole() ? segments[first.segment].data() + first.offset : tensors[number].data();
      return {at, {of.extents()[0], of.extents()[1]}};
    }
  };
  /// u of the owned range of one segment after another.
  template <class A>
  struct direction_of {
    std::span<A> memory;

    template <class T>
    direction_of(arena& from, unit_tensors<T> const& where) {
      index most = 0;
      for (auto const& one : where.segments) most = std::max(most, one.end - one.begin);
      memory = from.allocate<A, 1>({most}).span();
    }
    [[nodiscard]] std::span<A> of(segment_range const& one) const {
      return part(memory, 0, one.end - one.begin);
    }
  };
  /// In which one matrix after another is orthogonalised.
  template <class E>
  struct products {
    using sum = accumulate_t<E>;
    std::span<E> gram;  // x xᵀ, then what x is multiplied by
    std::span<sum> product;
    std::span<double> squared_norm;

    template <class T>
    products(arena& memory, unit_tensors<T> const& where) {
      index gram_size = 0, size = 0;
      for (auto const& tensor : where.tensors) {
        index const k = std::min(tensor.extents()[0], tensor.extents()[1]);
        gram_size = std::max(gram_size, k * k);
        size = std::max(size, tensor.size());
      }
      gram = memory.allocate<E, 1>({gram_size}).span();
      product = memory.allocate<sum, 1>({size}).span();
      squared_norm = memory.allocate<double, 1>({1}).span();
    }
  };

  /// Calls f(rows of the whole tensor, the same rows in the segment) for what elements
  /// [first, last) of a piece are.
  template <class T, class E, class F>
  static void for_each_block(trained_tensor<T> const& tensor, tensor_piece<T> const& piece,
                             kept<T, E> const& all, std::size_t number, index first, index last,
                             F&& f) {
    index const apart = tensor.extents()[1];
    E* const here = all.segments[piece.segment].data() + piece.offset;
    piece.slice->for_each_block(first, last, [&](index at, index count, index global, index run) {
      index const columns = run == 0 ? count : run;
      f(ops::rows_view<E>(all.tensors[number].data() + global, count / columns, columns,
                          run == 0 ? columns : apart),
        ops::rows_view<E>(here + at, count / columns, columns, columns));
    });
  }

  /// u, and the momentum.
  template <class Stream, class T, class Gradient>
  std::span<accumulate_t<T>> direction(Stream& s, update_ranges<T, Gradient> const& ranges,
                                       std::span<accumulate_t<T>> u,
                                       step_info<accumulate_t<T>> const& info) const {
    ops::copy(s, u, ranges.gradients.elements);
    if (info.gradient_scale != nullptr)
      ops::scale_rows(s, u, std::span<accumulate_t<T> const>(info.gradient_scale, 1),
                      {.first = 0, .width = std::max<index>(1, std::ssize(u))});
    ops::axpby(s, ranges.states[0], u, 1 - momentum, momentum);
    if (nesterov)
      ops::axpby(s, u, ranges.states[0], momentum, 1 - momentum);
    else
      ops::copy(s, u, ranges.states[0]);
    return u;
  }

  /// Of the weights from `at` of the ranges on.
  template <class Stream, class T, class Gradient, class E>
  void subtract(Stream& s, update_ranges<T, Gradient> const& ranges, std::span<E> x, index at,
                double adjustment_of_rate, step_info<accumulate_t<T>> const& info) const {
    double const rate = learning_rate * info.learning_rate_factor;
    auto const master = part(ranges.master, at, at + std::ssize(x));
    ops::axpby(s, master, x, -rate * adjustment_of_rate, 1 - rate * weight_decay);
    if constexpr (!std::is_same_v<T, accumulate_t<T>>)
      ops::cast(s, part(ranges.values, at, at + std::ssize(x)), master);
  }

  [[nodiscard]] double adjusted(index rows, index columns) const {
    auto const ratio = static_cast<double>(rows) / static_cast<double>(columns);
    switch (adjustment) {
      case muon_adjustment::original: return std::sqrt(std::max(1.0, ratio));
      case muon_adjustment::match_rms_adamw:
        return 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
      case muon_adjustment::spectral_unclamped: break;
    }
    return std::sqrt(ratio);
  }

  /// Makes x nearly orthogonal. Products of bf16 are summed in float and rounded once, together
  /// with what is added to them.
  template <class Stream, class E>
  void orthogonalise(Stream& s, matrix_view<E> x, products<E> const& w) const {
    using sum = accumulate_t<E>;
    auto const [a, b, c] = coefficients;
    bool const tall = x.extent(0) > x.extent(1);
    index const k = std::min(x.extent(0), x.extent(1));
    matrix_view<E> const gram(w.gram.data(), {k, k});
    matrix_view<sum> const square(w.product.data(), {k, k});
    matrix_view<sum> const product(w.product.data(), x.extents());
    ops::fill(s, w.squared_norm, 0.0);
    ops::squared_norm(s, w.squared_norm.data(), x.span());
    ops::normalise(s, x.span(), w.squared_norm.data(), eps);
    for (int step = 0; step < steps; ++step) {
      ops::matmul(s, gram, x, x, {.transpose_a = tall, .transpose_b = !tall});
      ops::matmul(s, square, gram, gram);
      ops::axpby(s, gram.span(), square.span(), c, b);
      if (tall)
        ops::matmul(s, product, x, gram, {.transpose_b = true});
      else
        ops::matmul(s, product, gram, x);
      ops::axpby(s, x.span(), product.span(), 1.0, a);
    }
  }
};

}  // namespace parallel
