// Files of finetuning rows: the first byte chooses the format and compression, the second the
// preprocessor of rows. Accepted rows are tokenised and become examples.
#include <mpt/finetune/preprocess.hpp>
#include <mpt/finetune/read_rows.hpp>
#include <mpt/finetune/stitch_turns.hpp>
#include <mpt/finetune/tokenize_row.hpp>
#include <mpt/tokenizer/train_tokenizer.hpp>

#include "../support.hpp"
#include "../targets.hpp"

namespace {

namespace ft = mpt::finetune;

void use(ft::row_tokenizer& tokenize, nlohmann::json const& row, std::string_view location) {
  constexpr std::size_t longest = 24;
  auto const turns = tokenize.turns(ft::format_row(row, location), location);
  auto const example =
      ft::stitch_turns(turns, ft::read_target_policy("length>=3", "all"), longest, 0);
  if (!example) return;
  fuzz::ensure(example->ids.size() == example->labels.size() && example->ids.size() <= longest,
               "an example has a label for each id, and not too many");
  for (std::size_t i = 0; i < example->ids.size(); ++i)
    fuzz::ensure(example->labels[i] == ft::no_label ||
                     (i + 1 < example->ids.size() && example->labels[i] == example->ids[i + 1]),
                 "a label is the id that follows");
}

}  // namespace

void fuzz::finetuning_rows(std::string_view input) {
  static scratch const folder;
  static mpt::tokenizer const tokens = mpt::train_tokenizer(
      std::vector<std::string>{"the fox and the dog", "caf\xc3\xa9"}, {.vocab_size = 260});
  static ft::row_tokenizer tokenize(tokens, {});
  constexpr std::string_view names[] = {"f.jsonl",    "f.json",    "f.csv",
                                        "f.jsonl.gz", "f.csv.zst", "f.parquet"};
  constexpr std::string_view sets[] = {"",
                                       "tatsu-lab/alpaca",
                                       "HuggingFaceH4/databricks_dolly_15k",
                                       "bigscience/P3",
                                       "Muennighoff/flan",
                                       "teknium/OpenHermes-2.5",
                                       "math-ai/StackMathQA",
                                       "AI-MO/NuminaMath-CoT"};
  if (input.size() < 2) return;
  auto const name = names[static_cast<unsigned char>(input[0]) % std::size(names)];
  auto const set = sets[static_cast<unsigned char>(input[1]) % std::size(sets)];
  auto const path = folder.file(name, input.substr(2));
  auto const make = ft::registered_preprocessor_of(set);
  refused([&] {
    ft::read_rows(path, [&](nlohmann::json const& row, std::string_view location) {
      ensure(row.is_object(), "a row is an object");
      refused([&] { use(tokenize, make ? make(row, location) : row, location); });
    });
  });
}
