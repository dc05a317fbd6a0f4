#include <mpt/config/model/family_form.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <variant>

#include <fmt/ranges.h>

#include <mpt/yaml/node.hpp>

namespace mpt {
namespace {

using activation_name = std::pair<std::string_view, parallel::ops::activation_kind>;

/// transformers' names of activation functions; the first name of a kind is written.
constexpr std::array<activation_name, 8> hf_activation_names{
    {{"silu", parallel::ops::activation_kind::silu},
     {"swish", parallel::ops::activation_kind::silu},
     {"gelu", parallel::ops::activation_kind::gelu},
     {"gelu_new", parallel::ops::activation_kind::gelu_tanh},
     {"gelu_pytorch_tanh", parallel::ops::activation_kind::gelu_tanh},
     {"gelu_fast", parallel::ops::activation_kind::gelu_tanh},
     {"quick_gelu", parallel::ops::activation_kind::quick_gelu},
     {"relu", parallel::ops::activation_kind::relu}}};

/// The fields of a section of rotary settings, of every type (transformers' modeling_rope_utils);
/// `finetuned`, a remark that files with YaRN carry, changes nothing there either.
constexpr std::array<std::string_view, 17> rotary_section_keys{
    "rope_type",        "type",
    "rope_theta",       "factor",
    "finetuned",        "original_max_position_embeddings",
    "beta_fast",        "low_freq_factor",
    "high_freq_factor", "beta_slow",
    "truncate",         "partial_rotary_factor",
    "mscale",           "mscale_all_dim",
    "attention_factor", "short_factor",
    "long_factor"};

[[nodiscard]] bool is_off(nlohmann::json const& value) {
  return value.is_null() || value == false || (value.is_number() && value == 0);
}

/// YaRN's factor on queries and keys where the file does not give it (transformers'
/// modeling_rope_utils).
[[nodiscard]] double yarn_attention_factor(double factor, double scale, double scale_all) {
  auto const growth = [&](double multiplier) {
    return factor <= 1 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0;
  };
  return scale != 0 && scale_all != 0 ? growth(scale) / growth(scale_all) : growth(1);
}

}  // namespace

nlohmann::json family_form::value(std::string_view key) {
  known_.emplace(key);
  auto const found = json_.find(std::string(key));
  return found == json_.end() ? nlohmann::json() : *found;
}

family_form family_form::section(std::string_view key) {
  if (writes_) return family_form();
  auto const found = value(key);
  require(found.is_null() || found.is_object(), key, "expected an object, found ",
          printable(found.dump()));
  return {found.is_null() ? nlohmann::json::object() : found, parallel::concat(source_, ": ", key)};
}

void family_form::put(std::string_view key, nlohmann::json value) {
  if (writes_) json_[std::string(key)] = std::move(value);
}

void family_form::count(std::string_view key, std::int64_t& number) {
  if (writes_) return put(key, number);
  auto const found = value(key);
  require(!found.is_null(), key, "is missing; a model's size is not guessed");
  field(key, number, 0);
}

nlohmann::json family_form::value_or_absent(std::string_view key) {
  auto found = value(key);
  require(!found.is_null() || !json_.contains(key), key,
          "is null, which versions of transformers read differently or not at all; leave the field "
          "out for its default");
  return found;
}

void family_form::field(std::string_view key, std::int64_t& number, std::int64_t fallback) {
  if (writes_) return put(key, number);
  static_cast<void>(value_or_absent(key));
  optional_field(key, number, fallback);
}

void family_form::optional_count(std::string_view key, std::optional<std::int64_t>& number) {
  if (writes_) {
    if (number) put(key, *number);
    return;
  }
  auto const found = value(key);
  number.reset();
  if (found.is_null()) return;
  constexpr std::int64_t largest = std::int64_t{1} << 40;
  bool const is_count = found.is_number_integer() && found >= 1 && found <= largest;
  require(is_count, key, "expected a whole number above 0, found ", printable(found.dump()));
  number = found.get<std::int64_t>();
}

void family_form::field(std::string_view key, double& number, double fallback) {
  if (writes_) return put(key, number);
  static_cast<void>(value_or_absent(key));
  optional_field(key, number, fallback);
}

void family_form::optional_field(std::string_view key, std::int64_t& number,
                                 std::int64_t fallback) {
  std::optional<std::int64_t> found;
  optional_count(key, found);
  number = found.value_or(fallback);
}

void family_form::numbers(std::string_view key, std::vector<double>& list) {
  auto const found = value(key);
  list.clear();
  require(found.is_array(), key, "expected a list of numbers, found ", printable(found.dump()));
  for (auto const& number : found) {
    require(number.is_number(), key, "expected numbers, found ", printable(number.dump()));
    list.push_back(number.get<double>());
  }
}

void family_form::optional_field(std::string_view key, bool& flag, bool fallback) {
  field(key, flag, fallback);
}

void family_form::optional_field(std::string_view key, double& number, double fallback) {
  auto const found = value(key);
  number = fallback;
  if (found.is_null()) return;
  require(found.is_number(), key, "expected a number, found ", printable(found.dump()));
  number = found.get<double>();
}

void family_form::field(std::string_view key, bool& flag, bool fallback) {
  if (writes_) return put(key, flag);
  auto const found = fallback ? value_or_absent(key) : value(key);  // null counts as false
  flag = fallback;
  if (found.is_null()) return;
  require(found.is_boolean(), key, "expected true or false, found ", printable(found.dump()));
  flag = found.get<bool>();
}

void family_form::probability(std::string_view key, double& number, double fallback) {
  field(key, number, fallback);
  require(number >= 0 && number < 1, key, "expected a number from 0 to below 1, found ", number);
}

void family_form::epsilon(std::string_view key, double& number, double fallback) {
  field(key, number, fallback);
  require(number > 0 && number < 1, key, "expected a number above 0 and below 1, found ", number);
}

void family_form::require_value(std::string_view key, nlohmann::json const& expected,
                                std::string_view advice, bool may_be_absent) {
  if (writes_) return put(key, expected);
  auto const found = value(key);
  require(found == expected || (may_be_absent && found.is_null()), key, "is ",
          printable(found.dump()), ", expected ", expected.dump(), "; ", advice);
}

void family_form::require_off(std::string_view key, std::string_view advice) {
  if (writes_) return;
  auto const found = value(key);
  require(is_off(found), key, "is ", printable(found.dump()), "; ", advice);
}

void family_form::activation(std::string_view key, parallel::ops::activation_kind& kind,
                             std::string_view fallback) {
  if (writes_) {
    auto const* const name = std::ranges::find(hf_activation_names, kind, &activation_name::second);
    parallel::require(name != hf_activation_names.end(), key,
                      ": transformers has no name for this model's activation");
    return put(key, name->first);
  }
  auto const found = value_or_absent(key);
  std::string const name =
      found.is_null() ? std::string(fallback) : (found.is_string() ? found.get<std::string>() : "");
  auto const* const known =
      std::ranges::find(hf_activation_names, std::string_view(name), &activation_name::first);
  require(known != hf_activation_names.end(), key, "is ", printable(found.dump()),
          "; the activations here are silu, gelu, gelu_new, quick_gelu and relu");
  kind = known->second;
}

void family_form::sizes(model_config& model) {
  count("vocab_size", model.vocab_size);
  count("hidden_size", model.d_model);
  count("num_hidden_layers", model.n_layers);
  count("num_attention_heads", model.n_heads);
  std::int64_t hidden = ffn_hidden(model);
  count("intermediate_size", hidden);
  model.ffn_hidden_size = hidden;
}

void family_form::attention_bias(model_config& model, bool fallback) {
  bool has_bias = has_attention_bias(model);
  field("attention_bias", has_bias, fallback);
  if (writes_ || has_bias == !model.no_bias) return;
  model.attention_bias = has_bias;
  model.out_proj_bias = has_bias;
}

void family_form::initial_values(init_config& init, bool divides_residual, double usual) {
  double deviation = init.init_std.value_or(usual);
  field("initializer_range", deviation, usual);
  require(deviation >= 0, "initializer_range", "a standard deviation cannot be negative, found ",
          deviation);
  if (writes_) return;
  init.name = init_scheme::baseline;
  init.emb_init_std = deviation;
  init.init_std = deviation;
  init.init_div_is_residual = divides_residual;
}

void family_form::rotary(model_config& model, rotary_keys const& keys) {
  if (writes_)
    write_rotary(model, keys);
  else
    read_rotary(model, keys);
}

double family_form::rotary_number(family_form& section, std::string_view key,
                                  std::string_view outer_key, double fallback) {
  double number = fallback;
  field(outer_key, number, fallback);
  auto const inner = section.value(key);
  auto const outer = value(outer_key);
  require(inner.is_null() || outer.is_null() || inner == outer, outer_key, "is ", outer.dump(),
          ", but ", key, " of the rotary settings is ", printable(inner.dump()),
          "; versions of transformers differ in which of them they take, so leave one out");
  section.optional_field(key, number, number);
  auto const older = value(key);
  if (outer_key != key && !older.is_null() && older != number)
    add_note(parallel::concat(key, " ", printable(older.dump()),
                              " has no effect, since transformers takes ", outer_key, " (", number,
                              ")"));
  return number;
}

void family_form::read_rotary(model_config& model, rotary_keys const& keys) {
  auto parameters = value("rope_parameters");
  if (!keys.part.empty() && parameters.is_object())
    parameters = parameters.value(std::string(keys.part), nlohmann::json());
  auto const scaling = value("rope_scaling");
  bool const is_older = parameters.is_null() || !(scaling.is_null() || scaling.empty());
  std::string_view const section_key = is_older ? "rope_scaling" : "rope_parameters";
  auto const& settings = is_older ? scaling : parameters;
  if (is_older && !parameters.empty())
    add_note("rope_parameters has no effect, since transformers takes rope_scaling");
  require(settings.is_null() || settings.is_object(), section_key, "expected an object, found ",
          printable(settings.dump()));
  family_form section(settings.is_null() ? nlohmann::json::object() : settings,
                      parallel::concat(source_, ": ", section_key));
  section.require_rotary_keys();
  rope_config rope;
  rope.theta = rotary_number(section, "rope_theta", keys.theta, keys.default_theta);
  constexpr std::string_view fraction_key = "partial_rotary_factor";
  if (keys.fraction.empty()) {
    for (auto* const form : {this, &section}) {
      auto const fraction = form->value(fraction_key);
      form->require(fraction.is_null() || fraction == 1, fraction_key, "is ",
                    printable(fraction.dump()),
                    "; heads of this family are turned whole: leave the field out");
    }
  } else {
    double const fraction =
        rotary_number(section, fraction_key, keys.fraction, keys.default_fraction);
    require(fraction > 0 && fraction <= 1, keys.fraction, "must be above 0 and at most 1, found ",
            fraction);
    auto const width = static_cast<double>(head_dim(model));
    if (fraction < 1) rope.rotary_dim = static_cast<std::int64_t>(width * fraction);
  }
  if (auto const type = section.read_rotary_type(); !type.is_null() && type != "default")
    rope.scaling = section.read_scaling(type, *this, model.max_seq_len, keys);
  for (auto const& [key, unused] : section.json_.items())
    if (!section.known_.contains(key))
      unread_section_keys_.push_back(parallel::concat(section_key, '.', key));
  model.attn.rope = rope;
}

nlohmann::json family_form::read_rotary_type() {
  static_cast<void>(value("finetuned"));
  auto const type = value("rope_type");
  auto const older = value("type");
  require(type.is_null() || older.is_null() || type == older, "rope_type", "is ",
          printable(type.dump()), ", but type is ", printable(older.dump()),
          "; versions of transformers differ in which of them they take, so leave one out");
  if (!type.is_null() || !older.is_null()) return type.is_null() ? older : type;
  for (auto const& [key, setting] : json_.items())
    require(
        known_.contains(key) || setting.is_null(), "rope_type", "is missing, without which ", key,
        " has no effect; the types here are default, linear, dynamic, llama3, yarn and longrope");
  return nullptr;
}

void family_form::require_rotary_keys() const {
  for (auto const& [key, unused] : json_.items())
    require(std::ranges::find(rotary_section_keys, key) != rotary_section_keys.end(),
            printable(key), "is no setting of rotary positions that is read; its settings are ",
            fmt::format("{}", fmt::join(rotary_section_keys, ", ")));
}

rope_scaling family_form::read_scaling(nlohmann::json const& type, family_form& file,
                                       std::int64_t positions, rotary_keys const& keys) {
  auto const named = type.is_string() ? rope_scaling_named(type.get<std::string>()) : std::nullopt;
  require(named && !std::holds_alternative<unscaled_rope>(*named),
          value("rope_type").is_null() ? "type" : "rope_type", "is ", printable(type.dump()),
          "; the types here are default, linear, dynamic, llama3, yarn and longrope");
  auto scaling = *named;
  double const unset = 0;
  auto const set_fallbacks = [&](auto& chosen) {
    if constexpr (requires { chosen.factor; }) chosen.factor = unset;
    if constexpr (requires { chosen.original_max_position_embeddings; })
      chosen.original_max_position_embeddings =
          keys.trained_positions > 0 ? keys.trained_positions : positions;
  };
  std::visit(set_fallbacks, scaling);
  visit_fields(scaling, [&](std::string_view key, auto& number, field_presence need) {
    // The number of positions trained on may also stand next to the section.
    auto const outer = key == trained_positions_key ? file.value(key) : nlohmann::json();
    auto const inner = value(key);
    require(outer.is_null() || inner.is_null() || outer == inner, key, "is ",
            printable(inner.dump()), ", but ", printable(outer.dump()),
            " next to the section; versions of transformers differ in which of them they take, so "
            "leave one out");
    if constexpr (requires { number.push_back(0.0); }) {
      require(need == field_presence::optional || !inner.is_null(), key, "is missing; rope_type ",
              type_of(scaling), " needs it");
      numbers(key, number);
    } else {
      (outer.is_null() ? *this : file).optional_field(key, number, number);
    }
  });
  if (auto* const yarn = std::get_if<yarn_rope>(&scaling)) {
    if (yarn->factor == unset)
      yarn->factor = static_cast<double>(positions) /
                     static_cast<double>(yarn->original_max_position_embeddings);
    double scale = unset;
    double scale_all = unset;
    optional_field("mscale", scale, unset);
    optional_field("mscale_all_dim", scale_all, unset);
    optional_field("attention_factor", yarn->attention_factor,
                   yarn_attention_factor(yarn->factor, scale, scale_all));
  }
  if (auto* const longrope = std::get_if<long_rope>(&scaling)) {
    double const trained = static_cast<double>(longrope->original_max_position_embeddings);
    double factor = unset;
    optional_field("factor", factor, static_cast<double>(positions) / trained);
    double const usual = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(trained));
    optional_field("attention_factor", longrope->attention_factor, usual);
  }
  auto const check_factor = [&](auto const& chosen) {
    if constexpr (requires { chosen.factor; })
      require(chosen.factor >= 1, "factor", "expected a number of at least 1, found ",
              printable(value("factor").dump()));
  };
  std::visit(check_factor, scaling);
  if (auto const* const llama3 = std::get_if<llama3_rope>(&scaling)) {
    for (std::string_view const key : {"low_freq_factor", "high_freq_factor"})
      require(!value(key).is_null(), key, "is missing; rope_type llama3 needs it");
    llama3->check([&](bool is_met, std::string_view key, auto const&... explanation) {
      require(is_met, key, explanation...);
    });
  }
  return scaling;
}

void family_form::write_rotary(model_config const& model, rotary_keys const& keys) {
  parallel::require(model.attn.rope.has_value(),
                    "the model's family needs rotary positions, which it does not have");
  auto const& rope = *model.attn.rope;
  put(keys.theta, rope.theta);
  if (!keys.fraction.empty()) {
    auto const width = static_cast<double>(head_dim(model));
    auto const turned = rope.rotary_dim.value_or(head_dim(model));
    double fraction = static_cast<double>(turned) / width;
    if (static_cast<std::int64_t>(width * fraction) < turned)
      fraction = std::nextafter(fraction, 2);
    put(keys.fraction, fraction);
  }
  nlohmann::json scaling;
  visit_fields(rope.scaling, [&](std::string_view key, auto const& number, field_presence) {
    scaling["rope_type"] = type_of(rope.scaling);
    scaling[std::string(key)] = number;
    if (keys.trained_positions > 0 && key == trained_positions_key) put(key, number);
  });
  put("rope_scaling", std::move(scaling));
}

}  // namespace mpt
