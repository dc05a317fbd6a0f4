// Ranks are threads here, each with connections of its own, as processes have them.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/gloo/communicator.hpp>

#include "parallel/comm/suite.hpp"
#include "parallel/comm/traffic.hpp"
#include "parallel/comm/tree.hpp"

namespace gloo_test {

namespace gloo = parallel::gloo;  // and not the library's own
using parallel::any_communicator;
using parallel::checked;
using parallel::concat;
using namespace std::chrono_literals;
using namespace test::comm_suite;

inline bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// A folder that is gone with this.
struct meeting_place {
  meeting_place() {
    std::string name = (std::filesystem::temp_directory_path() / "gloo_test.XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder = name;
  }
  ~meeting_place() { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
};

/// Calls f(options) for each rank in a thread of its own; rethrows what the first of them threw.
template <class F>
void run(int ranks, F f, gloo::communicator_options options = {}) {
  meeting_place const place;
  options.ranks = ranks;
  options.rendezvous = place.folder;
  std::mutex mutex;
  std::exception_ptr thrown;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto mine = options;
      mine.rank = rank;
      try {
        f(mine);
      } catch (...) {
        std::scoped_lock const lock(mutex);
        if (!thrown) thrown = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

TEST_CASE("gloo gives the bits of the serial reference, in many pieces and in one") {
  for (int const ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run(ranks, [&](gloo::communicator_options options) {
      options.piece_bytes = 1000;
      gloo::communicator comm(options);
      check_all(comm);
    }));
  }
  CHECK_NOTHROW(run(4, [](auto const& options) {
    any_communicator erased{checked{any_communicator{gloo::communicator{options}}}};
    check_all(erased);
  }));
}

TEST_CASE("gloo counts the bytes of its messages, and sums by the tree") {
  CHECK_NOTHROW(run(3, [](gloo::communicator_options options) {
    options.piece_bytes = 8;
    test::comm_traffic::check_traffic(gloo::communicator{options});
  }));
  CHECK_NOTHROW(run(4, [](gloo::communicator_options options) {
    options.piece_bytes = 100;
    test::comm_tree::check_tree(gloo::communicator{options});
  }));
}

TEST_CASE("abort and deadline reach gloo ranks in a part, in messages and in all_to_all") {
  for (auto const how : all_waits) {
    CAPTURE(static_cast<int>(how));
    CHECK_NOTHROW(
        run(3, [&](auto const& options) { check_abort(gloo::communicator(options), how); }));
    CHECK_NOTHROW(run(
        3, [&](auto const& options) { check_abort(checked(gloo::communicator(options)), how); }));
    CHECK_NOTHROW(
        run(3, [&](auto const& options) { check_reason(gloo::communicator(options), how); }));
    CHECK_NOTHROW(run(
        3, [&](auto const& options) { check_deadline(gloo::communicator(options), how, "0.5"); },
        {.deadline = 500ms}));
  }
}

}  // namespace gloo_test
