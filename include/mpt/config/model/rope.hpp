// rope_config: rotary positions, and the ways to stretch their frequencies beyond the length they
// were trained on.
//
// Each way is a struct with one list of its fields. LLM Foundry's YAMLs (`rope_hf_config`) and
// transformers' config.json (`rope_scaling`) name these fields alike, so everything that reads,
// writes or checks them goes through `visit_fields` and `check`. Only the formula of the
// frequencies is elsewhere, in <mpt/model/attention_positions.hpp>.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace mpt {

/// Whether LLM Foundry lets a YAML leave a field out.
enum class field_presence { optional, required };

/// The key of the number of positions that a model was trained on.
inline constexpr std::string_view trained_positions_key = "original_max_position_embeddings";

/// Frequencies as they are.
struct unscaled_rope {
  static constexpr std::string_view type = "no_scaling";

  static void visit_fields(auto& /*scaling*/, auto&& /*visit*/) {}
  friend bool operator==(unscaled_rope const&, unscaled_rope const&) = default;
};

/// Positions are divided by `factor`.
struct linear_rope {
  static constexpr std::string_view type = "linear";
  double factor = 1;

  static void visit_fields(auto& scaling, auto&& visit) {
    visit("factor", scaling.factor, field_presence::optional);
  }
  friend bool operator==(linear_rope const&, linear_rope const&) = default;
};

/// Frequencies change only beyond max_seq_len, which no sequence here exceeds.
struct dynamic_rope {
  static constexpr std::string_view type = "dynamic";
  double factor = 1;

  static void visit_fields(auto& scaling, auto&& visit) {
    visit("factor", scaling.factor, field_presence::optional);
  }
  friend bool operator==(dynamic_rope const&, dynamic_rope const&) = default;
};

/// Llama 3's: slow frequencies are divided by `factor`, fast ones stay, smoothly in between.
struct llama3_rope {
  static constexpr std::string_view type = "llama3";
  double factor = 1;
  double low_freq_factor = 1;   ///< divided: wavelengths above original / low_freq_factor
  double high_freq_factor = 4;  ///< unchanged: wavelengths below original / high_freq_factor
  std::int64_t original_max_position_embeddings = 8192;  ///< positions trained on

  static void visit_fields(auto& scaling, auto&& visit) {
    visit("factor", scaling.factor, field_presence::required);
    visit("low_freq_factor", scaling.low_freq_factor, field_presence::required);
    visit("high_freq_factor", scaling.high_freq_factor, field_presence::required);
    visit(trained_positions_key, scaling.original_max_position_embeddings,
          field_presence::required);
  }
  void check(auto&& require) const {
    require(low_freq_factor > 0 && low_freq_factor < high_freq_factor, "low_freq_factor",
            "must be above 0 and below high_freq_factor ", high_freq_factor, ", found ",
            low_freq_factor);
  }
  friend bool operator==(llama3_rope const&, llama3_rope const&) = default;
};

/// Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023: slow
/// frequencies are divided by `factor`, fast ones stay, linearly in between.
struct yarn_rope {
  static constexpr std::string_view type = "yarn";
  double factor = 1;
  std::int64_t original_max_position_embeddings = 8192;  ///< positions trained on
  double beta_fast = 32;        ///< unchanged: more turns than this over the original positions
  double beta_slow = 1;         ///< divided: fewer turns than this
  bool truncate = true;         ///< the two bounds are rounded outwards to whole pairs
  double attention_factor = 1;  ///< queries and keys are multiplied by it

  static void visit_fields(auto& scaling, auto&& visit) {
    visit("factor", scaling.factor, field_presence::optional);
    visit(trained_positions_key, scaling.original_max_position_embeddings,
          field_presence::required);
    visit("beta_fast", scaling.beta_fast, field_presence::optional);
    visit("beta_slow", scaling.beta_slow, field_presence::optional);
    visit("truncate", scaling.truncate, field_presence::optional);
    visit("attention_factor", scaling.attention_factor, field_presence::optional);
  }
  void check(auto&& require) const {
    require(beta_slow > 0 && beta_slow < beta_fast, "beta_slow",
            "must be above 0 and below beta_fast ", beta_fast, ", found ", beta_slow);
    require(attention_factor > 0 && std::isfinite(attention_factor), "attention_factor",
            "must be a number above 0, found ", attention_factor);
  }
  friend bool operator==(yarn_rope const&, yarn_rope const&) = default;
};

/// Ding et al., "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", 2024: every
/// frequency is divided by a factor of its own, which is another one in sequences longer than those
/// trained on.
struct long_rope {
  static constexpr std::string_view type = "longrope";
  std::vector<double> short_factor;
  std::vector<double> long_factor;
  std::int64_t original_max_position_embeddings = 4096;  ///< positions trained on
  double attention_factor = 1;  ///< the turned elements of queries and keys are multiplied by it

  static void visit_fields(auto& scaling, auto&& visit) {
    visit("short_factor", scaling.short_factor, field_presence::required);
    visit("long_factor", scaling.long_factor, field_presence::required);
    visit(trained_positions_key, scaling.original_max_position_embeddings,
          field_presence::required);
    visit("attention_factor", scaling.attention_factor, field_presence::optional);
  }
  void check(auto&& require) const {
    for (auto const& [key, factors] :
         {std::pair("short_factor", &short_factor), std::pair("long_factor", &long_factor)})
      for (double const factor : *factors)
        require(factor > 0 && std::isfinite(factor), key, "must be numbers above 0, found ",
                factor);
    require(attention_factor > 0 && std::isfinite(attention_factor), "attention_factor",
            "must be a number above 0, found ", attention_factor);
  }
  friend bool operator==(long_rope const&, long_rope const&) = default;
};

/// How the frequencies of positions are stretched.
using rope_scaling =
    std::variant<unscaled_rope, linear_rope, dynamic_rope, llama3_rope, yarn_rope, long_rope>;

/// Calls visit(scaling) with a default value of every way of scaling.
void for_each_rope_scaling(auto&& visit) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (visit(std::variant_alternative_t<I, rope_scaling>{}), ...);
  }
  (std::make_index_sequence<std::variant_size_v<rope_scaling>>{});
}

/// Calls visit(key, value, field_presence) for every field of the way of scaling that is chosen.
void visit_fields(auto& scaling, auto&& visit) {
  std::visit([&](auto& chosen) { chosen.visit_fields(chosen, visit); }, scaling);
}

/// The name of the way of scaling.
[[nodiscard]] inline std::string_view type_of(rope_scaling const& scaling) {
  return std::visit([](auto const& chosen) { return chosen.type; }, scaling);
}

/// The way of scaling of this name, with defaults; nothing if none has it.
[[nodiscard]] inline std::optional<rope_scaling> rope_scaling_named(std::string_view type) {
  std::optional<rope_scaling> named;
  for_each_rope_scaling([&](auto const& scaling) {
    if (scaling.type == type) named = scaling;
  });
  return named;
}

/// Calls require(condition, key, message...) for what the fields of a way of scaling must satisfy.
void check_rope_scaling(rope_scaling const& scaling, auto&& require) {
  auto const check_chosen = [&](auto const& chosen) {
    if constexpr (requires { chosen.check(require); }) chosen.check(require);
    if constexpr (requires { chosen.factor; })
      require(chosen.factor >= 1, "factor", "must be at least 1, found ", chosen.factor);
    if constexpr (requires { chosen.original_max_position_embeddings; })
      require(chosen.original_max_position_embeddings > 0, trained_positions_key,
              "must be above 0, found ", chosen.original_max_position_embeddings);
  };
  std::visit(check_chosen, scaling);
}

/// Rotary positions. rope_impl dail (type original) and hf (type no_scaling) are the same
/// arithmetic; only dail has type xpos.
struct rope_config {
  double theta = 10000;
  rope_scaling scaling = {};
  /// Elements at the beginning of each head that are turned; none: all
  std::optional<std::int64_t> rotary_dim = std::nullopt;
  /// Base of xpos (rope_impl dail): a smaller base makes scores fade over a shorter distance
  std::optional<double> xpos_scale_base = std::nullopt;

  friend bool operator==(rope_config const&, rope_config const&) = default;
};

}  // namespace mpt
