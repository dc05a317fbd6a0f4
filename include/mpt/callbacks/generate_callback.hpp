// generate_callback: what the model makes of a few prompts, now and then while it trains.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

/// Room for any of the prompts, one at a time, and what is written behind it: a token is at least a
/// byte of a prompt, which normalisation (NFC) makes at most three times as long, and a few may
/// mark where it begins and ends.
[[nodiscard]] inline decoder_room room_of(generate_config const& config, index longest) {
  std::size_t bytes = 0;
  for (auto const& prompt : config.prompts) bytes = std::max(bytes, prompt.size());
  constexpr index marks = 8;
  return {.tokens =
              std::min(longest, 3 * static_cast<index>(bytes) + config.max_new_tokens + marks)};
}

class generate_callback {
 public:
  /// Of a configuration that has one. `reads`: whether this rank shares the model that reads the
  /// prompts; others check the settings.
  generate_callback(train_config const& config, bool reads)
      : config_(*config.callbacks.generate),
        room_(room_of(config_, config.model.max_seq_len)),
        seed_(config.seed) {
    auto const& where = config.tokenizer.name;
    require(std::filesystem::exists(where), "callbacks.generate_callback needs the tokenizer, but ",
            "tokenizer.name ", where, " is no folder or file here");
    if (!reads) return;
    words_ = tokenizer::load(where);
    require(words_->size() <= config.model.vocab_size, "tokenizer.name ", where, ": has ",
            words_->size(), " tokens, the model only ", config.model.vocab_size);
    for (auto const& prompt : config_.prompts) {
      auto const place = concat("callbacks.generate_callback.prompts.", prompts_.size(), ": ");
      prompts_.push_back(words_->encode(prompt));
      check_prompt(prompts_.back().size(), config.model.max_seq_len, place);
    }
  }

  [[nodiscard]] bool due(std::int64_t batch, training_clock const& clock) const {
    return is_due(config_.interval, batch, clock);
  }

  [[nodiscard]] decoder_room room() const { return room_; }

  /// Continues the prompts, says and logs what comes of them; nothing where this rank does not
  /// read.
  template <class Decoder>
  void write(Decoder& model, run_control& run, std::int64_t batch) const {
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      auto ids = generate(model, std::span(&prompts_[i], 1),
                          {.max_new_tokens = config_.max_new_tokens,
                           .end_of_text = words_->eos_id().value_or(-1),
                           .sampling = {.temperature = config_.temperature,
                                        .top_k = config_.top_k,
                                        .top_p = config_.top_p,
                                        .seed = seed_ + static_cast<std::uint64_t>(batch)},
                           .first = i})
                     .front();
      std::erase_if(ids, [&](std::int32_t id) { return id >= words_->size(); });  // padding rows
      auto const text = words_->decode(ids, special_tokens::skip);
      run.say(concat("generated at ", batch, " ba: ", config_.prompts[i], " →", text));
      run.log(concat("generations/", i), config_.prompts[i] + " → " + text);
    }
  }

 private:
  generate_config config_;
  decoder_room room_;
  std::uint64_t seed_;
  std::optional<tokenizer> words_;
  std::vector<std::vector<std::int32_t>> prompts_;
};

}  // namespace mpt
