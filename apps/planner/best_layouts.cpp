#include <planner/best_layouts.hpp>

#include <algorithm>
#include <utility>

#include <mpt/plan/layouts.hpp>

#include <cli/with_element.hpp>

namespace apps {
namespace {

/// The layouts whose variations are tried.
constexpr std::size_t varied_layouts = 12;

/// Adds the run with additional settings if it can be and fits.
void add_if_it_fits(std::vector<candidate>& found, training_file& source,
                    std::vector<std::string> const& overrides, mpt::settings const& settings,
                    parallel::cluster::cluster const& machines) {
  try {
    auto tried = predict_settings(source, overrides, settings, machines);
    if (fits(tried.plan)) found.push_back(std::move(tried));
  } catch (parallel::error const&) {  // a layout that the model or another rule forbids
  }
}

/// Sorts by time, then memory. Of several that are equal in both, the first that was tried stays:
/// the one with the lowest ZeRO stage.
void sort_by_time(std::vector<candidate>& found) {
  auto const time_and_memory = [](candidate const& c) {
    return std::pair(c.prediction.seconds, c.plan.memory.total());
  };
  std::ranges::stable_sort(found, {}, time_and_memory);
  auto const repeated = std::ranges::unique(found, {}, time_and_memory);
  found.erase(repeated.begin(), repeated.end());
}

}  // namespace

candidate predict_settings(training_file& source, std::vector<std::string> const& overrides,
                           mpt::settings settings, parallel::cluster::cluster const& machines) {
  auto with_settings = overrides;
  with_settings.insert(with_settings.end(), settings.begin(), settings.end());
  candidate out{.settings = std::move(settings), .config = source.load(with_settings)};
  int const ranks = machines.devices();
  shard_within(out.config.execution.parallelism, ranks, machines.devices_on_node);
  with_element(out.config.execution.precision, [&]<class T>(T) {
    out.plan = mpt::plan_run<T>(out.config, ranks, machines.available_memory(), std::size_t{0});
    if (fits(out.plan)) out.prediction = mpt::predict_run<T>(out.config, out.plan, machines);
  });
  return out;
}

std::vector<candidate> best_layouts(training_file& source,
                                    std::vector<std::string> const& overrides,
                                    parallel::cluster::cluster const& machines) {
  std::vector<candidate> found;
  for (auto const& settings : layout_settings(source.load(overrides), machines))
    add_if_it_fits(found, source, overrides, settings, machines);
  sort_by_time(found);
  std::vector<candidate> varied;
  for (std::size_t i = 0; i < std::min(varied_layouts, found.size()); ++i)
    for (auto const& settings : variations_of(found[i].settings, found[i].config))
      add_if_it_fits(varied, source, overrides, settings, machines);
  std::ranges::move(varied, std::back_inserter(found));
  sort_by_time(found);
  return found;
}

}  // namespace apps
