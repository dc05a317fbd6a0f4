#include <mpt/finetune/format_row.hpp>

#include <mpt/finetune/preprocess.hpp>

namespace mpt::finetune {
namespace {

/// Advice to the user on a row whose columns are not those that finetuning knows.
[[nodiscard]] std::string_view column_advice(nlohmann::json const& row) {
  auto const holds_ids = [&](char const* name) {
    auto const found = row.find(name);
    return found != row.end() && found->is_array() && !found->empty() &&
           (found->front().is_number() ||
            (found->front().is_object() && found->front().contains("input_ids")));
  };
  for (char const* const name : {"input_ids", "labels", "tokens", "ids", "turns"})
    if (holds_ids(name))
      return "rows of token ids are read from MDS sets alone: give the text, or the set that "
             "prepare --finetuning --tokenizer made of it, by dataset.local";
  auto const chat = row.find("conversations");
  if (chat != row.end() && chat->is_array())
    return "conversations of \"from\" and \"value\" (ShareGPT) are read with preprocessing_fn: "
           "teknium/OpenHermes-2.5 or, by prepare, --preprocessor teknium/OpenHermes-2.5";
  if (row.contains("messages"))
    return "\"messages\" beside other columns are read with preprocessing_fn: "
           "AI-MO/NuminaMath-CoT or, by prepare, --preprocessor AI-MO/NuminaMath-CoT";
  if (row.size() == 1 && row.contains("text"))
    return "text without prompts is trained on as in pretraining: prepare makes a set of it, for a "
           "loader with name: text";
  return "name the columns with preprocessing_fn: {prompt: COLUMN, response: COLUMN} or, to "
         "prepare, by --prompt_column COLUMN --response_column COLUMN";
}

}  // namespace

formatted_row format_row(nlohmann::json const& row, std::string_view location) {
  parallel::require(row.is_object(), location, ": a row of type ", row.type_name(),
                    ", expected an object {\"prompt\": ..., \"response\": ...} or {\"messages\": "
                    "[...]}");
  if (row.size() == 1 && row.contains("messages")) return read_messages(row["messages"], location);
  bool const is_completion = !row.contains("response");
  bool const has_known_columns =
      row.size() == 2 && row.contains("prompt") && (!is_completion || row.contains("completion"));
  parallel::require(has_known_columns, location, ": the row has ", columns_of(row),
                    "; expected \"prompt\" and \"response\" (or \"completion\"), or \"messages\", "
                    "and nothing else; ",
                    column_advice(row));
  return turn_text{text_column(row, "prompt", location),
                   text_column(row, is_completion ? "completion" : "response", location)};
}

}  // namespace mpt::finetune
