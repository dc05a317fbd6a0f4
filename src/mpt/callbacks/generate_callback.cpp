#include <mpt/callbacks/generate_callback.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace mpt {

decoder_room room_of(generate_config const& config, index longest) {
  std::size_t bytes = 0;
  for (auto const& prompt : config.prompts) bytes = std::max(bytes, prompt.size());
  constexpr index marks = 8;
  return {.tokens =
              std::min(longest, 3 * static_cast<index>(bytes) + config.max_new_tokens + marks)};
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

}  // namespace mpt
