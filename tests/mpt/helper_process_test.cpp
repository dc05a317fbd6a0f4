#include <doctest/doctest.h>

#include <mpt/helper_process.hpp>

#include "mpt/data/scratch.hpp"

namespace helper_process_test {

using namespace std::chrono_literals;

/// Calls itself without end, through a pointer that no compiler can optimise.
inline int endless(int depth) {
  int (*volatile recurse)(int) = endless;
  return recurse(depth + 1) + 1;
}

inline std::string answer(std::string const& question) {
  if (question == "fail") parallel::fail("no such thing");
  if (question == "sleep") ::pause();
  if (question.starts_with("stop")) ::raise(SIGSTOP);
  if (question == "die") ::_exit(3);
  if (question == "grow") {
    std::string text = "ab";
    while (true) text += text;
  }
  if (question == "divide") ::raise(SIGFPE);
  if (question == "killed") ::raise(SIGKILL);
  if (question == "deep") return std::to_string(endless(0));
  return question + question;
}

std::string message(mpt::helper_process& helper, std::string const& question) {
  return data_test::message_of([&] { static_cast<void>(helper.ask(question)); });
}

TEST_CASE("helper process: answers, and its exceptions are thrown in the caller") {
  mpt::helper_process helper(answer);
  CHECK(helper.ask("a") == "aa");
  CHECK(helper.ask("").empty());
  CHECK(message(helper, "fail") == "no such thing");
  std::string const large(3'000'000, 'x');
  CHECK(helper.ask(large) == large + large);
}

TEST_CASE("helper process: work that hangs or ends the process is an error, now and later") {
  for (auto const& row :
       {std::pair{"sleep", "it does not end within 500 ms"}, std::pair{"die", "its process ended"},
        std::pair{"deep", "it overflows the stack: it recurses, or is nested, too deep"},
        std::pair{"divide", "it divides by zero"},
        std::pair{"killed", "its process was ended by signal 9 (Killed)"}}) {
    std::string const question = row.first;
    std::string const expected = row.second;
    CAPTURE(question);
    mpt::helper_process helper(answer,
                               {.time = question == "sleep" ? 500ms : 60000ms, .memory = 64 << 20});
    CHECK(message(helper, question) == expected);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no zombie is left
    CHECK(message(helper, "a") == "it was given up");
  }
  mpt::helper_process helper(answer, {.memory = 64 << 20});
  CHECK(message(helper, "grow") == "it needs too much memory");
}

TEST_CASE("helper process: a stopped helper is given up, however long the question is") {
  mpt::helper_process helper(answer, {.time = 300ms});
  CHECK(message(helper, "stop") == "it does not end within 300 ms");
  mpt::helper_process other(answer, {.time = 300ms});
  CHECK(message(other, "stop" + std::string(8'000'000, 'x')) == "it does not end within 300 ms");
}

TEST_CASE("helper process: an answer that is too long is refused") {
  mpt::helper_process helper(answer, {.answer_bytes = 100});
  CHECK(helper.ask(std::string(50, 'x')).size() == 100);
  CHECK(message(helper, std::string(51, 'x')) == "its text has 102 bytes, more than 100");
  CHECK(message(helper, "a") == "it was given up");
}

}  // namespace helper_process_test
