#include <mpt/train/evaluation/task_set.hpp>

#include <cstddef>
#include <filesystem>
#include <system_error>

#include <mpt/eval/icl_example.hpp>
#include <mpt/eval/icl_run.hpp>
#include <mpt/tokenizer/text_affixes.hpp>

namespace mpt {

task_set read_task_set(model_config const& model, data_config const& data,
                       evaluation_config const& evaluation) {
  using parallel::require;
  for (auto const& task : evaluation.icl.tasks)
    require(!model.learned_pos_emb || task.max_seq_len <= model.max_seq_len,
            "icl_tasks: ", task.label, ": max_seq_len ", task.max_seq_len, " is longer than the ",
            model.max_seq_len, " learned positions of the model; set icl_seq_len");
  auto const& tokenizer_name = data.tokenizer.name;
  std::error_code unreadable;  // then it is not there
  require(std::filesystem::exists(tokenizer_name, unreadable),
          "icl_tasks need the tokenizer, but "
          "tokenizer.name ",
          tokenizer_name, " is no folder or file here");
  task_set out{eval::load_tasks(evaluation.icl.tasks), tokenizer::load(tokenizer_name),
               evaluation.icl.gauntlet, evaluation.icl.subset_batches};
  require(out.tokenizer.size() <= model.vocab_size, "tokenizer.name ", tokenizer_name, ": has ",
          out.tokenizer.size(), " tokens, the model only ", model.vocab_size);
  auto const affixes = read_text_affixes(out.tokenizer);
  for (auto const& task : out.tasks)
    for (auto const shots : task.config.shots)
      for (auto const& [category, part] : task.parts) {
        eval::example_maker maker(task.config, part, shots, out.tokenizer, affixes);
        auto const rows = eval::rows_to_run(task.config, part, out.subset_batches);
        for (std::size_t row = 0; row < rows; ++row) static_cast<void>(maker.make(row));
      }
  return out;
}

}  // namespace mpt
