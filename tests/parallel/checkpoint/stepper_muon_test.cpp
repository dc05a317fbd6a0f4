// Optimizer groups with different states, Muon's and AdamW's, saved by one layout and continued by
// another.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/stepper.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/muon.hpp>
#include <parallel/train/stepper.hpp>

#include "parallel/support/files.hpp"
#include "support/given_gradients.hpp"

namespace checkpoint_stepper_muon_test {

using namespace parallel;
using parallel::index;
using any = any_optimizer<muon, decoupled_adamw>;

constexpr int steps = 4;

/// Irregular numbers, in multiples of an eighth.
std::vector<float> numbers(std::string const& name, index count) {
  philox const random(3, stream_id(name));
  std::vector<float> out;
  for (index i = 0; i < count; ++i)
    out.push_back(static_cast<float>(random.bits(static_cast<std::uint64_t>(i)) % 64) / 8 - 4);
  return out;
}

/// A rank that trains two matrices with Muon and a vector with AdamW.
template <class Comm>
struct trainee {
  trainee(Comm& comm, zero::level level)
      : world(comm),
        model({{"tall", {9, 4}, numbers("a", 36), {}},
               {"bias", {11}, numbers("b", 11), {}},
               {"wide", {5, 21}, numbers("c", 105), {}}}),
        step(model, device, comm,
             train::optimizer_groups<any>({muon{.learning_rate = 0.1}, decoupled_adamw{}},
                                          [](std::string const& name) {
                                            return segment_key{.group = name == "bias" ? 1 : 0};
                                          }),
             {.level = level}) {
    model.set_weights(step);
  }

  /// Makes steps first to last - 1, each of two microbatches over all ranks.
  void run(int first, int last) {
    auto const own_count = static_cast<std::size_t>(2 / world.size());
    std::vector<test::given_microbatch<float>> const share(own_count);
    std::vector<index> places(own_count);
    for (std::size_t i = 0; i < own_count; ++i)
      places[i] = world.rank() * static_cast<index>(own_count) + static_cast<index>(i);
    for (int step_number = first; step_number < last; ++step_number) {
      index const sizes[] = {36, 11, 105};
      for (std::size_t i = 0; i < 3; ++i)
        model.set_gradient(i, numbers(concat("gradient", i, "of", step_number), sizes[i]));
      step.step(compute, exchanges, memory,
                {share, places, {.step = static_cast<std::uint32_t>(step_number)}, 1.0});
    }
  }

  Comm& world;
  host::device device;
  host::stream compute, exchanges;
  arena memory{device.allocate<std::byte>(4096)};
  test::given_gradients<float> model;
  train::stepper<test::given_gradients<float>, host::device, Comm, any> step;
};

/// All tensors, by name, that a single rank would save.
template <class Trainee>
std::map<std::string, std::vector<float>> contents(Trainee& trained) {
  std::map<std::string, std::vector<float>> out;
  checkpoint::for_each_saved_slice(
      trained.step, [&](std::string const& name, auto, index, std::span<float> elements, index) {
        out[name].assign(elements.begin(), elements.end());
      });
  return out;
}

TEST_CASE("stepper checkpoint: Muon's momentum and AdamW's moments continue in any layout") {
  test::temporary_folder const folder;
  std::map<std::string, std::vector<float>> expected;
  threads::run(1, [&](threads::communicator& comm) {
    trainee one(comm, zero::level::none);
    one.run(0, steps);
    expected = contents(one);
  });
  std::set<std::string> names;
  for (auto const& [name, values] : expected) names.insert(name);
  CHECK(names == std::set<std::string>{"bias", "bias#exp_avg", "bias#exp_avg_sq", "tall",
                                       "tall#momentum_buffer", "wide", "wide#momentum_buffer"});
  threads::run(2, [&](threads::communicator& comm) {
    trainee one(comm, zero::level::parameters);
    one.run(0, 2);
    checkpoint::save(one.step, comm, one.exchanges, folder.path(), {.batches = 2});
  });
  threads::run(1, [&](threads::communicator& comm) {
    trainee one(comm, zero::level::none);
    checkpoint::checkpoint_reader const reader(folder.path() / "ep0-ba2");
    CHECK(checkpoint::load(one.step, one.exchanges, reader).batches == 2);
    one.run(2, steps);
    CHECK(contents(one) == expected);
  });
}

}  // namespace checkpoint_stepper_muon_test
