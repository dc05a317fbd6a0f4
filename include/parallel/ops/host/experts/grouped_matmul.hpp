// grouped_matmul and its weight gradient on the host: one task for the products of all experts.
//
// Each product is divided into pieces of its result, each of which one thread computes, and free
// threads take the next piece of whichever expert it is: experts of few rows share the threads, and
// one of many occupies all. The pieces depend on the numbers of rows alone, so results do not
// depend on the threads; those of our own products do not depend on an expert's other rows either.
// A library that does not serve several threads at a time computes one product after the other.
#pragma once

#include <algorithm>
#include <atomic>

#include <parallel/ops/experts/grouped_matmul.hpp>
#include <parallel/ops/host/matmul.hpp>

namespace parallel::host {

namespace detail {

/// The division of one extent of a result into equal pieces, the last of which may be smaller.
struct even_pieces {
  index extent;
  index piece;

  /// Pieces of at most `largest`, a multiple of 8.
  [[nodiscard]] static even_pieces divide(index extent, index largest) {
    index const count = std::max<index>(1, (extent + largest - 1) / largest);
    return {extent, std::max<index>(8, ((extent + count - 1) / count + 7) / 8 * 8)};
  }
  [[nodiscard]] index count() const { return (extent + piece - 1) / piece; }
  [[nodiscard]] index begin(index k) const { return k * piece; }
  [[nodiscard]] index size(index k) const { return std::min(piece, extent - begin(k)); }
};

/// The pieces of a product's result [m, n].
struct result_pieces {
  even_pieces rows, columns;

  template <class C, class T>
  [[nodiscard]] static result_pieces divide(ops::matmul_arguments<C, T> const& p) {
    constexpr bool is_narrow = std::is_same_v<T, float> || std::is_same_v<T, bf16>;
    index const columns = p.c.extent(1);  // reference loops compute whole rows
    return {even_pieces::divide(p.c.extent(0), is_narrow ? 512 : 8),
            even_pieces::divide(columns, is_narrow ? 1024 : std::max<index>(1, columns))};
  }
  [[nodiscard]] index count() const { return rows.count() * columns.count(); }
};

/// Computes piece k of a product on the calling thread.
template <class C, class T>
void multiply_piece(matmul_engine const* engine, workspace& memory,
                    ops::matmul_arguments<C, T> const& p, result_pieces const& pieces, index k) {
  index const row = pieces.rows.begin(k % pieces.rows.count());
  index const rows = pieces.rows.size(k % pieces.rows.count());
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bf16>) {
    index const column = pieces.columns.begin(k / pieces.rows.count());
    auto arguments = engine_arguments(p, 1);
    arguments.varies = true;
    arguments.m = rows;
    arguments.n = pieces.columns.size(k / pieces.rows.count());
    arguments.a = p.a.data() + row * (arguments.transpose_a ? 1 : arguments.lda);
    arguments.b = p.b.data() + column * (arguments.transpose_b ? arguments.ldb : 1);
    arguments.c = p.c.data() + row * arguments.ldc + column;
    if (arguments.addend != nullptr)
      arguments.addend = p.addend.data() + row * arguments.ldc + column;
    multiply<C, T>(engine, memory, arguments);
  } else {
    ops::detail::matmul_rows(row, row + rows, p.c, p.a, p.b, p.options, p.addend);
  }
}

/// Computes `parts` results, of which each is the sum of the products for which
/// for_each_product(part, f) calls f.
template <class Products>
void multiply_parts(stream& s, index parts, Products const& for_each_product) {
  int const threads = s.threads();
  auto const pieces_of = [&](index part) {
    index count = 0;
    for_each_product(
        part, [&](auto const& p) { count = p.c.empty() ? 0 : result_pieces::divide(p).count(); });
    return count;
  };
  index all = 0;
  for (index part = 0; part < parts; ++part) all += pieces_of(part);
  std::atomic<index> next = 0;
  parallel_tasks(threads, std::min<index>(std::max(threads, 1), all), [&](index thread) {
    index part = 0, first = 0;  // a thread's pieces come in ascending order
    index count = pieces_of(0);
    for (index piece = next++; piece < all; piece = next++) {
      for (; piece >= first + count; count = pieces_of(part)) {
        first += count;
        ++part;
      }
      for_each_product(part, [&](auto const& p) {
        multiply_piece(s.engine(), s.memory(static_cast<std::size_t>(thread)), p,
                       result_pieces::divide(p), piece - first);
      });
    }
  });
}

/// Enqueues multiply_parts, or the products one after the other where the engine does not serve
/// several threads.
template <class Arguments, class Products>
void run_products(stream& s, Arguments const& a, Products const& for_each_product) {
  s.enqueue({a.name}, [=, &s] {
    if (s.engine() == nullptr || s.engine()->serves_threads())
      return multiply_parts(s, a.parts(), for_each_product);
    for (index part = 0; part < a.parts(); ++part)
      for_each_product(part, [&](auto const& p) {
        if (!p.c.empty()) multiply(s.engine(), s.memory(), s.threads(), p);
      });
  });
}

}  // namespace detail

template <class T>
void run_operation(stream& s, ops::grouped_matmul_arguments<T> const& a) {
  detail::run_products(s, a, [=](index part, auto const& f) { f(a.product(part)); });
}

template <class T>
void run_operation(stream& s, ops::grouped_matmul_weight_arguments<T> const& a) {
  detail::run_products(s, a, [=](index expert, auto const& f) { a.for_each_product(expert, f); });
}

}  // namespace parallel::host
