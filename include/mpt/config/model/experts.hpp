// experts_config: the experts of a model's feed-forward layers, with the options of LLM Foundry's
// `ffn_config` (torch_dmoe, mb_moe, mb_dmoe) and those that other families need.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/layer/router_losses.hpp>

namespace mpt {

/// `ffn_type`: PyTorch's own loops, or MegaBlocks with or without dropped tokens. They differ in
/// defaults, initial values and in what their files hold.
enum class experts_kind : std::uint8_t { torch_dmoe, mb_dmoe, mb_moe };

/// LLM Foundry's spelling of each experts_kind.
inline constexpr std::array<std::pair<std::string_view, experts_kind>, 3> experts_kind_names{
    {{"torch_dmoe", experts_kind::torch_dmoe},
     {"mb_dmoe", experts_kind::mb_dmoe},
     {"mb_moe", experts_kind::mb_moe}}};

/// `moe_balance_set`: the spelling of each parallel::balance_set.
inline constexpr std::array<std::pair<std::string_view, parallel::balance_set>, 3>
    balance_set_names{{{"microbatch", parallel::balance_set::microbatch},
                       {"sequence", parallel::balance_set::sequence},
                       {"global_batch", parallel::balance_set::global_batch}}};

struct experts_config {
  experts_kind kind = experts_kind::mb_dmoe;
  std::int64_t count = 1;              ///< moe_num_experts
  std::int64_t top_k = 1;              ///< moe_top_k
  std::optional<std::int64_t> hidden;  ///< width of an expert; none: that of the FFN
  double weight_norm = 0;              ///< moe_normalize_expert_weights; 0: none
  double loss_weight = 0;              ///< moe_loss_weight, divided by the layers
  double bias_rate = 0;  ///< moe_bias_update_rate: of a bias that balances without a loss; 0: none
  double z_loss_weight = 0;  ///< moe_zloss_weight
  parallel::balance_set balance_set = parallel::balance_set::microbatch;
  bool joins_layers = false;   ///< the balancing loss is transformers', with means over all layers
  double jitter = 0;           ///< moe_jitter_eps
  double capacity_factor = 0;  ///< moe_capacity_factor; 0: nothing is dropped
  bool uniform = false;        ///< uniform_expert_assignment
  std::optional<std::int64_t> shared_hidden;  ///< width of an expert that all tokens use
  bool has_shared_gate = false;               ///< the shared expert has a weight of its own
  std::vector<std::int64_t> dense_layers;     ///< blocks without experts

  friend bool operator==(experts_config const&, experts_config const&) = default;
};

struct model_config;
class config_reader;

/// The experts of block i; null where its feed-forward layer is dense.
[[nodiscard]] experts_config const* experts_of_layer(model_config const& model, std::int64_t i);

/// Width of an expert's hidden layer.
[[nodiscard]] std::int64_t expert_hidden(model_config const& model);

/// Whether routers know the loads of the batch before, as parameters.
[[nodiscard]] inline bool knows_loads(experts_config const& experts) {
  return experts.loss_weight > 0 && !experts.joins_layers &&
         experts.balance_set == parallel::balance_set::global_batch;
}

/// Whether the results of a mixture have a bias, as MegaBlocks' have.
[[nodiscard]] bool has_expert_bias(model_config const& model);

/// The number of blocks with experts.
[[nodiscard]] std::int64_t expert_layer_count(model_config const& model);

/// The parameters of a feed-forward layer with experts: router, all experts and the shared one.
[[nodiscard]] std::int64_t expert_layer_parameters(model_config const& model);

/// Parameters of experts, in all layers, that a token does not use.
[[nodiscard]] std::int64_t unused_expert_parameters(model_config const& model);

/// Parameters that a token uses: all but those of the experts that are not chosen for it.
[[nodiscard]] std::int64_t used_parameter_count(model_config const& model);

/// The number of matrices [h, d] of a feed-forward layer, or of an expert.
[[nodiscard]] std::int64_t ffn_matrix_count(model_config const& model);

/// Reads the keys of experts in `ffn_config`.
void read_experts(config_reader& reader, experts_kind kind, model_config& model);

/// Fails unless a model can have these experts; `prefix` as in check_model.
void check_experts(model_config const& model, std::string_view prefix);

}  // namespace mpt
