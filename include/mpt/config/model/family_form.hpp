// family_form: one description of a family's config.json that reads it and writes it.
//
// A family names each field of its config.json once, with the option of the model that it means.
// The form is either read from a file, or filled in from a model:
//
//   void describe(family_form& form, model_config& model) {
//     form.count("hidden_size", model.d_model);
//     form.field("rms_norm_eps", model.norm_eps, 1e-6);
//     form.activation("hidden_act", model.ffn_act_fn, "silu");
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/model.hpp>
#include <mpt/config/model/attention.hpp>

namespace mpt {

/// The keys of a family's rotary positions next to their section; in the section they are
/// rope_theta and partial_rotary_factor.
struct rotary_keys {
  std::string_view theta = "rope_theta";
  std::string_view fraction = "";  ///< key of the share of each head that is turned; "": all of it
  double default_fraction = 1;
  double default_theta = 10000;
  std::int64_t trained_positions =
      0;                       ///< default of original_max_position_embeddings next to the
                               ///< section, where it is written too; 0: the longest sequence
  std::string_view part = "";  ///< key of the part of rope_parameters that the model's own layers
                               ///< have, where layers with a window have another (Gemma 3)
};

class family_form {
 public:
  /// Reads `json`, an object; `source` names it in messages.
  family_form(nlohmann::json const& json, std::string source)
      : json_(json), source_(std::move(source)) {}
  /// Fills in an empty form.
  explicit family_form() : writes_(true) {}

  [[nodiscard]] bool writes() const { return writes_; }

  /// A whole number above 0 that the file must have.
  void count(std::string_view key, std::int64_t& value);
  /// Optional fields: absent reads as `fallback`, transformers' default. Null reads as false, and
  /// is refused where that is not the default, and for a number.
  void field(std::string_view key, std::int64_t& value, std::int64_t fallback);
  void field(std::string_view key, double& value, double fallback);
  void field(std::string_view key, bool& value, bool fallback);
  /// The same where null means the default as well.
  void optional_field(std::string_view key, std::int64_t& value, std::int64_t fallback);
  void optional_field(std::string_view key, double& value, double fallback);
  void optional_field(std::string_view key, bool& value, bool fallback);
  /// A list of numbers, which the file must have.
  void numbers(std::string_view key, std::vector<double>& list);
  /// A number from 0 to below 1, such as a probability of dropout; absent reads as
  /// `fallback`.
  void probability(std::string_view key, double& value, double fallback);
  /// A number above 0 and below 1, which is added to a variance; absent reads as
  /// `fallback`.
  void epsilon(std::string_view key, double& value, double fallback);
  /// A whole number above 0; null or absent reads as none, and none is not written.
  void optional_count(std::string_view key, std::optional<std::int64_t>& value);
  /// A field that must have this value, or be absent where `may_be_absent`; `advice` ends the
  /// message about another value.
  void require_value(std::string_view key, nlohmann::json const& value, std::string_view advice,
                     bool may_be_absent = true);
  /// A field that can only be off: false, null, 0 or absent. It is not written.
  void require_off(std::string_view key, std::string_view advice);
  /// The activation function under its name in transformers.
  void activation(std::string_view key, parallel::ops::activation_kind& kind,
                  std::string_view fallback);
  /// vocab_size, hidden_size, num_hidden_layers, num_attention_heads and intermediate_size, which
  /// the file must have.
  void sizes(model_config& model);
  /// attention_bias: whether all projections of attention have a bias. `model.no_bias` is set
  /// before.
  void attention_bias(model_config& model, bool fallback);
  /// initializer_range, `usual` where it is absent: the standard deviation of initial values, those
  /// of projections back to the residual stream divided by sqrt(2 * layers) or not. Throws for a
  /// negative one.
  void initial_values(init_config& init, bool divides_residual, double usual = 0.02);
  /// Rotary positions, as `rope_parameters` or in the fields of earlier versions of transformers,
  /// with all types that are supported.
  void rotary(model_config& model, rotary_keys const& keys);

  /// The form of a nested section, empty where the file has none. Its description is followed by
  /// put(key, section.json()).
  [[nodiscard]] family_form section(std::string_view key);

  /// The value of a key in the file; null where it has none.
  [[nodiscard]] nlohmann::json value(std::string_view key);
  /// Writes a field; nothing when the form is read.
  void put(std::string_view key, nlohmann::json value);
  /// Fails with a message about a field.
  template <class... Parts>
  void require(bool condition, std::string_view key, Parts const&... parts) const {
    parallel::require(condition, source_, ": ", key, ": ", parts...);
  }

  /// Adds a note about the file for the user, a sentence that begins with the field's name.
  void add_note(std::string_view note) { notes_.push_back(parallel::concat(source_, ": ", note)); }
  [[nodiscard]] std::vector<std::string> const& notes() const { return notes_; }
  /// The settings in the section of rotary positions that its type does not have, each with the
  /// section's name.
  [[nodiscard]] std::vector<std::string> const& unread_section_keys() const {
    return unread_section_keys_;
  }

  /// The keys that were named, known to the family.
  [[nodiscard]] std::set<std::string> const& known_keys() const { return known_; }
  [[nodiscard]] nlohmann::json const& json() const { return json_; }

 private:
  void read_rotary(model_config& model, rotary_keys const& keys);
  /// Fails for a field of this section of rotary settings that no type of scaling has.
  void require_rotary_keys() const;
  /// The value of a key, null where it is absent. Throws where the file has it as null.
  [[nodiscard]] nlohmann::json value_or_absent(std::string_view key);
  /// The number of `key` in a section of rotary settings, else of `outer_key` next to it. Throws
  /// when both are there and differ.
  [[nodiscard]] double rotary_number(family_form& section, std::string_view key,
                                     std::string_view outer_key, double fallback);
  /// The type of scaling that this section of rotary settings names; null where it names none.
  [[nodiscard]] nlohmann::json read_rotary_type();
  /// Reads the settings of a type of scaling in this section of `file`; `positions`: the longest
  /// sequence of the model.
  [[nodiscard]] rope_scaling read_scaling(nlohmann::json const& type, family_form& file,
                                          std::int64_t positions, rotary_keys const& keys);
  void write_rotary(model_config const& model, rotary_keys const& keys);

  nlohmann::json json_ = nlohmann::json::object();
  std::string source_;
  bool writes_ = false;
  std::set<std::string> known_;
  std::vector<std::string> notes_;
  std::vector<std::string> unread_section_keys_;
};

}  // namespace mpt
