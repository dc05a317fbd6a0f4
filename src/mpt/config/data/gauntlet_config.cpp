#include <mpt/config/data/gauntlet_config.hpp>

#include <algorithm>

#include <mpt/config/data/read_icl_tasks.hpp>
#include <mpt/yaml/document.hpp>

namespace mpt::eval {
namespace {

[[nodiscard]] gauntlet_category read_category(config_reader reader) {
  gauntlet_category out{reader.required<std::string>("name"), {}};
  detail::for_each_item(reader, "benchmarks", [&](config_reader item) {
    gauntlet_benchmark benchmark{item.required<std::string>("name"),
                                 item.required<std::int64_t>("num_fewshot"),
                                 item.required<double>("random_baseline")};
    item.check("random_baseline", benchmark.random_baseline >= 0 && benchmark.random_baseline < 1,
               "expected a number from 0 to below 1, found ", benchmark.random_baseline);
    item.accept_without_effect("scorecard", "scores are accuracies");
    item.finish();
    out.benchmarks.push_back(std::move(benchmark));
  });
  reader.finish();
  return out;
}

}  // namespace

gauntlet_config read_gauntlet(config_reader reader) {
  gauntlet_config out;
  auto const weighting =
      reader.one_of("weighting", "EQUAL", {"EQUAL", "SAMPLE_SZ", "LOG_SAMPLE_SZ"});
  if (weighting == "SAMPLE_SZ") out.weighting = gauntlet_weighting::samples;
  if (weighting == "LOG_SAMPLE_SZ") out.weighting = gauntlet_weighting::log_samples;
  out.subtract_random_baseline = reader.get("subtract_random_baseline", true);
  out.rescale_accuracy = reader.get("rescale_accuracy", true);
  reader.check("rescale_accuracy", !out.rescale_accuracy || out.subtract_random_baseline,
               "needs subtract_random_baseline: true");
  detail::for_each_item(reader, "categories", [&](config_reader item) {
    out.categories.push_back(read_category(std::move(item)));
  });
  if (config_node const* const averages = reader.raw("averages"); averages != nullptr) {
    reader.check("averages", averages->is_map(), "expected a mapping of names to categories");
    auto section = reader.section("averages");
    for (auto const& key : averages->keys) {
      section.check(key.name,
                    std::ranges::find(out.categories, key.name, &gauntlet_category::name) ==
                        out.categories.end(),
                    "is a category's name, too; give the average another");
      out.averages.emplace_back(key.name, detail::read_strings(section, key.name));
    }
  } else {
    std::vector<std::string> names;
    for (auto const& category : out.categories) names.push_back(category.name);
    out.averages.emplace_back("default_average", std::move(names));
  }
  reader.finish();
  return out;
}

gauntlet_config read_gauntlet_file(std::filesystem::path const& file, config_report& report) {
  auto const document = load_document(file);
  auto const* const node = document.find("eval_gauntlet");
  parallel::require(node != nullptr && node->is_map(), document.location,
                    ": expected a mapping under eval_gauntlet");
  return read_gauntlet(config_reader(*node, "eval_gauntlet", report));
}

std::optional<gauntlet_config> read_eval_gauntlet(config_reader& reader,
                                                  std::filesystem::path const& file) {
  auto const* const node = reader.raw("eval_gauntlet");
  auto const* const name = reader.raw("eval_gauntlet_str");
  reader.check("eval_gauntlet_str", node == nullptr || name == nullptr,
               "is eval_gauntlet's other form; give one of them");
  if (node != nullptr && !node->is_scalar()) return read_gauntlet(reader.section("eval_gauntlet"));
  if (node == nullptr && name == nullptr) return std::nullopt;
  auto const key = node != nullptr ? "eval_gauntlet" : "eval_gauntlet_str";
  return read_gauntlet_file(find_near(reader, key, reader.required<std::string>(key), file),
                            reader.report());
}

}  // namespace mpt::eval
