// Files of in-context learning tasks, of every kind, and the prompts and ids that are made of their
// rows. The first byte chooses the kind, categories, and shots.
#include <mpt/eval/icl_example.hpp>
#include <mpt/tokenizer/train_tokenizer.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::icl_task(std::string_view input) {
  namespace eval = mpt::eval;
  static scratch const folder;
  static auto const words = mpt::train_tokenizer(
      std::vector<std::string>{"a few words, and a few more words"}, {.vocab_size = 270});
  constexpr eval::task_kind kinds[] = {eval::task_kind::language_modeling,
                                       eval::task_kind::multiple_choice, eval::task_kind::schema,
                                       eval::task_kind::generation};
  if (input.empty()) return;
  auto const choice = static_cast<unsigned char>(input[0]);
  eval::task_config task;
  task.label = "task";
  task.kind = kinds[choice % 4];
  task.has_categories = (choice & 4U) != 0;
  task.max_seq_len = (choice & 8U) != 0 ? 24 : 512;
  task.cot_delimiter = (choice & 16U) != 0 ? "so " : "";
  task.file = folder.file("t.jsonl", input.substr(1));
  refused([&] {
    auto const parts =
        eval::read_task_rows(task, {.rows = 64, .options = 8, .line_bytes = 1 << 14});
    ensure(!parts.empty(), "what is read has rows");
    for (auto const& of_category : parts)
      refused([&] {
        auto const& part = of_category.second;
        eval::example_maker maker(task, part, choice >> 6U, words, {});
        for (std::size_t row = 0; row < part.rows.size(); ++row)
          refused([&] {
            auto const example = maker.make(row);
            ensure(!example.options.empty(), "an example has options");
            for (auto const& option : example.options)
              ensure(option.begin > 0 &&
                         option.ids.size() <= static_cast<std::size_t>(task.max_seq_len),
                     "an option has a context and is not too long");
          });
      });
  });
}
