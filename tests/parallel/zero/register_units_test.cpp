// The memory of units that is registered along each axis, at every ZeRO level.
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/forwarding.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/zero/register_units.hpp>

namespace register_units_test {
namespace {

using namespace parallel;
using parallel::index;

using memory_ranges = std::set<std::pair<void const*, std::size_t>>;

/// Records the memory that is registered with it.
class recording_communicator
    : public forwarding<recording_communicator, threads::communicator, host::stream> {
 public:
  explicit recording_communicator(threads::communicator inner) : forwarding(std::move(inner)) {}
  [[nodiscard]] registered_memory register_memory(buffer<std::byte> const& memory) {
    CHECK(registered.emplace(memory.data(), memory.size()).second);
    return {memory.data(), [this](void* data) {
              std::erase_if(registered, [data](auto const& registration) {
                return registration.first == data;
              });
            }};
  }
  memory_ranges registered;
};

struct layer {
  parameter<float, 1> weight{"weight", {40}};
  parameter<float, 1> norm{"norm", {7}};
  void visit_parameters(auto&& visit) {
    visit(weight);
    visit(norm);
  }
};

template <class T>
void add(memory_ranges& target, buffer<T> const& memory) {
  if (!memory.empty()) target.emplace(memory.data(), memory.size() * sizeof(T));
}

TEST_CASE(
    "register_units: values are registered with the gathering axis, gradients with the reducing "
    "axes") {
  using enum zero::level;
  for (auto const level : {optimizer, gradients, parameters})
    threads::run(4, [level](threads::communicator& world) {
      int const rank = world.rank();
      recording_communicator shards(world.split(rank / 2)), gathers(world.split(rank / 2)),
          replicas(world.split(rank % 2));
      host::device device;
      layer test_layer;
      zero::unit_set<float, host::device, host::stream> units;
      units.add(
          {unit<float>("unit", test_layer, 4), level,
           zero::unit_position{.shard = rank % 2, .shards = 2, .replica = rank / 2, .replicas = 2},
           1, device},
          {0});
      bool const sharded = level == parameters;
      units.allocate_buffers(device, sharded ? std::vector<index>{256} : std::vector<index>{},
                             level == optimizer ? std::vector<index>{} : std::vector<index>{256});
      units.allocate_staging(device, 256);
      zero::shard_groups<recording_communicator> const axes{&shards, &gathers, &replicas, nullptr};
      auto const registrations = zero::register_units(units, [&](int) { return axes; });

      memory_ranges expected_gathers, expected_shards, expected_replicas;
      for (auto const& memory : units.value_buffers()) add(expected_gathers, memory);
      for (auto const& memory : units.gradient_buffers()) add(expected_shards, memory);
      add(expected_shards, units.staging());
      add(expected_replicas, units.staging());
      auto const& unit = units.units().front().memory;
      for (auto const& segment : unit.segments()) {
        add(expected_gathers, segment.values);
        for (auto const& memory : segment.gradients) {
          if (level == optimizer) add(expected_shards, memory);
          add(expected_replicas, memory);
        }
      }
      CHECK(gathers.registered == expected_gathers);
      CHECK(shards.registered == expected_shards);
      CHECK(replicas.registered == expected_replicas);
      CHECK(registrations.size() ==
            expected_gathers.size() + expected_shards.size() + expected_replicas.size());
    });
}

TEST_CASE("register_units: a communicator of one rank or without registration gets no memory") {
  threads::run(1, [](threads::communicator& world) {
    host::device device;
    layer test_layer;
    zero::unit_set<float, host::device, host::stream> units;
    units.add(
        {unit<float>("unit", test_layer, 1), zero::level::none, zero::unit_position{}, 1, device},
        {0});
    zero::shard_groups<threads::communicator> const plain{&world, &world, &world, nullptr};
    CHECK(zero::register_units(units, [&](int) { return plain; }).empty());
    recording_communicator single_rank(world.split(0));
    zero::shard_groups<recording_communicator> const axes{&single_rank, &single_rank, &single_rank,
                                                          nullptr};
    CHECK(zero::register_units(units, [&](int) { return axes; }).empty());
    CHECK(single_rank.registered.empty());
  });
}

}  // namespace
}  // namespace register_units_test
