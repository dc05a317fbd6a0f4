// The configuration of an evaluation gauntlet (icl_report.hpp): `eval_gauntlet` in the form of LLM
// Foundry's YAML.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/yaml/node.hpp>
#include <mpt/yaml/reader.hpp>
#include <mpt/yaml/report.hpp>

namespace mpt::eval {

/// The weights of a category's benchmarks.
enum class gauntlet_weighting : std::uint8_t { equal, samples, log_samples };

/// A task of a category, with the accuracy of guessing.
struct gauntlet_benchmark {
  std::string name;
  std::int64_t shots = 0;
  double random_baseline = 0;

  friend bool operator==(gauntlet_benchmark const&, gauntlet_benchmark const&) = default;
};

/// Benchmarks whose scores are averaged.
struct gauntlet_category {
  std::string name;
  std::vector<gauntlet_benchmark> benchmarks;

  friend bool operator==(gauntlet_category const&, gauntlet_category const&) = default;
};

struct gauntlet_config {
  gauntlet_weighting weighting = gauntlet_weighting::equal;
  bool subtract_random_baseline = true;
  bool rescale_accuracy = true;
  std::vector<gauntlet_category> categories;
  std::vector<std::pair<std::string, std::vector<std::string>>> averages;

  friend bool operator==(gauntlet_config const&, gauntlet_config const&) = default;
};

namespace detail {

/// Calls f(reader) with each mapping of the list under `key`.
template <class F>
void for_each_item(config_reader& reader, std::string_view key, F&& f) {
  config_node const* const list = reader.raw(key);
  reader.check(key, list != nullptr && list->is_list() && !list->items.empty(),
               "expected a list of mappings");
  for (std::size_t i = 0; i < list->items.size(); ++i)
    f(config_reader(list->items[i], parallel::concat(reader.full_name(key), ".", i),
                    reader.report()));
}

}  // namespace detail

/// Reads a gauntlet's mapping.
[[nodiscard]] gauntlet_config read_gauntlet(config_reader reader);

/// Reads a gauntlet's own file.
[[nodiscard]] gauntlet_config read_gauntlet_file(std::filesystem::path const& file,
                                                 config_report& report);

/// Reads the gauntlet of a configuration: `eval_gauntlet`, a mapping or a file's name, or
/// `eval_gauntlet_str`.
[[nodiscard]] std::optional<gauntlet_config> read_eval_gauntlet(config_reader& reader,
                                                                std::filesystem::path const& file);

}  // namespace mpt::eval
