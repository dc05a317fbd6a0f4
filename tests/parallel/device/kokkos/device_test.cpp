// The laws of devices on Kokkos's, and what it says where Kokkos was not initialised.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/conformance/device.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/device/kokkos/device.hpp>
#include <parallel/ops/kokkos.hpp>

#include "support/kokkos.hpp"

namespace kokkos_device_test {

namespace kokkos = parallel::kokkos;

static_assert(parallel::device<kokkos::device>);
static_assert(parallel::task_stream<kokkos::stream>);

TEST_CASE("a stream is refused before Kokkos is initialised") {  // comes first in this file
  REQUIRE_FALSE(Kokkos::is_initialized());
  CHECK_THROWS_WITH_AS(
      kokkos::stream(),
      "a stream of Kokkos needs a kokkos::scope, or Kokkos initialised otherwise, before it",
      parallel::error);
}

TEST_CASE("the laws of devices on Kokkos's") {
  test::with_kokkos();
  kokkos::device device;
  parallel::conformance::check_device(device);
}

TEST_CASE("every part is computed once, and all when the task is over") {
  test::with_kokkos();
  constexpr parallel::index parts = 1000;
  std::vector<std::atomic<int>> times(parts);
  kokkos::stream s;
  s.enqueue([&] {
    kokkos::stream::for_each_part(
        "test", parts, [data = times.data()](parallel::index part) { data[part].fetch_add(1); });
  });
  s.synchronize();
  for (auto const& each : times) CHECK(each == 1);
}

TEST_CASE("parts are computed at once where Kokkos has threads") {
  test::with_kokkos();
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

TEST_CASE("many streams compute by Kokkos at once") {
  test::with_kokkos();
  constexpr parallel::index streams = 4, tasks = 50, parts = 100;
  std::vector<std::atomic<parallel::index>> computed(streams);
  {
    std::vector<kokkos::stream> all(streams);
    for (parallel::index task = 0; task < tasks; ++task)
      for (parallel::index i = 0; i < streams; ++i)
        all[i].enqueue([&count = computed[i]] {
          kokkos::stream::for_each_part("test", parts,
                                        [&](parallel::index) { count.fetch_add(1); });
        });
    for (auto& s : all) s.synchronize();
  }
  for (auto const& each : computed) CHECK(each == tasks * parts);
}

TEST_CASE("a scope runs what many threads want on its own, one after another") {
  test::with_kokkos();
  auto& scope = *kokkos::scope::current();
  std::thread::id own;
  scope.run([&] { own = std::this_thread::get_id(); });
  CHECK(own != std::this_thread::get_id());
  int done = 0, strangers = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i)
          scope.run([&] {
            if (std::this_thread::get_id() != own) ++strangers;
            ++done;
          });
      });
  }
  CHECK(done == 400);
  CHECK(strangers == 0);
  CHECK_THROWS_WITH_AS(scope.run([] { throw parallel::error("this part fails"); }),
                       "this part fails", parallel::error);
  scope.run([&] { ++done; });
  CHECK(done == 401);
}

TEST_CASE("Kokkos is initialised once") {
  test::with_kokkos();
  CHECK_THROWS_WITH_AS(kokkos::scope(), "a kokkos::scope initialises Kokkos, which is initialised",
                       parallel::error);
}

}  // namespace kokkos_device_test
