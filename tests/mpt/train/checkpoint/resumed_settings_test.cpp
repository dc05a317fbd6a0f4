#include <doctest/doctest.h>

#include <mpt/train/checkpoint/resumed_settings.hpp>

namespace {

nlohmann::json settings_of(mpt::train_config const& config) {
  return mpt::changeable_settings(config.model, config.optimizer, config.execution);
}

TEST_CASE("resumed run: equal settings need no note") {
  mpt::train_config const config;
  auto const settings = settings_of(config);
  CHECK_FALSE(mpt::describe_changed_settings(settings, settings).has_value());
}

TEST_CASE("resumed run: every changed setting is named with both values") {
  mpt::train_config saved;
  saved.optimizer.lr = 0.01;
  auto changed = saved;
  changed.optimizer.lr = 0.001;
  changed.model.resid_pdrop = 0.25;
  changed.optimizer.scheduler.t_warmup = {5, mpt::time_unit::batch};
  auto const note = mpt::describe_changed_settings(settings_of(saved), settings_of(changed));
  REQUIRE(note.has_value());
  CHECK(*note ==
        "note: this run goes on with settings that its checkpoint was not trained with: "
        "model.resid_pdrop (was 0.0, now 0.25), optimizer.lr (was 0.01, now 0.001), "
        "scheduler.t_warmup (was \"0ba\", now \"5ba\")");
}

TEST_CASE("resumed run: settings that the checkpoint lacks are not reported as changed") {
  mpt::train_config const config;
  auto const settings = settings_of(config);
  CHECK_FALSE(mpt::describe_changed_settings(nlohmann::json(), settings).has_value());
  auto partial_settings = settings;
  partial_settings.erase("optimizer.lr");
  CHECK_FALSE(mpt::describe_changed_settings(partial_settings, settings).has_value());
}

}  // namespace
