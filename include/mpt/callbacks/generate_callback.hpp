// generate_callback: what the model makes of a few prompts, now and then while it trains.
//
// Rank 0 alone continues them: up to ZeRO stage 2 it holds all weights. The others wait at the
// next reduction.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

template <class T, class Device>
class generate_callback {
 public:
  static constexpr std::string_view name = "generate_callback";

  /// All must outlive it. `silent` ranks check the settings and do nothing more.
  generate_callback(train_config const& config, training_clock const& clock, model<T> const& net,
                    Device& device, typename Device::stream_type& stream, bool silent)
      : config_(*config.callbacks.generate),
        seed_(config.seed),
        clock_(clock),
        net_(net),
        device_(device),
        stream_(stream) {
    auto const& where = config.tokenizer.name;
    require(std::filesystem::exists(where), "callbacks.generate_callback needs the tokenizer, but ",
            "tokenizer.name ", where, " is no folder or file here");
    if (silent) return;
    words_ = std::make_unique<tokenizer const>(tokenizer::load(where));
    require(words_->size() <= net.config().vocab_size, "tokenizer.name ", where, ": has ",
            words_->size(), " tokens, the model only ", net.config().vocab_size);
    for (auto const& prompt : config_.prompts) prompts_.push_back(words_->encode(prompt));
  }

  void batch_end(run_control& run, batch_result const& r) {
    if (!words_ || !is_due(config_.interval, r.batch, clock_)) return;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      auto ids = generate(net_, device_, stream_, prompts_[i],
                          {.max_new_tokens = config_.max_new_tokens,
                           .end_of_text = words_->eos_id().value_or(-1),
                           .sampling = {.temperature = config_.temperature,
                                        .top_k = config_.top_k,
                                        .top_p = config_.top_p,
                                        .seed = seed_ + static_cast<std::uint64_t>(r.batch)}});
      std::erase_if(ids, [&](std::int32_t id) { return id >= words_->size(); });  // padding rows
      auto const text = words_->decode(ids, special_tokens::skip);
      run.say(concat("generated at ", r.batch, " ba: ", config_.prompts[i], " →", text));
      run.log(concat("generations/", i), config_.prompts[i] + " → " + text);
    }
  }

 private:
  generate_config config_;
  std::uint64_t seed_;
  training_clock clock_;
  model<T> const& net_;
  Device& device_;
  typename Device::stream_type& stream_;
  std::unique_ptr<tokenizer const> words_;
  std::vector<std::vector<std::int32_t>> prompts_;
};

}  // namespace mpt
