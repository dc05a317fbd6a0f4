#include <mpt/hf/generation_defaults.hpp>

#include <mpt/config/model/token_ids.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/yaml/node.hpp>
#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

std::filesystem::path generation_file(std::filesystem::path const& folder) {
  return folder / "generation_config.json";
}

std::optional<nlohmann::json> read_generation_json(std::filesystem::path const& folder) {
  auto const file = generation_file(folder);
  if (!parallel::files::exists(file)) return std::nullopt;
  auto json = parallel::checkpoint::parse_json(read_small_file(file), file.string());
  parallel::require(json.is_object(), file.string(), ": must be a JSON object");
  return json;
}

std::optional<std::vector<std::int64_t>> read_generation_ends(std::filesystem::path const& folder) {
  auto const json = read_generation_json(folder);
  if (!json) return std::nullopt;
  return read_token_ids(*json, "eos_token_id", generation_file(folder).string());
}

generation_defaults read_generation_defaults(std::filesystem::path const& folder) {
  generation_defaults out;
  auto const content = read_generation_json(folder);
  if (!content) return out;
  auto const& json = *content;
  auto const file = generation_file(folder);
  auto const number = [&](char const* key) -> std::optional<double> {
    auto const found = json.find(key);
    if (found == json.end() || found->is_null()) return std::nullopt;
    parallel::require(found->is_number(), file.string(), ": ", key, ": expected a number, found ",
                      printable(found->dump()));
    return found->get<double>();
  };
  out.repetition_penalty = number("repetition_penalty");
  if (json.value("do_sample", nlohmann::json(false)) != true) return out;
  constexpr std::int64_t default_top_k = 50;
  out.temperature = number("temperature").value_or(1.0);
  out.top_p = number("top_p");
  out.top_k = default_top_k;
  if (auto const found = json.find("top_k"); found != json.end() && !found->is_null()) {
    parallel::require(found->is_number_integer() && *found >= 0 && *found <= (1 << 30),
                      file.string(), ": top_k: expected a whole number from 0 on, found ",
                      printable(found->dump()));
    out.top_k = found->get<std::int64_t>();
  }
  return out;
}

text_ends text_ends_of(model_source const& source, tokenizer const& tokenizer) {
  text_ends out;
  auto const vocabulary = source.config().vocab_size;
  std::vector<std::int64_t> unknown_tokens;
  for (auto const id : source.end_tokens())
    if (id >= 0 && id < vocabulary)
      out.tokens.push_back(static_cast<std::int32_t>(id));
    else
      unknown_tokens.push_back(id);
  if (source.end_tokens().empty())
    if (auto const end = tokenizer.eos_id()) out.tokens.push_back(*end);
  if (!unknown_tokens.empty())
    out.note =
        concat(source.path().string(), ": eos_token_id ", unknown_tokens.front(),
               " is not one of the model's ", vocabulary, " tokens, so that it ends no text");
  else if (out.tokens.empty())
    out.note =
        concat("nothing ends a text before it is as long as allowed: ", source.path().string(),
               " names no eos_token_id, and ", tokenizer.files().name(),
               " has no end-of-text token (", why_without_end(tokenizer), ")");
  return out;
}

}  // namespace mpt
