// Norms over all heads together on ranks that hold some of them: ranks exchange heads for rows and
// back exactly, and the layer computes the result of one rank, with the planned bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/tensor/query_key_norm.hpp>
#include <parallel/tensor/slices.hpp>

namespace query_key_norm_test {
namespace {

using parallel::index;
using parallel::matrix_view;
using parallel::ops::head_layout;
using parallel::ops::rows_view;
using parallel::tensor::axis_position;
using parallel::tensor::columns_of_keys;
using parallel::tensor::columns_of_queries;
using parallel::tensor::shared_head_values;
using ring = std::uint64_t;
using communicator = parallel::threads::communicator;
template <class Comm>
using group_of = parallel::axis_group<parallel::axis::tensor, Comm>;

/// Columns [begin, begin + count) of rows of `width`.
template <class T>
std::vector<T> columns(std::vector<T> const& rows, index width, index begin, index count) {
  std::vector<T> out;
  for (std::size_t row = 0; row < rows.size(); row += static_cast<std::size_t>(width))
    for (index i = begin; i < begin + count; ++i)
      out.push_back(rows[row + static_cast<std::size_t>(i)]);
  return out;
}

std::vector<ring> counted(index size, ring first) {
  std::vector<ring> out(static_cast<std::size_t>(size));
  for (auto& x : out) x = first++;
  return out;
}

TEST_CASE(
    "query-key norm: heads are exchanged for rows and back; shared heads as copies or addends") {
  constexpr index all_rows = 7;  // not divisible by any of the numbers of ranks
  head_layout const layouts[] = {
      {.heads = 12, .kv_heads = 12, .dim = 3},  // by 5 ranks: 3, 3, 2, 2 and 2 heads
      {.heads = 12, .kv_heads = 6, .dim = 2},   // 2, and 1
      {.heads = 14, .kv_heads = 2, .dim = 1},   // each of 1, 2 or 3 neighbours
  };
  for (int const ranks : {2, 4, 5, 6})
    for (auto const& layout : layouts)
      for (bool const of_keys : {false, true}) {
        if (ranks > layout.kv_heads && ranks % layout.kv_heads != 0) continue;
        auto const rank_columns =
            of_keys ? columns_of_keys(ranks, layout) : columns_of_queries(ranks, layout);
        index const width = of_keys ? layout.kv_width() : layout.width();
        int const sharers = of_keys ? axis_position{0, ranks}.sharers_of(layout.kv_heads) : 1;
        auto const whole = counted(all_rows * width, 1);
        index const rows_per_rank = (all_rows + ranks - 1) / ranks;
        parallel::threads::run(ranks, [&](communicator& comm) {
          parallel::host::stream compute, exchanges;
          group_of<communicator> const group(comm, exchanges);
          std::vector<std::byte> space(1U << 16U, std::byte{0x5a});
          parallel::arena memory({nullptr, space.data(), space.size()});
          parallel::context<parallel::host::stream> c{.stream = compute, .memory = memory};
          auto const own_range = rank_columns[static_cast<std::size_t>(comm.rank())];
          auto const local_heads = columns(whole, width, own_range.begin, own_range.count);
          rows_view<ring const> const local_view(local_heads.data(), all_rows, own_range.count,
                                                 own_range.count);
          index const first = std::min<index>(comm.rank() * rows_per_rank, all_rows);
          index const count = std::min<index>(first + rows_per_rank, all_rows) - first;
          for (auto const kind : {shared_head_values::copies, shared_head_values::addends}) {
            CAPTURE(ranks);
            CAPTURE(layout.heads);
            CAPTURE(of_keys);
            auto const rows = heads_to_rows<ring>(c, group, local_view, rank_columns, kind);
            std::vector<ring> returned_heads(local_heads.size());
            rows_to_heads<ring>(
                c, group,
                rows_view<ring>(returned_heads.data(), all_rows, own_range.count, own_range.count),
                rows, rank_columns, kind);
            compute.synchronize();
            bool const sum = kind == shared_head_values::addends;
            std::vector<ring> expected(whole.begin() + first * width,
                                       whole.begin() + (first + count) * width);
            if (sum)
              for (auto& x : expected) x *= static_cast<ring>(sharers);
            expected.resize(
                static_cast<std::size_t>(rows_per_rank * width));  // further rows are zero
            CHECK(std::ranges::equal(rows.span(), expected));
            auto expected_heads = local_heads;
            if (sum)
              for (auto& x : expected_heads)
                x *= comm.rank() % sharers == 0 ? static_cast<ring>(sharers) : 0;
            CHECK(returned_heads == expected_heads);
          }
        });
      }
}

struct outcome {
  std::vector<double> y, dx, q, q_bias, k, k_bias;  // gradients of shared keys are summed
};

constexpr index rows = 11;
constexpr head_layout shared_keys_layout{.heads = 12, .kv_heads = 2, .dim = 2};  // [24 | 4 | 4]
constexpr head_layout uneven{.heads = 14, .kv_heads = 7, .dim = 2};              // [28 | 14 | 14]

double number(std::uint32_t stream_id, std::size_t i) {
  return parallel::philox(3, stream_id).normal(i) * (1 + static_cast<double>(i % 5));
}

parallel::query_key_norm<double> norms(head_layout const& layout) {
  auto const make = [](char const* name, index width) {
    return parallel::norm<double>{.weight = {std::string(name) + ".weight", {width}},
                                  .bias = {std::string(name) + ".bias", {width}}};
  };
  return {make("q_ln", layout.width()), make("k_ln", layout.kv_width())};
}

template <class Stream, class Comm>
auto passes(parallel::context<Stream>& c, group_of<Comm> const& group, head_layout const& layout,
            head_layout const& local_layout, parallel::query_key_norm<double> inner,
            matrix_view<double> packed, matrix_view<double> d_packed) {
  parallel::tensor::query_key_norm<double, Comm> const layer{
      std::move(inner), group, columns_of_queries(group.size(), layout),
      columns_of_keys(group.size(), layout)};
  typename parallel::tensor::query_key_norm<double, Comm>::saved state;
  auto const y = layer.forward(c, local_layout, packed, state);
  auto const dx = layer.backward_input(c, local_layout, d_packed, state);
  layer.backward_weight(c, state);
  return std::pair{y, dx};
}

template <class Decorate>
outcome run(head_layout const& layout, int ranks, Decorate const& decorate,
            std::size_t* peak = nullptr) {
  outcome out;
  std::mutex lock;
  auto const total = static_cast<std::size_t>(rows * layout.row());
  out.y.resize(total);
  out.dx.resize(total);
  parallel::threads::run(ranks, [&](communicator& inner_comm) {
    auto comm = decorate(std::move(inner_comm));
    parallel::host::stream compute, exchanges;
    group_of<decltype(comm)> const group(comm, exchanges);
    axis_position const position{comm.rank(), comm.size()};
    auto const local_layout = position.part_of(layout);
    auto const keys = position.heads_of(layout.kv_heads);
    int const sharers = position.sharers_of(layout.kv_heads);
    // the columns of the whole packed row that this rank holds
    std::vector<index> columns_held;
    auto const add_columns = [&](index begin, index count) {
      for (index i = 0; i < count; ++i) columns_held.push_back(begin + i);
    };
    add_columns(position.queries_of(layout).begin * layout.dim, local_layout.width());
    add_columns(layout.width() + keys.begin * layout.dim, local_layout.kv_width());
    add_columns(layout.width() + layout.kv_width() + keys.begin * layout.dim,
                local_layout.kv_width());
    std::vector<double> packed, d_packed;
    // ranks that share a head have addends: 1, or 1/3 and 2/3, or 1/6, 2/6 and 3/6 of the sum
    double const part_of_sum = (static_cast<double>(position.rank % sharers) + 1) /
                               (static_cast<double>(sharers * (sharers + 1)) / 2);
    for (index row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < columns_held.size(); ++i) {
        auto const global = static_cast<std::size_t>(row * layout.row() + columns_held[i]);
        packed.push_back(number(1, global));
        bool const key = static_cast<index>(i) >= local_layout.width();
        d_packed.push_back(number(2, global) * (key ? part_of_sum : 1));
      }
    auto inner = norms(layout);
    std::vector<std::vector<double>> values, gradients;
    values.reserve(4);
    gradients.reserve(4);
    inner.visit_parameters([&](auto& p) {
      auto const size = static_cast<std::size_t>(p.size());
      values.emplace_back(size);
      for (std::size_t i = 0; i < size; ++i)
        values.back()[i] = number(3 + static_cast<std::uint32_t>(values.size()), i);
      gradients.emplace_back(size);
      p.data = values.back().data();
      p.gradient_data = gradients.back().data();
    });
    std::vector<std::byte> space(1U << 18U, std::byte{0x5a});
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<parallel::host::stream> c{.stream = compute, .memory = memory};
    auto const [y, dx] =
        passes(c, group, layout, local_layout, inner, {packed.data(), {rows, local_layout.row()}},
               {d_packed.data(), {rows, local_layout.row()}});
    compute.synchronize();
    std::scoped_lock const guard(lock);
    if (peak != nullptr) *peak = std::max(*peak, memory.peak());  // that of the first rank
    for (index row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < columns_held.size(); ++i) {
        auto const global = static_cast<std::size_t>(row * layout.row() + columns_held[i]);
        auto const local = static_cast<std::size_t>(row * local_layout.row()) + i;
        out.y[global] = y.data()[local];
        out.dx[global] += dx.data()[local];
      }
    std::size_t p = 0;
    for (auto* total : {&out.q, &out.q_bias, &out.k, &out.k_bias}) {
      total->resize(gradients[p].size());
      for (std::size_t i = 0; i < total->size(); ++i) (*total)[i] += gradients[p][i];
      ++p;
    }
  });
  return out;
}

void check_close(std::vector<double> const& actual, std::vector<double> const& expected) {
  double largest = 0;
  double worst = 0;
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(actual[i] - expected[i]));
  }
  CHECK(largest > 0);
  CHECK(worst <= 1e-14 * largest);
}

TEST_CASE("query-key norm: 2 to 6 ranks, some of which share keys, give the result of one rank") {
  auto const plain = [](communicator comm) { return comm; };
  for (auto const& setup : {std::pair{shared_keys_layout, 2},
                            {shared_keys_layout, 4},
                            {shared_keys_layout, 6},
                            {uneven, 2},
                            {uneven, 3},
                            {uneven, 5}}) {
    auto const& [layout, ranks] = setup;
    CAPTURE(setup.first.heads);
    CAPTURE(setup.second);
    auto const single = run(layout, 1, plain);
    auto const actual = run(layout, ranks, plain);
    check_close(actual.y, single.y);
    check_close(actual.dx, single.dx);
    check_close(actual.q, single.q);
    check_close(actual.q_bias, single.q_bias);
    check_close(actual.k, single.k);
    check_close(actual.k_bias, single.k_bias);
  }
}

TEST_CASE(
    "query-key norm: sends four times (t-1)/t of the widest q and k; the meta device plans "
    "bytes and memory") {
  for (auto const& setup : {std::pair{shared_keys_layout, 2},
                            {shared_keys_layout, 4},
                            {shared_keys_layout, 6},
                            {uneven, 3}}) {
    auto const& [layout, ranks] = setup;
    CAPTURE(setup.second);
    auto const recorder = std::make_shared<parallel::flight_recorder>();
    std::size_t peak = 0;
    static_cast<void>(run(
        layout, ranks,
        [&](communicator comm) {
          bool const is_counted = comm.rank() == 0;
          return parallel::recorded(
              std::move(comm),
              is_counted ? recorder : std::make_shared<parallel::flight_recorder>());
        },
        &peak));
    std::uint64_t sent = 0;
    for (auto const& [name, total] : recorder->totals()) sent += total.sent;

    parallel::meta::stream compute;
    parallel::arena memory;
    parallel::context<parallel::meta::stream> c{.stream = compute, .memory = memory};
    auto const local_layout = axis_position{0, ranks}.part_of(layout);
    matrix_view<double> const packed(nullptr, {rows, local_layout.row()});
    static_cast<void>(passes(c, group_of<communicator>::planned(0, ranks), layout, local_layout,
                             norms(layout), packed, packed));
    auto const t = static_cast<std::uint64_t>(ranks);
    auto const rows_per_rank = static_cast<std::uint64_t>((rows + ranks - 1) / ranks);
    auto const q_and_k = static_cast<std::uint64_t>(local_layout.width() + local_layout.kv_width());
    CHECK(sent == 4 * (t - 1) * rows_per_rank * q_and_k * sizeof(double));
    CHECK(compute.exchanges().at("tensor") == sent);
    CHECK(memory.peak() == peak);
  }
}

}  // namespace
}  // namespace query_key_norm_test
