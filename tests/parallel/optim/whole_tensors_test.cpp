// What an optimizer of whole tensors is given, and that element-wise ones need none of it.
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

/// Writes the first extent of its tensor into every weight of its range; 0 into padding.
struct writes_extents {
  [[nodiscard]] static std::span<std::string_view const> state_names() { return {}; }

  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(segment_tensors const& where) const {
    return static_cast<std::size_t>(where.size) * sizeof(T);
  }

  template <class Stream, class T, reduced_gradient Gradient, class Exchange>
  void update(Stream&, update_ranges<T, Gradient> const& of, segment_tensors const& where,
              Exchange const&, step_info<accumulate_t<T>> const&) const {
    for (index i = where.begin; i < where.end; ++i) {
      T value = 0;
      for (auto const& tensor : where.tensors)
        if (tensor.offset <= i && i < tensor.offset + tensor.size())
          value = static_cast<T>(tensor.extents[0]);
      of.values[static_cast<std::size_t>(i - where.begin)] = value;
    }
  }
};

using either = any_optimizer<decoupled_adamw, writes_extents>;

static_assert(tensor_optimizer<writes_extents> && tensor_optimizer<either>);
static_assert(!tensor_optimizer<any_optimizer<decoupled_adamw>>);
// such a choice has no update without tensors
static_assert(!optimizer<either, reference::stream, float, summed>);

TEST_CASE("an optimizer of whole tensors knows which tensors its range is of, also when chosen") {
  std::vector<index> const small{3, 2}, large{5, 1};
  segment_tensor const tensors[] = {{"small", small, small, 0}, {"large", large, large, 8}};
  segment_tensors const where{tensors, 16, 4, 12};
  CHECK(workspace_bytes<float>(writes_extents{}, where) == 64);
  CHECK(workspace_bytes<float>(either(writes_extents{}), where) == 64);
  CHECK(workspace_bytes<float>(either(decoupled_adamw{}), where) == 0);
  CHECK(workspace_bytes<float>(decoupled_adamw{}, where) == 0);
  reference::stream s;
  shard_exchange<void, void> const nobody{};
  for (bool const chosen : {false, true}) {
    std::vector<float> weights(8, -1), gradients(8, 1);
    ranges const of{weights, weights, {}, {gradients}};
    if (chosen)
      update_segment(either(writes_extents{}), s, of, where, nobody, {});
    else
      update_segment(writes_extents{}, s, of, where, nobody, {});
    CHECK(weights == std::vector<float>{3, 3, 0, 0, 5, 5, 5, 5});
  }
}

TEST_CASE("an element-wise optimizer does the same with tensors as without") {
  auto const run = [](auto const& step) {
    std::vector<float> weights{1, -2}, gradients{4, -8}, first(2), second(2);
    std::array<std::span<float>, 2> const states{first, second};
    reference::stream s;
    step(s, ranges{weights, weights, states, {gradients}});
    return weights;
  };
  decoupled_adamw const adam{.learning_rate = 0.5};
  auto const expected = run([&](auto& s, auto const& of) { adam.update(s, of, {}); });
  shard_exchange<void, void> const nobody{};
  CHECK(run([&](auto& s, auto const& of) { update_segment(adam, s, of, {}, nobody, {}); }) ==
        expected);
  CHECK(run([&](auto& s, auto const& of) {
          update_segment(either(adam), s, of, {}, nobody, {});
        }) == expected);
}

}  // namespace whole_tensors_test
