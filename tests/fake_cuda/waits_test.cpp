// Waits of the host and of streams that the layouts' tests cannot show, because another wait often
// precedes them. Streams are lazy: they run only the work that a thread waits for, so that code
// without the wait finds, in every run, that the work has not happened.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/detail/combine.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/ops/cuda.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/train/attempt.hpp>
#include <parallel/train/results/clip_gradients.hpp>
#include <parallel/train/results/shared_results.hpp>
#include <parallel/train/results/tensor_squares.hpp>
#include <parallel/train/step/lower_step.hpp>
#include <parallel/train/step/run_step.hpp>

#include "fake_cuda/runtime.hpp"

namespace fake_waits_test {
namespace {

using namespace parallel;
using cuda::stream;
using train::clipping_kind;

/// Enqueues `work` on a stream.
void enqueue_work(stream& target, std::function<void()> work) {
  cuda::check(fake_cuda::enqueue(target.get(), "a test's work", std::move(work)), "enqueue");
}

/// A communicator whose other ranks have the same data as this one; together they add `extra` to
/// every sum. It counts the messages that have completed.
class twin : public collectives<twin, stream> {
 public:
  twin(int rank, int ranks, int extra = 0) : rank_(rank), ranks_(ranks), extra_(extra) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return ranks_; }
  [[nodiscard]] int world_rank(int rank) const { return rank; }
  [[nodiscard]] std::string_view name() const { return ""; }
  void abort(std::string const& reason) { *aborted = reason; }

  request_type submit(stream& s, operation const& op) {
    if (op.kind == operation_kind::all_reduce)
      enqueue_work(s, [op, ranks = ranks_, extra = extra_] {
        parallel::detail::visit(op.type, [&]<class T>(std::type_identity<T>) {
          if constexpr (std::is_arithmetic_v<T>)
            for (T& one : std::span(static_cast<T*>(op.out), op.count))
              one = static_cast<T>(one * static_cast<T>(ranks) + static_cast<T>(extra));
        });
      });
    else
      enqueue_work(s, [count = messages] { ++*count; });
    return {s.record(), {}, {}, op};
  }

  std::shared_ptr<int> messages = std::make_shared<int>(0);  // completed messages
  std::shared_ptr<std::string> aborted = std::make_shared<std::string>();

 private:
  int rank_, ranks_, extra_;
};

TEST_CASE("request: its destructor waits unless the request was waited for or detached") {
  fake_cuda::restart({.lazy = true});
  twin world(0, 2);
  stream exchanges, compute;
  int x = 1;
  static_cast<void>(world.all_reduce(exchanges, std::span(&x, 1), reduction::sum));
  CHECK(x == 2);
  world.all_reduce(exchanges, std::span(&x, 1), reduction::sum).detach();
  CHECK(x == 2);
  world.all_reduce(exchanges, std::span(&x, 1), reduction::sum).wait_on(compute);
  CHECK(x == 2);
  compute.synchronize();
  CHECK(x == 8);
}

/// The element in the GPU's memory at this moment, without a wait.
float current_value(buffer<float> const& memory) { return *memory.data(); }

TEST_CASE("cuda::device: zeroing, upload and download are complete when the call returns") {
  fake_cuda::restart({.lazy = true});
  cuda::device const device;
  CHECK(std::isnan(current_value(device.allocate<float>(1))));
  auto const memory = device.allocate_zeroed<float>(1);
  CHECK(current_value(memory) == 0);
  std::vector<float> host_values{7};
  device.upload(memory.span(), host_values);
  CHECK(current_value(memory) == 7);
  host_values = {0};
  device.download(std::span(host_values), memory.span());
  CHECK(host_values.front() == 7);
}

TEST_CASE("cuda::device: shared memory is reused only after enqueued work has used it") {
  fake_cuda::restart({.lazy = true});
  cuda::device const device;
  stream compute;
  auto first = device.allocate_shared<float>(1);
  auto* const address = first.data();
  enqueue_work(compute, [address] { *address = 5; });
  first = {};
  auto const second = device.allocate_shared<float>(1);
  REQUIRE(second.data() == address);
  compute.synchronize();
  CHECK(*second.data() == 0);
}

TEST_CASE("cuda::stream: for an event that no GPU can wait for, the host waits") {
  struct host_event {
    bool& waited;
    void wait() const { waited = true; }
  };
  fake_cuda::restart();
  bool waited = false;
  stream compute;
  compute.wait(host_event{waited});
  CHECK(waited);
}

/// The last of two stages; it computes nothing.
struct last_stage {
  buffer<float> memory;

  void compute(train::action const&, stream&) {}
  void exchange(train::action const&, stream&, std::vector<twin::request_type>&) {}
  std::span<float> input(pipeline::microbatch_task const&) { return memory.span(); }
  std::span<float> input_gradient(pipeline::microbatch_task const&) { return memory.span(); }
  std::span<float> output(pipeline::microbatch_task const&) { return memory.span(); }
  std::span<float> output_gradient(pipeline::microbatch_task const&) { return memory.span(); }
  [[nodiscard]] bool is_empty(int) const { return false; }
};

TEST_CASE("run_step: messages begin after enqueued work, and all of them complete") {
  fake_cuda::restart({.lazy = true});
  cuda::device const device;
  twin pipe(1, 2);
  stream compute, reductions;
  last_stage stage{device.allocate<float>(1)};
  pipeline::p2p_streams<twin> links(pipe);
  auto const plan =
      train::lower_step(pipeline::lower(pipeline::gpipe(2, 2), 1), {{1, 2, false, true}}, {}, {});
  train::step_streams<stream, stream> const streams{compute, nullptr, nullptr, &reductions};

  bool earlier = false;
  enqueue_work(compute, [&] { earlier = true; });
  auto messages = train::run_step(plan, streams, links, stage);
  REQUIRE(messages.size() == 4);
  CHECK(!earlier);
  messages.front().wait();  // a receive
  CHECK(earlier);
  compute.synchronize();
  CHECK(*pipe.messages == 4);  // also the last sends, for which no computation waits
  CHECK(fake_cuda::history().failures.empty());
}

/// A step of an exchange for the update, which enqueues more work on the exchange's stream, and of
/// the update.
struct updating_program : last_stage {
  stream& compute_stream;
  bool ready = false, updated = false;

  void compute(train::action const& a, stream&) {
    if (a.kind == train::action_kind::update)
      enqueue_work(compute_stream, [this] { updated = ready; });
  }
  void exchange(train::action const&, stream& exchange_stream,
                std::vector<twin::request_type>& requests) {
    requests.emplace_back();  // the empty request of a single rank, which exchanges nothing
    enqueue_work(exchange_stream, [this] { ready = true; });
  }
};

TEST_CASE("run_step: an update waits for all work on its exchange's stream, not just the request") {
  using enum train::action_kind;
  fake_cuda::restart({.lazy = true});
  twin pipe(0, 1);
  stream compute, reductions;
  train::step_plan plan;
  plan.actions = {{.kind = exchange_update, .is_awaited = true, .lane = train::lane::reductions},
                  {.kind = update, .dependencies = {0}}};
  pipeline::p2p_streams<twin> links(pipe);
  updating_program program{{}, compute};
  train::step_streams<stream, stream> const streams{compute, nullptr, nullptr, &reductions};
  auto const requests = train::run_step(plan, streams, links, program);
  compute.synchronize();
  CHECK(program.updated);
}

struct layer {
  parameter<float, 2> matrix{"matrix", {8, 4}};
  parameter<float, 1> vector{"vector", {3}};
  void visit_parameters(auto&& visit) {
    visit(matrix);
    visit(vector);
  }
};

/// An undivided unit with known weights and gradients.
struct held_unit {
  template <class Device>
  explicit held_unit(Device& device, layer& unit_layer)
      : memory(unit<float>("unit", unit_layer, 1), zero::level::none, {}, 0, device) {
    auto const& segment = memory.segments().front();
    std::vector<float> numbers(segment.values.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 7);
    device.upload(segment.values.span(), numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 5) - 2;
    device.upload(memory.owned_gradients(0), numbers);
  }
  zero::partitioned_unit<float> memory;
};

/// The first of two ranks with the same data, on a lazy GPU, with a unit.
struct lazy_rank {
  static cuda::device make_device() {
    fake_cuda::restart({.lazy = true});
    return cuda::device();
  }
  cuda::device device = make_device();
  twin world{0, 2};
  stream compute, exchanges;
  layer rank_layer;
  held_unit rank_unit{device, rank_layer};
};

/// Checks a step's results after `wait(results, compute, exchanges)`, where each of two ranks has 3
/// tokens and a loss of 12.
template <class Wait>
void check_sums(bool exact, Wait const& wait) {
  CAPTURE(exact);
  lazy_rank one;
  auto& [device, world, compute, exchanges, rank_layer, rank_unit] = one;
  train::shared_results<float> results(device, exact);
  auto const sums = results.cleared_sums(1, device);
  enqueue_work(compute, [sums] { sums.front() = {.loss = 12, .tokens = 3, .correct = 1}; });
  results.norm.add(rank_unit.memory, compute);
  results.exchange(world, compute, exchanges);
  wait(results, compute, exchanges);
  auto const got = results.result(std::numeric_limits<double>::infinity());
  CHECK(got.sums.loss == 24);
  CHECK(got.sums.tokens == 6);
  CHECK(got.sums.correct == 2);
  CHECK(got.squared_norm == 2 * 126);  // over the 64 elements of a unit, including padding
  CHECK(fake_cuda::history().failures.empty());
}

TEST_CASE("shared_results: the sums are final after compute, the exchanges or the judgement") {
  for (bool const exact : {false, true}) {
    check_sums(exact, [](auto&, auto& compute, auto&) { compute.synchronize(); });
    check_sums(exact, [](auto&, auto&, auto& exchanges) { exchanges.synchronize(); });
    check_sums(exact, [](auto& results, auto& compute, auto&) {
      CHECK(results.judge(compute, {.loss = 3}) == train::step_outcome::above_limit);
    });
  }
}

TEST_CASE(
    "statistics_sum, tensor_squares_meter: sums over ranks are complete when the host reads them") {
  for (bool const exact : {false, true}) {
    CAPTURE(exact);
    fake_cuda::restart({.lazy = true});
    cuda::device device;
    twin world(0, 2);
    stream exchanges;
    train::statistics_sum<double> sums;
    sums.add(std::vector<train::statistics<double>>{{.loss = 12, .tokens = 3, .correct = 1}});
    auto const got = sums.over_ranks(device, world, exchanges, exact);
    CHECK(got.loss == 24);
    CHECK(got.tokens == 6);
    CHECK(got.correct == 2);
  }

  lazy_rank one;
  auto& [device, world, compute, exchanges, rank_layer, rank_unit] = one;
  train::tensor_list tensors;
  tensors.add<float>(rank_layer, [](auto const&) { return segment_key{}; });
  train::tensor_squares_meter<float> meter(tensors, device);
  meter.measure_before(rank_unit.memory, compute, device);
  meter.measure_after(rank_unit.memory, compute);
  auto const got = meter.finish(world, exchanges);
  REQUIRE(got.size() == 2);
  CHECK(got[1].name == "vector");
  CHECK(got[1].weights == 2 * (16 + 25 + 36));  // 4, 5 and 6
  CHECK(got[1].gradient == 2 * (0 + 1 + 4));
  CHECK(got[1].update == 0);
}

/// A GPU whose shared memory is overwritten when it is freed, as the host's may be.
struct forgetful_device : cuda::device {
  template <class T>
  [[nodiscard]] buffer<T> allocate_shared(std::size_t count) const {
    auto const memory = cuda::device::allocate_shared<T>(count);
    std::shared_ptr<void> owner(memory.data(), [memory](void*) {
      for (T& one : memory.span()) one = std::numeric_limits<T>::quiet_NaN();
    });
    return {std::move(owner), memory.data(), count};
  }
};

/// The gradients of a unit after clipping. They become 3 (i % 5 - 2), and the tokens 2, by work
/// that the GPU runs only when a thread waits for it; other ranks' rows have a sum of squares of 5.
std::vector<float> clipped(clipping_kind kind, zero::reduction_order order) {
  fake_cuda::restart({.lazy = true});
  forgetful_device device;
  twin world(0, 1, 5);
  stream compute, exchanges;
  layer unit_layer;
  std::vector<held_unit> units;
  units.emplace_back(device, unit_layer);
  train::tensor_list tensors;
  tensors.add<float>(unit_layer, [](auto const&) { return segment_key{}; });

  std::int64_t tokens = 1;
  auto const gradients = units.front().memory.owned_gradients(0);
  enqueue_work(compute, [&] {
    tokens = 2;
    for (float& one : gradients) one *= 3;
  });
  train::clip_parts({kind, 0.75}, order, units, tensors, device, world, compute, exchanges,
                    [&] { return tokens; });
  compute.synchronize();
  std::vector<float> out(gradients.size());
  device.download(std::span(out), gradients);
  CHECK(fake_cuda::history().failures.empty());
  return out;
}

TEST_CASE("clip_parts: waits for the token count, and its factors live until they are used") {
  using enum zero::reduction_order;
  for (auto const order : {by_rank, canonical_tree}) {
    CAPTURE(static_cast<int>(order));
    auto const by_value = clipped(clipping_kind::value, order);
    auto const by_rows = clipped(clipping_kind::adaptive, order);
    for (std::size_t row = 0; row < 8; ++row) {
      double weights = 5, gradients = 5;
      for (std::size_t i = 4 * row; i < 4 * row + 4; ++i) {
        double const gradient = 3 * (static_cast<double>(i % 5) - 2);
        CHECK(by_value[i] == std::clamp(gradient, -1.5, 1.5));
        weights += static_cast<double>(i % 7 * (i % 7));
        gradients += gradient * gradient;
      }
      double const factor =
          train::adaptive_factor(std::sqrt(weights), std::sqrt(gradients) / 2, 0.75);
      for (std::size_t i = 4 * row; i < 4 * row + 4; ++i)
        CHECK(by_rows[i] == doctest::Approx(3 * factor * (static_cast<double>(i % 5) - 2)));
    }
  }
}

TEST_CASE("attempt: after an exception no work of the step is still running") {
  fake_cuda::restart({.lazy = true});
  twin world(0, 1);
  stream compute, weights;
  int ran = 0;
  auto const for_each_stream = [&](auto const& f) {
    f(compute);
    f(weights);
  };
  CHECK_THROWS_WITH(train::attempt(world, for_each_stream,
                                   [&] {
                                     enqueue_work(compute, [&] { ++ran; });
                                     enqueue_work(weights, [&] { ++ran; });
                                     fail("the machine is on fire");
                                   }),
                    "the machine is on fire");
  CHECK(ran == 2);
  CHECK(*world.aborted == "the machine is on fire");
}

}  // namespace
}  // namespace fake_waits_test
