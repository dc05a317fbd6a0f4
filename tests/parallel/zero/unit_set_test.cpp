// Units in the buffers of a plan: their positions there, the gathering into the buffers and the
// reduction out of them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/step/step_plans.hpp>
#include <parallel/zero/reduce.hpp>
#include <parallel/zero/unit_set.hpp>

namespace unit_set_test {
namespace {

namespace zero = parallel::zero;
namespace train = parallel::train;
using parallel::bf16;
using parallel::index;
using parallel::host::device;
using parallel::host::stream;
using parallel::threads::communicator;
using ring = std::uint64_t;

constexpr zero::level all_levels[] = {zero::level::none, zero::level::optimizer,
                                      zero::level::gradients, zero::level::parameters};

/// 33 and 10 * rows elements.
template <class T>
struct layer {
  layer(std::string const& name, index rows)
      : a(name + ".a", {33}, parallel::uniform_init{0.0F, 1e6F}),
        b(name + ".b", {rows, 10}, parallel::uniform_init{0.0F, 1e6F}) {}
  parallel::parameter<T, 1> a;
  parallel::parameter<T, 2> b;
  void visit_parameters(auto&& visit) {
    visit(a);
    visit(b);
  }
};

template <class T>
struct table {
  parallel::parameter<T, 2> weight{"table", {9, 5}, parallel::uniform_init{0.0F, 1e6F}};
  void visit_parameters(auto&& visit) { visit(weight); }
};

/// A table used in parts -1 and 4, three equal blocks in parts 0 to 2, and a larger one in part 3.
/// `frozen`: every parameter b is frozen.
template <class T, class Device>
struct column {
  column(zero::level kind, zero::unit_position position, Device& device, bool frozen = false,
         bool keeps_values = false) {
    auto const ranks = position.data_ranks();
    auto const key_of = [=](std::string const& name) {
      return parallel::segment_key{.trainable = !frozen || !name.ends_with(".b")};
    };
    parallel::unit<T> tied("table", embedding, ranks);
    tied.add_use(head.weight);
    add(std::move(tied), kind, position, device, {-1, 4});
    for (index i = 0; i < 4; ++i) {
      auto& block = blocks.emplace_back(parallel::concat("block.", i), i < 3 ? 7 : 20);
      parallel::unit<T> layout(parallel::concat("block.", i), block, ranks, key_of);
      add(std::move(layout), kind, position, device, {i});
    }
    train::unit_buffers const buffers(planned, {.reshard_after_forward = !keeps_values});
    kept_buffers = buffers.own_buffers;
    units.allocate_buffers(device, buffers.values.sizes(), buffers.gradients.sizes());
  }

  table<T> embedding;
  table<T> head;
  std::deque<layer<T>> blocks;
  zero::unit_set<T, Device, typename Device::stream_type> units;
  std::vector<train::planned_unit> planned;
  /// By unit, the buffers of values that stay gathered.
  std::vector<std::optional<int>> kept_buffers;

 private:
  void add(parallel::unit<T> layout, zero::level kind, zero::unit_position position, Device& device,
           std::vector<index> parts) {
    planned.push_back(train::describe_unit(layout, parts, {.level = kind}, position));
    units.add({std::move(layout), kind, position, 1, device}, std::move(parts));
  }
};

/// This rank's position and communicators among `shards` x replicas.
struct neighbours {
  neighbours(communicator& world, int count)
      : shards(world.split(world.rank() / count)),
        gathers(world.split(world.rank() / count)),
        replicas(world.split(world.rank() % count)) {}
  [[nodiscard]] zero::unit_position position() const {
    return {.shard = shards.rank(),
            .shards = shards.size(),
            .replica = replicas.rank(),
            .replicas = replicas.size()};
  }
  [[nodiscard]] zero::shard_groups<communicator> axes() {
    return {&shards, &gathers, &replicas, nullptr};
  }
  communicator shards, gathers, replicas;
};

template <class T>
std::vector<T> initial(parallel::parameter_base<T> const& p, std::uint64_t seed) {
  std::vector<T> out(static_cast<std::size_t>(p.size()));
  initial_values(std::span<T>(out), p.name, p.initial, seed, 0);
  return out;
}

template <class T>
std::vector<T> values(parallel::parameter_base<T> const& p) {
  return {p.data, p.data + p.size()};
}

index padded(index size, index ranks) {
  return (size + 32 * ranks - 1) / (32 * ranks) * (32 * ranks);
}

TEST_CASE_TEMPLATE(
    "unit set: two buffers for parts of equal size, on the meta device as on the host", T, float,
    bf16, ring) {
  using gradient = parallel::accumulate_t<T>;
  for (bool const frozen : {false, true})
    for (auto const kind : all_levels)
      for (index const ranks : {1, 2, 3}) {
        CAPTURE(frozen);
        CAPTURE(static_cast<int>(kind));
        CAPTURE(ranks);
        auto const position = zero::data_position(kind, ranks - 1, ranks);
        device const host;
        parallel::meta::device meta;
        column<T, device const> const real(kind, position, host, frozen);
        column<T, parallel::meta::device> const planned(kind, position, meta, frozen);
        CHECK(host.bytes() == meta.bytes());
        // sizes of the table, a small block and the large one; a frozen part is a separate segment
        index const table = padded(45, ranks);
        index const a = frozen ? padded(33, ranks) : 0;
        index const small = frozen ? a + padded(70, ranks) : padded(64 + 70, ranks);
        index const large = frozen ? a + padded(200, ranks) : padded(64 + 200, ranks);
        // the table is used in two parts; two buffers serve the three small blocks
        auto const elements = [](index of_table, index of_small, index of_large) {
          return static_cast<std::size_t>(2 * of_table + 2 * of_small + of_large);
        };
        bool const values = kind == zero::level::parameters && ranks > 1;
        bool const gradients = kind >= zero::level::gradients && ranks > 1;
        CHECK(real.units.value_buffer_bytes() ==
              (values ? elements(table, small, large) * sizeof(T) : 0));
        // the trained parts of two blocks may have equal sizes: then the blocks share buffers
        std::size_t const trained =
            !frozen ? elements(table, small, large)
                    : static_cast<std::size_t>(2 * table + (table == a ? 0 : 2 * a));
        CHECK(real.units.gradient_buffer_bytes() == (gradients ? trained * sizeof(gradient) : 0));
        CHECK(planned.units.value_buffer_bytes() == real.units.value_buffer_bytes());
        CHECK(planned.units.gradient_buffer_bytes() == real.units.gradient_buffer_bytes());
      }
}

/// Unshards the values that a part uses into its next buffer and binds them.
template <class Column, class Axes>
void use_values(Column& c, train::unit_buffers& buffers, index part, Axes const& axes,
                stream& gathers) {
  int const buffer = buffers.values.take(part).value();
  std::vector<parallel::request> requests;
  for (auto& entry : c.units.units())
    for (std::size_t use = 0; use < entry.parts.size(); ++use)
      if (entry.parts[use] == part)
        c.units.unshard(entry, static_cast<int>(use), buffer, axes, gathers, requests);
  for (auto& request : requests) request.wait();
  c.units.bind_values(part, buffer);
}

TEST_CASE("unit set: parts use the buffers in turn, and every rank has the whole values there") {
  for (bool const frozen : {false, true})
    for (int const shards : {2, 3}) {
      CAPTURE(frozen);
      CAPTURE(shards);
      parallel::threads::run(2 * shards, [&](communicator& world) {
        neighbours neighbour_groups(world, shards);
        device const host;
        column<ring, device const> c(zero::level::parameters, neighbour_groups.position(), host,
                                     frozen);
        for (auto& entry : c.units.units()) {
          for (std::size_t s = 0; s < entry.memory.segments().size(); ++s) {
            auto const& m = entry.memory.segments()[s];
            CHECK(m.values.size() == static_cast<std::size_t>(m.owned.size()));
            CHECK(m.owned.size() * shards == entry.memory.layout().segments()[s].size);
            CHECK(m.gradients.empty() != entry.memory.is_trainable(s));
            CHECK(m.states.empty() != entry.memory.is_trainable(s));
          }
          entry.memory.initialise(5, host);
        }
        stream gathers;
        auto const axes = neighbour_groups.axes();
        train::unit_buffers buffers(c.planned, {});
        std::vector<ring const*> block_addresses;
        for (int pass = 0; pass < 2; ++pass)
          for (index part = -1; part <= 4; ++part) {
            use_values(c, buffers, part, axes, gathers);
            if (part == -1 || part == 4) {  // both uses are bound, for either part
              CHECK(c.embedding.weight.data == c.head.weight.data);
              CHECK(values(c.head.weight) == initial(c.embedding.weight, 5));
            } else {
              auto const& block = c.blocks[static_cast<std::size_t>(part)];
              CHECK(values(block.a) == initial(block.a, 5));
              CHECK(values(block.b) == initial(block.b, 5));
              if (part < 3) block_addresses.push_back(block.a.data);
            }
          }
        REQUIRE(block_addresses.size() == 6);
        CHECK(block_addresses[0] != block_addresses[1]);
        for (std::size_t i = 2; i < block_addresses.size(); ++i)
          CHECK(block_addresses[i] == block_addresses[i - 2]);
      });
    }
}

TEST_CASE("unit set: values that stay gathered have separate buffers") {
  parallel::threads::run(2, [&](communicator& world) {
    neighbours neighbour_groups(world, 2);
    device const host;
    column<ring, device const> c(zero::level::parameters, neighbour_groups.position(), host, true,
                                 true);
    std::size_t bytes = 0;
    for (auto& entry : c.units.units()) {
      entry.memory.initialise(5, host);
      bytes += static_cast<std::size_t>(entry.memory.layout().size()) * sizeof(ring);
    }
    CHECK(c.units.value_buffer_bytes() == bytes);
    stream gathers;
    auto const axes = neighbour_groups.axes();
    std::vector<parallel::request> requests;
    for (std::size_t i = 0; i < c.kept_buffers.size(); ++i)
      c.units.unshard(c.units.units()[i], std::nullopt, c.kept_buffers[i].value(), axes, gathers,
                      requests);
    for (auto& request : requests) request.wait();
    for (auto const& block : c.blocks) {
      CHECK(values(block.a) == initial(block.a, 5));
      CHECK(values(block.b) == initial(block.b, 5));
    }
    CHECK(values(c.embedding.weight) == initial(c.embedding.weight, 5));
    CHECK(c.head.weight.data == c.embedding.weight.data);
  });
}

/// The gradient of element i of a parameter in a rank's microbatch.
ring gradient_of(std::string const& name, int rank, int microbatch, index i) {
  return parallel::stream_id(name) * static_cast<ring>(i + 1) +
         static_cast<ring>((rank + 1) * (microbatch + 2) * (i + 7));
}

TEST_CASE(
    "unit set: gradients of microbatches are summed out of buffers, those of tied units too") {
  constexpr int microbatches = 3;
  for (auto const kind : {zero::level::gradients, zero::level::parameters})
    for (bool const frozen : {false, true})
      for (auto const& degrees : {std::array{2, 1}, {3, 1}, {2, 2}, {1, 3}}) {
        auto const& [shards, replicas] = degrees;
        int const ranks = shards * replicas;
        CAPTURE(static_cast<int>(kind));
        CAPTURE(frozen);
        CAPTURE(degrees[0]);
        CAPTURE(degrees[1]);
        // the last rank has one microbatch less than the others
        auto const is_empty = [&](int rank, int m) {
          return rank == ranks - 1 && m == microbatches - 1;
        };
        parallel::threads::run(ranks, [&, shards = shards](communicator& world) {
          neighbours neighbour_groups(world, shards);
          device const host;
          column<ring, device const> c(kind, neighbour_groups.position(), host, frozen);
          for (auto& block : c.blocks) block.b.replaces_gradient = true;
          bool const divided = shards > 1;
          CHECK(c.units.gradients_sharded() == divided);
          stream compute, reductions;
          auto const axes = neighbour_groups.axes();
          train::unit_buffers buffers(c.planned, {});
          // earlier content of the gradients must not matter
          for (auto& entry : c.units.units()) {
            for (auto const& m : entry.memory.segments())
              for (auto const& g : m.gradients) std::ranges::fill(g.span(), 99);
            if (!divided) entry.memory.prepare_gradients(compute);
          }
          auto const backward = [&](parallel::parameter_base<ring> const& p, std::string const& use,
                                    int m) {
            if (!p.trainable) return;
            bool const add = !p.replaces_gradient || (m > 0 && !divided);
            compute.enqueue([=, size = p.size(), elements = p.gradient_data, rank = world.rank()] {
              for (index i = 0; i < size; ++i)
                elements[i] = gradient_of(use, rank, m, i) + (add ? elements[i] : 0);
            });
          };
          for (int m = 0; m < microbatches; ++m)
            for (index part = 4; part >= -1; --part) {
              bool const empty = is_empty(world.rank(), m);
              auto const buffer = buffers.gradients.take(part);
              compute.wait(reductions.record());
              c.units.begin_gradients(part, buffer, empty, compute);
              if (!empty && part == 4) backward(c.head.weight, "head", m);
              if (!empty && part == -1) backward(c.embedding.weight, "table", m);
              if (!empty && part >= 0 && part < 4) {
                auto const& block = c.blocks[static_cast<std::size_t>(part)];
                backward(block.a, block.a.name, m);
                backward(block.b, block.b.name, m);
              }
              reductions.wait(compute.record());
              for (auto& entry : c.units.units())
                for (std::size_t use = 0; use < entry.parts.size(); ++use)
                  if (entry.parts[use] == part && buffer)
                    c.units.reduce_scatter(entry, use, *buffer,
                                           m == 0 && use + 1 == entry.parts.size(), axes,
                                           reductions);
            }
          compute.wait(reductions.record());
          std::vector<parallel::request> requests;
          reductions.wait(compute.record());
          std::vector<zero::unit_gradients<ring>> bucket;
          for (auto& entry : c.units.units()) bucket.push_back({&entry.memory, 0});
          zero::reduce<ring>(bucket, axes, reductions, requests);
          for (auto& request : requests) request.wait_on(compute);
          for (auto& entry : c.units.units()) entry.memory.join_uses(compute);
          compute.synchronize();
          for (auto& entry : c.units.units())
            for (std::size_t s = 0; s < entry.memory.segments().size(); ++s) {
              if (!entry.memory.is_trainable(s)) continue;
              auto const& m = entry.memory.segments()[s];
              auto const sums = entry.memory.owned_gradients(s);
              bool is_equal = true;
              entry.memory.layout().segments()[s].for_each_piece(
                  m.owned.begin, m.owned.end,
                  [&](auto const& p, index first, index last, index begin) {
                    for (index i = first; i < last; ++i) {
                      ring expected = 0;
                      for (int rank = 0; rank < ranks; ++rank)
                        for (int k = 0; k < microbatches; ++k) {
                          if (is_empty(rank, k)) continue;
                          expected += gradient_of(p.name, rank, k, i);
                          if (p.name == "table") expected += gradient_of("head", rank, k, i);
                        }
                      auto const position =
                          static_cast<std::size_t>(begin - m.owned.begin + i - first);
                      is_equal = is_equal && sums[position] == expected;
                    }
                  });
              CAPTURE(entry.memory.layout().name());
              CHECK(is_equal);
            }
        });
      }
}

}  // namespace
}  // namespace unit_set_test
