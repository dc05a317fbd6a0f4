// The arguments of an optimizer of whole tensors, which element-wise optimizers do not need.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/mesh/placement.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/whole_tensors.hpp>

namespace whole_tensors_test {

using namespace parallel;
using parallel::index;
using summed = placed_gradient<float, reduced<axis::data>>;
using ranges = update_ranges<float, summed>;

/// Writes the first extent of its tensor into every weight of its range, in three calls: 0 into
/// padding, 100 into the requests of the exchange, the extent.
struct writes_extents {
  [[nodiscard]] static std::span<std::string_view const> state_names() { return {}; }

  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(unit_tensors<T> const& unit) const {
    return static_cast<std::size_t>(unit.segments[0].size) * sizeof(T);
  }
  template <class Stream, class T, reduced_gradient Gradient>
  void begin_update(Stream&, std::vector<update_ranges<T, Gradient>> const& ranges_of_segments,
                    unit_tensors<T> const&, arena&, step_info<accumulate_t<T>> const&) const {
    for (T& value : ranges_of_segments[0].values) value = 0;
  }
  template <class Stream, class Comm, class T, class Requests>
  void exchange(Stream&, update_groups<Comm> const&, unit_tensors<T> const&, arena&,
                Requests& requests) const {
    requests.push_back(100);
  }
  template <class Stream, class T, reduced_gradient Gradient>
  void finish_update(Stream&, std::vector<update_ranges<T, Gradient>> const& ranges_of_segments,
                     unit_tensors<T> const& unit, arena&, step_info<accumulate_t<T>> const&) const {
    auto const [size, begin, end] = unit.segments[0];
    for (index i = begin; i < end; ++i)
      for (auto const& tensor : unit.tensors)
        for (auto const& piece : tensor.pieces)
          if (piece.offset <= i && i < piece.offset + piece.slice->size())
            ranges_of_segments[0].values[static_cast<std::size_t>(i - begin)] +=
                static_cast<T>(tensor.extents()[0]);
  }
};

using run_time_choice = any_optimizer<decoupled_adamw, writes_extents>;

static_assert(tensor_optimizer<writes_extents> && tensor_optimizer<run_time_choice>);
static_assert(!tensor_optimizer<decoupled_adamw>);
static_assert(!tensor_optimizer<any_optimizer<decoupled_adamw>>);
// such a choice has no update without tensors
static_assert(!optimizer<run_time_choice, reference::stream, float, summed>);

parameter_base<float> tensor(std::string name, std::vector<index> extents) {
  parameter_base<float> out;
  out.name = std::move(name);
  out.extents = std::move(extents);
  return out;
}

TEST_CASE(
    "whole tensors: an optimizer receives the tensors of its range, also as a run-time choice") {
  auto const small = tensor("small", {3, 2}), large = tensor("large", {5, 1});
  unit_tensors<float> const unit{{{16, 4, 12}}, {{{{&small, 0, 0}}}, {{{&large, 0, 8}}}}};
  reference::stream s;
  arena memory;
  auto const run = [&](auto const& o) {
    CHECK(takes_whole_tensors(o));
    CHECK(o.template workspace_bytes<float>(unit) == 64);
    std::vector<float> weights(8, -1), gradients(8, 1);
    std::vector<ranges> const ranges_of_segments{{weights, weights, {}, {gradients}}};
    step_info<float> const info{};
    o.begin_update(s, ranges_of_segments, unit, memory, info);
    CHECK(weights == std::vector<float>(8, 0));
    std::vector<int> requests;
    o.exchange(s, update_groups<int>{}, unit, memory, requests);
    CHECK(requests == std::vector<int>{100});
    finish_update(o, s, ranges_of_segments, unit, memory, info);
    CHECK(weights == std::vector<float>{3, 3, 0, 0, 5, 5, 5, 5});
  };
  run(writes_extents{});
  run(run_time_choice(writes_extents{}));
}

TEST_CASE(
    "whole tensors: an element-wise optimizer gives the same result with tensors as without") {
  auto const run = [](auto const& step) {
    std::vector<float> weights{1, -2}, gradients{4, -8}, first(2), second(2);
    std::array<std::span<float>, 2> const states{first, second};
    reference::stream s;
    step(s, std::vector<ranges>{{weights, weights, states, {gradients}}});
    return weights;
  };
  decoupled_adamw const adam{.learning_rate = 0.5};
  step_info<float> const info{};
  arena memory;
  unit_tensors<float> const no_tensors;
  auto const expected = run([&](auto& s, auto const& ranges_of_segments) {
    adam.update(s, ranges_of_segments[0], info);
  });
  CHECK(run([&](auto& s, auto const& ranges_of_segments) {
          finish_update(adam, s, ranges_of_segments, no_tensors, memory, info);
        }) == expected);
  run_time_choice const choice(adam);
  CHECK(!takes_whole_tensors(choice));
  CHECK(run([&](auto& s, auto const& ranges_of_segments) {
          choice.begin_update(s, ranges_of_segments, no_tensors, memory, info);
          finish_update(choice, s, ranges_of_segments, no_tensors, memory, info);
        }) == expected);
}

TEST_CASE("whole tensors: a tensor is whole when it is one piece") {
  auto const whole = tensor("w", {4, 2});
  auto slice = tensor("w", {2, 2});
  slice.whole_extents = {4, 2};
  slice.rows = {{2, 2}};
  CHECK(trained_tensor<float>{{{&whole}}}.is_whole());
  trained_tensor<float> const sliced{{{&slice}}}, with_two_pieces{{{&slice}, {&slice, 0, 4}}};
  CHECK((!sliced.is_whole() && !with_two_pieces.is_whole()));
  CHECK(sliced.size() == 8);
  CHECK(!unit_tensors<float>{{}, {{{{&whole}}}}}.is_divided());
  CHECK(unit_tensors<float>{{}, {{{{&whole}}}, sliced}}.is_divided());
}

}  // namespace whole_tensors_test
