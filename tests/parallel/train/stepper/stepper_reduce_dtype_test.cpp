// Gradients that are sent in bf16: the gradients of a stepper after a step equal separately
// computed float sums of rounded addends, bit for bit, and half the bytes are sent.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/train/stepper.hpp>

#include "parallel/support/files.hpp"
#include "support/given_gradients.hpp"

namespace stepper_reduce_dtype_test {

using parallel::bf16;
using parallel::index;
using numbers = std::vector<float>;
namespace axis = parallel::axis;
namespace train = parallel::train;
namespace zero = parallel::zero;

constexpr index width = 37;
constexpr int microbatches = 3;

struct layout {
  zero::level level = zero::level::none;
  int shards = 1;  // shard x context
  int context = 1;
  int replicas = 1;
  zero::reduce_dtype dtype = zero::reduce_dtype::bf16;
  bool every_microbatch = true;

  [[nodiscard]] int ranks() const { return shards * replicas; }
  [[nodiscard]] parallel::training_layout shape() const {
    return parallel::training_layout{}
        .with_degree<axis::replicate>(replicas)
        .with_degree<axis::shard>(shards / context)
        .with_degree<axis::context>(context);
  }
};

/// The gradients that a microbatch of factor 1 adds on that rank: three tensors whose values bf16
/// rounds, while their sums over microbatches are exact.
std::vector<test::given_tensor<float>> tensors_of(int rank) {
  std::vector<test::given_tensor<float>> out;
  parallel::philox const random(3, parallel::stream_id("gradients"),
                                static_cast<std::uint32_t>(rank));
  std::uint64_t draw = 0;
  for (std::string const name : {"a", "b", "c"}) {
    auto& tensor = out.emplace_back(test::given_tensor<float>{name, {5, width}, {}, {}});
    for (index i = 0; i < 5 * width; ++i) {
      tensor.weights.push_back(1);
      tensor.gradient.push_back(static_cast<float>(random.bits(draw++) % 99991) / 256.0F - 60.0F);
    }
  }
  return out;
}

float rounded(float x) { return static_cast<float>(bf16(x)); }

/// The reduced gradient of an element that has `rank_gradients` on the ranks for factor 1.
float expected(layout const& run_layout, numbers const& rank_gradients) {
  bool const is_reduced_once = run_layout.level < zero::level::gradients ||
                               run_layout.shards == 1 || !run_layout.every_microbatch;
  numbers sums;  // by replica
  for (int r = 0; r < run_layout.replicas; ++r) {
    auto const value_of = [&](int s) {
      return rank_gradients[static_cast<std::size_t>(r * run_layout.shards + s)];
    };
    auto const over_shards = [&](auto const& addend) {
      float sum = 0;
      for (int s = 0; s < run_layout.shards; ++s) {
        float const x = run_layout.shards == 1 ? addend(s) : rounded(addend(s));
        sum = s == 0 ? x : sum + x;
      }
      return sum;
    };
    if (is_reduced_once) {
      sums.push_back(over_shards([&](int s) {
        float added = 0;
        for (int m = 1; m <= microbatches; ++m) added += static_cast<float>(m) * value_of(s);
        return added;
      }));
    } else {
      float added = 0;
      for (int m = 1; m <= microbatches; ++m) {
        float const one =
            over_shards([&](int s) { return 0.0F + static_cast<float>(m) * value_of(s); });
        added = m == 1 ? one : added + one;
      }
      sums.push_back(added);
    }
  }
  if (run_layout.replicas == 1) return sums[0];
  float sum = rounded(sums[0]);
  for (std::size_t r = 1; r < sums.size(); ++r) sum += rounded(sums[r]);
  return rounded(sum);
}

struct outcome {
  std::map<std::string, numbers> gradients;
  std::map<std::pair<std::string, parallel::operation_kind>, std::uint64_t> sent;  // by axis
  bool ranks_agree = true;
};

/// Makes one step on every rank, each with its own gradients.
outcome run(layout const& run_layout) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(run_layout.ranks(), [&](parallel::threads::communicator& inner) {
    auto const recorder = std::make_shared<parallel::flight_recorder>();
    parallel::recorded comm(std::move(inner), recorder);
    parallel::host::device device;
    parallel::host::stream compute, exchanges;
    parallel::arena memory(device.allocate<std::byte>(4096));
    train::process_groups groups(comm.split(0), run_layout.shape(), run_layout.level);
    test::given_gradients<float> model(tensors_of(comm.rank()));
    std::size_t const bytes_before = device.bytes();
    train::stepper_options const options{.level = run_layout.level,
                                         .reduce_every_microbatch = run_layout.every_microbatch,
                                         .reduce_dtype = run_layout.dtype};
    train::stepper step(model, device, groups, test::plain_descent{}, options);
    std::size_t const held = device.bytes() - bytes_before;
    model.set_weights(step);
    std::vector<test::given_microbatch<float>> batches;
    for (int m = 1; m <= microbatches; ++m) batches.push_back({static_cast<float>(m), 1});
    std::vector<index> first;
    for (int m = 0; m < microbatches; ++m) first.push_back(groups.data_rank() * microbatches + m);
    static_cast<void>(step.step(compute, exchanges, memory, {batches, first, {}, 1.0}));
    test::given_gradients<float> planned(tensors_of(0));
    auto const plan = train::plan_units(
        planned, train::optimizer_groups<test::plain_descent>(test::plain_descent{}),
        train::place_in(run_layout.shape(), run_layout.level), options);

    std::scoped_lock const guard(lock);
    CHECK(held == plan.total());
    for (auto const& [traffic, total] : recorder->totals())
      if (!traffic.first.empty()) out.sent[traffic] += total.sent;
    for (auto const& unit : step.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const owned = unit.memory.segments()[s].owned;
        auto const owned_gradients = unit.memory.owned_gradients(s);
        unit.memory.layout().segments()[s].for_each_piece(
            owned.begin, owned.end,
            [&](auto const& p, index begin, index end, index memory_offset) {
              auto& tensor = out.gradients[p.name];
              tensor.resize(5 * width, -1e9F);
              for (index i = begin; i < end; ++i) {
                auto& element = tensor[static_cast<std::size_t>(i)];
                float const own_value = owned_gradients[static_cast<std::size_t>(
                    memory_offset - owned.begin + i - begin)];
                if (element != -1e9F && element != own_value) out.ranks_agree = false;
                element = own_value;
              }
            });
      }
  });
  return out;
}

TEST_CASE("reduce dtype: owners hold float sums of rounded addends, and half the bytes are sent") {
  std::vector<layout> layouts{{.replicas = 3}, {.level = zero::level::none, .replicas = 2}};
  for (auto const level :
       {zero::level::optimizer, zero::level::gradients, zero::level::parameters}) {
    layouts.push_back({.level = level, .shards = 3});
    layouts.push_back({.level = level, .shards = 4, .context = 2, .replicas = 2});
    layouts.push_back({.level = level, .replicas = 3});
    layouts.push_back({.level = level, .shards = 2, .every_microbatch = false});
  }
  for (layout run_layout : layouts) {
    CAPTURE(static_cast<int>(run_layout.level));
    CAPTURE(run_layout.shards);
    CAPTURE(run_layout.replicas);
    auto const narrow = run(run_layout);
    CHECK(narrow.ranks_agree);
    std::vector<std::vector<test::given_tensor<float>>> rank_tensors;
    for (int r = 0; r < run_layout.ranks(); ++r) rank_tensors.push_back(tensors_of(r));
    for (std::size_t t = 0; t < rank_tensors[0].size(); ++t) {
      numbers expected_gradients;
      for (std::size_t i = 0; i < 5 * width; ++i) {
        numbers rank_gradients;
        for (auto const& tensors : rank_tensors) rank_gradients.push_back(tensors[t].gradient[i]);
        expected_gradients.push_back(expected(run_layout, rank_gradients));
      }
      CHECK(narrow.gradients.at(rank_tensors[0][t].name) == expected_gradients);
    }

    run_layout.dtype = zero::reduce_dtype::full;
    auto const full = run(run_layout);
    CHECK(narrow.gradients != full.gradients);
    using enum parallel::operation_kind;
    auto const bytes = [](outcome const& measured, std::string const& axis, auto... kinds) {
      std::uint64_t sum = 0;
      for (auto const kind : {kinds...})
        if (measured.sent.contains({axis, kind})) sum += measured.sent.at({axis, kind});
      return sum;
    };
    for (std::string const axis : {"shard", "shard x context"}) {
      CHECK(2 * bytes(narrow, axis, reduce_scatter) == bytes(full, axis, reduce_scatter));
      CHECK(bytes(narrow, axis, all_gather) == bytes(full, axis, all_gather));  // of values
    }
    for (std::string const axis : {"replicate", "replicate x context"})
      CHECK(2 * bytes(narrow, axis, reduce_scatter, all_gather) == bytes(full, axis, all_reduce));
    CHECK(!narrow.sent.empty());
  }
}

TEST_CASE("reduce dtype: one rank rounds nothing, and unsupported settings are refused") {
  CHECK(run({}).gradients == run({.dtype = zero::reduce_dtype::full}).gradients);
  auto const refusal = [](auto element, zero::reduction_order order) {
    using element_type = decltype(element);
    return test::message_of([&] {
      parallel::threads::run(2, [&](parallel::threads::communicator& comm) {
        parallel::host::device device;
        test::given_gradients<element_type> model({{"a", {4}, {}, {}}});
        train::stepper const step(model, device, comm, test::plain_descent{},
                                  {.order = order, .reduce_dtype = zero::reduce_dtype::bf16});
      });
    });
  };
  CHECK(test::contains(refusal(double{}, zero::reduction_order::by_rank),
                       "reduce_dtype bf16: needs gradients in f32 and the order by_rank, but they "
                       "are in f64; leave it out"));
  CHECK(test::contains(refusal(float{}, zero::reduction_order::canonical_tree),
                       "but the order is canonical_tree; leave it out"));
}

}  // namespace stepper_reduce_dtype_test
