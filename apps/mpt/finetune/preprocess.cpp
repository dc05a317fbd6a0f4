#include <mpt/finetune/preprocess.hpp>

#include <array>
#include <utility>

#include <mpt/data/json.hpp>

namespace mpt::finetune {
namespace {

[[nodiscard]] nlohmann::json prompt_response(std::string prompt, std::string response) {
  return {{"prompt", std::move(prompt)}, {"response", std::move(response)}};
}

[[nodiscard]] nlohmann::json from_alpaca(nlohmann::json const& row, std::string_view where) {
  constexpr std::string_view mark = "### Response:";
  std::string_view const text = text_column(row, "text", where);
  auto const at = text.find(mark);
  parallel::require(at != text.npos && text.find(mark, at + mark.size()) == text.npos, where,
                    ": expected \"", mark, "\" once in \"text\", between prompt and response");
  auto const end = at + mark.size();
  return prompt_response(std::string(text.substr(0, end)), std::string(text.substr(end)));
}

[[nodiscard]] nlohmann::json from_dolly(nlohmann::json const& row, std::string_view where) {
  auto instruction = text_column(row, "instruction", where);
  auto const& input = text_column(row, "input", where);
  if (!input.empty()) instruction += "\n" + input;
  return prompt_response(
      "Below is an instruction that describes a task. Write a response that appropriately "
      "completes the request.\n\n### Instruction:\n" +
          instruction + "\n\n### Response:\n",
      text_column(row, "output", where));
}

[[nodiscard]] nlohmann::json from_p3(nlohmann::json const& row, std::string_view where) {
  return prompt_response(text_column(row, "inputs", where) + ":",
                         text_column(row, "targets", where));
}

[[nodiscard]] nlohmann::json from_flan(nlohmann::json const& row, std::string_view where) {
  auto const& prompt = text_column(row, "inputs", where);
  auto const& response = text_column(row, "targets", where);
  constexpr std::string_view spaces = " \n\t";
  bool const apart = (!prompt.empty() && spaces.find(prompt.back()) != spaces.npos) ||
                     (!response.empty() && spaces.find(response.front()) != spaces.npos);
  return prompt_response(prompt, apart ? response : " " + response);
}

[[nodiscard]] nlohmann::json from_share_gpt(nlohmann::json const& row, std::string_view where) {
  auto const found = row.find("conversations");
  parallel::require(found != row.end() && found->is_array(), where,
                    ": there is no list \"conversations\"; the row has ", columns_of(row));
  auto messages = nlohmann::json::array();
  for (auto const& one : *found) {
    auto const place = parallel::concat(where, ": message ", messages.size() + 1);
    auto role = data::detail::string_member(one, "from", place);
    if (role == "human") role = "user";
    if (role == "gpt") role = "assistant";
    messages.push_back(
        {{"role", std::move(role)}, {"content", data::detail::string_member(one, "value", place)}});
  }
  return {{"messages", std::move(messages)}};
}

[[nodiscard]] nlohmann::json from_questions(nlohmann::json const& row, std::string_view where) {
  return {{"messages",
           {{{"role", "user"}, {"content", text_column(row, "Q", where)}},
            {{"role", "assistant"}, {"content", text_column(row, "A", where)}}}}};
}

[[nodiscard]] nlohmann::json messages_alone(nlohmann::json const& row, std::string_view where) {
  auto const found = row.find("messages");
  parallel::require(found != row.end(), where, ": there is no column \"messages\"; the row has ",
                    columns_of(row));
  return {{"messages", *found}};
}

struct registered_preprocessor {
  std::string_view set;       // a public data set
  std::string_view function;  // in llmfoundry.data.finetuning.tasks
  nlohmann::json (*make)(nlohmann::json const&, std::string_view);
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
                               std::string_view where) {
  auto const found = row.find(name);
  parallel::require(found != row.end(), where, ": there is no column \"", name, "\"; the row has ",
                    columns_of(row));
  parallel::require(found->is_string(), where, ": column \"", name, "\" is of type ",
                    found->type_name(), ", expected a string");
  return found->get_ref<std::string const&>();
}

preprocessor registered_preprocessor_of(std::string_view set) {
  for (auto const& one : preprocessors)
    if (one.set == set) return one.make;
  return {};
}

preprocessor named_preprocessor(std::string_view name) {
  if (auto found = registered_preprocessor_of(name)) return found;
  constexpr std::string_view module = "llmfoundry.data.finetuning.tasks:";
  for (auto const& one : preprocessors)
    if (name.starts_with(module) && name.substr(module.size()) == one.function) return one.make;
  auto const colon = name.find(':');
  std::string known;
  for (auto const& one : preprocessors) known.append(known.empty() ? "" : ", ").append(one.set);
  parallel::require(colon != name.npos, "preprocessing_fn \"", name, "\" is not known; expected ",
                    known, ", or a mapping {prompt: COLUMN, response: COLUMN}");
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
                                                                      std::string_view where) {
    return prompt_response(text_column(row, prompt, where), text_column(row, response, where));
  };
}

}  // namespace mpt::finetune
