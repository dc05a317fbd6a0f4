// published_row: a training step that somebody published, as a run of our own: model, layout and
// batch.
//
// The columns are those of a table of published steps: source, model, params, layers, hidden, seq,
// gpu, gpus, dp, tp, pp, cp, ep, zero, micro_batch (or mbs), global_batch (or gbs), precision,
// recompute, notes; heads, ffn, query_groups, vocab, vpp and sp where they are known. An empty
// field is not known. What a row does not say of its model is taken from the models of that name
// or family.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mpt/config/train.hpp>

namespace mpt {

class published_row {
 public:
  /// `fields`: an object of texts by column; `location` begins messages.
  published_row(nlohmann::json fields, std::string location)
      : fields_(std::move(fields)), location_(std::move(location)) {}
  /// A row that was read in another form, with the checksum of that form.
  published_row(nlohmann::json fields, std::string location, std::uint64_t checksum)
      : fields_(std::move(fields)), location_(std::move(location)), checksum_(checksum) {}

  /// The text of a column; "" where it is empty or missing.
  [[nodiscard]] std::string text(std::string_view column) const;
  /// The number of a column, if there is one. Throws `error` for text that is no number.
  [[nodiscard]] std::optional<double> number(std::string_view column) const;
  /// The whole number of a column. Throws `error` that names the column if it has none.
  [[nodiscard]] int whole(std::string_view column, std::optional<int> fallback = {}) const;
  [[nodiscard]] std::string const& location() const { return location_; }
  /// Whether the width and the layers are those of a model with as many parameters, since neither
  /// the row nor the name of the model says them.
  [[nodiscard]] bool has_derived_size() const;
  /// Whether the products are in fp8, with any recipe of scales. Throws `error` unless they are in
  /// that or in two bytes.
  [[nodiscard]] bool is_in_fp8() const;
  /// Whether the step trains low-rank adapters only, by the notes.
  [[nodiscard]] bool trains_adapters() const;
  /// A checksum of all fields as they were read.
  [[nodiscard]] std::uint64_t checksum() const;
  /// Seconds of the step, from the column step_s or the tokens a second; none if neither is there.
  [[nodiscard]] std::optional<double> seconds() const;

  /// The row as the YAML of a run. Throws `error` with the reason where it cannot be one: a model
  /// with experts, degrees that do not multiply to the number of GPUs, a missing number.
  [[nodiscard]] std::string yaml() const;

  /// The name of the device in clusters.yaml. Throws `error` for a GPU that is not known.
  [[nodiscard]] std::string device() const;
  /// The name of the cluster as read_cluster takes it. Throws `error` for a GPU that is not known.
  [[nodiscard]] std::string cluster() const;

 private:
  nlohmann::json fields_;
  std::string location_;
  std::optional<std::uint64_t> checksum_ = {};
};

}  // namespace mpt
