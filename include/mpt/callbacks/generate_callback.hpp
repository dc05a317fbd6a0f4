// generate_callback: continues a few prompts with the model at intervals of the training run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/generate/text_model.hpp>

namespace mpt {

/// The prompts as token ids, which read_sample_prompts reads before any rank trains.
struct sample_prompts {
  std::vector<std::vector<std::int32_t>> ids;  ///< the ids of each prompt
  std::vector<std::int32_t> end_tokens = {};   ///< tokens that end a text; may be empty
  std::int64_t tokens = 0;                     ///< the number of tokens of the tokenizer
  /// Returns the text of ids of the tokenizer, without special tokens.
  std::function<std::string(std::span<std::int32_t const>)> decode;
};

/// The prompts of a configuration that has a generate_callback. Throws when the tokenizer does not
/// exist or has more tokens than the model, or a prompt is too long for the model.
[[nodiscard]] sample_prompts read_sample_prompts(model_config const& model, data_config const& data,
                                                 callbacks_config const& callbacks);

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
