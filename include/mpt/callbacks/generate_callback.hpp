// generate_callback: continues a few prompts with the model at intervals of the training run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/callbacks/callback.hpp>
#include <mpt/callbacks/sample_prompts.hpp>
#include <mpt/config/train.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/generate/text_model.hpp>

namespace mpt {

/// Room for the longest prompt and its new tokens, one prompt at a time. A token takes at least one
/// byte of the prompt, normalisation (NFC) makes the prompt at most three times as long, and a few
/// tokens may mark its beginning and end.
[[nodiscard]] inline decoder_room room_of(generate_config const& config, index longest) {
  std::size_t bytes = 0;
  for (auto const& prompt : config.prompts) bytes = std::max(bytes, prompt.size());
  constexpr index marks = 8;
  return {.tokens =
              std::min(longest, 3 * static_cast<index>(bytes) + config.max_new_tokens + marks)};
}

class generate_callback {
 public:
  /// The configuration must have a generate_callback. `prompts`: its prompts, or null on a rank
  /// that does not take part in reading them.
  generate_callback(train_config const& config, std::shared_ptr<sample_prompts const> prompts)
      : config_(*config.callbacks.generate),
        room_(room_of(config_, config.model.max_seq_len)),
        seed_(config.seed),
        prompts_(std::move(prompts)) {}

  [[nodiscard]] bool is_due(std::int64_t batch, training_clock const& clock) const {
    return mpt::is_due(config_.interval, batch, clock);
  }

  [[nodiscard]] decoder_room room() const { return room_; }

  /// Continues the prompts, prints the texts and logs them. Does nothing on a rank without prompts.
  void write(text_model& model, run_control& run, std::int64_t batch) const {
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
      auto const text = prompts_->text_of(ids);
      run.say(concat("generated at ", batch, " ba: ", config_.prompts[i], " →", text));
      run.log(concat("generations/", i), config_.prompts[i] + " → " + text);
    }
  }

 private:
  generate_config config_;
  decoder_room room_;
  std::uint64_t seed_;
  std::shared_ptr<sample_prompts const> prompts_;
};

}  // namespace mpt
