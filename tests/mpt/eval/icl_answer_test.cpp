#include <doctest/doctest.h>

#include <mpt/eval/icl_answer.hpp>

#include "mpt/eval/icl_support.hpp"

namespace icl_answer_test {

TEST_CASE("generated answers: cut, cleaned and compared as by LLM Foundry's metric") {
  auto const golden = icl_test::load();
  for (auto const& one : golden.at("exact")) {
    mpt::icl::task_config task;
    task.kind = mpt::icl::task_kind::generation;
    task.cot_delimiter = one.at("cot_delimiter");
    task.do_normalization = one.at("do_normalization");
    task.stops = one.at("stops").get<std::vector<std::string>>();
    auto const output = one.at("output").get<std::string>();
    CAPTURE(output);
    CHECK(mpt::icl::cleaned_answer(task, output) == one.at("cleaned").get<std::string>());
    CHECK(
        mpt::icl::is_answer_right(task, output, one.at("labels").get<std::vector<std::string>>()) ==
        (one.at("correct").get<int>() == 1));
  }
  mpt::icl::task_config const task;
  for (auto const& one : golden.at("answers"))
    CHECK(mpt::icl::is_answer_right(task, one.at("output").get<std::string>(),
                                    one.at("labels").get<std::vector<std::string>>()) ==
          (one.at("correct").get<int>() == 1));
}

}  // namespace icl_answer_test
