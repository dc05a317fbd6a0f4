#include <mpt/callbacks/generate_callback.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>

#include <mpt/generate/generate.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

decoder_room room_of(generate_config const& config, index longest) {
  std::size_t bytes = 0;
  for (auto const& prompt : config.prompts) bytes = std::max(bytes, prompt.size());
  constexpr index marks = 8;
  return {.tokens =
              longest_text(3 * static_cast<index>(bytes) + marks, config.max_new_tokens, longest)};
}

bool generate_callback::is_due(std::int64_t batch, training_clock const& clock) const {
  return mpt::is_due(config_.interval, batch, clock);
}

void generate_callback::write(text_model& model, run_control& run, std::int64_t batch) const {
  if (prompts_ == nullptr) return;
  for (std::size_t i = 0; i < prompts_->ids.size(); ++i) {
    auto ids = generate(model, std::span(&prompts_->ids[i], 1),
                        {.max_new_tokens = config_.max_new_tokens,
                         .end_tokens = prompts_->end_tokens,
                         .sampling = {.temperature = config_.temperature,
                                      .top_k = config_.top_k,
                                      .top_p = config_.top_p,
                                      .seed = seed_ + static_cast<std::uint64_t>(batch)},
                         .first_text = i})
                   .front();
    std::erase_if(ids, [&](std::int32_t id) { return id >= prompts_->tokens; });  // padding rows
    auto const text = prompts_->decode(ids);
    run.say(concat("generated at ", batch, " ba: ", config_.prompts[i], " →", text));
    run.log(concat("generations/", i), config_.prompts[i] + " → " + text);
  }
}

sample_prompts read_sample_prompts(model_config const& model, data_config const& data,
                                   callbacks_config const& callbacks) {
  auto const& location = data.tokenizer.name;
  std::error_code unreadable;  // an unreadable path counts as absent
  require(std::filesystem::exists(location, unreadable),
          "callbacks.generate_callback needs the tokenizer, but tokenizer.name ", location,
          " is no folder or file here");
  auto const words = std::make_shared<tokenizer const>(tokenizer::load(location));
  require(words->size() <= model.vocab_size, "tokenizer.name ", location, ": has ", words->size(),
          " tokens, the model only ", model.vocab_size);
  sample_prompts out{
      .ids = {}, .tokens = words->size(), .decode = [words](std::span<std::int32_t const> ids) {
        return words->decode(ids, special_tokens::skip);
      }};
  if (auto const end = words->eos_id()) out.end_tokens.push_back(*end);
  for (auto const& prompt : callbacks.generate.value().prompts) {
    auto const prefix = concat("callbacks.generate_callback.prompts.", out.ids.size(), ": ");
    out.ids.push_back(words->encode(prompt));
    check_prompt(out.ids.back().size(), model.max_seq_len, prefix);
  }
  return out;
}

}  // namespace mpt
