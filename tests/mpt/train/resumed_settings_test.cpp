#include <doctest/doctest.h>

#include <mpt/train/resumed_settings.hpp>

namespace {

TEST_CASE("resumed run: equal settings need no note") {
  mpt::train_config const config;
  auto const settings = mpt::changeable_settings(config);
  CHECK_FALSE(mpt::describe_changed_settings(settings, settings).has_value());
}

TEST_CASE("resumed run: every changed setting is named with both values") {
  mpt::train_config before;
  before.optimizer.lr = 0.01;
  auto after = before;
  after.optimizer.lr = 0.001;
  after.model.resid_pdrop = 0.25;
  after.scheduler.t_warmup = {5, mpt::time_unit::batch};
  auto const note = mpt::describe_changed_settings(mpt::changeable_settings(before),
                                                   mpt::changeable_settings(after));
  REQUIRE(note.has_value());
  CHECK(*note ==
        "note: this run goes on with settings that its checkpoint was not trained with: "
        "model.resid_pdrop (was 0.0, now 0.25), optimizer.lr (was 0.01, now 0.001), "
        "scheduler.t_warmup (was \"0ba\", now \"5ba\")");
}

TEST_CASE("resumed run: a checkpoint without settings, or with fewer, is no difference") {
  mpt::train_config const config;
  auto const settings = mpt::changeable_settings(config);
  CHECK_FALSE(mpt::describe_changed_settings(nlohmann::json(), settings).has_value());
  auto fewer = settings;
  fewer.erase("optimizer.lr");
  CHECK_FALSE(mpt::describe_changed_settings(fewer, settings).has_value());
}

}  // namespace
