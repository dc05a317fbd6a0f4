// `attn_config` and `block_overrides` of a config.json, as LLM Foundry's MPTConfig reads them.
#pragma once

#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/model/attention.hpp>
#include <parallel/core/error.hpp>

namespace mpt::detail {

template <class T>
[[nodiscard]] nlohmann::json json_or_null(std::optional<T> const& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

/// A whole number as a JSON integer (4.0 as 4): readers in Python expect integers where LLM Foundry
/// writes them.
[[nodiscard]] nlohmann::json json_number(double value);

/// `attn_config`. Settings that are newer than the hub's models are written only where they differ
/// from the default.
[[nodiscard]] nlohmann::json attention_json(attention_config const& attn);

/// `block_overrides`: each kind of layer once, and the order of the layers with equal neighbours as
/// a count.
[[nodiscard]] nlohmann::json overrides_json(std::vector<layer_override> const& layers);

}  // namespace mpt::detail
