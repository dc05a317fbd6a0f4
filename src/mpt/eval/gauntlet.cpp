#include <mpt/eval/gauntlet.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace mpt::eval {

gauntlet_result score_gauntlet(gauntlet_config const& config, std::span<task_result const> tasks) {
  gauntlet_result out;
  for (auto const& category : config.categories) {
    double sum = 0, weights = 0;
    std::string missing;
    for (auto const& benchmark : category.benchmarks) {
      auto const task = std::ranges::find_if(tasks, [&](task_result const& result) {
        return result.label == benchmark.name && result.shots == benchmark.shots;
      });
      if (task == tasks.end()) {
        missing = parallel::concat(benchmark.name, "/", benchmark.shots, "-shot");
        break;
      }
      double score = task->accuracy();
      if (config.subtract_random_baseline) score -= benchmark.random_baseline;
      if (config.rescale_accuracy) score /= 1 - benchmark.random_baseline;
      double weight = 1;
      if (config.weighting != gauntlet_weighting::equal)
        weight = static_cast<double>(std::max<std::size_t>(task->rows(), 1));
      if (config.weighting == gauntlet_weighting::log_samples)
        weight = std::max(std::log2(weight), 1.0);
      sum += score * weight;
      weights += weight;
    }
    if (missing.empty())
      out.categories.emplace_back(category.name, sum / weights);
    else
      out.missing.emplace_back(category.name, missing);
  }
  for (auto const& [name, members] : config.averages) {
    double sum = 0;
    int count = 0;
    for (auto const& [category, score] : out.categories)
      if (std::ranges::find(members, category) != members.end()) {
        sum += score;
        ++count;
      }
    out.averages.emplace_back(name, count > 0 ? sum / count : 0.0);
  }
  return out;
}

}  // namespace mpt::eval
