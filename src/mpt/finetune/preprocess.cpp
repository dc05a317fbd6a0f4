#include <mpt/finetune/preprocess.hpp>

#include <array>
#include <utility>

#include <mpt/data/json.hpp>

namespace mpt::finetune {
namespace {

[[nodiscard]] nlohmann::json prompt_response(std::string prompt, std::string response) {
  return {{"prompt", std::move(prompt)}, {"response", std::move(response)}};
}

[[nodiscard]] nlohmann::json from_alpaca(nlohmann::json const& row, std::string_view location) {
  constexpr std::string_view mark = "### Response:";
  std::string_view const text = text_column(row, "text", location);
  auto const mark_begin = text.find(mark);
  parallel::require(
      mark_begin != text.npos && text.find(mark, mark_begin + mark.size()) == text.npos, location,
      ": expected \"", mark, "\" once in \"text\", between prompt and response");
  auto const response_begin = mark_begin + mark.size();
  return prompt_response(std::string(text.substr(0, response_begin)),
                         std::string(text.substr(response_begin)));
}

[[nodiscard]] nlohmann::json from_dolly(nlohmann::json const& row, std::string_view location) {
  auto instruction = text_column(row, "instruction", location);
  auto const& input = text_column(row, "input", location);
  if (!input.empty()) instruction += "\n" + input;
  return prompt_response(
      "Below is an instruction that describes a task. Write a response that appropriately "
      "completes the request.\n\n### Instruction:\n" +
          instruction + "\n\n### Response:\n",
      text_column(row, "output", location));
}

[[nodiscard]] nlohmann::json from_p3(nlohmann::json const& row, std::string_view location) {
  return prompt_response(text_column(row, "inputs", location) + ":",
                         text_column(row, "targets", location));
}

[[nodiscard]] nlohmann::json from_flan(nlohmann::json const& row, std::string_view location) {
  auto const& prompt = text_column(row, "inputs", location);
  auto const& response = text_column(row, "targets", location);
  constexpr std::string_view spaces = " \n\t";
  bool const is_separated = (!prompt.empty() && spaces.find(prompt.back()) != spaces.npos) ||
                            (!response.empty() && spaces.find(response.front()) != spaces.npos);
  return prompt_response(prompt, is_separated ? response : " " + response);
}

[[nodiscard]] nlohmann::json from_share_gpt(nlohmann::json const& row, std::string_view location) {
  auto const found = row.find("conversations");
  parallel::require(found != row.end() && found->is_array(), location,
                    ": there is no list \"conversations\"; the row has ", columns_of(row));
  auto messages = nlohmann::json::array();
  for (auto const& item : *found) {
    auto const message_location = parallel::concat(location, ": message ", messages.size() + 1);
    auto role = data::string_member(item, "from", message_location);
    if (role == "human") role = "user";
    if (role == "gpt") role = "assistant";
    messages.push_back({{"role", std::move(role)},
                        {"content", data::string_member(item, "value", message_location)}});
  }
  return {{"messages", std::move(messages)}};
}

[[nodiscard]] nlohmann::json from_questions(nlohmann::json const& row, std::string_view location) {
  return {{"messages",
           {{{"role", "user"}, {"content", text_column(row, "Q", location)}},
            {{"role", "assistant"}, {"content", text_column(row, "A", location)}}}}};
}

[[nodiscard]] nlohmann::json messages_alone(nlohmann::json const& row, std::string_view location) {
  auto const found = row.find("messages");
  parallel::require(found != row.end(), location, ": there is no column \"messages\"; the row has ",
                    columns_of(row));
  return {{"messages", *found}};
}

struct registered_preprocessor {
  std::string_view data_set;  // name of a public data set
  std::string_view function;  // in llmfoundry.data.finetuning.tasks
  nlohmann::json (*convert)(nlohmann::json const&, std::string_view);
};

constexpr std::array<registered_preprocessor, 8> preprocessors = {{
    {"tatsu-lab/alpaca", "alpaca_preprocessing_function", from_alpaca},
    {"HuggingFaceH4/databricks_dolly_15k", "dolly_preprocessing_function", from_dolly},
    {"bigscience/P3", "p3_preprocessing_function", from_p3},
    {"Muennighoff/P3", "muennighoff_tokenize_function", from_flan},
    {"Muennighoff/flan", "muennighoff_tokenize_function", from_flan},
    {"teknium/OpenHermes-2.5", "shareGPT_format_preprocessor", from_share_gpt},
    {"math-ai/StackMathQA", "QA_format_preprocessor", from_questions},
    {"AI-MO/NuminaMath-CoT", "messages_format_preprocessor", messages_alone},
}};

}  // namespace

std::string columns_of(nlohmann::json const& row) {
  std::string out;
  for (auto const& [name, value] : row.items()) {
    if (out.size() > 300) return out + ", ...";
    out.append(out.empty() ? "\"" : ", \"").append(name).append("\"");
  }
  return out.empty() ? "none" : out;
}

std::string const& text_column(nlohmann::json const& row, std::string const& name,
                               std::string_view location) {
  auto const found = row.find(name);
  parallel::require(found != row.end(), location, ": there is no column \"", name,
                    "\"; the row has ", columns_of(row));
  parallel::require(found->is_string(), location, ": column \"", name, "\" is of type ",
                    found->type_name(), ", expected a string");
  return found->get_ref<std::string const&>();
}

preprocessor registered_preprocessor_of(std::string_view data_set) {
  for (auto const& known : preprocessors)
    if (known.data_set == data_set) return known.convert;
  return {};
}

preprocessor named_preprocessor(std::string_view name) {
  if (auto found = registered_preprocessor_of(name)) return found;
  constexpr std::string_view module = "llmfoundry.data.finetuning.tasks:";
  for (auto const& entry : preprocessors)
    if (name.starts_with(module) && name.substr(module.size()) == entry.function)
      return entry.convert;
  auto const colon = name.find(':');
  std::string known_sets;
  for (auto const& entry : preprocessors)
    known_sets.append(known_sets.empty() ? "" : ", ").append(entry.data_set);
  parallel::require(colon != name.npos, "preprocessing_fn \"", name, "\" is not known; expected ",
                    known_sets, ", or a mapping {prompt: COLUMN, response: COLUMN}");
  parallel::fail(
      "preprocessing_fn \"", name,
      "\" is a Python function, which is not run here; convert the data with it once and name "
      "what it writes, without preprocessing_fn: python3 -c 'import json, sys; from ",
      name.substr(0, colon), " import ", name.substr(colon + 1),
      " as f; [print(json.dumps(dict(f("
      "json.loads(line))))) for line in sys.stdin]' < IN.jsonl > OUT.jsonl");
}

preprocessor column_mapping(std::string prompt, std::string response) {
  return [prompt = std::move(prompt), response = std::move(response)](nlohmann::json const& row,
                                                                      std::string_view location) {
    return prompt_response(text_column(row, prompt, location),
                           text_column(row, response, location));
  };
}

}  // namespace mpt::finetune
