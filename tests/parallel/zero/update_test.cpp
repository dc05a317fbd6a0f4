// An update of the owned range: every segment by the optimizer of its group, with its states and
// tensors.
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

/// The record of one requested update.
struct update_record {
  std::string name;
  index offset, size, begin, end;
  std::size_t values, states;
  friend bool operator==(update_record const&, update_record const&) = default;
};

/// An optimizer whose workspace is a byte for every element and state.
struct recording_optimizer {
  std::vector<std::string_view> names;
  std::vector<update_record>* log;

  [[nodiscard]] std::span<std::string_view const> state_names() const { return names; }

  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(unit_tensors<T> const& unit) const {
    std::size_t bytes = 0;
    for (auto const& segment : unit.segments)
      bytes += static_cast<std::size_t>(segment.size) * names.size();
    return bytes;
  }

  template <class Stream, class Ranges, class Info>
  void begin_update(Stream& s, Ranges const& ranges, unit_tensors<float> const& unit, arena& memory,
                    Info const& info) const {
    record("begin ", s, ranges, unit, memory, info);
  }
  template <class Stream, class Comm, class Requests>
  void exchange(Stream&, update_groups<Comm> const&, unit_tensors<float> const& unit, arena&,
                Requests&) const {
    log->push_back({concat("exchange ", unit.tensors[0].name()), 0, 0, 0, 0, 0, 0});
  }
  template <class Stream, class Ranges, class Info>
  void finish_update(Stream& s, Ranges const& ranges, unit_tensors<float> const& unit,
                     arena& memory, Info const& info) const {
    record("", s, ranges, unit, memory, info);
  }

 private:
  template <class Stream, class Ranges, class Info>
  void record(std::string_view phase, Stream&, Ranges const& ranges,
              unit_tensors<float> const& unit, arena& memory, Info const&) const {
    auto const bytes = static_cast<index>(workspace_bytes(unit));
    CHECK(memory.allocate<std::byte, 1>({bytes}).span().size() > 0);
    for (auto const& tensor : unit.tensors)
      for (auto const& piece : tensor.pieces) {
        auto const& range = unit.segments[piece.segment];
        log->push_back({concat(phase, tensor.name()), piece.offset, range.size, range.begin,
                        range.end, ranges[piece.segment].values.size(),
                        ranges[piece.segment].states.size()});
      }
  }
};

TEST_CASE("update: each group has its own states and sees its own tensors, at every ZeRO level") {
  for (auto const level :
       {zero::level::optimizer, zero::level::gradients, zero::level::parameters}) {
    std::vector<update_record> log;
    std::vector<recording_optimizer> const optimizers{{{"a"}, &log}, {{"a", "b", "c"}, &log}};
    layer parameters;
    unit<float> layout("block", parameters, 2, key_of);
    zero::unit_position const position{.shard = 1, .shards = 2};
    std::size_t const bytes = zero::workspace_bytes(layout, position, std::span(optimizers));
    CHECK(bytes == 64 + 3 * 128);
    CHECK(zero::exchanges_update(layout, position, std::span(optimizers)));
    CHECK(!zero::exchanges_update(layout, {}, std::span(optimizers)));
    host::device device;
    host::stream compute;
    zero::partitioned_unit<float> const unit(std::move(layout), level, position,
                                             zero::state_counts::from_optimizers(optimizers),
                                             device);
    arena workspace(device.allocate<std::byte>(bytes));
    std::span const all_optimizers(optimizers);
    zero::begin_update(unit, compute, all_optimizers, workspace, {});
    std::vector<int> requests;
    zero::exchange_update(unit, update_groups<int>{}, compute, all_optimizers, workspace, requests);
    zero::update(unit, compute, all_optimizers, workspace, {});
    compute.synchronize();
    // segments of 64 and 128 elements, half of which this rank owns
    CHECK(log == std::vector<update_record>{{"begin first", 0, 64, 32, 64, 32, 1},
                                            {"begin second", 0, 128, 64, 128, 64, 3},
                                            {"exchange first", 0, 0, 0, 0, 0, 0},
                                            {"exchange second", 0, 0, 0, 0, 0, 0},
                                            {"first", 0, 64, 32, 64, 32, 1},
                                            {"second", 0, 128, 64, 128, 64, 3}});
    for (std::size_t s = 0; s < unit.segments().size(); ++s)
      CHECK(unit.segments()[s].states.size() == (!unit.is_trainable(s)                        ? 0
                                                 : unit.layout().segments()[s].key.group == 0 ? 1
                                                                                              : 3));
  }
}

}  // namespace update_test
