// Muon as torch.optim.Muon computes it (Jordan et al., 2024): Newton-Schulz steps make the momentum
// matrix nearly orthogonal before it is subtracted. It takes only matrices; other parameters belong
// in a group of another optimizer.
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
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/ops/rows.hpp>
#include <parallel/ops/rows_view.hpp>
#include <parallel/optim/whole_tensors.hpp>

namespace parallel {

/// The factor of the learning rate of a rows x columns matrix: sqrt(max(1, rows/columns)),
/// 0.2 sqrt(max(rows, columns)) (which suits AdamW's learning rates), or sqrt(rows/columns).
enum class muon_adjustment : std::uint8_t { original, match_rms_adamw, spectral_unclamped };

/// The type of the matrices in the Newton-Schulz steps: bf16 as in PyTorch, or that of master
/// weights.
enum class muon_precision : std::uint8_t { bf16, master };

///   m += (1 - momentum) (g - m)              u = nesterov ? g + momentum (m - g) : m
///   x = u / max(|u|, eps)                    `steps` times: x = a x + (b x xᵀ + c (x xᵀ)²) x
///   p *= 1 - lr weight_decay                 p -= lr adjustment x
///
/// Every rank along the shard axis sends its range of u to the others, and every rank along the
/// tensor axis adds its slice of a divided matrix to zeros, which sums the slices without rounding.
/// A rank orthogonalises each matrix that its range touches; both ranks orthogonalise a matrix on
/// the border of two ranges, with the same bits. Sent per step and rank: 2(N-1)/N bytes an element
/// over N shards (that of an all-gather in bf16), and 4(T-1)/T an element of the whole matrices
/// over T slices. Memory: master weights and one state per owned element; one workspace for all
/// units, of 2 bytes an element of a unit's segments and of its divided matrices, and of 4 bytes an
/// owned element or at most 6 bytes an element of the largest matrix, whichever is more (more in
/// muon_precision::master). Cost: 2 k² (2 n + k) operations a step for a matrix of k x n, k <= n.
struct muon {
  double learning_rate = 1e-3;  ///< initial; the schedule multiplies it
  double weight_decay = 0.1;    ///< relative to the learning rate
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};  ///< a, b, c
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
    for (double const coefficient : coefficients) visit("coefficient", coefficient);
    visit("eps", eps);
    visit("steps", steps);
    visit("adjustment", static_cast<int>(adjustment));
    visit("precision", static_cast<int>(precision));
  }

  /// Throws `error` unless all tensors are matrices.
  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(unit_tensors<T> const& unit) const {
    for (auto const& tensor : unit.tensors)
      require(tensor.extents().size() == 2, "muon: ", tensor.name(), " has ",
              tensor.extents().size(),
              " dimensions, but only matrices can be orthogonalised; put it into a group of "
              "another optimizer, such as decoupled_adamw");
    arena measured;
    in_precision<T>([&]<class E>(E) {
      gathered_directions<T, E> const gathered(measured, unit);
      {
        arena::scope const temporaries(measured);
        owned_direction<accumulate_t<T>> const u(measured, unit);
      }
      product_workspace<E> const work(measured, unit);
    });
    return measured.peak();
  }

  template <class Stream, class T, reduced_gradient Gradient>
  void begin_update(Stream& s, std::vector<update_ranges<T, Gradient>> const& ranges,
                    unit_tensors<T> const& unit, arena& workspace,
                    step_info<accumulate_t<T>> const& info) const {
    arena::scope const temporaries(workspace);
    in_precision<T>([&]<class E>(E) {
      gathered_directions<T, E> const gathered(workspace, unit);
      owned_direction<accumulate_t<T>> const u(workspace, unit);
      for (std::size_t i = 0; i < ranges.size(); ++i)
        ops::cast(s, gathered.owned_range(unit, i),
                  direction(s, ranges[i], u.range(unit.segments[i]), info));
    });
  }

  template <class Stream, class Comm, class T, class Requests>
  void exchange(Stream& stream, update_groups<Comm> const& groups, unit_tensors<T> const& unit,
                arena& workspace, Requests& requests) const {
    arena::scope const temporaries(workspace);
    in_precision<T>([&]<class E>(E) {
      gathered_directions<T, E> const gathered(workspace, unit);
      call_group gathers(*groups.shards);
      for (std::size_t i = 0; i < unit.segments.size() && groups.shards->size() > 1; ++i)
        gathers
            .all_gather(stream, gathered.segments[i],
                        std::span<E const>(gathered.owned_range(unit, i)))
            .detach();
      requests.push_back(gathers.end(stream));
      if (!unit.is_divided()) return;
      requests.back().detach();
      std::optional<call_group<Comm>> sums;  // empty: this rank has all pieces of its tensors
      if (groups.slices != nullptr) sums.emplace(*groups.slices);
      for (std::size_t t = 0; t < unit.tensors.size(); ++t) {
        auto const& tensor = unit.tensors[t];
        if (tensor.is_whole()) continue;
        ops::fill(stream, gathered.tensors[t], E{});
        for (auto const& piece : tensor.pieces)
          if (piece.is_first_copy)
            for_each_block(tensor, piece, gathered, t, 0, piece.slice->size(),
                           [&](auto tensor_rows, auto local_rows) {
                             ops::copy(stream, tensor_rows, local_rows);
                           });
        if (sums) sums->all_reduce(stream, gathered.tensors[t], reduction::sum).detach();
      }
      if (sums) requests.push_back(sums->end(stream));
    });
  }

  template <class Stream, class T, reduced_gradient Gradient>
  void finish_update(Stream& s, std::vector<update_ranges<T, Gradient>> const& ranges,
                     unit_tensors<T> const& unit, arena& workspace,
                     step_info<accumulate_t<T>> const& info) const {
    arena::scope const temporaries(workspace);
    in_precision<T>([&]<class E>(E) {
      gathered_directions<T, E> const gathered(workspace, unit);
      product_workspace<E> const work(workspace, unit);
      for (std::size_t t = 0; t < unit.tensors.size(); ++t) {
        auto const& tensor = unit.tensors[t];
        bool orthogonal = false;
        for (auto const& piece : tensor.pieces) {
          auto const& range = unit.segments[piece.segment];
          index const begin = std::max(range.begin, piece.offset);
          index const end = std::min(range.end, piece.offset + piece.slice->size());
          if (begin >= end) continue;
          if (!std::exchange(orthogonal, true)) orthogonalise(s, gathered.matrix(tensor, t), work);
          if (!tensor.is_whole())
            for_each_block(
                tensor, piece, gathered, t, begin - piece.offset, end - piece.offset,
                [&](auto tensor_rows, auto local_rows) { ops::copy(s, local_rows, tensor_rows); });
          subtract(s, ranges[piece.segment], part(gathered.segments[piece.segment], begin, end),
                   begin - range.begin, rate_adjustment(tensor.extents()[0], tensor.extents()[1]),
                   info);
        }
      }
    });
  }

 private:
  /// Calls f(E{}) with the element type E of the orthogonalised matrices.
  template <class T, class F>
  void in_precision(F&& f) const {
    if (precision == muon_precision::bf16)
      f(bf16{});
    else
      f(accumulate_t<T>{});
  }
  template <class U>
  static std::span<U> part(std::span<U> whole_span, index begin, index end) {
    return whole_span.subspan(static_cast<std::size_t>(begin),
                              static_cast<std::size_t>(end - begin));
  }

  /// The first part of the workspace, live from begin_update to finish_update: u of whole segments,
  /// and u of whole tensors that are divided into slices.
  template <class T, class E>
  struct gathered_directions {
    std::vector<std::span<E>> segments;
    std::vector<std::span<E>> tensors;  // empty where the tensor is in a segment

    gathered_directions(arena& memory, unit_tensors<T> const& unit) {
      for (auto const& item : unit.segments)
        segments.push_back(memory.template allocate<E, 1>({item.size}).span());
      for (auto const& item : unit.tensors)
        tensors.push_back(
            memory.template allocate<E, 1>({item.is_whole() ? 0 : item.size()}).span());
    }
    [[nodiscard]] std::span<E> owned_range(unit_tensors<T> const& unit, std::size_t segment) const {
      return part(segments[segment], unit.segments[segment].begin, unit.segments[segment].end);
    }
    [[nodiscard]] matrix_view<E> matrix(trained_tensor<T> const& tensor, std::size_t number) const {
      auto const& first = tensor.pieces.front();
      E* const elements = tensor.is_whole() ? segments[first.segment].data() + first.offset
                                            : tensors[number].data();
      return {elements, {tensor.extents()[0], tensor.extents()[1]}};
    }
  };
  /// u of this rank's range of one segment; the memory serves one segment after another.
  template <class A>
  struct owned_direction {
    std::span<A> memory;

    template <class T>
    owned_direction(arena& arena_of_direction, unit_tensors<T> const& unit) {
      index largest = 0;
      for (auto const& segment : unit.segments)
        largest = std::max(largest, segment.end - segment.begin);
      memory = arena_of_direction.allocate<A, 1>({largest}).span();
    }
    [[nodiscard]] std::span<A> range(segment_range const& segment) const {
      return part(memory, 0, segment.end - segment.begin);
    }
  };
  /// Workspace in which one matrix after another is orthogonalised.
  template <class E>
  struct product_workspace {
    using sum = accumulate_t<E>;
    std::span<E> gram;  // x xᵀ, then the polynomial by which x is multiplied
    std::span<sum> product;
    std::span<double> squared_norm;

    template <class T>
    product_workspace(arena& memory, unit_tensors<T> const& unit) {
      index gram_size = 0, size = 0;
      for (auto const& tensor : unit.tensors) {
        index const k = std::min(tensor.extents()[0], tensor.extents()[1]);
        gram_size = std::max(gram_size, k * k);
        size = std::max(size, tensor.size());
      }
      gram = memory.allocate<E, 1>({gram_size}).span();
      product = memory.allocate<sum, 1>({size}).span();
      squared_norm = memory.allocate<double, 1>({1}).span();
    }
  };

  /// Calls f(rows of the whole tensor, the same rows in the segment) for the elements [first, last)
  /// of a piece.
  template <class T, class E, class F>
  static void for_each_block(trained_tensor<T> const& tensor, tensor_piece<T> const& piece,
                             gathered_directions<T, E> const& gathered, std::size_t number,
                             index first, index last, F&& f) {
    index const stride = tensor.extents()[1];
    E* const local_elements = gathered.segments[piece.segment].data() + piece.offset;
    piece.slice->for_each_block(
        first, last, [&](index local, index count, index global, index run) {
          index const columns = run == 0 ? count : run;
          f(ops::rows_view<E>(gathered.tensors[number].data() + global, count / columns, columns,
                              run == 0 ? columns : stride),
            ops::rows_view<E>(local_elements + local, count / columns, columns, columns));
        });
  }

  /// Computes u and updates the momentum.
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

  /// Subtracts from the weights that begin at `offset` in the ranges.
  template <class Stream, class T, class Gradient, class E>
  void subtract(Stream& s, update_ranges<T, Gradient> const& ranges, std::span<E> x, index offset,
                double adjustment_factor, step_info<accumulate_t<T>> const& info) const {
    double const rate = learning_rate * info.learning_rate_factor;
    auto const master = part(ranges.master, offset, offset + std::ssize(x));
    ops::axpby(s, master, x, -rate * adjustment_factor, 1 - rate * weight_decay);
    if constexpr (!std::is_same_v<T, accumulate_t<T>>)
      ops::cast(s, part(ranges.values, offset, offset + std::ssize(x)), master);
  }

  [[nodiscard]] double rate_adjustment(index rows, index columns) const {
    auto const ratio = static_cast<double>(rows) / static_cast<double>(columns);
    switch (adjustment) {
      case muon_adjustment::original: return std::sqrt(std::max(1.0, ratio));
      case muon_adjustment::match_rms_adamw:
        return 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
      case muon_adjustment::spectral_unclamped: break;
    }
    return std::sqrt(ratio);
  }

  /// Makes x nearly orthogonal. Products of bf16 matrices are summed in float and rounded once,
  /// together with the summand.
  template <class Stream, class E>
  void orthogonalise(Stream& s, matrix_view<E> x, product_workspace<E> const& w) const {
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
