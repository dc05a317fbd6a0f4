// Which of the units' memory is registered along which axis, at every ZeRO level.
#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
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

using bytes = std::set<std::pair<void const*, std::size_t>>;

/// Notes what is registered with it.
class noting : public forwarding<noting, threads::communicator, host::stream> {
 public:
  explicit noting(threads::communicator inner) : forwarding(std::move(inner)) {}
  [[nodiscard]] registered_memory register_memory(buffer<std::byte> const& memory) {
    CHECK(live.emplace(memory.data(), memory.size()).second);
    return {memory.data(), [this](void* data) {
              std::erase_if(live, [data](auto const& one) { return one.first == data; });
            }};
  }
  bytes live;
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
void add(bytes& to, buffer<T> const& memory) {
  if (!memory.empty()) to.emplace(memory.data(), memory.size() * sizeof(T));
}

TEST_CASE("values along what gathers, gradients along what reduces them") {
  using enum zero::level;
  for (auto const level : {optimizer, gradients, parameters})
    threads::run(4, [level](threads::communicator& world) {
      int const rank = world.rank();
      noting shards(world.split(rank / 2)), gathers(world.split(rank / 2)),
          replicas(world.split(rank % 2));
      host::device device;
      layer own;
      zero::unit_set<float, host::device, host::stream> units;
      units.add(
          {unit<float>("unit", own, 4), level,
           zero::unit_position{.shard = rank % 2, .shards = 2, .replica = rank / 2, .replicas = 2}, 1,
           device},
          {0});
      bool const sharded = level == parameters;
      units.allocate_buffers(device, sharded ? std::vector<index>{256} : std::vector<index>{},
                             level == optimizer ? std::vector<index>{} : std::vector<index>{256});
      units.allocate_staging(device, 256);
      zero::shard_groups<noting> const axes{&shards, &gathers, &replicas, nullptr};
      auto const registered = zero::register_units(units, axes);

      bytes of_gathers, of_shards, of_replicas;
      for (auto const& one : units.value_buffers()) add(of_gathers, one);
      for (auto const& one : units.gradient_buffers()) add(of_shards, one);
      add(of_shards, units.staging());
      add(of_replicas, units.staging());
      auto const& unit = units.units().front().memory;
      for (auto const& held : unit.segments()) {
        add(of_gathers, held.values);
        for (auto const& one : held.gradients) {
          if (level == optimizer) add(of_shards, one);
          add(of_replicas, one);
        }
      }
      CHECK(gathers.live == of_gathers);
      CHECK(shards.live == of_shards);
      CHECK(replicas.live == of_replicas);
      CHECK(registered.size() == of_gathers.size() + of_shards.size() + of_replicas.size());
    });
}

TEST_CASE("nothing with a communicator of one rank, or one that registers nothing") {
  threads::run(1, [](threads::communicator& world) {
    host::device device;
    layer own;
    zero::unit_set<float, host::device, host::stream> units;
    units.add({unit<float>("unit", own, 1), zero::level::none, zero::unit_position{}, 1, device}, {0});
    zero::shard_groups<threads::communicator> const plain{&world, &world, &world, nullptr};
    CHECK(zero::register_units(units, plain).empty());
    noting alone(world.split(0));
    zero::shard_groups<noting> const axes{&alone, &alone, &alone, nullptr};
    CHECK(zero::register_units(units, axes).empty());
    CHECK(alone.live.empty());
  });
}

}  // namespace
}  // namespace register_units_test
