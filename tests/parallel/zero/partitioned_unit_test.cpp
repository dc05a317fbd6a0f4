#include <map>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace partitioned_unit_test {
namespace {

namespace zero = parallel::zero;
using parallel::bf16;
using parallel::index;
using parallel::host::device;
using parallel::host::stream;

/// Two parameters of awkward sizes: 33 and 70 elements, at 0 and 64 of the segment.
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

/// p += the gradients' sum; one state counts the updates.
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

TEST_CASE_TEMPLATE("memory: whole values and gradients; master and states of what is owned", T,
                   float, bf16) {
  constexpr bool narrow = std::is_same_v<T, bf16>;
  for (index const ranks : {1, 2, 3})
    for (index rank = 0; rank < ranks; ++rank) {
      index const size = (160 + 32 * ranks - 1) / (32 * ranks) * 32 * ranks;
      for (auto const stage : {zero::stage::none, zero::stage::optimizer}) {
        CAPTURE(ranks);
        layer<T> own;
        device const host;
        zero::partitioned_unit<T> const unit({"block", own, ranks}, stage,
                                             zero::data_place(stage, rank, ranks), 2, host);
        REQUIRE(unit.segments().size() == 1);
        auto const& m = unit.segments()[0];
        auto const whole = static_cast<std::size_t>(size);
        index const share = stage == zero::stage::none ? size : size / ranks;
        auto const owned = static_cast<std::size_t>(share);
        CHECK(m.owned.size() == share);
        CHECK(m.owned.begin == (stage == zero::stage::none ? 0 : rank * share));
        CHECK(m.values.size() == whole);
        REQUIRE(m.gradients.size() == 1);
        CHECK(m.gradients[0].size() == whole);
        CHECK(unit.gradient_bytes() == whole * sizeof(float));
        CHECK(m.master.size() == owned);
        REQUIRE(m.states.size() == 2);
        CHECK(m.states[1].size() == owned);
        // an fp32 master weight is the value itself
        if constexpr (!narrow) CHECK(m.master.data() == m.values.data() + m.owned.begin);
        CHECK(host.bytes() ==
              whole * (sizeof(T) + 4) + owned * (2 * 4 + (narrow ? sizeof(float) : 0)));
        parallel::meta::device meta;
        zero::partitioned_unit<T> const planned({"block", own, ranks}, stage,
                                                zero::data_place(stage, rank, ranks), 2, meta);
        CHECK(meta.bytes() == host.bytes());
        CHECK(planned.segments()[0].owned == m.owned);
      }
    }
}

TEST_CASE("a frozen segment has values and nothing else, whole on every rank") {
  layer<bf16> own;
  device const host;
  parallel::unit<bf16> layout("block", own, 3, [](std::string const& name) {
    return parallel::segment_key{.trainable = name != "a"};
  });
  zero::partitioned_unit<bf16> const unit(std::move(layout), zero::stage::optimizer,
                                          {.shard = 1, .shards = 3}, 2, host);
  REQUIRE(unit.segments().size() == 2);
  for (std::size_t s = 0; s < 2; ++s) {
    auto const& m = unit.segments()[s];
    bool const trained = unit.layout().segments()[s].key.trainable;
    CHECK(m.owned == zero::range{32, 64});
    CHECK(m.values.size() == 96);
    CHECK(m.gradients.size() == (trained ? 1 : 0));
    CHECK(m.master.size() == (trained ? 32 : 0));
    CHECK(m.states.size() == (trained ? 2 : 0));
  }
  CHECK(host.bytes() == 2 * 96 * 2 + 96 * 4 + 3 * 32 * 4);
  CHECK(own.a.gradient_data == nullptr);
}

TEST_CASE_TEMPLATE("initial values do not depend on ranks or stage, and padding is zero", T, float,
                   bf16) {
  auto const values = [](zero::stage stage, index rank, index ranks) {
    layer<T> own;
    device const host;
    zero::partitioned_unit<T> unit({"block", own, ranks}, stage,
                                   zero::data_place(stage, rank, ranks), 0, host);
    unit.initialise(7);
    auto const& m = unit.segments()[0];
    for (index i = 0; i < m.owned.size(); ++i)  // the master rounds to the value
      CHECK(static_cast<float>(static_cast<T>(m.master.data()[i])) ==
            static_cast<float>(m.values.data()[m.owned.begin + i]));
    for (index i = 33; i < 64; ++i) CHECK(static_cast<float>(m.values.data()[i]) == 0.0F);
    std::vector<float> out;
    for (index i = 0; i < 134; ++i) out.push_back(static_cast<float>(m.values.data()[i]));
    return out;
  };
  auto const expected = values(zero::stage::none, 0, 1);
  CHECK(expected[0] != expected[1]);
  CHECK(expected[64] != expected[65]);
  for (index const ranks : {2, 3})
    for (index rank = 0; rank < ranks; ++rank) {
      CHECK(values(zero::stage::none, rank, ranks) == expected);
      CHECK(values(zero::stage::optimizer, rank, ranks) == expected);
    }
}

TEST_CASE("reduce, join, update and gather: every rank ends with the same sums, in every stage") {
  for (int const ranks : {1, 2, 3})
    for (auto const stage : {zero::stage::none, zero::stage::optimizer}) {
      CAPTURE(ranks);
      parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
        using ring = std::uint64_t;
        table<ring> own;
        parallel::parameter<ring, 2> again = own.weight;
        parallel::unit<ring> layout("wte", own, ranks);
        layout.add_use(again);
        device const host;
        zero::partitioned_unit<ring> const unit(
            std::move(layout), stage, zero::data_place(stage, comm.rank(), ranks), 1, host);
        auto all = comm.split(0);
        zero::unit_axes<parallel::threads::communicator> const axes{&all, &all, &all, nullptr};
        bool const alone = ranks == 1;  // nothing to reduce: both uses add to the same memory
        REQUIRE(unit.segments()[0].gradients.size() == (alone ? 1 : 2));
        CHECK(own.weight.data == again.data);
        CHECK((own.weight.gradient_data == again.gradient_data) == alone);
        stream compute;
        stream traffic;
        auto const mine = static_cast<ring>(comm.rank() + 1);
        for (index i = 0; i < 45; ++i) {
          own.weight.gradient_data[i] += mine * static_cast<ring>(i);
          again.gradient_data[i] += mine * 1000;
        }
        std::vector<parallel::request> requests;
        unit.reduce(axes, traffic, 0, requests);
        unit.reduce(axes, traffic, 1, requests);
        for (auto& request : requests) request.wait_on(compute);
        unit.join_uses(compute);
        compute.synchronize();
        auto const ring_ranks = static_cast<ring>(ranks);
        ring const sum_of_ranks = ring_ranks * (ring_ranks + 1) / 2;
        auto const expected = [&](index i) { return sum_of_ranks * (static_cast<ring>(i) + 1000); };

        // each element's norm is one rank's business
        ring norm_elements = static_cast<ring>(unit.spoken_for(0).size());
        comm.all_reduce(traffic, std::span(&norm_elements, 1), parallel::reduction::sum).wait();
        CHECK(norm_elements == unit.segments()[0].values.size());

        adding const optimizer;
        unit.update(compute, std::span(&optimizer, 1), {});
        compute.synchronize();
        std::vector<parallel::request> gathered;
        unit.gather(axes, traffic, gathered);
        CHECK(gathered.size() == (stage == zero::stage::none || ranks == 1 ? 0 : 1));
        for (auto& request : gathered) request.wait();
        for (index i = 0; i < 45; ++i) CHECK(own.weight.data[i] == expected(i));
        for (ring const count : unit.segments()[0].states[0].span()) CHECK(count == 1);

        unit.clear_gradients(compute);
        compute.synchronize();
        for (index i = 0; i < 45; ++i)
          CHECK(own.weight.gradient_data[i] + again.gradient_data[i] == 0);
      });
    }
}

}  // namespace
}  // namespace partitioned_unit_test
