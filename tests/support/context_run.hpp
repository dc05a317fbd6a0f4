// Exact attention of whole sequences by some ranks that hold parts of them, and what came out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/faulty.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>

#include "support/ring_attention.hpp"

namespace test {

struct context_problem {
  index sequences = 3;
  index whole = 24;  // positions of a sequence
  index width = 8;
  index heads = 2;
  index window = -1;
  index document = 0;  // greatest length of a document; 0: one a sequence

  [[nodiscard]] std::vector<std::int32_t> documents() const {
    std::vector<std::int32_t> out;
    parallel::philox const random(5, 1);
    if (document > 0)
      for (index i = 0, begin = 0, end = 0; i < sequences * whole; ++i) {
        index const at = i % whole;
        if (at == 0 || at == end) {
          begin = at;
          end = at + 1 + static_cast<index>(random.bits(static_cast<std::uint64_t>(i))) % document;
        }
        out.push_back(static_cast<std::int32_t>(begin));
      }
    return out;
  }
  [[nodiscard]] std::vector<ring> rows(std::uint64_t seed) const {
    parallel::philox const random(seed, 2);
    std::vector<ring> out(static_cast<std::size_t>(sequences * whole * width));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = random.bits(2 * i) * std::uint64_t{0x100000001} ^ random.bits(2 * i + 1);
    return out;
  }
};

/// y and dx of all rows, in their order.
struct context_outcome {
  std::vector<ring> y, dx;
  friend bool operator==(context_outcome const&, context_outcome const&) = default;
};

/// Which of all rows are here.
[[nodiscard]] inline std::vector<index> rows_of(context_problem const& what,
                                                context_parallel::sequence_partition const& part) {
  std::vector<index> all(static_cast<std::size_t>(what.sequences * what.whole));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<index>(i);
  return part.pick(std::span<index const>(all));
}

/// One rank's attention and its gradient; what it holds is written to `out`. Inputs, arena and
/// results are poisoned with other numbers on every rank.
template <class Layer>
void attend_here(Layer const& layer, int rank, int ranks, context_problem const& what,
                 context_outcome& out) {
  parallel::host::device device;
  parallel::host::stream compute;
  auto const storage = device.allocate<std::byte>(std::size_t{4} << 20);
  std::fill_n(storage.data(), storage.size(), static_cast<std::byte>(0x55 + rank));
  parallel::arena memory(storage);
  auto const documents = what.documents();
  context_parallel::sequence_partition const part(rank, ranks, what.whole);
  auto const held = rows_of(what, part);
  auto const pick = [&](std::vector<ring> const& all) {
    std::vector<ring> some;
    for (index const row : held)
      some.insert(some.end(), all.begin() + row * what.width, all.begin() + (row + 1) * what.width);
    return some;
  };
  auto const x = pick(what.rows(3));
  auto const dy = pick(what.rows(4));
  parallel::shape<2> const extents{std::ssize(held), what.width};
  context<parallel::host::stream> c{.stream = compute,
                                    .memory = memory,
                                    .sequence = part.length(),
                                    .share = part.share(),
                                    .document_begins = documents};
  typename Layer::saved kept;
  auto const y = layer.forward(c, matrix_view<ring const>(x.data(), extents), kept);
  auto const dx = layer.backward_input(c, matrix_view<ring const>(dy.data(), extents), kept);
  compute.synchronize();
  for (std::size_t i = 0; i < held.size(); ++i) {  // ranks write to different rows
    auto const from = static_cast<index>(i) * what.width;
    std::copy_n(y.data() + from, what.width, out.y.begin() + held[i] * what.width);
    std::copy_n(dx.data() + from, what.width, out.dx.begin() + held[i] * what.width);
  }
}

/// make(communicator of a rank, its two streams) is the rank's layer.
template <class Make>
context_outcome attend_with(int ranks, context_problem const& what, Make const& make) {
  auto const size = static_cast<std::size_t>(what.sequences * what.whole * what.width);
  context_outcome out{std::vector<ring>(size), std::vector<ring>(size)};
  parallel::threads::run(ranks, [&](parallel::threads::communicator& own) {
    int const rank = own.rank();
    make(std::move(own), [&](auto const& layer) { attend_here(layer, rank, ranks, what, out); });
  });
  return out;
}

/// `decorate` makes the communicator of a rank of that of threads.
template <class Decorate>
context_outcome attend_on(int ranks, context_parallel::method method, context_problem const& what,
                          Decorate const& decorate) {
  return attend_with(ranks, what, [&](parallel::threads::communicator own, auto const& run_layer) {
    parallel::any_communicator comm(decorate(std::move(own)));
    parallel::host::stream exchanges, back;
    run_layer(ring_attention{.ranks = {comm, exchanges, back},
                             .method = method,
                             .heads = what.heads,
                             .window = what.window});
  });
}
inline context_outcome attend_on(int ranks, context_parallel::method method,
                                 context_problem const& what) {
  return attend_on(ranks, method, what, [](parallel::threads::communicator own) { return own; });
}

/// What one rank that holds everything computes.
inline context_outcome attend_alone(context_problem const& what) {
  return attend_with(1, what, [&](parallel::threads::communicator const&, auto const& run_layer) {
    run_layer(ring_attention{.heads = what.heads, .window = what.window});
  });
}

/// Bytes that rank `rank` of `ranks` would send along the axis, as the meta device counts.
inline std::uint64_t planned_bytes(int rank, int ranks, context_parallel::method method,
                                   context_problem const& what) {
  parallel::meta::stream compute;
  parallel::arena memory;
  context_parallel::sequence_partition const part(rank, ranks, what.whole);
  context<parallel::meta::stream> c{
      .stream = compute, .memory = memory, .sequence = part.length(), .share = part.share()};
  ring_attention const layer{.ranks = ring_attention::group::planned(rank, ranks),
                             .method = method,
                             .heads = what.heads,
                             .window = what.window};
  ring_attention::saved kept;
  matrix_view<ring const> const rows(nullptr, {what.sequences * part.length(), what.width});
  static_cast<void>(layer.forward(c, rows, kept));
  static_cast<void>(layer.backward_input(c, rows, kept));
  auto const exchanges = compute.exchanges();
  return exchanges.contains("context") ? exchanges.at("context") : 0;
}

/// Bytes that rank 0 really sends.
inline std::uint64_t sent_bytes(int ranks, context_parallel::method method,
                                context_problem const& what) {
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  static_cast<void>(attend_on(ranks, method, what, [&](parallel::threads::communicator own) {
    bool const counts = own.rank() == 0;
    return parallel::recorded(std::move(own),
                              counts ? recorder : std::make_shared<parallel::flight_recorder>());
  }));
  std::uint64_t sum = 0;
  for (auto const& [name, total] : recorder->totals()) sum += total.sent;
  return sum;
}

/// Every call of every rank, broken in each way, one at a time: how many mutants gave the sound
/// result, and how many there were.
struct mutation_count {
  int survivors = 0;
  int mutants = 0;
};
inline mutation_count mutate(int ranks, context_parallel::method method,
                             context_problem const& what) {
  auto const sound = attend_alone(what);
  mutation_count out;
  std::uint64_t calls = 1;
  for (std::uint64_t k = 0; k < calls; ++k)
    for (auto const kind :
         {parallel::fault_kind::drop, parallel::fault_kind::twice, parallel::fault_kind::divide})
      for (int broken = 0; broken < ranks; ++broken) {
        auto const got = attend_with(
            ranks, what, [&](parallel::threads::communicator own, auto const& run_layer) {
              parallel::fault const none;
              parallel::fault const one{.at = k, .kind = kind};
              using faulty = parallel::faulty<parallel::threads::communicator>;
              bool const mine = own.rank() == broken;
              faulty comm(std::move(own), mine ? one : none);
              parallel::host::stream exchanges, back;
              run_layer(basic_ring_attention<faulty>{.ranks = {comm, exchanges, back},
                                                     .method = method,
                                                     .heads = what.heads,
                                                     .window = what.window});
              if (mine) calls = comm.calls();
            });
        ++out.mutants;
        if (got == sound) ++out.survivors;
      }
  return out;
}

}  // namespace test
