#include <mpt/finetune/read_examples.hpp>

#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/finetune/stitch_turns.hpp>
#include <mpt/finetune/tokenize_row.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::finetune {

std::vector<example> read_examples(finetuning_source const& source, tokenizer const& tokenizer,
                                   read_report* report) {
  auto const policy = read_target_policy(source.target_prompts, source.target_responses);
  auto const end = require_end(tokenizer, "a response trained without it would never end");
  row_tokenizer tokenize(tokenizer, source.date);
  std::vector<example> examples;
  read_report counts;
  auto const add = [&](std::vector<turn> const& turns) {
    ++counts.rows;
    auto new_example = stitch_turns(turns, policy, source.max_seq_len, end);
    if (!new_example) {
      ++counts.dropped;
      return;
    }
    counts.truncated += joined_length(turns, end) > source.max_seq_len ? 1 : 0;
    examples.push_back(std::move(*new_example));
  };
  auto const add_row = [&](nlohmann::json const& row, std::string_view location) {
    auto const columns = source.preprocess ? source.preprocess(row, location) : row;
    add(tokenize.turns(format_row(columns, location), location));
  };
  for (auto const& file : source.files) read_rows(file, add_row, source.parquet);
  auto ids = source.ids;
  ids.max_ids = source.max_seq_len;
  for (std::size_t k = 0; k < source.folders.size(); ++k) {
    data::mds_reader const set(
        source.folders[k],
        {.remote = k < source.remotes.size() ? source.remotes[k] : data::cached_set()});
    for (std::uint64_t i = 0; i < set.size(); ++i) {
      auto const sample = set.sample(i);
      if (auto const turns = turns_of(sample, ids))
        add(*turns);
      else
        add_row(text_row(sample), sample.location());
    }
  }
  if (report != nullptr) *report = counts;
  parallel::require(counts.rows > 0, "the finetuning data hold no rows; look into ",
                    source.files.empty()      ? std::string("their folders")
                    : source.files.size() > 1 ? parallel::concat(source.files.size(), " files")
                                              : source.files[0].native());
  parallel::require(!examples.empty(), "none of ", counts.rows,
                    " rows of finetuning data can be trained on: prompt or response is "
                    "empty, or the prompt alone has max_seq_len (",
                    source.max_seq_len, ") tokens");
  return examples;
}

}  // namespace mpt::finetune
