#include <mpt/hf/generation_defaults.hpp>

#include <string_view>

#include <mpt/config/model/token_ids.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/yaml/node.hpp>
#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/file.hpp>

namespace mpt {
namespace {

/// A setting of generation_config.json that is not followed, and the value that changes nothing.
struct unfollowed_setting {
  std::string_view key;
  std::string_view neutral;  ///< as JSON; "null" alone where it is ""
  bool samples = false;      ///< it has an effect only with do_sample
};

/// The settings of transformers' GenerationConfig that change which text is generated; eos_token_id
/// and those in generation_defaults are followed.
constexpr unfollowed_setting unfollowed_settings[] = {{"bad_words_ids", ""},
                                                      {"begin_suppress_tokens", ""},
                                                      {"constraints", ""},
                                                      {"diversity_penalty", "0.0"},
                                                      {"dola_layers", ""},
                                                      {"early_stopping", "false"},
                                                      {"encoder_no_repeat_ngram_size", "0"},
                                                      {"encoder_repetition_penalty", "1.0"},
                                                      {"epsilon_cutoff", "0.0", true},
                                                      {"eta_cutoff", "0.0", true},
                                                      {"exponential_decay_length_penalty", ""},
                                                      {"force_words_ids", ""},
                                                      {"forced_bos_token_id", ""},
                                                      {"forced_eos_token_id", ""},
                                                      {"guidance_scale", "1.0"},
                                                      {"length_penalty", "1.0"},
                                                      {"max_length", "20"},
                                                      {"max_new_tokens", ""},
                                                      {"max_time", ""},
                                                      {"min_length", "0"},
                                                      {"min_new_tokens", "0"},
                                                      {"min_p", "0.0", true},
                                                      {"no_repeat_ngram_size", "0"},
                                                      {"num_beam_groups", "1"},
                                                      {"num_beams", "1"},
                                                      {"num_return_sequences", "1"},
                                                      {"penalty_alpha", "0.0"},
                                                      {"remove_invalid_values", "false"},
                                                      {"renormalize_logits", "false"},
                                                      {"sequence_bias", ""},
                                                      {"stop_strings", ""},
                                                      {"suppress_tokens", ""},
                                                      {"token_healing", "false"},
                                                      {"top_h", "", true},
                                                      {"typical_p", "1.0", true},
                                                      {"watermarking_config", ""}};

/// The settings of the file that would change the text and are not followed, each with its value.
[[nodiscard]] std::vector<std::string> unfollowed_in(nlohmann::json const& json, bool samples) {
  std::vector<std::string> out;
  for (auto const& [key, neutral, needs_sampling] : unfollowed_settings) {
    auto const found = json.find(std::string(key));
    if (found == json.end() || found->is_null() || (needs_sampling && !samples)) continue;
    bool const is_empty = found->is_structured() && found->empty();
    if (is_empty || (!neutral.empty() && *found == nlohmann::json::parse(neutral))) continue;
    out.push_back(parallel::concat(key, ' ', printable(found->dump())));
  }
  return out;
}

}  // namespace

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
  bool const samples = json.value("do_sample", nlohmann::json(false)) == true;
  out.unfollowed = unfollowed_in(json, samples);
  if (!samples) return out;
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
