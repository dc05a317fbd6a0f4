// Ring attention with exact integers: any number of ranks gives the bits of one, and a message that
// is dropped, doubled or divided does not go unnoticed. Overlap is shown by the order of events:
// computation is held until a message has passed, and the other way round.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/context/ring.hpp>

#include "support/context_run.hpp"
#include "support/trace.hpp"

namespace ring_test {

using namespace parallel;
using parallel::index;
using namespace std::chrono_literals;
using context_parallel::method;
using context_parallel::run;
using test::attend_alone;
using test::attend_on;
using test::context_problem;

std::vector<context_problem> problems(int ranks) {
  index const even = 2 * ranks;
  return {{.whole = 3 * even},
          {.sequences = 1, .whole = even, .width = 3, .heads = 1},
          {.sequences = 2, .whole = 2 * even, .window = 0},
          {.sequences = 2, .whole = 4 * even, .window = 5},
          {.sequences = 4, .whole = 3 * even, .document = 4},
          {.sequences = 2, .whole = 5 * even, .window = 9, .document = 17}};
}

/// A layer that takes the ring's way whatever the number of ranks, with some other core.
template <class Comm, class Core = test::ring_attention_core>
struct through_the_ring : test::basic_ring_attention<Comm> {
  struct saved {
    Core core;
  };
  Core core = {};

  template <class Stream>
  matrix_view<test::ring> forward(context<Stream>& c, matrix_view<test::ring const> x,
                                  saved& kept) const {
    kept.core = core;
    kept.core.x = x;
    return this->forward_by_ring(c, kept.core);
  }
  template <class Stream>
  matrix_view<test::ring> backward_input(context<Stream>& c, matrix_view<test::ring const> dy,
                                         saved& kept) const {
    kept.core.dy = dy;
    return this->backward_by_ring(c, kept.core);
  }
};

TEST_CASE("any number of ranks computes what one computes, bit for bit") {
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (auto const& what : problems(ranks)) {
      CAPTURE(ranks);
      CAPTURE(what.whole);
      CAPTURE(what.window);
      CAPTURE(what.document);
      auto const alone = attend_alone(what);
      CHECK(attend_on(ranks, method::ring, what) == alone);
    }
}

TEST_CASE("a ring of one rank needs no message") {
  for (auto const& what : problems(1)) {
    auto const got =
        test::attend_with(1, what, [&](threads::communicator const&, auto const& run_layer) {
          through_the_ring<any_communicator> layer;
          layer.core = {.heads = what.heads, .reach = what.window};
          run_layer(layer);
        });
    CHECK(got == attend_alone(what));
  }
}

/// At how many distances along the ring some query sees some key, position by position.
std::uint64_t distances(int ranks, context_problem const& what) {
  auto const owner = [&](index position) {
    auto const chunk = static_cast<int>(position / (what.whole / (2 * ranks)));
    return std::min(chunk, 2 * ranks - 1 - chunk);
  };
  std::set<int> out;
  for (index query = 0; query < what.whole; ++query)
    for (index key = what.window < 0 ? 0 : std::max<index>(0, query - what.window); key <= query;
         ++key)
      out.insert((owner(query) + ranks - owner(key)) % ranks);
  return out.size();
}

TEST_CASE("bytes sent are those of the formula, and what the meta device counts") {
  std::set<std::uint64_t> seen;
  for (int const ranks : {2, 3, 5})
    for (auto const& what : problems(ranks)) {
      auto const keys = static_cast<std::uint64_t>(what.sequences * what.whole / ranks *
                                                   what.width * index{sizeof(test::ring)});
      auto const m = distances(ranks, what);
      seen.insert(m);
      // forward (m-1) keys; backward (m-1) keys and m gradients
      auto const formula = m == 1 ? 0 : 2 * (m - 1) * keys + m * keys;
      CHECK(test::sent_bytes(ranks, method::ring, what) == formula);
      for (int rank = 0; rank < ranks; ++rank)
        CHECK(test::planned_bytes(rank, ranks, method::ring, what) == formula);
    }
  CHECK(seen == std::set<std::uint64_t>{1, 2, 3, 5});  // windows spare some
}

TEST_CASE("every dropped, doubled or divided message changes the result") {
  for (int const ranks : {2, 3}) {
    // every chunk of keys is seen by some query of every rank behind it, so each message matters
    auto const count = test::mutate(ranks, method::ring, {.sequences = 2, .whole = 4 * ranks});
    CHECK(count.mutants == 3 * ranks * 2 * (2 * (ranks - 1) + ranks));
    MESSAGE(count.mutants << " mutants, " << count.survivors << " unnoticed");
    CHECK(count.survivors == 0);
  }
  // five ranks, of which those at a distance of two and three are passed over
  auto const count = test::mutate(5, method::ring, {.sequences = 1, .whole = 20, .window = 2});
  CHECK(count.mutants == 3 * 5 * 2 * (2 * 2 + 3));
  // Rank 4 receives the keys of rank 0 last, for the others' sake alone: it sees none of them, so
  // each way to break them, sent or received, in either pass, changes nothing.
  CHECK(count.survivors == 3 * 2 * 2);
}

TEST_CASE("a pass over rows that were not divided is refused before anything is sent") {
  meta::stream stream;
  arena memory;
  context<meta::stream> c{.stream = stream, .memory = memory, .sequence = 24};
  test::ring_attention const layer{
      .ranks = test::ring_attention::group::planned(1, 2), .method = method::ring, .heads = 2};
  test::ring_attention::saved kept;
  CHECK_THROWS_WITH_AS(
      static_cast<void>(layer.forward(c, {nullptr, {24, 8}}, kept)),
      "context: a pass has 24 rows of each sequence of 24, but rank 1 of 2 holds 12; divide the "
      "batch with context_parallel::sequence_partition, and give the pass its share",
      error);
  CHECK(stream.exchanges().empty());
}

TEST_CASE("random delays change nothing") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    context_problem const what{.whole = 24, .window = 15};
    test::trace log;
    auto const got = attend_on(3, method::ring, what, [&](threads::communicator own) {
      philox const random(seed, static_cast<std::uint32_t>(own.rank()));
      return test::delayed(std::move(own), log, [random](int k) {
        std::this_thread::sleep_for(std::chrono::microseconds(
            random.bits(static_cast<std::uint64_t>(k)) % 3 * (random.bits(0) % 700)));
      });
    });
    CHECK(got == attend_alone(what));
  }
}

/// Tells when it works on keys that came from afar, and when on its own; `hold` is called before.
struct traced_core : test::ring_attention_core {
  test::trace* log = nullptr;
  std::function<void(std::string const&)> hold = {};

  template <class Stream>
  void forward(context<Stream>& c, run const& q, run const& k, matrix_view<test::ring const> rows) {
    mark(c, concat("forward on ", rows.data() == x.data() ? "own" : "other", " begins"));
    ring_attention_core::forward(c, q, k, rows);
    mark(c, concat("forward on ", rows.data() == x.data() ? "own" : "other", " ends"));
  }
  template <class Stream>
  void backward(context<Stream>& c, run const& q, run const& k, matrix_view<test::ring const> rows,
                matrix_view<test::ring> d_rows) {
    mark(c, concat("backward on ", rows.data() == x.data() ? "own" : "other", " begins"));
    ring_attention_core::backward(c, q, k, rows, d_rows);
    mark(c, concat("backward on ", rows.data() == x.data() ? "own" : "other", " ends"));
  }
  template <class Stream>
  void mark(context<Stream>& c, std::string const& what) {
    c.stream.enqueue([this, what] {
      log->add(what);
      hold(what);
    });
  }
};

/// Two ranks; the calls of each are: keys sent 0 and received 1 in the forward pass, keys 2 and 3,
/// the gradients of the other's keys 4 and 5, and those of its own 6 and 7 in the backward pass.
void trace_ring(std::function<void(test::trace&, std::string const&)> const& hold_compute,
                std::function<void(test::trace&, int)> const& hold_message,
                std::function<void(test::trace&)> const& check) {
  context_problem const what{.whole = 8};
  auto const got =
      test::attend_with(2, what, [&](threads::communicator own, auto const& run_layer) {
        test::trace log;
        using slow = test::delayed<threads::communicator>;
        slow comm(std::move(own), log, [&](int k) { hold_message(log, k); });
        host::stream exchanges, back;
        through_the_ring<slow, traced_core> layer;
        layer.ranks = {comm, exchanges, back};
        layer.core.heads = what.heads;
        layer.core.log = &log;
        layer.core.hold = [&](std::string const& event) { hold_compute(log, event); };
        run_layer(layer);
        check(log);
      });
  CHECK(got == attend_alone(what));
}

TEST_CASE("messages pass while the pairs that are here are computed") {
  trace_ring(
      [](test::trace& log, std::string const& event) {
        // what is computed waits for what could be hidden behind it
        if (event == "forward on own begins") CHECK(log.await("collective 1 ends", 60s));
        if (event == "backward on own begins") CHECK(log.await("collective 3 ends", 60s));
        if (event == "backward on other begins") CHECK(log.await("collective 5 ends", 60s));
      },
      [](test::trace&, int) {},
      [](test::trace& log) {
        CHECK(log.in_order("collective 1 ends", "forward on own ends"));
        CHECK(log.in_order("collective 3 ends", "backward on own ends"));
        CHECK(log.in_order("collective 5 ends", "backward on other ends"));
      });
}

TEST_CASE("pairs are computed while messages are on their way") {
  trace_ring([](test::trace&, std::string const&) {},
             [](test::trace& log, int k) {
               if (k == 1) CHECK(log.await("forward on own ends", 60s));
               if (k == 3) CHECK(log.await("backward on own ends", 60s));
               if (k == 5) CHECK(log.await("backward on other ends", 60s));
             },
             [](test::trace& log) {
               CHECK(log.in_order("forward on own ends", "collective 1 ends"));
               CHECK(log.in_order("backward on own ends", "collective 3 ends"));
               CHECK(log.in_order("backward on other ends", "collective 5 ends"));
             });
}

}  // namespace ring_test
