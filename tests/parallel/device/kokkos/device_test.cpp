// kokkos::device conforms to the laws; its errors if Kokkos is not initialised.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/conformance/device.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/device/kokkos/device.hpp>
#include <parallel/ops/kokkos.hpp>

#include "support/devices/kokkos.hpp"

namespace kokkos_device_test {

namespace kokkos = parallel::kokkos;

static_assert(parallel::device<kokkos::device>);
static_assert(parallel::task_stream<kokkos::stream>);

TEST_CASE("kokkos::stream: throws before Kokkos is initialised") {  // must be first in this file
  REQUIRE_FALSE(Kokkos::is_initialized());
  CHECK_THROWS_WITH_AS(
      kokkos::stream(),
      "a stream of Kokkos needs a kokkos::scope, or Kokkos initialised otherwise, before it",
      parallel::error);
}

TEST_CASE("kokkos::device: conforms to the laws") {
  test::ensure_kokkos();
  kokkos::device device;
  parallel::conformance::check_device(device);
}

TEST_CASE("kokkos::stream: every part is computed once, before the task ends") {
  test::ensure_kokkos();
  constexpr parallel::index parts = 1000;
  std::vector<std::atomic<int>> times(parts);
  kokkos::stream s;
  s.enqueue([&] {
    kokkos::stream::for_each_part(
        "test", parts, [data = times.data()](parallel::index part) { data[part].fetch_add(1); });
  });
  s.synchronize();
  for (auto const& count : times) CHECK(count == 1);
}

TEST_CASE("kokkos::stream: parts run concurrently if Kokkos has threads") {
  test::ensure_kokkos();
  if (kokkos::execution_space().concurrency() < 2) return;
  std::atomic<int> begun = 0, alone = 0;
  kokkos::stream s;
  s.enqueue([&] {
    kokkos::stream::for_each_part("test", 2, [&](parallel::index) {
      begun.fetch_add(1);
      auto const latest = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (begun.load() < 2 && std::chrono::steady_clock::now() < latest)
        std::this_thread::yield();
      if (begun.load() < 2) alone.fetch_add(1);
    });
  });
  s.synchronize();
  CHECK(alone == 0);
}

TEST_CASE("kokkos::stream: many streams compute at the same time") {
  test::ensure_kokkos();
  constexpr parallel::index streams = 4, tasks = 50, parts = 100;
  std::vector<std::atomic<parallel::index>> computed(streams);
  {
    std::vector<kokkos::stream> kokkos_streams(streams);
    for (parallel::index task = 0; task < tasks; ++task)
      for (parallel::index i = 0; i < streams; ++i)
        kokkos_streams[i].enqueue([&count = computed[i]] {
          kokkos::stream::for_each_part("test", parts,
                                        [&](parallel::index) { count.fetch_add(1); });
        });
    for (auto& s : kokkos_streams) s.synchronize();
  }
  for (auto const& count : computed) CHECK(count == tasks * parts);
}

TEST_CASE("kokkos::scope: runs the work of many threads on its own thread, one after another") {
  test::ensure_kokkos();
  auto& scope = *kokkos::scope::current();
  std::thread::id scope_thread;
  scope.run([&] { scope_thread = std::this_thread::get_id(); });
  CHECK(scope_thread != std::this_thread::get_id());
  int run_count = 0, strangers = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i)
          scope.run([&] {
            if (std::this_thread::get_id() != scope_thread) ++strangers;
            ++run_count;
          });
      });
  }
  CHECK(run_count == 400);
  CHECK(strangers == 0);
  CHECK_THROWS_WITH_AS(scope.run([] { throw parallel::error("this part fails"); }),
                       "this part fails", parallel::error);
  scope.run([&] { ++run_count; });
  CHECK(run_count == 401);
}

TEST_CASE("kokkos::scope: Kokkos is initialised only once") {
  test::ensure_kokkos();
  CHECK_THROWS_WITH_AS(kokkos::scope(), "a kokkos::scope initialises Kokkos, which is initialised",
                       parallel::error);
}

}  // namespace kokkos_device_test
