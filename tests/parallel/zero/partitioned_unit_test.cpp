#include <algorithm>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/zero/partitioned_unit.hpp>
#include <parallel/zero/reduce.hpp>
#include <parallel/zero/update.hpp>

namespace partitioned_unit_test {
namespace {

namespace zero = parallel::zero;
using parallel::bf16;
using parallel::index;
using parallel::host::device;
using parallel::host::stream;

/// Two parameters with sizes that need padding: 33 and 70 elements, at 0 and 64 of the segment.
template <class T>
struct layer {
  parallel::parameter<T, 1> a{"a", {33}, parallel::normal_init{1.0F}};
  parallel::parameter<T, 2> b{"b", {7, 10}, parallel::uniform_init{-1.0F, 1.0F}};
  void visit_parameters(auto&& visit) {
    visit(a);
    visit(b);
  }
};

template <class T>
struct table {
  parallel::parameter<T, 2> weight{"wte", {9, 5}};
  void visit_parameters(auto&& visit) { visit(weight); }
};

/// p += the sum of the gradients; one state counts the updates.
struct adding {
  template <class Stream, class T, parallel::reduced_gradient Gradient>
  void update(Stream& s, parallel::update_ranges<T, Gradient> const& ranges,
              parallel::step_info<parallel::accumulate_t<T>> const&) const {
    s.enqueue([values = ranges.values, state = ranges.states[0], g = ranges.gradients.elements] {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] += g[i];
        state[i] += 1;
      }
    });
  }
};

constexpr zero::level all_levels[] = {zero::level::none, zero::level::optimizer,
                                      zero::level::gradients, zero::level::parameters};

TEST_CASE_TEMPLATE(
    "partitioned unit: the level determines the memory, master and states cover the owned range", T,
    float, bf16) {
  constexpr bool narrow = std::is_same_v<T, bf16>;
  for (index const ranks : {1, 2, 3})
    for (index const replicas : {1, 2})
      for (index rank = 0; rank < ranks; ++rank)
        for (auto const level : all_levels) {
          auto position = zero::data_position(level, rank, ranks);
          if (level != zero::level::none) position.replicas = replicas;
          CAPTURE(ranks);
          CAPTURE(static_cast<int>(level));
          index const multiple = 32 * position.data_ranks();
          index const size = (160 + multiple - 1) / multiple * multiple;
          layer<T> parameters;
          device const host;
          zero::partitioned_unit<T> const unit({"block", parameters, position.data_ranks()}, level,
                                               position, 2, host);
          REQUIRE(unit.segments().size() == 1);
          auto const& m = unit.segments()[0];
          auto const whole = static_cast<std::size_t>(size);
          index const share = level == zero::level::none ? size : size / ranks;
          auto const owned = static_cast<std::size_t>(share);
          auto const values = level >= zero::level::parameters ? owned : whole;
          auto const gradients = level >= zero::level::gradients ? owned : whole;
          CHECK(unit.parameters_sharded() == (values < whole));
          CHECK(unit.gradients_sharded() == (gradients < whole));
          CHECK(m.owned.size() == share);
          CHECK(m.owned.begin == (level == zero::level::none ? 0 : rank * share));
          CHECK(m.values.size() == values);
          REQUIRE(m.gradients.size() == 1);
          CHECK(m.gradients[0].size() == gradients);
          CHECK(unit.gradient_bytes() == whole * sizeof(float));
          CHECK(m.master.size() == owned);
          REQUIRE(m.states.size() == 2);
          CHECK(m.states[1].size() == owned);
          // an fp32 master weight is the value itself
          if constexpr (!narrow) CHECK(m.master.data() == unit.owned_values(0).data());
          CHECK(unit.owned_values(0).data() ==
                m.values.data() + (unit.parameters_sharded() ? 0 : m.owned.begin));
          CHECK(unit.owned_gradients(0).data() ==
                m.gradients[0].data() + (unit.gradients_sharded() ? 0 : m.owned.begin));
          // sharded memory is bound to a buffer, not to this memory
          CHECK((parameters.a.data == nullptr) == unit.parameters_sharded());
          CHECK((parameters.a.gradient_data == nullptr) == unit.gradients_sharded());
          CHECK(host.bytes() == values * sizeof(T) + gradients * 4 +
                                    owned * (2 * 4 + (narrow ? sizeof(float) : 0)));
          parallel::meta::device meta;
          zero::partitioned_unit<T> const planned({"block", parameters, position.data_ranks()},
                                                  level, position, 2, meta);
          CHECK(meta.bytes() == host.bytes());
          CHECK(planned.segments()[0].owned == m.owned);
        }
}

TEST_CASE("partitioned unit: without ZeRO nothing can be sharded") {
  layer<float> parameters;
  device const host;
  CHECK_THROWS_AS((zero::partitioned_unit<float>({"block", parameters, 2}, zero::level::none,
                                                 {.shards = 2}, 0, host)),
                  parallel::error);
}

TEST_CASE("partitioned unit: ranks are primary for equal parts of a unit, each element once") {
  for (auto const level : {zero::level::optimizer, zero::level::parameters}) {
    layer<float> parameters;
    parameters.b.replicated({.ranks = 2});
    std::vector<int> counts[2];
    for (zero::unit_position position{.shards = 3, .replicas = 2}; position.tensor < 2;
         ++position.tensor)
      for (position.shard = 0; position.shard < 3; ++position.shard)
        for (position.replica = 0; position.replica < 2; ++position.replica) {
          device const host;
          zero::partitioned_unit<float> const unit({"block", parameters, position.data_ranks()},
                                                   level, position, 1, host);
          REQUIRE(unit.segments().size() == 2);  // one parameter has copies, the other has not
          for (std::size_t s = 0; s < 2; ++s) {
            auto const size = unit.layout().segments()[s].size;
            bool const copied = unit.layout().segments()[s].key.replication.ranks == 2;
            auto& count = counts[s];
            count.resize(static_cast<std::size_t>(copied ? size : 2 * size));
            auto const primary = unit.primary_range(s);
            CHECK(unit.primary_range(s, unit.owned_values(s)).data() ==
                  unit.owned_values(s).data() + (primary.begin - unit.segments()[s].owned.begin));
            CHECK(std::ssize(unit.primary_range(s, unit.owned_values(s))) == primary.size());
            for (index i = primary.begin; i < primary.end; ++i)
              ++count[static_cast<std::size_t>((copied ? 0 : position.tensor * size) + i)];
          }
        }
    for (auto const& count : counts) CHECK(std::ranges::count(count, 1) == std::ssize(count));
  }
}

TEST_CASE("partitioned unit: a frozen segment has only values, sharded where values are") {
  for (auto const level :
       {zero::level::optimizer, zero::level::gradients, zero::level::parameters}) {
    bool const divided = level == zero::level::parameters;
    layer<bf16> parameters;
    device const host;
    parallel::unit<bf16> layout("block", parameters, 3, [](std::string const& name) {
      return parallel::segment_key{.trainable = name != "a"};
    });
    zero::partitioned_unit<bf16> const unit(std::move(layout), level, {.shard = 1, .shards = 3}, 2,
                                            host);
    REQUIRE(unit.segments().size() == 2);
    for (std::size_t s = 0; s < 2; ++s) {
      auto const& m = unit.segments()[s];
      bool const trained = unit.layout().segments()[s].key.trainable;
      CHECK(m.owned == zero::range{32, 64});
      CHECK(m.values.size() == (divided ? 32 : 96));
      CHECK(m.gradients.size() == (trained ? 1 : 0));
      CHECK(m.master.size() == (trained ? 32 : 0));
      CHECK(m.states.size() == (trained ? 2 : 0));
    }
    CHECK(host.bytes() == 2 * (divided ? 32 : 96) * 2 +
                              (level == zero::level::optimizer ? 96 : 32) * 4 + 3 * 32 * 4);
    CHECK(parameters.a.gradient_data == nullptr);
  }
}

TEST_CASE_TEMPLATE(
    "partitioned unit: initial values do not depend on ranks or level, and padding is zero", T,
    float, bf16) {
  auto const values = [](zero::level level, index rank, index ranks) {
    layer<T> parameters;
    device const host;
    zero::partitioned_unit<T> unit({"block", parameters, ranks}, level,
                                   zero::data_position(level, rank, ranks), 0, host);
    unit.initialise(7, host);
    auto const& m = unit.segments()[0];
    auto const owned = unit.owned_values(0);
    for (std::size_t i = 0; i < owned.size(); ++i)  // the master rounds to the value
      CHECK(static_cast<float>(static_cast<T>(m.master.data()[i])) == static_cast<float>(owned[i]));
    std::map<index, float> out;
    index const begin = unit.parameters_sharded() ? m.owned.begin : 0;
    for (index i = begin; i < begin + static_cast<index>(m.values.size()); ++i)
      out[i] = static_cast<float>(m.values.data()[i - begin]);
    return out;
  };
  auto const expected = values(zero::level::none, 0, 1);
  CHECK(expected.at(0) != expected.at(1));
  CHECK(expected.at(64) != expected.at(65));
  for (index i = 33; i < 64; ++i) CHECK(expected.at(i) == 0.0F);
  for (index const ranks : {2, 3})
    for (auto const level : all_levels) {
      std::map<index, float> all_values;
      for (index rank = 0; rank < ranks; ++rank) {
        auto const rank_values = values(level, rank, ranks);
        CHECK(rank_values.size() * (level == zero::level::parameters ? ranks : 1) >= 134);
        all_values.insert(rank_values.begin(), rank_values.end());
      }
      all_values.erase(all_values.upper_bound(expected.rbegin()->first),
                       all_values.end());  // more padding
      CHECK(all_values == expected);
    }
}

TEST_CASE(
    "partitioned unit: after reduce, join, update and gather every rank has the same sums at every "
    "level") {
  for (int const ranks : {1, 2, 3})
    for (auto const& [level, order] :
         {std::pair{zero::level::none, zero::reduction_order::by_rank},
          {zero::level::none, zero::reduction_order::canonical_tree},
          {zero::level::optimizer, zero::reduction_order::by_rank},
          {zero::level::optimizer, zero::reduction_order::canonical_tree}}) {
      CAPTURE(ranks);
      parallel::threads::run(ranks, [&, level = level,
                                     order = order](parallel::threads::communicator& comm) {
        using ring = std::uint64_t;
        table<ring> parameters;
        parallel::parameter<ring, 2> second_use = parameters.weight;
        parallel::unit<ring> layout("wte", parameters, ranks);
        layout.add_use(second_use);
        device const host;
        zero::partitioned_unit<ring> const unit(std::move(layout), level,
                                                zero::data_position(level, comm.rank(), ranks), 1,
                                                host, order);
        auto shards = comm.split(0);
        zero::shard_groups<parallel::threads::communicator> const axes{&shards, &shards, &shards,
                                                                       nullptr};
        bool const joined = order == zero::reduction_order::by_rank;
        REQUIRE(unit.segments()[0].gradients.size() == (joined ? 1 : 2));
        CHECK(parameters.weight.data == second_use.data);
        CHECK((parameters.weight.gradient_data == second_use.gradient_data) == joined);
        stream compute;
        stream exchanges;
        auto const contribution = static_cast<ring>(comm.rank() + 1);
        for (index i = 0; i < 45; ++i) {
          parameters.weight.gradient_data[i] += contribution * static_cast<ring>(i);
          second_use.gradient_data[i] += contribution * 1000;
        }
        std::vector<parallel::request> requests;
        for (std::size_t use = 0; use < unit.segments()[0].gradients.size(); ++use)
          zero::reduce(unit, axes, exchanges, use, requests);
        for (auto& request : requests) request.wait_on(compute);
        unit.join_uses(compute);
        compute.synchronize();
        auto const ring_ranks = static_cast<ring>(ranks);
        ring const sum_of_ranks = ring_ranks * (ring_ranks + 1) / 2;
        auto const expected = [&](index i) { return sum_of_ranks * (static_cast<ring>(i) + 1000); };

        // each element has exactly one primary rank
        ring norm_elements = static_cast<ring>(unit.primary_range(0).size());
        comm.all_reduce(exchanges, std::span(&norm_elements, 1), parallel::reduction::sum).wait();
        CHECK(norm_elements == unit.segments()[0].values.size());

        adding const optimizer;
        parallel::arena workspace;
        zero::update(unit, compute, std::span(&optimizer, 1), workspace, {});
        compute.synchronize();
        std::vector<parallel::request> gathered;
        unit.gather(axes, exchanges, gathered);
        CHECK(gathered.size() == (level == zero::level::none || ranks == 1 ? 0 : 1));
        for (auto& request : gathered) request.wait();
        for (index i = 0; i < 45; ++i) CHECK(parameters.weight.data[i] == expected(i));
        for (ring const count : unit.segments()[0].states[0].span()) CHECK(count == 1);

        unit.clear_gradients(compute);
        compute.synchronize();
        for (index i = 0; i < 45; ++i)
          CHECK((parameters.weight.gradient_data[i] == 0 && second_use.gradient_data[i] == 0));
      });
    }
}

TEST_CASE(
    "partitioned unit: two uses of a parameter that tensor ranks share are summed over them once") {
  parallel::threads::run(2, [](parallel::threads::communicator& comm) {
    device memory;
    table<float> first;
    first.weight.replicated({.ranks = 2, .partial = true});
    auto second = first.weight;
    parallel::unit<float> layout("tied", first, 1);
    layout.add_use(second);
    zero::partitioned_unit<float> const unit(std::move(layout), zero::level::none,
                                             {.tensor = comm.rank()}, 1, memory);
    std::map<int, parallel::threads::communicator> copies;
    copies.emplace(2, comm.split(0));
    zero::shard_groups<parallel::threads::communicator> const axes{.replication = &copies};
    float const contribution = static_cast<float>(comm.rank()) + 1;
    first.weight.gradient()(0, 0) += contribution;
    second.gradient()(0, 0) += 10 * contribution;
    stream s;
    std::vector<parallel::request> requests;
    zero::reduce(unit, axes, s, 0, requests);
    for (auto& request : requests) request.wait();
    unit.join_uses(s);
    s.synchronize();
    CHECK(unit.owned_gradients(0)[0] == 33);
  });
}

}  // namespace
}  // namespace partitioned_unit_test
