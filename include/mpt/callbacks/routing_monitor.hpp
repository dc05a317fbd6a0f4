// routing_monitor: logs how a model's routers divide tokens among experts. Every run of a model
// with experts has it; `callbacks.mbmoe_tok_per_expert` adds LLM Foundry's numbers.
//
//   loss/train/loss, loss/train/lbl, loss/train/zloss, loss/train/total
//                               the cross entropy, the routers' losses, and their sum, by token
//   experts/max_load, experts/min_load
//                               tokens of the experts with the most and the fewest, as multiples of
//                               the mean, over all layers; experts/layer3/... of one layer
//   experts/entropy             of the scores, in nats; the mean over tokens and layers
//   experts/fullest_rank        tokens of the rank with the most, as a multiple of the mean
//   experts/idle                experts without a token
//   experts/dropped             the share of choices without room in an expert's capacity
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/run/callbacks.hpp>

namespace mpt {

class routing_monitor {
 public:
  static constexpr std::string_view name = "routing_monitor";

  /// `experts`: of each layer; `ranks` divide them.
  routing_monitor(std::int64_t experts, std::int64_t top_k, int ranks,
                  std::optional<tokens_per_expert_config> tokens_per_expert)
      : experts_(experts), top_k_(top_k), ranks_(ranks), tokens_per_expert_(tokens_per_expert) {}

  void batch_end(run_control& run, batch_result const& r) const;

 private:
  /// Logs LLM Foundry's numbers of some experts' tokens under `prefix`.
  void log_tokens(run_control& run, std::string const& prefix,
                  std::span<double const> tokens) const;

  std::int64_t experts_;
  std::int64_t top_k_;
  int ranks_;
  std::optional<tokens_per_expert_config> tokens_per_expert_;
};

}  // namespace mpt
