// The exact results of attention by ranks that each hold a part of every sequence.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/faulty.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>

#include "support/ring/ring_attention.hpp"

namespace test {

struct context_problem {
  index sequences = 3;
  index length = 24;  // positions of a sequence
  index width = 8;
  index heads = 2;
  index window = -1;
  index document = 0;  // the greatest length of a document; 0: one document per sequence

  [[nodiscard]] std::vector<std::int32_t> documents() const {
    std::vector<std::int32_t> out;
    parallel::philox const random(5, 1);
    if (document > 0)
      for (index i = 0, begin = 0, end = 0; i < sequences * length; ++i) {
        index const position = i % length;
        if (position == 0 || position == end) {
          begin = position;
          end = position + 1 +
                static_cast<index>(random.bits(static_cast<std::uint64_t>(i))) % document;
        }
        out.push_back(static_cast<std::int32_t>(begin));
      }
    return out;
  }
  [[nodiscard]] std::vector<ring> rows(std::uint64_t seed) const {
    parallel::philox const random(seed, 2);
    std::vector<ring> out(static_cast<std::size_t>(sequences * length * width));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = random.bits(2 * i) * std::uint64_t{0x100000001} ^ random.bits(2 * i + 1);
    return out;
  }
};

/// y and dx of all rows in order.
struct context_outcome {
  std::vector<ring> y, dx;
  friend bool operator==(context_outcome const&, context_outcome const&) = default;
};

/// The indices of the rows of this partition among all rows.
[[nodiscard]] inline std::vector<index> rows_of(
    context_problem const& problem, context_parallel::sequence_partition const& partition) {
  std::vector<index> rows(static_cast<std::size_t>(problem.sequences * problem.length));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<index>(i);
  return partition.pick(std::span<index const>(rows));
}

/// Runs one rank's attention and its gradient, and writes its rows to `out`. Arena and results are
/// poisoned with numbers that differ by rank.
template <class Layer>
void run_attention_rank(Layer const& layer, int rank, int ranks, context_problem const& problem,
                        context_outcome& out) {
  parallel::host::device device;
  parallel::host::stream compute;
  auto const storage = device.allocate<std::byte>(std::size_t{4} << 20);
  std::fill_n(storage.data(), storage.size(), static_cast<std::byte>(0x55 + rank));
  parallel::arena memory(storage);
  auto const documents = problem.documents();
  context_parallel::sequence_partition const partition(rank, ranks, problem.length);
  auto const own_rows = rows_of(problem, partition);
  auto const pick = [&](std::vector<ring> const& values) {
    std::vector<ring> picked;
    for (index const row : own_rows)
      picked.insert(picked.end(), values.begin() + row * problem.width,
                    values.begin() + (row + 1) * problem.width);
    return picked;
  };
  auto const x = pick(problem.rows(3));
  auto const dy = pick(problem.rows(4));
  parallel::shape<2> const extents{std::ssize(own_rows), problem.width};
  context<parallel::host::stream> c{.stream = compute,
                                    .memory = memory,
                                    .sequence = partition.length(),
                                    .share = partition.share(),
                                    .document_begins = documents};
  typename Layer::saved state;
  auto const y = layer.forward(c, matrix_view<ring const>(x.data(), extents), state);
  auto const dx = layer.backward_input(c, matrix_view<ring const>(dy.data(), extents), state);
  compute.synchronize();
  for (std::size_t i = 0; i < own_rows.size(); ++i) {  // ranks write to different rows
    auto const offset = static_cast<index>(i) * problem.width;
    std::copy_n(y.data() + offset, problem.width, out.y.begin() + own_rows[i] * problem.width);
    std::copy_n(dx.data() + offset, problem.width, out.dx.begin() + own_rows[i] * problem.width);
  }
}

/// make(communicator, run_layer) calls run_layer(layer) with the layer of a rank.
template <class Make>
context_outcome attend_with(int ranks, context_problem const& problem, Make const& make) {
  auto const size = static_cast<std::size_t>(problem.sequences * problem.length * problem.width);
  context_outcome out{std::vector<ring>(size), std::vector<ring>(size)};
  parallel::threads::run(ranks, [&](parallel::threads::communicator& communicator) {
    int const rank = communicator.rank();
    make(std::move(communicator),
         [&](auto const& layer) { run_attention_rank(layer, rank, ranks, problem, out); });
  });
  return out;
}

/// `decorate` makes a rank's communicator from one of threads.
template <class Decorate>
context_outcome attend_on(int ranks, context_parallel::method method,
                          context_problem const& problem, Decorate const& decorate) {
  return attend_with(ranks, problem,
                     [&](parallel::threads::communicator communicator, auto const& run_layer) {
                       parallel::any_communicator comm(decorate(std::move(communicator)));
                       parallel::host::stream exchanges, return_exchanges;
                       run_layer(ring_attention{.ranks = {comm, exchanges, return_exchanges},
                                                .method = method,
                                                .heads = problem.heads,
                                                .window = problem.window});
                     });
}
inline context_outcome attend_on(int ranks, context_parallel::method method,
                                 context_problem const& problem) {
  return attend_on(ranks, method, problem,
                   [](parallel::threads::communicator comm) { return comm; });
}

/// The results of a single rank that holds all rows.
inline context_outcome attend_single_rank(context_problem const& problem) {
  return attend_with(1, problem,
                     [&](parallel::threads::communicator const&, auto const& run_layer) {
                       run_layer(ring_attention{.heads = problem.heads, .window = problem.window});
                     });
}

/// The bytes that rank `rank` of `ranks` would send along the axis, as the meta device counts them.
inline std::uint64_t planned_bytes(int rank, int ranks, context_parallel::method method,
                                   context_problem const& problem) {
  parallel::meta::stream compute;
  parallel::arena memory;
  context_parallel::sequence_partition const partition(rank, ranks, problem.length);
  context<parallel::meta::stream> c{.stream = compute,
                                    .memory = memory,
                                    .sequence = partition.length(),
                                    .share = partition.share()};
  ring_attention const layer{.ranks = ring_attention::group::planned(rank, ranks),
                             .method = method,
                             .heads = problem.heads,
                             .window = problem.window};
  ring_attention::saved state;
  matrix_view<ring const> const rows(nullptr,
                                     {problem.sequences * partition.length(), problem.width});
  static_cast<void>(layer.forward(c, rows, state));
  static_cast<void>(layer.backward_input(c, rows, state));
  auto const exchanges = compute.exchanges();
  return exchanges.contains("context") ? exchanges.at("context") : 0;
}

/// The bytes that rank 0 really sends.
inline std::uint64_t sent_bytes(int ranks, context_parallel::method method,
                                context_problem const& problem) {
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  static_cast<void>(
      attend_on(ranks, method, problem, [&](parallel::threads::communicator communicator) {
        bool const is_recording = communicator.rank() == 0;
        return parallel::recorded(
            std::move(communicator),
            is_recording ? recorder : std::make_shared<parallel::flight_recorder>());
      }));
  std::uint64_t sum = 0;
  for (auto const& [name, total] : recorder->totals()) sum += total.sent;
  return sum;
}

/// Breaks every call of every rank in each way, one at a time, and counts the mutants and those
/// that still gave the right result.
struct mutation_count {
  int survivors = 0;
  int mutants = 0;
};
inline mutation_count mutate(int ranks, context_parallel::method method,
                             context_problem const& problem) {
  auto const expected = attend_single_rank(problem);
  mutation_count out;
  std::uint64_t calls = 1;
  for (std::uint64_t k = 0; k < calls; ++k)
    for (auto const kind :
         {parallel::fault_kind::drop, parallel::fault_kind::twice, parallel::fault_kind::divide})
      for (int broken_rank = 0; broken_rank < ranks; ++broken_rank) {
        auto const result = attend_with(
            ranks, problem,
            [&](parallel::threads::communicator communicator, auto const& run_layer) {
              parallel::fault const no_fault;
              parallel::fault const fault{.call = k, .kind = kind};
              using faulty = parallel::faulty<parallel::threads::communicator>;
              bool const is_broken = communicator.rank() == broken_rank;
              faulty comm(std::move(communicator), is_broken ? fault : no_fault);
              parallel::host::stream exchanges, return_exchanges;
              run_layer(basic_ring_attention<faulty>{.ranks = {comm, exchanges, return_exchanges},
                                                     .method = method,
                                                     .heads = problem.heads,
                                                     .window = problem.window});
              if (is_broken) calls = comm.calls();
            });
        ++out.mutants;
        if (result == expected) ++out.survivors;
      }
  return out;
}

/// Checks that a pass over rows that no rank has divided is refused before anything is sent.
inline void check_undivided_rows_refused(context_parallel::method method) {
  parallel::meta::stream stream;
  parallel::arena memory;
  context<parallel::meta::stream> c{.stream = stream, .memory = memory, .sequence = 24};
  ring_attention const layer{
      .ranks = ring_attention::group::planned(1, 2), .method = method, .heads = 2};
  ring_attention::saved state;
  CHECK_THROWS_WITH_AS(
      static_cast<void>(layer.forward(c, {nullptr, {24, 8}}, state)),
      "context: a pass has 24 rows of each sequence of 24, but rank 1 of 2 holds 12; divide the "
      "batch with context_parallel::sequence_partition, and give the pass its share",
      parallel::error);
  CHECK(stream.exchanges().empty());
}

}  // namespace test
