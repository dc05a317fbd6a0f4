#include <doctest/doctest.h>

#include <string>

#include <mpt/train/evaluation/task_set.hpp>

#include "mpt/eval/icl_support.hpp"
#include "parallel/support/files.hpp"

namespace task_set_test {

mpt::train_config config() {
  mpt::train_config out;
  out.model.vocab_size = 420;
  out.model.max_seq_len = 64;
  out.data.tokenizer.name = icl_test::folder() / "tokenizer_a";
  auto& task = out.evaluation.icl.tasks.emplace_back();
  task.label = "choice";
  task.file = icl_test::folder() / "choice.jsonl";
  task.kind = mpt::eval::task_kind::multiple_choice;
  task.max_seq_len = 64;
  out.evaluation.icl.subset_batches = 3;
  return out;
}

std::string refusal(mpt::train_config const& config) {
  return test::message_of(
      [&] { static_cast<void>(mpt::read_task_set(config.model, config.data, config.evaluation)); });
}

TEST_CASE("task set: a run's tasks are read with the tokenizer of the model") {
  auto const set = mpt::read_task_set(config().model, config().data, config().evaluation);
  REQUIRE(set.tasks.size() == 1);
  CHECK(set.tasks[0].parts.at("").rows.size() == 12);
  CHECK(set.tokenizer.size() == 420);
  CHECK(set.subset_batches == 3);
}

TEST_CASE("task set: tasks that model or tokenizer cannot read are refused before the run") {
  auto refused = config();
  refused.data.tokenizer.name = "nowhere";
  CHECK(refusal(refused) ==
        "icl_tasks need the tokenizer, but tokenizer.name nowhere is no folder or file here");
  refused = config();
  refused.model.vocab_size = 419;
  CHECK(refusal(refused).ends_with("tokenizer_a: has 420 tokens, the model only 419"));
  refused = config();
  refused.evaluation.icl.tasks[0].max_seq_len = 65;
  CHECK(refusal(refused) ==
        "icl_tasks: choice: max_seq_len 65 is longer than the 64 learned positions of the model; "
        "set icl_seq_len");
  refused.model.learned_pos_emb = false;
  CHECK(refusal(refused).empty());
  refused.evaluation.icl.tasks[0].shots = {0};
  refused.evaluation.icl.tasks[0].max_seq_len = 2;
  CHECK(refusal(refused).find("choice.jsonl:1: the text that the model is to write has ") !=
        std::string::npos);
  refused.evaluation.icl.tasks[0].file = icl_test::folder() / "language.jsonl";
  CHECK(refusal(refused).find("language.jsonl:1: the row has no \"query\"") != std::string::npos);
}

}  // namespace task_set_test
