// The contract of traffic: the counted bytes that a step sends along each axis follow the formulas
// at the top of partitioned_unit.hpp, padding included.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/recorded.hpp>

#include "support/ring/ring_run.hpp"

namespace stepper_traffic_test {

using parallel::index;
using parallel::operation_kind;
using test::layout;
namespace zero = parallel::zero;

using key = std::pair<std::string, operation_kind>;
using bytes = std::map<key, std::uint64_t>;

/// The bytes that each rank sends along each axis in all steps, without the world's sums of losses
/// and counts.
std::vector<bytes> count(layout const& run_layout) {
  test::outcome out;
  std::mutex lock;
  std::vector<bytes> sent(static_cast<std::size_t>(run_layout.shape().ranks()));
  parallel::threads::run(run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    auto const recorder = std::make_shared<parallel::flight_recorder>();
    parallel::recorded counted(std::move(comm), recorder);
    test::run_rank(parallel::any_communicator(counted.split(0)), run_layout, out, lock);
    auto& own_traffic = sent[static_cast<std::size_t>(counted.rank())];
    for (auto const& [traffic, total] : recorder->totals())
      if (!traffic.first.empty() && total.sent > 0) own_traffic[traffic] = total.sent;
  });
  return sent;
}

/// The bytes of a segment of parameters of these sizes, padding included.
std::uint64_t padded(std::vector<index> const& sizes, index ranks) {
  auto const up = [](index value, index multiple) {
    return (value + multiple - 1) / multiple * multiple;
  };
  index total = 0;
  for (index const size : sizes) total += up(size, 32);
  return static_cast<std::uint64_t>(up(total, 32 * ranks)) * sizeof(test::ring);
}

/// The formulas for the ring model of 3 blocks of width 4, a norm and a tied table of 13 tokens,
/// where `mix` may be frozen.
bytes formulas(layout const& run_layout) {
  bool const frozen = !run_layout.frozen.empty();
  auto const shape = run_layout.shape();
  auto const n = static_cast<std::uint64_t>(shape.degree<parallel::axis::shard>());
  auto const r = static_cast<std::uint64_t>(shape.degree<parallel::axis::replicate>());
  index const ranks = shape.ranks();
  auto const m = static_cast<std::uint64_t>(
      parallel::data::max_microbatches(test::global_batch, ranks, run_layout.microbatch));
  auto const steps = static_cast<std::uint64_t>(run_layout.num_steps);

  std::uint64_t const table = padded({52}, ranks);
  std::uint64_t const norm = padded({4}, ranks);
  std::uint64_t const idle = frozen ? padded({16, 4}, ranks) : 0;
  std::uint64_t const trained = frozen ? padded({4, 4, 16, 4, 4, 48, 12, 48, 4}, ranks)
                                       : padded({4, 16, 4, 4, 16, 4, 4, 48, 12, 48, 4}, ranks);
  std::uint64_t const values = table + norm + 3 * trained;  // bytes of trainable values
  std::uint64_t const used =
      2 * table + norm + 2 * 3 * (trained + idle);  // bytes that the passes of a microbatch use

  bytes out;
  auto const add = [&](std::string const& axis, operation_kind kind, std::uint64_t sent) {
    if (sent > 0) out[{axis, kind}] = steps * sent;
  };
  std::uint64_t const gathered = run_layout.level == zero::level::none         ? 0
                                 : run_layout.level != zero::level::parameters ? values
                                 : run_layout.reshard                          ? m * used
                                                                               : values + 3 * idle;
  std::uint64_t const scattered =  // for every microbatch both uses of the table
      run_layout.level >= zero::level::gradients && run_layout.reduce_every_microbatch
          ? m * (values + table)
          : values;
  add("shard", operation_kind::reduce_scatter, scattered * (n - 1) / n);
  add("shard", operation_kind::all_gather, gathered * (n - 1) / n);
  add(run_layout.level == zero::level::none ? "replicate x context" : "replicate",
      operation_kind::all_reduce, 2 * (values / n) * (r - 1) / r);
  return out;
}

TEST_CASE("stepper: bytes sent by a step along each axis follow the formulas at every ZeRO level") {
  std::string table = "layout: sent along, counted, formula (bytes of a rank in 2 steps)\n";
  int layouts = 0;
  for (auto const level : test::all_levels)
    for (auto const& ranks_of : {std::pair{1, 1}, {2, 1}, {3, 1}, {2, 2}, {1, 3}})
      for (bool const frozen : {false, true})
        for (auto const& options :
             {std::pair{true, true}, {false, true}, {true, false}, {false, false}}) {
          auto const& [ranks, replicas] = ranks_of;
          auto const& [reshard, every_microbatch] = options;
          if (!reshard && level != zero::level::parameters) continue;
          if (!every_microbatch && level < zero::level::gradients) continue;
          layout const run_layout{
              .ranks = ranks,
              .level = level,
              .microbatch = ranks == 3 ? 1 : 2,
              .bucket_bytes = 2000,
              .frozen = frozen ? std::vector<std::string>{"mix"} : std::vector<std::string>{},
              .num_steps = 2,
              .replicas = replicas,
              .reshard = reshard,
              .gather_before_use =
                  frozen,  // otherwise the reader of values after the last step gathers them
              .reduce_every_microbatch = every_microbatch};
          CAPTURE(static_cast<int>(level));
          CAPTURE(ranks_of.first);
          CAPTURE(ranks_of.second);
          CAPTURE(frozen);
          CAPTURE(options.first);
          CAPTURE(options.second);
          auto const expected = formulas(run_layout);
          auto const sent = count(run_layout);
          for (auto const& of_rank : sent) CHECK(of_rank == expected);
          CHECK(expected.empty() == (run_layout.shape().ranks() == 1));
          auto const name =
              parallel::concat("level ", static_cast<int>(level), ", ", run_layout.shape().text(),
                               frozen ? ", frozen" : "", reshard ? "" : ", values kept",
                               every_microbatch ? "" : ", reduced once", ", microbatches of ",
                               run_layout.microbatch);
          for (auto const& [traffic, formula] : expected) {
            auto const counted = sent[0].contains(traffic) ? sent[0].at(traffic) : 0;
            table += parallel::concat(name, ": ", traffic.first, ' ', to_string(traffic.second),
                                      ", ", counted, ", ", formula, '\n');
          }
          ++layouts;
        }
  REQUIRE(layouts >= 8);
  MESSAGE(table);
}

}  // namespace stepper_traffic_test
