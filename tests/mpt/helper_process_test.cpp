#include <doctest/doctest.h>

#include <mpt/helper_process.hpp>

#include "mpt/data/scratch.hpp"

namespace helper_process_test {

using namespace std::chrono_literals;

/// Calls itself through a pointer that no compiler sees through.
inline int endless(int depth) {
  int (*volatile again)(int) = endless;
  return again(depth + 1) + 1;
}

inline std::string answer(std::string const& question) {
  if (question == "fail") parallel::fail("no such thing");
  if (question == "sleep") ::pause();
  if (question == "die") ::_exit(3);
  if (question == "grow") {
    std::string all = "ab";
    while (true) all += all;
  }
  if (question == "deep") return std::to_string(endless(0));
  return question + question;
}

std::string message(mpt::helper_process& of, std::string const& question) {
  return data_test::message_of([&] { static_cast<void>(of.ask(question)); });
}

constexpr auto gone = "it does not come to an end, or needs too much memory";

TEST_CASE("a helper answers, and what it throws is thrown here") {
  mpt::helper_process helper(answer);
  CHECK(helper.ask("a") == "aa");
  CHECK(helper.ask("").empty());
  CHECK(message(helper, "fail") == "no such thing");
  std::string const large(3'000'000, 'x');
  CHECK(helper.ask(large) == large + large);
}

TEST_CASE("work that does not end, or ends its process, is an error, then and later") {
  for (std::string const question : {"sleep", "die", "deep"}) {
    CAPTURE(question);
    mpt::helper_process helper(answer, {.time = 500ms, .memory = 64 << 20});
    CHECK(message(helper, question) == gone);
    CHECK(message(helper, "a") == "it was given up");
  }
  mpt::helper_process helper(answer, {.memory = 64 << 20});
  CHECK_FALSE(message(helper, "grow").empty());  // std::bad_alloc, or the end
}

TEST_CASE("an answer that is too long is refused") {
  mpt::helper_process helper(answer, {.answer_bytes = 100});
  CHECK(helper.ask(std::string(50, 'x')).size() == 100);
  CHECK(message(helper, std::string(51, 'x')) == gone);
}

}  // namespace helper_process_test
