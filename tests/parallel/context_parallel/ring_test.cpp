// Ring attention with exact integers: any number of ranks gives the bits of one, and every message
// that is dropped, doubled or divided changes the result. The order of events shows the overlap:
// computation is held until a message has passed, and vice versa.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/context_parallel/ring.hpp>

#include "support/context_run.hpp"
#include "support/trace.hpp"

namespace ring_test {

using namespace parallel;
using parallel::index;
using namespace std::chrono_literals;
using context_parallel::method;
using context_parallel::run;
using test::attend_on;
using test::attend_single_rank;
using test::context_problem;

std::vector<context_problem> problems(int ranks) {
  index const chunk_count = 2 * ranks;
  return {{.length = 3 * chunk_count},
          {.sequences = 1, .length = chunk_count, .width = 3, .heads = 1},
          {.sequences = 2, .length = 2 * chunk_count, .window = 0},
          {.sequences = 2, .length = 4 * chunk_count, .window = 5},
          {.sequences = 4, .length = 3 * chunk_count, .document = 4},
          {.sequences = 2, .length = 5 * chunk_count, .window = 9, .document = 17}};
}

/// A layer that uses the ring for any number of ranks, with a given core.
template <class Comm, class Core = test::ring_attention_core>
struct through_the_ring : test::basic_ring_attention<Comm> {
  struct saved {
    Core core;
  };
  Core core = {};

  template <class Stream>
  matrix_view<test::ring> forward(context<Stream>& c, matrix_view<test::ring const> x,
                                  saved& state) const {
    state.core = core;
    state.core.x = x;
    return this->forward_by_ring(c, state.core);
  }
  template <class Stream>
  matrix_view<test::ring> backward_input(context<Stream>& c, matrix_view<test::ring const> dy,
                                         saved& state) const {
    state.core.dy = dy;
    return this->backward_by_ring(c, state.core);
  }
};

TEST_CASE("ring attention: any number of ranks gives the bits of one rank") {
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (auto const& problem : problems(ranks)) {
      CAPTURE(ranks);
      CAPTURE(problem.length);
      CAPTURE(problem.window);
      CAPTURE(problem.document);
      auto const single = attend_single_rank(problem);
      CHECK(attend_on(ranks, method::ring, problem) == single);
    }
}

TEST_CASE("ring attention: a ring of one rank needs no message") {
  for (auto const& problem : problems(1)) {
    auto const actual =
        test::attend_with(1, problem, [&](threads::communicator const&, auto const& run_layer) {
          through_the_ring<any_communicator> layer;
          layer.core = {.heads = problem.heads, .reach = problem.window};
          run_layer(layer);
        });
    CHECK(actual == attend_single_rank(problem));
  }
}

/// The number of distances along the ring at which a query sees a key, counted by position.
std::uint64_t distances(int ranks, context_problem const& problem) {
  auto const owner = [&](index position) {
    auto const chunk = static_cast<int>(position / (problem.length / (2 * ranks)));
    return std::min(chunk, 2 * ranks - 1 - chunk);
  };
  std::set<int> out;
  for (index query = 0; query < problem.length; ++query)
    for (index key = problem.window < 0 ? 0 : std::max<index>(0, query - problem.window);
         key <= query; ++key)
      out.insert((owner(query) + ranks - owner(key)) % ranks);
  return out.size();
}

TEST_CASE("ring attention: bytes sent are those of the formula and of the meta device") {
  std::set<std::uint64_t> distance_counts;
  for (int const ranks : {2, 3, 5})
    for (auto const& problem : problems(ranks)) {
      auto const keys = static_cast<std::uint64_t>(problem.sequences * problem.length / ranks *
                                                   problem.width * index{sizeof(test::ring)});
      auto const m = distances(ranks, problem);
      distance_counts.insert(m);
      // forward (m-1) keys; backward (m-1) keys and m gradients
      auto const formula = m == 1 ? 0 : 2 * (m - 1) * keys + m * keys;
      CHECK(test::sent_bytes(ranks, method::ring, problem) == formula);
      for (int rank = 0; rank < ranks; ++rank)
        CHECK(test::planned_bytes(rank, ranks, method::ring, problem) == formula);
    }
  CHECK(distance_counts == std::set<std::uint64_t>{1, 2, 3, 5});  // windows save some distances
}

TEST_CASE("ring attention: every dropped, doubled or divided message changes the result") {
  for (int const ranks : {2, 3}) {
    // some query of every later rank sees every chunk of keys, so each message matters
    auto const result = test::mutate(ranks, method::ring, {.sequences = 2, .length = 4 * ranks});
    CHECK(result.mutants == 3 * ranks * 2 * (2 * (ranks - 1) + ranks));
    MESSAGE(result.mutants << " mutants, " << result.survivors << " unnoticed");
    CHECK(result.survivors == 0);
  }
  // five ranks, where the distances two and three are skipped
  auto const result = test::mutate(5, method::ring, {.sequences = 1, .length = 20, .window = 2});
  CHECK(result.mutants == 3 * 5 * 2 * (2 * 2 + 3));
  // Rank 4 receives the keys of rank 0 last, only to forward them: it sees none of them, so
  // breaking that message (each way, sent or received, in either pass) changes nothing.
  CHECK(result.survivors == 3 * 2 * 2);
}

TEST_CASE("ring attention: a pass over undivided rows is refused before anything is sent") {
  test::check_undivided_rows_refused(method::ring);
}

TEST_CASE("ring attention: random delays change nothing") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    context_problem const problem{.length = 24, .window = 15};
    test::trace log;
    auto const actual = attend_on(3, method::ring, problem, [&](threads::communicator comm) {
      philox const random(seed, static_cast<std::uint32_t>(comm.rank()));
      return test::delayed(std::move(comm), log, [random](int k) {
        std::this_thread::sleep_for(std::chrono::microseconds(
            random.bits(static_cast<std::uint64_t>(k)) % 3 * (random.bits(0) % 700)));
      });
    });
    CHECK(actual == attend_single_rank(problem));
  }
}

/// Logs when it works on received keys and when on its own; then calls `hold`.
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
  void mark(context<Stream>& c, std::string const& problem) {
    c.stream.enqueue([this, problem] {
      log->add(problem);
      hold(problem);
    });
  }
};

/// Two ranks; the calls of each are: keys sent (0) and received (1) in the forward pass; in the
/// backward pass keys (2 and 3), the gradients of the other's keys (4 and 5) and of its own (6, 7).
void trace_ring(std::function<void(test::trace&, std::string const&)> const& hold_compute,
                std::function<void(test::trace&, int)> const& hold_message,
                std::function<void(test::trace&)> const& check) {
  context_problem const problem{.length = 8};
  auto const actual =
      test::attend_with(2, problem, [&](threads::communicator inner, auto const& run_layer) {
        test::trace log;
        using slow = test::delayed<threads::communicator>;
        slow comm(std::move(inner), log, [&](int k) { hold_message(log, k); });
        host::stream exchanges, second_stream;
        through_the_ring<slow, traced_core> layer;
        layer.ranks = {comm, exchanges, second_stream};
        layer.core.heads = problem.heads;
        layer.core.log = &log;
        layer.core.hold = [&](std::string const& event) { hold_compute(log, event); };
        run_layer(layer);
        check(log);
      });
  CHECK(actual == attend_single_rank(problem));
}

TEST_CASE("ring attention: messages pass while local pairs are computed") {
  trace_ring(
      [](test::trace& log, std::string const& event) {
        // the computation waits for the message that can overlap with it
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

TEST_CASE("ring attention: pairs are computed while messages are in transit") {
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
