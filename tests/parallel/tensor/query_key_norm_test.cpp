// Norms over all heads together on ranks that hold some of them: heads are exchanged for rows and
// back exactly, and the layer computes what one rank computes, with the bytes that are planned.
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
using parallel::tensor::columns_of_keys;
using parallel::tensor::columns_of_queries;
using parallel::tensor::shared_head_values;
using parallel::tensor::axis_position;
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

TEST_CASE("heads go to the rows' ranks and come back; shared ones as copies or as addends") {
  constexpr index all_rows = 7;  // which no number of ranks divides
  head_layout const layouts[] = {
      {.heads = 12, .kv_heads = 12, .dim = 3},  // by 5 ranks: 3, 3, 2, 2 and 2 heads
      {.heads = 12, .kv_heads = 6, .dim = 2},   // 2, and 1
      {.heads = 14, .kv_heads = 2, .dim = 1},   // each of 1, 2 or 3 neighbours
  };
  for (int const ranks : {2, 4, 5, 6})
    for (auto const& all : layouts)
      for (bool const of_keys : {false, true}) {
        if (ranks > all.kv_heads && ranks % all.kv_heads != 0) continue;
        auto const held = of_keys ? columns_of_keys(ranks, all) : columns_of_queries(ranks, all);
        index const width = of_keys ? all.kv_width() : all.width();
        int const sharers = of_keys ? axis_position{0, ranks}.sharers_of(all.kv_heads) : 1;
        auto const whole = counted(all_rows * width, 1);
        index const each = (all_rows + ranks - 1) / ranks;
        parallel::threads::run(ranks, [&](communicator& comm) {
          parallel::host::stream compute, exchanges;
          group_of<communicator> const among(comm, exchanges);
          std::vector<std::byte> space(1U << 16U, std::byte{0x5a});
          parallel::arena memory({nullptr, space.data(), space.size()});
          parallel::context<parallel::host::stream> c{.stream = compute, .memory = memory};
          auto const mine = held[static_cast<std::size_t>(comm.rank())];
          auto const own = columns(whole, width, mine.begin, mine.count);
          rows_view<ring const> const here(own.data(), all_rows, mine.count, mine.count);
          index const first = std::min<index>(comm.rank() * each, all_rows);
          index const count = std::min<index>(first + each, all_rows) - first;
          for (auto const shared : {shared_head_values::copies, shared_head_values::addends}) {
            CAPTURE(ranks);
            CAPTURE(all.heads);
            CAPTURE(of_keys);
            auto const rows = heads_to_rows<ring>(c, among, here, held, shared);
            std::vector<ring> back(own.size());
            rows_to_heads<ring>(c, among,
                                rows_view<ring>(back.data(), all_rows, mine.count, mine.count),
                                rows, held, shared);
            compute.synchronize();
            bool const sum = shared == shared_head_values::addends;
            std::vector<ring> expected(whole.begin() + first * width,
                                       whole.begin() + (first + count) * width);
            if (sum)
              for (auto& x : expected) x *= static_cast<ring>(sharers);
            expected.resize(static_cast<std::size_t>(each * width));  // no more rows: zeros
            CHECK(std::ranges::equal(rows.span(), expected));
            auto returned = own;
            if (sum)
              for (auto& x : returned)
                x *= comm.rank() % sharers == 0 ? static_cast<ring>(sharers) : 0;
            CHECK(back == returned);
          }
        });
      }
}

struct outcome {
  std::vector<double> y, dx, q, q_bias, k, k_bias;  // gradients of shared keys are their sums
};

constexpr index rows = 11;
constexpr head_layout shared_by_some{.heads = 12, .kv_heads = 2, .dim = 2};  // [24 | 4 | 4]
constexpr head_layout uneven{.heads = 14, .kv_heads = 7, .dim = 2};          // [28 | 14 | 14]

double number(std::uint32_t which, std::size_t i) {
  return parallel::philox(3, which).normal(i) * (1 + static_cast<double>(i % 5));
}

parallel::query_key_norm<double> norms(head_layout const& all) {
  auto const make = [](char const* name, index width) {
    return parallel::norm<double>{.weight = {std::string(name) + ".weight", {width}},
                                  .bias = {std::string(name) + ".bias", {width}}};
  };
  return {make("q_ln", all.width()), make("k_ln", all.kv_width())};
}

template <class Stream, class Comm>
auto passes(parallel::context<Stream>& c, group_of<Comm> const& among, head_layout const& all,
            head_layout const& here, parallel::query_key_norm<double> inner,
            matrix_view<double> packed, matrix_view<double> d_packed) {
  parallel::tensor::query_key_norm<double, Comm> const layer{std::move(inner), among,
                                                             columns_of_queries(among.size(), all),
                                                             columns_of_keys(among.size(), all)};
  typename parallel::tensor::query_key_norm<double, Comm>::saved kept;
  auto const y = layer.forward(c, here, packed, kept);
  auto const dx = layer.backward_input(c, here, d_packed, kept);
  layer.backward_weight(c, kept);
  return std::pair{y, dx};
}

template <class Decorate>
outcome run(head_layout const& all, int ranks, Decorate const& decorate,
            std::size_t* peak = nullptr) {
  outcome out;
  std::mutex lock;
  auto const total = static_cast<std::size_t>(rows * all.row());
  out.y.resize(total);
  out.dx.resize(total);
  parallel::threads::run(ranks, [&](communicator& own) {
    auto comm = decorate(std::move(own));
    parallel::host::stream compute, exchanges;
    group_of<decltype(comm)> const among(comm, exchanges);
    axis_position const at{comm.rank(), comm.size()};
    auto const here = at.part_of(all);
    auto const keys = at.heads_of(all.kv_heads);
    int const sharers = at.sharers_of(all.kv_heads);
    // columns of the whole packed row that are here
    std::vector<index> which;
    auto const take = [&](index begin, index count) {
      for (index i = 0; i < count; ++i) which.push_back(begin + i);
    };
    take(at.queries_of(all).begin * all.dim, here.width());
    take(all.width() + keys.begin * all.dim, here.kv_width());
    take(all.width() + all.kv_width() + keys.begin * all.dim, here.kv_width());
    std::vector<double> packed, d_packed;
    // what sharers have are addends: 1, or 1/3 and 2/3, or 1/6, 2/6 and 3/6 of the sum
    double const part_of_sum = (static_cast<double>(at.rank % sharers) + 1) /
                               (static_cast<double>(sharers * (sharers + 1)) / 2);
    for (index row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < which.size(); ++i) {
        auto const global = static_cast<std::size_t>(row * all.row() + which[i]);
        packed.push_back(number(1, global));
        bool const key = static_cast<index>(i) >= here.width();
        d_packed.push_back(number(2, global) * (key ? part_of_sum : 1));
      }
    auto inner = norms(all);
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
    auto const [y, dx] = passes(c, among, all, here, inner, {packed.data(), {rows, here.row()}},
                                {d_packed.data(), {rows, here.row()}});
    compute.synchronize();
    std::scoped_lock const guard(lock);
    if (peak != nullptr) *peak = std::max(*peak, memory.peak());  // the first rank's
    for (index row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < which.size(); ++i) {
        auto const global = static_cast<std::size_t>(row * all.row() + which[i]);
        auto const local = static_cast<std::size_t>(row * here.row()) + i;
        out.y[global] = y.data()[local];
        out.dx[global] += dx.data()[local];
      }
    std::size_t p = 0;
    for (auto* to : {&out.q, &out.q_bias, &out.k, &out.k_bias}) {
      to->resize(gradients[p].size());
      for (std::size_t i = 0; i < to->size(); ++i) (*to)[i] += gradients[p][i];
      ++p;
    }
  });
  return out;
}

void check_close(std::vector<double> const& found, std::vector<double> const& expected) {
  double largest = 0;
  double worst = 0;
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  }
  CHECK(largest > 0);
  CHECK(worst <= 1e-14 * largest);
}

TEST_CASE("2 to 6 ranks compute what one computes, whose keys some of them share") {
  auto const plain = [](communicator own) { return own; };
  for (auto const& at : {std::pair{shared_by_some, 2},
                         {shared_by_some, 4},
                         {shared_by_some, 6},
                         {uneven, 2},
                         {uneven, 3},
                         {uneven, 5}}) {
    auto const& [all, ranks] = at;
    CAPTURE(at.first.heads);
    CAPTURE(at.second);
    auto const one = run(all, 1, plain);
    auto const found = run(all, ranks, plain);
    check_close(found.y, one.y);
    check_close(found.dx, one.dx);
    check_close(found.q, one.q);
    check_close(found.q_bias, one.q_bias);
    check_close(found.k, one.k);
    check_close(found.k_bias, one.k_bias);
  }
}

TEST_CASE(
    "bytes sent are four times (t-1)/t of the widest q and k; the meta device plans them and "
    "memory") {
  for (auto const& at :
       {std::pair{shared_by_some, 2}, {shared_by_some, 4}, {shared_by_some, 6}, {uneven, 3}}) {
    auto const& [all, ranks] = at;
    CAPTURE(at.second);
    auto const recorder = std::make_shared<parallel::flight_recorder>();
    std::size_t peak = 0;
    static_cast<void>(run(
        all, ranks,
        [&](communicator own) {
          bool const counts = own.rank() == 0;
          return parallel::recorded(
              std::move(own), counts ? recorder : std::make_shared<parallel::flight_recorder>());
        },
        &peak));
    std::uint64_t sent = 0;
    for (auto const& [name, total] : recorder->totals()) sent += total.sent;

    parallel::meta::stream compute;
    parallel::arena memory;
    parallel::context<parallel::meta::stream> c{.stream = compute, .memory = memory};
    auto const here = axis_position{0, ranks}.part_of(all);
    matrix_view<double> const packed(nullptr, {rows, here.row()});
    static_cast<void>(passes(c, group_of<communicator>::planned(0, ranks), all, here, norms(all),
                             packed, packed));
    auto const t = static_cast<std::uint64_t>(ranks);
    auto const each = static_cast<std::uint64_t>((rows + ranks - 1) / ranks);
    auto const q_and_k = static_cast<std::uint64_t>(here.width() + here.kv_width());
    CHECK(sent == 4 * (t - 1) * each * q_and_k * sizeof(double));
    CHECK(compute.exchanges().at("tensor") == sent);
    CHECK(memory.peak() == peak);
  }
}

}  // namespace
}  // namespace query_key_norm_test
