// Attention among ranks that hold parts of the sequences: in double the result of one rank, in
// float and bf16 within a bound that follows from the arithmetic; bytes and operations as counted.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/context_parallel/attention_core.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>

namespace attention_core_test {

using parallel::context_parallel::attention_core;
using context_method = parallel::context_parallel::method;
using parallel::ops::head_layout;
using attention_ranks = parallel::context_parallel::attention_ranks<parallel::any_communicator>;
using parallel::accumulate_t;
using parallel::arena;
using parallel::bf16;
using parallel::context;
using parallel::index;
using parallel::matrix_view;
using parallel::context_parallel::sequence_partition;
namespace ops = parallel::ops;
namespace threads = parallel::threads;

constexpr index whole = 48;

struct problem {
  head_layout layout = {6, 6, 8};
  index sequences = 2;
  bool alibi = false;
  float dropout = 0.0F;
  index window = -1;
  double softcap = 0.0;
  index document = 0;  // length of a document; 0: each sequence is one document

  [[nodiscard]] index rows() const { return sequences * whole; }
  [[nodiscard]] std::vector<float> slopes() const {
    std::vector<float> out;
    for (index h = 0; alibi && h < layout.heads; ++h)
      out.push_back(std::exp2(-static_cast<float>(h + 1)));
    return out;
  }
  [[nodiscard]] std::vector<std::int32_t> documents() const {
    std::vector<std::int32_t> out;
    for (index i = 0; document > 0 && i < rows(); ++i)
      out.push_back(static_cast<std::int32_t>(i % whole / document * document));
    return out;
  }
  [[nodiscard]] ops::attention_options options(std::span<float const> s,
                                               std::span<std::int32_t const> d) const {
    return {.scale = 1.0 / std::sqrt(static_cast<double>(layout.dim)),
            .alibi_slopes = s,
            .dropout = {.probability = dropout,
                        .random = parallel::philox(11, 22, 33),
                        .first_sequence = 5},
            .softcap = softcap,
            .window = window,
            .document_begins = d};
  }
};

/// Normal numbers that bf16 holds exactly.
template <class T>
std::vector<T> numbers(index count, std::uint32_t stream) {
  parallel::philox const source(3, stream);
  std::vector<T> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<T>(static_cast<float>(bf16(source.normal(i))));
  return out;
}

template <class T>
struct outcome {
  std::vector<T> values, d_packed;  // of all rows
};

/// Attention and its gradient on `ranks` ranks, whose totals go to `recorders` where given.
template <class T>
outcome<T> run(problem const& p, int ranks, context_method method,
               std::vector<std::shared_ptr<parallel::flight_recorder>> recorders = {}) {
  auto const width = p.layout.width();
  outcome<T> out{std::vector<T>(static_cast<std::size_t>(p.rows() * width)),
                 std::vector<T>(static_cast<std::size_t>(p.rows() * p.layout.row()))};
  recorders.resize(static_cast<std::size_t>(ranks));
  threads::run(ranks, [&](threads::communicator& inner) {
    auto& recorder = recorders[static_cast<std::size_t>(inner.rank())];
    if (!recorder) recorder = std::make_shared<parallel::flight_recorder>();
    int const rank = inner.rank();
    parallel::any_communicator comm(parallel::recorded(inner.split(0, "context"), recorder));
    parallel::host::device device;
    parallel::host::stream compute, exchanges, second_stream;
    arena memory(device.allocate<std::byte>(std::size_t{8} << 20));
    sequence_partition const part(rank, ranks, whole);
    std::vector<index> all_rows(static_cast<std::size_t>(p.rows()));
    for (std::size_t i = 0; i < all_rows.size(); ++i) all_rows[i] = static_cast<index>(i);
    auto const local_rows = part.pick(std::span<index const>(all_rows));
    auto const pick = [&](std::vector<T> const& source, index columns) {
      std::vector<T> picked;
      for (index const row : local_rows)
        picked.insert(picked.end(), source.begin() + row * columns,
                      source.begin() + (row + 1) * columns);
      return picked;
    };
    auto const packed = pick(numbers<T>(p.rows() * p.layout.row(), 1), p.layout.row());
    auto const gradient = pick(numbers<T>(p.rows() * width, 2), width);
    auto const slopes = p.slopes();
    auto const documents = p.documents();
    context<parallel::host::stream> c{.stream = compute,
                                      .memory = memory,
                                      .sequence = part.length(),
                                      .share = part.share(),
                                      .document_begins = documents};
    attention_ranks group{.method = method};
    if (ranks > 1) group.group = {comm, exchanges, second_stream};
    attention_core<T> core{.layout = p.layout,
                           .options = p.options(slopes, documents),
                           .packed = {packed.data(), {std::ssize(local_rows), p.layout.row()}}};
    auto const values = core.attend(c, group);
    auto const d_packed = core.backward(
        c, group, matrix_view<T const>(gradient.data(), {std::ssize(local_rows), width}));
    compute.synchronize();
    for (std::size_t i = 0; i < local_rows.size(); ++i) {  // ranks write to different rows
      auto const row = static_cast<index>(i);
      std::copy_n(values.data() + row * width, width, out.values.begin() + local_rows[i] * width);
      std::copy_n(d_packed.data() + row * p.layout.row(), p.layout.row(),
                  out.d_packed.begin() + local_rows[i] * p.layout.row());
    }
  });
  return out;
}

/// The largest difference relative to the largest number.
double relative_difference(std::vector<double> const& x, std::vector<double> const& y) {
  REQUIRE(x.size() == y.size());
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, std::abs(x[i] - y[i]));
    if (std::isnan(x[i])) return INFINITY;
    largest = std::max(largest, std::abs(y[i]));
  }
  return worst / largest;
}

std::vector<problem> problems(index key_heads) {
  head_layout const layout{12, key_heads, 4};
  return {{.layout = layout},
          {.layout = layout, .alibi = true},
          {.layout = layout, .dropout = 0.3F},
          {.layout = layout, .window = 7},
          {.layout = layout, .softcap = 0.8},
          {.layout = layout, .document = 10},
          {.layout = layout,
           .alibi = true,
           .dropout = 0.2F,
           .window = 17,
           .softcap = 2.0,
           .document = 21}};
}

TEST_CASE(
    "attention core: in double the ring equals one rank's attention, with every option and shared "
    "keys") {
  for (index const key_heads : {12, 4, 1})
    for (auto const& p : problems(key_heads)) {
      auto const single = run<double>(p, 1, context_method::ring);
      for (int const ranks : {2, 3, 4}) {
        CAPTURE(ranks);
        auto const actual = run<double>(p, ranks, context_method::ring);
        CHECK(relative_difference(actual.values, single.values) < 1e-14);
        CHECK(relative_difference(actual.d_packed, single.d_packed) < 1e-14);
      }
    }
}

TEST_CASE("attention core: exchanged heads give one rank's attention to the last bit") {
  for (auto const& p : problems(12)) {
    auto const single = run<double>(p, 1, context_method::ulysses);
    for (int const ranks : {2, 3, 4}) {
      CAPTURE(ranks);
      auto const actual = run<double>(p, ranks, context_method::ulysses);
      CHECK(actual.values == single.values);
      CHECK(actual.d_packed == single.d_packed);
    }
  }
  problem const shared{.layout = {12, 4, 4}, .alibi = true, .dropout = 0.1F};
  auto const single = run<float>(shared, 1, context_method::ulysses);
  auto const actual = run<float>(shared, 4, context_method::ulysses);
  CHECK(actual.values == single.values);
  CHECK(actual.d_packed == single.d_packed);
}

/// A bound of the error of results in T, to first order. u = 2^-24 is the rounding of float; r
/// rounds values that are kept as T, and the weights where products are of bf16. A sum of n numbers
/// has an error of n u times the sum of their absolute values. For one document, without window and
/// dropout, and with as many key heads as query heads.
struct bounds {
  std::vector<double> values, d_packed;
};
bounds allowed(problem const& p, outcome<double> const& exact, double r) {
  double const u = 0x1p-24;
  auto const slopes = p.slopes();
  index const width = p.layout.width();
  index const row = p.layout.row();
  index const dim = p.layout.dim;
  double const scale = p.options(slopes, {}).scale;
  auto const in = numbers<double>(p.rows() * row, 1);
  auto const dout = numbers<double>(p.rows() * width, 2);
  bounds out{std::vector<double>(exact.values.size()), std::vector<double>(exact.d_packed.size())};
  auto const as_size = [&](index i) { return static_cast<std::size_t>(i); };
  auto const sum = [&](auto f) {
    double total = 0;
    for (index d = 0; d < dim; ++d) total += f(d);
    return total;
  };
  auto const length = static_cast<double>(whole);
  auto const depth = static_cast<double>(dim);
  for (index b = 0; b < p.sequences; ++b)
    for (index h = 0; h < p.layout.heads; ++h) {
      auto const q = [&](index i, index d) {
        return in[as_size((b * whole + i) * row + h * dim + d)];
      };
      auto const k = [&](index i, index d) {
        return in[as_size((b * whole + i) * row + width + h * dim + d)];
      };
      auto const v = [&](index i, index d) {
        return in[as_size((b * whole + i) * row + 2 * width + h * dim + d)];
      };
      auto const g = [&](index i, index d) {
        return dout[as_size((b * whole + i) * width + h * dim + d)];
      };
      auto const y = [&](index i, index d) {
        return exact.values[as_size((b * whole + i) * width + h * dim + d)];
      };
      for (index i = 0; i < whole; ++i) {
        std::vector<double> p_i(as_size(i + 1));
        double total = 0;
        double error = 0;  // of a score: the sum of its products, and the bias
        for (index j = 0; j <= i; ++j) {
          double const slope = slopes.empty() ? 0.0 : static_cast<double>(slopes[as_size(h)]);
          double const bias = slope * static_cast<double>(i - j);
          double const score = scale * sum([&](index d) { return q(i, d) * k(j, d); }) - bias;
          error = std::max(
              error,
              u * ((depth + 2) * scale * sum([&](index d) { return std::abs(q(i, d) * k(j, d)); }) +
                   bias + std::abs(score)));
          total += p_i[as_size(j)] = std::exp(score);
        }
        // of a probability: the errors of its score and lse, of exp, of the sum, and of rounding to
        // bf16
        double const relative = 2 * error + (length + 8) * u + (r > u ? r : 0);
        double d_error =
            (depth + 1) * u * sum([&](index d) { return std::abs(g(i, d) * y(i, d)); });
        for (index d = 0; d < dim; ++d) {
          double amount = 0;
          for (index j = 0; j <= i; ++j) amount += p_i[as_size(j)] / total * std::abs(v(j, d));
          double const deviation = amount * (relative + (length + 4) * u) + r * std::abs(y(i, d));
          out.values[as_size((b * whole + i) * width + h * dim + d)] = deviation;
          d_error += std::abs(g(i, d)) * deviation;
        }
        double const softmax_gradient_sum = sum([&](index d) { return g(i, d) * y(i, d); });
        for (index j = 0; j <= i; ++j) {
          double const weight = p_i[as_size(j)] / total;
          double const dp = sum([&](index d) { return g(i, d) * v(j, d); });
          double const dp_error =
              (depth + 1) * u * sum([&](index d) { return std::abs(g(i, d) * v(j, d)); });
          double const ds = std::abs(weight * scale * (dp - softmax_gradient_sum));
          double const deviation = ds * (relative + r + 4 * u + (length + 4) * u) +
                                   weight * scale * (dp_error + d_error);
          for (index d = 0; d < dim; ++d) {
            out.d_packed[as_size((b * whole + i) * row + h * dim + d)] +=
                deviation * std::abs(k(j, d));
            out.d_packed[as_size((b * whole + j) * row + width + h * dim + d)] +=
                deviation * std::abs(q(i, d));
            out.d_packed[as_size((b * whole + j) * row + 2 * width + h * dim + d)] +=
                weight * std::abs(g(i, d)) * (relative + (length + 4) * u);
          }
        }
      }
    }
  for (std::size_t i = 0; i < out.d_packed.size(); ++i)
    out.d_packed[i] += r * std::abs(exact.d_packed[i]);
  return out;
}

template <class T>
void check_bounds(double r) {
  for (auto const& p :
       {problem{.layout = {2, 2, 8}}, problem{.layout = {2, 2, 24}, .alibi = true}}) {
    auto const exact = run<double>(p, 1, context_method::ring);
    auto const bound = allowed(p, exact, r);
    for (int const ranks : {1, 2, 3, 4}) {
      auto const actual = run<T>(p, ranks, context_method::ring);
      double worst = 0;  // relative to the bound; 1 % for terms of second order
      for (std::size_t i = 0; i < actual.values.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(actual.values[i]) - exact.values[i]) /
                                    bound.values[i]);
      CHECK(worst < 1.01);
      double worst_gradient = 0;
      for (std::size_t i = 0; i < actual.d_packed.size(); ++i)
        worst_gradient = std::max(
            worst_gradient, std::abs(static_cast<double>(actual.d_packed[i]) - exact.d_packed[i]) /
                                bound.d_packed[i]);
      CHECK(worst_gradient < 1.01);
      MESSAGE(ranks << " ranks: " << worst << " and " << worst_gradient << " of the bound");
    }
  }
}

TEST_CASE("attention core: in float the ring stays within the bound of its arithmetic") {
  check_bounds<float>(0x1p-24);
}
TEST_CASE("attention core: in bf16 the ring stays within the bound of its arithmetic") {
  check_bounds<bf16>(0x1p-8);
}

/// The meta device's counts for rank `rank` of `ranks`.
template <class T>
parallel::meta::stream planned(problem const& p, int rank, int ranks, context_method method) {
  parallel::meta::stream compute;
  arena memory;
  sequence_partition const part(rank, ranks, whole);
  context<parallel::meta::stream> c{
      .stream = compute, .memory = memory, .sequence = part.length(), .share = part.share()};
  attention_ranks const group{.group = decltype(attention_ranks::group)::planned(rank, ranks),
                              .method = method};
  auto const slopes = p.slopes();
  index const rows = p.sequences * part.length();
  attention_core<T> core{.layout = p.layout,
                         .options = p.options(slopes, {}),
                         .packed = {nullptr, {rows, p.layout.row()}}};
  static_cast<void>(core.attend(c, group));
  static_cast<void>(core.backward(c, group, {nullptr, {rows, p.layout.width()}}));
  return compute;
}

template <class T>
void check_bytes() {
  problem const p{.layout = {12, 4, 4}};
  for (int const ranks : {2, 4}) {
    auto const n = static_cast<std::uint64_t>(ranks);
    auto const rows = static_cast<std::uint64_t>(p.rows()) / n;
    auto const keys = rows * 2 * static_cast<std::uint64_t>(p.layout.kv_width());
    auto const packed = rows * static_cast<std::uint64_t>(p.layout.row());
    auto const values = rows * static_cast<std::uint64_t>(p.layout.width());
    std::map<context_method, std::uint64_t> const formulas = {
        {context_method::ring, 2 * (n - 1) * keys * sizeof(T) + n * keys * sizeof(accumulate_t<T>)},
        {context_method::ulysses, 2 * (packed + values) * sizeof(T) / n * (n - 1)}};
    for (auto const& [method, formula] : formulas) {
      std::vector<std::shared_ptr<parallel::flight_recorder>> recorders;
      for (int r = 0; r < ranks; ++r)
        recorders.push_back(std::make_shared<parallel::flight_recorder>());
      static_cast<void>(run<T>(p, ranks, method, recorders));
      for (int r = 0; r < ranks; ++r) {
        std::uint64_t sent = 0;
        for (auto const& [name, total] : recorders[static_cast<std::size_t>(r)]->totals()) {
          CHECK(name.first == "context");
          sent += total.sent;
        }
        CHECK(sent == formula);
        CHECK(planned<T>(p, r, ranks, method).exchanges().at("context") == formula);
      }
    }
  }
}

TEST_CASE("attention core: bytes sent are those of the formulas and of the meta device") {
  check_bytes<double>();
  check_bytes<bf16>();
}

TEST_CASE("attention core: ranks share one rank's operations evenly, by the meta device's count") {
  auto const attention_in = [](parallel::meta::stream const& s) {
    std::uint64_t sum = 0;
    for (auto const& [name, operations] : s.operations_by_name())
      if (name.find("attention") != std::string_view::npos) sum += operations;
    return sum;
  };
  for (index const window : {-1, 11}) {
    problem const p{.layout = {12, 4, 4}, .window = window};
    auto const single_rank_operations = attention_in(planned<float>(p, 0, 1, context_method::ring));
    for (auto const method : {context_method::ring, context_method::ulysses})
      for (int const ranks : {2, 4}) {
        std::uint64_t sum = 0;
        for (int r = 0; r < ranks; ++r) {
          auto const rank_operations = attention_in(planned<float>(p, r, ranks, method));
          if (window < 0)
            CHECK(rank_operations == single_rank_operations / static_cast<std::uint64_t>(ranks));
          sum += rank_operations;
        }
        CHECK(sum == single_rank_operations);
      }
  }
}

}  // namespace attention_core_test
