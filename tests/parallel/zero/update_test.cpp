// An update of what a rank owns: every segment by its group's optimizer, with the states that it
// keeps and the tensors that it trains.
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/zero/update.hpp>

namespace update_test {

using namespace parallel;
using parallel::index;

struct layer {
  parameter<float, 2> first{"first", {3, 5}};
  parameter<float, 2> second{"second", {4, 20}};
  parameter<float, 1> frozen{"frozen", {7}};
  void visit_parameters(auto&& visit) {
    visit(first);
    visit(second);
    visit(frozen);
  }
};

segment_key key_of(std::string const& name) {
  return {.trainable = name != "frozen", .group = name == "second" ? 1 : 0};
}

/// What updates were asked for.
struct seen {
  std::string name;
  index offset, size, begin, end;
  std::size_t values, states;
  friend bool operator==(seen const&, seen const&) = default;
};

struct noting {
  std::vector<std::string_view> names;
  std::vector<seen>* log;

  [[nodiscard]] std::span<std::string_view const> state_names() const { return names; }

  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(segment_tensors const& where) const {
    return static_cast<std::size_t>(where.end - where.begin) * names.size();
  }

  template <class Stream, class T, reduced_gradient Gradient, class Exchange>
  void update(Stream&, update_ranges<T, Gradient> const& ranges, segment_tensors const& where,
              Exchange const&, step_info<accumulate_t<T>> const&) const {
    for (auto const& tensor : where.tensors)
      log->push_back({std::string(tensor.name), tensor.offset, where.size, where.begin, where.end,
                      ranges.values.size(), ranges.states.size()});
  }
};

TEST_CASE("each group keeps its own states and sees its own tensors, under every stage") {
  for (auto const stage :
       {zero::stage::optimizer, zero::stage::gradients, zero::stage::parameters}) {
    std::vector<seen> log;
    std::vector<noting> const optimizers{{{"a"}, &log}, {{"a", "b", "c"}, &log}};
    layer own;
    unit<float> layout("block", own, 2, key_of);
    zero::unit_place const place{.shard = 1, .shards = 2};
    CHECK(zero::workspace_bytes(layout, place, std::span(optimizers)) == 3 * 64);
    host::device device;
    host::stream compute;
    zero::partitioned_unit<float> const unit(std::move(layout), stage, place,
                                             zero::state_counts::by(optimizers), device);
    zero::update(unit, compute, std::span(optimizers), {});
    compute.synchronize();
    // segments of 64 and 128 elements, half of which are this rank's
    CHECK(log ==
          std::vector<seen>{{"first", 0, 64, 32, 64, 32, 1}, {"second", 0, 128, 64, 128, 64, 3}});
    for (std::size_t s = 0; s < unit.segments().size(); ++s)
      CHECK(unit.segments()[s].states.size() == (!unit.is_trainable(s)                        ? 0
                                                 : unit.layout().segments()[s].key.group == 0 ? 1
                                                                                              : 3));
  }
}

}  // namespace update_test
