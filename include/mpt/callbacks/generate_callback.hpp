// generate_callback: continues a few prompts with the model at intervals of the training run.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <mpt/callbacks/callback.hpp>
#include <mpt/callbacks/sample_prompts.hpp>
#include <mpt/config/train.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/generate/text_model.hpp>

namespace mpt {

/// Room for the longest prompt and its new tokens, one prompt at a time. A token takes at least one
/// byte of the prompt, normalisation (NFC) makes the prompt at most three times as long, and a few
/// tokens may mark its beginning and end.
[[nodiscard]] decoder_room room_of(generate_config const& config, index longest);

class generate_callback {
 public:
  /// `prompts`: the prompts of `config`, or null on a rank that does not take part in reading them.
  generate_callback(generate_config config, model_config const& model, run_config const& run,
                    std::shared_ptr<sample_prompts const> prompts)
      : config_(std::move(config)),
        room_(room_of(config_, model.max_seq_len)),
        seed_(run.seed),
        prompts_(std::move(prompts)) {}

  [[nodiscard]] bool is_due(std::int64_t batch, training_clock const& clock) const;

  [[nodiscard]] decoder_room room() const { return room_; }

  /// Continues the prompts, prints the texts and logs them. Does nothing on a rank without prompts.
  void write(text_model& model, run_control& run, std::int64_t batch) const;

 private:
  generate_config config_;
  decoder_room room_;
  std::uint64_t seed_;
  std::shared_ptr<sample_prompts const> prompts_;
};

}  // namespace mpt
