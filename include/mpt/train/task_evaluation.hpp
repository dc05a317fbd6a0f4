// task_evaluation: tasks of in-context learning while a model trains, their rows divided among data
// ranks.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/eval/icl_report.hpp>
#include <mpt/eval/icl_run.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

/// Room for a row of any of the tasks.
[[nodiscard]] inline decoder_room room_of(std::vector<icl::task_config> const& tasks) {
  decoder_room room;
  for (auto const& task : tasks) room.tokens = std::max<index>(room.tokens, task.max_seq_len);
  return room;
}

class task_evaluation {
 public:
  /// Of a configuration that has tasks: reads and checks their rows, and the tokenizer.
  explicit task_evaluation(train_config const& config)
      : gauntlet_(config.icl.gauntlet),
        subset_batches_(config.icl.subset_batches),
        tasks_(icl::load_tasks(config.icl.tasks)),
        words_(load_tokenizer(config)) {
    for (auto const& task : tasks_)
      require(!config.model.learned_pos_emb || task.config.max_seq_len <= config.model.max_seq_len,
              "icl_tasks: ", task.config.label, ": max_seq_len ", task.config.max_seq_len,
              " is longer than the ", config.model.max_seq_len, " positions of the model");
  }

  /// Collective over all ranks of the run; every rank gets the results. `model`: a run_decoder.
  template <class RunDecoder>
  [[nodiscard]] icl::model_report run(RunDecoder& model, int data_rank, int data_ranks) const {
    icl::row_sharing const sharing{
        .rank = data_rank, .ranks = data_ranks, .gather = [&](std::string const& rows) {
          return model.gather(rows);
        }};
    icl::task_model scorer(model.texts());
    icl::model_report out;
    for (auto const& task : tasks_)
      for (auto const shots : task.config.shots)
        out.tasks.push_back(icl::run_task(task, shots, words_, scorer, sharing, subset_batches_));
    if (gauntlet_) out.gauntlet = icl::score_gauntlet(*gauntlet_, out.tasks);
    return out;
  }

 private:
  [[nodiscard]] static tokenizer load_tokenizer(train_config const& config) {
    auto const& where = config.tokenizer.name;
    require(std::filesystem::exists(where), "icl_tasks need the tokenizer, but tokenizer.name ",
            where, " is no folder or file here");
    auto out = tokenizer::load(where);
    require(out.size() <= config.model.vocab_size, "tokenizer.name ", where, ": has ", out.size(),
            " tokens, the model only ", config.model.vocab_size);
    return out;
  }

  std::optional<icl::gauntlet_config> gauntlet_;
  std::optional<std::int64_t> subset_batches_;
  std::vector<icl::loaded_task> tasks_;
  tokenizer words_;
};

}  // namespace mpt
