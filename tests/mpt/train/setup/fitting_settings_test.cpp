#include <doctest/doctest.h>

#include <mpt/train/setup/fitting_settings.hpp>

namespace fitting_settings_test {

TEST_CASE("fitting settings: candidates grow in cost, and each is what a command line takes") {
  mpt::train_config config;
  config.data.device_train_microbatch_size = 4;
  config.execution.zero_stage = 1;
  using candidates = std::vector<mpt::settings>;
  std::string const micro = "device_train_microbatch_size=auto";
  std::string const recompute = "fsdp_config.activation_checkpointing=true";
  CHECK(mpt::memory_saving_settings(config.data, config.execution, 8, false, 16) ==
        candidates{{micro},
                   {micro, "zero_stage=2"},
                   {micro, "zero_stage=3"},
                   {micro, "zero_stage=1", recompute},
                   {micro, "zero_stage=3", recompute},
                   {micro, "ranks=16", "zero_stage=3"},
                   {micro, "ranks=16", "zero_stage=3", recompute}});
}

TEST_CASE(
    "fitting settings: a device with its own memory leaves the optimizer's states to the host") {
  mpt::train_config config;
  config.execution.zero_stage = 3;
  std::string const recompute = "fsdp_config.activation_checkpointing=true";
  CHECK(mpt::memory_saving_settings(config.data, config.execution, 8, true, 8) ==
        std::vector<mpt::settings>{{"zero_stage=3", recompute},
                                   {"zero_stage=3", "offload_optimizer=true"},
                                   {"zero_stage=3", "offload_optimizer=true", recompute}});
  config.execution.offload_optimizer = true;
  CHECK(mpt::memory_saving_settings(config.data, config.execution, 8, true, 8) ==
        std::vector<mpt::settings>{{"zero_stage=3", recompute}});
}

TEST_CASE("fitting settings: settings that a run already has are not tried again") {
  mpt::train_config config;  // the microbatch is automatic
  config.execution.zero_stage = 3;
  config.execution.recompute = mpt::block_recomputation(2);
  CHECK(mpt::memory_saving_settings(config.data, config.execution, 8, false, 8).empty());
  CHECK(mpt::memory_saving_settings(config.data, config.execution, 8, false, 32) ==
        std::vector<mpt::settings>{{"ranks=16"}, {"ranks=32"}});
  config.execution.recompute.reset();
  config.execution.zero_stage = 0;  // one rank shards nothing
  CHECK(mpt::memory_saving_settings(config.data, config.execution, 1, false, 1) ==
        std::vector<mpt::settings>{{"zero_stage=0", "fsdp_config.activation_checkpointing=true"}});
}

TEST_CASE("fitting settings: the first candidate that fits is returned") {
  std::vector<mpt::settings> const candidates{{"a=1"}, {"a=1", "b=2"}, {"c=3"}};
  CHECK(mpt::settings_that_fit(
            candidates, [](auto const& settings) { return settings.size() == 2; }) == "a=1 b=2");
  CHECK(mpt::settings_that_fit(candidates, [](auto const&) { return false; }).empty());
}

}  // namespace fitting_settings_test
