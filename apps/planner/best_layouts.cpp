#include <planner/best_layouts.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include <mpt/plan/layouts.hpp>

#include <cli/with_element.hpp>

namespace apps {
namespace {

/// The layouts whose variations are tried.
constexpr std::size_t varied_layouts = 8;

/// Sorts by time, then memory. Of several that are equal in both, the first that was tried stays:
/// the one with the lowest ZeRO stage.
void sort_by_time(std::vector<candidate>& found) {
  auto const time_and_memory = [](candidate const& c) {
    return std::pair(c.prediction.seconds, c.plan.memory.total());
  };
  std::ranges::stable_sort(found, {}, time_and_memory);
  auto const is_repeated = [&](candidate const& a, candidate const& b) {
    return time_and_memory(a) == time_and_memory(b);
  };
  found.erase(std::unique(found.begin(), found.end(), is_repeated), found.end());
}

/// Whether the host has room for what a plan moves there; true where its memory is not known.
[[nodiscard]] bool fits_on_host(mpt::run_plan const& plan,
                                parallel::cluster::cluster const& machines) {
  auto const room = machines.host_memory_of_device();
  return room == 0 || plan.memory.offloaded <= room;
}

/// Whether a candidate takes less time, or as much with less memory.
[[nodiscard]] bool is_better(candidate const& one, candidate const& other) {
  return std::pair(one.prediction.seconds, one.plan.memory.total()) <
         std::pair(other.prediction.seconds, other.plan.memory.total());
}

/// Looks for the fastest settings of a run: every layout, then the variations of the best, one
/// kind after another, each of the best settings so far.
class layout_search {
 public:
  layout_search(training_file& source, std::vector<std::string> const& overrides,
                parallel::cluster::cluster const& machines)
      : source_(source), overrides_(overrides), machines_(machines) {}

  /// The candidates that fit, the fastest first. `additions`: settings of every one.
  [[nodiscard]] std::vector<candidate> search(mpt::settings const& additions) && {
    for (auto const& layout : layout_settings(load_plan(source_, overrides_), machines_))
      try_layout(mpt::with_changes(layout, additions));
    sort_by_time(found_);
    for (auto const& start : starts()) improve(start);
    sort_by_time(found_);
    return std::move(found_);
  }

 private:
  /// The candidate with these settings; none if it has been tried or cannot be.
  [[nodiscard]] std::optional<candidate> predict(mpt::settings const& settings) {
    if (!tried_.insert(settings).second) return std::nullopt;
    try {
      return predict_settings(source_, overrides_, settings, machines_);
    } catch (parallel::error const&) {  // a layout that the model or another rule forbids
      return std::nullopt;
    }
  }

  /// Adds a layout, if it fits, or else with the first settings that make it fit.
  void try_layout(mpt::settings const& layout) {
    auto tried = predict(layout);
    if (tried && !tried->fits && states_fit(*tried))
      for (auto const& changes : roomier_settings(tried->config)) {
        tried = predict(mpt::with_changes(layout, changes));
        if (!tried || tried->fits) break;
      }
    if (tried && tried->fits) found_.push_back(*std::move(tried));
  }

  /// Whether there is room for all but activations.
  [[nodiscard]] static bool states_fit(candidate const& c) {
    return c.plan.memory.total() - c.plan.memory.activations < c.plan.available;
  }

  /// The layouts to vary: the best, and the best with a pipeline.
  [[nodiscard]] std::vector<candidate> starts() const {
    std::vector<candidate> out(
        found_.begin(),
        found_.begin() + static_cast<std::ptrdiff_t>(std::min(varied_layouts, found_.size())));
    auto const has_pipeline = [](candidate const& c) {
      return c.config.execution.parallelism.pipeline > 1;
    };
    auto const pipelined = std::ranges::find_if(found_, has_pipeline);
    if (pipelined != found_.end() && std::ranges::none_of(out, has_pipeline))
      out.push_back(*pipelined);
    return out;
  }

  void improve(candidate best) {
    for (auto const kind : mpt::variations) {
      auto const current = best;
      for (auto const& changes : alternatives(kind, current.config, machines_)) {
        auto tried = predict(mpt::with_changes(current.settings, changes));
        if (!tried || !tried->fits) continue;
        found_.push_back(*tried);
        if (is_better(*tried, best)) best = *std::move(tried);
      }
    }
  }

  training_file& source_;
  std::vector<std::string> const& overrides_;
  parallel::cluster::cluster const& machines_;
  std::set<mpt::settings> tried_;
  std::vector<candidate> found_;
};

}  // namespace

mpt::train_config load_plan(training_file& source, std::vector<std::string> overrides) {
  overrides.emplace_back("dry_run=true");  // weights of the hub are not downloaded
  auto out = source.load(overrides);
  out.run.dry_run = false;
  return out;
}

candidate predict_settings(training_file& source, std::vector<std::string> const& overrides,
                           mpt::settings settings, parallel::cluster::cluster const& machines) {
  auto with_settings = overrides;
  with_settings.insert(with_settings.end(), settings.begin(), settings.end());
  candidate out{.settings = std::move(settings), .config = load_plan(source, with_settings)};
  int const ranks = machines.devices();
  shard_within(out.config.execution.parallelism, ranks, machines.devices_on_node);
  with_element(out.config.execution.precision, [&]<class T>(T) {
    out.plan = mpt::plan_run<T>(out.config, ranks, machines.available_memory(),
                                std::size_t{machines.host_memory_of_device()});
    out.fits = mpt::fits(out.plan) && fits_on_host(out.plan, machines);
    if (out.fits) out.prediction = mpt::predict_run<T>(out.config, out.plan, machines);
  });
  return out;
}

std::vector<candidate> best_layouts(training_file& source,
                                    std::vector<std::string> const& overrides,
                                    parallel::cluster::cluster const& machines) {
  auto found = layout_search(source, overrides, machines).search({});
  if (!found.empty()) return found;
  return layout_search(source, overrides, machines).search({"offload_optimizer=true"});
}

}  // namespace apps
