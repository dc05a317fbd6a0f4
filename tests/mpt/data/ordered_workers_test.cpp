#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mpt/data/ordered_workers.hpp>
#include <stdexcept>
#include <thread>

TEST_CASE("ordered workers: results come in the order of the tasks at any speed of the workers") {
  mpt::data::ordered_workers<int, int> workers(4, [] {
    return [](int& task) {
      std::this_thread::sleep_for(std::chrono::microseconds(task % 7 * 100));
      return task * 2;
    };
  });
  for (int i = 0; i < 100; ++i) workers.push(i);
  CHECK(workers.pending() == 100);
  for (int i = 0; i < 100; ++i) CHECK(workers.pop() == 2 * i);
  CHECK(workers.pending() == 0);
}

TEST_CASE("ordered workers: each worker has its function, and an exception comes with its task") {
  int function_count = 0;
  mpt::data::ordered_workers<int, int> workers(3, [&] {
    ++function_count;
    return [](int& task) {
      if (task == 5) throw std::runtime_error("five");
      return task;
    };
  });
  CHECK(function_count == 3);
  for (int i = 0; i < 10; ++i) workers.push(i);
  for (int i = 0; i < 10; ++i) {
    if (i == 5)
      CHECK_THROWS_WITH((void)workers.pop(), "five");
    else
      CHECK(workers.pop() == i);
  }
}

TEST_CASE("ordered workers: destruction drops the tasks that have not begun") {
  std::atomic<int> ran = 0;
  {
    mpt::data::ordered_workers<int, int> workers(1, [&] {
      return [&](int& task) {
        ++ran;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return task;
      };
    });
    for (int i = 0; i < 1000; ++i) workers.push(i);
    (void)workers.pop();
  }
  CHECK(ran < 1000);
}
