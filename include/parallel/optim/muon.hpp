// Muon as torch.optim.Muon computes it (Jordan et al., 2024): momentum whose matrix is made nearly
// orthogonal by Newton-Schulz steps before it is subtracted. For matrices alone; other parameters
// belong into a group of another optimizer.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <parallel/core/error.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/ops/rows.hpp>
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
/// Every rank along the shard axis sends its range of u to the others, and orthogonalises each
/// matrix that its range touches: a matrix on the border of two ranges on both, with the same bits.
/// Sent per step and rank: 2(N-1)/N bytes an element over N shards (that of an all-gather in bf16).
/// Memory: master weights and one state per owned element; one workspace for all units, of 4 bytes
/// an owned and 2 bytes an element of the largest segment, and 6 bytes an element of its largest
/// matrix at most (more in muon_precision::master). Cost: 2 k² (2 n + k) operations a step for a
/// matrix of k x n, k <= n.
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

  [[nodiscard]] static std::span<std::string_view const> state_names() {
    static constexpr std::array<std::string_view, 1> names = {"momentum_buffer"};
    return names;
  }

  /// Throws `error` unless all tensors are whole matrices.
  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(segment_tensors const& where) const {
    for (auto const& tensor : where.tensors) {
      require(tensor.extents.size() == 2, "muon: ", tensor.name, " has ", tensor.extents.size(),
              " dimensions, but only matrices can be orthogonalised; put it into a group of "
              "another optimizer, such as decoupled_adamw");
      require(std::ranges::equal(tensor.extents, tensor.whole_extents), "muon: ", tensor.name,
              " is divided along the tensor axis, but only whole matrices can be orthogonalised; "
              "put it into a group of another optimizer, or use a tensor degree of 1");
    }
    using master = accumulate_t<T>;
    arena measured;
    if (precision == muon_precision::bf16)
      static_cast<void>(workspace<master, bf16>(measured, where));
    else
      static_cast<void>(workspace<master, master>(measured, where));
    return measured.peak();
  }

  template <class Stream, class T, reduced_gradient Gradient, class Exchange>
  void update(Stream& s, update_ranges<T, Gradient> const& ranges, segment_tensors const& where,
              Exchange const& exchange, step_info<accumulate_t<T>> const& info) const {
    if (precision == muon_precision::bf16)
      update_by<bf16>(s, ranges, where, exchange, info);
    else
      update_by<accumulate_t<T>>(s, ranges, where, exchange, info);
  }

 private:
  /// A: of master weights; E: of what is orthogonalised.
  template <class A, class E>
  struct workspace {
    using sum = accumulate_t<E>;
    std::span<A> direction;  // u of the owned range
    std::span<E> all;        // of the segment
    std::span<E> gram;       // x xᵀ, then what x is multiplied by
    std::span<sum> product;
    std::span<double> squared_norm;

    workspace(arena& memory, segment_tensors const& where) {
      index gram_size = 0, size = 0;
      for (auto const& tensor : where.tensors) {
        index const k = std::min(tensor.extents[0], tensor.extents[1]);
        gram_size = std::max(gram_size, k * k);
        size = std::max(size, tensor.size());
      }
      direction = memory.template allocate<A, 1>({where.end - where.begin}).span();
      all = memory.template allocate<E, 1>({where.size}).span();
      gram = memory.template allocate<E, 1>({gram_size}).span();
      product = memory.template allocate<sum, 1>({size}).span();
      squared_norm = memory.template allocate<double, 1>({1}).span();
    }
  };

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
  template <class Stream, class A, class E>
  void orthogonalise(Stream& s, matrix_view<E> x, workspace<A, E> const& w) const {
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

  template <class E, class Stream, class T, class Gradient, class Exchange>
  void update_by(Stream& s, update_ranges<T, Gradient> const& ranges, segment_tensors const& where,
                 Exchange const& exchange, step_info<accumulate_t<T>> const& info) const {
    using A = accumulate_t<T>;
    arena::scope const scope(*exchange.workspace);
    workspace<A, E> const w(*exchange.workspace, where);
    auto const part = [](auto all, index begin, index end) {
      return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    };
    ops::copy(s, w.direction, ranges.gradients.elements);
    if (info.gradient_scale != nullptr)
      ops::scale_rows(s, w.direction, std::span<A const>(info.gradient_scale, 1),
                      {.first = 0, .width = std::max<index>(1, where.end - where.begin)});
    ops::axpby(s, ranges.states[0], w.direction, 1 - momentum, momentum);
    if (nesterov)
      ops::axpby(s, w.direction, ranges.states[0], momentum, 1 - momentum);
    else
      ops::copy(s, w.direction, ranges.states[0]);
    auto const own = part(w.all, where.begin, where.end);
    ops::cast(s, own, w.direction);
    if (exchange.shards->size() > 1) {
      exchange.traffic->wait(s.record());
      exchange.shards->all_gather(*exchange.traffic, w.all, own).wait_on(s);
    }

    double const rate = learning_rate * info.learning_rate_factor;
    for (auto const& tensor : where.tensors) {
      index const begin = std::max(where.begin, tensor.offset);
      index const end = std::min(where.end, tensor.offset + tensor.size());
      if (begin >= end) continue;
      index const rows = tensor.extents[0], columns = tensor.extents[1];
      orthogonalise(s, matrix_view<E>(w.all.data() + tensor.offset, {rows, columns}), w);
      auto const master = part(ranges.master, begin - where.begin, end - where.begin);
      ops::axpby(s, master, part(w.all, begin, end), -rate * adjusted(rows, columns),
                 1 - rate * weight_decay);
      if constexpr (!std::is_same_v<T, A>)
        ops::cast(s, part(ranges.values, begin - where.begin, end - where.begin), master);
    }
  }
};

}  // namespace parallel
