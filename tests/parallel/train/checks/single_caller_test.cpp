// Two threads cannot call a stepper at the same time.
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <parallel/train/checks/single_caller.hpp>

#include "parallel/support/files.hpp"

namespace single_caller_test {

TEST_CASE("single caller: a second thread is refused while a call of the first has not ended") {
  parallel::train::single_caller caller;
  auto const refusal_of_thread = [&] {
    std::string out;
    std::thread([&] { out = test::message_of([&] { auto const call = caller.begin(); }); }).join();
    return out;
  };
  {
    auto const call = caller.begin();
    { auto const nested_call = caller.begin(); }
    CHECK(test::contains(refusal_of_thread(),
                         "two threads call a stepper, or its session, at the "
                         "same time"));
  }
  CHECK(refusal_of_thread().empty());
}

}  // namespace single_caller_test
